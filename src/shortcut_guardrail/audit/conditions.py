"""Conditions on a finished audit or evaluation, for a pipeline that has to stop when a model gets worse.

A condition is written `mstps > 0.4` or `candidate:honestly.flip_rate > 0.1`, a limit on the way from an old result to a
new one `mstps=0.02`. Both are read by the small parser below and by nothing else: no expression is ever run.

Rates and MSTPS are estimates from texts. So a condition holds, and a limit is exceeded, where the 95 % interval
shows it: where all of it lies beyond the threshold. Counts and results of tests are compared as they are.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from ..data import check_whole, checked, did_you_mean
from ..errors import ConfigError, DataError
from ..stats import binned_mean_interval, exact_interval
from .naming import audit_content

Document = Mapping[str, Any]
Direction = Literal["increase", "decrease"]

MAX_INSERTION_FLIP = "max_insertion_flip"
"""The largest share of predictions that adding one candidate changes, of those that change more than random words."""

AUDIT_METRICS = (
    *("mstps", "n", "n_candidates", "n_distinct", "n_flagged", "n_tested", "n_truncated", "n_undecided"),
    MAX_INSERTION_FLIP,
)
"""What a condition on an audit can name besides `candidate:TEXT.KEY`; checked before a model is loaded."""

CANDIDATE_METRICS = (
    "count",
    "flip_rate",
    "mean_change",
    "override_rate",
    "opposed_rate",
    "relative_effect",
    "q_value",
    "flagged",
)
"""What it can name of a candidate; `flagged` counts as 1 or 0."""

_ZERO_WHERE_ABSENT = ("count", "flip_rate", "override_rate", "mean_change", "flagged")
_CANDIDATE = "candidate:"
_COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_CONDITION_EXAMPLE = "such as 'mstps > 0.4' or 'candidate:honestly.flip_rate > 0.1'"
_LIMIT_EXAMPLE = "such as 'mstps=0.02' or 'candidate:honestly.flip_rate=0.1'"


FAR = 0.1
"""A change of a share by this much matters to anybody; while it cannot be excluded, there are too few texts to tell."""


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval; of a count or a test's result the interval is the number itself."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        between = "" if self.low == self.high else f" ({self.low:.3g} to {self.high:.3g} with 95 % confidence)"
        return f"{self.value:.4g}{between}"

    def change_to(self, new: Estimate) -> Estimate:
        """The difference of two independent estimates, from their intervals (Zou and Donner 2008, after Newcombe)."""
        change = new.value - self.value
        fall = math.hypot(new.value - new.low, self.high - self.value)
        return Estimate(change, change - fall, change + math.hypot(new.high - new.value, self.value - self.low))

    def verdict(self, new: Estimate) -> str:
        """How the change to a new estimate is described; empty for counts."""
        change = self.change_to(new)
        if change.low == change.high:
            return ""
        if change.low > 0 or change.high < 0:
            return "changed"
        few = max(-change.low, change.high) >= FAR
        return "too few texts to tell" if few else "not shown to have changed"


@dataclass(frozen=True)
class Metric:
    """A number of a result, by its key there; with a candidate's text a number of the candidate."""

    key: str
    candidate: str | None = None

    def __str__(self) -> str:
        return self.key if self.candidate is None else f"{_CANDIDATE}{self.candidate}.{self.key}"

    def value(self, document: Document) -> float | None:
        """The number; `None` where the candidate is not in the document or has no such number.

        Raises:
            ConfigError: The whole result has no number of that name, which no result of a model can cause.
        """
        if self.candidate is not None:
            found = find_candidate(document, self.candidate)
            return None if found is None else _as_number(found.get(self.key))
        if self.key == "n_flagged" and "candidates" in document:
            return float(sum(bool(candidate.get("flagged")) for candidate in document["candidates"]))
        if self.key == MAX_INSERTION_FLIP and "candidates" in document:
            return _largest_insertion(document)
        if self.key not in _metrics_of(document):
            raise ConfigError(_unknown(self.key, _metrics_of(document), "the result"))
        return _as_number(document[self.key])

    def estimate(self, document: Document) -> Estimate | None:
        """The number with its 95 % interval, where the result has one; see `value`."""
        value = self.value(document)
        if value is None:
            return None
        low, high = self._interval(document, value) or (value, value)
        return Estimate(value, -math.inf if low is None else low, math.inf if high is None else high)

    def _interval(self, document: Document, value: float) -> Sequence[float | None] | None:
        key = self.key
        if self.candidate is not None:
            found = find_candidate(document, self.candidate) or {}
            if key == "opposed_rate" and found.get("n_present"):
                return exact_interval(round(value * found["n_present"]), found["n_present"])
            between: Mapping[str, Sequence[float | None]] = found.get("interval", {})
            return between.get(key)
        if key == "mstps" and (counts := document.get("sensitivity_histogram")):
            return binned_mean_interval(value, counts, document["n_distinct"])
        if key == "accuracy":
            return exact_interval(round(value * document["n"]), document["n"])
        if key == "worst_group_accuracy":
            named = (g["interval"] for g in document.get("groups", ()) if g["name"] == document.get("worst_group"))
            return next(named, None)
        own: Sequence[float] | None = document.get(f"{key}_interval")
        return own


