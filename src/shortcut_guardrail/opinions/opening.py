"""From what a user writes to sources: a folder, a Hub id, a TOML file, `module:function`, or a function."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError, ModelError
from .cache import AnswerCache, KeptSource
from .classifiers import (
    ZERO_SHOT_TEMPLATES,
    ClassifierSource,
    FunctionSource,
    ZeroShotSource,
    entailing,
    label_columns,
)
from .prompts import Prompt, make_prompts, phrases
from .settings import Settings, read_settings
from .source import Source, Text, fingerprint_of

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PICKLES = {".joblib", ".pkl", ".pickle", ".bin", ".pt", ".pth"}


@dataclass(frozen=True)
class _Context:
    """What all sources of one call share; see `open_sources`."""

    labels: tuple[str, ...]
    descriptions: Mapping[str, str]
    cache: Path | None


def open_sources(
    specs: Sequence[str | Path | Source | Callable[[list[Text]], Any]],
    labels: Sequence[str],
    *,
    descriptions: Mapping[str, str] | None = None,
    cache: Path | None = None,
) -> list[Source]:
    """Load everything that is to be asked for a second opinion.

    Args:
        specs: Each a folder or Hub id of a model, a TOML file (see docs/howto/second-opinion-sources.md),
            `module:function`, a function from N texts to probabilities of shape (N, C), or a `Source`.
        labels: The deployed model's C labels, in its order.
        descriptions: What is said in place of a label to what reads words; a TOML file's own come first.
        cache: Folder in which answers of models and endpoints are kept; without it an interrupted run starts anew.

    Raises:
        ConfigError: A spec is malformed, two are the same, or an option is out of range.
        ModelError: A model cannot be used, or has other labels.
    """
    context = _Context(tuple(labels), descriptions or {}, cache)
    sources = [_open(spec, context) for spec in specs]
    for i, source in enumerate(sources):
        for other in sources[:i]:
            if source.fingerprint == other.fingerprint:
                raise ConfigError(f"'{other.name}' and '{source.name}' are the same. One model has one opinion.")
            if source.name == other.name:
                raise ConfigError(f"Two second opinions are called '{source.name}'. Set name in their TOML files.")
    return sources


def _open(spec: Any, context: _Context) -> Source:
    if callable(spec):
        return _function_source(spec, getattr(spec, "__name__", type(spec).__name__), context)
    if not isinstance(spec, str | Path):
        return spec  # type: ignore[no-any-return]
    settings = _settings_of(str(spec))
    if settings.kind == "function":
        return _function_source(_imported(settings.target), settings.name, context)
    if settings.kind == "endpoint":
        from .endpoint import open_endpoint

        return open_endpoint(settings, _prompts(settings, context), context.cache)
    kind = settings.kind or _kind_of(settings)
    model = _causal(settings, context) if kind == "causal" else _classifier(settings, context, kind == "zero-shot")
    if context.cache is None:
        return model
    return KeptSource(model, AnswerCache(context.cache / f"answers-{model.fingerprint[:16]}.jsonl"))


def _settings_of(spec: str) -> Settings:
    path = Path(spec)
    if path.suffix.lower() == ".toml":
        return read_settings(path)
    if path.is_dir():
        return Settings("", path.resolve().name, spec, {})
    if path.suffix.lower() in _PICKLES:
        raise ConfigError(
            f"'{spec}' is a file that can run code when it is opened, so it is not opened here. Load it in a function "
            "of your own and give module:function."
        )
    if spec.startswith(("http://", "https://")):
        raise ConfigError(
            f"'{spec}' is an address. Name it in a TOML file with kind = \"endpoint\", url and model, and give that."
        )
    if _FUNCTION.fullmatch(spec):
        return Settings("function", spec, spec, {})
    return Settings("", path.name, spec, {})


def _kind_of(settings: Settings) -> str:
    """`causal` or `classifier`, by what the model says it is."""
    from ..models import architecture_of

    _refuse_adapter(settings.target)
    found = architecture_of(settings.target, revision=settings.get("revision"))
    if "SequenceClassification" in found:
        return "classifier"
    if "CausalLM" in found or "LMHeadModel" in found:
        return "causal"
    raise ModelError(
        f"'{settings.target}' is {found or 'of a kind that it does not say'}. A second opinion comes from a causal "
        'language model or a classifier; say which in a TOML file with kind = "causal" or "classifier".'
    )


def _refuse_adapter(target: str) -> None:
    if (Path(target) / "adapter_config.json").exists():
        raise ModelError(
            f"'{target}' holds an adapter, not a model of its own. A guard's opinion is that of its base. Give another "
            "model, or merge the adapter and save the whole."
        )


def _prompts(settings: Settings, context: _Context) -> tuple[Prompt, ...]:
    from .causal import CAUSAL_TEMPLATES
    from .endpoint import ENDPOINT_TEMPLATES

    said = {**context.descriptions, **settings.get("descriptions", {})}
    by_name = settings.kind == "endpoint"
    templates = settings.get("prompts", ENDPOINT_TEMPLATES if by_name else CAUSAL_TEMPLATES)
    return make_prompts(templates, context.labels, said, settings.get("examples", ()), by_name=by_name)


def _causal(settings: Settings, context: _Context) -> Source:
    from ..models import CausalModel, load_causal
    from .causal import CausalSource

    prompts = _prompts(settings, context)
    precision = settings.get("precision", "bfloat16")
    revision = settings.get("revision")
    model, tokenizer = load_causal(settings.target, revision=revision, precision=precision)
    most = settings.get("max_length", 1024)
    asked = CausalModel(model, tokenizer, max_length=most)
    return CausalSource(
        settings.name, asked, prompts, {**_loaded(settings), "precision": precision, "max_length": most}
    )


def _classifier(settings: Settings, context: _Context, zero_shot: bool) -> Source:
    from ..models import TextClassifier, load_model

    _refuse_adapter(settings.target)
    model, tokenizer = load_model(settings.target, revision=settings.get("revision"))
    wanted: dict[str, Any] = {"head": settings.get("head"), "max_length": settings.get("max_length")}
    classifier = TextClassifier(model, tokenizer, batch_size=16, masks=False, **wanted)
    names = classifier.label_names
    # Asked about entailment itself, a model of entailment is an ordinary classifier.
    if zero_shot or (entailing(names) is not None and entailing(context.labels) is None and not settings.get("labels")):
        said = phrases(context.labels, {**context.descriptions, **settings.get("descriptions", {})})
        templates = tuple(settings.get("prompts") or ZERO_SHOT_TEMPLATES)
        return ZeroShotSource(settings.name, classifier, templates, said, _loaded(settings))
    columns = label_columns(names, context.labels, settings.get("labels", {}), settings.name)
    return ClassifierSource(settings.name, classifier, columns, _loaded(settings))


def _loaded(settings: Settings) -> dict[str, Any]:
    """Where a model comes from and what read it, for the record."""
    import torch
    import transformers

    versions = {"torch": str(torch.__version__), "transformers": str(transformers.__version__)}
    return {"model": settings.target, "revision": settings.get("revision"), "versions": versions}


def _imported(target: str) -> Callable[[list[Text]], Any]:
    """The function that `module:function` names; modules in the current folder are found too."""
    module_name, _, name = target.partition(":")
    if not _FUNCTION.fullmatch(target):
        raise ConfigError(f"A function is given as module:function, but is '{target}'.")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module_name), name, None)
    except Exception as error:
        raise ConfigError(f"'{module_name}' could not be imported ({type(error).__name__}: {error}).") from error
    finally:
        sys.path.remove(here)
    if not callable(function):
        raise ConfigError(f"'{module_name}' has no function '{name}'. Give module:function.")
    return function  # type: ignore[no-any-return]


def _function_source(function: Callable[[list[Text]], Any], name: str, context: _Context) -> Source:
    try:
        file = inspect.getsourcefile(inspect.unwrap(function)) or ""
        code = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except (TypeError, OSError):
        code = ""  # of a built-in, an object or a function that was typed in
    known = {"code": code, "name": getattr(function, "__qualname__", name), "shown": name}
    return FunctionSource(name, function, context.labels, fingerprint_of(known))
