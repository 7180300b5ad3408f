"""What the page shows, made from finished results: sentences, rows and the places of marks, and no new numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..display import interval, number, p_value
from ..text import visible_name
from .charts import Curve, Histogram, Meter, curve, histogram, meter
from .marked_text import Piece, marked_pieces
from .terminal import METRIC_ROWS, company_note

Document = Mapping[str, Any]

MOST_CANDIDATES = 200
"""Candidates on the page; flagged ones are shown beyond it. More of them are in audit.json."""

CARD_WORDS = 20
"""Words of a card on the page; more of them are in audit.json."""

MOST_TEXTS = 12
"""Texts in the section of heat-maps."""

COMPARED_CANDIDATES = 12
"""Candidates of each model in the comparison."""


@dataclass(frozen=True)
class Rate:
    """A number with its interval and bar; a dash where it is undefined."""

    value: float | None
    shown: str
    interval: str
    meter: Meter | None


@dataclass(frozen=True)
class Side:
    """One side of an input (the text, or its pair), cut into pieces."""

    name: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class ExampleView:
    """A text before and after a candidate is masked; without `sides` where texts are left out."""

    index: int
    sides: tuple[Side, ...]
    label: str
    probability: str
    masked_label: str
    masked_probability: str
    flips: bool
    change: str
    true_label: str | None


@dataclass(frozen=True)
class CandidateView:
    """A row of the table of candidates and what opens below it."""

    rank: int
    text: str
    name: str
    unit: str
    count: int
    n_distinct: int
    flagged: bool
    status: str
    badge: str
    doubt: str
    flip_rate: Rate
    mean_change: Rate
    contradiction_rate: Rate
    n_present: int
    opposed_rate: Rate
    expected_rate: Rate
    relative_effect: Rate
    pulls_to: str | None
    q_value: float | None
    q_shown: str
    examples: tuple[ExampleView, ...]
    labelled: Mapping[str, Any] | None


@dataclass(frozen=True)
class CardView:
    """A row of the table of cards."""

    id: str
    names: tuple[str, ...]
    n_more: int
    pulls_to: str
    texts: int
    changes: int
    share: Rate
    status: str
    badge: str
    decided: str


@dataclass(frozen=True)
class AuditView:
    """An audit as the page shows it."""

    document: Document
    summary: str
    cards: tuple[CardView, ...]
    candidates: tuple[CandidateView, ...]
    n_candidates: int
    flagged: tuple[CandidateView, ...]
    answers: tuple[tuple[str, str, str, Meter | None], ...]
    pulls: tuple[str, ...]
    texts: tuple[tuple[str, ExampleView], ...]
    agreement: Histogram | None
    unit: str
    units: str
    unit_or_phrase: str


def audit_view(document: Document, *, redact: bool = False, decided: Mapping[str, str] | None = None) -> AuditView:
    """An audit as the page shows it.

    Args:
        document: `AuditReport.to_dict()`.
        redact: Leave the texts out, also where the document has them.
        decided: By card, what was decided about it.
    """
    listed = [
        _candidate(rank, candidate, redact)
        for rank, candidate in enumerate(document["candidates"], 1)
        if rank <= MOST_CANDIDATES or candidate["flagged"]
    ]
    flagged = tuple(candidate for candidate in listed if candidate.flagged)
    unit: str = document["unit"]
    return AuditView(
        document=document,
        summary=_summary(document, listed, flagged) + _open_question(document, listed),
        cards=tuple(_card(card, (decided or {}).get(card["id"], "")) for card in document["cards"]),
        candidates=tuple(listed),
        n_candidates=document["n_candidates"],
        flagged=flagged,
        answers=tuple(_answers(document)),
        pulls=tuple(sorted({candidate.pulls_to for candidate in listed if candidate.pulls_to is not None})),
        texts=tuple(_texts(listed)),
        agreement=histogram(document["agreement"]["histogram"], low=-1, high=1, mean=document["agreement"]["mean"]),
        # An audit of phrases is one of words, some of which are also masked together.
        unit="token" if unit == "token" else "word",
        units={"token": "tokens", "word": "words", "phrase": "words and phrases"}[unit],
        unit_or_phrase={"phrase": "word or phrase"}.get(unit, unit),
    )


def _summary(document: Document, listed: Sequence[CandidateView], flagged: Sequence[CandidateView]) -> str:
    """The finding in a sentence or two."""
    n_tested, fdr = document["n_tested"], document["fdr"]
    if not n_tested:
        return (
            "No candidate could be tested: none occurs in enough distinct texts. The ranking below says what the "
            f"model leans on most, without a claim of significance.{_leading(listed)}"
        )
    tested = f"{n_tested} tested candidate{'' if n_tested == 1 else 's'}"
    if not flagged:
        return (
            f"None of the {tested} was shown to override the rest of the text more often than its context warrants "
            f"(false-discovery rate {fdr:.0%}). That is no proof that the model has no shortcut.{_leading(listed)}"
        )
    names = ", ".join(f"“{candidate.name}”" for candidate in flagged[:5]) + (", …" if len(flagged) > 5 else "")
    return (
        f"{len(flagged)} of {tested} overrid{'es' if len(flagged) == 1 else 'e'} the rest of the text more often than "
        f"context warrants (false-discovery rate {fdr:.0%}): {names}.{_leading(flagged)}"
    )


def _open_question(document: Document, listed: Sequence[CandidateView]) -> str:
    """What is undecided and what would tell, after a space; nothing where nothing is."""
    undecided = sorted((c for c in listed if c.status == "undecided"), key=lambda c: c.badge != "undecided")
    if not undecided:
        return ""
    n = document["n_undecided"]
    names = ", ".join(f"“{candidate.name}”" for candidate in undecided[:5]) + (", …" if n > 5 else "")
    tell = "what labels say of each is given with it" if undecided[0].labelled else "labels would tell, or more texts"
    return f" On {n} the test could not tell: {names}; {tell}.{company_note(document)}"


def _sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _leading(candidates: Sequence[CandidateView]) -> str:
    """What masking the first candidate does, after a space."""
    if not candidates:
        return ""
    first = candidates[0]
    pull = f"; it pulls to {first.pulls_to}" if first.pulls_to else ""
    role = "" if first.flagged else ", which ranks first,"
    return (
        f" Masking “{first.name}”{role} changes the answer in {share(first.flip_rate.value)} of {first.n_distinct} "
        f"text{'' if first.n_distinct == 1 else 's'}{pull}."
    )


def share(value: float | None) -> str:
    """A share as people say it."""
    return "an unknown share" if value is None else f"{value:.0%}"


def _candidate(rank: int, candidate: Document, redact: bool) -> CandidateView:
    intervals, q_value = candidate["interval"], candidate["q_value"]
    tested = candidate["p_value"] is not None
    return CandidateView(
        rank=rank,
        text=candidate["text"],
        name=visible_name(candidate["text"]),
        unit=candidate["unit"],
        count=candidate["count"],
        n_distinct=candidate["n_distinct"],
        flagged=candidate["flagged"],
        status=candidate["status"],
        badge=_badge(candidate),
        doubt=_sentence(candidate["reason"] or ""),
        flip_rate=_rate(candidate["flip_rate"], intervals["flip_rate"]),
        mean_change=_rate(candidate["mean_change"], intervals["mean_change"], signed=True),
        contradiction_rate=_rate(candidate["contradiction_rate"], intervals["contradiction_rate"]),
        n_present=candidate["n_present"],
        opposed_rate=_rate(candidate["opposed_rate"]),
        expected_rate=_rate(candidate["expected_rate"]),
        relative_effect=_rate(candidate["relative_effect"]),
        pulls_to=candidate["pulls_to"],
        q_value=q_value if tested else None,
        q_shown=p_value(q_value) if tested else "not tested",
        examples=tuple(_example(example, redact) for example in candidate["examples"]),
        labelled=candidate["labelled"],
    )


def _card(card: Document, decided: str) -> CardView:
    status = card["evidence"]["status"]
    return CardView(
        id=card["id"],
        names=tuple(visible_name(word) for word in card["words"][:CARD_WORDS]),
        n_more=max(0, len(card["words"]) - CARD_WORDS),
        pulls_to=card["pulls_to"],
        texts=card["texts"],
        changes=card["changes"],
        share=Rate(card["share"], f"{card['share']:.1%}", "", meter(card["share"])),
        status=status,
        badge="" if status == "not_flagged" else status,
        decided=decided,
    )


def _badge(candidate: Document) -> str:
    """What is said of it beside its name; nothing of most."""
    if candidate["takes_turns"]:
        return "takes turns"
    if candidate["collective"]:
        return "together"
    return "" if candidate["status"] == "not_flagged" else str(candidate["status"])


def _rate(value: float | None, between: Sequence[float | None] = (None, None), *, signed: bool = False) -> Rate:
    low, high = between
    shown = ""
    if low is not None and high is not None:
        shown = f"{low:+.2f} to {high:+.2f}" if signed else interval(low, high)
    return Rate(value, number(value, signed=signed), shown, meter(value, between, signed=signed))


def _example(example: Document, redact: bool) -> ExampleView:
    return ExampleView(
        index=example["index"],
        sides=() if redact or example["text"] is None else tuple(_sides(example)),
        label=example["label"],
        probability=f"{example['probability']:.2f}",
        masked_label=example["masked_label"],
        masked_probability=f"{example['masked_probability']:.2f}",
        flips=example["label"] != example["masked_label"],
        change=number(example["change"], signed=True),
        true_label=example["true_label"],
    )


def _sides(example: Document) -> Iterator[Side]:
    named = {key: example[key] for key in ("start", "end", "change")}
    named["flips"] = example["label"] != example["masked_label"]
    for segment, (key, name) in enumerate((("text", "text"), ("text_pair", "second text"))):
        if example[key] is not None:
            here = named if example["segment"] == segment else None
            pieces = marked_pieces(example[key], example["important"], segment=segment, named=here)
            yield Side(name if example["text_pair"] is not None else "", pieces)


def _answers(document: Document) -> Iterator[tuple[str, str, str, Meter | None]]:
    """Label, number, share and bar of every answer the model gave."""
    for label, count in document["predicted"].items():
        part = count / document["n"] if document["n"] else None
        yield label, f"{count:,}", "-" if part is None else f"{part:.0%}", meter(part)


def _texts(candidates: Sequence[CandidateView]) -> Iterator[tuple[str, ExampleView]]:
    """Different texts with the largest effects, taking turns between candidates so that one does not fill the list."""
    seen: set[int] = set()
    most = max((len(candidate.examples) for candidate in candidates), default=0)
    for turn in range(most):
        for candidate in candidates[:MOST_TEXTS]:
            if turn < len(candidate.examples):
                example = candidate.examples[turn]
                if example.sides and example.index not in seen and len(seen) < MOST_TEXTS:
                    seen.add(example.index)
                    yield candidate.name, example


@dataclass(frozen=True)
class Distribution:
    """MSTPS of one model, text by text."""

    name: str
    mstps: str
    chart: Histogram | None


def distributions(audits: Mapping[str, Document]) -> list[Distribution]:
    """The distribution of each model's sensitivity, all with the same axes."""
    most = max(max(document["sensitivity_histogram"]) for document in audits.values())
    return [
        Distribution(
            name,
            number(document["mstps"]),
            histogram(document["sensitivity_histogram"], low=0, high=1, mean=document["mstps"], most=most),
        )
        for name, document in audits.items()
    ]


