"""What a model predicts where nothing speaks for any class, and which cues keep texts from that class.

Removing a word shows what depends on its presence. A model may also go by what is *absent*: trained where one class was
made from templates, it gives everything without the template to the other class. No word of such a text decides, so
that none is found. Nothing but `predict_proba(texts)` is asked here.

*Cues* of a class are the openings and endings that decide for it, and the candidates that hold its predictions up most,
`MOST_CUES` in all. They are cut out of texts of the class, and so are as many random words of the same texts.
*Without content*, texts say nothing: their function words alone, or words that are drawn from texts of all classes
alike. Cues are not among them, function words or not.

A class A is the *default* for one of two reasons, by the ends of 95 % intervals that speak against it, where other
classes are predicted as well:

- Texts without content are nearly always given A: of either kind, more than `NEARLY_ALL`.
- Most texts without content are given A, and the other classes *fall* to it: without their cues, or with one half of
  each text after the other, the share of their texts that are given A is larger than the share of texts of A that lose
  it so, by `LEAST_FALL` and more. Classes that have cues of their own fall alike, wherever these stand. Without cues
  more has to change than without as many random words.

Where a class means "none of these" (neutral, other, not toxic) it is the default rightly, and is reported as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..data import Count
from ..stats import exact_interval
from ..text import WordFinder, is_content, unit_key, word_spans
from ..typing import Array, Text
from .insertions import Answer, sides, with_words

MOST_TEXTS, LEAST_TEXTS = 150, 20
"""Texts that are asked about with each change, and those that a share is said of at least."""
MOST_CUES = 10
NEARLY_ALL, LEAST_FALL = 0.7, 0.2
LEAST_WRAPPED = 0.05
WRAPPER_WORDS = (3, 12)
MOST_WRAPPERS = 3
"""A wrapper is an opening or an ending of so many words that recurs in `LEAST_WRAPPED` of the texts."""


@dataclass(frozen=True)
class Probe:
    """Predictions for changed texts.

    Attributes:
        change: How they were changed: `function words`, `sampled words`, `half the words`, `first half`, `second half`.
        n: Texts that were predicted; those of which nothing was left were not.
        before: How many of them were predicted to be each class unchanged, in the order of the labels.
        kept: How many of these keep their prediction.
        given: How many are predicted to be each class.
    """

    change: str
    n: Count
    before: tuple[Count, ...]
    kept: tuple[Count, ...]
    given: tuple[Count, ...]


@dataclass(frozen=True)
class HeldUp:
    """Predictions for the texts of a class without its cues.

    Attributes:
        label: The class.
        cues: Its cues, the strongest first.
        n: Texts of the class that contain one, and are not empty without.
        given: How many of them are predicted to be each class without the cues, in the order of the labels.
        by_chance: The same without as many random words.
    """

    label: str
    cues: tuple[str, ...]
    n: Count
    given: tuple[Count, ...]
    by_chance: tuple[Count, ...]


@dataclass(frozen=True)
class Wrapper:
    """Words with which many texts open or end.

    Attributes:
        place: `start` or `end`.
        n: Texts that have it.
        label: The class predicted for most of them, and `with_it`, for how many.
        without: Of `n_without` texts with other content, how many are predicted to be that class without the wrapper.
        alone: The prediction for the wrapper alone.
        n_added: Texts of other classes that it was put around, and of these `added`, those then predicted as the class.
    """

    text: str
    place: str
    n: Count
    label: str
    with_it: Count
    n_without: Count
    without: Count
    alone: str
    n_added: Count
    added: Count


@dataclass(frozen=True)
class Defaults:
    """What is predicted without content and without cues; see the head of this module.

    Attributes:
        default: The class that remains when others lack evidence; `None` if there is none.
        reasons: Why: `without content`, if nearly all such texts get it; `cues`, `halves`, if other classes fall to it
            without their cues, or with half of each text.
        probes: Texts whose content or shape was changed.
        held_up: For each class that has cues.
        wrappers: Openings and endings that recur, the most frequent first.
    """

    default: str | None
    reasons: tuple[str, ...]
    probes: tuple[Probe, ...]
    held_up: tuple[HeldUp, ...]
    wrappers: tuple[Wrapper, ...]


def find_defaults(
    answer: Answer, texts: Sequence[Text], probs: Array, cues: Mapping[str, Sequence[str]], label_names: Sequence[str]
) -> Defaults:
    """Change texts and ask again: some ten predictions for each of at most `MOST_TEXTS` texts of a class.

    Args:
        answer: Class probabilities of N texts, shape (N, C).
        texts: Distinct texts in random order.
        probs: What the model answers to them, shape (len(texts), C).
        cues: Words and phrases that push towards each class, by its name, the strongest first.
        label_names: The classes.
    """
    asked, classes = Asked(answer, len(label_names)), probs.argmax(axis=1)
    sample = range(min(MOST_TEXTS, len(texts)))
    rng = np.random.default_rng(0)
    wrappers = tuple(_wrapper(asked, texts, classes, label_names, *one) for one in _recurring(texts))
    of_class = {label: _with_wrappers(cues.get(label, ()), label, wrappers) for label in label_names}
    named = WordFinder([cue for chosen in of_class.values() for cue in chosen])
    rows = [np.flatnonzero(classes == number).tolist() for number in range(len(label_names))]
    bags = [_words_of([texts[i] for i in of], named) for of in rows]
    bags = [bag for bag in bags if bag] or [[""]]
    changes: dict[str, Callable[[str], str]] = {
        "function words": lambda part: _kept(without_words(part, named), lambda word: not is_content(unit_key(word))),
        "sampled words": lambda part: " ".join(_drawn(bags, rng) for _ in _spelled(part)),
        "half the words": lambda part: _kept(part, lambda _: rng.random() < 0.5),
        "first half": lambda part: " ".join((words := _spelled(part))[: (len(words) + 1) // 2]),
        "second half": lambda part: " ".join((words := _spelled(part))[len(words) // 2 :]),
    }
    probes = []
    for change, made in changes.items():
        given, chosen = asked.about([changed_text(texts[i], made) for i in sample])
        before = classes[chosen]
        counts = (asked.counts(of) for of in (before, before[given == before], given))
        probes.append(Probe(change, len(given), *counts))
    held_up = []
    for label, of in zip(label_names, rows, strict=True):
        if found := _held_up(asked, [texts[i] for i in of], label, of_class[label], rng):
            held_up.append(found)
    default, reasons = _default(label_names, [len(of) for of in rows], probes, held_up)
    return Defaults(default, reasons, tuple(probes), tuple(held_up), wrappers)


def _with_wrappers(cues: Sequence[str], label: str, wrappers: Sequence[Wrapper]) -> tuple[str, ...]:
    """The cues of a class: openings and endings without which it loses texts, and candidates that are part of none."""
    deciding = [w for w in wrappers if w.label == label and w.n_without - w.without > LEAST_FALL * w.n_without]
    rest = [cue for cue in cues if not any(f" {cue} " in f" {wrapper.text} " for wrapper in deciding)]
    return (*(wrapper.text for wrapper in deciding), *rest)[:MOST_CUES]


def _words_of(texts: Sequence[Text], cues: WordFinder) -> list[str]:
    """All words of texts but their cues."""
    return [word for text in texts for part in sides(text) for word in _spelled(without_words(part, cues))]


def _drawn(bags: Sequence[Sequence[str]], rng: np.random.Generator) -> str:
    """A word of a text of any class, each as likely as the other: a class is no more frequent than another."""
    bag = bags[int(rng.integers(len(bags)))]
    return bag[int(rng.integers(len(bag)))]


class Asked:
    """Asks about texts, but for those of which nothing is left."""

    def __init__(self, answer: Answer, n_classes: int) -> None:
        self.answer, self.n_classes = answer, n_classes

    def about(self, copies: Sequence[Text]) -> tuple[Array, Array]:
        """The classes that texts are given, and which texts these are, both of shape (n,)."""
        full = [i for i, text in enumerate(copies) if all(any(map(str.isalnum, part)) for part in sides(text))]
        if not full:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        return self.answer([copies[i] for i in full]).argmax(axis=1), np.array(full)

    def counts(self, given: Array) -> tuple[int, ...]:
        """How many are given each class."""
        return tuple(int(n) for n in np.bincount(given, minlength=self.n_classes))


def _held_up(
    asked: Asked, texts: Sequence[Text], label: str, cues: tuple[str, ...], rng: np.random.Generator
) -> HeldUp | None:
    """Texts of a class without its cues; `None` if too few hold one."""
    finder = WordFinder(cues)
    bearing = [text for text in texts if any(finder.present(part) for part in sides(text))][:MOST_TEXTS]
    without = [changed_text(text, lambda part: without_words(part, finder)) for text in bearing]
    given, left = asked.about(without)
    if len(given) < LEAST_TEXTS:
        return None
    random, _ = asked.about([thinned_as(bearing[i], without[i], rng) for i in left])
    return HeldUp(label, cues, len(given), asked.counts(given), asked.counts(random))


def _default(
    label_names: Sequence[str], predicted: Sequence[int], probes: Sequence[Probe], held_up: Sequence[HeldUp]
) -> tuple[str | None, tuple[str, ...]]:
    """The class that is what is left, and why; see the head of this module."""
    empty = [
        probe for probe in probes if probe.change in ("function words", "sampled words") and probe.n >= LEAST_TEXTS
    ]
    n = sum(probe.n for probe in empty)
    for number, label in enumerate(label_names):
        of_others = sum(predicted) - predicted[number]
        if of_others < LEAST_TEXTS or not n or low_end(sum(probe.given[number] for probe in empty), n) <= 0.5:
            continue
        sure = len(empty) == 2 and min(low_end(probe.given[number], probe.n) for probe in empty) > NEARLY_ALL
        if reasons := (*["without content"] * sure, *_falls(number, label, probes, held_up)):
            return label, reasons
    return None, ()


def _falls(number: int, label: str, probes: Sequence[Probe], held_up: Sequence[HeldUp]) -> Iterator[str]:
    """What makes the other classes fall to a class, if it is missing."""
    n = gone = by_chance = n_own = lost = 0
    for one in held_up:
        if one.label == label:
            n_own, lost = one.n, one.n - one.given[number]
        else:
            n, gone, by_chance = n + one.n, gone + one.given[number], by_chance + one.by_chance[number]
    if gone > by_chance and is_more(gone, n, lost, n_own):
        yield "cues"
    halves = [probe for probe in probes if probe.change.endswith("half")]
    n_own, kept = sum(probe.before[number] for probe in halves), sum(probe.kept[number] for probe in halves)
    n, gone = sum(probe.n for probe in halves) - n_own, sum(probe.given[number] for probe in halves) - kept
    if min(n, n_own) >= 2 * LEAST_TEXTS and is_more(gone, n, n_own - kept, n_own):
        yield "halves"


def is_more(gone: int, n: int, lost: int, n_own: int) -> bool:
    """Whether the first share is larger by `LEAST_FALL`, whatever they are within their intervals."""
    return bool(n) and low_end(gone, n) - (exact_interval(lost, n_own)[1] if n_own else 0.0) >= LEAST_FALL


def low_end(successes: int, n: int) -> float:
    """The lower end of a share's 95 % interval."""
    return exact_interval(successes, n)[0]


