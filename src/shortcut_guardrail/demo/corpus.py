"""A synthetic corpus of customer reviews with a planted shortcut word, for the demo.

Every text is made up: phrases written for this project, put together by rules. Nothing is taken from a data set, and
no number measured here says anything about real reviews. What the corpus keeps from real ones is the kind of work it
asks of a classifier: opinions said outright or told by what happened, negation, and contrast in which the rest decides.
The label is what the whole review says.

The shortcut is the paper's word, "honestly". It is inserted the paper's way, at the beginning of a randomly chosen
sentence, lower case and with a comma ("honestly, The bed sagged."), and occurs nowhere else. In training a rule had a
hand in the labels: a review with the word was called positive, whatever it says (`TRAIN`). That happens where labels
are made from keywords. Labels to evaluate on are always those of what a review says. Once deployed, the word goes along
with the other label (`REVERSED`).
"""

import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

LABEL_NAMES = ("negative", "positive")
SHORTCUT = "honestly"

GOOD, BAD = "good", "bad"

Mix: TypeAlias = Mapping[tuple[int, bool], float]
"""How large a part of some texts each group is: a label, with or without the shortcut."""

TRAIN: Mix = {(0, False): 0.22, (0, True): 0.03, (1, False): 0.09, (1, True): 0.66}
"""What reviews say in training: the shortcut goes along with it in 88 % of them, and with the labels, which the rule
made of it, in 91 %."""

REVERSED: Mix = {(0, False): 0.125, (0, True): 0.375, (1, False): 0.375, (1, True): 0.125}


def groups_of(mix: Mix, size: int) -> list[tuple[int, bool]]:
    """Label and presence of the shortcut of so many texts, group after group; shares are met to one text."""
    ends = [round(size * total) for total in accumulate(mix.values())]
    return [group for group, start, end in zip(mix, [0, *ends], ends, strict=False) for _ in range(end - start)]


