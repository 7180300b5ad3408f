"""TOML files that describe a classifier."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data import enumerated, kind_of, nested, read_utf8
from ..errors import ConfigError
from ..typing import Text


@dataclass(frozen=True)
class Settings:
    """What is known of a classifier before it is opened.

    Attributes:
        kind: `causal`, `classifier`, `zero-shot`, `function`, `endpoint`, or empty: the model says.
        name: As shown.
        target: Folder, Hub id, `module:function`, or an endpoint's name for its model.
        values: All else that a TOML file says, checked.
    """

    kind: str
    name: str
    target: str
    values: Mapping[str, Any]

    def get(self, key: str, default: Any = None) -> Any:
        """A value, or what stands for it."""
        return self.values.get(key, default)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) and one.strip() for one in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_words(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_text(one) for one in value.values())


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_text(one) or _is_texts(one) for one in value.values())


def _is_examples(value: Any) -> bool:
    known = {"text", "text_pair", "label"}
    return isinstance(value, list) and all(
        isinstance(one, dict) and {"text", "label"} <= set(one) <= known and all(map(_is_text, one.values()))
        for one in value
    )


def _one_of(*names: str) -> Callable[[Any], bool]:
    return lambda value: value in names


_TEXT = (_is_text, "a string that is not empty")
_TEXTS = (_is_texts, "a list of strings, one or more")
_COUNT = (_is_count, "a whole number, 1 or more")
_POSITIVE = (_is_positive, "a number above 0")
_WORDS = (_is_words, "a table of labels with a string each")
_FLAG = (lambda value: isinstance(value, bool), "true or false")
_EXAMPLES = (_is_examples, "tables with text, label and for pairs text_pair")

_COMMON = {"kind": _TEXT, "name": _TEXT}
_MODEL = {**_COMMON, "model": _TEXT, "revision": _TEXT, "max_length": _COUNT}
_ASKED = {"prompts": _TEXTS, "descriptions": _WORDS}
_KINDS: dict[str, dict[str, tuple[Callable[[Any], bool], str]]] = {
    "causal": {
        **_MODEL,
        **_ASKED,
        "examples": _EXAMPLES,
        "precision": (_one_of("bfloat16", "float32"), "bfloat16 or float32"),
    },
    "classifier": {
        **_MODEL,
        "labels": (_is_mapping, "a table of the model's labels, with one or more of this classifier's each"),
        "head": (_one_of("softmax", "sigmoid"), "softmax or sigmoid"),
    },
    "zero-shot": {**_MODEL, **_ASKED},
    "function": {**_COMMON, "function": _TEXT},
    "endpoint": {
        **_COMMON,
        **_ASKED,
        "model": _TEXT,
        "examples": _EXAMPLES,
        "url": _TEXT,
        "api_key_env": _TEXT,
        "answers": (_one_of("auto", "log-probabilities", "samples"), "auto, log-probabilities or samples"),
        "samples": _COUNT,
        "requests_per_minute": _POSITIVE,
        "parallel": _COUNT,
        "timeout": _POSITIVE,
        "retries": _COUNT,
        "allow_http": _FLAG,
        "request": (lambda value: isinstance(value, dict), "a table"),
    },
}
_NEEDED = {"function": ("function",), "endpoint": ("url", "model")}


def read_settings(path: Path) -> Settings:
    """Read a TOML file.

    Raises:
        DataError: There is no such file, or it is not UTF-8.
        ConfigError: It says something that it cannot; all problems are named together.
    """
    content = read_utf8(path, str(path))
    try:
        values = tomllib.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"'{path}' is no TOML file: {nested(error)}.") from error
    kind = values.get("kind")
    if kind not in _KINDS:
        found = "is missing" if kind is None else f"is {kind!r}"
        raise ConfigError(f"{path}: kind must be one of {enumerated(list(_KINDS))}, but {found}.")
    problems = _problems(values, kind)
    if problems:
        raise ConfigError(f"{path}: {' '.join(problems)}")
    target = values["function"] if kind == "function" else _located(values["model"], path, kind)
    name = values.get("name") or (path.stem if kind == "function" else Path(target).name)
    if "examples" in values:
        values["examples"] = tuple((_text_of(one), one["label"]) for one in values["examples"])
    return Settings(kind, name, target, values)


def _problems(values: Mapping[str, Any], kind: str) -> list[str]:
    known, problems = _KINDS[kind], []
    if "api_key" in values:
        problems.append("A key does not belong in a file. Put it into an environment variable named by api_key_env.")
    for key, value in values.items():
        if key not in known and key != "api_key":
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else f"It may have {enumerated(list(known))}."
            problems.append(f"A classifier of kind {kind} has no '{key}'. {hint}")
        elif key in known and not known[key][0](value):
            shown = repr(value) if isinstance(value, str | int | float) else kind_of(value)
            problems.append(f"{key} must be {known[key][1]}, but is {shown}.")
    missing = [key for key in _NEEDED.get(kind, ("model",)) if key not in values]
    return problems + [f"{key} is missing." for key in missing]


def _located(model: str, path: Path, kind: str) -> str:
    """A model's folder beside the TOML file, if there is one."""
    beside = path.parent / model
    return str(beside) if kind != "endpoint" and beside.is_dir() else model


def _text_of(example: Mapping[str, str]) -> Text:
    return (example["text"], example["text_pair"]) if "text_pair" in example else example["text"]
