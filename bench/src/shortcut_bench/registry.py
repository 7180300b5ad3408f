"""Every system by its name: the references, the methods that they are compared with, and those of others."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from shortcut_guardrail.errors import ConfigError

from .methods import METHODS
from .own_systems import own_systems
from .references import REFERENCES
from .systems import System


def built_in_systems() -> dict[str, Callable[..., System]]:
    """The systems that the benchmark has: the references and the methods."""
    return {**REFERENCES, **METHODS}


def system_factories() -> dict[str, Callable[..., System]]:
    """All systems: the benchmark's, and those that other distributions bring.

    Raises:
        ConfigError: Two systems have one name.
    """
    built_in = built_in_systems()
    return {**built_in, **own_systems(built_in)}


def make_system(kind: str, **options: Any) -> System:
    """The system of that name with these options.

    Raises:
        ConfigError: There is no such system, two have the name, or it does not take an option.
    """
    factories = system_factories()
    if kind not in factories:
        similar = difflib.get_close_matches(kind, factories, n=1)
        hint = f" Did you mean '{similar[0]}'?" if similar else ""
        raise ConfigError(f"There is no system '{kind}' (there are: {', '.join(factories)}).{hint}")
    try:
        return factories[kind](**options)
    except TypeError as error:
        raise ConfigError(f"The system '{kind}' cannot be made with {options}: {error}.") from error
