"""What a guarded folder says about itself: `guardrail.json` and its model card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
from typing_extensions import TypedDict

from ..config import GuardrailConfig, StrategyName
from ..data import NotEmpty, Share, Within, checked, has_file, json_content
from ..errors import ModelError
from ..mitigation import AdapterTraining
from ..models import Merged, Windowing
from ..shortcuts import Shortcut
from ..strength import DERIVED, Calibration, Certificate, StrengthSource, UnlabelledCalibration
from ..typing import Erasure, Head

GUARDRAIL_FILE = "guardrail.json"
GUARDRAIL_SCHEMA_VERSION = 1
FITTED_TEXTS_FILE = "fitted_texts.npy"

_ADVICE = "The file is damaged: run fit again."


def library_versions() -> dict[str, str]:
    """Versions of what decides the numbers."""
    return {name: version(name) for name in ("shortcut-guardrail", "torch", "transformers", "peft", "tokenizers")}


class Base(TypedDict):
    """The model that a guard was made for, in a folder the way from there to the model's, and of what it was merged."""

    name: str | None
    revision: str | None
    fingerprint: str
    from_folder: NotRequired[str | None]
    merged: NotRequired[Merged]


@dataclass(frozen=True)
class GuardrailRecord:
    """What `guardrail.json` says; no deployment text is in it.

    Attributes:
        plain_peft_equivalent: Whether loading the folder with PEFT alone gives the guarded predictions.
        base_model: Name (a Hub id, or an absolute path), revision, and fingerprint of the weights; in a folder also
            `from_folder`, the path from there to the folder of the base model, or `None`.
        precision: Number format the adapter was trained in.
        debias_strength: The strength folded into the adapter.
        strength_source: See `StrengthChoice.source`.
        calibration: The support-set curve, or `None`.
        support_hashes: Hashes of the support set's texts.
        unlabelled_calibration: The curve of the strength chosen without labels, or `None`.
        certificate: What was certified, or `None`.
        shortcuts: The words and phrases that were weighed, each with its evidence.
        shortcut_rows: Hashes of the labelled texts that had a say in them, or trained the adapter.
        text_hashes: Whether hashes of texts are kept; without them nobody can tell that a text is used again.
        label: Of a head with several labels the one that was repaired.
        thresholds: Of a sigmoid head, by label.
        segmenter: What cuts words in scripts without spaces.
        windows: How texts are read that are longer than `max_length`; `None` cuts them.
        erasure: How a guard of the strategy `mask` takes words out: it masks tokens of an encoder, and cuts words out
            in front of any other classifier, whose `base_model.name` is `module:function` or the place of a TOML file.
    """

    strategy: StrategyName
    plain_peft_equivalent: bool
    base_model: Base
    label_names: Annotated[tuple[str, ...], NotEmpty()]
    head: Head
    max_length: Annotated[int, Within(1, 2**31)]
    precision: str
    config: GuardrailConfig
    debias_strength: Share
    strength_source: StrengthSource
    calibration: Calibration | None
    support_hashes: tuple[str, ...]
    seed: int
    training: AdapterTraining
    seconds: dict[str, float]
    versions: dict[str, str]
    unlabelled_calibration: UnlabelledCalibration | None = None
    certificate: Certificate | None = None
    shortcuts: tuple[Shortcut, ...] = ()
    shortcut_rows: tuple[str, ...] = ()
    text_hashes: bool = True
    label: str | None = None
    segmenter: str | None = None
    windows: Windowing | None = None
    thresholds: dict[str, Annotated[float, Within(above=0, below=1)]] = field(default_factory=dict)
    erasure: Erasure = "mask"

    def without_text_hashes(self) -> GuardrailRecord:
        """The same without a hash of any text."""
        return replace(self, support_hashes=(), shortcut_rows=(), text_hashes=False)

    @property
    def words(self) -> tuple[str, ...]:
        """The words and phrases that count as shortcuts."""
        return tuple(item.text for item in self.shortcuts if item.reliance_removed)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        certificate = None if self.certificate is None else self.certificate.to_dict()
        said = {"training": self.training.to_dict(), "certificate": certificate}
        return {"schema_version": GUARDRAIL_SCHEMA_VERSION, **asdict(self), **said}


def is_guarded_folder(path: str | Path) -> bool:
    """Whether a folder was written by `save_pretrained` of a guard, if not to its end."""
    return has_file(Path(path), GUARDRAIL_FILE)


def read_record(folder: Path) -> GuardrailRecord:
    """The record of a guarded folder.

    Raises:
        ModelError: It is damaged, or written by a newer version.
    """
    file = folder / GUARDRAIL_FILE
    values = json_content(file, error=ModelError, advice=_ADVICE)
    found = values.get("schema_version") if isinstance(values, dict) else None
    if type(found) is int and found != GUARDRAIL_SCHEMA_VERSION:
        raise ModelError(
            f"'{file}' has schema version {found}, but this version of Shortcut Guardrail reads "
            f"{GUARDRAIL_SCHEMA_VERSION}. Use the version that wrote it: {values.get('versions', {})}."
        )
    how: dict[str, Any] = {"error": ModelError, "advice": _ADVICE}
    checked(found, Literal[1], str(file), path="schema_version", **how)
    rest = {key: value for key, value in values.items() if key != "schema_version"}
    said: dict[str, Any] = {}
    if isinstance(certificate := rest.get("certificate"), dict):  # what follows from it is said there too
        said = {key: certificate.pop(key) for key in DERIVED if key in certificate}
    record: GuardrailRecord = checked(rest, GuardrailRecord, str(file), **how)
    if record.certificate is not None:
        _check_said(said, record.certificate, file)
    return record


def _check_said(said: Mapping[str, Any], certificate: Certificate, file: Path) -> None:
    """Refuse what a file says of a certificate but does not follow from it; sentences may have had other words."""
    for key, value in said.items():
        follows = getattr(certificate, key)
        if type(value) is not str if isinstance(follows, str) else value != [*follows]:
            raise ModelError(f"'{file}': certificate.{key} does not follow from the certificate. {_ADVICE}")


def write_fitted_texts(folder: Path, numbers: Iterable[int]) -> None:
    """Keep which texts a guard was fitted on, so that a certificate on them can be warned about; no text is in it."""
    np.save(folder / FITTED_TEXTS_FILE, np.array(sorted(numbers), dtype=np.uint64), allow_pickle=False)


def read_fitted_texts(folder: Path) -> frozenset[int]:
    """The numbers of the texts that a guard was fitted on; none where no hashes of texts are kept."""
    file = folder / FITTED_TEXTS_FILE
    if not file.exists():
        return frozenset()
    try:
        return frozenset(np.load(file, allow_pickle=False).tolist())
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"'{file}' is damaged and cannot be read: {error}. Run fit again.") from error