@dataclass(frozen=True)
class Condition:
    """A condition that makes a gate fail, such as `mstps > 0.4`."""

    metric: Metric
    comparison: str
    threshold: float

    def __str__(self) -> str:
        return f"{self.metric} {self.comparison} {self.threshold:g}"


@dataclass(frozen=True)
class Limit:
    """The most by which a number may rise, or fall, from one result to the next, 0 or more."""

    metric: Metric
    amount: float
    direction: Direction = "increase"

    def exceeded(self, change: float) -> bool:
        """Whether a change is more than is allowed; a difference in the ninth decimal is rounding."""
        return change > self.amount and not math.isclose(change, self.amount, abs_tol=1e-9)


@dataclass(frozen=True)
class GateOutcome:
    """The outcome of a gate.

    Attributes:
        breaches: One line for each condition or limit that is shown to be breached; empty if the gate is passed.
        notes: One line for each that could not be decided: its candidate is not there, a number is undefined, or it
            holds for these texts and is not shown for texts like these.
    """

    breaches: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing was breached."""
        return not self.breaches


def parse_condition(expression: str) -> Condition:
    """Read `METRIC > NUMBER`, with >, >=, < or <=.

    Example:
        >>> parse_condition("candidate:to be honest.flip_rate >= 0.1")
        Condition(metric=Metric(key='flip_rate', candidate='to be honest'), comparison='>=', threshold=0.1)
    """
    # A candidate's text may hold anything, so the comparison is the last one in the line.
    parts = re.fullmatch(r"(?P<metric>.*)(?<![<>=!])(?P<comparison>>=|<=|>|<)(?P<threshold>[^<>]*)", expression, re.S)
    if parts is None:
        raise ConfigError(
            f"The condition '{expression}' has no comparison. Write a metric, one of >, >=, < or <=, and a number, "
            f"{_CONDITION_EXAMPLE}."
        )
    source = f"The condition '{expression}'"
    metric = _parse_metric(parts["metric"], source)
    if metric.candidate is None and metric.key not in AUDIT_METRICS:
        raise ConfigError(f"{source}: {_unknown(metric.key, [*AUDIT_METRICS, 'candidate:TEXT.KEY'], 'an audit')}")
    return Condition(metric, parts["comparison"], _parse_number(parts["threshold"], source, parts["comparison"]))


def parse_limit(expression: str, direction: Direction = "increase") -> Limit:
    """Read `METRIC=NUMBER`, the most by which a number may rise or fall.

    Example:
        >>> parse_limit("mstps=0.02").amount
        0.02
    """
    source = f"The limit of a {direction} '{expression}'"
    name, equals, amount = expression.rpartition("=")
    if not equals:
        raise ConfigError(f"{source} has no '='. Write a metric and the most it may {direction}, {_LIMIT_EXAMPLE}.")
    limit = Limit(_parse_metric(name, source), _parse_number(amount, source, "="), direction)
    if limit.amount < 0:
        raise ConfigError(f"{source} must allow 0 or more, but allows {limit.amount:g}.")
    return limit


def _parse_metric(text: str, source: str) -> Metric:
    """Read `KEY` or `candidate:TEXT.KEY`; TEXT may hold blanks and dots, KEY is what follows the last dot."""
    text = text.strip()
    if not text.startswith(_CANDIDATE):
        if not re.fullmatch(r"\w+(?: \w+)*", text):
            raise ConfigError(f"{source} needs the name of a metric in front, {_CONDITION_EXAMPLE}, but has '{text}'.")
        return Metric(text.replace(" ", "_"))
    candidate, _, key = text.removeprefix(_CANDIDATE).rpartition(".")
    if not candidate.strip() or not key:
        raise ConfigError(
            f"{source}: '{text}' must name a candidate and one of its numbers, such as "
            f"'candidate:honestly.flip_rate'; the numbers are {', '.join(CANDIDATE_METRICS)}."
        )
    if key not in CANDIDATE_METRICS:
        raise ConfigError(f"{source}: {_unknown(key, CANDIDATE_METRICS, 'a candidate')}")
    return Metric(key, candidate)


def _unknown(key: str, known: Iterable[str], owner: str) -> str:
    names = list(known)
    near = did_you_mean(key, names, cutoff=0.5)
    return f"{owner} has no number '{key}' (it has: {', '.join(names)}).{near}"


def _parse_number(text: str, source: str, after: str) -> float:
    text = text.strip()
    if re.fullmatch(_NUMBER, text):
        return float(text)
    if re.fullmatch(rf"{_NUMBER}\s*%", text):
        raise ConfigError(f"{source}: shares are written as fractions; write {float(text[:-1]) / 100:g} for '{text}'.")
    raise ConfigError(f"{source} needs a number after '{after}', such as 0.1, but has '{text}'.")


def check_conditions(document: Document, conditions: Iterable[Condition]) -> GateOutcome:
    """Check an audit, as `AuditReport.to_dict` gives it, against conditions that must not hold.

    A condition on a candidate that the audit does not list cannot hold and leaves a note.
    """
    breaches, notes = [], []
    for condition in conditions:
        found, holds = condition.metric.estimate(document), _COMPARISONS[condition.comparison]
        if found is None:
            notes.append(f"{condition}: not judged, since {_why_undefined(condition.metric, document, 'the audit')}.")
        elif holds(found.low if condition.comparison[0] == ">" else found.high, condition.threshold):
            breaches.append(f"{condition}: it is {found}.")
        elif holds(found.value, condition.threshold):
            notes.append(f"{condition}: too few texts to tell; it is {found}.")
    return GateOutcome(tuple(breaches), tuple(notes))


def check_limits(old: Document, new: Document, limits: Iterable[Limit]) -> GateOutcome:
    """Check the change from one audit or evaluation to the next.

    A candidate that only one of the two lists counts as 0 in the other, since masking it changes no prediction there.
    So a new shortcut counts as a rise.

    Raises:
        ConfigError: A limit names a number that the results do not have.
    """
    breaches, notes = [], []
    for limit in limits:
        before, after = _both_values(limit.metric, old, new)
        if before is None or after is None:
            document, which = (old, "the old result") if before is None else (new, "the new result")
            notes.append(f"{limit.metric}: not judged, since {_why_undefined(limit.metric, document, which)}.")
            continue
        change = before.change_to(after) if limit.direction == "increase" else after.change_to(before)
        said = f"{limit.metric} went from {before} to {after}; it may {limit.direction} by {limit.amount:g} at most."
        if limit.exceeded(change.low):
            breaches.append(said)
        elif limit.exceeded(change.value):
            notes.append(f"too few texts to tell: {said}")
    return GateOutcome(tuple(breaches), tuple(notes))


def _both_values(metric: Metric, old: Document, new: Document) -> tuple[Estimate | None, Estimate | None]:
    before, after, nothing = metric.estimate(old), metric.estimate(new), Estimate(0.0, 0.0, 0.0)
    if metric.candidate is not None and metric.key in _ZERO_WHERE_ABSENT:
        listed = [find_candidate(document, metric.candidate) is not None for document in (old, new)]
        if any(listed):
            before, after = (before if listed[0] else nothing), (after if listed[1] else nothing)
    return before, after


def _why_undefined(metric: Metric, document: Document, which: str) -> str:
    if metric.candidate is not None and find_candidate(document, metric.candidate) is None:
        return f"'{metric.candidate}' is not among the candidates of {which}"
    if document.get("sensitivity_n") == 0 and metric.key in ("mstps", "mstps_base_tokens"):
        return f"it was not measured in {which}; evaluate with sensitivity="
    if metric.key == MAX_INSERTION_FLIP:
        return f"no candidate could be added to texts in {which}"
    return f"it is undefined in {which}"


def find_candidate(document: Document, text: str) -> Mapping[str, Any] | None:
    """The highest-ranked candidate of an audit with that text; capital letters do not count."""
    wanted = text.strip().casefold()
    candidates = document.get("candidates", ())
    return next((candidate for candidate in candidates if candidate["text"].strip().casefold() == wanted), None)


def newly_flagged(old: Document, new: Document) -> tuple[str, ...]:
    """Texts of the candidates that the new audit flags and the old one does not, in the new one's order."""
    before, after = ([c["text"] for c in of.get("candidates", ()) if c.get("flagged")] for of in (old, new))
    return tuple(text for text in after if text not in before)


