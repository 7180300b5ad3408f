"""Opens what a user names as a classifier: a folder, a Hub id, a TOML file, `module:function`, or a function."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from ..errors import ConfigError, ModelError
from .function import FunctionClassifier
from .kept import AnswerCache, KeptClassifier
from .mapped import MappedClassifier, label_columns
from .probabilities import fingerprint_of
from .prompts import Prompt, make_prompts, phrases
from .protocol import Classifier
from .settings import (
    CausalSettings,
    EncoderSettings,
    EndpointSettings,
    FunctionSettings,
    Settings,
    ZeroShotSettings,
    read_settings,
)
from .words import WordReader

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def open_classifiers(
    specs: Sequence[str | Path | Classifier | Callable[[Any], Any]],
    labels: Sequence[str],
    *,
    descriptions: Mapping[str, str] | None = None,
    cache: str | Path | None = None,
) -> list[Classifier]:
    """Open classifiers that predict the labels of another.

    Args:
        specs: Each a folder or Hub id of a model, a TOML file (see docs/howto/second-model-sources.md),
            `module:function`, a function from N texts to probabilities of shape (N, C), or a `Classifier`.
        descriptions: What a language model reads in place of each label; a TOML file's own come first.
        cache: Folder in which predictions of models and endpoints are kept; without it an interrupted run starts anew.

    Raises:
        ConfigError: A spec is malformed, two are the same, or an option is out of range.
        ModelError: A model cannot be used, or has other labels.
    """
    opening = _Opening(tuple(labels), descriptions or {}, None if cache is None else Path(cache))
    found = [opening.open(spec) for spec in specs]
    prints = [one.fingerprint() for one in found]
    for (one, mark), (other, other_mark) in combinations(zip(found, prints, strict=True), 2):
        if mark == other_mark:
            raise ConfigError(f"'{one.name}' and '{other.name}' are the same. One model has one opinion.")
        if one.name == other.name:
            raise ConfigError(f"Two classifiers are called '{one.name}'. Set name in their TOML files.")
    return found


@dataclass(frozen=True)
class _Opening:
    """What all classifiers of one call share; see `open_classifiers`."""

    labels: tuple[str, ...]
    descriptions: Mapping[str, str]
    folder: Path | None

    def open(self, spec: Any) -> Classifier:
        if hasattr(spec, "predict_proba") and hasattr(spec, "label_names"):
            return self._mapped(spec, {}, {})
        if hasattr(spec, "predict_proba"):
            return self._called(type(spec).__name__, spec.predict_proba, _classes_of(spec))
        if callable(spec):
            return self._called(getattr(spec, "__name__", type(spec).__name__), spec, _classes_of(spec))
        settings = _settings_of(str(spec))
        if isinstance(settings, FunctionSettings):
            return FunctionClassifier(settings.name, self.labels, _imported(settings.function))
        if isinstance(settings, EndpointSettings):
            from .endpoint import ENDPOINT_TEMPLATES, EndpointClassifier

            return EndpointClassifier(self.labels, self._prompts(settings, ENDPOINT_TEMPLATES), settings, self.folder)
        model = self._causal(settings) if isinstance(settings, CausalSettings) else self._encoder(settings)
        if self.folder is None:
            return model
        asked = {name: said for name, said in model.record().items() if name not in ("name", "model", "versions")}
        mark = fingerprint_of({**asked, "answers": self.labels})
        return KeptClassifier(model, AnswerCache(self.folder / f"answers-{mark[:16]}.sqlite"))

    def _called(self, name: str, function: Callable[[Any], Any], own: tuple[str, ...]) -> Classifier:
        """A function; its columns are these labels, in an order of its own where it names the same ones."""
        known = own if sorted(own) == sorted(self.labels) else self.labels
        return self._mapped(FunctionClassifier(name, known, function), {}, {})

    def _mapped(self, classifier: Classifier, mapping: Mapping[str, Any], loaded: Mapping[str, Any]) -> Classifier:
        """A classifier as it is if it has these labels, or with its classes matched to them."""
        if tuple(classifier.label_names) == self.labels and not mapping and not loaded:
            return classifier
        columns = label_columns(classifier.label_names, self.labels, mapping, classifier.name)
        return MappedClassifier(classifier, self.labels, columns, loaded)

    def _prompts(self, settings: CausalSettings | EndpointSettings, usual: Sequence[str]) -> tuple[Prompt, ...]:
        return make_prompts(
            settings.prompts or usual,
            self.labels,
            {**self.descriptions, **settings.descriptions},
            [((one.text, one.text_pair) if one.text_pair else one.text, one.label) for one in settings.examples],
            by_name=settings.kind == "endpoint",
        )

    def _causal(self, settings: CausalSettings) -> Classifier:
        from ..models import CausalModel, load_causal
        from .prompted import CAUSAL_TEMPLATES, PromptedClassifier

        prompts, most = self._prompts(settings, CAUSAL_TEMPLATES), settings.max_length or 1024
        model, tokenizer = load_causal(settings.model, revision=settings.revision, precision=settings.precision)
        loaded = {**_loaded(settings), "precision": settings.precision, "max_length": most}
        causal = CausalModel(model, tokenizer, max_length=most)
        return PromptedClassifier(settings.name, self.labels, causal, prompts, loaded)

    def _encoder(self, settings: EncoderSettings | ZeroShotSettings) -> Classifier:
        from ..models import TextClassifier, load_model
        from .zero_shot import ZERO_SHOT_TEMPLATES, ZeroShotClassifier, entailing

        model, tokenizer = load_model(settings.model, revision=settings.revision)
        options: dict[str, Any] = {"head": getattr(settings, "head", None), "max_length": settings.max_length}
        classifier = TextClassifier(model, tokenizer, batch_size=16, masks=False, **options)
        classifier.name = settings.name
        if isinstance(settings, EncoderSettings):
            # Asked about entailment itself, a model of entailment is an ordinary classifier.
            reads = entailing(classifier.label_names) is not None and entailing(self.labels) is None
            if settings.labels or not reads:
                return self._mapped(classifier, settings.labels, _loaded(settings))
            settings = ZeroShotSettings(model=settings.model, revision=settings.revision)
        tokenizer.split_special_tokens = True  # a text is a premise whatever it spells
        said = phrases(self.labels, {**self.descriptions, **settings.descriptions})
        templates = tuple(settings.prompts or ZERO_SHOT_TEMPLATES)
        return ZeroShotClassifier(self.labels, classifier, templates, said, _loaded(settings))


def word_reader(
    classifier: Any, label_names: Sequence[str] | None = None, *, cache: str | Path | None = None
) -> WordReader:
    """Any classifier as a reader of words. Arguments and errors: see `ShortcutGuardrail.around`."""
    names = label_names if label_names is not None else getattr(classifier, "label_names", _classes_of(classifier))
    if not len(names):
        raise ConfigError("The classes are not known. Give label_names (--labels a,b,c), in the order of the columns.")
    labels = [] if isinstance(names, str) else [str(name).strip() for name in names]
    if not labels or not all(labels) or len(set(labels)) < len(labels):
        raise ConfigError(
            f"label_names must be a list of different names, in the order of the columns, but is {names!r}."
        )
    (opened,) = open_classifiers([classifier], labels, cache=cache)
    return WordReader(opened)


def _classes_of(classifier: Any) -> tuple[str, ...]:
    """The `classes_` of what scikit-learn made, or of that whose method it is; empty for anything else."""
    return tuple(str(one) for one in getattr(getattr(classifier, "__self__", classifier), "classes_", ()))


def is_spec(source: object) -> bool:
    """Whether it names a function, as `module:function`, or a TOML file, and no model's folder or Hub id."""
    text = str(source)
    return text.lower().endswith(".toml") or bool(_FUNCTION.fullmatch(text) and not Path(text).exists())


