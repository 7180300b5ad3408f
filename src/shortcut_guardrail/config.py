"""The options of audit, adapter and calibration, their defaults and where each default comes from.

The paper leaves several choices open; each is a field here. The presets at the end are complete configurations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Annotated, Any, Literal, cast

from .data import NotEmpty, Within, Word, check_fields, checked
from .errors import ConfigError

Embedding = Literal["auto", "cls", "mean"]
Metric = Literal["accuracy", "balanced_accuracy"]
Unit = Literal["token", "word", "phrase"]
AskedErasure = Literal["auto", "mask", "cut", "replace"]
StrategyName = Literal["maskcl", "mask", "distill", "few-shot"]

_Positive = Annotated[float, Within(above=0)]
_NotNegative = Annotated[float, Within(0)]
_Fraction = Annotated[float, Within(0, 1)]
_Steps = Annotated[int, Within(0)]


MOST_OF_A_SEED = 2**64 - 1
"""What PyTorch's generators take."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


@dataclass(frozen=True)
class SaliencyConfig:
    """Which tokens of an input are called important (paper Section 3.2).

    Attributes:
        top_k: Important tokens per input (the paper's k, 10). An input with fewer ordinary tokens has fewer.
        gradient: `margin` differentiates the logit margin, which ranks exactly like the paper's cross-entropy and does
            not vanish for confident predictions; `cross_entropy` is the formula as printed, for comparison only.
    """

    top_k: Annotated[int, Within(1, 512)] = 10
    gradient: Literal["margin", "cross_entropy"] = "margin"

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class AuditConfig:
    """What an audit scores and masks, and when it flags a candidate (docs/explanation/audit.md).

    Attributes:
        unit: `phrase` scores and masks whole words, and looks for words that act together; `word` looks for none;
            `token` is the paper's single token.
        top_k: Important units per text (the paper's k, 10).
        fdr: Expected share of false alarms among the flagged candidates (false-discovery rate) that is allowed.
        min_count: Distinct texts a candidate has to occur in to be tested; fewer can hardly be evidence.
        confidence: The probability from which a prediction counts as confident.
        min_pull: A candidate is only flagged if masking it changes the prediction in more than this share of its texts.
        min_relative_effect: Take a text with a candidate and one without: the share of such pairs in which the rest of
            the first supports its class less. A candidate is only flagged above this share; chance gives a half.
        compare_with: What the rest of a candidate's texts is compared with: `texts` without the candidate as they are,
            or their `rests`, without their most decisive unit too. `rests` also clears legitimate words that are the
            only evidence in their texts, and needs many more texts to find a shortcut.
        erasure: How a word is erased: by the `mask` token, `cut` out, or with another token of its text in its place
            (`replace`). `auto` takes the mask unless another changes clearly fewer predictions where none should
            change, which is measured (see `audit.Erasures`), and always for the unit `token`. A model without a mask
            token always uses `cut`.
        budget: The most predictions that an audit may need of a classifier without gradients; 0 for any number.
        n_examples: Texts kept as examples of each of the first candidates.
        shard_size: Texts per shard; memory grows with it. 0 audits everything in one piece and keeps every input.
    """

    unit: Unit = "phrase"
    top_k: Annotated[int, Within(1, 512)] = 10
    fdr: Annotated[float, Within(above=0, below=1)] = 0.05
    min_count: Annotated[int, Within(2)] = 10
    confidence: Annotated[float, Within(above=0, below=1)] = 0.8
    min_pull: Annotated[float, Within(0, below=1)] = 0.05
    min_relative_effect: Annotated[float, Within(0.5, below=1)] = 0.55
    compare_with: Literal["texts", "rests"] = "texts"
    erasure: AskedErasure = "auto"
    budget: Annotated[int, Within(0)] = 0
    n_examples: Annotated[int, Within(0, 100)] = 3
    shard_size: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        _require(
            self.shard_size == 0 or self.shard_size >= 10,
            f"shard_size must be 0 (one piece) or at least 10, but is {self.shard_size}.",
        )

    def saliency(self) -> SaliencyConfig:
        """The same choice of important units, for the functions that find them."""
        return SaliencyConfig(top_k=self.top_k)


Schedule = Literal[
    "constant", "constant_with_warmup", "linear", "cosine", "cosine_with_restarts", "polynomial", "inverse_sqrt"
]


