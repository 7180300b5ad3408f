"""The adapter in a guarded folder: PEFT's two files, and the base model and tokenizer that go with them."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, cast

import torch
from torch import Tensor
from typing_extensions import TypedDict

from ..classifiers import WordReader, word_reader
from ..config import GuardrailConfig
from ..data import NotEmpty, Word, checked, json_content, shown
from ..errors import ModelError
from ..mitigation import AdapterGuard, seeded, wrap_with_lora
from ..models import TextClassifier, load_model, quiet_transformers
from .record import GuardrailRecord, is_guarded_folder, read_record

_ADVICE = "Run fit again."
_WITHIN = "base_model.model."  # what PEFT puts before the names of weights


def place_of(source: str | Path) -> str:
    """A name that holds from everywhere: an absolute path for what is here, else a Hub id or a function as it is."""
    return str(Path(source).resolve()) if Path(source).exists() else str(source)


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
        model, _ = load_model(name, base=None, revision=revision or recorded, **loading)
    except ModelError as error:
        raise ModelError(
            f"The original model of '{folder}' was not found. {error} If it is elsewhere, name it with base=."
        ) from error
    return model, place_of(name)


def answering(folder: Path, record: GuardrailRecord, base: Any, cache: str | Path | None) -> tuple[WordReader, str]:
    """The classifier that a guard cuts words out in front of, and its name."""
    given = _named_base(folder, record) if base is None else base
    if given is None:
        raise ModelError(f"The repaired model in '{folder}' was made for a function in memory. Give it with base=.")
    reader = word_reader(given, record.label_names, cache=cache)
    return reader, place_of(given) if isinstance(given, str | Path) else reader.name


def _named_base(folder: Path, record: GuardrailRecord) -> str | None:
    """Where the base model is, if its folder moved with the guard's too; a wrong one is found out by its weights."""
    name, way = record.base_model["name"], record.base_model.get("from_folder")
    if name is None or way is None or Path(name).exists():
        return name
    place = folder.resolve() / way
    return str(place) if place.exists() else name


def base_of(source: str | Path) -> str | None:
    """The base model that a guarded folder names; `None` for another folder, and where it names none."""
    record = _record_of(source)
    return None if record is None else _named_base(Path(source), record)


def label_of(source: str | Path) -> str | None:
    """The label that the guard in a folder was fitted for, of a model with several; `None` for another folder."""
    record = _record_of(source)
    return None if record is None else record.label


def _record_of(source: str | Path) -> GuardrailRecord | None:
    if is_guarded_folder(source):
        with suppress(ModelError):  # a damaged record is told about when it is loaded
            return read_record(Path(source))
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

    stem = "adapter" if (folder / "adapter_config.json").exists() else _stem(config)  # guards had it always before
    file = folder / f"{stem}_model.safetensors"
    layers = _check_settings(folder / f"{stem}_config.json", config, record)
    lora = LoraConfig(
        r=config.adapter.rank, lora_alpha=cast(int, config.adapter.lora_alpha), target_modules=layers, bias="none"
    )
    try:
        weights = _without_head(load_file(file), classifier, file)
        # PEFT draws the factors at random before they are read in; what the process draws next is left as it was.
        with seeded(0):
            model = wrap_with_lora(classifier, lora)
        result = set_peft_model_state_dict(model, weights)
    except ModelError:
        raise
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


def _without_head(weights: dict[str, Tensor], classifier: TextClassifier, file: Path) -> dict[str, Tensor]:
    """What a file holds beside the head, which has to be the base model's own: others than this library take it."""
    own = classifier.plain_model.state_dict()
    head = {name for name in weights if name.removeprefix(_WITHIN) in own}
    if any(not torch.equal(weights[name].float(), own[name.removeprefix(_WITHIN)].cpu().float()) for name in head):
        raise ModelError(f"'{file}' does not fit this model: its head is another one. {_ADVICE}")
    return {name: values for name, values in weights.items() if name not in head}


def _stem(config: GuardrailConfig) -> str:
    """How the names of PEFT's two files begin: so that PEFT finds no adapter that alone would answer otherwise."""
    return "per_input" if config.per_input else "adapter"


class _Settings(TypedDict):
    target_modules: Annotated[tuple[Word, ...], NotEmpty()]
    task_type: NotRequired[Literal["SEQ_CLS"] | None]


def _check_settings(file: Path, config: GuardrailConfig, record: GuardrailRecord) -> list[str]:
    """The adapted layers that PEFT is told of.

    Whoever loads the folder by PEFT alone obeys this file: to train other modules, to draw the factors in another way,
    to search layers by a pattern. What this library would not have written is refused.
    """
    values = json_content(file, error=ModelError, advice=_ADVICE)
    found = checked(values, _Settings, str(file), error=ModelError, advice=_ADVICE, open_ended=True)
    layers = list(config.adapter.target_modules or found["target_modules"])
    ours = _settings(config, record, layers, found.get("task_type"))
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


def _settings(config: GuardrailConfig, record: GuardrailRecord, layers: list[str], task: str | None) -> dict[str, Any]:
    """What `adapter_config.json` says. The strength goes in here, never into the tensors, so that 0 can be undone."""
    from peft import LoraConfig

    settings = LoraConfig(r=config.adapter.rank, bias="none").to_dict() | {
        "lora_alpha": config.adapter.lora_alpha * record.debias_strength,
        "base_model_name_or_path": record.base_model["name"],
        "revision": record.base_model["revision"],
        "inference_mode": True,
        "peft_type": "LORA",
        "target_modules": sorted(layers),
        "task_type": task,
    }
    return cast(dict[str, Any], json.loads(json.dumps(settings, default=str)))


def save_adapter(guard: AdapterGuard, config: GuardrailConfig, record: GuardrailRecord, target: Path) -> None:
    """PEFT's two files, with the head, which PEFT looks for in the adapter of a classifier."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    model = guard.adapted.model
    layers = list(model.peft_config["default"].target_modules)
    weights = get_peft_model_state_dict(model, save_embedding_layers=False)
    head = _head_for_peft(guard.base, layers, set(weights))
    save_file(
        {name: values.detach().cpu().contiguous() for name, values in {**weights, **(head or {})}.items()},
        target / f"{_stem(config)}_model.safetensors",
        metadata={"format": "pt"},
    )
    settings = _settings(config, record, layers, None if head is None else "SEQ_CLS")
    content = json.dumps(settings, indent=2, sort_keys=True)
    (target / f"{_stem(config)}_config.json").write_text(content, encoding="utf-8")


def _head_for_peft(base: TextClassifier, layers: list[str], adapted: set[str]) -> dict[str, Tensor] | None:
    """The weights that PEFT keeps with the adapter of a classifier; `None` where it would adapt other layers there."""
    from peft import LoraConfig, get_peft_model_state_dict

    with seeded(0):
        model = wrap_with_lora(base, LoraConfig(r=1, target_modules=layers, task_type="SEQ_CLS"))
    weights = get_peft_model_state_dict(model, save_embedding_layers=False)
    head = {name: values for name, values in weights.items() if ".lora_" not in name}
    return head if set(weights) - set(head) == adapted else None
