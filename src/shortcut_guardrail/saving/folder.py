"""A guarded folder as a whole: what is loaded from one, and what is written into one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ..data import LabelNames, read_whole, to_json, write_folder
from ..errors import DataError, GuardrailWarning, ModelError
from ..mitigation import AdapterGuard, Fitted, strategy_of
from ..models import TextClassifier, save_tokenizer
from ..shortcuts import Shortcuts
from ..strength import StrengthChoice
from ..typing import Head
from .adapter import find_base, load_adapter, load_tokenizer, save_adapter
from .model_card import model_card
from .record import GUARDRAIL_FILE, GuardrailRecord, read_fitted_texts, read_record, write_fitted_texts


def load_guarded(
    folder: Path,
    *,
    base: str | Path | Any | None,
    revision: str | None,
    head: Head | None,
    max_length: int | None,
    label_names: LabelNames | None,
    options: dict[str, Any],
    loading: dict[str, bool],
    verify: bool = False,
) -> tuple[TextClassifier, str, str | None, Fitted, StrengthChoice]:
    """Load a guarded folder, all of it of one version. See `ShortcutGuardrail.from_pretrained`.

    Args:
        head: `None` takes what the folder says, as for `max_length` and `label_names`.

    Returns:
        The base model, where it was found, its revision, the guard around it and the strength in use.
    """

    def read() -> tuple[TextClassifier, str, str | None, Fitted, StrengthChoice]:
        record = read_record(folder)
        model, base_name = find_base(folder, record, base, revision, loading)
        longest = record.max_length if max_length is None else max_length
        tokenizer = load_tokenizer(folder)
        classifier = TextClassifier(model, tokenizer, head=head or record.head, max_length=longest, **options)
        _check_weights(folder, record, classifier.fingerprint(), base_name)
        classifier = classifier.named(record.label_names if label_names is None else label_names)
        config, strategy = record.config, strategy_of(record.config)
        shortcuts = Shortcuts(record.shortcuts, record.shortcut_rows)
        adapter = load_adapter(classifier, folder, config, record) if strategy.trains else None
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
        )
        recorded = record.base_model["revision"] if base is None else None
        return classifier, base_name, revision or recorded, fitted, choice

    try:
        return read_whole(folder, read, hashes=verify)
    except DataError as error:
        raise ModelError(str(error)) from error


def _check_weights(folder: Path, record: GuardrailRecord, found: str, base_name: str) -> None:
    if found != record.base_model["fingerprint"]:
        raise ModelError(
            f"The adapter in '{folder}' was trained on '{record.base_model['name']}' with weights "
            f"{record.base_model['fingerprint']}, but the weights of '{base_name}' are {found}. "
            "Name the model it was trained on with base=."
        )


def _choice(folder: Path, record: GuardrailRecord, classifier: TextClassifier) -> StrengthChoice:
    """The strength and what speaks for it; a certificate about other answers is left out."""
    certificate = record.certificate
    # Another number format moves answers near a tie only; these change what is answered.
    asked = (classifier.max_length, classifier.head)
    if certificate is not None and asked != (record.max_length, record.head):
        warnings.warn(
            f"The guard in '{folder}' was certified with max_length {record.max_length} and head '{record.head}', "
            f"and is loaded with {asked[0]} and '{asked[1]}': its certificate, about other answers, is left out.",
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
    base: TextClassifier,
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
        save_tokenizer(base.tokenizer, target)
        (target / GUARDRAIL_FILE).write_text(to_json(record.to_dict()), encoding="utf-8")
        write_fitted_texts(target, fitted.texts)
        (target / "README.md").write_text(model_card(record), encoding="utf-8")
        for name, content in (beside or {}).items():
            (target / name).write_text(content, encoding="utf-8")

    write_folder(folder, fill, key=GUARDRAIL_FILE, overwrite=overwrite)
