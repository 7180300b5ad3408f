"""Selection by a named rule: which epoch, and which point of a grid, a method keeps.

A rule reads the predictions on the dev set, which is distributed as the training set, or on the support set: a few
labelled rows from where the system is used, which count as labels spent. No rule here reads scored rows. The name of
one that did would have to start with `oracle`; every table marks a system that was chosen by such a rule.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from shortcut_guardrail.errors import ConfigError, DataError, GuardrailWarning, RunError
from shortcut_guardrail.metrics import accuracy, balanced_accuracy, worst_group_accuracy

from ..datasets.types import HIDDEN_GROUP, LabelledTexts
from ..systems import Need

if TYPE_CHECKING:
    from ..systems import Material

Array = np.ndarray[Any, np.dtype[Any]]
Fitted = TypeVar("Fitted")
Point = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """How candidates are compared.

    Attributes:
        name: What tables and results call it.
        needs: What it reads.
        score: The score of N predictions on the N rows that it reads, higher is better; `None` compares nothing and
            keeps the last.
    """

    name: str
    needs: frozenset[Need]
    score: Callable[[Array, LabelledTexts], float] | None

    @property
    def oracle(self) -> bool:
        """Whether it looks at test labels."""
        return self.name.startswith("oracle")

    def rows(self, material: Material) -> LabelledTexts | None:
        """The labelled rows that it reads: the support set or the dev set; `None` where it compares nothing."""
        if self.score is None:
            return None
        return material.support if Need.SUPPORT in self.needs else material.dev


def worst_present_group(predictions: Array, rows: LabelledTexts) -> float:
    """The lowest accuracy within any group that has rows, in [0, 1].

    A group without rows says nothing. At shortcut strength 1 the dev set has no row of a neutral text with the
    shortcut, so the rule is blind for just the groups that a shift brings.

    Raises:
        DataError: The groups are hidden.
    """
    if (rows.groups == HIDDEN_GROUP).any():
        raise DataError(f"The rule 'dev-worst-group' needs the groups of '{rows.name}', but they are hidden.")
    return worst_group_accuracy(predictions, rows.labels, rows.groups)


def worst_class(predictions: Array, rows: LabelledTexts) -> float:
    """The lowest accuracy within any class that has rows, in [0, 1]: what is left of the rule above without groups."""
    return worst_group_accuracy(predictions, rows.labels, rows.labels)


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("last", frozenset(), None),
        Rule("dev-accuracy", frozenset({Need.DEV}), lambda guesses, rows: accuracy(guesses, rows.labels)),
        Rule(
            "dev-balanced-accuracy",
            frozenset({Need.DEV}),
            lambda guesses, rows: balanced_accuracy(guesses, rows.labels),
        ),
        Rule("dev-worst-class", frozenset({Need.DEV}), worst_class),
        Rule("dev-worst-group", frozenset({Need.DEV, Need.DEV_GROUPS}), worst_present_group),
        Rule(
            "support-balanced-accuracy",
            frozenset({Need.SUPPORT}),
            lambda guesses, rows: balanced_accuracy(guesses, rows.labels),
        ),
    )
}
"""The rules by name."""


def find_rule(name: str) -> Rule:
    """The rule of that name.

    Raises:
        ConfigError: There is none.
    """
    if name not in RULES:
        raise ConfigError(f"select must be one of {', '.join(RULES)}, but is {name!r}.")
    return RULES[name]


def rule_for(name: str, dev: LabelledTexts | None) -> Rule:
    """The rule of that name; a warning names the groups that it cannot see on these dev rows.

    Raises:
        ConfigError: There is none.
    """
    rule = find_rule(name)
    if Need.DEV_GROUPS in rule.needs and dev is not None and (missing := missing_groups(dev)):
        warnings.warn(
            f"The rule '{name}' reads the worst of the groups that have rows in '{dev.name}', which has none of "
            f"{named(missing)}: it does not see them.",
            GuardrailWarning,
            stacklevel=3,
        )
    return rule


def named(groups: Sequence[str]) -> str:
    """Groups in a sentence."""
    return " and ".join(f"'{group}'" for group in groups)


def missing_groups(rows: LabelledTexts) -> list[str]:
    """Names of the groups without rows; empty where groups are hidden."""
    if (rows.groups == HIDDEN_GROUP).any():
        return []
    return [name for name, count in rows.counts().items() if not count]


def best_index(scores: Sequence[float]) -> int:
    """Position of the highest score, the first of equals; NaN is never it.

    Raises:
        RunError: Every score is NaN.
    """
    valid = [index for index, score in enumerate(scores) if not np.isnan(score)]
    if not valid:
        raise RunError("None of the candidates has a score, so none can be chosen.")
    return max(valid, key=lambda index: scores[index])


@dataclass(frozen=True)
class Trial:
    """One point of a grid.

    Attributes:
        point: Its settings.
        score: By the rule; `None` where the rule compares nothing or the point diverged.
        diverged: What went wrong; `None` where it did not.
    """

    point: dict[str, Any]
    score: float | None
    diverged: str | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {"point": self.point, "score": self.score, "diverged": self.diverged}


@dataclass(frozen=True)
class Chosen(Generic[Fitted]):
    """The best point of a grid and all that were tried.

    Attributes:
        fitted: What the best point gave.
        point: Its settings.
        trials: All points, in the order tried.
    """

    fitted: Fitted
    point: dict[str, Any]
    trials: tuple[Trial, ...]


def search(points: Iterable[Point], fit: Callable[[Point], tuple[Fitted, float | None]], rule: Rule) -> Chosen[Fitted]:
    """Fit every point of a grid and keep the best by the rule, the first of equals.

    A point whose training diverges (its loss or logits stop being finite) is recorded as such and never chosen; the
    others go on, and a warning says so.

    Args:
        points: The grid.
        fit: Gives what was fitted at a point, and its score.
        rule: Named in messages. With one that compares nothing the grid must be a single point.

    Raises:
        ConfigError: There is no point, or several and nothing to compare them by.
        RunError: All points diverged.
    """
    points = list(points)
    if not points:
        raise ConfigError("A grid needs at least one point, but has none.")
    if len(points) > 1 and rule.score is None:
        raise ConfigError(
            f"A grid of {len(points)} points needs a rule that compares them, but select is '{rule.name}'. "
            f"Choose one of {', '.join(name for name, other in RULES.items() if other.score)}."
        )
    trials: list[Trial] = []
    best: tuple[Fitted, Point] | None = None
    best_score = -np.inf
    for point in points:
        try:
            fitted, score = fit(point)
        except RunError as error:
            trials.append(Trial(dict(point), None, str(error)))
            if len(points) > 1:  # of a single point the error below tells
                warnings.warn(
                    f"The grid point {dict(point)} is left out, since its training failed: {error}",
                    GuardrailWarning,
                    stacklevel=3,
                )
            continue
        trials.append(Trial(dict(point), score, None))
        if best is None or (score is not None and score > best_score):
            best, best_score = (fitted, point), -np.inf if score is None else score
    if best is None:
        raise RunError(
            f"Training diverged at {'the only point' if len(points) == 1 else f'all {len(points)} points'} of the "
            f"grid, last with: {trials[-1].diverged}"
        )
    return Chosen(best[0], dict(best[1]), tuple(trials))
