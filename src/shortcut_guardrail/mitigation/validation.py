"""What is refused or warned of before a guard is fitted, calibrated or certified."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import Any

from ..config import GuardrailConfig
from ..data import Texts, check_texts, enumerated, text_hash, text_number
from ..errors import ConfigError, DataError, GuardrailWarning, NothingToRepairError
from ..models import EncodedTexts
from ..shortcuts import Shortcuts
from ..strength import check_support
from ..typing import Array
from .strategies import Strategy, strategy_of, uses_shortcuts


def warn(sentence: str) -> None:
    """Warn whoever called the facade."""
    warnings.warn(sentence, GuardrailWarning, stacklevel=4)


def check_same_length(texts: EncodedTexts | Texts, labels: Array) -> None:
    """Refuse labels that are more or fewer than the texts."""
    if len(texts) != len(labels):
        raise DataError(
            f"There must be one label for each text, but there are {len(texts)} texts and {len(labels)} labels."
        )


def warn_without_shortcuts(shortcuts: Shortcuts) -> None:
    """Warn that there is no shortcut; refuse where that is because the evidence is weak."""
    if not shortcuts.words:
        check_not_doubted(shortcuts)
        warn(
            "No shortcut was found in these texts, so the repaired model predicts what the original predicts. Give "
            f"more texts, labelled texts, or name shortcuts with shortcuts=.{many_answers_hang_on(shortcuts)}"
        )


def many_answers_hang_on(shortcuts: Shortcuts) -> str:
    """A question about the first words that are listed only, as the end of a sentence; empty without any."""
    listed = shortcuts.listed[:5]
    return f" Many predictions depend on {', '.join(map(repr, listed))}: should they?" if listed else ""


def check_not_doubted(shortcuts: Shortcuts) -> None:
    """Refuse to go on where many words were found, on weak evidence."""
    if shortcuts.doubted:
        raise NothingToRepairError(
            f"The audit found {len(shortcuts.doubted)} words, such as {enumerated(shortcuts.doubted[:5])}. But "
            "erasing any word changes many predictions of this model, so these words need a decision. Name the "
            "shortcuts (shortcuts=, --shortcut), decide about word groups (review, questions), give labelled texts "
            "(support=, --support), or audit with another erasure (AuditConfig.erasure, --erasure)."
        )


def check_taught(labels: Array | None) -> None:
    """Refuse to learn from labels where there are none, or too few."""
    if labels is None:
        raise ConfigError("support= is missing: strategy='few-shot' learns from labelled rows, and from nothing else.")
    check_support(labels)


def check_keeps_labels(config: GuardrailConfig, label: str | None) -> None:
    """Refuse to train one label of several in a way that would move the others."""
    if label is not None and not strategy_of(config).needs_shortcuts:
        raise ConfigError(
            f"strategy='{config.strategy}' would move the other labels of this model along with '{label}'. Choose "
            "strategy='distill', which keeps them, or strategy='mask'."
        )


def check_unused(texts: Texts, rows: Collection[str], strategy: Strategy, *, certify: bool) -> None:
    """Refuse to certify, or to choose a strength, on labelled texts that `fit` used.

    Args:
        rows: `data.text_hash` of those that it used.
        strategy: What it used them for. A strength may be chosen on texts that decided which words are shortcuts.
        certify: Whether it is to certify.
    """
    known = set(rows) if certify or strategy.learns_from_labels else set()
    used = sum(text_hash(text) in known for text in texts) if known else 0
    if not used:
        return
    did, instead = "decided which words are shortcuts", ", or fit without the support set"
    if strategy.learns_from_labels:
        did, instead = "trained the adapter", ""
    so = "so they cannot certify the result"
    if not certify:
        so = (
            "which predicts them better than others, so they cannot choose its strength. fit has chosen it by "
            "cross-validation"
        )
    raise DataError(f"{used} of the {len(texts)} labelled texts {did}, {so}. Use other labelled texts{instead}.")


def checked(texts: Texts) -> Texts:
    """The texts as a list once nothing is wrong with them; there may be none."""
    given: Any = texts if isinstance(texts, str) else list(texts)
    return check_texts(given) if len(given) else []


def check_kind(texts: Sequence[Any], unlabelled: Sequence[Any]) -> None:
    """Refuse single texts beside pairs."""
    if texts and unlabelled and isinstance(texts[0], str) != isinstance(unlabelled[0], str):
        kinds = ["single texts" if isinstance(some[0], str) else "text pairs" for some in (texts, unlabelled)]
        raise DataError(f"The labelled ones are {kinds[0]}, but the unlabelled ones are {kinds[1]}. Give one kind.")


def warn_about_fitted(texts: Sequence[Any], unlabelled: Sequence[Any], fitted: Collection[int]) -> int:
    """Warn of texts that the guard was fitted on, given as their `record.text_number`; how many there are."""
    counts = [sum(text_number(text) in fitted for text in some) for some in (unlabelled, texts)]
    kinds = zip(counts, (unlabelled, texts), ("unlabelled", "labelled"), strict=True)
    if seen := [f"{count} of the {len(some)} {kind}" for count, some, kind in kinds if count]:
        warn(
            f"The repair was fitted on {' and '.join(seen)} texts; the certificate is only valid for texts like those "
            "it has not seen. Hold some back from fit."
        )
    return sum(counts)


def warn_about_copies(texts: Sequence[Any], kind: str, what: str) -> None:
    """Warn where half of the texts, or more, are copies, of what takes each for an observation of its own."""
    distinct = len(set(texts))
    if texts and distinct <= len(texts) / 2:
        warn(
            f"Of the {len(texts)} {kind} texts {distinct} are distinct. {what} takes each for an "
            "observation of its own: if they are copies, rather than what often comes, give each once."
        )


def warn_about_none_bearing(shortcuts: Shortcuts, bearing: Array) -> None:
    """Warn where a strength is to be chosen on texts none of which bears a shortcut."""
    if shortcuts.finder and not bearing.any():
        warn(
            f"None of the {len(bearing)} texts contains a shortcut word, so they cannot show which strength removes "
            "its effect. Choose it on texts that do, or state one."
        )


def warn_about_unused(config: GuardrailConfig, *, support: bool, shortcuts: bool) -> None:
    """Warn where `fit` is given what its strategy does not look at."""
    if support and not uses_shortcuts(config) and not strategy_of(config).learns_from_labels:
        warn(
            f"fit does not look at the support set with the strategy '{config.strategy}', which takes no words. Give "
            "it to calibrate, which chooses the strength."
        )
    if shortcuts and not uses_shortcuts(config):
        warn(f"fit does not look at shortcuts with the strategy '{config.strategy}'; 'mask' and 'distill' do.")
