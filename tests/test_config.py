"""Options survive JSON, and each refuses what it cannot mean."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from shortcut_guardrail import AdapterConfig, AuditConfig, CalibrationConfig, ConfigError, GuardrailConfig, preset
from shortcut_guardrail.config import PRESETS, CertifyConfig, DistillConfig, SaliencyConfig, ShortcutConfig, check_seed

EVERYTHING_CHANGED = GuardrailConfig(
    preset="mine",
    saliency=SaliencyConfig(top_k=3, gradient="cross_entropy"),
    adapter=AdapterConfig(rank=8, target_modules=("query",), pairing="flat", min_steps=5, max_steps=9, dropout=True),
    calibration=CalibrationConfig(strengths=(0.0, 0.5), metric="balanced_accuracy", fixed_strength=0.5),
)


def test_a_configuration_survives_json():
    for config in (*PRESETS.values(), EVERYTHING_CHANGED):
        restored = GuardrailConfig.from_dict(json.loads(json.dumps(config.to_dict())))
        assert restored == config != restored.with_adapter(rank=16)
        assert hash(restored) == hash(config)


def test_the_paper_preset_holds_the_papers_numbers():
    config = preset("paper")
    assert (config.adapter.learning_rate, config.adapter.epochs, config.adapter.rank) == (1e-4, 1, 4)
    assert (config.adapter.min_steps, config.adapter.max_steps) == (0, 0)
    assert (config.adapter.temperature, config.saliency.top_k, config.strategy) == (0.1, 10, "maskcl")
    assert config.calibration.strengths == tuple(i / 10 for i in range(11))
    flat = preset("paper-flat")
    assert (flat.adapter.pairing, flat.with_adapter(pairing="grouped").adapter) == ("flat", config.adapter)


def test_the_levels_and_bounds_that_evidence_is_judged_by():
    audit, certify, shortcuts = AuditConfig(), CertifyConfig(), ShortcutConfig()
    assert (audit.top_k, audit.fdr, audit.min_count, audit.confidence) == (10, 0.05, 10, 0.8)
    for changed in ({"top_k": 3}, {"fdr": 0.2}, {"unit": "word"}, {"erasure": "cut"}):
        assert ShortcutConfig(**changed).audit() == replace(ShortcutConfig().audit(), **changed)
    assert AuditConfig(top_k=3).saliency() == SaliencyConfig(top_k=3)
    assert (audit.min_pull, audit.min_relative_effect, audit.compare_with) == (0.05, 0.55, "texts")
    assert (shortcuts.dominant_share, shortcuts.influential_share, shortcuts.take_influential) == (0.25, 0.02, False)
    assert (shortcuts.confirm_level, shortcuts.clear_level, shortcuts.max_considered) == (0.05, 0.25, 20)
    assert (certify.margin, certify.confidence, certify.harm, certify.looks) == (0.02, 0.95, "net", 1)
    assert shortcuts.audit() == AuditConfig(n_examples=0)
    for name, target, least in (("default", 0.08, 120), ("distill", 0.24, 80), ("few-shot", 0.08, 60)):
        adapter = PRESETS[name].adapter
        assert (adapter.target_change, adapter.min_steps, adapter.max_steps) == (target, least, 600)
        assert (adapter.scheduler, adapter.deduplicate) == ("linear", name != "few-shot")


INSIDE = "a number above 0 and below 1"
REFUSED = [
    (SaliencyConfig, "top_k", "a whole number from 1 to 512", [0, 513]),
    (SaliencyConfig, "gradient", "one of margin, cross_entropy", ["hinge"]),
    *[(AuditConfig, "unit", "one of token, word, phrase", ["letter"]), (AuditConfig, "fdr", INSIDE, [0.0, 1])],
    (AuditConfig, "min_count", "a whole number, 2 or more", [1]),
    (AuditConfig, "confidence", INSIDE, [0.0, 1.0]),
    (AuditConfig, "min_pull", "a number of at least 0 and below 1", [-0.1, 1.0]),
    (AuditConfig, "min_relative_effect", "a number of at least 0.5 and below 1", [0.4, 1.0]),
    (AuditConfig, "n_examples", "a whole number from 0 to 100", [-1, 101]),
    (AdapterConfig, "rank", "a whole number from 1 to 256", [0, 257]),
    (AdapterConfig, "lora_alpha", "a number above 0", [0]),
    (AdapterConfig, "learning_rate", "a number above 0", [0, "1e-4"]),
    (AdapterConfig, "epochs", "a whole number, 1 or more", [0, 1.5]),
    (AdapterConfig, "min_steps", "a whole number, 0 or more", [-1, True]),
    (AdapterConfig, "batch_size", "a whole number, 2 or more", [1, "8"]),
    (AdapterConfig, "temperature", "a number above 0", [0, math.inf, -math.inf, math.nan, 10**400]),
    (AdapterConfig, "warmup_ratio", "a number from 0 to 1", [1.5]),
    (AdapterConfig, "weight_decay", "a number, 0 or more", [-1]),
    (AdapterConfig, "max_grad_norm", "a number, 0 or more", [-1]),
    *[(AdapterConfig, "dropout", "true or false", ["no"]), (AdapterConfig, "target_modules", "a list", ["query"])],
    (CalibrationConfig, "fixed_strength", "a number from 0 to 1", [-0.1]),
    (ShortcutConfig, "named", "a list", ["honestly"]),
    (ShortcutConfig, "dominant_share", "a number above 0 and at most 1", [0, 1.1]),
    (ShortcutConfig, "influential_share", "a number above 0 and at most 1", [0, 1.1]),
    (ShortcutConfig, "max_considered", "a whole number, 0 or more", [-1]),
    (ShortcutConfig, "clear_level", "a number from 0 to 1", [1.5]),
    (DistillConfig, "temperature", "a number above 0", [0]),
    (CertifyConfig, "margin", "a number of at least 0 and below 1", [-0.1, 1.0]),
    (CertifyConfig, "confidence", "a number of at least 0.5 and below 1", [0.4, 1.0]),
    (CertifyConfig, "looks", "a whole number, 1 or more", [0]),
    *[(CertifyConfig, "harm", "one of net, harmed", ["gross"]), (GuardrailConfig, "preset", "a string", [None])],
]


def test_what_a_field_cannot_be_is_said():
    for kind, name, what, values in REFUSED:
        for value in values:
            with pytest.raises(ConfigError) as error:
                kind(**{name: value})
            assert str(error.value).startswith(f"{name} must be {what}, but is "), (kind, name, value)


def test_what_contradicts_or_is_misspelt_is_said_with_what_was_meant():
    read = GuardrailConfig.from_dict
    for build, message in (
        (lambda: preset("papr"), f"preset must be one of {', '.join(PRESETS)}, but is 'papr'."),
        (
            lambda: AdapterConfig(rank=0, scheduler="lineer"),
            "rank must be a whole number from 1 to 256, but is 0. scheduler must be one of constant, "
            'constant_with_warmup, linear, cosine, cosine_with_restarts, polynomial, inverse_sqrt, but is "lineer". '
            "Did you mean 'linear'?",
        ),
        (lambda: AdapterConfig(min_steps=9, max_steps=8), "min_steps (9) must not exceed max_steps (8)."),
        (lambda: read({"adapter": {"min_steps": 9, "max_steps": 8}}), "adapter: min_steps (9) must not exceed"),
        (lambda: AuditConfig(shard_size=9), "shard_size must be 0 (one piece) or at least 10, but is 9."),
        (lambda: CalibrationConfig(strengths=()), "strengths must be a list that is not empty."),
        (lambda: CalibrationConfig(strengths=(0.0, 1.4)), "strengths[1] must be a number from 0 to 1, but is 1.4."),
        (lambda: CalibrationConfig(strengths=(0.5, 0.1)), "strengths must ascend without repetition, but is [0.5, "),
        (lambda: CalibrationConfig(strengths=(0.1, 0.1)), "strengths must ascend without repetition, but is [0.1, "),
        (lambda: ShortcutConfig(keep=("a", " ")), 'keep[1] must be a string that is not empty, but is " ".'),
        (lambda: ShortcutConfig(named=("Soup",), keep=("soup",)), "'soup' cannot be both a shortcut and kept."),
        (lambda: ShortcutConfig(not_alone=("Soup",), keep=("soup",)), "'soup' is not_alone, and a shortcut or kept"),
        (lambda: ShortcutConfig(not_alone=("soup",), named=("Soup",)), "'soup' is not_alone, and a shortcut or kept"),
        (
            lambda: read({"stategy": "maskcl", "saliency": {"topk": 3, "x": 1}}),
            "saliency.topk is no field that is known. Did you mean 'top_k'? saliency.x is no field that is known. "
            "Known are top_k, gradient. stategy is no field that is known. Did you mean 'strategy'?",
        ),
    ):
        with pytest.raises(ConfigError) as error:
            build()
        assert str(error.value).startswith(message)
        assert isinstance(error.value, ValueError)


def test_the_bounds_themselves_are_allowed():
    SaliencyConfig(top_k=512)
    AdapterConfig(rank=256, batch_size=2, min_steps=8, max_steps=8, warmup_ratio=1.0)
    AdapterConfig(min_steps=8)  # without a bound of its own
    AuditConfig(min_relative_effect=0.5, min_pull=0, min_count=2, shard_size=10)
    CalibrationConfig(strengths=(1.0,))
    ShortcutConfig(dominant_share=1, influential_share=1, clear_level=0)
    CertifyConfig(margin=0, confidence=0.5)


def test_lists_become_tuples_and_whole_numbers_are_numbers():
    config = AdapterConfig(target_modules=["query", "value"], learning_rate=1, rank=np.int64(3))
    expected = AdapterConfig(target_modules=("query", "value"), learning_rate=1.0, rank=3)
    assert (config, hash(config)) == (expected, hash(expected))


def test_a_seed_is_what_generators_take():
    for seed in (-1, 2**64, 0.5, "0", True):
        with pytest.raises(ConfigError, match=rf"^seed must be a whole number from 0 to {2**64 - 1}, but is "):
            check_seed(seed)
    assert check_seed(2**64 - 1) == 2**64 - 1