@dataclass(frozen=True)
class AdapterConfig:
    """How the LoRA adapter is built and trained (paper Section 3.3 and its implementation appendix).

    Attributes:
        rank: LoRA rank r. The paper uses 4, and 8 for the Yelp sets.
        lora_alpha: LoRA scaling numerator; the paper names none, PEFT's default of 8 is taken for its runs.
        target_modules: Names of the adapted linear layers; `None` means query and value of the model's family.
        learning_rate: Peak rate of the optimiser, AdamW (paper: 1e-4).
        target_change: If above 0, the learning rate is the one at which the run's predicted relative weight change
            (see `mitigation.lora.predicted_change`) is this.
        epochs: Passes over the deployment texts (paper: 1).
        min_steps: Least number of optimiser steps; epochs are added until it is reached. 0 leaves `epochs` alone.
        max_steps: Most optimiser steps; training stops there even within an epoch. 0 sets no bound.
        batch_size: Inputs B per batch; each brings its k masked variants. The paper does not say; 16 here. At least 2,
            since the loss of a single input is 0.
        temperature: tau of the contrastive loss (paper: 0.1).
        scheduler: One of Transformers' schedules that need no option of their own. The paper does not say.
        warmup_ratio: Share of the steps spent warming up, for schedules that do.
        weight_decay: Decay of the LoRA weights. The paper does not say; 0 here.
        max_grad_norm: Gradient clipping norm; 0 turns clipping off.
        dropout: Train with the model's own dropout switched on. The paper does not say; off here, so that anchor and
            positive differ in the mask alone.
        embedding: `cls` (position 0 of the last hidden state, before any pooler) or `mean` over tokens; `auto` takes
            `mean` for models whose head pools by mean and `cls` for all others.
        pairing: `grouped` is the paper's equations: B anchors, k slots, same-slot negatives. `flat` samples batches of
            B anchor-positive pairs, so that pairs of one anchor are negatives of each other, which the paper's counts
            of pairs and its timing suggest.
        deduplicate: Train on each distinct text once. Equal texts in one batch are false negatives of each other.
        sequences_per_pass: Most sequences (inputs and variants) whose activations are held at once; the gradient stays
            the same, for one more forward pass. 0 holds those of a whole batch.
    """

    rank: Annotated[int, Within(1, 256)] = 4
    lora_alpha: _Positive = 8.0
    target_modules: Annotated[tuple[str, ...], NotEmpty()] | None = None
    learning_rate: _Positive = 1e-4
    target_change: _Fraction = 0.0
    epochs: Annotated[int, Within(1)] = 1
    min_steps: _Steps = 0
    max_steps: _Steps = 0
    batch_size: Annotated[int, Within(2)] = 16
    temperature: _Positive = 0.1
    scheduler: Schedule = "constant"
    warmup_ratio: _Fraction = 0.0
    weight_decay: _NotNegative = 0.0
    max_grad_norm: _NotNegative = 0.0
    dropout: bool = False
    embedding: Embedding = "auto"
    pairing: Literal["grouped", "flat"] = "grouped"
    deduplicate: bool = True
    sequences_per_pass: _Steps = 0

    def __post_init__(self) -> None:
        check_fields(self)
        _require(
            not self.max_steps or self.min_steps <= self.max_steps,
            f"min_steps ({self.min_steps}) must not exceed max_steps ({self.max_steps}).",
        )


@dataclass(frozen=True)
class CalibrationConfig:
    """How the debiasing strength is chosen (paper Section 3.4).

    Attributes:
        strengths: The grid of strengths (the paper's alpha), each in [0, 1], ascending.
        metric: What the support set is scored by. The paper does not say; plain accuracy here.
        fixed_strength: The strength used when there is no support set: 1, the paper's uncalibrated baseline.
    """

    strengths: Annotated[tuple[_Fraction, ...], NotEmpty()] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    metric: Metric = "accuracy"
    fixed_strength: _Fraction = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        _require(
            list(self.strengths) == sorted(set(self.strengths)),
            f"strengths must ascend without repetition, but is {list(self.strengths)}.",
        )


