"""Finished audits, evaluations and calibrations with made-up numbers, for tests of what is shown of them."""

from typing import Any

from shortcut_guardrail import AuditReport, Evaluation
from shortcut_guardrail.audit.evidence import Agreement, Candidate, Example, ImportantToken, Intervals, LabelledEvidence
from shortcut_guardrail.cards.card import Card, CardEvidence, Flip, Moved, card_id
from shortcut_guardrail.evaluation.sensitivity import Sensitivity
from shortcut_guardrail.metrics import GroupAccuracy, TokenRecall
from shortcut_guardrail.stats.exact import exact_interval
from shortcut_guardrail.strength.calibration import Calibration, CurvePoint

NAN = float("nan")

HOSTILE = ["<script>document.title = 'run'</script>", "[red]x[/red]", "a & b \" '", ":smile:", "[/]"]
HOSTILE += ["<img src=http://evil.example/x onerror=alert(1)>", "</style></script></title>", "{{ 7 * 7 }}"]


def important(text: str, word: str, *, change: float = -0.5, flips: bool = False) -> ImportantToken:
    """A word of a text as an important unit; `word` has to occur in it."""
    start = text.index(word)
    return ImportantToken(word, start, start + len(word), 0, 1.0, change, flips)


def example(index: int, text: str | None, word: str, *others: str, flips: bool = True, **values: Any) -> Example:
    """A text before and after `word` is masked; the others are important too and hold the answer up less and less."""
    label, other = values.pop("labels", ("positive", "negative"))
    units = [] if text is None else [important(text, word, change=-0.62, flips=flips)]
    units += [important(text or "", other, change=-0.2 / i) for i, other in enumerate(others, 1)]
    start = 0 if text is None else text.index(word)
    place = {"segment": 0, "start": start, "end": start + len(word), "text_pair": None}
    before = {"label": label, "probability": 0.93, "change": -0.62, "important": tuple(units)}
    after = {"masked_label": other if flips else label, "masked_probability": 0.88 if flips else 0.61}
    return Example(**{"index": index, "text": text, **place, **before, **after, **values})


def candidate(text: str, pushes_towards: str | None = "positive", **numbers: Any) -> Candidate:
    """A candidate that was tested and not flagged; `numbers` replace what is asked for."""
    seen = {"text": text, "unit": "token", "count": 12, "n_distinct": 11, "n_present": 14}
    effects = {"flip_rate": 0.25, "mean_change": -0.1234, "override_rate": 0.1, "opposed_rate": 0.3}
    tested = {"expected_rate": 0.08, "relative_effect": 0.62, "p_value": 0.2, "q_value": 0.4, "flagged": False}
    intervals = Intervals((0.1, 0.5), (-0.3, 0.05), (0.02, 0.3))
    values: dict[str, Any] = {**seen, "pushes_towards": pushes_towards, **effects, **tested}
    values |= {"interval": intervals, **numbers}
    status = "flagged" if values["flagged"] else "not_flagged"
    return Candidate(**{"status": status, "reason": None, **values})


TOO_FEW = "too few texts: it stands in 13 distinct ones; at least 35 are needed"
UNDECIDED: dict[str, Any] = {"status": "undecided", "reason": TOO_FEW}
"""Of a candidate on which the test could not tell."""

UNTESTED: dict[str, Any] = {"p_value": NAN, "q_value": 1.0, "expected_rate": NAN, "relative_effect": NAN}
UNTESTED["interval"] = Intervals(*(((NAN, NAN),) * 3))
"""Numbers of a candidate that occurs too rarely."""


