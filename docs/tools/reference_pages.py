"""The reference of commands and of settings in Markdown, from the code that obeys them.

Pages ask for them by `commands()`, every command and option of the program, and `settings()`, every field of the
configurations that `--config` and `--set` take.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from shortcut_guardrail.cli.main import app
from shortcut_guardrail.config import PRESETS, GuardrailConfig

_VALUES = {"str": "TEXT", "path": "PATH", "int": "INTEGER", "int range": "INTEGER", "float": "NUMBER"}
"""How the kinds of values are written, where an option has no word of its own."""


def commands(program: str = "shortcut-guardrail") -> str:
    """Every command of the program, with all of its arguments and options."""
    group = typer.main.get_command(app)
    context = typer.Context(group, info_name=program)
    blocks = []
    for name, command in group.commands.items():
        if not command.hidden:
            blocks += _command(command, f"{program} {name}", typer.Context(command, parent=context, info_name=name))
    return "\n\n".join(blocks) + "\n"


def _command(command: Any, called: str, context: Any) -> Iterator[str]:
    yield f"## {context.info_name}"
    first, *paragraphs = _paragraphs(command.help or "")
    yield first
    pieces = command.collect_usage_pieces(context)
    usage = " ".join(re.sub(r"^\{(.*)\}$|^\[(\[.*\])\]$", r"\1\2", piece) for piece in pieces)
    yield f"```\n{called} {usage}\n```"
    yield from paragraphs
    panels: dict[str, list[str]] = {}
    for parameter in command.get_params(context):
        if not parameter.hidden and parameter.name not in ("help", "help_all"):
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panels.setdefault(parameter.rich_help_panel or kind, []).append(_parameter(parameter, context))
    for panel, entries in panels.items():
        yield f"**{panel}**"
        yield from entries


def _paragraphs(text: str) -> list[str]:
    """Paragraphs of a help text; those whose lines are kept (after Click's mark) become blocks of code."""
    found = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        kept, body = paragraph.startswith("\b"), paragraph.removeprefix("\b").strip("\n")
        found.append(f"```\n{body}\n```" if kept else " ".join(body.split()))
    return found


def _parameter(parameter: Any, context: Any) -> str:
    """A definition: how it is written, and what it means."""
    kind = parameter.display_type_rich(context).strip("<>")
    if parameter.param_type_name == "argument":
        written = f"`{parameter.display_name_raw}`"
    else:
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        written = names if parameter.is_flag else f"{names} `{_VALUES.get(kind, kind)}`"
    facts = [str(parameter.help or "").strip()]
    default = _default(parameter)
    if default:
        facts.append(f"Default: {default}.")
    elif parameter.required and parameter.param_type_name == "option":
        facts.append("Required.")
    return f"{written}\n: {' '.join(facts)}"


def _default(parameter: Any) -> str:
    """What is taken where the option is not given; empty where that is nothing, or a switch that is off."""
    said, value = parameter.show_default, parameter.default
    if isinstance(said, str):
        return said
    if said is False or value is None or value is False or value == [] or callable(value):
        return ""
    return f"`{getattr(value, 'value', value)}`"


def settings(root: type = GuardrailConfig, presets: Mapping[str, Any] = PRESETS) -> str:
    """Every setting: its key, type, default, and what its field's documentation says."""
    blocks = []
    for table, kind in _tables(root, ""):
        blocks.append(f"## {f'[{table}]' if table else 'Top level'}")
        blocks.append(_summary(kind))
        documented = documented_fields(kind)
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if not dataclasses.is_dataclass(hints[field.name]):
                key = f"{table}.{field.name}" if table else field.name
                default = _toml(field.default)
                blocks.append(
                    f"`{key}`\n: {documented[field.name]} *{_spelled(hints[field.name])}, default {default}.*"
                )
    blocks.append("## Presets")
    blocks.append("What each preset sets otherwise than the defaults above.")
    for name, config in presets.items():
        changes = [f"`{key} = {_toml(value)}`" for key, value in _changes(config, root(), "")]
        blocks.append(f"`{name}`\n: {', '.join(changes) or 'nothing'}.")
    return "\n\n".join(blocks) + "\n"


def _tables(kind: type, at: str) -> Iterator[tuple[str, type]]:
    yield at, kind
    for name, hint in typing.get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from _tables(typing.cast(type, hint), f"{at}.{name}" if at else name)


def _summary(kind: type) -> str:
    return " ".join(inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].split())


def documented_fields(kind: type) -> dict[str, str]:
    """What the section "Attributes" of a class says of each field, a paragraph each.

    Example:
        >>> from shortcut_guardrail import SaliencyConfig
        >>> documented_fields(SaliencyConfig)["top_k"][:24]
        'Important tokens per inp'
    """
    section = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.MULTILINE)
    return {name: " ".join(body.split()) for name, body in entries}


def _spelled(hint: Any) -> str:
    """A type in words."""
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"list, each entry {_spelled(typing.get_args(hint)[0])}"
    if typing.get_args(hint):  # a type or None
        return _spelled(typing.get_args(hint)[0])
    return {bool: "true or false", int: "whole number", float: "number", str: "text"}[hint]


def _toml(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"{value}".lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _changes(config: Any, other: Any, at: str) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(config):
        value, plain = getattr(config, field.name), getattr(other, field.name)
        if dataclasses.is_dataclass(value):
            yield from _changes(value, plain, f"{at}{field.name}.")
        elif value != plain and field.name != "preset":
            yield f"{at}{field.name}", value
