"""Loads a model and its tokenizer from a folder or the Hub, with errors that say what is missing."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch

from ..data import Share, Within, checked, enumerated
from ..errors import ConfigError, GuardrailError, ModelError
from ..threads import compute_in_this_process
from .adapters import ADAPTER_FILE, adapter_config, attach, n_labels_of, without_adapter_files


def load_model(
    source: str | Path,
    *,
    base: str | Path | None = None,
    revision: str | None = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
) -> tuple[Any, Any]:
    """A sequence classifier and its tokenizer from a folder or the Hub, in 32-bit.

    An adapter of PEFT is put on its base, which is the whole model beside it if there is one, as for Transformers.

    Args:
        base: For an adapter: the model that it was trained on, if it is not the one that it names.
        revision: Branch, tag or commit on the Hub.
        allow_pickle: Also read `pytorch_model.bin`, which can run code when it is opened.
        trust_remote_code: Run modelling code that comes with the model.

    Raises:
        ModelError: Nothing usable is there; the sentence says what was looked for.
    """
    from transformers import AutoModelForSequenceClassification

    what = "text classifier", "a bare encoder or another kind of model. Fine-tune it for classification first"
    options: dict[str, Any] = {**place_on_hub(source, revision), "trust_remote_code": trust_remote_code}
    weights = {"dtype": torch.float32, "use_safetensors": None if allow_pickle else True}
    name = str(source)
    _check_model_folder(name, allow_pickle=allow_pickle)
    with _sentences(name, what[0]):
        config = adapter_config(name, options)
    if config is None:
        if base is not None:
            raise ConfigError(
                f"base= is for folders that fit wrote and for adapters, but '{name}' is neither. Leave it out."
            )
        return _load(AutoModelForSequenceClassification, name, what, options, weights)
    load = partial(_load, AutoModelForSequenceClassification, what=what, weights=weights)
    return _adapted(name, config, base, options, load)


def _adapted(
    name: str, config: dict[str, Any], base: str | Path | None, options: dict[str, Any], load: Callable[..., Any]
) -> tuple[Any, Any]:
    """An adapter on its base, and the tokenizer beside it, or else the base's."""
    from transformers import AutoTokenizer

    place = {key: options[key] for key in ("revision", "local_files_only")}
    with _sentences(name, "adapter"):
        from peft.utils.save_and_load import load_peft_weights

        own = load_peft_weights(name, device="cpu", **place)
    head = {"n_labels": n_labels_of(own, config), "filled": {key.removeprefix("base_model.model.") for key in own}}
    given = config.get("base_model_name_or_path") if base is None else base
    if base is None and (Path(name) / "config.json").exists():
        with without_adapter_files(name) as folder:
            model, tokenizer = load(folder, options=options, **head)
        model.name_or_path = name
    elif isinstance(given, str | Path) and str(given):
        revision = config.get("revision") if base is None else None
        model, tokenizer = load(str(given), options={**options, **place_on_hub(given, revision)}, **head)
    else:
        raise ModelError(
            f"The adapter in '{name}' does not say which model it was trained on. Name the folder or Hub id of that "
            "with base=."
        )
    with suppress(OSError, ValueError), quiet_transformers():  # it has none of its own
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
    return attach(model, name, place), tokenizer


def place_on_hub(source: str | Path, revision: str | None) -> dict[str, Any]:
    """Where a model is looked for. Without an answer from the Hub only its files on this machine are: each request for
    a file would wait for half a minute."""
    from huggingface_hub import constants, get_session

    silent = False
    if not os.path.exists(source):
        try:
            get_session().head(constants.ENDPOINT, timeout=10)
        except Exception:  # what HTTP clients of several versions raise; that it is told to be offline
            silent = True
    return {"revision": revision or "main", "local_files_only": silent}


def load_causal(source: str | Path, *, revision: str | None = None, precision: str = "bfloat16") -> tuple[Any, Any]:
    """A causal language model and its tokenizer, see `load_model`; in `bfloat16`, or in `float32`."""
    from transformers import AutoModelForCausalLM

    what = "causal language model", "no causal language model"
    options = {**place_on_hub(source, revision), "trust_remote_code": False}
    weights = {"dtype": getattr(torch, precision), "use_safetensors": True}
    return _load(AutoModelForCausalLM, str(source), what, options, weights)


def architecture_of(source: str | Path) -> str:
    """The class that a model says it is, such as "BertForSequenceClassification"; empty where it says nothing."""
    from transformers import AutoConfig

    _check_model_folder(str(source), allow_pickle=False)
    place = place_on_hub(source, None)
    with _sentences(str(source), "model"):
        if (adapter := adapter_config(str(source), place)) is not None:
            kinds = {"SEQ_CLS": "SequenceClassification", "CAUSAL_LM": "CausalLM"}
            return kinds.get(str(adapter.get("task_type")), "")
        config = AutoConfig.from_pretrained(str(source), trust_remote_code=False, **place)
    return str((config.architectures or [""])[0])


