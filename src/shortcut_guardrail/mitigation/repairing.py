"""What a repair is: the strategy that the evidence supports, its configuration, and how its strength is chosen.

`auto` takes, in this order: words that somebody named, or that the audit found, for `distill`; labelled rows alone for
`few-shot`, if cross-validation on them prefers it to the base. Where none of these speaks for a repair there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

from ..audit import AuditReport, model_digest, texts_fingerprint
from ..config import GuardrailConfig, check_strength, preset, updated
from ..data import enumerated
from ..decisions import Decisions, made_for
from ..display import Shown, Summary, number, percent, threshold
from ..errors import ConfigError, DataError, NothingToRepairError
from ..models import EncodedTexts, Reader
from ..shortcuts import Shortcuts, find_shortcuts
from ..strength import StrengthChoice, check_support
from ..text import text_key, warn_of_absent
from ..typing import Array, Progress
from .changes import Changes, prediction_changes
from .choosing import choose_on_labels, choose_unlabelled
from .fitting import FitReport, Fitted, LabelledRows, fit_guard
from .strategies import strategy_of, uses_shortcuts
from .validation import check_not_doubted, check_taught, many_answers_hang_on, warn

RepairStrategy = Literal["auto", "maskcl", "paper", "mask", "distill", "few-shot"]
RepairStrength = float | Literal["auto"] | None

_PRESETS = {"maskcl": "default"}  # every other strategy has a preset of its name


@dataclass(frozen=True, repr=False)
class Repair(Shown):
    """What `repair` did.

    Attributes:
        strategy: The strategy: `maskcl`, `paper`, `mask`, `distill` or `few-shot`.
        reason: Why `auto` took it, in a sentence; empty if it was named.
        choice: The strength in use, and where it came from.
        decisions: The decisions on word groups before, by people, answers and second models; `None` without any.
        changes: Which predictions of the texts the repair changes at this strength.
    """

    strategy: str
    reason: str
    fitted: FitReport
    choice: StrengthChoice
    decisions: Decisions | None = None
    changes: Changes | None = None

    def _summary(self) -> Summary:
        fitted = self.fitted._summary()
        said = {"strength": f"{self.choice.strength:g} ({self.choice.source})"}
        if (seen := self.changes) is not None:
            said["changes"] = f"{seen.changed:,} of {seen.n:,} predictions ({percent(seen.share)})"
            if seen.shift is not None:
                said["threshold"] = (
                    f"{threshold(seen.shift.threshold)} on the original model: {seen.shift.same:,} of these changes, "
                    f"{seen.shift.other:,} others"
                )
            if seen.others:
                moved, changed = (max(getattr(one, name) for one in seen.others) for name in ("moved", "changed"))
                said["other labels"] = (
                    f"without these words they move by at most {number(moved)}, and {percent(changed)} of a label's "
                    f"decisions change ({seen.others[0].n:,} texts)"
                )
        return replace(
            fitted,
            title=f"Repair: {self.strategy}, seed {self.fitted.seed}",
            facts={**fitted.facts, **said},
            notes=(self.reason,) if self.reason else (),
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        choice = self.choice
        return {
            "strategy": self.strategy,
            "reason": self.reason,
            "debias_strength": choice.strength,
            "strength_source": choice.source,
            "calibration": None if choice.calibration is None else choice.calibration.to_dict(),
            "unlabelled_calibration": None if choice.unlabelled is None else choice.unlabelled.to_dict(),
            "changes": None if self.changes is None else asdict(self.changes),
            "fit": self.fitted.to_dict(),
        }


@dataclass(frozen=True)
class Plan:
    """How a repair is made.

    Attributes:
        weighs: Whether the support set decides about shortcuts, or is what is learned from.
        automatic: Whether the strength is chosen without labels.
        on_labels: Whether the support set has a say in the strength.
    """

    config: GuardrailConfig
    weighs: bool
    automatic: bool
    on_labels: bool


@dataclass(frozen=True)
class Wanted:
    """What somebody asks of a repair; see `ShortcutGuardrail.repair`."""

    strategy: str = "auto"
    strength: RepairStrength = None
    shortcuts: Sequence[str] = ()
    keep: Sequence[str] = ()
    not_alone: Sequence[str] = ()
    config: GuardrailConfig | Mapping[str, Any] | None = None

    @property
    def named(self) -> str:
        """The strategy that is asked for; a whole configuration names one."""
        if self.strategy == "auto" and isinstance(self.config, GuardrailConfig):
            return self.config.strategy
        return self.strategy

    def plan(self, strategy: str, labels: Array | None) -> Plan:
        """Check what is asked for before anything is trained.

        Args:
            strategy: Any but `auto`.
            labels: Class ids of the support set, shape (n,); `None` without one.
        """
        config, strength = self._configured(strategy), self.strength
        kind = strategy_of(config)
        if isinstance(strength, str) and strength != "auto":
            raise ConfigError(f"strength must be a number in [0, 1] or 'auto', but is {strength!r}.")
        stated = None if strength is None or isinstance(strength, str) else check_strength(float(strength))
        if kind.learns_from_labels:
            check_taught(labels)
            if strength is not None:
                raise ConfigError(
                    "strength= is for other strategies: strategy='few-shot' chooses the strength by cross-validation "
                    "on support=. Leave it out."
                )
        weighs = uses_shortcuts(config) or kind.learns_from_labels
        if labels is not None and stated is not None and not weighs:
            raise ConfigError("support= chooses the strength and strength= states it; give one of them.")
        automatic = strength == "auto" or (strength is None and kind.needs_shortcuts)
        if stated is not None:
            config = replace(config, calibration=replace(config.calibration, fixed_strength=stated))
        on_labels = labels is not None and stated is None and not kind.learns_from_labels and _tells(labels, automatic)
        if labels is None and strength is None and not automatic:
            warn(
                f"Without a support set the strength is not calibrated: {config.calibration.fixed_strength:g} is used, "
                "which can cost much accuracy, most where there is no shortcut to repair. "
                "Give some 40 labelled rows with support=, or state a strength with strength=."
            )
        return Plan(config, weighs, automatic, on_labels)

    def _configured(self, strategy: str) -> GuardrailConfig:
        start = preset(_PRESETS.get(strategy, strategy))
        config = self.config if isinstance(self.config, GuardrailConfig) else updated(start, self.config or {})
        if config.strategy != start.strategy:
            raise ConfigError(
                f"The strategy is {strategy!r}, but the configuration is one of '{config.strategy}'. Leave the "
                "strategy out of the configuration, or name that one."
            )
        if config is not self.config and not strategy_of(config).trains and config.adapter != start.adapter:
            raise ConfigError(
                f"Settings of the adapter are about training, and strategy='{config.strategy}' trains nothing. "
                "Leave them out."
            )
        said = config.shortcuts
        given = {
            "shortcuts=": self.shortcuts,
            "keep=": self.keep,
            "not_alone=": self.not_alone,
            "take_influential=True": said.take_influential,
        }
        if not uses_shortcuts(config) and any(given.values()):
            named = next(name for name, value in given.items() if value)
            also = "" if strategy_of(config).learns_from_labels else ", or per_input=True"
            raise ConfigError(
                f"{named} is for strategies that take words, and '{strategy}' does not. Choose "
                f"strategy='mask' or strategy='distill'{also}."
            )
        config = config.with_shortcuts(
            named=(*said.named, *self.shortcuts),
            keep=(*said.keep, *self.keep),
            not_alone=(*said.not_alone, *self.not_alone),
        )
        if config.shortcuts.not_alone and config.strategy == "mask":
            raise ConfigError(
                "not_alone= needs training, and strategy='mask' masks a word wherever it stands. Choose "
                "strategy='distill'."
            )
        return config


def _tells(labels: Array, automatic: bool) -> bool:
    """Whether labels can tell strengths apart; a warning where they cannot and need not."""
    try:
        check_support(labels)
    except DataError:
        if not automatic:
            raise
        warn(
            "The support set has a single row or a single label, so that strengths cannot be compared: the strength "
            "is the one chosen without labels."
        )
        return False
    return True


def search_shortcuts(
    base: Reader,
    encoded: EncodedTexts,
    config: GuardrailConfig,
    *,
    support: LabelledRows | None = None,
    decisions: Decisions | None = None,
    report: AuditReport | None = None,
    progress: Progress | None = None,
) -> Shortcuts:
    """What a repair would take for shortcuts. Arguments and errors: see `ShortcutGuardrail.find_shortcuts`."""
    if decisions is not None and not uses_shortcuts(config):
        raise ConfigError(
            f"decisions= is for strategies that take words, and '{config.strategy}' does not. Choose "
            "strategy='auto', 'distill' or 'mask'."
        )
    same_data = decisions is None or made_for(
        decisions,
        model=model_digest(base),
        data=texts_fingerprint([text_key(text) for text in encoded.texts]),
        warn=warn,
    )
    found = find_shortcuts(
        base,
        encoded,
        config.shortcuts,
        support=support,
        decisions=decisions,
        same_data=same_data,
        report=report,
        progress=progress,
    )
    warn_of_absent(found.said, encoded)
    return found


def repair_model(
    base: Reader,
    encoded: EncodedTexts,
    wanted: Wanted,
    *,
    support: LabelledRows | None = None,
    decisions: Decisions | None = None,
    audited: AuditReport | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Fitted, Repair]:
    """Plan, search, fit, and choose the strength. Arguments and errors: see `ShortcutGuardrail.repair`."""
    labels = None if support is None else support[1]
    search = partial(
        search_shortcuts, base, encoded, support=support, decisions=decisions, report=audited, progress=progress
    )
    strategy, reason, found = wanted.named, "", None
    if strategy == "auto":
        found = search(wanted.plan("distill", labels).config)
        teaches = support is not None and base.heads.label is None
        strategy, reason = supported_strategy(found, has_labels=teaches, adapts="adapts" in base.capabilities)
    plan = wanted.plan(strategy, labels)
    if found is None and (decisions is not None or (audited is not None and uses_shortcuts(plan.config))):
        found = search(plan.config)
    given = found if uses_shortcuts(plan.config) else None
    weighing = support if plan.weighs and given is None else None
    asked = base.remembering()  # the teacher's answers choose the strength too
    fitted, report, choice = fit_guard(
        base, encoded, plan.config, seed=seed, support=weighing, shortcuts=given, asked=asked, progress=progress
    )
    if reason and found is not None and strategy_of(plan.config).learns_from_labels and choice.strength == 0:
        raise nothing_to_repair(
            found, labels_say=", and cross-validation on the labelled texts prefers the original model"
        )
    if plan.automatic:
        chosen = choose_unlabelled(asked, fitted, encoded, report=audited, progress=progress)
        fitted = replace(fitted, unlabelled=chosen)
        choice = StrengthChoice(chosen.strength, "agreement", unlabelled=chosen)
    if plan.on_labels and support is not None:
        # Where both have a say, labels may overrule unlabelled texts.
        choice = choose_on_labels(fitted, support, without_labels=choice.unlabelled, progress=progress)
    probs = None if audited is None else audited.probs
    finder = fitted.shortcuts.finder
    changes = prediction_changes(base, fitted.guard, encoded, choice.strength, finder, probs=probs, seed=seed)
    return fitted, Repair(strategy, reason, report, choice, decisions, changes)


def supported_strategy(shortcuts: Shortcuts, *, has_labels: bool, adapts: bool = True) -> tuple[str, str]:
    """The strategy that words, and where there are none a support set, speak for, and why, in a sentence."""
    if shortcuts.words:
        way = "distill" if adapts else "mask"
        items = shortcuts.items
        judged = [item.text for item in items if item.verdict == "confirmed" and item.reason == "answers"]
        for by, words, what in (
            ("", [item.text for item in items if item.verdict == "named"], "named as a shortcut"),
            ("by the answers ", judged, "a shortcut"),
            ("by a second model ", [item.text for item in items if item.reason == "second model"], "a shortcut"),
        ):
            if words:
                are = "is" if len(words) == 1 else "are"
                return way, f"{way}, since {by}{enumerated(words[:5])} {are} {what}"
        return way, f"{way}, since the audit finds {enumerated(list(shortcuts.words[:5]))}"
    if has_labels and adapts:
        return "few-shot", "few-shot, since no word is named or found and there are labelled rows"
    raise nothing_to_repair(shortcuts)


def nothing_to_repair(shortcuts: Shortcuts, *, labels_say: str = "") -> NothingToRepairError:
    """The error that says why nothing is repaired; `labels_say` is what labelled rows say, the end of a sentence."""
    check_not_doubted(shortcuts)
    return NothingToRepairError(
        f"There is nothing to repair: no word is named, and none is found in these texts{labels_say}."
        f"{many_answers_hang_on(shortcuts)} Audit the model to see which words it depends on, and name those that are "
        "shortcuts with shortcuts=."
    )
