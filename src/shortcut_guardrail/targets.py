"""What to neutralise: which words and phrases are taken for shortcuts, on what evidence, and where they stand.

Without labels the audit's flagged candidates are taken, those that take turns with them, and those that dominate the
corpus: that, with others of their class beside these, decide more than a quarter of all texts although the rest is
confidently given another answer. The audit's test compares texts with a candidate to those without, so it cannot see
what stands nearly everywhere. A support set, however small, clears or confirms candidates by paired evidence: the base
answers every labelled text that holds the candidate with and without it. A person's word comes before all evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from .audit import AuditReport, audit_texts, find_repeats
from .config import TargetConfig
from .encoder import EncodedTexts, Progress, TextClassifier
from .errors import ConfigError, ModelError
from .evidence import Candidate
from .metrics import exact_interval
from .record import text_hash
from .shards import evidence_key, text_key
from .units import MAX_PHRASE_WORDS, Units, unit_key, units_text, word_spans, words_as_units

Array = np.ndarray[Any, np.dtype[Any]]

Verdict = Literal["given", "kept", "flagged", "alternate", "dominant", "confirmed", "cleared"]
_UNLABELLED = ("flagged", "alternate", "dominant")

LEAST_SHARE = 0.01
"""A fixed phrase in a smaller share of the texts than this is not asked whether it dominates."""
_NEUTRALISED = ("given", *_UNLABELLED, "confirmed")


@dataclass(frozen=True)
class Target:
    """A word or phrase and whether it is neutralised.

    Attributes:
        text: Its characters, lower case.
        verdict: `given` by a person as a shortcut, `kept` by a person, `flagged` by the audit, `alternate` for taking
            turns with flagged ones, `dominant` in the corpus, `confirmed` by the support set, or `cleared` by it. All
            but kept and cleared ones are neutralised.
        count: Texts of the audit in which it is important; `None` where it was not audited.
        flip_rate: See `Candidate`.
        pulls_to: See `Candidate`.
        q_value: See `Candidate`.
        n_support: Texts of the support set that hold it.
        mended: Of those, texts that the base answers wrongly, and rightly with it masked.
        broken: The other way round.
        p_value: Of the test that the verdict rests on: that masking it raises the right class's probability, where it
            is confirmed, else that masking it breaks answers; `None` where the support set had no say.
    """

    text: str
    verdict: Verdict
    count: int | None = None
    flip_rate: float | None = None
    pulls_to: str | None = None
    q_value: float | None = None
    n_support: int = 0
    mended: int = 0
    broken: int = 0
    p_value: float | None = None

    @property
    def neutralised(self) -> bool:
        """Whether it is taken for a shortcut."""
        return self.verdict in _NEUTRALISED


@dataclass(frozen=True)
class Targets:
    """The words and phrases that were weighed.

    Attributes:
        items: The neutralised ones first.
        rows: Hashes of the labelled texts that had a say, or trained the adapter; they can certify nothing about the
            result.
    """

    items: tuple[Target, ...] = ()
    rows: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words and phrases that are neutralised."""
        return tuple(item.text for item in self.items if item.neutralised)

    @property
    def finder(self) -> TargetFinder:
        """Finds them in texts, but not inside phrases that a person keeps."""
        return TargetFinder(self.words, kept=[item.text for item in self.items if item.verdict == "kept"])

    def to_dict(self) -> list[dict[str, Any]]:
        """A JSON-ready list of the items."""
        return [asdict(item) for item in self.items]

    @classmethod
    def from_dict(cls, values: Iterable[Mapping[str, Any]], rows: Iterable[str] = ()) -> Targets:
        """The targets that `to_dict` wrote, and the rows that are kept apart from them.

        Raises:
            ModelError: They are damaged.
        """
        try:
            return cls(tuple(Target(**item) for item in values), tuple(rows))
        except TypeError as error:
            raise ModelError(f"The targets of the guard are damaged: {error}. Fit and save it again.") from error