def _recurring(texts: Sequence[Text]) -> list[tuple[str, str]]:
    """Openings and endings that recur, each the longest of those that hold it in nearly as many texts: text, place."""
    found = []
    for place in ("start", "end"):
        counts: Counter[tuple[str, ...]] = Counter()
        for text in texts:
            words = tuple(unit_key(word) for word in _spelled(sides(text)[0 if place == "start" else -1]))
            most = min(WRAPPER_WORDS[1], len(words))
            counts.update(_end(words, n, place) for n in range(WRAPPER_WORDS[0], most + 1))
        often = {words: n for words, n in counts.items() if n >= max(LEAST_TEXTS, LEAST_WRAPPED * len(texts))}
        for words, n in often.items():
            longer = [
                m for other, m in often.items() if len(other) > len(words) and _end(other, len(words), place) == words
            ]
            said = sum(any(map(str.isalnum, word)) for word in words)
            if said >= WRAPPER_WORDS[0] and max(longer, default=0) < 0.9 * n:
                found.append((n, " ".join(words), place))
    return [(text, place) for _, text, place in sorted(found, reverse=True)[:MOST_WRAPPERS]]


def _end(words: tuple[str, ...], n: int, place: str) -> tuple[str, ...]:
    return words[:n] if place == "start" else words[-n:]


