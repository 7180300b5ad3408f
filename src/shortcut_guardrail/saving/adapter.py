"""The adapter in a guarded folder: PEFT's two files, and the base model and tokenizer that go with them."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, cast

import torch
from typing_extensions import TypedDict

from ..config import GuardrailConfig
from ..data import NotEmpty, Within, Word, checked, json_content, shown
from ..errors import ModelError
from ..mitigation import AdapterGuard, wrap_with_lora
from ..models import TextClassifier, load_model, quiet_transformers
from .record import GuardrailRecord, is_guarded_folder, read_record

_ADVICE = "Fit and save the guard again."


def place_of(source: str | Path) -> str:
    """A name that holds from everywhere: an absolute path for a folder that is here, else the Hub id as it is."""
    return str(Path(source).resolve()) if Path(source).is_dir() else str(source)


def path_from(folder: Path, place: str | None) -> str | None:
    """The way from a guarded folder to the folder of its base model, which holds where both have moved together; `None`
    for a Hub id, a model without a name, and another drive."""
    if place is None or not Path(place).is_absolute():
        return None
    try:
        return os.path.relpath(place, folder.resolve())
    except ValueError:
        return None


def find_base(
    folder: Path, record: GuardrailRecord, base: str | Path | Any | None, revision: str | None, loading: dict[str, bool]
) -> tuple[Any, str]:
    """The base model of a guarded folder, and its name."""
    if base is not None and not isinstance(base, str | Path):
        return base, str(getattr(base, "name_or_path", "") or "the model given as base")
    name = str(base) if base is not None else record.base_model["name"]
    if name is None:
        raise ModelError(
            f"The adapter in '{folder}' was trained on a model in memory that had no name. Name its base with base=."
        )
    if base is None and not Path(name).exists():
        name = _moved(folder, name, record.base_model.get("from_folder"))
    try:
        model, _ = load_model(
            name, revision=revision or (record.base_model["revision"] if base is None else None), **loading
        )
    except ModelError as error:
        raise ModelError(
            f"The base model of '{folder}' was not found. {error} If it is elsewhere, name it with base=."
        ) from error
    return model, place_of(name)


def _moved(folder: Path, name: str, from_folder: str | None) -> str:
    """Where the folder of a base model is that is not where its name says; the name itself where it is nowhere.

    A wrong folder does no harm: the weights are compared.
    """
    place = folder.resolve() / from_folder if from_folder else None
    return str(place) if place is not None and place.is_dir() else name


def base_of(source: str | Path) -> str | None:
    """The base model that a guarded folder names; `None` for another folder, and where it names none."""
    if not is_guarded_folder(source):
        return None
    with suppress(ModelError):  # a damaged record is told about when it is loaded
        base = read_record(Path(source)).base_model
        if name := base["name"]:
            return name if Path(name).exists() else _moved(Path(source), name, base.get("from_folder"))
    return None


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer that a guarded folder holds."""
    from transformers import AutoTokenizer

    try:
        with quiet_transformers():
            return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ModelError(f"'{folder}' holds no usable tokenizer: {error}. Fit and save the guard again.") from error


def load_adapter(classifier: TextClassifier, folder: Path, config: GuardrailConfig) -> Any:
    """The PEFT model of a guarded folder at its trained scale: the folded strength is undone."""
    from peft import LoraConfig, set_peft_model_state_dict
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = folder / "adapter_model.safetensors"
    try:
        weights = load_file(file)
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelError(f"'{file}' is missing or damaged: {error}. Fit and save the guard again.") from error
    targets = _read_settings(folder / "adapter_config.json", config)
    lora = LoraConfig(
        r=config.adapter.rank, lora_alpha=cast(int, config.adapter.lora_alpha), target_modules=targets, bias="none"
    )
    # PEFT draws the factors at random before they are read in; what the process draws next is left as it was.
    try:
        with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
            model = wrap_with_lora(classifier, lora)
    except ValueError as error:  # layers that the model does not have
        raise ModelError(f"'{folder}' does not fit this model: {error}. Fit and save the guard again.") from error
    try:
        result = set_peft_model_state_dict(model, weights)
    except RuntimeError as error:  # tensors of another shape
        raise ModelError(f"'{file}' does not fit this model: {error}. Fit and save the guard again.") from error
    absent = [name for name in result.missing_keys if ".lora_" in name]
    if absent or result.unexpected_keys:
        raise ModelError(
            f"'{file}' does not fit this model: {len(absent)} adapter weights are missing and "
            f"{len(result.unexpected_keys)} are unknown. Fit and save the guard again."
        )
    model.requires_grad_(False)
    return model.eval()


class _Settings(TypedDict):
    """What this library sets in `adapter_config.json`; all else is as PEFT has it by default."""

    peft_type: Literal["LORA"]
    r: int
    lora_alpha: float
    target_modules: Annotated[tuple[Word, ...], NotEmpty()]
    inference_mode: bool
    base_model_name_or_path: str | None
    revision: NotRequired[str | None]
    peft_version: NotRequired[str | None]


def _read_settings(file: Path, config: GuardrailConfig) -> list[str]:
    """The adapted layers that PEFT is told of.

    Whoever loads the folder by PEFT alone obeys this file: to train other modules, to draw the factors in another way,
    to search layers by a pattern. What this library would not have written is refused.
    """
    from peft import LoraConfig

    values = json_content(file, error=ModelError, advice=_ADVICE)
    how: dict[str, Any] = {"error": ModelError, "advice": _ADVICE, "open_ended": True}
    found = checked(values, _Settings, str(file), **how)
    # A guard of strength 0 has an alpha of 0.
    checked(found["r"], Literal[config.adapter.rank], str(file), path="r", **how)
    most = Annotated[float, Within(0, config.adapter.lora_alpha)]
    checked(found["lora_alpha"], most, str(file), path="lora_alpha", **how)
    if config.adapter.target_modules is not None:
        layer: Any = Literal[config.adapter.target_modules]
        checked(found["target_modules"], tuple[layer, ...], str(file), path="target_modules", **how)
    defaults = json.loads(json.dumps(LoraConfig().to_dict(), default=str))
    for name in sorted(set(values) - set(_Settings.__annotations__)):
        value, usual = values[name], defaults.get(name)
        # What another version of PEFT knows may be there if it does nothing.
        if type(value) is not type(usual) or value != usual:
            if name not in defaults and value in (None, False, [], {}):
                continue
            wanted = f"{json.dumps(usual)}, as this library writes it"
            raise ModelError(f"{file}: {name} must be {wanted}, but is {shown(value)}. {_ADVICE}")
    return list(found["target_modules"])


def save_adapter(guard: AdapterGuard, config: GuardrailConfig, record: GuardrailRecord, target: Path) -> None:
    """PEFT's two files. The strength goes into the configuration, never into the tensors, so 0 can be undone."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    model = guard.adapted.model
    weights = get_peft_model_state_dict(model, save_embedding_layers=False)
    save_file(
        {k: v.detach().cpu().contiguous() for k, v in weights.items()},
        target / "adapter_model.safetensors",
        metadata={"format": "pt"},
    )
    lora = model.peft_config["default"].to_dict()
    lora.update(
        lora_alpha=config.adapter.lora_alpha * record.debias_strength,
        base_model_name_or_path=record.base_model["name"],
        revision=record.base_model["revision"],
        inference_mode=True,
        peft_type="LORA",
        target_modules=sorted(lora["target_modules"]),
    )
    (target / "adapter_config.json").write_text(
        json.dumps(lora, indent=2, sort_keys=True, default=str), encoding="utf-8"
    )
