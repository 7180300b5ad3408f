"""Whether words lead to a class: texts without content get another one, and the class stands and falls with its words.

A filter may block a text for what it does not say (`defaults`), or for words that it holds. In the second case no
single word need be the cause: several that mean the same stand together, so that taking one away changes nothing, and
one alone is too little. So here they are taken as a group.

The *left* class is the one that most texts of function words are given. The class that is asked about is the most
frequent other one. The *words* of a class are candidates that push towards it and that raise its probability where they
are put into a few texts of other classes, those that raise it most first, `MOST_WORDS` in all. Words lead to it if

- *bare*, as their function words alone, more than `NEARLY_ALL` of the texts of other classes are given the left class,
  in a larger share than texts of the left class lose theirs; or, where that fails, texts of the class are given the
  left class without its words, in a larger share than texts of the left class lose theirs without the words of that
  class, and than without as many random words; and
- `PUT_IN` random ones of the `STRONGEST` change more texts of other classes to it than as many random words
  of like frequency do.

Shares are compared at the ends of their 95 % intervals that speak against it, and "larger" and "more" are by
`defaults.LEAST_FALL`. That bounds no error rate, since the words were chosen on the same texts. The search ends where
it is settled that they do not lead. Ours; what it finds, rightly and wrongly, is in docs/research/guard-models.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..data import Count
from ..text import WordFinder
from ..typing import Array, Text
from .defaults import (
    LEAST_FALL,
    LEAST_TEXTS,
    NEARLY_ALL,
    Asked,
    Probe,
    changed_text,
    is_more,
    low_end,
    thinned_as,
    without_words,
)
from .insertions import LEAST_RECEIVERS, SCREENED_ON, Answer, Trial, Wanted, put_in, sides

MOST_WORDS, STRONGEST, PUT_IN = 50, 10, 5
MOST_TAKEN, MOST_PUT = 60, 80
"""Texts that words are taken from, and that they are put into: 340 predictions at most."""


@dataclass(frozen=True)
class Lead:
    """What the words of a class do as a group; 0 of 0 texts that were not asked about, see the head of this module.

    Attributes:
        label: The class.
        left: The class that texts without content are given.
        words: Its words, the strongest first.
        bare: Whether texts of other classes are given `left` as their function words alone.
        n: Texts of the class that hold some of the words, and are not empty without.
        gone: How many of them are given `left` without the words.
        by_chance: The same without as many random words.
        n_left: Texts of the left class that hold words of that class, and are not empty without. Where these are fewer
            than `LEAST_TEXTS`, others of the class stand in, which lose nothing.
        lost: How many of these are given another class without them.
        n_added: Texts of other classes that words were put into.
        put_in: How many words, random ones of the strongest for each text.
        added: How many of them are then given the class.
        added_by_chance: The same with as many random words of like frequency.
        found: Whether words lead to the class.
    """

    label: str
    left: str
    words: tuple[str, ...]
    bare: bool
    n: Count = 0
    gone: Count = 0
    by_chance: Count = 0
    n_left: Count = 0
    lost: Count = 0
    n_added: Count = 0
    put_in: Count = 0
    added: Count = 0
    added_by_chance: Count = 0
    found: bool = False


def find_lead(
    answer: Answer,
    texts: Sequence[Text],
    probs: Array,
    words: Mapping[int, Sequence[Wanted]],
    probes: Sequence[Probe],
    label_names: Sequence[str],
) -> Lead | None:
    """Take words out of texts and put them into others.

    Args:
        answer: Class probabilities of N texts, shape (N, C).
        texts: Distinct texts in random order.
        probs: What the model answers to them, shape (len(texts), C).
        words: What raises the probability of each class, by its number, the strongest first.
        probes: Those of `defaults`.
        label_names: The classes.

    Returns:
        What was measured; `None` if texts without content do not tell what is left, or no word raises the other class.
    """
    empty = next((probe for probe in probes if probe.change == "function words" and probe.n >= LEAST_TEXTS), None)
    if empty is None or low_end(max(empty.given), empty.n) <= 0.5:
        return None
    left, sizes = int(np.argmax(empty.given)), np.bincount(probs.argmax(axis=1), minlength=len(label_names))
    number = int(np.argmax(np.where(np.arange(len(sizes)) == left, -1, sizes)))
    chosen = words.get(number, ())[:MOST_WORDS]
    if not chosen:
        return None
    groups = _Groups(answer, texts, probs, len(label_names))
    n, gone = groups.taken(number, chosen, left)
    about = label_names[number], label_names[left], tuple(one.text for one in chosen)
    lead = Lead(*about, _falls_bare(empty, left), n, gone)
    if n < LEAST_TEXTS or not (lead.bare or low_end(gone, n) >= LEAST_FALL):
        return lead
    n_random, by_chance = groups.taken(number, chosen, left, at_random=True)
    lead = replace(lead, by_chance=by_chance)
    if not lead.bare:
        if not is_more(gone, n, by_chance, n_random):
            return lead
        n_left, kept = groups.taken(left, words.get(left, ())[:MOST_WORDS], left)
        lost, n_left = n_left - kept, max(n_left, min(LEAST_TEXTS, int(sizes[left])))
        lead = replace(lead, n_left=n_left, lost=lost)
        if n_left < LEAST_TEXTS or not is_more(gone, n, lost, n_left):
            return lead
    n_added, added, added_by_chance = groups.put(number, chosen)
    leads = n_added >= LEAST_RECEIVERS and is_more(added, n_added, added_by_chance, n_added)
    lead = replace(lead, n_added=n_added, put_in=min(PUT_IN, len(chosen)), added=added)
    return replace(lead, added_by_chance=added_by_chance, found=leads)


def _falls_bare(empty: Probe, left: int) -> bool:
    """Whether nearly all texts of other classes are given the left class as function words, and few of its own not."""
    n_own, kept = empty.before[left], empty.kept[left]
    n, gone = empty.n - n_own, empty.given[left] - kept
    enough = min(n, n_own) >= LEAST_TEXTS and low_end(gone, n) > NEARLY_ALL
    return enough and is_more(gone, n, n_own - kept, n_own)


class _Groups:
    """Texts without the words of a class, and texts with words of a class put in."""

    def __init__(self, answer: Answer, texts: Sequence[Text], probs: Array, n_classes: int) -> None:
        self.asked, self.trial = Asked(answer, n_classes), Trial(answer, texts, probs)
        self.texts, self.classes = texts, probs.argmax(axis=1)

    def taken(self, number: int, words: Sequence[Wanted], left: int, *, at_random: bool = False) -> tuple[int, int]:
        """Texts of a class that hold its words, and how many get `left` without these, or without as many others."""
        finder, rng = WordFinder([one.text for one in words]), np.random.default_rng(number)
        own = (self.texts[i] for i in np.flatnonzero(self.classes == number).tolist())
        bearing = [text for text in own if any(finder.present(part) for part in sides(text))][:MOST_TAKEN]
        changed = [changed_text(text, lambda part: without_words(part, finder)) for text in bearing]
        if at_random:
            changed = [thinned_as(text, shorter, rng) for text, shorter in zip(bearing, changed, strict=True)]
        given = self.asked.counts(self.asked.about(changed)[0])
        return sum(given), given[left]

    def put(self, number: int, words: Sequence[Wanted]) -> tuple[int, int, int]:
        """Texts of other classes, and how many get the class with some of its words, and with as many random ones."""
        others = np.flatnonzero(self.classes != number).tolist()
        # The first ones told which words are strong.
        rows = others[min(SCREENED_ON, len(others) // 4) :][:MOST_PUT]
        if not rows:
            return 0, 0, 0
        rng, strongest = np.random.default_rng(number), words[:STRONGEST]
        copies, random = [], []
        for at, row in enumerate(rows):
            text = other = self.texts[row]
            for i in rng.permutation(len(strongest))[:PUT_IN]:
                one, spelled = strongest[int(i)], strongest[int(i)].text.split()
                text = put_in(text, one.side, spelled, at)
                other = put_in(other, one.side, [self.trial.like(word) for word in spelled], at)
            copies.append(text)
            random.append(other)
        its, by_chance = (self.trial.ask([*copies, *random]).argmax(axis=1) == number).reshape(2, len(rows))
        return len(rows), int(its.sum()), int(by_chance.sum())
