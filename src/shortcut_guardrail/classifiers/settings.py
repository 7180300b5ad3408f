"""TOML files that describe a classifier."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from ..data import NotEmpty, Within, Word, checked, enumerated, nested, read_utf8
from ..errors import ConfigError
from ..typing import Head

_Count: TypeAlias = Annotated[int, Within(1, 100_000)]
_Positive: TypeAlias = Annotated[float, Within(0.001)]
_Prompts: TypeAlias = Annotated[tuple[Word, ...], NotEmpty()]
_Labels: TypeAlias = dict[str, str | tuple[Word, ...]]


@dataclass(frozen=True)
class Example:
    """A text, or a pair, with the label that is right for it."""

    text: Word
    label: Word
    text_pair: Word = ""


@dataclass(frozen=True, kw_only=True)
class _Named:
    name: Word = ""


@dataclass(frozen=True, kw_only=True)
class _Asked:
    prompts: _Prompts = ()
    descriptions: Mapping[str, Word] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Model(_Named):
    model: Word
    revision: Word | None = None
    max_length: Annotated[int, Within(1)] | None = None


@dataclass(frozen=True, kw_only=True)
class CausalSettings(_Model, _Asked):
    """A causal language model."""

    kind: Literal["causal"] = "causal"
    examples: tuple[Example, ...] = ()
    precision: Literal["bfloat16", "float32"] = "bfloat16"


@dataclass(frozen=True, kw_only=True)
class EncoderSettings(_Model):
    """A sequence classifier with the same labels, or with labels that are mapped to them."""

    kind: Literal["classifier"] = "classifier"
    labels: _Labels = field(default_factory=dict)
    head: Head | None = None


@dataclass(frozen=True, kw_only=True)
class ZeroShotSettings(_Model, _Asked):
    """A model of entailment."""

    kind: Literal["zero-shot"] = "zero-shot"


@dataclass(frozen=True, kw_only=True)
class FunctionSettings(_Named):
    """A function, as `module:function`."""

    kind: Literal["function"] = "function"
    function: Word


@dataclass(frozen=True, kw_only=True)
class EndpointSettings(_Named, _Asked):
    """A chat model behind an OpenAI-compatible endpoint."""

    kind: Literal["endpoint"] = "endpoint"
    model: Word
    url: Word
    examples: tuple[Example, ...] = ()
    api_key_env: Word | None = None
    answers: Literal["auto", "log-probabilities", "samples"] = "auto"
    samples: _Count = 5
    requests_per_minute: _Positive | None = None
    parallel: _Count = 4
    timeout: _Positive = 60.0
    retries: _Count = 6
    allow_http: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)


Settings: TypeAlias = CausalSettings | EncoderSettings | ZeroShotSettings | FunctionSettings | EndpointSettings
_KINDS: dict[str, type[Settings]] = {one.kind: one for one in get_args(Settings)}


def read_settings(path: Path) -> Settings:
    """What a TOML file says, with a name, and with the place of a model's folder that lies beside the file."""
    content = read_utf8(path, str(path))
    try:
        values = tomllib.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"'{path}' is no TOML file: {nested(error)}.") from error
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: a date or a number that is not finite must be a string ({error}).") from error
    if (kind := values.get("kind")) not in list(_KINDS):
        found = "is missing" if kind is None else f"is {kind!r}"
        raise ConfigError(f"{path}: kind must be one of {enumerated(list(_KINDS))}, but {found}.")
    asked = values.get("request")
    if "api_key" in values or (isinstance(asked, dict) and "api_key" in asked):
        raise ConfigError(
            f"{path}: A key does not belong in a file. Put it into an environment variable named by api_key_env."
        )
    read: Settings = checked(values, _KINDS[kind], str(path), error=ConfigError)
    if isinstance(read, _Model) and (path.parent / read.model).is_dir():
        read = replace(read, model=str(path.parent / read.model))
    name = path.stem if isinstance(read, FunctionSettings) else Path(read.model).name
    return replace(read, name=read.name or name)