class TargetFinder:
    """Finds given words and phrases in encoded texts, as the tokens that they are made of.

    An occurrence is a run of whole words, as the audit cuts texts into words, whose keys are those of the word or
    phrase: case, the kind of apostrophe and invisible characters make no difference. Occurrences that overlap are taken
    together.

    Args:
        words: The words and phrases.
        kept: Phrases in which nothing is looked for: with "bad" a target and "not bad" kept, "not bad" has none.
    """

    def __init__(self, words: Iterable[str], *, kept: Iterable[str] = ()) -> None:
        self.words = tuple(words)
        self._kept = TargetFinder(kept) if (kept := tuple(kept)) else None
        # Twice: as the audit spells it, and as its words with single spaces between, which is how a person might.
        self._keys = {unit_key(word) for word in self.words} | {_spaced(word) for word in self.words}
        self._first = {key.split(" ", 1)[0] for key in self._keys}
        self._longest = max((len(key.split(" ")) for key in self._keys), default=0)

    def __bool__(self) -> bool:
        return bool(self.words)

    def find(self, encoded: EncodedTexts) -> list[Array]:
        """Positions of the tokens of all occurrences, N arrays of shape (T,), int64, ascending."""
        return [np.flatnonzero(self.tokens(encoded, i)) for i in range(len(encoded))]

    def present(self, encoded: EncodedTexts) -> Array:
        """Which texts hold an occurrence that the model sees, shape (N,), bool."""
        return np.array([bool(self.tokens(encoded, i).any()) for i in range(len(encoded))], dtype=bool)

    def tokens(self, encoded: EncodedTexts, index: int) -> Array:
        """Which tokens of one text belong to an occurrence, shape (L,), bool."""
        chosen = np.zeros(len(encoded.input_ids[index]), dtype=bool)
        if not self._may_hold(encoded.texts[index]):
            return chosen
        units = words_as_units(encoded.select([index]))
        kept = self._kept._spans(units) if self._kept else []
        for first, last in self._spans(units):
            if not any(start <= first and last <= end for start, end in kept):
                chosen |= (units.of_token[0] >= first) & (units.of_token[0] <= last)
        return chosen

    def _may_hold(self, text: str | tuple[str, str]) -> bool:
        """A quick look that spares most texts the cutting into words."""
        parts = (text,) if isinstance(text, str) else text
        return any(first in unit_key(part) for part in parts for first in self._first)

    def _spans(self, units: Units) -> list[tuple[int, int]]:
        """Spans (first, last) of units of the only text whose keys are those of a target."""
        keys, segments = units.keys[0], units.spans[0][:, 2]
        return [
            (first, last)
            for first, key in enumerate(keys)
            if any(key.split(" ", 1)[0] == start for start in self._first)
            for last in range(first, min(first + self._longest, len(keys)))
            if segments[first] == segments[last] and units_text(units, 0, first, last) in self._keys
        ]


def _spaced(word: str) -> str:
    return " ".join(unit_key(word[start:end]) for start, end in word_spans(word))


def masked_texts(encoded: EncodedTexts, positions: list[Array], mask_token_id: int) -> EncodedTexts:
    """The texts with some tokens replaced by the mask token.

    Args:
        encoded: N texts.
        positions: The tokens, N arrays.
        mask_token_id: The id to put in.
    """
    ids, ordinary = [], []
    for i, chosen in enumerate(positions):
        ids.append(encoded.input_ids[i].copy())
        ordinary.append(encoded.ordinary[i].copy())
        ids[-1][chosen], ordinary[-1][chosen] = mask_token_id, False
    return replace(encoded, input_ids=ids, ordinary=ordinary)


def shortened_texts(encoded: EncodedTexts, positions: list[Array], mask_token_id: int) -> EncodedTexts:
    """The texts with some tokens cut out, and with them a comma that only set them apart.

    A text of which no ordinary token would be left has them masked instead.

    Args:
        encoded: N texts.
        positions: The tokens, N arrays.
        mask_token_id: The id to put in where cutting would leave nothing.
    """
    cut = []
    for i, chosen in enumerate(positions):
        keep = np.ones(len(encoded.input_ids[i]), dtype=bool)
        keep[chosen] = False
        if len(chosen) and not (keep & encoded.ordinary[i]).any():
            masked = masked_texts(encoded.select([i]), [chosen], mask_token_id)
            cut.append((masked, np.arange(len(keep))))
            continue
        keep[_loose_commas(encoded, i, keep)] = False
        cut.append((encoded.select([i]), np.flatnonzero(keep)))
    return _rebuilt(encoded, lambda name: [getattr(one, name)[0][kept] for one, kept in cut])


