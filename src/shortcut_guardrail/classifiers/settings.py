"""TOML files that describe a classifier."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..data import enumerated, kind_of, nested, read_utf8
from ..errors import ConfigError
from ..typing import Text

# What a field must be stands in its description, as sentences about it go on: "samples must be ...".
_Word = Annotated[str, Field(pattern=r"\S", description="a string that is not empty")]
_Prompts = Annotated[
    list[_Word], Field(default_factory=list, min_length=1, description="a list of strings, one or more")
]
_Count = Annotated[int, Field(ge=1, description="a whole number, 1 or more")]
_Length = Annotated[int | None, Field(ge=1, description="a whole number, 1 or more")]
_Positive = Annotated[float, Field(gt=0, description="a number above 0")]
_Rate = Annotated[float | None, Field(gt=0, description="a number above 0")]
_Flag = Annotated[bool, Field(description="true or false")]
_Meanings = Annotated[dict[str, _Word], Field(default_factory=dict, description="a table of labels with a string each")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Example(_Strict):
    """A text, or a pair, with the label that is right for it."""

    text: _Word
    text_pair: _Word = ""
    label: _Word

    @property
    def answered(self) -> tuple[Text, str]:
        """As prompts take it."""
        return (self.text, self.text_pair) if self.text_pair else self.text, self.label


_Examples = Annotated[
    list[Example], Field(default_factory=list, description="tables with text, label and for pairs text_pair")
]


class _Named(_Strict):
    name: _Word = ""


class _Model(_Named):
    model: _Word
    revision: _Word = ""
    max_length: _Length = None


class _Asked(_Strict):
    prompts: _Prompts
    descriptions: _Meanings


class CausalSettings(_Model, _Asked):
    """A causal language model."""

    kind: Literal["causal"] = "causal"
    examples: _Examples
    precision: Annotated[Literal["bfloat16", "float32"], Field(description="bfloat16 or float32")] = "bfloat16"


class EncoderSettings(_Model):
    """A sequence classifier with the same labels, or with labels that are mapped to them."""

    kind: Literal["classifier"] = "classifier"
    labels: Annotated[
        dict[str, _Word | Annotated[list[_Word], Field(min_length=1)]],
        Field(
            default_factory=dict,
            description="a table of the model's labels, with one or more of this classifier's each",
        ),
    ]
    head: Annotated[Literal["softmax", "sigmoid"] | None, Field(description="softmax or sigmoid")] = None


class ZeroShotSettings(_Model, _Asked):
    """A model of entailment."""

    kind: Literal["zero-shot"] = "zero-shot"


class FunctionSettings(_Named):
    """A function, as `module:function`."""

    kind: Literal["function"] = "function"
    function: _Word


class EndpointSettings(_Named, _Asked):
    """A chat model behind an OpenAI-compatible endpoint."""

    kind: Literal["endpoint"] = "endpoint"
    model: _Word
    examples: _Examples
    url: _Word
    api_key_env: _Word = ""
    answers: Annotated[
        Literal["auto", "log-probabilities", "samples"], Field(description="auto, log-probabilities or samples")
    ] = "auto"
    samples: _Count = 5
    requests_per_minute: _Rate = None
    parallel: _Count = 4
    timeout: _Positive = 60.0
    retries: _Count = 6
    allow_http: _Flag = False
    request: Annotated[dict[str, Any], Field(default_factory=dict, description="a table")]


Settings = CausalSettings | EncoderSettings | ZeroShotSettings | FunctionSettings | EndpointSettings
_KINDS: dict[str, type[_Named]] = {
    "causal": CausalSettings,
    "classifier": EncoderSettings,
    "zero-shot": ZeroShotSettings,
    "function": FunctionSettings,
    "endpoint": EndpointSettings,
}


def read_settings(path: Path) -> Any:
    """What a TOML file says, one of `Settings`; with a name, and a model's folder beside the file found.

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
    if not isinstance(kind, str) or kind not in _KINDS:
        found = "is missing" if kind is None else f"is {kind!r}"
        raise ConfigError(f"{path}: kind must be one of {enumerated(list(_KINDS))}, but {found}.")
    try:
        read = _KINDS[kind].model_validate(values)
    except ValidationError as error:
        said = dict.fromkeys(_sentence(_KINDS[kind], one, values) for one in error.errors(include_url=False))
        raise ConfigError(f"{path}: {' '.join(said)}") from None
    if isinstance(read, _Model) and (path.parent / read.model).is_dir():
        read = read.model_copy(update={"model": str(path.parent / read.model)})
    name = Path(getattr(read, "model", "")).name or path.stem
    return read if read.name else read.model_copy(update={"name": name})


def _sentence(kind: type[_Named], problem: Any, values: dict[str, Any]) -> str:
    """What is wrong with a field, in a sentence; the value of one that is not known may be a key."""
    key, known = str(problem["loc"][0]), kind.model_fields
    if key == "api_key":
        return "A key does not belong in a file. Put it into an environment variable named by api_key_env."
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"It may have {enumerated(sorted(known))}."
        return f"A classifier of kind {values['kind']} has no '{key}'. {hint}"
    if key not in values:
        return f"{key} is missing."
    shown = repr(values[key]) if isinstance(values[key], str | int | float) else kind_of(values[key])
    return f"{key} must be {known[key].description}, but is {shown}."
