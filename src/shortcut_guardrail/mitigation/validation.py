"""What is refused or warned of before a guard is fitted, calibrated or certified."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import Any

from ..config import GuardrailConfig
from ..data import Texts, check_texts, text_hash, text_number
from ..errors import ConfigError, DataError, GuardrailWarning
from ..models import EncodedTexts
from ..shortcuts import Shortcuts
from ..strength import check_support
from ..text import WordFinder
from ..typing import Array
from .strategies import Strategy, strategy_of, uses_shortcuts


def check_same_length(encoded: EncodedTexts, labels: Array) -> None:
    """Refuse labels that are more or fewer than the texts."""
    if len(encoded) != len(labels):
        raise DataError(
            f"There must be one label for each text, but there are {len(encoded)} texts and {len(labels)} labels."
        )


def warn_about_absent(shortcuts: Shortcuts, encoded: EncodedTexts) -> None:
    """Warn of words that a person named and that stand in none of the texts."""
    said = [item.text for item in shortcuts.items if item.verdict in ("named", "kept")]
    if absent := [word for word in said if not WordFinder([word]).present_in(encoded).any()]:
        warnings.warn(
            f"{_named(absent)} in none of these {len(encoded)} texts. Look for other spellings: occurrences are whole "
            "words.",
            GuardrailWarning,
            stacklevel=3,
        )


_SHOWN = 5  # listed words in a warning


def warn_without_shortcuts(shortcuts: Shortcuts) -> None:
    """Warn that nothing is neutralised."""
    if not shortcuts.words:
        listed = shortcuts.listed[:_SHOWN]
        hint = f" Many answers hang on {', '.join(map(repr, listed))}: should they?" if listed else ""
        warnings.warn(
            "Nothing on these texts is taken for a shortcut, so the guard answers as the base does. Give more texts, "
            f"labelled rows, or name what you know with shortcuts=.{hint}",
            GuardrailWarning,
            stacklevel=3,
        )


def _named(words: Sequence[str]) -> str:
    return ", ".join(f"'{word}'" for word in words) + (" stands" if len(words) == 1 else " stand")


def check_taught(rows: tuple[EncodedTexts, Array] | None) -> None:
    """Refuse to learn from labels where there are none, or too few."""
    if rows is None:
        raise ConfigError(
            "The strategy 'few-shot' learns from labelled texts, and there are none. Give them with support=."
        )
    check_support(rows[1])


def check_untaught(encoded: EncodedTexts, rows: Collection[str], strategy: Strategy) -> None:
    """Refuse to choose the strength on texts that trained the adapter.

    Args:
        rows: `record.text_hash` of the labelled texts that `fit` used.
        strategy: What it used them for.
    """
    taught = set(rows) if strategy.learns_from_labels else set()
    used = sum(text_hash(text) in taught for text in encoded.texts) if taught else 0
    if used:
        raise DataError(
            f"{used} of the {len(encoded)} labelled texts trained the adapter, which answers them better than others, "
            "so they cannot choose its strength; fit has chosen it by cross-validation. Use other labelled texts."
        )


def check_unused(texts: Texts, rows: Collection[str], strategy: Strategy) -> None:
    """Refuse to certify on labelled texts that `fit` used. Arguments: see `check_untaught`."""
    known = set(rows)
    used = sum(text_hash(text) in known for text in texts) if known else 0
    if used:
        did, instead = (
            ("trained the adapter", "")
            if strategy.learns_from_labels
            else ("decided which words are neutralised", ", or fit without the support set")
        )
        raise DataError(
            f"{used} of the {len(texts)} labelled texts {did}, so they cannot certify the result. Use other labelled "
            f"texts{instead}."
        )


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
        warnings.warn(
            f"The guard was fitted on {' and '.join(seen)} texts; the certificate is only valid for texts like those "
            "it has not seen. Hold some back from fit.",
            GuardrailWarning,
            stacklevel=3,
        )
    return sum(counts)


def warn_about_copies(texts: Sequence[Any], kind: str, what: str) -> None:
    """Warn where half of the texts, or more, are copies of others.

    Args:
        kind: Which they are, e.g. "unlabelled".
        what: What takes each for an observation of its own, e.g. "The certificate".
    """
    distinct = len(set(texts))
    if texts and distinct <= len(texts) / 2:
        warnings.warn(
            f"Of the {len(texts)} {kind} texts {distinct} are distinct. {what} takes each for an "
            "observation of its own: if they are copies, rather than what often comes, give each once.",
            GuardrailWarning,
            stacklevel=3,
        )


def warn_about_none_bearing(shortcuts: Shortcuts, bearing: Array) -> None:
    """Warn where a strength is to be chosen on texts that cannot tell how much of a shortcut is left.

    Args:
        bearing: Which texts hold any of it, shape (N,), bool.
    """
    if shortcuts.finder and not bearing.any():
        warnings.warn(
            f"None of the {len(bearing)} texts holds a word that is neutralised, so they cannot tell which strength "
            "takes its effect away. Choose it on texts that do, or state one.",
            GuardrailWarning,
            stacklevel=3,
        )


def warn_about_unused(config: GuardrailConfig, *, support: bool, shortcuts: bool) -> None:
    """Warn where `fit` is given what its strategy does not look at."""
    if support and not uses_shortcuts(config) and not strategy_of(config).learns_from_labels:
        warnings.warn(
            f"fit does not look at the support set with the strategy '{config.strategy}', which is not told what to "
            "neutralise. Give it to calibrate, which chooses the strength.",
            GuardrailWarning,
            stacklevel=3,
        )
    if shortcuts and not uses_shortcuts(config):
        warnings.warn(
            f"fit does not look at shortcuts with the strategy '{config.strategy}'; 'mask' and 'distill' do.",
            GuardrailWarning,
            stacklevel=3,
        )
