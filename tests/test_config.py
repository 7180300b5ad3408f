"""Options survive JSON, and each refuses what it cannot mean."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from shortcut_guardrail import AdapterConfig, CalibrationConfig, ConfigError, GuardrailConfig, SaliencyConfig, preset
from shortcut_guardrail.config import PRESETS, check_seed, check_strength

EVERYTHING_CHANGED = GuardrailConfig(
    preset="mine",
    saliency=SaliencyConfig(top_k=3, gradient="cross_entropy"),
    adapter=AdapterConfig(rank=8, target_modules=("query",), pairing="flat", min_steps=5, max_steps=9, dropout=True),
    calibration=CalibrationConfig(strengths=(0.0, 0.5), metric="balanced_accuracy", fixed_strength=0.5),
)


@pytest.mark.parametrize("config", [*PRESETS.values(), EVERYTHING_CHANGED], ids=lambda config: config.preset)
def test_a_configuration_survives_json(config):
    restored = GuardrailConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert restored == config
    assert hash(restored) == hash(config)


def test_configurations_that_differ_are_not_equal_after_json():
    changed = EVERYTHING_CHANGED.with_adapter(rank=16)
    assert GuardrailConfig.from_dict(changed.to_dict()) != EVERYTHING_CHANGED


def test_the_paper_preset_holds_the_papers_numbers():
    config = preset("paper")
    assert (config.adapter.learning_rate, config.adapter.epochs, config.adapter.rank) == (1e-4, 1, 4)
    assert (config.adapter.min_steps, config.adapter.max_steps) == (0, 0)
    assert (config.adapter.temperature, config.saliency.top_k, config.strategy) == (0.1, 10, "maskcl")
    assert config.calibration.strengths == tuple(i / 10 for i in range(11))


def test_the_flat_preset_is_the_papers_but_for_the_pairing():
    assert preset("paper-flat").adapter.pairing == "flat"
    assert preset("paper-flat").with_adapter(pairing="grouped").adapter == preset("paper").adapter


def test_changing_a_copy_leaves_the_original_alone():
    config = preset("paper")
    assert config.with_saliency(top_k=3).saliency.top_k == 3
    assert config.with_adapter(rank=8).adapter.rank == 8
    assert (config.saliency.top_k, config.adapter.rank) == (10, 4)


def test_an_unknown_preset():
    with pytest.raises(
        ConfigError,
        match=r"^preset must be one of paper, paper-flat, default, mask, distill, few-shot, but is 'papr'\.$",
    ):
        preset("papr")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SaliencyConfig(top_k=0), "top_k must lie between 1 and 512, but is 0."),
        (lambda: SaliencyConfig(top_k=513), "top_k must lie between 1 and 512, but is 513."),
        (lambda: SaliencyConfig(gradient="hinge"), "gradient must be one of margin, cross_entropy, but is 'hinge'."),
        (lambda: AdapterConfig(rank=0), "rank must lie between 1 and 256, but is 0."),
        (lambda: AdapterConfig(rank=257), "rank must lie between 1 and 256, but is 257."),
        (lambda: AdapterConfig(lora_alpha=0), "lora_alpha must be greater than 0, but is 0."),
        (lambda: AdapterConfig(learning_rate=0), "learning_rate must be greater than 0, but is 0."),
        (lambda: AdapterConfig(learning_rate=math.nan), "learning_rate must be a finite number, but is nan."),
        (lambda: AdapterConfig(epochs=0), "epochs must be at least 1, but is 0."),
        (lambda: AdapterConfig(min_steps=-1), "min_steps must be 0 (no bound) or more, but is -1."),
        (lambda: AdapterConfig(min_steps=9, max_steps=8), "min_steps (9) must not exceed max_steps (8)."),
        (
            lambda: AdapterConfig(batch_size=1),
            "batch_size must be at least 2, but is 1: the contrastive loss of a single input is 0.",
        ),
        (lambda: AdapterConfig(temperature=0), "temperature must be greater than 0, but is 0."),
        (lambda: AdapterConfig(warmup_ratio=1.5), "warmup_ratio must lie between 0 and 1, but is 1.5."),
        (lambda: AdapterConfig(weight_decay=-1), "weight_decay must not be negative, but is -1."),
        (lambda: AdapterConfig(max_grad_norm=-1), "max_grad_norm must not be negative, but is -1."),
        (lambda: AdapterConfig(pairing="both"), "pairing must be one of grouped, flat, but is 'both'."),
        (lambda: CalibrationConfig(strengths=()), "strengths must name at least one strength, but is empty."),
        (
            lambda: CalibrationConfig(strengths=(0.5, 0.1)),
            "strengths must ascend without repetition, but is [0.5, 0.1].",
        ),
        (lambda: CalibrationConfig(strengths=(0.0, 1.4)), "debias_strength must lie between 0 and 1, but is 1.4."),
        (lambda: CalibrationConfig(fixed_strength=-0.1), "debias_strength must lie between 0 and 1, but is -0.1."),
        (
            lambda: GuardrailConfig(strategy="tent"),
            "strategy must be one of maskcl, mask, distill, few-shot, but is 'tent'.",
        ),
        (
            lambda: GuardrailConfig.from_dict({"stategy": "maskcl"}),
            "GuardrailConfig has no field 'stategy' (it has: preset, strategy, per_input, shortcuts, "
            "distill, saliency, adapter, calibration).",
        ),
        (lambda: AdapterConfig(rank="8"), "rank must be a whole number, but is '8'."),
        (lambda: AdapterConfig(batch_size=16.5), "batch_size must be a whole number, but is 16.5."),
        (lambda: AdapterConfig(epochs=True), "epochs must be a whole number, but is True."),
        (lambda: AdapterConfig(dropout="no"), "dropout must be True or False, but is 'no'."),
        (lambda: AdapterConfig(learning_rate="1e-4"), "learning_rate must be a number, but is '1e-4'."),
        (
            lambda: AdapterConfig(target_modules="query"),
            "target_modules must be a list, each entry a text, but is 'query'.",
        ),
        (
            lambda: GuardrailConfig.from_dict({"shortcuts": {"keep": "word"}}),
            "keep must be a list, each entry a text, but is 'word'.",
        ),
        (lambda: GuardrailConfig(preset=None), "preset must be a text, but is None."),
        (
            lambda: AdapterConfig(scheduler="sawtooth"),
            "scheduler must be one of constant, constant_with_warmup, linear, cosine, cosine_with_restarts, "
            "polynomial, inverse_sqrt, but is 'sawtooth'.",
        ),
        (
            lambda: GuardrailConfig.from_dict({"saliency": {"topk": 3}}),
            "SaliencyConfig has no field 'topk' (it has: top_k, gradient).",
        ),
    ],
)
def test_what_is_refused(build, message):
    with pytest.raises(ConfigError) as error:
        build()
    assert str(error.value) == message
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    "build",
    [
        lambda: SaliencyConfig(top_k=512),
        lambda: AdapterConfig(rank=256),
        lambda: AdapterConfig(batch_size=2),
        lambda: AdapterConfig(min_steps=8, max_steps=8),
        lambda: AdapterConfig(warmup_ratio=1.0),
        lambda: CalibrationConfig(strengths=(1.0,)),
    ],
)
def test_the_bounds_themselves_are_allowed(build):
    build()


def test_lists_become_tuples_and_whole_numbers_are_numbers():
    config = AdapterConfig(target_modules=["query", "value"], learning_rate=1, rank=np.int64(3))
    assert config == AdapterConfig(target_modules=("query", "value"), learning_rate=1.0, rank=3)
    assert hash(config) == hash(AdapterConfig(target_modules=("query", "value"), learning_rate=1.0, rank=3))


def test_a_strength_is_given_back():
    assert [check_strength(strength) for strength in (0, 0.3, 1)] == [0, 0.3, 1]
    with pytest.raises(ConfigError, match="but is nan"):
        check_strength(math.nan)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400])
def test_a_number_is_finite(value):
    with pytest.raises(ConfigError, match=r"^temperature must be a finite number, but is "):
        AdapterConfig(temperature=value)


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, "0", True])
def test_a_seed_is_what_generators_take(seed):
    with pytest.raises(ConfigError, match=rf"^seed must be a whole number from 0 to {2**64 - 1}, but is "):
        check_seed(seed)
    assert check_seed(2**64 - 1) == 2**64 - 1
