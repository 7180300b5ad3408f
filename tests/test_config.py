"""Options survive JSON, and each refuses what it cannot mean."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from shortcut_guardrail import (
    AdapterConfig,
    AuditConfig,
    CalibrationConfig,
    CertifyConfig,
    ConfigError,
    DistillConfig,
    GuardrailConfig,
    SaliencyConfig,
    ShortcutConfig,
    preset,
)
from shortcut_guardrail.config import PRESETS, check_seed

EVERYTHING_CHANGED = GuardrailConfig(
    preset="mine",
    saliency=SaliencyConfig(top_k=3, gradient="cross_entropy"),
    adapter=AdapterConfig(rank=8, target_modules=("query",), pairing="flat", min_steps=5, max_steps=9, dropout=True),
    calibration=CalibrationConfig(strengths=(0.0, 0.5), metric="balanced_accuracy", fixed_strength=0.5),
)


@pytest.mark.parametrize("config", [*PRESETS.values(), EVERYTHING_CHANGED], ids=lambda config: config.preset)
def test_a_configuration_survives_json(config):
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
    assert flat.adapter.pairing == "flat"
    assert flat.with_adapter(pairing="grouped").adapter == config.adapter


REFUSED = {
    (SaliencyConfig, "top_k"): {0: "a whole number from 1 to 512", 513: "a whole number from 1 to 512"},
    (SaliencyConfig, "gradient"): {"hinge": "one of margin, cross_entropy"},
    (AuditConfig, "unit"): {"letter": "one of token, word, phrase"},
    (AuditConfig, "fdr"): {0.0: "a number above 0 and below 1", 1: "a number above 0 and below 1"},
    (AuditConfig, "min_count"): {1: "a whole number, 2 or more"},
    (AuditConfig, "confidence"): {1.0: "a number above 0 and below 1"},
    (AuditConfig, "min_pull"): {1.0: "a number of at least 0 and below 1"},
    (AuditConfig, "min_relative_effect"): {0.4: "a number of at least 0.5 and below 1"},
    (AuditConfig, "n_examples"): {-1: "a whole number from 0 to 100"},
    (AdapterConfig, "rank"): {0: "a whole number from 1 to 256", 257: "a whole number from 1 to 256"},
    (AdapterConfig, "lora_alpha"): {0: "a number above 0"},
    (AdapterConfig, "learning_rate"): {0: "a number above 0", "1e-4": "a number above 0"},
    (AdapterConfig, "epochs"): {0: "a whole number, 1 or more", 1.5: "a whole number, 1 or more"},
    (AdapterConfig, "min_steps"): {-1: "a whole number, 0 or more", True: "a whole number, 0 or more"},
    (AdapterConfig, "batch_size"): {1: "a whole number, 2 or more", "8": "a whole number, 2 or more"},
    (AdapterConfig, "temperature"): dict.fromkeys((0, math.inf, -math.inf, math.nan, 10**400), "a number above 0"),
    (AdapterConfig, "warmup_ratio"): {1.5: "a number from 0 to 1"},
    (AdapterConfig, "weight_decay"): {-1: "a number, 0 or more"},
    (AdapterConfig, "max_grad_norm"): {-1: "a number, 0 or more"},
    (AdapterConfig, "dropout"): {"no": "true or false"},
    (AdapterConfig, "target_modules"): {"query": "a list"},
    (CalibrationConfig, "fixed_strength"): {-0.1: "a number from 0 to 1"},
    (ShortcutConfig, "named"): {"honestly": "a list"},
    (ShortcutConfig, "dominant_share"): {0: "a number above 0 and at most 1"},
    (ShortcutConfig, "influential_share"): {1.1: "a number above 0 and at most 1"},
    (ShortcutConfig, "max_considered"): {-1: "a whole number, 0 or more"},
    (ShortcutConfig, "clear_level"): {1.5: "a number from 0 to 1"},
    (DistillConfig, "temperature"): {0: "a number above 0"},
    (CertifyConfig, "margin"): {-0.1: "a number of at least 0 and below 1"},
    (CertifyConfig, "confidence"): {1.0: "a number of at least 0.5 and below 1"},
    (CertifyConfig, "looks"): {0: "a whole number, 1 or more"},
    (CertifyConfig, "harm"): {"gross": "one of net, harmed"},
    (GuardrailConfig, "preset"): {None: "a string"},
}


def test_what_a_field_cannot_be_is_said():
    for (kind, name), values in REFUSED.items():
        for value, what in values.items():
            with pytest.raises(ConfigError) as error:
                kind(**{name: value})
            assert str(error.value).startswith(f"{name} must be {what}, but is "), (kind, name, value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: preset("papr"), f"preset must be one of {', '.join(PRESETS)}, but is 'papr'."),
        (
            lambda: AdapterConfig(rank=0, scheduler="lineer"),
            "rank must be a whole number from 1 to 256, but is 0. scheduler must be one of constant, "
            'constant_with_warmup, linear, cosine, cosine_with_restarts, polynomial, inverse_sqrt, but is "lineer". '
            "Did you mean 'linear'?",
        ),
        (lambda: AdapterConfig(min_steps=9, max_steps=8), "min_steps (9) must not exceed max_steps (8)."),
        (lambda: AuditConfig(shard_size=9), "shard_size must be 0 (one piece) or at least 10, but is 9."),
        (lambda: CalibrationConfig(strengths=()), "strengths must be a list that is not empty."),
        (lambda: CalibrationConfig(strengths=(0.0, 1.4)), "strengths[1] must be a number from 0 to 1, but is 1.4."),
        (
            lambda: CalibrationConfig(strengths=(0.5, 0.1)),
            "strengths must ascend without repetition, but is [0.5, 0.1].",
        ),
        (lambda: ShortcutConfig(keep=("a", " ")), 'keep[1] must be a string that is not empty, but is " ".'),
        (
            lambda: ShortcutConfig(named=("Soup",), keep=("soup",)),
            "'soup' cannot be both a shortcut and kept. Name it once.",
        ),
        (
            lambda: GuardrailConfig.from_dict({"stategy": "maskcl", "saliency": {"topk": 3, "x": 1}}),
            "saliency.topk is no field that is known. Did you mean 'top_k'? saliency.x is no field that is known. "
            "Known are top_k, gradient. stategy is no field that is known. Did you mean 'strategy'?",
        ),
        (
            lambda: GuardrailConfig.from_dict({"adapter": {"min_steps": 9, "max_steps": 8}}),
            "adapter: min_steps (9) must not exceed max_steps (8).",
        ),
    ],
)
def test_what_is_refused(build, message):
    with pytest.raises(ConfigError) as error:
        build()
    assert str(error.value) == message
    assert isinstance(error.value, ValueError)


def test_the_bounds_themselves_are_allowed():
    SaliencyConfig(top_k=512)
    AdapterConfig(rank=256, batch_size=2, min_steps=8, max_steps=8, warmup_ratio=1.0)
    AuditConfig(min_relative_effect=0.5, min_pull=0, min_count=2, shard_size=10)
    CalibrationConfig(strengths=(1.0,))
    ShortcutConfig(dominant_share=1, influential_share=1, clear_level=0)
    CertifyConfig(margin=0, confidence=0.5)


def test_lists_become_tuples_and_whole_numbers_are_numbers():
    config = AdapterConfig(target_modules=["query", "value"], learning_rate=1, rank=np.int64(3))
    assert config == AdapterConfig(target_modules=("query", "value"), learning_rate=1.0, rank=3)
    assert hash(config) == hash(AdapterConfig(target_modules=("query", "value"), learning_rate=1.0, rank=3))


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, "0", True])
def test_a_seed_is_what_generators_take(seed):
    with pytest.raises(ConfigError, match=rf"^seed must be a whole number from 0 to {2**64 - 1}, but is "):
        check_seed(seed)
    assert check_seed(2**64 - 1) == 2**64 - 1
