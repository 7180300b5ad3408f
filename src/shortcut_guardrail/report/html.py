"""Results as one self-contained HTML page: no network, no build step, readable without its script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..decisions import AuditedCards
from ..display import template
from ..review import is_punctuation, make_deck
from .charts import AXIS
from .view import audit_view, compared_candidates, comparison_lead, distributions, group_rows, score_rows

if TYPE_CHECKING:
    from ..audit import AuditReport
    from ..decisions import Decisions
    from ..evaluation import Evaluation

Document = Mapping[str, Any]

COLUMNS = (
    ("rank", "rank", "asc"),
    ("text", "candidate", "asc"),
    ("count", "texts", "desc"),
    ("flip_rate", "flip rate", "desc"),
    ("added_rate", "added", "desc"),
    ("mean_change", "mean change", "asc"),
    ("override_rate", "overrides", "desc"),
    ("pushes", "pushes towards", "asc"),
    ("q_value", "q-value", "asc"),
)
"""Columns of the table of candidates: key, heading, and the direction in which they are sorted first."""


def render_audit(
    audit: AuditReport | Document,
    *,
    redact: bool = False,
    decisions: Decisions | None = None,
) -> str:
    """The page of one audit: summary, ranked candidates with their evidence, heat-maps, sensitivity.

    Everything that came from data is escaped; the page makes no network request.

    Args:
        audit: The report, or the content of its `audit.json`.
        decisions: On its word groups, which then show what was decided, by people, their answers or a second model.
    """
    decided = {} if decisions is None else {card.id: card.said for card in decisions.cards}
    return render_comparison({"model": audit}, title="Shortcut audit", redact=redact, decided=decided)


_NOT_SHOWN: Document = {"subtitle": "", "introduction": (), "certificate": None, "notes": (), "outcome_of_gate": None}


def render_comparison(
    audits: Mapping[str, AuditReport | Document] = MappingProxyType({}),
    evaluations: Mapping[str, Evaluation] = MappingProxyType({}),
    *,
    title: str,
    main: str | None = None,
    redact: bool = False,
    decided: Mapping[str, str] = MappingProxyType({}),
    **shown: Any,
) -> str:
    """A page that sets models side by side: scores, groups, certificate, and what each depends on.

    Everything that came from data is escaped; the page makes no network request.

    Args:
        audits: Audits of the same texts, by the name of the model.
        evaluations: Scores on the same rows, by the name of the model.
        main: The audit whose candidates are listed in full, if it is not the first.
        decided: By word group, what was decided.
        shown: `subtitle`, a line; `introduction` and `notes`, paragraphs at the top and the end; `certificate`, as
            `Certificate.to_dict` gives it; `outcome_of_gate`, what `audit.check_limits` found.
    """
    documents: dict[str, Document] = {
        name: one if isinstance(one, Mapping) else one.to_dict() for name, one in audits.items()
    }
    scores = {name: evaluation.to_dict() for name, evaluation in evaluations.items()}
    first_name = main or next(iter(documents), "")
    deck = _deck(documents[first_name]) if len(documents) == 1 and not redact else None
    page: str = template("report/page.html.j2").render(
        **{**_NOT_SHOWN, **shown},
        title=title,
        lead=comparison_lead(scores, documents),
        audit=audit_view(documents[first_name], redact=redact, decided=decided) if documents else None,
        audits=documents,
        first_name=first_name,
        columns=COLUMNS,
        distributions=distributions(documents),
        evaluations=scores,
        scores=score_rows(scores),
        groups=group_rows(scores),
        compared=compared_candidates(documents) if len(documents) > 1 else [],
        redacted=redact,
        version=version("shortcut-guardrail"),
        deck=deck,
        axis=AXIS,
        **own_files("report", *(["review"] if deck else [])),
    )
    return page.lstrip()


def render_review() -> tuple[str, str]:
    """The page of a review with a server: it contains no data, and requests it from the server.

    Returns:
        The page, and its content security policy.
    """
    own = own_files("review")
    policy = (
        f"default-src 'none'; style-src '{own['style_hash']}'; script-src '{own['script_hash']}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return template("report/review.html.j2").render(version=version("shortcut-guardrail"), **own), policy


def _deck(audit: Document) -> Document | None:
    """The word groups to decide on the page; none without their texts, or where none is asked about."""
    flips = [flip for card in audit["cards"] for flip in card["flips"]]
    if not flips or any(flip["text"] is None for flip in flips):
        return None
    if all(is_punctuation(card.words) for card in AuditedCards.from_dict(audit).chosen("all")):
        return None
    return make_deck(audit).to_dict()


_FILES = {"report": (__package__, "page"), "review": (f"{__package__.rpartition('.')[0]}.review", "review")}


def own_files(*rooms: str, script: bool = True) -> dict[str, str]:
    """Our own scripts, and styles, those of reports first. Nothing in them comes from data, and the policy of the page
    lets nothing else run."""
    from markupsafe import Markup

    style = "\n".join(_asset(room, "css") for room in dict.fromkeys(("report", *rooms)))
    own = {"style": Markup(style), "style_hash": _hash(style)}
    if not script:
        return own
    code = "\n".join(_asset(room, "js") for room in rooms)
    return {**own, "script": Markup(code), "script_hash": _hash(code)}


def _asset(room: str, kind: str) -> str:
    package, name = _FILES[room]
    return files(package).joinpath(f"{name}.{kind}").read_text(encoding="utf-8")


def _hash(content: str) -> str:
    """What a content security policy knows an inline style or script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