def _load(
    auto: Any,
    name: str,
    what: tuple[str, str],
    options: dict[str, Any],
    weights: dict[str, Any],
    *,
    n_labels: int | None = None,
    filled: Container[str] = (),
) -> tuple[Any, Any]:
    """A model of a kind and its tokenizer.

    Args:
        what: Names the kind, and what it is instead if weights are missing.
        n_labels: How many logits it is to have; `None` where its configuration says so.
        filled: Names of weights that an adapter brings.
    """
    from transformers import AutoConfig, AutoTokenizer

    compute_in_this_process()
    _check_model_folder(name, allow_pickle=not weights["use_safetensors"])
    with _sentences(name, what[0]):
        if adapter_config(name, options) is not None:
            raise ModelError(
                f"'{name}' holds an adapter of PEFT, which cannot be merged here. Save what its merge_and_unload() "
                "returns, with the tokenizer, and give that folder."
            )
        config = AutoConfig.from_pretrained(name, **options)
        _check_config(config, name)
        if n_labels not in (None, config.num_labels):
            config.num_labels = n_labels
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
        # Sizes that do not fit are said below, of names and weights.
        how = {"output_loading_info": True, "ignore_mismatched_sizes": True}
        model, report = auto.from_pretrained(name, config=config, **how, **weights, **options)
    _check_shapes((one for one in report["mismatched_keys"] if one[0] not in filled), model.config, name)
    if missing := sorted(key for key in report["missing_keys"] if key not in filled):
        shown = ", ".join(missing[:3]) + (" and others" if len(missing) > 3 else "")
        raise ModelError(f"'{name}' has no weights for {shown}: it is {what[1]}.")
    return model, tokenizer


@contextmanager
def _sentences(name: str, what: str) -> Iterator[None]:
    """Transformers quiet, and what it raises turned into a sentence."""
    try:
        with quiet_transformers():
            yield
    except (GuardrailError, MemoryError):
        raise
    # Anything: configurations are code's input, tokenizers raise Rust's panics, and remote code raises what it likes.
    except Exception as error:
        found = os.path.exists(name)
        where = f"'{name}'" if found else f"There is no folder '{name}' here,{_near_folder(name)} and it"
        line = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise ModelError(
            f"{where} could not be loaded as a {what}: {line}. Give a folder written by save_pretrained, or the id of "
            "a model on the Hub that this machine can reach."
        ) from error


# Layers and names of classes are made one by one before any weight is read: a billion of them would never end.
_MOST = {"num_labels": 10_000, "num_hidden_layers": 1_000, "num_attention_heads": 10_000}


def _check_config(config: Any, name: str) -> None:
    for field, most in _MOST.items():
        if (value := getattr(config, field, None)) is not None:
            checked(value, Annotated[int, Within(0, most)], f"'{name}', config.json", path=field, error=ModelError)
    for field, value in vars(config).items():
        if "dropout" in field and isinstance(value, float):  # not a number is found by PyTorch when a text is answered
            checked(value, Share, f"'{name}', config.json", path=field, error=ModelError)
    names = getattr(config, "id2label", None) or {}
    if gaps := sorted(set(range(len(names))) - set(names))[:5]:
        absent = enumerated([str(gap) for gap in gaps])
        raise ModelError(
            f"'{name}', config.json: id2label has {len(names)} classes, but none is numbered {absent}. Number them "
            "from 0 on, without gaps."
        )


def _check_shapes(wrong: Iterable[tuple[str, Sequence[int], Sequence[int]]], config: Any, name: str) -> None:
    """Weights whose shape is not the one that follows from the configuration, first those of classes."""
    for key, found, wanted in sorted(wrong, key=lambda one: (one[2][:1] != (config.num_labels,), one[0])):
        said = f"{key} has the shape {tuple(found)}, but {tuple(wanted)} follows from it. Save the model again."
        if wanted[0] == config.num_labels != found[0] and found[1:] == wanted[1:]:
            names = enumerated([str(one) for one in config.id2label.values()])
            said = (
                f"id2label names {wanted[0]} class{'es' if wanted[0] > 1 else ''} ({names}), but the weights have "
                f"{found[0]}. Name each class of the weights once, from 0 on."
            )
        raise ModelError(f"'{name}', config.json: {said}")


def _check_model_folder(name: str, allow_pickle: bool) -> None:
    """A local folder is checked by its files, for a plainer message than Transformers can give."""
    folder = Path(name)
    if not os.path.exists(name):
        # What can be no Hub id ("name" or "owner/name") was meant as a folder.
        if folder.is_absolute() or name.startswith((".", "~")) or len(folder.parts) > 2:
            raise ModelError(f"There is no folder '{folder}'. Give a folder written by save_pretrained, or a Hub id.")
        return
    if not folder.is_dir():
        raise ModelError(f"'{folder}' is a file; give the folder that holds the model.")
    if not any((folder / file).exists() for file in ("config.json", ADAPTER_FILE)):
        raise ModelError(
            f"'{folder}' holds no config.json, so it is no model folder. Give a folder written by save_pretrained."
        )
    for file in folder.glob("*.safetensors"):  # of which safetensors says that it is not there
        if not os.access(file, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
            raise ModelError(f"'{file}' cannot be read (Permission denied). Ask its owner, or copy the model.")
    if not any(folder.glob("*.safetensors")) and not allow_pickle:
        raise ModelError(
            f"'{folder}' holds no .safetensors file. Weights in other formats can run code when they are opened; "
            "convert them, or ask for them by name with allow_pickle=True."
        )


def _near_folder(name: str) -> str:
    """The folder that may have been meant."""
    parent = Path(name).parent
    folders = [entry.name for entry in parent.iterdir() if entry.is_dir()] if os.path.isdir(parent) else []
    near = difflib.get_close_matches(Path(name).name, folders, n=1)
    return f" only '{parent / near[0]}'," if near else ""


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Transformers' loading bars and reports off within the block, and as they were after it."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer as it is now.

    Transformers forgets `split_special_tokens` where it was set on a tokenizer that is there, and whoever loads the
    folder would read other tokens.
    """
    tokenizer.init_kwargs["split_special_tokens"] = tokenizer.split_special_tokens
    tokenizer.save_pretrained(folder)
