"""The adapter in a guarded folder: PEFT's two files, and the base model and tokenizer that go with them."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, cast

from typing_extensions import TypedDict

from ..config import GuardrailConfig
from ..data import NotEmpty, Word, checked, json_content, shown
from ..errors import ModelError
from ..mitigation import AdapterGuard, seeded, wrap_with_lora
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
    name = _named_base(folder, record) if base is None else str(base)
    if name is None:
        raise ModelError(
            f"The adapter in '{folder}' was trained on a model in memory that had no name. Name its base with base=."
        )
    recorded = record.base_model["revision"] if base is None else None
    try:
        model, _ = load_model(name, revision=revision or recorded, **loading)
    except ModelError as error:
        raise ModelError(
            f"The base model of '{folder}' was not found. {error} If it is elsewhere, name it with base=."
        ) from error
    return model, place_of(name)


def _named_base(folder: Path, record: GuardrailRecord) -> str | None:
    """Where the base model is, if its folder moved with the guard's too; a wrong one is found out by its weights."""
    name, way = record.base_model["name"], record.base_model.get("from_folder")
    if name is None or way is None or Path(name).exists():
        return name
    place = folder.resolve() / way
    return str(place) if place.is_dir() else name


def base_of(source: str | Path) -> str | None:
    """The base model that a guarded folder names; `None` for another folder, and where it names none."""
    if is_guarded_folder(source):
        with suppress(ModelError):  # a damaged record is told about when it is loaded
            return _named_base(Path(source), read_record(Path(source)))
    return None


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer that a guarded folder holds."""
    from transformers import AutoTokenizer

    try:
        with quiet_transformers():
            return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ModelError(f"'{folder}' holds no usable tokenizer: {error}. {_ADVICE}") from error


def load_adapter(classifier: TextClassifier, folder: Path, config: GuardrailConfig, record: GuardrailRecord) -> Any:
    """The PEFT model of a guarded folder at its trained scale: the folded strength is undone."""
    from peft import LoraConfig, set_peft_model_state_dict
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = folder / "adapter_model.safetensors"
    layers = _check_settings(folder / "adapter_config.json", config, record)
    lora = LoraConfig(
        r=config.adapter.rank, lora_alpha=cast(int, config.adapter.lora_alpha), target_modules=layers, bias="none"
    )
    try:
        weights = load_file(file)
        # PEFT draws the factors at random before they are read in; what the process draws next is left as it was.
        with seeded(0):
            model = wrap_with_lora(classifier, lora)
        result = set_peft_model_state_dict(model, weights)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"'{file}' is missing or damaged, or does not fit this model: {error}. {_ADVICE}") from error
    absent = [name for name in result.missing_keys if ".lora_" in name]
    if absent or result.unexpected_keys:
        raise ModelError(
            f"'{file}' does not fit this model: {len(absent)} adapter weights are missing and "
            f"{len(result.unexpected_keys)} are unknown. {_ADVICE}"
        )
    model.requires_grad_(False)
    return model.eval()


class _Settings(TypedDict):
    target_modules: Annotated[tuple[Word, ...], NotEmpty()]


def _check_settings(file: Path, config: GuardrailConfig, record: GuardrailRecord) -> list[str]:
    """The adapted layers that PEFT is told of.

    Whoever loads the folder by PEFT alone obeys this file: to train other modules, to draw the factors in another way,
    to search layers by a pattern. What this library would not have written is refused.
    """
    values = json_content(file, error=ModelError, advice=_ADVICE)
    found = checked(values, _Settings, str(file), error=ModelError, advice=_ADVICE, open_ended=True)
    layers = list(config.adapter.target_modules or found["target_modules"])
    ours = _settings(config, record, layers)
    for name in sorted({*values, *ours} - {"peft_version"}):
        value, usual = values.get(name), ours.get(name)
        if name in ours and name in values:
            same = value == usual and isinstance(value, bool) == isinstance(usual, bool)
        else:  # what only one version of PEFT knows does no harm if it does nothing
            same = (value or usual) in (None, False, [], {})
        if not same:
            wanted = f"{json.dumps(usual)}, as this library writes it"
            raise ModelError(f"{file}: {name} must be {wanted}, but is {shown(value)}. {_ADVICE}")
    return layers


def _settings(config: GuardrailConfig, record: GuardrailRecord, layers: list[str]) -> dict[str, Any]:
    """What `adapter_config.json` says. The strength goes in here, never into the tensors, so that 0 can be undone."""
    from peft import LoraConfig

    settings = LoraConfig(r=config.adapter.rank, bias="none").to_dict() | {
        "lora_alpha": config.adapter.lora_alpha * record.debias_strength,
        "base_model_name_or_path": record.base_model["name"],
        "revision": record.base_model["revision"],
        "inference_mode": True,
        "peft_type": "LORA",
        "target_modules": sorted(layers),
    }
    return cast(dict[str, Any], json.loads(json.dumps(settings, default=str)))


def save_adapter(guard: AdapterGuard, config: GuardrailConfig, record: GuardrailRecord, target: Path) -> None:
    """PEFT's two files."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    model = guard.adapted.model
    weights = get_peft_model_state_dict(model, save_embedding_layers=False)
    save_file(
        {k: v.detach().cpu().contiguous() for k, v in weights.items()},
        target / "adapter_model.safetensors",
        metadata={"format": "pt"},
    )
    settings = _settings(config, record, list(model.peft_config["default"].target_modules))
    (target / "adapter_config.json").write_text(json.dumps(settings, indent=2, sort_keys=True), encoding="utf-8")