_PER_TOKEN = ("input_ids", "token_type_ids", "ordinary", "offsets", "segments")


def _rebuilt(encoded: EncodedTexts, arrays: Callable[[str], list[Array]]) -> EncodedTexts:
    """The same texts with other tokens; `arrays` gives the new arrays of a field."""
    changes: dict[str, Any] = {name: arrays(name) for name in _PER_TOKEN if getattr(encoded, name) is not None}
    return replace(encoded, **changes)


def with_insertions(
    encoded: EncodedTexts, bearing: EncodedTexts, positions: list[Array], *, max_length: int, rng: np.random.Generator
) -> EncodedTexts:
    """Each text with a shortcut put in, as it stands in one of the texts that hold one.

    What stands at the start of its text is put at the start, with the comma that sets it apart; anything else before a
    word drawn at random. Tokens are put in as they are; where the text gets too long, its end is cut.

    Args:
        encoded: N texts without a shortcut.
        bearing: Texts with one, at least one of them.
        positions: The tokens of their shortcuts.
        max_length: Tokens per input, special tokens included.
        rng: Draws the occurrence and the place.
    """
    patterns = [p for i, chosen in enumerate(positions) for p in _patterns(bearing, i, chosen)]
    words = words_as_units(encoded)
    new: list[dict[str, Array]] = []
    for i in range(len(encoded)):
        source, first, last, at_start = patterns[int(rng.integers(len(patterns)))]
        starts = np.flatnonzero(np.diff(words.of_token[i], prepend=-1) > 0)
        place = int(starts[0] if at_start or len(starts) == 1 else rng.choice(starts[1:]))
        room = max_length - (last - first)
        kept = _shortened(encoded, i, room)
        place = min(place, int(kept[-1]))
        before, after = kept[kept < place], kept[kept >= place]
        arrays = {}
        for name in _PER_TOKEN:
            if getattr(encoded, name) is not None:
                own, put = getattr(encoded, name)[i], getattr(bearing, name)[source][first:last]
                # The segment and the type are those of where it is put; the characters are of no text here.
                put = put if name in ("input_ids", "ordinary") else np.repeat(own[place : place + 1], last - first, 0)
                arrays[name] = np.concatenate([own[before], put, own[after]])
        new.append(arrays)
    return _rebuilt(encoded, lambda name: [arrays[name] for arrays in new])


def _patterns(encoded: EncodedTexts, index: int, chosen: Array) -> list[tuple[int, int, int, bool]]:
    """Occurrences to copy: the text, first token, one past the last, and whether it opens the text."""
    keep = np.ones(len(encoded.input_ids[index]), dtype=bool)
    keep[chosen] = False
    keep[_loose_commas(encoded, index, keep)] = False
    opens = int(np.flatnonzero(encoded.ordinary[index])[0])
    return [(index, start, end, start == opens) for start, end in _runs(np.flatnonzero(~keep))]


def _shortened(encoded: EncodedTexts, index: int, length: int) -> Array:
    """Positions of a text that are left when it is cut to a length, at the end of its ordinary tokens."""
    positions = np.arange(len(encoded.input_ids[index]))
    over = len(positions) - length
    return positions if over <= 0 else np.delete(positions, np.flatnonzero(encoded.ordinary[index])[-over:])


def _loose_commas(encoded: EncodedTexts, index: int, keep: Array) -> list[int]:
    """Commas right after something cut out at the start of a clause, or right before something cut out at its end."""
    loose = []
    gaps = np.flatnonzero(~keep)
    for start, end in _runs(gaps):
        before, after = _character(encoded, index, start - 1), _character(encoded, index, end)
        if after == "," and not before.isalnum():
            loose.append(end)
        elif before == "," and not after.isalnum():
            loose.append(start - 1)
    return loose