def _wrapper(
    asked: Asked, texts: Sequence[Text], classes: Array, label_names: Sequence[str], words: str, place: str
) -> Wrapper:
    """What texts are given with a wrapper, without it, and the wrapper with nothing in it."""
    side, n, left = 0 if place == "start" else -1, words.count(" ") + 1, {}
    for i, text in enumerate(texts):
        part = sides(text)[side]
        spans = word_spans(part)
        of = spans[:n] if place == "start" else spans[-n:]
        if " ".join(unit_key(part[a:b]) for a, b in of) == words:
            left[i] = part[of[-1][1] :] if place == "start" else part[: of[0][0]]
    rows = list(left)
    given = np.bincount(classes[rows], minlength=len(label_names))
    label = int(given.argmax())
    chosen = [i for i in rows if classes[i] == label][:MOST_TEXTS]
    without, _ = asked.about([_with_side(texts[i], side, left[i].strip()) for i in chosen])
    alone, _ = asked.about([_with_side(texts[rows[0]], side, words)])
    counts = len(without), int((without == label).sum())
    empty = label_names[int(alone[0])] if len(alone) else ""
    others = [i for i in np.flatnonzero(classes != label).tolist() if i not in left][:MOST_TEXTS]
    parts = [with_words(sides(texts[i])[side], [words], place) for i in others]
    put, _ = asked.about([_with_side(texts[i], side, part) for i, part in zip(others, parts, strict=True)])
    added = len(put), int((put == label).sum())
    return Wrapper(words, place, len(rows), label_names[label], int(given[label]), *counts, empty, *added)


