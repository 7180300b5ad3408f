"""Systems that other distributions bring, as entry points of the group `shortcut_bench.systems`.

An entry point's name is the system's kind, and what it names makes the system. It is imported when a system of that
kind is made, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import Any

from shortcut_guardrail.errors import ConfigError

from .systems import Need, System

GROUP = "shortcut_bench.systems"
_METHODS = ("config", "fit")


@cache
def entry_points(*, group: str) -> metadata.EntryPoints:
    """The entry points of a group; to find them is to read what every installed distribution says of itself."""
    return metadata.entry_points(group=group)


def own_systems(taken: Container[str]) -> dict[str, Callable[..., System]]:
    """What makes each installed system, by its kind; options are given by keyword.

    Args:
        taken: The kinds that the benchmark itself has.

    Raises:
        ConfigError: Two systems have one name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _described(entry))):
        if entry.name in taken:
            raise ConfigError(
                f"The benchmark has a system '{entry.name}' of its own, and {_described(entry)} brings another. "
                "Give that one another name, or uninstall it."
            )
        other = found.setdefault(entry.name, entry)
        if other is not entry:
            raise ConfigError(
                f"Two installed systems are named '{entry.name}': {_described(other)} and {_described(entry)}. "
                "Give one of them another name, or uninstall it."
            )
    return {name: _Loaded(entry) for name, entry in found.items()}


class _Loaded:
    """What makes the systems of an entry point, imported when the first is made."""

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry

    def __call__(self, **options: Any) -> System:
        """A system with these options.

        Raises:
            ConfigError: The entry point cannot be loaded, or does not make a system.
            TypeError: An option is unknown.
        """
        where = f"The system '{self._entry.name}' of {_described(self._entry)}"
        try:
            factory = self._entry.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"{where} cannot be loaded: {error}.") from error
        if not callable(factory):
            raise ConfigError(
                f"{where} must be a class or a function that makes a system, but is a {type(factory).__name__}."
            )
        made = factory(**options)
        _check(made, where)
        system: System = made
        return system


def _check(made: Any, where: str) -> None:
    """Raises a `ConfigError` for what is no system, with all that it lacks."""
    problems = [f"a method {name}" for name in _METHODS if not callable(getattr(made, name, None))]
    if not isinstance(getattr(made, "name", None), str):
        problems.append("a name, which is a string")
    needs = getattr(made, "needs", None)
    if not isinstance(needs, frozenset) or not all(isinstance(need, Need) for need in needs):
        problems.append("needs, which are a frozenset of shortcut_bench.systems.Need")
    if problems:
        raise ConfigError(f"{where} makes a {type(made).__name__}, which is no system. It lacks {', '.join(problems)}.")


def _described(entry: EntryPoint) -> str:
    distribution = "" if entry.dist is None else f"{entry.dist.name} "
    return f"{distribution}({entry.value})"