@dataclass(frozen=True)
class ShortcutConfig:
    """Which words and phrases are treated as shortcuts, by the strategies that need words.

    See docs/explanation/strategies.md.

    Attributes:
        named: Words and phrases that a person says are shortcuts, whatever the evidence.
        keep: Words and phrases that are not, whatever the evidence.
        not_alone: Words and phrases that may count together with the rest of a text, and must not decide alone
            (`distill`).
        unit: What the audit behind the choice masks; `phrase` finds phrases and words.
        top_k: Important units per text in that audit.
        fdr: The false-discovery rate of that audit's flagged candidates.
        erasure: How that audit erases words; see `AuditConfig`.
        dominant_share: Candidates that are not flagged are taken if those that push towards one class decide more than
            this share of all texts, although the rest is confidently predicted to be another class. 1 turns this off.
        influential_share: Words and phrases whose masking changes at least this share of all predictions are listed for
            a person to look at. 1 lists none.
        take_influential: Treat them as shortcuts as well; with a support set only those whose masking fixes more
            labelled predictions than it breaks. Without labels that includes legitimate words.
        max_considered: How many candidates of its ranking a support set may confirm or clear.
        confirm_level: A candidate that is not flagged is confirmed if masking it fixes more predictions of the support
            set than it breaks, and raises the right class's probability, tested at this level: a one-sided sign-flip
            test with Holm's correction, weighted by the unlabelled predictions that change with it.
        clear_level: A flagged one is cleared if masking it breaks predictions, tested at this level by an exact
            one-sided McNemar test without correction.
    """

    named: tuple[Word, ...] = ()
    keep: tuple[Word, ...] = ()
    not_alone: tuple[Word, ...] = ()
    unit: Literal["word", "phrase"] = "phrase"
    top_k: Annotated[int, Within(1, 512)] = 10
    fdr: Annotated[float, Within(above=0, below=1)] = 0.05
    erasure: AskedErasure = "auto"
    dominant_share: Annotated[float, Within(above=0, high=1)] = 0.25
    influential_share: Annotated[float, Within(above=0, high=1)] = 0.02
    take_influential: bool = False
    max_considered: Annotated[int, Within(0)] = 20
    confirm_level: _Fraction = 0.05
    clear_level: _Fraction = 0.25

    def __post_init__(self) -> None:
        check_fields(self)
        said = [{word.casefold() for word in words} for words in (self.named, self.keep, self.not_alone)]
        both = sorted(said[0] & said[1])
        _require(not both, f"{', '.join(map(repr, both))} cannot be both a shortcut and kept. Name it once.")
        both = sorted(said[2] & (said[0] | said[1]))
        _require(not both, f"{', '.join(map(repr, both))} is not_alone, and a shortcut or kept too. Name it once.")

    def audit(self) -> AuditConfig:
        """The audit whose flagged candidates are treated as shortcuts."""
        return AuditConfig(unit=self.unit, top_k=self.top_k, fdr=self.fdr, erasure=self.erasure, n_examples=0)


@dataclass(frozen=True)
class DistillConfig:
    """Counterfactual distillation: how the target predictions are compared (docs/explanation/strategies.md).

    Attributes:
        temperature: Of the softmax on both sides of the loss.
    """

    temperature: _Positive = 2.0

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class CertifyConfig:
    """What `certify` has to show about a strength (docs/explanation/strategies.md).

    Attributes:
        margin: The largest loss against the original model that is allowed, as a share of all texts.
        confidence: The probability that the statement holds, over the choice of strength as well.
        harm: `net` bounds the accuracy lost, predictions lost minus predictions gained; `harmed` bounds the share of
            texts that the original model predicts rightly and the repaired model wrongly, whatever is gained elsewhere.
        looks: How many certificates are planned, this one included. Each gets an equal share of the error (Bonferroni).
    """

    margin: Annotated[float, Within(0, below=1)] = 0.02
    confidence: Annotated[float, Within(0.5, below=1)] = 0.95
    harm: Literal["net", "harmed"] = "net"
    looks: Annotated[int, Within(1)] = 1

    def __post_init__(self) -> None:
        check_fields(self)


def check_seed(seed: int, most: int = MOST_OF_A_SEED) -> int:
    """The seed itself; a `ConfigError` unless it is a whole number in [0, most], which generators take."""
    seed = int(seed) if isinstance(seed, Integral) and not isinstance(seed, bool) else seed
    return cast(int, checked(seed, Annotated[int, Within(0, most)], "", path="seed", error=ConfigError))


def check_strength(strength: float) -> float:
    """The strength itself; a `ConfigError` unless it lies in [0, 1]."""
    return cast(float, checked(strength, _Fraction, "", path="debias_strength", error=ConfigError))


