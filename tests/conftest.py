"""Tiny models, built rather than downloaded, and what several test modules share."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch

from tiny_models import SHORTCUT_TEXTS, build_family, planted_bag, tiny_bert

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def _few_threads():
    # Tiny matrices: more threads only get in each other's way.
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the real data in {SHARED_DATA.parent.name}/{SHARED_DATA.name} beside the checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def _bert() -> tuple[Any, Any]:
    return tiny_bert()


@pytest.fixture
def bert(_bert) -> tuple[Any, Any]:
    """A two-layer random BERT classifier with three classes, and its tokenizer; a copy for each test."""
    return copy.deepcopy(_bert[0]), _bert[1]


@pytest.fixture
def bag() -> tuple[Any, Any]:
    """A classifier whose logits are a sum over words, so that saliency is one line of algebra."""
    return planted_bag()


@pytest.fixture(scope="session")
def family():
    """Builds a tiny classifier of a model family by name."""
    return build_family


@pytest.fixture
def texts() -> list[str]:
    return list(SHORTCUT_TEXTS)