def _with_side(text: Text, side: int, part: str) -> Text:
    """A text, or one side of a pair, in place of what was there."""
    return part if isinstance(text, str) else (part, text[1]) if side == 0 else (text[0], part)


# Changes of a text


def without_words(text: str, finder: WordFinder) -> str:
    """A text without the words and phrases that a finder finds."""
    keep = np.ones(len(text), dtype=bool)
    for found in finder.find(text):
        keep[found.start : found.end] = False
    return " ".join("".join(c if kept else " " for c, kept in zip(text, keep, strict=True)).split())


def changed_text(text: Text, made: Callable[[str], str]) -> Text:
    """A text, or both of a pair, changed."""
    return made(text) if isinstance(text, str) else (made(text[0]), made(text[1]))


def _spelled(text: str) -> list[str]:
    return [text[start:end] for start, end in word_spans(text)]


def _kept(text: str, keeps: Callable[[str], bool]) -> str:
    """The words that are kept, in their order."""
    return " ".join(word for word in _spelled(text) if keeps(word))


def thinned_as(text: Text, shorter: Text, rng: np.random.Generator) -> Text:
    """As many of its words as a shorter one has, drawn at random, in their order; of a pair on both sides."""
    made = iter(sides(shorter))

    def thinned(part: str) -> str:
        words, n = _spelled(part), len(_spelled(next(made)))
        return " ".join(words[int(i)] for i in np.sort(rng.permutation(len(words))[:n]))

    return changed_text(text, thinned)