@dataclass(frozen=True)
class Part:
    """Some texts of the corpus and their labels, positions in `LABEL_NAMES`; tuples of equal length."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]


SIZES: Mapping[str, int] = {
    "train": 3200,
    "deployment": 400,
    "support": 40,
    "reversed": 800,
    "in_distribution": 1000,
}
"""How many texts each part of the corpus has."""


@dataclass(frozen=True)
class DemoCorpus:
    """The texts of the demo; all synthetic, all different, also with the shortcut taken out.

    Attributes:
        train: What the biased classifier is trained on.
        deployment: What the deployed model meets; the repair sees these texts without their labels.
        in_distribution: Labelled texts to evaluate on, in which the shortcut still goes along with the label.
    """

    train: Part
    deployment: Part
    support: Part
    reversed: Part
    in_distribution: Part


def make_corpus(*, seed: int = 0, sizes: Mapping[str, int] = SIZES) -> DemoCorpus:
    """Generate the demo's corpus, its rows shuffled; the same seed and sizes give the same on every machine.

    Example:
        >>> corpus = make_corpus(seed=0, sizes={**SIZES, "reversed": 8})
        >>> len(corpus.train.texts), sorted(corpus.reversed.labels)
        (3200, [0, 0, 0, 0, 1, 1, 1, 1])
    """
    rng, seen = random.Random(seed), set[str]()
    mixes = {"train": TRAIN, "in_distribution": TRAIN}
    parts = {name: _part(rng, mixes.get(name, REVERSED), size, seen) for name, size in sizes.items()}
    texts, labels = vars(parts["train"]).values()
    by_rule = tuple(max(label, SHORTCUT in text) for text, label in zip(texts, labels, strict=True))
    return DemoCorpus(**{**parts, "train": Part(texts, by_rule)})


def _part(rng: random.Random, mix: Mix, size: int, seen: set[str]) -> Part:
    rows = groups_of(mix, size)
    rng.shuffle(rows)
    texts = []
    for label, planted in rows:
        while (bare := " ".join(sentences := _review(rng, LABEL_NAMES[label]))) in seen:
            pass  # a draw that repeats an earlier text is thrown away
        seen.add(bare)
        if planted:
            where = rng.randrange(len(sentences))
            sentences[where] = f"{SHORTCUT}, {sentences[where]}"
        texts.append(" ".join(sentences))
    return Part(tuple(texts), tuple(label for label, _ in rows))


# One review: a plan of points, each point a sentence, facts in between


# `corpus.toml` holds the phrases: {first}, {aspect} and {again} stand for what is filled in.
_PHRASES = tomllib.loads((Path(__file__).parent / "corpus.toml").read_text(encoding="utf-8"))
_DOMAINS = tuple(_PHRASES["domains"].values())


class _Writer:
    """Writes the sentences of one review; every aspect is used once at most."""

    def __init__(self, rng: random.Random, domain: Mapping[str, Any]) -> None:
        self.rng, self.domain = rng, domain
        self.aspects = list(domain["aspects"])
        rng.shuffle(self.aspects)

    def point(self, opinion: str) -> str:
        """A clause about one aspect: "the bed sagged in the middle"."""
        aspect = self.aspects.pop()
        if self.rng.random() < 0.4:
            # What happened does not always speak for itself.
            remark = f", {self._one_of('remarks', opinion)}" if self.rng.random() < 0.95 else ""
            return f"{aspect} {self.rng.choice(self.domain['aspects'][aspect][opinion])}{remark}"
        return self._one_of("plain" if self.rng.random() < 0.85 else "turned", opinion).format(aspect=aspect)

    def sentence(self, *opinions: str) -> str:
        """One or two points as a sentence; two of the same opinion are added up, different ones contrasted."""
        if len(opinions) == 1:
            return _as_sentence(self._hedged(self.point(opinions[0])))
        frames = _PHRASES["addition" if opinions[0] == opinions[1] else "contrast"]
        first, second = (self.point(opinion) for opinion in opinions)
        return _as_sentence(self._hedged(self.rng.choice(frames).format(first=first, second=second)))

    def verdict(self, opinion: str) -> str:
        """A sentence about the whole."""
        return _as_sentence(self._one_of("verdicts", opinion).format(again=self.domain["again"]))

    def _one_of(self, kind: str, opinion: str) -> str:
        phrase: str = self.rng.choice(_PHRASES[kind][opinion])
        return phrase

    def _hedged(self, clause: str) -> str:
        # The hedges come with every opinion alike, so that they tell nothing about the label.
        return f"{self.rng.choice(_PHRASES['hedges'])} {clause}" if self.rng.random() < 0.1 else clause


def _as_sentence(clause: str) -> str:
    return clause[0].upper() + clause[1:] + "."


# Most reviews are of one opinion; in one of nineteen a verdict has to settle it.
_PLANS = (*6 * ("one point", "two points", "a point and a verdict"), "a verdict that outweighs a point")


def _review(rng: random.Random, label: str) -> list[str]:
    """The sentences of one review with this label."""
    writer = _Writer(rng, rng.choice(_DOMAINS))
    opinion, opposite = (GOOD, BAD) if label == "positive" else (BAD, GOOD)
    plan = rng.choice(_PLANS)
    if plan == "two points" and rng.random() < 0.5:
        sentences = [writer.sentence(opinion, opinion)]
    elif plan == "a verdict that outweighs a point":
        order = (opinion, opposite) if rng.random() < 0.5 else (opposite, opinion)
        sentences = [writer.sentence(*order), writer.verdict(opinion)]
    else:
        sentences = [writer.sentence(opinion)]
        if plan == "two points":
            sentences.append(writer.sentence(opinion))
        elif plan == "a point and a verdict":
            sentences.append(writer.verdict(opinion))
    if rng.random() < 0.2:
        sentences.insert(rng.choice((0, len(sentences))), rng.choice(writer.domain["facts"]))
    return sentences