def _runs(positions: Array) -> list[tuple[int, int]]:
    """Runs of neighbouring numbers, as (first, one past the last)."""
    if not len(positions):
        return []
    breaks = np.flatnonzero(np.diff(positions) > 1)
    starts, ends = positions[np.r_[0, breaks + 1]], positions[np.r_[breaks, len(positions) - 1]] + 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _character(encoded: EncodedTexts, index: int, position: int) -> str:
    """The characters of a token if they come from the text, else nothing."""
    if not 0 <= position < len(encoded.input_ids[index]) or encoded.segments[index][position] < 0:
        return ""
    start, end = (int(x) for x in encoded.offsets[index][position])
    return encoded.text_of(index, int(encoded.segments[index][position]))[start:end].strip()


# The choice


def find_targets(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    config: TargetConfig,
    *,
    support: tuple[EncodedTexts, Array] | None = None,
    progress: Progress | None = None,
) -> Targets:
    """Audit the texts and decide what is neutralised.

    Args:
        classifier: The base model.
        encoded: N unlabelled deployment texts.
        config: What a person said, and how the evidence is weighed.
        support: A few labelled texts and their class ids, shape (n,), to clear and confirm candidates on.
        progress: Told how much of each stage is done.

    Raises:
        DataError: A text has no ordinary token.
        ConfigError: What a person said contradicts itself.
    """
    check_said(config)
    items = ranked_targets(classifier, encoded, config, progress=progress)
    taken = sum(item.verdict in _UNLABELLED for item in items)
    items = items[: taken if support is None else max(taken, config.max_considered)]
    if support is not None:
        items = weigh(items, paired_evidence(classifier, items, *support), config)
    rows = () if support is None else tuple(sorted({text_hash(text) for text in support[0].texts}))
    return with_said(Targets(tuple(items), rows), config)


def ranked_targets(
    classifier: TextClassifier, encoded: EncodedTexts, config: TargetConfig, *, progress: Progress | None = None
) -> list[Target]:
    """All candidates of the audit, those first that are neutralised unless labels or a person object.

    Arguments and errors: see `find_targets`.
    """
    report = audit_texts(classifier, encoded, config.audit(), progress=progress)
    dominant = _dominant(classifier, encoded, report, config)
    items = [_audited(candidate, dominant) for candidate in report.candidates if not np.isnan(candidate.p_value)]
    audited = {item.text for item in items}
    items += [
        Target(found.text, "dominant", found.count, found.flip_rate, found.pulls_to)
        for found in dominant.values()
        if found.text not in audited
    ]
    return sorted(items, key=lambda item: item.verdict not in _UNLABELLED)


def _audited(candidate: Candidate, dominant: Mapping[str, Any]) -> Target:
    """A candidate of the audit; one that nothing speaks against counts as cleared until a support set confirms it."""
    return Target(
        text=candidate.text,
        verdict=_unlabelled_verdict(candidate, dominant),
        count=candidate.count,
        flip_rate=candidate.flip_rate,
        pulls_to=candidate.pulls_to,
        q_value=candidate.q_value,
    )


def _unlabelled_verdict(candidate: Candidate, dominant: Mapping[str, Any]) -> Verdict:
    if candidate.flagged:
        return "flagged"
    if candidate.takes_turns:
        return "alternate"
    return "dominant" if candidate.text in dominant else "cleared"


@dataclass(frozen=True)
class _Deciding:
    """A word or phrase that decides most of its texts although their rest is confidently given another answer.

    `contradicted` are those texts, by their number among the distinct ones.
    """

    text: str
    pulls_to: str | None
    count: int
    flip_rate: float
    contradicted: frozenset[int]