@dataclass(frozen=True)
class GuardrailConfig:
    """Everything that decides what `fit` does, apart from the model, the texts and the seed.

    Attributes:
        preset: The name of the preset this started from.
        strategy: How reliance on shortcuts is removed: `maskcl` is the paper's masked contrastive learning, `mask`
            masks known shortcuts at prediction, `distill` trains the adapter to predict as if they were not there,
            `few-shot` trains it on labelled texts.
        per_input: Texts without a known shortcut keep the original model's prediction. `mask` does so in any case.
        shortcuts: Which words and phrases are treated as shortcuts, for `mask`, `distill` and `per_input`.
        distill: The settings of `distill`.
        saliency: Which tokens are important, for `maskcl`.
        adapter: How the adapter is trained.
        calibration: How its strength is chosen.
    """

    preset: str = "default"
    strategy: StrategyName = "maskcl"
    per_input: bool = False
    shortcuts: ShortcutConfig = field(default_factory=ShortcutConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    saliency: SaliencyConfig = field(default_factory=SaliencyConfig)
    adapter: AdapterConfig = field(default_factory=AdapterConfig)
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)

    def __post_init__(self) -> None:
        check_fields(self)
        _require(
            self.strategy != "few-shot" or not self.per_input,
            "per_input is for strategies that look for shortcuts, and few-shot looks for none. Leave it out.",
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary that `from_dict` turns back into an equal configuration."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GuardrailConfig:
        """The configuration that `to_dict` wrote; a `ConfigError` where a field is unknown or out of range."""
        return cast(GuardrailConfig, checked(values, cls, "", error=ConfigError))

    def with_shortcuts(self, **changes: Any) -> GuardrailConfig:
        """A copy with some fields of the configuration of shortcuts replaced."""
        return replace(self, shortcuts=replace(self.shortcuts, **changes))

    def with_adapter(self, **changes: Any) -> GuardrailConfig:
        """A copy with some fields of the adapter configuration replaced."""
        return replace(self, adapter=replace(self.adapter, **changes))


def updated(config: GuardrailConfig, changes: Mapping[str, Any]) -> GuardrailConfig:
    """A copy with some fields replaced, those of parts nested; a `ConfigError` if one is unknown or out of range.

    A setting that is named is not overruled by the preset's rules: `adapter.epochs` drops its bounds of the steps, and
    `adapter.learning_rate` is not fitted to a change of the weights, unless these are named too.

    Example:
        >>> updated(PRESETS["paper"], {"adapter": {"rank": 4}}).adapter.rank
        4
    """
    adapter = changes.get("adapter")
    if isinstance(adapter, Mapping):
        rules = {name: value for asked in adapter for name, value in freed(asked).items()}
        changes = {**changes, "adapter": {**rules, **adapter}}
    return GuardrailConfig.from_dict(_merged(config.to_dict(), changes))


def freed(setting: str) -> dict[str, float]:
    """Settings of the adapter that would overrule one that is asked for by name, with the values that do not."""
    if setting == "epochs":
        return {"min_steps": 0, "max_steps": 0}
    return {"target_change": 0.0} if setting == "learning_rate" else {}


def _merged(values: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others in their place, those of a part one by one."""
    merged = {**values, **changes}
    for name in values.keys() & changes.keys():
        if isinstance(values[name], dict) and isinstance(changes[name], Mapping):
            merged[name] = _merged(values[name], changes[name])
    return merged


PRESETS: dict[str, GuardrailConfig] = {
    "paper": GuardrailConfig(preset="paper"),
    "paper-flat": GuardrailConfig(preset="paper-flat", adapter=AdapterConfig(pairing="flat")),
    # Measured on rows that no result is reported on; see docs/research/defaults.md.
    "default": GuardrailConfig(
        preset="default",
        adapter=AdapterConfig(target_change=0.08, min_steps=120, max_steps=600, scheduler="linear"),
    ),
    "mask": GuardrailConfig(preset="mask", strategy="mask"),
    "distill": GuardrailConfig(
        preset="distill",
        strategy="distill",
        # Chosen on one seed of the data it is scored on; docs/explanation/strategies.md says by what to judge it.
        adapter=AdapterConfig(target_change=0.24, min_steps=80, max_steps=600, scheduler="linear"),
    ),
    "few-shot": GuardrailConfig(
        preset="few-shot",
        strategy="few-shot",
        # Epochs and warm-up are those that Mosbach et al. (ICLR 2021) recommend for fine-tuning on small sets, the
        # weight change is that of `default`; the bounds of the steps are ours. None was tuned for this.
        adapter=AdapterConfig(
            target_change=0.08,
            epochs=20,
            min_steps=60,
            max_steps=600,
            scheduler="linear",
            warmup_ratio=0.1,
            deduplicate=False,
        ),
    ),
}


def preset(name: str) -> GuardrailConfig:
    """The configuration called `paper`, `paper-flat`, `default`, `mask`, `distill` or `few-shot`."""
    _require(name in PRESETS, f"preset must be one of {', '.join(PRESETS)}, but is {name!r}.")
    return PRESETS[name]
