"""Models and texts that the benchmarks run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from shortcut_guardrail.data.reading import read_data
from shortcut_guardrail.demo import find_minilm

from . import machine

BERT_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def random_bert(shape: dict[str, int], *, seed: int = 0, **changes: Any) -> BertForSequenceClassification:
    """A classifier of some shape with random weights, which cost as much time as trained ones."""
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=30522, num_labels=2, **{**shape, **changes})
    return BertForSequenceClassification(config).eval().to(machine.device())


def tokenizer() -> Any:
    """BERT's uncased word pieces, as they come with MiniLM."""
    return AutoTokenizer.from_pretrained(find_minilm())


def lengths(tokenizer: Any, texts: list[str], most: int = 512) -> list[int]:
    """Tokens of each text, special ones included, at most some."""
    return [min(len(ids), most) for ids in tokenizer(texts, truncation=True, max_length=most).input_ids]


def sst2(data_dir: Path) -> list[str]:
    """The 872 sentences of SST-2's development set."""
    return list(read_data(data_dir / "sst2/sst2_glue_dev.csv").texts)


def goemotions(data_dir: Path) -> list[str]:
    """The 685 texts of the reversed single-word set."""
    return list(read_data(data_dir / "goemotions_shortcuts/single-word1/test_anti-shortcut.csv").texts)


def yelp(data_dir: Path, n: int = 1000) -> list[str]:
    """Some reviews."""
    return list(read_data(next((data_dir / "yelp").glob("*test*"))).texts[:n])


def spread(texts: list[str], n: int) -> list[str]:
    """n of the texts, evenly over their lengths, in the order they came in."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    chosen = sorted(order[int(i)] for i in np.linspace(0, len(texts) - 1, n))
    return [texts[i] for i in chosen]