def _dominant(
    classifier: TextClassifier, encoded: EncodedTexts, report: AuditReport, config: TargetConfig
) -> dict[str, _Deciding]:
    """What decides most of its texts against the rest, where that of its class does so in very many texts.

    The share of distinct texts is tested exactly, over all classes; a text in which several decide counts once. Of what
    stands inside a phrase that decides as well, the phrase alone is kept. What the audit's test has found already is
    left out: it would draw along the genuine words of its class.
    """
    from scipy.stats import binom

    distinct = np.flatnonzero(find_repeats(*_keys(encoded)).evidence)
    texts, probs = encoded.select(distinct), np.asarray(report.saliency.probs)[distinct]
    deciding = _deciding(classifier, texts, probs, report, config)
    inside = {part for found in deciding if " " in found.text for part in _parts_of(found.text)}
    known = {c.text for c in report.candidates if c.flagged or c.takes_turns}
    deciding = [found for found in deciding if not known & {found.text, *_parts_of(found.text)}]
    classes: dict[str | None, list[_Deciding]] = {}
    for found in deciding:
        if found.text not in inside:
            classes.setdefault(found.pulls_to, []).append(found)
    chosen: dict[str, _Deciding] = {}
    for members in classes.values():
        contradicted = frozenset[int]().union(*(found.contradicted for found in members))
        p_value = float(binom.sf(len(contradicted) - 1, len(texts), config.dominant_share))
        if p_value <= config.alpha / len(report.label_names):
            chosen |= {found.text: found for found in members}
    return chosen


def _keys(encoded: EncodedTexts) -> tuple[list[int], list[int]]:
    return [text_key(text) for text in encoded.texts], [evidence_key(text) for text in encoded.texts]


_MOST = 0.5


def _parts_of(phrase: str) -> set[str]:
    """All shorter runs of a phrase's words."""
    words = phrase.split(" ")
    return {" ".join(words[a:b]) for a in range(len(words)) for b in range(a + 1, len(words) + 1)} - {phrase}


def _deciding(
    classifier: TextClassifier, texts: EncodedTexts, probs: Array, report: AuditReport, config: TargetConfig
) -> list[_Deciding]:
    """Words and fixed phrases that decide most of their texts when they are masked as a whole.

    The audit joins words whose effects interact. The words of a fixed phrase may instead each add their share, and none
    of them decide a text; so runs of words that recur as a whole are masked as a whole.

    Args:
        classifier: The base model.
        texts: The D distinct texts.
        probs: What it answers to them, shape (D, C).
        report: The audit, for the words; "most" is asked of the lower end of an interval.
        config: Whether phrases are looked for.
    """
    audit = config.audit()
    candidates = {
        c.text: np.flatnonzero(TargetFinder([c.text]).present(texts)).tolist()
        for c in report.candidates
        if not np.isnan(c.p_value) and c.interval.contradiction_rate[0] > _MOST
    }
    if config.unit == "phrase":
        least = max(audit.min_count, math.ceil(LEAST_SHARE * len(texts)))
        candidates = _fixed_phrases(words_as_units(texts), least) | candidates
    found = []
    for name, rows in candidates.items():
        bearing = texts.select(rows)
        masked = masked_texts(bearing, TargetFinder([name]).find(bearing), classifier.tokenizer.mask_token_id)
        after = _probs(classifier, masked)
        flips = after.argmax(axis=1) != probs[rows].argmax(axis=1)
        against = np.asarray(rows)[flips & (after.max(axis=1) >= audit.confidence)]
        if exact_interval(len(against), len(rows))[0] > _MOST:
            pulls_to = report.label_names[int((probs[rows] - after).sum(axis=0).argmax())]
            found.append(_Deciding(name, pulls_to, len(rows), float(flips.mean()), frozenset(against.tolist())))
    return found


def _fixed_phrases(units: Units, min_count: int) -> dict[str, list[int]]:
    """Runs of 2 to 5 words that stand in enough texts, and in which; those that all but always stand inside a longer
    one are left to that one."""
    texts: dict[str, list[int]] = {}
    for i, keys in enumerate(units.keys):
        wordlike, segments = units.wordlike[i], units.spans[i][:, 2]
        here = set()
        for first in range(len(keys)):
            for last in range(first + 1, min(first + MAX_PHRASE_WORDS, len(keys))):
                if not wordlike[first : last + 1].all() or segments[first] != segments[last]:
                    break
                here.add(units_text(units, i, first, last))
        for phrase in here:
            texts.setdefault(phrase, []).append(i)
    recurring = {phrase: rows for phrase, rows in texts.items() if len(rows) >= min_count}
    left = {
        part
        for phrase, rows in recurring.items()
        for part in _parts_of(phrase)
        if len(rows) >= 0.9 * len(recurring.get(part, rows))
    }
    return {phrase: rows for phrase, rows in recurring.items() if phrase not in left}


