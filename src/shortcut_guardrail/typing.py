"""Types that every room uses: arrays, texts, a callback for progress, how logits are read."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

Head = Literal["softmax", "sigmoid"]
Text = str | tuple[str, str]
"""A text, or a pair of texts."""
Erasure = Literal["mask", "cut", "replace"]
"""How a word is taken out: see `text.erased_texts`."""
Progress = Callable[[str, int, int], None]
"""Called with the name of a stage, the work done and the whole work; see `cli.running` for one that draws a bar."""

Array = np.ndarray[Any, np.dtype[Any]]

Capability = Literal["gradients", "masks", "adapts"]
"""What some classifiers can do beside answering; see `classifiers.require`."""
