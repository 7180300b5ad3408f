"""The strength of a fitted guard: chosen on labels, without labels, and certified."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..audit import AuditReport, model_digest, texts_fingerprint
from ..config import CertifyConfig
from ..data import Texts, check_texts, numbers_file, read_numbers, text_hash, write_file
from ..errors import ConfigError, DataError, RunError
from ..models import EncodedTexts, Reader
from ..shortcuts import find_shortcuts
from ..strength import (
    Certificate,
    Counterfactual,
    StrengthChoice,
    UnlabelledCalibration,
    certified_instead,
    certify_answers,
    check_choice,
    choose_strength,
    choose_without_labels,
    draw,
    strengths_to_score,
)
from ..text import text_key
from ..typing import Array, Progress
from .distillation import counterfactual, with_insertions_beside
from .fitting import Fitted, LabelledRows, Support, hashes
from .strategies import uses_shortcuts
from .validation import (
    check_kind,
    check_same_length,
    check_unused,
    checked,
    warn_about_copies,
    warn_about_fitted,
    warn_about_none_bearing,
)


def choose_on_labels(
    fitted: Fitted,
    support: LabelledRows,
    *,
    without_labels: UnlabelledCalibration | None = None,
    progress: Progress | None = None,
) -> StrengthChoice:
    """The strength that labels choose. Arguments and errors: see `ShortcutGuardrail.calibrate`."""
    encoded, labels = support
    warn_about_copies(encoded.texts, "labelled", "The choice of the strength")
    check_unused(encoded.texts, fitted.shortcuts.rows, fitted.strategy, certify=False)
    before = None if without_labels is None else without_labels.strength
    if without_labels is not None and without_labels != fitted.unlabelled:
        raise ConfigError(
            "without_labels is not what the last calibrate_without_labels chose. Call it after fit, and "
            "pass its result."
        )
    started = time.perf_counter()
    config = fitted.config.calibration
    check_choice(labels, config, without_labels=before)
    logits = fitted.guard.logits_by_strength(encoded, strengths_to_score(config), progress=progress)
    calibration = choose_strength(logits, labels, config, without_labels=before)
    fitted.seconds["calibrate"] = time.perf_counter() - started
    return StrengthChoice(
        calibration.strength, "calibrated", calibration=calibration, unlabelled=without_labels, rows=hashes(encoded)
    )


def choose_unlabelled(
    base: Reader,
    fitted: Fitted,
    texts: Texts | EncodedTexts,
    *,
    at_most: int = 256,
    report: AuditReport | None = None,
    progress: Progress | None = None,
) -> UnlabelledCalibration:
    """The strength that unlabelled texts choose. See `ShortcutGuardrail.calibrate_without_labels`."""
    if at_most < 1:
        raise ConfigError(f"at_most must be at least 1, but is {at_most}.")
    if fitted.strategy.learns_from_labels:
        raise ConfigError(
            "A repair that learned from labels takes its strength from them too, by cross-validation. Without labels, "
            "only repairs that remove reliance on words can choose a strength."
        )
    encoded = texts if isinstance(texts, EncodedTexts) else base.encode(check_texts(texts))
    shortcuts = fitted.shortcuts
    if not uses_shortcuts(fitted.config):
        shortcuts = find_shortcuts(base, encoded, fitted.config.shortcuts, report=report, progress=progress)
    bearing = shortcuts.finder.present_in(encoded)
    warn_about_none_bearing(shortcuts, bearing)
    rows, weights = draw(bearing, at_most, seed=fitted.seed)
    encoded = encoded.select(rows)
    expected = counterfactual(base, encoded, shortcuts, seed=fitted.seed, progress=progress)
    if shortcuts.alone:
        encoded, expected = with_insertions_beside(base, encoded, expected, shortcuts, fitted.seed)
        return _from_the_largest(base, fitted, encoded, expected, None, progress)
    return _from_the_largest(base, fitted, encoded, expected, weights, progress)


_ENOUGH_BELOW = 2
"""Strengths below the best one after which no smaller one is tried. On all 90 curves of the stored results one is
enough for the choice that the whole grid gives."""


def _from_the_largest(
    base: Reader,
    fitted: Fitted,
    encoded: EncodedTexts,
    expected: Counterfactual,
    weights: Array | None,
    progress: Progress | None,
) -> UnlabelledCalibration:
    """The choice among the strengths of the grid, from the largest down while that may still pay, and 0."""
    least, *grid = strengths_to_score(fitted.config.calibration)
    tried: dict[float, Array] = {}
    for strength in (least, *reversed(grid)):
        if strength == 0:  # the base itself, and much of it is remembered
            tried[strength] = base.predict_logits(encoded)
        else:
            tried[strength] = fitted.guard.logits_by_strength(encoded, [strength])[0]
        at = sorted(tried)
        chosen = choose_without_labels(np.stack([tried[s] for s in at]), at, expected, weights=weights)
        if progress is not None:
            progress("Calibrating", len(tried), len(grid) + 1)
        if sum(least < s < chosen.strength for s in tried) == _ENOUGH_BELOW:
            break
    return chosen


def strengths_to_certify(fitted: Fitted, choice: StrengthChoice) -> list[float]:
    """0, and the strengths that a certificate is about.

    These are the strength that texts without labels chose, and half of it. A strength that labels chose is one of the
    grid, and all of the grid are tested, since the same labels may certify.
    """
    if fitted.unlabelled is None or not fitted.unlabelled.strength or choice.calibration is not None:
        return strengths_to_score(fitted.config.calibration)
    return [0.0, fitted.unlabelled.strength / 2, fitted.unlabelled.strength]


def answers_by_strength(
    base: Reader, fitted: Fitted, choice: StrengthChoice, texts: Texts, *, kept: Path | None, progress: Progress | None
) -> tuple[list[float], Array]:
    """The S strengths of a certificate and the class ids of N texts at each of them, shape (S, N).

    Args:
        kept: Has them, if it is whole, and of this guard and these texts; else it is written, where that can be.
    """
    grid, texts = strengths_to_certify(fitted, choice), checked(texts)
    about = {} if kept is None else {"of": _digest(base, fitted, texts), "strengths": grid}
    if kept is not None and kept.is_file():
        with suppress(DataError):
            found, arrays = read_numbers(kept.read_bytes(), str(kept))
            if found == about:
                return grid, arrays["answers"]
    answers = fitted.guard.logits_by_strength(base.encode(texts), grid, progress=progress).argmax(axis=2)
    if kept is not None:
        with suppress(ConfigError, RunError):  # a guard may lie where nobody can write
            write_file(kept, numbers_file(about, answers=answers.astype(np.int32)), overwrite=True)
    return grid, answers


def _digest(base: Reader, fitted: Fitted, texts: Texts) -> str:
    """One hash of all that decides the answers."""
    with fitted.guard.at(1.0) as guarded:
        decides = [model_digest(guarded), base.precision, fitted.config.to_dict(), fitted.shortcuts.to_dict()]
    decides.append(texts_fingerprint([text_key(text) for text in texts]))
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def certify_guard(
    base: Reader,
    fitted: Fitted,
    choice: StrengthChoice,
    *,
    labelled: Support,
    unlabelled: Texts,
    config: CertifyConfig,
    kept: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Certificate, StrengthChoice]:
    """What can be shown of the strengths, and the strength to use then. See `ShortcutGuardrail.certify`."""
    texts, unlabelled = checked(labelled[0]), checked(unlabelled)
    ids = base.label_ids(labelled[1])
    check_same_length(texts, ids)
    check_kind(texts, unlabelled)
    check_unused(texts, fitted.shortcuts.rows, fitted.strategy, certify=True)
    n_fitted = warn_about_fitted(texts, unlabelled, fitted.texts)
    warn_about_copies(unlabelled, "unlabelled", "The certificate")
    warn_about_copies(texts, "labelled", "The certificate")
    grid, answers = answers_by_strength(base, fitted, choice, unlabelled, kept=kept, progress=progress)
    place = {text: i for i, text in enumerate(unlabelled)}
    if place.keys() >= set(texts):
        answers_to_labelled = answers[:, [place[text] for text in texts]]
    else:
        _, answers_to_labelled = answers_by_strength(base, fitted, choice, texts, kept=None, progress=progress)
    found = certify_answers(
        grid[1:],
        config,
        unlabelled_base=answers[0],
        unlabelled_guarded=answers[1:],
        labelled_base=answers_to_labelled[0],
        labelled_guarded=answers_to_labelled[1:],
        labels=ids,
    )
    strength, source, rows = choice.strength, choice.source, choice.rows
    if strength not in found.certified:
        strength, source = certified_instead(found), "certified"
        rows = tuple(sorted({*rows, *map(text_hash, texts)}))
    found = replace(found, in_use=choice.strength, strength=strength, n_fitted=n_fitted)
    return found, replace(choice, certificate=found, rows=rows).moved(strength, source)
