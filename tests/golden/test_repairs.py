"""Whole outputs of repairs of tiny models: what each strategy does, chooses, changes, scores, certifies and writes."""

import pytest

from made_answers import bag
from made_guards import TEXTS
from shortcut_guardrail import CertifyConfig, ShortcutGuardrail
from tiny_models import build_family, tiny_bert
from whole_outputs import called, compare, printed, written

NAMES = ("negative", "positive", "mixed")
STEPS = {"learning_rate": 2e-2, "target_change": 0.0, "min_steps": 0, "max_steps": 6, "batch_size": 6}
MORE = {**STEPS, "epochs": 6, "max_steps": 24, "batch_size": 8}
FLAT = {**STEPS, "pairing": "flat", "embedding": "mean", "sequences_per_pass": 5}
WORDS = {"named": ("honestly", "to be honest"), "keep": ("soup",)}
HOW = {
    "maskcl": ("maskcl", {"adapter": {**STEPS, "scheduler": "cosine", "warmup_ratio": 0.3, "max_grad_norm": 0.5}}),
    "flat": ("maskcl", {"shortcuts": WORDS, "adapter": FLAT}),
    "distill": ("distill", {"shortcuts": WORDS, "adapter": {**STEPS, "target_change": 0.3, "weight_decay": 0.1}}),
    "input": ("distill", {"shortcuts": WORDS, "adapter": STEPS, "per_input": True}),
    "alone": ("distill", {"shortcuts": {"named": ("slow",), "not_alone": ("honestly",)}, "adapter": MORE}),
    "deberta": ("distill", {"shortcuts": WORDS, "adapter": {**STEPS, "max_steps": 3}, "per_input": True}),
    "few": ("few-shot", {"adapter": {**STEPS, "deduplicate": True, "max_steps": 4}}),
    "mask": ("mask", {"shortcuts": {**WORDS, "keep": ("honestly the soup",)}}),
    "cut": ("mask", {"shortcuts": WORDS}),
}


@pytest.mark.filterwarnings("ignore::shortcut_guardrail.errors.GuardrailWarning")
@pytest.mark.parametrize("name", HOW)
def test_repairs(name, tmp_path):
    strategy, config = HOW[name]
    n = 2 if name == "cut" else 3
    if name == "cut":
        guard = ShortcutGuardrail.around(bag({"honestly": 4.0, "good": 2.0, "bad": -1.0, "slow": -2}), NAMES[:2])
    else:
        model = build_family("deberta-v3", n_classes=3, seed=1) if name == "deberta" else tiny_bert(seed=2)
        guard = ShortcutGuardrail(*model, label_names=NAMES, max_length=24)
    texts, rest = TEXTS[:48:2] + TEXTS[:2] * 2, TEXTS[40:80]
    labels = [NAMES[(i * i + i // 5) % n] for i in range(len(TEXTS))]
    taught = (TEXTS[50:64], labels[50:64])
    config = {**config, "calibration": {"strengths": (0.0, 0.25, 0.5, 0.75, 1.0)}}
    said = called(guard.repair, texts, taught, strategy=strategy, config=config, seed=3)
    lines = [*said, *printed(repr(guard._summary())), *called(guard.predict_proba, texts[:6])]
    lines += called(guard.predict_proba, TEXTS[:4], strength=[0, 0.5, 1, 0.5])
    for like in (None, guard.evaluate(rest, labels[40:80], sensitivity="none", strength=0)):
        how = {"shortcuts": ["honestly", "tea"], "like": like, "sensitivity": 6, "top_k": 3}
        lines += called(guard.evaluate, rest, labels[40:80], **how)
    lines += [*called(guard.calibrate, rest[:20], labels[40:60]), repr(guard)]
    lines += called(guard.certify, rest, labels[40:80], unlabelled=TEXTS, config=CertifyConfig(margin=0.3))
    lines += called(guard.save_pretrained, tmp_path / "one", text_hashes=name == "mask")
    lines += called(guard.calibrate_without_labels, texts, at_most=20)
    lines += called(guard.calibrate, rest[:20], labels[40:60], without_labels=guard._fitted.unlabelled)
    lines += [*called(guard.to_label, TEXTS, 9, seed=1), *called(guard.to_label, TEXTS[:3] * 2, 3)]
    lines += called(guard.certify, [], [], unlabelled=rest, config=CertifyConfig(margin=0.2, harm="harmed"))
    lines += called(guard.certify, taught[0], taught[1], unlabelled=[*texts, *taught[0]])
    lines += [*called(guard.evaluate, TEXTS[50:60], labels[50:60], sensitivity="all", strength=0.5), repr(guard)]
    guard.save_pretrained(tmp_path / "two")
    base = guard._base.inner if name == "cut" else guard._base.model
    again = ShortcutGuardrail.from_pretrained(tmp_path / "two", base=base)
    lines += [repr(again), *called(again.predict_proba, texts[:5])]
    lines += called(guard.export, tmp_path / "three", texts=texts)
    left = {f"{place}/{file}.json" for place in ("one", "two", "three") for file in ("tokenizer", "tokenizer_config")}
    compare(f"repair_{name}", [*lines, *written(tmp_path, but=left)])
