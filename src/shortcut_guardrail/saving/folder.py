"""A guarded folder as a whole: what is loaded from one, and what is written into one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ..data import LabelNames, read_whole, to_json, write_folder
from ..errors import ConfigError, DataError, GuardrailWarning, ModelError
from ..mitigation import AdapterGuard, Fitted, strategy_of
from ..models import Reader, TextClassifier, save_tokenizer
from ..shortcuts import Shortcuts
from ..strength import StrengthChoice
from ..text import Segmenter, recorded_segmenter
from .adapter import answering, find_base, load_adapter, load_tokenizer, save_adapter
from .model_card import model_card
from .record import GUARDRAIL_FILE, GuardrailRecord, read_fitted_texts, read_record, write_fitted_texts


def load_guarded(
    folder: Path,
    *,
    base: str | Path | Any | None,
    revision: str | None,
    reading: dict[str, Any],
    label_names: LabelNames | None,
    options: dict[str, Any],
    loading: dict[str, bool],
    cache: str | Path | None = None,
    verify: bool = False,
) -> tuple[Reader, str, str | None, Fitted, StrengthChoice]:
    """Load a guarded folder, all of it of one version. See `ShortcutGuardrail.from_pretrained`.

    Args:
        reading: `head`, `label`, `thresholds`, `max_length` and `windows`; `None` takes what the folder says.

    Returns:
        The base model, where it was found, its revision, the guard around it and the strength in use.
    """

    def read() -> tuple[Reader, str, str | None, Fitted, StrengthChoice]:
        record = read_record(folder)
        classifier: Reader
        if record.erasure == "cut":
            _check_not_read(folder, reading)
            classifier, base_name = answering(folder, record, base, cache)
        else:
            model, base_name = find_base(folder, record, base, revision, loading)
            read_as = {name: getattr(record, name) if own is None else own for name, own in reading.items()}
            classifier = TextClassifier(model, load_tokenizer(folder), **read_as, **options)
        _check_weights(folder, record, classifier.fingerprint(), base_name)
        same = reading["label"] in (None, record.label)
        classifier = classifier.named(record.label_names if label_names is None and same else label_names)
        config, strategy = record.config, strategy_of(record.config)
        shortcuts = Shortcuts(record.shortcuts, record.shortcut_rows)
        adapter = load_adapter(cast(TextClassifier, classifier), folder, config, record) if strategy.trains else None
        choice = _choice(folder, record, classifier)
        fitted = Fitted(
            guard=strategy.guard(classifier, config, shortcuts.finder, adapter),
            config=config,
            seed=record.seed,
            training=record.training,
            seconds=record.seconds,
            shortcuts=shortcuts,
            texts=read_fitted_texts(folder),
            text_hashes=record.text_hashes,
            unlabelled=choice.unlabelled,
            label=record.label,
        )
        recorded = record.base_model["revision"] if base is None else None
        return classifier, base_name, revision or recorded, fitted, choice

    try:
        return read_whole(folder, read, hashes=verify)
    except DataError as error:
        raise ModelError(str(error)) from error


def segmenter_of(folder: Path) -> Segmenter | None:
    """What the guard in a folder cuts words with in scripts without spaces."""
    try:
        record: GuardrailRecord = read_whole(folder, lambda: read_record(folder))
    except DataError as error:
        raise ModelError(str(error)) from error
    return recorded_segmenter(record.segmenter)


def _check_not_read(folder: Path, reading: dict[str, Any]) -> None:
    if given := [name for name, own in reading.items() if own is not None]:
        raise ConfigError(f"{given[0]} is for models of Transformers, but '{folder}' repairs another classifier.")


def _check_weights(folder: Path, record: GuardrailRecord, found: str, base_name: str) -> None:
    if found != record.base_model["fingerprint"]:
        made, was, its = ("adapter", "trained on", "weights")
        if record.erasure == "cut":
            made, was, its = ("guard", "made for", "fingerprint")
        raise ModelError(
            f"The {made} in '{folder}' was {was} '{record.base_model['name']}' with {its} "
            f"{record.base_model['fingerprint']}, but the {its} of '{base_name}' {'are' if its[-1] == 's' else 'is'} "
            f"{found}. Name the model it was {was} with base=."
        )


def _choice(folder: Path, record: GuardrailRecord, classifier: Reader) -> StrengthChoice:
    """The strength and what speaks for it; a certificate about other answers is left out."""
    certificate = record.certificate
    # Another number format moves answers near a tie only; these change what is answered.
    names, heads = ("max_length", "head", "windows", "label", "threshold"), classifier.heads
    threshold = record.thresholds.get(record.label or heads.labels[-1], 0.5)
    certified = record.max_length, record.head, record.windows, record.label, threshold
    asked = classifier.max_length, heads.kind, classifier.windows, heads.label, heads.threshold
    if certificate is not None and asked != certified:
        apart = [i for i in range(len(names)) if certified[i] != asked[i]]
        said = [", ".join(f"{names[i]} {one[i]}" for i in apart) for one in (certified, asked)]
        warnings.warn(
            f"The repaired model in '{folder}' was certified with {said[0]}, and is loaded with {said[1]}: its "
            "certificate, about other answers, is left out.",
            GuardrailWarning,
            stacklevel=7,
        )
        certificate = None
    return StrengthChoice(
        record.debias_strength,
        cast(Any, record.strength_source),
        record.calibration,
        record.unlabelled_calibration,
        certificate,
        record.support_hashes,
    )


def save_guarded(
    folder: Path,
    base: Reader,
    fitted: Fitted,
    record: GuardrailRecord,
    *,
    overwrite: bool,
    beside: Mapping[str, str] | None = None,
) -> None:
    """Write a guarded folder, whole or not at all. See `ShortcutGuardrail.save_pretrained`."""

    def fill(target: Path) -> None:
        if isinstance(fitted.guard, AdapterGuard):
            save_adapter(fitted.guard, fitted.config, record, target)
        if (tokenizer := getattr(base, "tokenizer", None)) is not None:
            save_tokenizer(tokenizer, target)
        (target / GUARDRAIL_FILE).write_text(to_json(record.to_dict()), encoding="utf-8")
        write_fitted_texts(target, fitted.texts)
        (target / "README.md").write_text(model_card(record), encoding="utf-8")
        for name, content in (beside or {}).items():
            (target / name).write_text(content, encoding="utf-8")

    write_folder(folder, fill, key=GUARDRAIL_FILE, overwrite=overwrite)
