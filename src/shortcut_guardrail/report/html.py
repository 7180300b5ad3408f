"""Results as one self-contained HTML page: no network, no build step, readable without its script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

from ..display import template
from ..review import make_deck
from ..saving import what_labels_said
from .charts import AXIS
from .view import (
    audit_view,
    calibration_curve,
    compared_candidates,
    comparison_lead,
    distributions,
    group_rows,
    score_rows,
    share,
)

if TYPE_CHECKING:
    from ..audit import GateOutcome
    from ..decisions import Decisions

Document = Mapping[str, Any]

COLUMNS = (
    ("rank", "rank", "asc"),
    ("text", "candidate", "asc"),
    ("count", "texts", "desc"),
    ("flip_rate", "flip rate", "desc"),
    ("mean_change", "mean change", "asc"),
    ("contradiction_rate", "contradicted", "desc"),
    ("pulls", "pulls to", "asc"),
    ("q_value", "q-value", "asc"),
)
"""Columns of the table of candidates: key, heading, and the direction in which they are sorted first."""


class Result(Protocol):
    """A finished result, such as `AuditReport`, `Evaluation` or `Calibration`."""

    def to_dict(self) -> dict[str, Any]:
        """Its numbers, JSON-ready."""


def render_audit(
    audit: Result | Document,
    *,
    title: str = "Shortcut audit",
    subtitle: str = "",
    redact: bool = False,
    decisions: Decisions | None = None,
) -> str:
    """The page of one audit: summary, ranked candidates with their evidence, heat-maps, sensitivity.

    Everything that came from data is escaped; the page makes no network request.

    Args:
        audit: The report, or the content of its `audit.json`.
        title: Heading of the page.
        subtitle: A line below it, such as which model and which texts.
        redact: Leave the texts out.
        decisions: On its cards, which then say what was decided, by people, flips or a second opinion.
    """
    decided = None if decisions is None else {card.id: card.said for card in decisions.cards}
    return _render(title=title, subtitle=subtitle, audits={"model": audit}, redact=redact, decided=decided)


def render_comparison(
    *,
    title: str,
    introduction: Sequence[str],
    evaluations: Mapping[str, Result | Document],
    audits: Mapping[str, Result | Document],
    calibration: Result | Document | None,
    certificate: Document | None = None,
    notes: Sequence[str] = (),
    subtitle: str = "",
    redact: bool = False,
) -> str:
    """A page that sets models side by side: scores, groups, calibration curve, certificate, and what each leans on.

    The full table of candidates is that of the first audit. Everything that came from data is escaped; the page makes
    no network request.

    Args:
        title: Heading of the page.
        introduction: Paragraphs at the top.
        evaluations: Scores on the same rows, by the name of the model; may be empty.
        audits: Audits of the same texts, by the name of the model; may be empty.
        calibration: How the strength was chosen.
        certificate: What was certified about the strengths, as `Certificate.to_dict` gives it.
        notes: Paragraphs at the end.
        subtitle: A line below the heading.
        redact: Leave the texts out.
    """
    return _render(
        title=title,
        subtitle=subtitle,
        introduction=introduction,
        evaluations=evaluations,
        audits=audits,
        calibration=calibration,
        certificate=certificate,
        notes=notes,
        redact=redact,
    )


def render_change(
    old: Result | Document,
    new: Result | Document,
    *,
    outcome: GateOutcome,
    names: tuple[str, str] = ("old", "new"),
    introduction: Sequence[str] = (),
    redact: bool = False,
) -> str:
    """A page on the way from one audit to the next: what the gate found, and both side by side.

    Args:
        old: The earlier audit.
        new: The later one, whose candidates are listed in full.
        outcome: What `audit.check_limits` found.
        names: What the two are called, different names.
        introduction: Paragraphs at the top.
        redact: Leave the texts out.
    """
    return _render(
        title="Shortcut audit: what changed",
        introduction=introduction,
        audits={names[0]: old, names[1]: new},
        main=names[1],
        outcome_of_gate=outcome,
        redact=redact,
    )


def _render(
    *,
    title: str,
    audits: Mapping[str, Result | Document],
    subtitle: str = "",
    introduction: Sequence[str] = (),
    evaluations: Mapping[str, Result | Document] | None = None,
    calibration: Result | Document | None = None,
    certificate: Document | None = None,
    notes: Sequence[str] = (),
    main: str | None = None,
    outcome_of_gate: GateOutcome | None = None,
    redact: bool = False,
    decided: Mapping[str, str] | None = None,
) -> str:
    of_audits = {name: _document(audit) for name, audit in audits.items()}
    of_scores = {name: _document(evaluation) for name, evaluation in (evaluations or {}).items()}
    first_name = main or next(iter(of_audits), "")
    audit = audit_view(of_audits[first_name], redact=redact, decided=decided) if of_audits else None
    compared = compared_candidates(of_audits) if len(of_audits) > 1 else []
    strength = None if calibration is None else _document(calibration)
    deck = _deck(of_audits[first_name]) if len(of_audits) == 1 and not redact else None
    page: str = template("report/page.html.j2").render(
        title=title,
        subtitle=subtitle,
        introduction=introduction,
        lead=comparison_lead(of_scores, of_audits),
        contents=_contents(
            audit,
            scores=bool(of_scores),
            strength=strength is not None,
            certificate=certificate is not None,
            compared=bool(compared),
        ),
        audit=audit,
        audits=of_audits,
        first_name=first_name,
        columns=COLUMNS,
        distributions=distributions(of_audits) if of_audits else [],
        evaluations=of_scores,
        scores=score_rows(of_scores) if of_scores else [],
        groups=group_rows(of_scores),
        compared=compared,
        calibration=strength,
        labels_said="" if strength is None else what_labels_said(strength),
        curve=None if strength is None else calibration_curve(strength),
        certificate=certificate,
        outcome_of_gate=outcome_of_gate,
        notes=notes,
        redacted=redact,
        version=version("shortcut-guardrail"),
        deck=deck,
        value=_value,
        share=share,
        axis=AXIS,
        **_own_files("report", *(["review"] if deck else [])),
    )
    # Half of a surrogate pair, which JSON can hold, cannot be written as UTF-8.
    return page.lstrip().encode("utf-8", "replace").decode("utf-8")


def render_review() -> tuple[str, str]:
    """The page of a review with a server: it holds no data, and asks the server for it.

    Returns:
        The page, and its content security policy.
    """
    own = _own_files("review", style_of="report")
    policy = (
        f"default-src 'none'; style-src '{own['style_hash']}'; script-src '{own['script_hash']}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return template("report/review.html.j2").render(version=version("shortcut-guardrail"), **own), policy


def _deck(audit: Document) -> Document | None:
    """The cards to decide on the page; none for an audit without their texts."""
    flips = [flip for card in audit["cards"] for flip in card["flips"]]
    if not flips or any(flip["text"] is None for flip in flips):
        return None
    return make_deck(audit).to_dict()


_FILES = {"report": (__package__, "page"), "review": (f"{__package__.rpartition('.')[0]}.review", "review")}


def _own_files(*rooms: str, style_of: str = "") -> dict[str, str]:
    """Our own styles and scripts, in which nothing comes from data; the policy of the page lets nothing else run.

    Args:
        rooms: Whose.
        style_of: A room whose style alone comes before.
    """
    from markupsafe import Markup

    style = "\n".join(_asset(room, "css") for room in (style_of, *rooms) if room)
    script = "\n".join(_asset(room, "js") for room in rooms)
    return {
        "style": Markup(style),
        "script": Markup(script),
        "style_hash": _hash(style),
        "script_hash": _hash(script),
    }


def _document(result: Result | Document) -> Document:
    return result if isinstance(result, Mapping) else result.to_dict()


def _contents(audit: Any, *, scores: bool, strength: bool, certificate: bool, compared: bool) -> list[tuple[str, str]]:
    """Anchors and names of the sections that the page has."""
    sections = (
        ("summary", "Summary", True),
        ("cards", "Cards", audit is not None and bool(audit["cards"])),
        ("scores", "Scores", scores),
        ("strength", "Strength", strength),
        ("certificate", "Certificate", certificate),
        ("comparison", "Comparison", compared),
        ("candidates", "Candidates", audit is not None),
        ("texts", "Texts", audit is not None and bool(audit["texts"])),
        ("sensitivity", "Sensitivity", audit is not None),
        ("words", "What the words mean", audit is not None),
    )
    return [(anchor, name) for anchor, name, there in sections if there]


def _asset(room: str, kind: str) -> str:
    package, name = _FILES[room]
    return files(package).joinpath(f"{name}.{kind}").read_text(encoding="utf-8")


def _hash(content: str) -> str:
    """What a content security policy knows an inline style or script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _value(value: float | None) -> str:
    """A number in an attribute, by which the script sorts; empty where it is undefined."""
    return "" if value is None else f"{value:.6g}"