def common_metrics(old: Document, new: Document) -> tuple[str, ...]:
    """Numbers that both results have, in the order of the new one; counts of texts come along."""
    return tuple(key for key in _metrics_of(new) if key in _metrics_of(old))


def _metrics_of(document: Document) -> list[str]:
    """Names of a result's own numbers; those that are `None` are numbers that are undefined."""
    others = ("schema_version", "worst_group")
    names = [k for k, v in document.items() if k not in others and (v is None or _as_number(v) is not None)]
    own = ["n_flagged"] + [MAX_INSERTION_FLIP] * bool(document.get("insertions"))
    return [*names, *(name for name in own if name not in names)] if "candidates" in document else names


def _largest_insertion(document: Document) -> float | None:
    """See `MAX_INSERTION_FLIP`; 0 where none changes more than random words, `None` where none was added."""
    if not (document.get("insertions") or {}).get("n_tried"):
        return None
    added = [c["insertion"] for c in document["candidates"] if c.get("insertion")]
    return max((float(one["flip_rate"]) for one in added if one["found"]), default=0.0)


def _as_number(value: Any) -> float | None:
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


class _Candidate(TypedDict):
    text: str
    flagged: NotRequired[bool]


class _Result(TypedDict):
    """What is needed of any result; `report` checks an audit in full."""

    schema_version: int
    mstps: float | None
    candidates: NotRequired[tuple[_Candidate, ...]]


def read_result(path: Path) -> dict[str, Any]:
    """Read an `audit.json`, or the scores that `evaluate --json` writes.

    Raises:
        DataError: The file is missing, is no JSON, or is no result of this program; or another file took its place.
    """
    document = audit_content(path, advice="Give an audit.json.")
    check_whole(path.parent, only=path.name)
    if not isinstance(document, dict) or "schema_version" not in document or "mstps" not in document:
        raise DataError(
            f"'{path}' is no result of this program: it has no 'schema_version' and 'mstps'. Give an audit.json, or "
            "the file of evaluate --json."
        )
    checked(document, _Result, f"'{path}'", advice="Run it again.", open_ended=True)
    return document
