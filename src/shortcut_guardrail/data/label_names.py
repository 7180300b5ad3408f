"""What classes are called where people and language models read them, in place of a model's own names."""

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError, GuardrailWarning
from .messages import enumerated, listed, shortened
from .tables import open_tables, read_mapping

LabelNames = str | Path | Mapping[Any, str] | Sequence[str]
"""A name for each class, by class id or by the model's own name: a mapping, one name after the other, a string such as
"0=joy,1=anger", or a JSON, TOML or CSV file with the mapping."""

_HOW = "Name each class once, as in label_names='0=joy,1=anger', or in a JSON, TOML or CSV file."
NAMELESS = re.compile(r"((label|class)[_ -]?)?\d+|", re.IGNORECASE)
"""What is called so says nothing of what it is."""


def class_names(given: LabelNames, own: Sequence[str]) -> tuple[str, ...]:
    """The names of C classes; `own` are those that the model gives them, which as keys come before class ids.

    Raises:
        ConfigError: A class is missing or unknown, a name is empty or given twice, or a file is no mapping.
        DataError: A file cannot be read.
    """
    pairs = _pairs(given, own)
    places = {str(i): i for i in range(len(own))} | {name: i for i, name in enumerate(own)}
    known = enumerated([str(i) if name == str(i) else f"{i} ({name})" for i, name in enumerate(own)])
    if unknown := [key for key, _ in pairs if key not in places]:
        raise ConfigError(f"label_names= names the class {listed(unknown)}, but the model has {known}. {_HOW}")
    if empty := [key for key, name in pairs if not isinstance(name, str) or not name.strip()]:
        raise ConfigError(f"label_names= must give class {listed(empty)} a name that is not empty. {_HOW}")
    found = {places[key]: str(name).strip() for key, name in pairs}
    if missing := [f"{i} ({name})" for i, name in enumerate(own) if i not in found]:
        raise ConfigError(f"label_names= lacks class {enumerated(missing)}. {_HOW}")
    names = tuple(found[i] for i in range(len(own)))
    if len(pairs) > len(own) or len(set(names)) < len(own):
        twice = listed(sorted({name for name in names if names.count(name) > 1}) or [key for key, _ in pairs])
        raise ConfigError(f"label_names= must be unique, but repeats {twice}. {_HOW}")
    return names


def _pairs(given: LabelNames, own: Sequence[str]) -> list[tuple[str, Any]]:
    """Keys and names, as far as they can be read."""
    if isinstance(given, str | Path):
        file = Path(given)
        if file.suffix.lower() in (".json", ".toml", ".csv"):
            given = _from_file(file)
        else:
            parts = [part.partition("=") for part in str(given).split(",")]
            if not all(sign for _, sign, _ in parts):
                raise ConfigError(f"label_names= is no mapping and no such file: {shortened(str(given))!r}. {_HOW}")
            return [(key.strip(), name) for key, _, name in parts]
    if isinstance(given, Mapping):
        return [(str(key).strip(), name) for key, name in given.items()]
    if len(given) != len(own):
        raise ConfigError(f"label_names= has {len(given)} names, but the model has {len(own)} classes. {_HOW}")
    return list(zip(own, given, strict=True))


def _from_file(file: Path) -> Mapping[str, Any]:
    if file.suffix.lower() == ".csv":
        table = next(open_tables(str(file)))
        if len(table.columns) != 2 or table.problems:
            raise ConfigError(f"{file} is no mapping: it needs two columns, class and name. {_HOW}")
        return dict(zip(*(map(str, table.column(name)) for name in table.columns), strict=True))
    return read_mapping(file, str(file), 'names, such as {"0": "joy", "1": "anger"}')


def warn_without_names(names: Sequence[str]) -> None:
    """Ask for names, where a person or a language model is about to read numbers in place of them."""
    if all(map(NAMELESS.fullmatch, names)):
        said = ",".join(f"{name}=NAME" for name in names[:4]) + (",..." if len(names) > 4 else "")
        warnings.warn(
            f"The classes are called {enumerated(list(names))}, which tells nobody what they mean. Say it with "
            f"label_names='{said}', or a JSON, TOML or CSV file.",
            GuardrailWarning,
            stacklevel=3,
        )
