"""What second models say of cards, and how a file of decisions holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..data import Count, Share
from ..text import visible_name

Rule = Literal["agreement", "reference", "answers"]


@dataclass(frozen=True)
class Fitness:
    """What is known of a judge for one pair of classes.

    Attributes:
        pair: The names of the two classes.
        texts: Texts without the words that it answered.
        agreement: How often it agrees with the deployed model, the mean of the model's two answers, in [0, 1].
        error: Its standard error.
        fit: Whether it may judge.
        reason: Why not; empty where it is fit.
    """

    pair: tuple[str, str]
    texts: Count
    agreement: Share | None
    error: float | None
    fit: bool
    reason: str = ""


@dataclass(frozen=True)
class MachineOpinion:
    """What second models say of one card.

    Attributes:
        judges: The fit ones, whose standardised scores were averaged.
        rule: By which it was tested: `agreement`, `reference` or `answers`.
        mended: Flips to which they give the masked answer, with the words and without.
        broken: All others.
        unanswered: Of these, flips without an answer.
        bound: The share of mended flips that the rule allows where masking mends no more than it breaks.
        p_value: Of the test; `None` where it was not made.
        rules: Bound and p-value by every rule that could be tried.
        q_value: The p-value, adjusted for all cards that were asked about (Benjamini and Hochberg).
        at_stake: How much accuracy masking the words would bring, from and to, as a share of the distinct texts
            audited; see `stats.net_mended`. `None` where that cannot be told.
        outcome: `shortcut` or `open`; a machine never says `genuine`.
        reason: Why it is open, in a sentence; empty for a shortcut.
    """

    judges: tuple[str, ...]
    rule: Rule
    mended: Count
    broken: Count
    unanswered: Count
    bound: Share | None
    p_value: Share | None
    outcome: Literal["shortcut", "open"]
    reason: str = ""
    rules: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    q_value: Share | None = None
    at_stake: tuple[float, float] | None = None

    def of_all(self, share: float | None) -> MachineOpinion:
        """The same with what is at stake as a share of all texts, `share` of which are flips of the card, if known."""
        stake = self.at_stake
        return replace(self, at_stake=None if stake is None or share is None else (stake[0] * share, stake[1] * share))

    @property
    def sentence(self) -> str:
        """Who judged, the counts and the bound, such as "gemma-3-270m, reviews.joblib, 72 : 16, bound .68"."""
        judges = ", ".join(visible_name(name) for name in self.judges)
        if not judges:
            return "none is fit"
        bound = "" if self.bound is None else f", {self.rule} bound {self.bound:.2f}".replace("0.", ".")
        return f"{judges}, {self.mended} : {self.broken}{bound}"


@dataclass(frozen=True)
class Judge:
    """A second model that was asked.

    Attributes:
        name: As shown.
        source: What its answers hang on: kind, fingerprint, prompts, versions, settings.
        fitness: Whether it may judge, for each pair of classes.
        texts: How many texts it was sent.
    """

    name: str
    source: Mapping[str, Any]
    fitness: tuple[Fitness, ...]
    texts: Count

    @property
    def fit(self) -> bool:
        """Whether it may judge any pair of classes."""
        return any(one.fit for one in self.fitness)
