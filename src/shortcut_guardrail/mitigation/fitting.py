"""Fitting a guard: shortcuts are found, and a strategy is put to work on them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from ..audit import check_ordinary
from ..classifiers import require
from ..config import GuardrailConfig
from ..data import Texts, check_texts, counted, text_hash, text_number
from ..display import Shown, Summary, some
from ..models import EncodedTexts, Reader, TextClassifier, warn_of_controls
from ..shortcuts import Shortcuts, find_shortcuts, with_said
from ..strength import Calibration, StrengthChoice, UnlabelledCalibration
from ..text import warn_of_absent
from ..typing import Array, Progress
from .guards import AdapterGuard, Guard
from .strategies import Strategy, Task, strategy_of, uses_shortcuts
from .training import AdapterTraining
from .validation import check_keeps_labels, check_same_length, check_taught, warn_about_unused, warn_without_shortcuts

Support = tuple[Texts, Sequence[str | int]]
"""A few labelled texts and their labels, all names or all class ids."""

LabelledRows = tuple[EncodedTexts, Array]
"""The same as a model takes them: n encoded texts and their class ids, shape (n,)."""


@dataclass(frozen=True, repr=False)
class FitReport(Shown):
    """What `fit` did.

    Attributes:
        training: The adapter's training; one of no steps if nothing was trained.
        seconds: Wall-clock time by stage: `tokenise` (nearly none if texts were encoded before), `target` (the search
            for shortcuts), `attribute` or `teacher` (the input of training), `cross-validate`, `adapt`.
        shortcuts: The words that were considered; none for plain `maskcl` and `few-shot`.
        calibration: How `few-shot` chose the strength, on predictions of adapters that were not trained on the text;
            `None` for others, whose strength is chosen after fitting.
    """

    training: AdapterTraining
    config: GuardrailConfig
    seed: int
    n_truncated: int
    seconds: dict[str, float]
    shortcuts: Shortcuts = field(default_factory=Shortcuts)
    calibration: Calibration | None = None

    def _summary(self) -> Summary:
        training, fixed = self.training, self.config.calibration.fixed_strength
        facts = {"trained": "nothing"}
        if training.n_steps:
            facts = {
                "trained": f"{counted(training.n_steps, 'step')} on {training.n_trained:,} of {training.n_texts:,} "
                f"texts, {training.seconds:.1f} s",
                "loss": f"{training.losses[0]:.3f} to {training.losses[-1]:.3f}; weights changed by "
                f"{training.relative_change:.2%}",
            }
        if self.n_truncated:
            facts["cut"] = f"{counted(self.n_truncated, 'text')}, longer than the model takes"
        if self.shortcuts.items:
            facts["shortcuts"] = some(self.shortcuts.words)
        chosen = self.calibration
        facts["strength"] = f"{fixed:g} until another is chosen" if chosen is None else f"{chosen.strength:g}, chosen"
        return Summary(f"FitReport: {self.config.strategy}, seed {self.seed}", facts)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        return {**asdict(self), "training": self.training.to_dict(), "shortcuts": self.shortcuts.to_dict()}


@dataclass(frozen=True, eq=False)
class Fitted:
    """A guard's inner side and where it came from; replaced as a whole by the next fit.

    Attributes:
        guard: The base model at any strength.
        seconds: Wall-clock time by stage; the choice of the strength adds to it.
        texts: `data.text_number` of the texts it was fitted on, as far as they are known.
        text_hashes: Whether they are; not in a guard that was saved without hashes of texts.
        unlabelled: What the last choice of the strength without labels was.
        label: Of a head with several labels the one that it was fitted for.
    """

    guard: Guard
    config: GuardrailConfig
    seed: int
    training: AdapterTraining
    seconds: dict[str, float]
    shortcuts: Shortcuts
    texts: frozenset[int] = frozenset()
    text_hashes: bool = True
    unlabelled: UnlabelledCalibration | None = None
    label: str | None = None

    @property
    def strategy(self) -> Strategy:
        """How reliance on shortcuts is removed."""
        return strategy_of(self.config)

    def around(self, base: TextClassifier) -> Fitted:
        """The same guard around the same model that is asked about another label."""
        model = self.guard.adapted.model if isinstance(self.guard, AdapterGuard) else None
        return replace(self, guard=self.strategy.guard(base, self.config, self.shortcuts.finder, model))


def check_able(base: Any, strategy: Strategy) -> None:
    """Refuse a base model that cannot do what a strategy needs, with one that does without."""
    for needed in strategy.needs:
        other = "mask" if needed == "adapts" else "distill"
        does = "cuts shortcuts out in front of any classifier" if needed == "adapts" else "does without"
        instead = f"strategy='{other}' (--strategy {other}) {does}. "
        require(base, needed, f"the strategy '{strategy.name}'", otherwise=instead)


def fit_guard(
    base: Reader,
    texts: Texts | EncodedTexts,
    config: GuardrailConfig,
    *,
    seed: int,
    support: LabelledRows | None = None,
    shortcuts: Shortcuts | None = None,
    asked: Reader | None = None,
    progress: Progress | None = None,
) -> tuple[Fitted, FitReport, StrengthChoice]:
    """Fit a guard, with the strength that is fixed or that the strategy chose. See `ShortcutGuardrail.fit`."""
    seconds: dict[str, float] = {}
    started = time.perf_counter()

    def lap(stage: str) -> None:
        seconds[stage] = time.perf_counter() - started - sum(seconds.values())

    strategy = strategy_of(config)
    check_able(base, strategy)
    learns = strategy.learns_from_labels
    warn_about_unused(config, support=support is not None, shortcuts=shortcuts is not None)
    check_keeps_labels(config, base.heads.label)
    if learns:
        check_taught(None if support is None else support[1])
    encoded = texts if isinstance(texts, EncodedTexts) else base.encode(check_texts(texts), progress=progress)
    check_ordinary(encoded)
    warn_of_controls(encoded)
    lap("tokenise")
    if not uses_shortcuts(config):
        shortcuts = Shortcuts()
    else:
        if shortcuts is None:
            shortcuts = find_shortcuts(base, encoded, config.shortcuts, support=support, progress=progress)
        else:
            shortcuts = with_said(shortcuts, config.shortcuts)
        warn_of_absent(shortcuts.said, encoded)
        warn_without_shortcuts(shortcuts)
        lap("target")
    learned_from = support[0] if support is not None and learns else encoded
    if learns:
        shortcuts = replace(shortcuts, rows=hashes(learned_from))
    task = Task(cast(Any, base), encoded, shortcuts, config, seed, support, asked, lap=lap, progress=progress)
    model, training, chosen = strategy.train(task)
    lap("adapt")
    fitted = Fitted(
        guard=strategy.guard(base, config, shortcuts.finder, model),
        config=config,
        seed=seed,
        training=training,
        seconds=dict(seconds),  # the report stays as it was given
        shortcuts=shortcuts,
        texts=frozenset(map(text_number, learned_from.texts)),
        label=base.heads.label,
    )
    report = FitReport(training, config, seed, int(learned_from.truncated.sum()), seconds, shortcuts, chosen)
    choice = StrengthChoice(config.calibration.fixed_strength, "fixed")
    if chosen is not None:
        choice = StrengthChoice(chosen.strength, "cross-validated", calibration=chosen, rows=shortcuts.rows)
    return fitted, report, choice


def encode_support(base: Reader, support: Support | None) -> LabelledRows | None:
    """The labelled texts as the model takes them, and their class ids, shape (n,)."""
    if support is None:
        return None
    encoded = base.encode(check_texts(support[0]))
    labels = base.label_ids(support[1])
    check_same_length(encoded, labels)
    return encoded, labels


def hashes(encoded: EncodedTexts) -> tuple[str, ...]:
    """`data.text_hash` of the texts, each once."""
    return tuple(sorted({text_hash(text) for text in encoded.texts}))
