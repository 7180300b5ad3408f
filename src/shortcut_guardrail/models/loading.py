"""Loads a classifier and its tokenizer from a folder or the Hub, with errors that say what is missing."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..errors import ModelError


def load_model(
    source: str | Path, *, revision: str | None = None, allow_pickle: bool = False, trust_remote_code: bool = False
) -> tuple[Any, Any]:
    """A sequence classifier and its tokenizer from a folder or the Hub, in 32-bit.

    Args:
        source: Folder or Hub id.
        revision: Branch, tag or commit on the Hub.
        allow_pickle: Also read `pytorch_model.bin`, which can run code when it is opened.
        trust_remote_code: Run modelling code that comes with the model.

    Raises:
        ModelError: Nothing usable is there; the sentence says what was looked for.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    name = str(source)
    options = {"revision": revision or "main", "trust_remote_code": trust_remote_code}
    _check_model_folder(name, allow_pickle)
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(name, **options)
            model, report = AutoModelForSequenceClassification.from_pretrained(
                name,
                dtype=torch.float32,
                use_safetensors=None if allow_pickle else True,
                output_loading_info=True,
                **options,
            )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        where = f"'{name}'" if Path(name).exists() else f"There is no folder '{name}' here,{_near_folder(name)} and it"
        raise ModelError(
            f"{where} could not be loaded as a text classifier: {_first_line(error)} Give a folder written by "
            "save_pretrained, or the id of a model on the Hub that this machine can reach."
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"'{name}' has no weights for {', '.join(missing[:3])}{' and others' if len(missing) > 3 else ''}: "
            "it is a bare encoder or another kind of model. Fine-tune it for classification first."
        )
    return model, tokenizer


def _check_model_folder(name: str, allow_pickle: bool) -> None:
    """A local folder is checked by its files, for a plainer message than Transformers can give."""
    folder = Path(name)
    if not folder.exists():
        # What can be no Hub id ("name" or "owner/name") was meant as a folder.
        if folder.is_absolute() or name.startswith((".", "~")) or len(folder.parts) > 2:
            raise ModelError(f"There is no folder '{folder}'. Give a folder written by save_pretrained, or a Hub id.")
        return
    if not folder.is_dir():
        raise ModelError(f"'{folder}' is a file; give the folder that holds the model.")
    if not (folder / "config.json").exists():
        raise ModelError(
            f"'{folder}' holds no config.json, so it is no model folder. Give a folder written by save_pretrained."
        )
    if not any(folder.glob("*.safetensors")) and not allow_pickle:
        raise ModelError(
            f"'{folder}' holds no .safetensors file. Weights in other formats can run code when they are opened; "
            "convert them, or ask for them by name with allow_pickle=True (--allow-pickle on the command line)."
        )


def _near_folder(name: str) -> str:
    """The folder that may have been meant."""
    parent = Path(name).parent
    folders = [entry.name for entry in parent.iterdir() if entry.is_dir()] if parent.is_dir() else []
    near = difflib.get_close_matches(Path(name).name, folders, n=1)
    return f" only '{parent / near[0]}'," if near else ""


def _first_line(error: Exception) -> str:
    line = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{line or type(error).__name__}."


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