def _settings_of(spec: str) -> Settings:
    """Of a file, or of what a folder, a Hub id or a function needs."""
    path = Path(spec)
    if path.suffix.lower() == ".toml":
        return read_settings(path)
    if spec.startswith(("http://", "https://")):
        raise ConfigError(
            f"'{spec.partition(':')[0]}://...' is an address. Name it in a TOML file with kind = \"endpoint\", url and "
            "model, and give that."
        )
    if _FUNCTION.fullmatch(spec) and not path.is_dir():
        return FunctionSettings(name=spec, function=spec)
    if path.is_file():
        raise ConfigError(
            f"'{spec}' is a file, and opening a pickled model can run code. Load it in a function of your own, and "
            "give that as module:function."
        )
    from ..models import architecture_of

    found, name = architecture_of(spec), path.resolve().name if path.is_dir() else path.name
    if "CausalLM" in found or "LMHeadModel" in found:
        return CausalSettings(model=spec, name=name)
    if "SequenceClassification" in found:
        return EncoderSettings(model=spec, name=name)
    raise ModelError(
        f"'{spec}' is {found or 'of a kind that it does not say'}. A second model comes from a causal "
        'language model or a classifier; say which in a TOML file with kind = "causal" or "classifier".'
    )


def _loaded(settings: CausalSettings | EncoderSettings | ZeroShotSettings) -> dict[str, Any]:
    """Where a model comes from and what read it, for the record."""
    from ..models import versions

    return {"model": settings.model, "revision": settings.revision, **versions()}


def _imported(target: str) -> Callable[[Any], Any]:
    """The function that `module:function` names; modules in the current folder are found too."""
    if not _FUNCTION.fullmatch(target):
        raise ConfigError(f"A function is given as module:function, but is '{target}'.")
    (module_name, name), here = target.split(":"), str(Path.cwd())
    sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module_name), name, None)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"'{module_name}' could not be imported ({type(error).__name__}: {error}).") from error
    finally:
        sys.path.remove(here)
    if not callable(function):
        raise ConfigError(f"'{module_name}' has no function '{name}'. Give module:function.")
    return function  # type: ignore[no-any-return]
