"""From what a user writes to classifiers: a folder, a Hub id, a TOML file, `module:function`, or a function."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError, ModelError
from .function import FunctionClassifier
from .kept import AnswerCache, KeptClassifier
from .mapped import MappedClassifier, label_columns
from .prompts import Prompt, make_prompts, phrases
from .protocol import Classifier
from .settings import Settings, read_settings
from .zero_shot import ZERO_SHOT_TEMPLATES, ZeroShotClassifier, entailing

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PICKLES = {".joblib", ".pkl", ".pickle", ".bin", ".pt", ".pth"}


@dataclass(frozen=True)
class _Context:
    """What all classifiers of one call share; see `open_classifiers`."""

    labels: tuple[str, ...]
    descriptions: Mapping[str, str]
    cache: Path | None


def open_classifiers(
    specs: Sequence[str | Path | Classifier | Callable[[Any], Any]],
    labels: Sequence[str],
    *,
    descriptions: Mapping[str, str] | None = None,
    cache: str | Path | None = None,
) -> list[Classifier]:
    """Open classifiers that answer in the labels of another.

    Args:
        specs: Each a folder or Hub id of a model, a TOML file (see docs/howto/second-opinion-sources.md),
            `module:function`, a function from N texts to probabilities of shape (N, C), or a `Classifier`.
        labels: The C labels, in their order.
        descriptions: What is said in place of a label to what reads words; a TOML file's own come first.
        cache: Folder in which answers of models and endpoints are kept; without it an interrupted run starts anew.

    Raises:
        ConfigError: A spec is malformed, two are the same, or an option is out of range.
        ModelError: A model cannot be used, or has other labels.
    """
    context = _Context(tuple(labels), descriptions or {}, None if cache is None else Path(cache))
    found = [_open(spec, context) for spec in specs]
    prints = [one.fingerprint() for one in found]
    for i, one in enumerate(found):
        for j, other in enumerate(found[:i]):
            if prints[i] == prints[j]:
                raise ConfigError(f"'{other.name}' and '{one.name}' are the same. One model has one opinion.")
            if one.name == other.name:
                raise ConfigError(f"Two classifiers are called '{one.name}'. Set name in their TOML files.")
    return found


def _open(spec: Any, context: _Context) -> Classifier:
    if hasattr(spec, "predict_proba") and hasattr(spec, "label_names"):
        return _in_labels(spec, context.labels)
    if callable(spec):
        return FunctionClassifier(getattr(spec, "__name__", type(spec).__name__), context.labels, spec)
    settings = _settings_of(str(spec))
    if settings.kind == "function":
        return FunctionClassifier(settings.name, context.labels, _imported(settings.target))
    if settings.kind == "endpoint":
        from .endpoint import open_endpoint

        return open_endpoint(settings, context.labels, _prompts(settings, context), context.cache)
    kind = settings.kind or _kind_of(settings)
    model = _causal(settings, context) if kind == "causal" else _encoder(settings, context, kind == "zero-shot")
    if context.cache is None:
        return model
    return KeptClassifier(model, AnswerCache(context.cache / f"answers-{model.fingerprint()[:16]}.jsonl"))


def _in_labels(classifier: Classifier, labels: tuple[str, ...]) -> Classifier:
    """A classifier that is open already, its classes matched by name."""
    theirs = tuple(classifier.label_names)
    if theirs == labels:
        return classifier
    return MappedClassifier(classifier, labels, label_columns(theirs, labels, {}, classifier.name))


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
    from .endpoint import ENDPOINT_TEMPLATES
    from .prompted import CAUSAL_TEMPLATES

    said = {**context.descriptions, **settings.get("descriptions", {})}
    by_name = settings.kind == "endpoint"
    templates = settings.get("prompts", ENDPOINT_TEMPLATES if by_name else CAUSAL_TEMPLATES)
    return make_prompts(templates, context.labels, said, settings.get("examples", ()), by_name=by_name)


def _causal(settings: Settings, context: _Context) -> Classifier:
    from ..models import CausalModel, load_causal
    from .prompted import PromptedClassifier

    prompts = _prompts(settings, context)
    precision = settings.get("precision", "bfloat16")
    revision = settings.get("revision")
    model, tokenizer = load_causal(settings.target, revision=revision, precision=precision)
    most = settings.get("max_length", 1024)
    loaded = {**_loaded(settings), "precision": precision, "max_length": most}
    causal = CausalModel(model, tokenizer, max_length=most)
    return PromptedClassifier(settings.name, context.labels, causal, prompts, loaded)


def _encoder(settings: Settings, context: _Context, zero_shot: bool) -> Classifier:
    from ..models import TextClassifier, load_model

    _refuse_adapter(settings.target)
    model, tokenizer = load_model(settings.target, revision=settings.get("revision"))
    wanted: dict[str, Any] = {"head": settings.get("head"), "max_length": settings.get("max_length")}
    classifier = TextClassifier(model, tokenizer, batch_size=16, masks=False, **wanted)
    classifier.name = settings.name
    names = classifier.label_names
    # Asked about entailment itself, a model of entailment is an ordinary classifier.
    if zero_shot or (entailing(names) is not None and entailing(context.labels) is None and not settings.get("labels")):
        said = phrases(context.labels, {**context.descriptions, **settings.get("descriptions", {})})
        templates = tuple(settings.get("prompts") or ZERO_SHOT_TEMPLATES)
        return ZeroShotClassifier(context.labels, classifier, templates, said, _loaded(settings))
    columns = label_columns(names, context.labels, settings.get("labels", {}), settings.name)
    return MappedClassifier(classifier, context.labels, columns, _loaded(settings))


def _loaded(settings: Settings) -> dict[str, Any]:
    """Where a model comes from and what read it, for the record."""
    from ..models import versions

    return {"model": settings.target, "revision": settings.get("revision"), **versions()}


def _imported(target: str) -> Callable[[Any], Any]:
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
