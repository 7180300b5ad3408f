"""What a guarded folder says about itself: `guardrail.json` and its model card."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..config import GuardrailConfig, check_strength
from ..data import has_file
from ..errors import ModelError
from ..keys import VERDICTS, key_of, with_names
from ..shortcuts import NEUTRALISED

GUARDRAIL_FILE = "guardrail.json"
GUARDRAIL_SCHEMA_VERSION = 1
FITTED_TEXTS_FILE = "fitted_texts.npy"


def library_versions() -> dict[str, str]:
    """Versions of what decides the numbers."""
    return {name: version(name) for name in ("shortcut-guardrail", "torch", "transformers", "peft", "tokenizers")}


@dataclass(frozen=True)
class GuardrailRecord:
    """What `guardrail.json` says; no deployment text is in it.

    Attributes:
        strategy: How shortcuts are neutralised.
        plain_peft_equivalent: Whether loading the folder with PEFT alone gives the guarded predictions.
        base_model: Name (a Hub id, or an absolute path), revision, and fingerprint of the weights; in a folder also
            `from_folder`, the path from there to the folder of the base model, or `None`.
        label_names: Names of the classes.
        head: How logits are read.
        max_length: Tokens per input.
        precision: Number format the adapter was trained in.
        config: The whole configuration.
        debias_strength: The strength folded into the adapter.
        strength_source: `calibrated`, `cross-validated`, `agreement` (without labels), `certified`, `fixed` or `set`.
        calibration: The support-set curve, or `None`.
        support_hashes: Hashes of the support set's texts.
        seed: Seed of the adapter.
        training: Counts and losses of the adapter's training.
        seconds: Wall-clock time by stage.
        versions: Library versions.
        unlabelled_calibration: The curve of the strength chosen without labels, or `None`.
        certificate: What was certified, or `None`.
        shortcuts: The words and phrases that were weighed, each with its evidence.
        shortcut_rows: Hashes of the labelled texts that had a say in them, or trained the adapter.
    """

    strategy: str
    plain_peft_equivalent: bool
    base_model: dict[str, str | None]
    label_names: tuple[str, ...]
    head: str
    max_length: int
    precision: str
    config: dict[str, Any]
    debias_strength: float
    strength_source: str
    calibration: dict[str, Any] | None
    support_hashes: tuple[str, ...]
    seed: int
    training: dict[str, Any]
    seconds: dict[str, float]
    versions: dict[str, str]
    unlabelled_calibration: dict[str, Any] | None = None
    certificate: dict[str, Any] | None = None
    shortcuts: tuple[dict[str, Any], ...] = ()
    shortcut_rows: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words and phrases that are neutralised."""
        return tuple(item["text"] for item in self.shortcuts if VERDICTS[item["verdict"]][0] in NEUTRALISED)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        values = {key_of(GuardrailRecord, name): getattr(self, name) for name in self.__dataclass_fields__}
        return {"schema_version": GUARDRAIL_SCHEMA_VERSION, **values}


def is_guarded_folder(path: str | Path) -> bool:
    """Whether a folder was written by `save_pretrained` of a guard, if not to its end."""
    return has_file(Path(path), GUARDRAIL_FILE)


def read_record(folder: Path) -> GuardrailRecord:
    """The record of a guarded folder.

    Raises:
        ModelError: It is damaged, or written by a newer version.
    """
    file = folder / GUARDRAIL_FILE
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        found = values.pop("schema_version")
        if found != GUARDRAIL_SCHEMA_VERSION:
            raise ModelError(
                f"'{file}' has schema version {found}, but this version of Shortcut Guardrail reads "
                f"{GUARDRAIL_SCHEMA_VERSION}. Use the version that wrote it: {values.get('versions', {})}."
            )
        values["label_names"] = tuple(values["label_names"])
        values = with_names(GuardrailRecord, values)
        for name in ("support_hashes", "shortcuts", "shortcut_rows"):
            values[name] = tuple(values.get(name, ()))
        record = GuardrailRecord(**values)
        _check_record(record)
        return record
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ModelError):
            raise
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise ModelError(f"'{file}' is damaged and cannot be read: {reason}. Fit and save the guard again.") from error


_CERTIFICATE_FIELDS = {"margin", "confidence", "certified", "sentence", "method", "n_unlabelled", "n_labels", "points"}


def _check_record(record: GuardrailRecord) -> None:
    """What loading a guard takes for granted."""
    GuardrailConfig.from_dict(record.config)
    check_strength(record.debias_strength)
    if any("text" not in item or item.get("verdict") not in VERDICTS for item in record.shortcuts):
        raise ValueError("a shortcut has no text or no verdict that is known")
    if record.certificate is not None and _CERTIFICATE_FIELDS - set(record.certificate):
        raise ValueError("the certificate is incomplete")
    absent = {"name", "revision", "fingerprint"} - set(record.base_model)
    if absent:
        raise ValueError(f"base_model has no {', '.join(sorted(absent))}")


def write_fitted_texts(folder: Path, numbers: Iterable[int]) -> None:
    """Keep which texts a guard was fitted on, so that a certificate on them can be warned about; no text is in it."""
    np.save(folder / FITTED_TEXTS_FILE, np.array(sorted(numbers), dtype=np.uint64), allow_pickle=False)


def read_fitted_texts(folder: Path) -> frozenset[int]:
    """The numbers of the texts that a guard was fitted on; none in a folder of an earlier version.

    Raises:
        ModelError: The file is damaged.
    """
    file = folder / FITTED_TEXTS_FILE
    if not file.exists():
        return frozenset()
    try:
        return frozenset(np.load(file, allow_pickle=False).tolist())
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"'{file}' is damaged and cannot be read: {error}. Fit and save the guard again.") from error
