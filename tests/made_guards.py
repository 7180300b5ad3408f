"""A tiny classifier and guards of three kinds on it, as `save_pretrained` writes them."""

import itertools
import warnings
from pathlib import Path

from shortcut_guardrail import CertifyConfig, ShortcutGuardrail, preset
from tiny_models import tiny_bert

TEXTS = [
    f"{aside}the {noun} was {tone}"
    for noun, tone, aside in itertools.product(
        ("soup", "room", "staff", "coffee", "hotel"),
        ("good", "bad", "great", "awful", "slow", "cold"),
        ("", "honestly ", "to be honest "),
    )
]
GUARDS = ("few-shot", "mask-kept-certified", "distill-named-support")


def make_guards(folder: Path) -> Path:
    """Write `base` and a folder for each of `GUARDS` into a folder."""
    model, tokenizer = tiny_bert()
    model.save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    support = (TEXTS[:12], ["negative", "positive", "mixed"] * 4)
    steps = {"learning_rate": 1e-2, "target_change": 0.0, "min_steps": 12, "max_steps": 12}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few_shot, mask, distill = (ShortcutGuardrail.from_pretrained(folder / "base") for _ in GUARDS)
        config = preset("few-shot").with_adapter(**steps, epochs=3, batch_size=4)
        few_shot.fit(TEXTS, config=config, support=support, seed=3)
        few_shot.debias_strength = 0.7
        mask.fit(TEXTS, config=preset("mask").with_shortcuts(named=("honestly",), keep=("to be honest",)), seed=3)
        mask.certify(*support, unlabelled=TEXTS[30:], config=CertifyConfig(margin=0.2))
        config = preset("distill").with_shortcuts(named=("honestly", "to be honest")).with_adapter(**steps)
        distill.fit(TEXTS, config=config, support=support, seed=3)
        distill.debias_strength = 0.9
    for name, made in zip(GUARDS, (few_shot, mask, distill), strict=True):
        made.save_pretrained(folder / name)
    return folder