@dataclass(frozen=True)
class ComparedCandidate:
    """A candidate in several models; `None` where it is no candidate."""

    name: str
    rates: tuple[Rate | None, ...]


def compared_candidates(audits: Mapping[str, Document]) -> list[ComparedCandidate]:
    """The highest-ranked candidates of each model, and how often masking them changes its answers."""
    chosen = dict.fromkeys(
        candidate["text"]
        for document in audits.values()
        for rank, candidate in enumerate(document["candidates"])
        if rank < COMPARED_CANDIDATES or candidate["flagged"]
    )
    by_text = [
        # Reversed, so that the highest-ranked of equal names stays.
        {candidate["text"]: candidate for candidate in reversed(document["candidates"])}
        for document in audits.values()
    ]
    return [
        ComparedCandidate(
            visible_name(text),
            tuple(
                _rate(found[text]["flip_rate"], found[text]["interval"]["flip_rate"]) if text in found else None
                for found in by_text
            ),
        )
        for text in chosen
    ]


def comparison_lead(evaluations: Mapping[str, Document], audits: Mapping[str, Document]) -> str:
    """What changes from the first model to the last one, in a sentence; empty where there is only one."""
    shown: list[str] = []
    if len(evaluations) > 1:
        shown += [_from_to(label, key, evaluations) for label, key in METRIC_ROWS if key in _LEAD_SCORES]
    elif len(audits) > 1:
        shown = [_from_to("MSTPS", "mstps", audits)]
    if not shown:
        return ""
    names = list(evaluations if len(evaluations) > 1 else audits)
    return f"From {names[0]} to {names[-1]}: {', '.join(shown)}."