@dataclass(frozen=True, eq=False)
class Paired:
    """What labelled texts say of one candidate.

    Attributes:
        rows: Which of the labelled texts hold it, shape (n,), ascending.
        answers: 1 where masking it puts the base's answer right, -1 where it puts it wrong, else 0, shape (n,).
        changes: P(right class) with it masked minus without, shape (n,), each in [-1, 1].
    """

    rows: Array
    answers: Array
    changes: Array

    @property
    def n(self) -> int:
        """Number of labelled texts that hold it."""
        return len(self.rows)

    @property
    def mended(self) -> int:
        """Texts that the base answers wrongly, and rightly with it masked."""
        return int((self.answers > 0).sum())

    @property
    def broken(self) -> int:
        """The other way round."""
        return int((self.answers < 0).sum())

    def among(self, rows: Array) -> Paired:
        """The same of some of the labelled texts."""
        chosen = np.isin(self.rows, rows)
        return Paired(self.rows[chosen], self.answers[chosen], self.changes[chosen])


def paired_evidence(
    classifier: TextClassifier, items: list[Target], support: EncodedTexts, labels: Array
) -> list[Paired]:
    """For each candidate what masking it does to the answers to the labelled texts that hold it.

    Args:
        classifier: The base model.
        items: The candidates.
        support: Labelled texts.
        labels: Their class ids, shape (n,).
    """
    probs = _probs(classifier, support)
    found = []
    for item in items:
        positions = TargetFinder([item.text]).find(support)
        rows = np.array([i for i, chosen in enumerate(positions) if len(chosen)], dtype=np.int64)
        after = np.zeros((0, probs.shape[1]))
        if len(rows):
            chosen = [positions[i] for i in rows]
            after = _probs(classifier, masked_texts(support.select(rows), chosen, classifier.tokenizer.mask_token_id))
        right, before = labels[rows], probs[rows]
        was, is_ = ((probs_.argmax(axis=1) == right).astype(int) for probs_ in (before, after))
        at = np.arange(len(rows)), right
        found.append(Paired(rows, is_ - was, after[at] - before[at]))
    return found


def _probs(classifier: TextClassifier, encoded: EncodedTexts) -> Array:
    return np.asarray(torch.from_numpy(classifier.predict_logits(encoded)).double().softmax(dim=-1).numpy())


def weigh(items: list[Target], evidence: list[Paired], config: TargetConfig) -> list[Target]:
    """Verdicts from the support set; candidates that neither the audit nor it names are left out.

    Args:
        items: What the audit says of each candidate.
        evidence: What labelled texts say of it.
        config: `confirm_level` and `clear_level`.
    """
    worse = [mcnemar_greater(found.broken, found.mended) for found in evidence]
    open_ = [i for i, item in enumerate(items) if item.verdict not in _UNLABELLED]
    better = {i: sign_flip_test(evidence[i].changes) for i in open_}
    rejected = holm([better[i] for i in open_], [_answers_held(items[i]) for i in open_], config.confirm_level)
    confirmed = {open_[j] for j in rejected if evidence[open_[j]].mended > evidence[open_[j]].broken}
    weighed = []
    for i, (item, found) in enumerate(zip(items, evidence, strict=True)):
        seen = replace(item, n_support=found.n, mended=found.mended, broken=found.broken)
        if item.verdict in _UNLABELLED and worse[i] <= config.clear_level:
            weighed.append(replace(seen, verdict="cleared", p_value=worse[i]))
        elif item.verdict in _UNLABELLED:
            weighed.append(replace(seen, p_value=worse[i] if found.n else None))
        elif i in confirmed:
            weighed.append(replace(seen, verdict="confirmed", p_value=better[i]))
    return weighed


