"""Keys under which fields are stored where they are not the fields' own names.

Names in the code follow the field's terms; files and the hashes of stored runs keep the keys that they were written
with. This is the one place that knows both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from .errors import ConfigError

KEYS: dict[str, dict[str, str]] = {
    "AuditConfig": {"fdr": "alpha", "min_relative_effect": "min_opposition"},
    "AuditReport": {"fdr": "alpha", "min_relative_effect": "min_opposition", "set_p_value": "group_p_value"},
    "Candidate": {"relative_effect": "opposition"},
    "CardEvidence": {"relative_effect": "opposition"},
    "FitReport": {"shortcuts": "targets"},
    "GuardrailConfig": {"shortcuts": "targets"},
    "GuardrailRecord": {"shortcuts": "targets", "shortcut_rows": "target_rows"},
    "ShortcutConfig": {"named": "shortcuts", "fdr": "alpha"},
}
"""By class, the key of each field that has one of its own."""

VERDICTS: dict[str, tuple[str, str | None]] = {
    "given": ("named", None),
    "kept": ("kept", None),
    "flagged": ("found", "flagged"),
    "alternate": ("found", "takes turns"),
    "collective": ("found", "set"),
    "alike": ("found", "alike"),
    "dominant": ("found", "dominant"),
    "influential": ("found", "many answers"),
    "confirmed": ("confirmed", None),
    "confirmed_by_flips": ("confirmed", "flips"),
    "confirmed_by_second_opinion": ("confirmed", "second opinion"),
    "cleared": ("cleared", None),
    "cleared_by_flips": ("cleared", "flips"),
    "listed": ("cleared", "many answers"),
}
"""What is stored for a verdict and its reason."""


def key_of(kind: type, name: str) -> str:
    """The key of a field.

    Example:
        >>> from shortcut_guardrail import AuditConfig
        >>> key_of(AuditConfig, "fdr"), key_of(AuditConfig, "top_k")
        ('alpha', 'top_k')
    """
    return KEYS.get(kind.__name__, {}).get(name, name)


def with_names(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of one class by the names of its fields, whether they come by name or by key.

    Raises:
        ConfigError: One is there both ways.
    """
    names = {key: name for name, key in KEYS.get(kind.__name__, {}).items()}
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = names.get(key, key)
        if name not in found:
            found[name] = value
        elif isinstance(value, Mapping) and isinstance(found[name], Mapping):
            found[name] = {**found[name], **value}
        else:
            raise ConfigError(f"{name!r} is given twice, also by its name in files. Leave out one of them.")
    return found


def stored(value: Any) -> Any:
    """A dataclass as a dictionary by keys, and what it holds likewise, as `dataclasses.asdict` is by names."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        return {key_of(kind, field.name): stored(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: stored(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [stored(inner) for inner in value]
    if isinstance(value, tuple):
        return tuple(stored(inner) for inner in value)
    return value


def stored_verdict(verdict: str, reason: str | None) -> str:
    """What is stored for a verdict and its reason."""
    return next(key for key, known in VERDICTS.items() if known == (verdict, reason))
