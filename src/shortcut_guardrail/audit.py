"""Important units over a corpus, ranked as candidates for being shortcuts, each with its evidence."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np

from .collective import with_group
from .config import AuditConfig
from .details import Details, TextsOf, find_details
from .encoder import EncodedTexts, Progress, TextClassifier
from .errors import ConfigError, DataError
from .evidence import Agreement, Intervals
from .evidence import Candidate as Candidate
from .evidence import ImportantToken as ImportantToken
from .metrics import exact_interval, sensitivity
from .override import Shards, Tally, Verdicts, judge, tally
from .phrases import acting_together, with_phrases
from .saliency import Saliency
from .sensitivity import MaskingEffects
from .shards import Measured, evidence_key, make_shard, measure, text_key
from .units import Units

Array = np.ndarray[Any, np.dtype[Any]]

AUDIT_SCHEMA_VERSION = 6

MAX_CANDIDATES = 1000
"""Candidates kept in a report; a large corpus has as many as it has words."""

DETAILED = 50
"""Candidates of the ranking that come with examples and labelled evidence."""

LOW_AGREEMENT = 0.2
"""Below this mean rank correlation the report says that attribution is not to be trusted."""


@dataclass(frozen=True)
class AuditedInputs:
    """What an audit keeps of every text, where all of them fit into memory.

    Attributes:
        encoded: The texts as the model saw them.
        saliency: Important tokens and predictions of each text.
        effects: Predictions with each important token masked.
        units: The units of each text; `saliency.positions` names them (for the unit `token` they are positions).
    """

    encoded: EncodedTexts
    saliency: Saliency
    effects: MaskingEffects
    units: Units


@dataclass(frozen=True)
class AuditReport:
    """What a model leans on, over N texts.

    Attributes:
        n: Number of texts, repeats included.
        n_distinct: Number of distinct texts; near-identical repeats (case, digits, punctuation) count once.
        unit: What is scored and masked: `token`, `word` or `phrase` (words, and phrases of them).
        top_k: Important units per text.
        alpha: The false-discovery rate that `flagged` promises.
        min_opposition: The share of pairs up to which a candidate's context is taken to warrant what it does.
        label_names: Names of the classes.
        predicted: How many texts were given each class, in the order of `label_names`.
        mstps: Maximum single-token prediction sensitivity, in [0, 1], over all texts; for another unit than `token` the
            same of words.
        sensitivity_histogram: Texts by their term in MSTPS, 20 equal bins over [0, 1].
        candidates: What is important anywhere: first what is flagged, in the order in which it was found; then what
            takes turns with it, or overrides its texts together; then what else is undecided, both by the lower end of
            the flip rate's interval; then the rest by q-value and by the probability it holds up. At most the first
            1,000.
        n_candidates: How many there are in all.
        n_tested: Number of candidates that occur often enough to be tested; the false-discovery rate is over them.
        n_undecided: Number of candidates that take answers away and that the test can neither flag nor clear.
        group_p_value: Of the null hypothesis that no group of candidates overrides its texts together, beside those
            that are flagged and those that take turns with them.
        agreement: How far attribution agrees with the true effect of masking.
        n_truncated: Texts longer than the model takes.
        notes: Sentences on what limits this audit, such as a class that is never predicted.
        inputs: What is kept of every text; `None` for an audit in shards.
    """

    n: int
    n_distinct: int
    unit: str
    top_k: int
    alpha: float
    min_opposition: float
    label_names: tuple[str, ...]
    predicted: tuple[int, ...]
    mstps: float
    sensitivity_histogram: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    n_candidates: int
    n_tested: int
    n_undecided: int
    agreement: Agreement
    n_truncated: int
    group_p_value: float = float("nan")
    notes: tuple[str, ...] = ()
    inputs: AuditedInputs | None = field(default=None, repr=False)

    @property
    def flagged(self) -> tuple[Candidate, ...]:
        """The candidates that pass the false-discovery rate, strongest first."""
        return tuple(candidate for candidate in self.candidates if candidate.flagged)

    @property
    def undecided(self) -> tuple[Candidate, ...]:
        """The candidates on which the test could not tell, those with the surest flips first."""
        return tuple(candidate for candidate in self.candidates if candidate.status == "undecided")

    @property
    def encoded(self) -> EncodedTexts:
        """The texts as the model saw them; see `inputs`."""
        return self._kept.encoded

    @property
    def saliency(self) -> Saliency:
        """Important units and predictions of each text; see `inputs`."""
        return self._kept.saliency

    @property
    def effects(self) -> MaskingEffects:
        """Predictions with each important unit masked; see `inputs`."""
        return self._kept.effects

    @property
    def _kept(self) -> AuditedInputs:
        if self.inputs is None:
            raise ConfigError(
                "This audit ran in shards and keeps nothing of single texts. Audit them in one piece (without "
                "shard_size) to look at them one by one."
            )
        return self.inputs

    def important_tokens(self, index: int) -> tuple[ImportantToken, ...]:
        """The important units of one text, the most important first."""
        kept = self._kept
        predicted = int(kept.saliency.predictions[index])
        before = float(kept.saliency.probs[index, predicted])
        tokens = []
        for slot, unit in enumerate(kept.saliency.positions[index]):
            if unit < 0:
                break
            after = kept.effects.probs[index, slot]
            start, end, segment = (int(x) for x in kept.units.spans[index][unit])
            tokens.append(
                ImportantToken(
                    text=kept.units.keys[index][unit],
                    position=int((kept.units.of_token[index] == unit).argmax()),
                    start=start,
                    end=end,
                    segment=segment,
                    score=float(kept.saliency.scores[index, slot]),
                    change=float(after[predicted]) - before,
                    flips=int(after.argmax()) != predicted,
                )
            )
        return tuple(tokens)

    def input_to_dict(self, index: int, *, redact: bool = False) -> dict[str, Any]:
        """One text's answer and its important units, JSON-ready.

        Args:
            index: Which text.
            redact: Leave the units out, which are words of the text.
        """
        predicted = int(self.saliency.predictions[index])
        tokens = self.important_tokens(index)
        return {
            "index": index,
            "label": self.label_names[predicted],
            "probability": round(float(self.saliency.probs[index, predicted]), 6),
            "sensitivity": max((abs(token.change) for token in tokens), default=0.0),
            "important_tokens": [] if redact else [asdict(token) for token in tokens],
        }

    @property
    def sensitivity(self) -> Array:
        """Each text's term in MSTPS, shape (N,), in [0, 1]."""
        original, masked = self._predicted_probabilities()
        return sensitivity(original, masked)

    def _predicted_probabilities(self) -> tuple[Array, Array]:
        return predicted_probabilities(self.saliency, self.effects)

    def to_pandas(self) -> Any:
        """One row for each candidate, in the order of the ranking; intervals are two columns each. Needs pandas.

        Raises:
            ConfigError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ConfigError(
                "to_pandas needs pandas. Install it with: pip install 'shortcut-guardrail[pandas]'"
            ) from error
        rows = []
        for candidate in self.candidates:
            row = {f.name: getattr(candidate, f.name) for f in fields(Candidate) if f.name not in _NESTED}
            for name, (low, high) in asdict(candidate.interval).items():
                row |= {f"{name}_low": low, f"{name}_high": high}
            rows.append(row)
        return pandas.DataFrame(rows)

    def _repr_html_(self) -> str:
        """What a notebook shows: one line and the first candidates. Everything that came from data is escaped."""
        head = "".join(f"<th>{name}</th>" for name in _SHOWN)
        rows = "".join(
            "<tr>" + "".join(f"<td>{_cell(getattr(candidate, name))}</td>" for name in _SHOWN) + "</tr>"
            for candidate in self.candidates[:10]
        )
        return (
            f"<p>{self.n} texts, MSTPS {self.mstps:.3f}; {len(self.flagged)} of {self.n_tested} tested candidates "
            f"flagged at a false-discovery rate of {self.alpha:.0%}, {self.n_undecided} undecided. A candidate is a "
            "question, not a verdict.</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )

    def to_dict(self, *, max_candidates: int | None = None, redact: bool = False) -> dict[str, Any]:
        """A JSON-ready dictionary, documented in docs/audit.md; what is undefined is `None`.

        Args:
            max_candidates: Only the first so many; `None` for all.
            redact: Leave the texts and their important units out. Candidates are still spelled out, since they are the
                finding.
        """
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "inputs"}
        values["predicted"] = dict(zip(self.label_names, self.predicted, strict=True))
        values["agreement"] = asdict(self.agreement)
        values["candidates"] = [_candidate_dict(candidate, redact) for candidate in self.candidates[:max_candidates]]
        plain: dict[str, Any] = _defined({"schema_version": AUDIT_SCHEMA_VERSION, **values})
        return plain


_NESTED = ("interval", "examples", "labelled")
_SHOWN = ("text", "unit", "count", "flip_rate", "mean_change", "contradiction_rate", "pulls_to", "q_value", "status")


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else html.escape(str(value))


def _candidate_dict(candidate: Candidate, redact: bool) -> dict[str, Any]:
    values = asdict(candidate)
    if redact:
        for example in values["examples"]:
            example.update(text=None, text_pair=None, important=())
    return values


def _defined(value: Any) -> Any:
    """Lists for tuples, and `None` for numbers that are not finite, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _defined(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_defined(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def audit_texts(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    config: AuditConfig | None = None,
    *,
    labels: Array | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Attribute, mask, test and rank, all in memory: 2 + k forward passes for each distinct text.

    Args:
        classifier: The model under audit.
        encoded: N texts.
        config: What is scored and masked, and when a candidate is flagged.
        labels: True class ids, shape (N,), where they are known.
        progress: Told how much of each stage is done.

    Raises:
        DataError: A text has no ordinary token.
    """
    config = config or AuditConfig()
    check_ordinary(encoded)
    repeats = find_repeats([text_key(t) for t in encoded.texts], [evidence_key(t) for t in encoded.texts])
    rows = np.flatnonzero(repeats.weights > 0)
    distinct = encoded.select(rows)
    measured = measure(classifier, distinct, config, progress=progress)
    shard = make_shard(
        classifier,
        distinct,
        config,
        measured,
        rows=rows,
        weights=repeats.weights[rows],
        evidence=repeats.evidence[rows],
        labels=None if labels is None else labels[rows],
        progress=progress,
    )
    return make_report(
        lambda: [shard],
        config,
        classifier.label_names,
        texts_of=lambda indices: {i: encoded.texts[i] for i in indices},
        inputs=_for_every_input(encoded, measured, np.searchsorted(rows, repeats.same_as)),
    )


def _for_every_input(encoded: EncodedTexts, measured: Measured, source: Array) -> AuditedInputs:
    """What was measured on the distinct texts, for each of the N inputs; `source` says which distinct text each is."""
    found, units = measured.saliency, measured.units
    saliency = Saliency(*(getattr(found, f.name)[source] for f in fields(Saliency)))
    return AuditedInputs(
        encoded=encoded,
        saliency=saliency,
        effects=MaskingEffects(measured.effects.probs[source]),
        units=Units(*([getattr(units, f.name)[i] for i in source] for f in fields(Units))),
    )


@dataclass(frozen=True)
class Repeats:
    """Which of N inputs repeat another.

    Attributes:
        same_as: The first input with exactly the same text, shape (N,).
        weights: For the first of equal texts how many there are, for the others 0, shape (N,).
        evidence: Whether the input is the first among near-identical ones, shape (N,); see `shards.evidence_key`.
    """

    same_as: Array
    weights: Array
    evidence: Array


def find_repeats(exact: Sequence[int] | Array, near: Sequence[int] | Array) -> Repeats:
    """Sort inputs by the keys of `shards.text_key` and `shards.evidence_key`, both of length N."""
    _, first, inverse, counts = np.unique(
        np.asarray(exact, dtype=np.uint64), return_index=True, return_inverse=True, return_counts=True
    )
    weights = np.zeros(len(inverse), dtype=np.int64)
    weights[first] = counts
    evidence = np.zeros(len(inverse), dtype=bool)
    evidence[np.unique(np.asarray(near, dtype=np.uint64), return_index=True)[1]] = True
    return Repeats(first[inverse], weights, evidence)


def check_ordinary(encoded: EncodedTexts, numbers: Array | None = None) -> None:
    """Refuse texts in which nothing can be masked.

    Args:
        encoded: N texts.
        numbers: What to call each of them, shape (N,); 1 to N without.

    Raises:
        DataError: Names the first few of them.
    """
    numbers = np.arange(1, len(encoded) + 1) if numbers is None else numbers
    empty = [int(numbers[i]) for i, ordinary in enumerate(encoded.ordinary) if not ordinary.any()]
    if empty:
        some = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
        raise DataError(
            f"{len(empty)} of {len(encoded)} texts hold nothing but special tokens, so there is nothing to attribute "
            f"(text {some}). Remove them."
        )


def predicted_probabilities(saliency: Saliency, effects: MaskingEffects) -> tuple[Array, Array]:
    """P(y_hat | x), shape (N,), and P(y_hat | x with one token masked), shape (N, K)."""
    rows = np.arange(len(saliency.predictions))
    return saliency.probs[rows, saliency.predictions], effects.probability_of(saliency.predictions)


# From shards to a report


def make_report(
    shards: Shards,
    config: AuditConfig,
    label_names: tuple[str, ...],
    *,
    texts_of: TextsOf,
    inputs: AuditedInputs | None = None,
) -> AuditReport:
    """Everything an audit says, from its shards.

    Args:
        shards: Gives the shards, as often as it is called.
        config: What the shards were made with.
        label_names: Names of the classes.
        texts_of: Gives the texts of some inputs, for the examples.
        inputs: What is kept of every text.
    """
    totals = _totals(shards, len(label_names))
    phrases = acting_together(shards) if config.unit == "phrase" else {}
    if config.unit == "phrase":
        shards = with_phrases(shards, phrases)
    sums = tally(shards, config)
    verdicts = with_group(shards, sums, judge(shards, sums, config), config)
    order = _ranking(sums, verdicts)[:MAX_CANDIDATES]
    details = find_details(shards, [sums.names[i] for i in order[:DETAILED]], config.n_examples, label_names, texts_of)
    candidates = tuple(_candidate(sums, verdicts, i, config, label_names, details) for i in order)
    return AuditReport(
        unit=config.unit,
        top_k=config.top_k,
        alpha=config.alpha,
        min_opposition=config.min_opposition,
        label_names=label_names,
        candidates=candidates,
        n_candidates=int((sums.count > 0).sum()),
        n_tested=int(verdicts.tested.sum()),
        n_undecided=int(verdicts.undecided.sum()),
        group_p_value=verdicts.group_p_value,
        notes=_notes(totals, verdicts, label_names, config),
        inputs=inputs,
        **totals,
    )


def _totals(shards: Shards, n_classes: int) -> dict[str, Any]:
    """The fields of a report that are sums over texts."""
    n = n_evidence = cut = n_agreement = n_top = untrusted = n_distinct = 0
    predicted = np.zeros(n_classes, dtype=np.int64)
    bins, agreement_bins = np.zeros(20), np.zeros(20)
    sensitive = agreement = 0.0
    for shard in shards():
        n += int(shard.weights.sum())
        computed = shard.weights > 0
        n_distinct += int(computed.sum())
        n_evidence += int(shard.evidence.sum())
        cut += int(shard.weights[shard.truncated].sum())
        np.add.at(predicted, shard.predictions, shard.weights)
        sensitive += float((shard.sensitivity * shard.weights).sum())
        bins += np.histogram(shard.sensitivity, bins=20, range=(0, 1), weights=shard.weights)[0]
        defined = shard.agreement[computed & ~np.isnan(shard.agreement)]
        n_agreement += len(defined)
        agreement += float(defined.sum())
        untrusted += int((defined <= 0).sum())
        n_top += int(shard.top_agrees[computed].sum())
        agreement_bins += np.histogram(np.clip(defined, -1, 1), bins=20, range=(-1, 1))[0]
    return {
        "n": n,
        "n_distinct": n_evidence,
        "n_truncated": cut,
        "predicted": tuple(int(x) for x in predicted),
        "mstps": sensitive / n,
        "sensitivity_histogram": tuple(int(x) for x in bins),
        "agreement": Agreement(
            mean=agreement / n_agreement if n_agreement else float("nan"),
            n=n_agreement,
            top_agrees=n_top / n_distinct,
            untrusted=untrusted / n_agreement if n_agreement else float("nan"),
            histogram=tuple(int(x) for x in agreement_bins),
        ),
    }


def _ranking(sums: Tally, verdicts: Verdicts) -> list[int]:
    """Flagged candidates as they were flagged, what goes with others and is undecided by their flips, and the rest; see
    `AuditReport`."""
    place = {candidate: i for i, candidate in enumerate(verdicts.flagged)}
    # What is known of several together is more than what is known of the other undecided ones.
    standings = len(place) + 2 - verdicts.undecided.astype(int) - (verdicts.takes_turns | verdicts.collective)
    important = [i for i in range(len(sums.names)) if sums.count[i] > 0]

    def key(i: int) -> tuple[int, float, float, float, str]:
        surely_flips = 0.0
        if verdicts.undecided[i]:
            surely_flips = _share_interval(int(sums.flips[i]), int(sums.important[i]))[0]
        standing = place.get(i, int(standings[i]))
        return (standing, -surely_flips, round(float(verdicts.q[i]), 6), float(sums.change[i, 0]), sums.names[i])

    return sorted(important, key=key)


def _candidate(
    sums: Tally,
    verdicts: Verdicts,
    i: int,
    config: AuditConfig,
    label_names: tuple[str, ...],
    details: Mapping[str, Details],
) -> Candidate:
    n = int(sums.important[i])
    target, n_present = int(verdicts.target[i]), int(sums.present[i])
    detail = details.get(sums.names[i], Details())
    return Candidate(
        text=sums.names[i],
        unit="phrase" if sums.n_words[i] > 1 else ("token" if config.unit == "token" else "word"),
        count=int(sums.count[i]),
        flip_rate=_share(sums.flips[i], n),
        mean_change=_share(sums.change[i, 0], n),
        pulls_to=label_names[target] if target >= 0 else None,
        contradiction_rate=_share(sums.contradicted[i], n),
        interval=Intervals(
            flip_rate=_share_interval(int(sums.flips[i]), n),
            mean_change=_mean_interval(float(sums.change[i, 0]), float(sums.change[i, 1]), n),
            contradiction_rate=_share_interval(int(sums.contradicted[i]), n),
        ),
        q_value=float(verdicts.q[i]),
        flagged=i in verdicts.flagged,
        status="flagged" if i in verdicts.flagged else "undecided" if verdicts.undecided[i] else "not_flagged",
        reason=_reason(verdicts, i, n_present, label_names[target]) if verdicts.undecided[i] else None,
        n_distinct=n,
        n_present=n_present,
        opposed_rate=float(verdicts.opposed[i]) if target >= 0 else float("nan"),
        expected_rate=float(verdicts.expected[i]) if target >= 0 else float("nan"),
        opposition=float(verdicts.opposition[i]),
        p_value=float(verdicts.p[i]),
        mean_rank=_share(sums.rank[i], n),
        examples=detail.examples,
        labelled=detail.labelled,
        takes_turns=bool(verdicts.takes_turns[i]),
        collective=bool(verdicts.collective[i]),
    )


def _reason(verdicts: Verdicts, i: int, n_present: int, label: str) -> str:
    """Why the test could not tell of an undecided candidate."""
    without, needed = int(verdicts.without[i]), verdicts.needed[i]
    if verdicts.takes_turns[i]:
        return (
            "its rest speaks less for the class, but with the flagged ones masked not beyond doubt: it seems to take "
            "turns with them, as the words of one shortcut do"
        )
    if verdicts.collective[i]:
        return (
            f"it is one of {int(verdicts.collective.sum())} that override the rest of their texts together, as the "
            "words of one shortcut do; for none of them is it proven alone"
        )
    if not without:
        return "every text holds it, so there are none without it to compare with"
    if not verdicts.too_few[i]:
        return (
            f"it decides most of its texts, and whether their rest speaks less for '{label}' than other texts do is "
            "not settled: it may be the only evidence, or a shortcut"
        )
    if without < n_present:
        few = f"too few texts: only {without:,} distinct ones are without it"
        return few if math.isnan(needed) else f"{few}; at least {needed / n_present:.1f} times as many texts are needed"
    few = f"too few texts: it stands in {n_present:,} distinct ones"
    return few if math.isnan(needed) else f"{few}; at least {int(needed):,} are needed"


# Most of a corpus's words occur a few times, so the same counts come again and again.
_share_interval = cache(exact_interval)


def _share(total: float, n: int) -> float:
    return float(total) / n if n else float("nan")


def _mean_interval(total: float, squares: float, n: int) -> tuple[float, float]:
    """95 % interval of a mean of changes, by Student's t, within [-1, 1]; NaNs for fewer than two."""
    if n < 2:
        return (float("nan"), float("nan"))
    from scipy.stats import t

    mean = total / n
    error = math.sqrt(max(squares / n - mean * mean, 0.0) / (n - 1))
    half = float(t.ppf(0.975, n - 1)) * error
    return (max(-1.0, mean - half), min(1.0, mean + half))


def _notes(
    totals: Mapping[str, Any], verdicts: Verdicts, label_names: tuple[str, ...], config: AuditConfig
) -> tuple[str, ...]:
    notes = []
    never = [name for name, count in zip(label_names, totals["predicted"], strict=True) if not count]
    if never:
        notes.append(f"The model never answers {', '.join(map(repr, never))} on these texts.")
    if totals["n_distinct"] < totals["n"]:
        notes.append(
            f"{totals['n'] - totals['n_distinct']} of {totals['n']} texts repeat another one, or nearly so, and add no "
            "evidence."
        )
    if not verdicts.tested.any():
        notes.append(
            f"Nothing occurs in {config.min_count} or more distinct texts, so no candidate was tested. More of them, "
            "not repeated ones, are needed."
        )
    if totals["agreement"].mean < LOW_AGREEMENT:  # NaN is not
        notes.append(
            f"Attribution agrees with the true effect of masking only weakly (mean rank correlation "
            f"{totals['agreement'].mean:.2f}): a large top_k misses less."
        )
    return tuple(notes)
