"""Bases with an adapter of PEFT: it is merged into a copy of the layers that it adapts."""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ..data import shortened
from ..errors import GuardrailWarning, ModelError
from .weights import fingerprint_of

ADAPTER_FILE = "adapter_config.json"
_GUARD_FILE = "guardrail.json"  # see `saving.GUARDRAIL_FILE`, of a room above


@dataclass(frozen=True)
class Merged:
    """Where a model with a merged adapter comes from.

    Attributes:
        base: Name of the model that was adapted, as far as it is known.
        base_fingerprint: Of its weights, see `TextClassifier.fingerprint`.
        adapter_fingerprint: Of the adapter's, a head of its own included.
    """

    base: str | None
    base_fingerprint: str
    adapter_fingerprint: str


def merged_copy(model: Any, copy_of: Any) -> tuple[Any, Merged | None]:
    """A model without PEFT's layers, whose answers are those of the model with them; and what was merged, if anything.

    Args:
        copy_of: Makes a copy of a module tree that shares the weights. Those of adapted layers are copied.

    Raises:
        ModelError: The adapter changes no weights, or not in a way that can be merged.
    """
    if (peft := sys.modules.get("peft")) is None:  # without which there is no such layer
        return copy_of(model), None
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import ModulesToSaveWrapper

    name = str(getattr(model, "name_or_path", "") or type(model).__name__)
    wrapped = isinstance(model, peft.PeftModel)
    configs = list(getattr(model, "peft_config", {}).values())
    if any(config.is_prompt_learning for config in configs):
        raise ModelError(f"'{name}' has an adapter that puts tokens before a text. It cannot be merged into weights.")
    own = copy_of(model.get_base_model() if wrapped else model)
    kinds = (BaseTunerLayer, ModulesToSaveWrapper)
    names = [key for key, module in own.named_modules() if isinstance(module, kinds)]
    outer = [key for key in names if not any(key.startswith(f"{other}.") for other in names)]
    if not outer:
        return own, None
    layers = {key: copy.deepcopy(own.get_submodule(key)) for key in outer}
    for key, layer in layers.items():
        if getattr(layer, "merged", False):
            layer.unmerge()
        saved = isinstance(layer, ModulesToSaveWrapper)
        own.set_submodule(key, layer.original_module if saved else layer.get_base_layer())
    base = fingerprint_of(own)
    parts = nn.ModuleDict({key.replace(".", "/"): layer for key, layer in layers.items()})
    adapter = fingerprint_of(parts, leave_out=(".base_layer.", ".original_module."))
    for key, layer in layers.items():
        if layer.disable_adapters:
            continue
        if isinstance(layer, ModulesToSaveWrapper):
            own.set_submodule(key, layer.modules_to_save[layer.active_adapters[0]])
            continue
        try:
            layer.merge()
        except (AttributeError, NotImplementedError, ValueError) as error:
            raise ModelError(f"'{name}' has an adapter of PEFT that cannot be merged into '{key}': {error}.") from error
    own.__dict__.pop("peft_config", None)
    own._hf_peft_config_loaded = False
    told = [str(config.base_model_name_or_path) for config in configs if config.base_model_name_or_path]
    beside = (Path(name) / ADAPTER_FILE).exists()  # what Transformers takes, whatever it is called
    if told and wrapped and not beside and Path(told[0]).resolve() != Path(name).resolve():
        warnings.warn(
            f"The adapter names '{told[0]}' as its base, but is on '{name}' here. If their weights differ, so do the "
            "predictions.",
            GuardrailWarning,
            stacklevel=4,
        )
    return own.eval(), Merged(told[0] if told else name, base, adapter)


def adapter_config(name: str, place: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an adapter in a folder or on the Hub says of itself; `None` where there is none. See `place_on_hub`.

    Raises:
        ModelError: It belongs to a guard of this library, or cannot be read.
    """
    from transformers.utils import find_adapter_config_file

    file = find_adapter_config_file(name, revision=place["revision"], local_files_only=place["local_files_only"])
    if file is None:
        return None
    if Path(file).with_name(_GUARD_FILE).exists():
        raise ModelError(
            f"'{name}' was written by fit, and is no original model. The model that it repairs is named in its "
            f"{_GUARD_FILE} file. Give that model, or what `shortcut-guardrail export` writes."
        )
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"'{name}', {ADAPTER_FILE} is damaged: {error}. Save the adapter again.") from error
    if not isinstance(found, dict):
        raise ModelError(f"'{name}', {ADAPTER_FILE} is no JSON object. Save the adapter again.")
    return found


def n_labels_of(weights: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
    """How many logits the head has that is saved with an adapter; `None` where it has none."""
    saved = [f".{module}." for module in config.get("modules_to_save") or ()]
    heads = [
        value.shape[0]
        for name, value in weights.items()
        if name.endswith(".weight") and value.ndim == 2 and any(module in name for module in saved)
    ]
    return min(heads, default=None)


@contextmanager
def without_adapter_files(name: str) -> Iterator[str]:
    """A folder with the whole model beside an adapter, without the adapter, which Transformers would add on the way."""
    with tempfile.TemporaryDirectory() as beside:
        for file in Path(name).resolve().iterdir():
            if not file.name.startswith("adapter_"):
                (Path(beside) / file.name).symlink_to(file)
        yield beside


def attach(model: Any, name: str, place: Mapping[str, Any]) -> Any:
    """The PEFT model of a base and the adapter in a folder or on the Hub.

    Raises:
        ModelError: It does not fit this base.
    """
    import torch
    from peft import PeftModel

    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("error", message="Found missing adapter keys")
        warnings.filterwarnings("ignore", category=FutureWarning)
        try:
            return PeftModel.from_pretrained(model, name, **place).eval()
        except (OSError, ValueError, RuntimeError, KeyError, UserWarning, TypeError) as error:
            said = shortened(" ".join(str(error).split()), 200).rstrip(".:")
            raise ModelError(
                f"The adapter in '{name}' could not be put on its base '{model.name_or_path}': {said}. Name the model "
                "that it was trained on with base=."
            ) from error
