"""What the page shows, made from finished results: sentences, rows and the places of marks, and no new numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ..display import interval, number, p_value, percent, template
from ..metrics import GroupAccuracy, fold_groups
from ..review import is_punctuation
from ..text import visible_name
from .charts import histogram, meter
from .defaults import defaults_said
from .findings import findings
from .insertions import LEGEND, added_rate, added_rate_of_card, insertions_said
from .marked_text import marked_pieces
from .terminal import METRIC_ROWS, company_note, erasures_tried, first_names, open_questions, spent

Document = Mapping[str, Any]

MOST_CANDIDATES = 200
"""Candidates on the page; flagged ones are shown beyond it. More of them are in audit.json."""

CARD_WORDS = 20
"""Words of a card on the page; more of them are in audit.json."""

MOST_TEXTS = 12
"""Texts in the section of heat-maps."""

COMPARED_CANDIDATES = 12
"""Candidates of each model in the comparison."""


def audit_view(document: Document, *, redact: bool, decided: Mapping[str, str]) -> Document:
    """An audit as the page shows it.

    Args:
        document: `AuditReport.to_dict()`.
    """
    listed = [
        _candidate(rank, candidate, redact)
        for rank, candidate in enumerate(document["candidates"], 1)
        if rank <= MOST_CANDIDATES or candidate["flagged"]
    ]
    flagged = [candidate for candidate in listed if candidate["flagged"]]
    unit: str = document["unit"]
    agreement = document["agreement"]
    return {
        "document": document,
        "summary": _summary(document, listed, flagged),
        "found": findings(document),
        "cards": [
            _card(card, decided.get(card["id"], ""), document)
            for card in document["cards"]
            if card["evidence"]["status"] == "flagged" or not is_punctuation(card["words"])
        ],
        "candidates": listed,
        "flagged": flagged,
        "answers": [
            (label, count, _percent(count / document["n"] if document["n"] else None))
            for label, count in document["predicted"].items()
        ],
        "pushes": sorted(
            {candidate["pushes_towards"] for candidate in listed if candidate["pushes_towards"] is not None}
        ),
        "texts": list(_texts(listed)),
        "agreement": histogram(agreement["histogram"], low=-1, high=1, mean=agreement["mean"]),
        # An audit of phrases is one of words, some of which are also masked together.
        "unit": "token" if unit == "token" else "word",
        "defaults": defaults_said(document),
        "legend": LEGEND,
        "erasures": [*insertions_said(document), *erasures_tried(document), *spent(document)],
        "units": {"token": "tokens", "word": "words", "phrase": "words and phrases"}[unit],
        "unit_or_phrase": {"phrase": "word or phrase"}.get(unit, unit),
    }


def _summary(document: Document, listed: Sequence[Document], flagged: Sequence[Document]) -> str:
    """The finding in a sentence or two, and what is undecided."""
    names = {"first_names": first_names, "company_note": company_note, "open": open_questions(listed)}
    said = template("report/summary.j2").render(audit=document, listed=listed, flagged=flagged, **names)
    return " ".join(said.split())


def _candidate(rank: int, candidate: Document, redact: bool) -> Document:
    """A row of the table of candidates and what opens below it."""
    intervals, tested, reason = candidate["interval"], candidate["p_value"] is not None, candidate["reason"] or ""
    return {
        **candidate,
        "rank": rank,
        "name": visible_name(candidate["text"]),
        "badge": _badge(candidate),
        "doubt": f"{reason[0].upper()}{reason[1:]}." if reason else "",
        "flip_rate": _rate(candidate["flip_rate"], intervals["flip_rate"]),
        "added": added_rate(candidate),
        "added_rate": (candidate.get("insertion") or {}).get("flip_rate"),
        "mean_change": _rate(candidate["mean_change"], intervals["mean_change"], signed=True),
        "override_rate": _rate(candidate["override_rate"], intervals["override_rate"]),
        "opposed_rate": _rate(candidate["opposed_rate"]),
        "expected_rate": _rate(candidate["expected_rate"]),
        "relative_effect": _rate(candidate["relative_effect"]),
        "q_value": candidate["q_value"] if tested else None,
        "q_shown": p_value(candidate["q_value"]) if tested else "not tested",
        "examples": [_example(example, redact) for example in candidate["examples"]],
    }


def _card(card: Document, decided: str, document: Document) -> Document:
    """A row of the table of cards."""
    status = card["evidence"]["status"]
    return {
        **card,
        "names": [visible_name(word) for word in card["words"][:CARD_WORDS]],
        "n_more": max(0, len(card["words"]) - CARD_WORDS),
        "share": _percent(card["share"], 1),
        "added": added_rate_of_card(card, document),
        "badge": "" if status == "not_flagged" else status,
        "decided": decided,
    }


def _badge(candidate: Document) -> str:
    """What is said of it beside its name; nothing of most."""
    if candidate["alternative_wording"]:
        return "alternative wording"
    if candidate["collective"]:
        return "together"
    return "" if candidate["status"] == "not_flagged" else str(candidate["status"])


def _rate(value: float | None, between: Sequence[float | None] = (None, None), *, signed: bool = False) -> Document:
    """A number with its interval and bar; a dash where it is undefined."""
    low, high = between
    shown = ""
    if low is not None and high is not None:
        shown = f"{low:+.2f} to {high:+.2f}" if signed else interval(low, high)
    bar = meter(value, between, signed=signed)
    return {"value": value, "shown": number(value, signed=signed), "interval": shown, "meter": bar}


def _percent(value: float | None, digits: int = 0) -> Document:
    return {"shown": "-" if value is None else percent(value, digits), "interval": "", "meter": meter(value)}


def _example(example: Document, redact: bool) -> Document:
    """A text before and after a candidate is masked; without `sides` where texts are left out."""
    return {
        **example,
        "sides": [] if redact or example["text"] is None else list(_sides(example)),
        "probability": f"{example['probability']:.2f}",
        "masked_probability": f"{example['masked_probability']:.2f}",
        "flips": example["label"] != example["masked_label"],
        "change": number(example["change"], signed=True),
    }


def _sides(example: Document) -> Iterator[Document]:
    """The text, or both of a pair, each with its name and cut into pieces."""
    named = {key: example[key] for key in ("start", "end", "change")}
    named["flips"] = example["label"] != example["masked_label"]
    for segment, (key, name) in enumerate((("text", "text"), ("text_pair", "second text"))):
        if example[key] is not None:
            here = named if example["segment"] == segment else None
            pieces = marked_pieces(example[key], example["important"], segment=segment, named=here)
            yield {"name": name if example["text_pair"] is not None else "", "pieces": pieces}


def _texts(candidates: Sequence[Document]) -> Iterator[tuple[str, Document]]:
    """Different texts with the largest effects, taking turns between candidates so that one does not fill the list."""
    seen: set[int] = set()
    turns = zip_longest(*(candidate["examples"] for candidate in candidates[:MOST_TEXTS]))
    for name, example in ((c["name"], example) for turn in turns for c, example in zip(candidates, turn, strict=False)):
        if example and example["sides"] and example["index"] not in seen and len(seen) < MOST_TEXTS:
            seen.add(example["index"])
            yield name, example


def distributions(audits: Mapping[str, Document]) -> list[Document]:
    """MSTPS of each model, and the distribution of its sensitivity text by text, all with the same axes."""
    most = max((max(document["sensitivity_histogram"]) for document in audits.values()), default=0)
    return [
        {
            "name": name,
            "mstps": number(one["mstps"]),
            "chart": histogram(one["sensitivity_histogram"], low=0, high=1, mean=one["mstps"], most=most),
        }
        for name, one in audits.items()
    ]


def compared_candidates(audits: Mapping[str, Document]) -> list[Document]:
    """The highest-ranked candidates of each model, and how often masking them changes its answers; `None` where one is
    no candidate."""
    chosen = dict.fromkeys(
        candidate["text"]
        for document in audits.values()
        for rank, candidate in enumerate(document["candidates"])
        if rank < COMPARED_CANDIDATES or candidate["flagged"]
    )
    by_text = [
        # Reversed, so that the highest-ranked of equal names stays.
        {one["text"]: _rate(one["flip_rate"], one["interval"]["flip_rate"]) for one in reversed(document["candidates"])}
        for document in audits.values()
    ]
    return [{"name": visible_name(text), "rates": [found.get(text) for found in by_text]} for text in chosen]


def comparison_lead(evaluations: Mapping[str, Document], audits: Mapping[str, Document]) -> str:
    """What changes from the first model to the last one, in a sentence; empty where there is only one."""
    documents = list(evaluations.items()) if len(evaluations) > 1 else list(audits.items())
    if len(documents) < 2:
        return ""
    (first, old), (last, new) = documents[0], documents[-1]
    keys = ("accuracy", "worst_group_accuracy", "mstps") if "accuracy" in old else ("mstps",)
    shown = [f"{label} {number(old[key])} to {number(new[key])}" for label, key in METRIC_ROWS if key in keys]
    return f"From {first} to {last}: {', '.join(shown)}."


def score_rows(evaluations: Mapping[str, Document]) -> list[tuple[str, list[str]]]:
    """One row for each score, one cell for each model."""
    rows = [(label, [number(e[key]) for e in evaluations.values()]) for label, key in METRIC_ROWS]
    found = [evaluation["shortcut_token_recall"] for evaluation in evaluations.values()]
    for k in found[0] if found else ():
        cells = [f"{number(one[k]['recall'])} (chance {number(one[k]['chance'])})" for one in found]
        rows.append((f"shortcut token recall at {k}", cells))
    return rows


def group_rows(evaluations: Mapping[str, Document]) -> list[Document]:
    """One row for each group, with its accuracy in every model."""
    nan = math.nan
    read = [
        [
            GroupAccuracy(one["name"], one["n"], one["accuracy"] if one["n"] else nan, one["interval"] or (nan, nan))
            for one in evaluation["groups"]
        ]
        for evaluation in evaluations.values()
    ]
    return [
        {
            "name": row[0].name,
            "n": row[0].n,
            "rates": [_rate(one.accuracy, one.interval) if one.n else _rate(None, (None, None)) for one in row],
        }
        for row in fold_groups(read)
    ]
