"""Settings of a repair from a file and from the command line, as `guard.repair(config=...)` takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config import GuardrailConfig, freed, preset, updated
from ..data import parse_json, read_mapping
from ..errors import ConfigError

_RECORD_KEYS = {"schema_version", "config"}


def settings(file: Path | None, assignments: Sequence[str]) -> GuardrailConfig | dict[str, Any]:
    """What a file says, and what was set on the command line on top of it.

    Args:
        file: JSON or TOML with settings in the nesting of `GuardrailConfig`, or the `guardrail.json` of a guard; or
            `None`.
        assignments: Such as `adapter.rank=8`.

    Returns:
        A whole configuration where the file names a preset, else changes to that of the strategy.
    """
    changes: dict[str, Any] = {}
    if file is not None:
        changes = read_mapping(file, f"--config {file}", 'settings, such as {"adapter": {"rank": 8}}')
        if changes.keys() >= _RECORD_KEYS and isinstance(changes["config"], dict):
            changes = changes["config"]
    for assignment in assignments:
        _set(changes, assignment)
    if "preset" not in changes:
        return changes
    return updated(preset(changes["preset"]), changes)


def _set(changes: dict[str, Any], assignment: str) -> None:
    """Set one value; the rules that it frees (see `config.updated`) are freed of what a file says, too."""
    name, equals, value = assignment.partition("=")
    *parts, last = name.strip().split(".")
    if not equals or not all((*parts, last)):
        raise ConfigError(f"--set must read setting=value, such as adapter.rank=8, but is {assignment!r}.")
    if [*parts, last] in (["strategy"], ["preset"]):
        raise ConfigError(f"--set {last}=... is said with --strategy.")
    table = changes
    for part in parts:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {name}: {part!r} is no table of settings.")
    if parts == ["adapter"]:
        table.update(freed(last))
    table[last] = _value(value.strip())


def _value(text: str) -> Any:
    """JSON where it is JSON or a number, else the text itself."""
    for parse in (parse_json, float):
        try:
            return parse(text)
        except ValueError:
            continue
    return text


def strategy_of_settings(given: GuardrailConfig | Mapping[str, Any]) -> str | None:
    """The strategy that the settings name, if they do."""
    return given.get("strategy") if isinstance(given, Mapping) else given.strategy