_LEAD_SCORES = ("accuracy", "worst_group_accuracy", "mstps")


def _from_to(label: str, key: str, documents: Mapping[str, Document]) -> str:
    values = [document[key] for document in documents.values()]
    return f"{label} {number(values[0])} to {number(values[-1])}"


def score_rows(evaluations: Mapping[str, Document]) -> list[tuple[str, list[str]]]:
    """One row for each score, one cell for each model."""
    rows = [(label, [number(e[key]) for e in evaluations.values()]) for label, key in METRIC_ROWS]
    for k in next(iter(evaluations.values()))["shortcut_token_recall"]:
        recalls = [evaluation["shortcut_token_recall"][k] for evaluation in evaluations.values()]
        cells = [f"{number(recall['recall'])} (chance {number(recall['chance'])})" for recall in recalls]
        rows.append((f"shortcut token recall at {k}", cells))
    return rows


@dataclass(frozen=True)
class GroupRow:
    """A group's accuracy in every model."""

    name: str
    n: int
    rates: tuple[Rate, ...]


def group_rows(evaluations: Mapping[str, Document]) -> list[GroupRow]:
    """One row for each group."""
    per_model = [evaluation["groups"] for evaluation in evaluations.values()]
    return [
        GroupRow(
            groups[0]["name"],
            groups[0]["n"],
            tuple(_rate(group["accuracy"], group["interval"] or (None, None)) for group in groups),
        )
        for groups in zip(*per_model, strict=True)
    ]


def calibration_curve(calibration: Document) -> Curve:
    """Accuracy by strength, with its 95 % intervals."""
    points = [(p["strength"], p["accuracy"], *p["interval"]) for p in calibration["curve"]]
    return curve(points, picked=calibration["strength"])