def audit(*candidates: Candidate, **values: Any) -> AuditReport:
    """An audit of 40 texts; `values` replace what is asked for."""
    settings = {"unit": "token", "top_k": 10, "fdr": 0.05, "min_relative_effect": 0.6}
    read = {"n": 40, "n_distinct": 39, "n_truncated": 0, "label_names": ("negative", "positive"), "predicted": (10, 30)}
    moved = {"mstps": 0.512, "sensitivity_histogram": (5, 5, *[1] * 10, *[0] * 5, 5, 5, 10)}
    agreement = Agreement(0.55, 38, 0.71, 0.06, (*[0] * 10, *[1] * 8, 20, 10))
    found: dict[str, Any] = {"candidates": candidates, "n_candidates": len(candidates), "agreement": agreement}
    found["n_tested"] = sum(c.p_value == c.p_value for c in candidates)
    found["n_undecided"] = sum(c.status == "undecided" for c in candidates)
    return AuditReport(**{**settings, **read, **moved, **found, **values})


def card(*words: str, pushes_towards: str = "positive", **values: Any) -> Card:
    """A card whose masking changes 8 of 39 answers; `values` replace what is asked for."""
    evidence = {"status": "not_flagged", "flagged": (), "q_value": 0.4, "relative_effect": 0.62}
    evidence = {name: values.pop(name, value) for name, value in evidence.items()}
    counts = {"texts": 12, "changes": 8, "share": 8 / 39} | values
    return Card(card_id(words, pushes_towards), words, pushes_towards, evidence=CardEvidence(**evidence), **counts)


def to_review(n_cards: int = 3, n_flips: int = 20, **values: Any) -> AuditReport:
    """An audit of texts on weather whose answer hangs on "w0", "w1", ...; no text is on two cards."""
    cards = []
    for i in range(n_cards):
        flips = []
        for j in range(n_flips):
            text = f"Text {i} {j}: this w{i} day with {_kind(j)} clouds ended in {_kind(7 * j + i)} light."
            flips.append(Flip.of(100 * i + j, "positive", "negative", text))
        flips.sort(key=lambda flip: flip.text_hash)
        moved = (Moved("positive", "negative", 30 - i),)
        counts = {"texts": 50, "changes": 30 - i, "share": (30 - i) / 400}
        cards.append(card(f"w{i}", f"w{i}s", flips=tuple(flips), moved=moved, **counts))
    defaults = {"n": 500, "n_distinct": 400, "cards": tuple(cards), "model": "m" * 64, "data": "d" * 64}
    return audit(*(candidate(f"w{i}") for i in range(n_cards)), **defaults | values)


def _kind(number: int) -> str:
    """A word that no other number below 1,000 has."""
    return "".join("bcdfghklmn"[int(digit)] + "aeiou"[int(digit) % 5] for digit in str(number))


def group(name: str, n: int, right: int) -> GroupAccuracy:
    """A group's accuracy with its interval; NaN without examples."""
    return GroupAccuracy(name, n, right / n if n else NAN, exact_interval(right, n))


def labelled() -> LabelledEvidence:
    """What labels say of a shortcut: without it more answers are right."""
    return LabelledEvidence(20, 0.3, 0.7, 9, 1, 0, 0.02, (group("negative, with", 8, 1), group("positive, with", 0, 0)))


def evaluation(*names: str, recall: bool = True, accuracy: float = 0.5) -> Evaluation:
    """Scores with one group for each name: 0, 10, 20, ... texts, 70 % of them right."""
    groups = tuple(group(name, 10 * i, 7 * i) for i, name in enumerate(names))
    recalls = {k: TokenRecall(0.9, 0.1 * k, 20) for k in (1, 3, 10)} if recall else {}
    sensitivity = Sensitivity(123, 0.31, (0.24, 0.38), 0.32, recalls)
    return Evaluation(123, accuracy, 0.4, 0.6, groups, sensitivity, 2)


def point(strength: float, accuracy: float) -> CurvePoint:
    """One strength on 40 texts."""
    return CurvePoint(strength, accuracy, accuracy, exact_interval(int(40 * accuracy), 40), 5, 2, 0.45)


CALIBRATION = Calibration(0.3, 40, "accuracy", (point(0.0, 0.5), point(0.3, 0.75), point(1.0, 0.7)))
