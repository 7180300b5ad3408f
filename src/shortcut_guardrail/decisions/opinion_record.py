"""Second opinions as a file of decisions holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import DataError
from .second_opinion import Fitness, MachineOpinion


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
    texts: int

    @property
    def fit(self) -> bool:
        """Whether it may judge any pair of classes."""
        return any(one.fit for one in self.fitness)


def read_opinion(values: Any, where: str) -> MachineOpinion | None:
    """What second models say of a card.

    Args:
        values: As read from JSON; `None` where none was asked.
        where: What to call it in messages.

    Raises:
        DataError: It is damaged, or says what no machine says.
    """
    if values is None:
        return None
    try:
        opinion = MachineOpinion(**{**values, "judges": tuple(values["judges"])})
        counts = (opinion.mended, opinion.broken, opinion.unanswered)
        numbers = [n for n in (opinion.bound, opinion.p_value) if n is not None]
        sound = (
            all(type(n) is int and n >= 0 for n in counts)
            and all(isinstance(n, int | float) for n in numbers)
            and all(isinstance(name, str) for name in opinion.judges)
        )
    except (TypeError, KeyError, ValueError) as error:
        raise DataError(f"{where} is damaged: {error}. Judge again.") from error
    if not sound:
        raise DataError(f"{where} is damaged: a count, a number or a name is of another kind. Judge again.")
    if opinion.outcome not in ("shortcut", "open"):
        raise DataError(f"{where}.outcome must be shortcut or open, but is {opinion.outcome!r}: no machine says more.")
    return opinion


def read_judges(values: Any, source: str) -> tuple[Judge, ...]:
    """The second models that were asked.

    Args:
        values: As read from JSON.
        source: What to call the file in messages.

    Raises:
        DataError: They are damaged.
    """
    try:
        return tuple(
            Judge(
                str(one["name"]),
                dict(one["source"]),
                tuple(Fitness(**{**fit, "pair": tuple(fit["pair"])}) for fit in one["fitness"]),
                int(one["texts"]),
            )
            for one in values
        )
    except (TypeError, KeyError, ValueError) as error:
        raise DataError(f"{source}: second_opinions is damaged: {error}. Judge again.") from error