def _answers_held(item: Target) -> float:
    """How many answers to unlabelled texts change when it is masked: what there is to gain by confirming it."""
    return (item.count or 0) * (item.flip_rate or 0.0)


def mcnemar_greater(successes: int, failures: int) -> float:
    """Exact one-sided McNemar test: are successes more than chance makes of them?"""
    from scipy.stats import binom

    return float(binom.sf(successes - 1, successes + failures, 0.5))


LEAST_CHANGE = 0.1
"""Smaller gains of a probability count as none, and losses of any size as they are: many a genuine word holds the right
class down a little in most of its texts and up a lot in a few, and of a handful of texts none may be of the few."""
_EXACT_TO = 15  # changes whose signs are all tried, 32,768 ways; more are drawn
_SIGN_FLIPS = 99_999


def sign_flip_test(changes: Array) -> float:
    """One-sided randomisation test of paired differences (Fisher): are the changes above 0?

    Under the null hypothesis each change is as likely to be as far below 0 as above it, so their sum is compared with
    the sums of the same changes under other signs. It sees what McNemar's test does not: how far the answers that do
    not change move. The null hypothesis is one of symmetry: that the mean is 0 while a large loss is rare is another
    one, which few texts cannot tell from a gain.

    Args:
        changes: Changes of the right class's probability, shape (n,); gains below `LEAST_CHANGE` count as 0.

    Returns:
        The p-value, in (0, 1]; at most 15 changes are enumerated, of more 99,999 draws are taken.
    """
    meant = changes[(changes < 0) | (changes >= LEAST_CHANGE)]
    n = len(meant)
    if n <= _EXACT_TO:
        signs, seen = 1 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1), 0
    else:
        signs, seen = np.random.default_rng(0).choice([-1.0, 1.0], size=(_SIGN_FLIPS, n)), 1
    # Sums in another order differ in their last digits.
    at_least = int((signs @ meant >= meant.sum() - 1e-9).sum())
    return (seen + at_least) / (seen + len(signs))


def holm(p_values: list[float], weights: list[float], level: float) -> list[int]:
    """Which hypotheses Holm's weighted procedure rejects (Holm 1979, section 5); of weight 0 none."""
    rejected: list[int] = []
    left = [i for i, weight in enumerate(weights) if weight > 0]
    while left:
        first = min(left, key=lambda i: p_values[i] / weights[i])
        if p_values[first] > level * weights[first] / sum(weights[i] for i in left):
            break
        rejected.append(first)
        left.remove(first)
    return rejected


def check_said(config: TargetConfig) -> None:
    """Whether what a person said can be done: to mask a phrase is to mask each of its words.

    Raises:
        ConfigError: A shortcut is kept, or holds what is kept.
    """
    kept = {_spaced(word): word for word in config.keep}
    for word in config.shortcuts:
        key = _spaced(word)
        if clash := kept.keys() & {key, *_parts_of(key)}:
            raise ConfigError(
                f"{word!r} cannot be a shortcut while {kept[min(clash)]!r} is kept: to neutralise a phrase is to "
                "neutralise its words. Leave out one of them."
            )


def with_said(targets: Targets, config: TargetConfig) -> Targets:
    """What a person said, over the evidence.

    Raises:
        ConfigError: It contradicts itself.
    """
    check_said(config)
    given = {_spaced(word): word for word in config.shortcuts}
    kept = {_spaced(word): word for word in config.keep}
    judged = []
    for item in targets.items:
        key = _spaced(item.text)
        if key in given:
            item = replace(item, verdict="given")
        elif kept.keys() & {key, *_parts_of(key)}:
            item = replace(item, verdict="kept")
        judged.append(item)
    known = {_spaced(item.text) for item in judged}
    judged += [Target(unit_key(word), "given") for key, word in given.items() if key not in known]
    judged += [Target(unit_key(word), "kept") for key, word in kept.items() if key not in known]
    return replace(targets, items=tuple(sorted(judged, key=lambda item: not item.neutralised)))
