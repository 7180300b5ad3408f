"""What a guarded folder says about itself: `guardrail.json` and its model card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .config import GuardrailConfig, check_strength
from .errors import ModelError

GUARDRAIL_FILE = "guardrail.json"
GUARDRAIL_SCHEMA_VERSION = 1
FITTED_TEXTS_FILE = "fitted_texts.npy"
_LEFT_ALONE = ("kept", "cleared", "listed")  # verdicts on what is not neutralised, as `Target.neutralised` has it


def text_hash(text: str | tuple[str, str]) -> str:
    """A hash that recognises a text without holding it, however its words are spaced; 32 hexadecimal digits."""
    parts = [text] if isinstance(text, str) else text
    spaced = [" ".join(part.split()) for part in parts]
    content = spaced[0] if isinstance(text, str) else spaced
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]


def text_number(text: str | tuple[str, str]) -> int:
    """The first half of `text_hash` as a number below 2^64, of which many take little room."""
    return int(text_hash(text)[:16], 16)


def library_versions() -> dict[str, str]:
    """Versions of what decides the numbers."""
    return {name: version(name) for name in ("shortcut-guardrail", "torch", "transformers", "peft", "tokenizers")}


@dataclass(frozen=True)
class GuardrailRecord:
    """What `guardrail.json` says; no deployment text is in it.

    Attributes:
        strategy: How shortcuts are neutralised.
        plain_peft_equivalent: Whether loading the folder with PEFT alone gives the guarded predictions.
        base_model: Name as the user gave it, revision, and fingerprint of the weights.
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
        targets: The words and phrases that were weighed, each with its evidence.
        target_rows: Hashes of the labelled texts that had a say in them, or trained the adapter.
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
    targets: tuple[dict[str, Any], ...] = ()
    target_rows: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words and phrases that are neutralised."""
        return tuple(t["text"] for t in self.targets if t["verdict"] not in _LEFT_ALONE)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"schema_version": GUARDRAIL_SCHEMA_VERSION, **values}


def is_guarded_folder(path: str | Path) -> bool:
    """Whether a folder was written by `save_pretrained` of a guard."""
    return (Path(path) / GUARDRAIL_FILE).is_file()


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
        for name in ("support_hashes", "targets", "target_rows"):
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
    if any({"text", "verdict"} - set(target) for target in record.targets):
        raise ValueError("a target has no text or verdict")
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


def model_card(record: GuardrailRecord) -> str:
    """A README for the folder, with the numbers a reader needs before using it."""
    name = record.base_model["name"] or "(an in-memory model)"
    training = record.training
    lines = [
        "---",
        *(["library_name: peft"] if record.strategy != "mask" else []),
        "pipeline_tag: text-classification",
        f"tags: [shortcut-guardrail, {'lora, ' if record.strategy != 'mask' else ''}text-classification]",
        "---",
        "",
        f"# Shortcut guardrail for {name}",
        "",
        f"{_WHAT[record.strategy]} It was made from {_made_from(record)} with the strategy `{record.strategy}` "
        f"(Shortcut Guardrail {record.versions.get('shortcut-guardrail', '')}).",
        "",
        "| | |",
        "|---|---|",
        f"| Base model | {_as_code(name)}, revision {_as_code(record.base_model['revision'] or 'not stated')} |",
        f"| Base fingerprint | `{record.base_model['fingerprint']}` |",
        f"| Labels | {', '.join(map(_as_code, record.label_names))} |",
        f"| {'Labelled' if record.strategy == 'few-shot' else 'Deployment'} texts | {training['n_texts']} given, "
        f"{training['n_trained']} trained on |",
    ]
    if training["n_steps"]:
        lines += [
            f"| Steps | {training['n_steps']} of batches of {record.config['adapter']['batch_size']} |",
            f"| Trained parameters | {training['n_trainable']} in {', '.join(training['target_modules'])} |",
        ]
    if record.words:
        lines.append(f"| Taken for shortcuts | {', '.join(map(_as_code, record.words))} |")
    if record.config.get("per_input") or record.strategy == "mask":
        lines.append("| Texts without them | keep the base model's answer |")
    source = _SOURCES.get(record.strength_source, record.strength_source)
    lines += [f"| Debiasing strength | {record.debias_strength} ({source}) |", ""]
    lines += _certificate_lines(record.certificate) + _calibration_lines(record)
    lines += [
        "## Use",
        "",
        "```python",
        "from shortcut_guardrail import ShortcutGuardrail",
        "",
        'guard = ShortcutGuardrail.from_pretrained("this-folder")',
        'guard.predict(["..."])',
        "```",
        "",
        "Plain PEFT gives the same predictions: the strength is folded into `lora_alpha`."
        if record.plain_peft_equivalent
        else "Plain PEFT does not give these predictions: which texts hold a shortcut is found out at prediction.",
        "",
    ]
    return "\n".join(lines)


_WHAT = {
    "maskcl": "A LoRA adapter that lowers a text classifier's reliance on shortcut tokens.",
    "distill": "A LoRA adapter with which a text classifier answers as it would without known shortcuts.",
    "few-shot": "A LoRA adapter that a few labelled texts taught a text classifier what to rely on.",
    "mask": "A guard that masks known shortcuts before a text classifier answers.",
}


def _made_from(record: GuardrailRecord) -> str:
    return "labelled texts" if record.strategy == "few-shot" else "unlabelled texts"


_CROSS_VALIDATED = ("Every row was answered by an adapter that had not been trained on it.", "")


def _as_code(word: str) -> str:
    """Words come from texts: what would end the table or the code is taken out."""
    return "`" + word.replace("`", "'").replace("|", "/") + "`"


def _certificate_lines(certificate: dict[str, Any] | None) -> list[str]:
    if certificate is None:
        return []
    return [
        "## Certificate",
        "",
        certificate["sentence"],
        "",
        f"Method: {certificate['method']}.",
        "",
        # Folders from before 23 November 2026 do not have it.
        *((certificate["assumptions"], "") if "assumptions" in certificate else ()),
        f"| strength | other answers in {certificate['n_unlabelled']} unlabelled texts | in {certificate['n_labels']} "
        "labelled ones | gained | lost | loss at most | |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {p['strength']:g} | {p['differing']} | {p['labelled']} | {p['gained']} | {p['lost']} "
            f"| {p['loss_bound']:.3f} | {'certified' if p['certified'] else ''} |"
            for p in certificate["points"]
        ),
        "",
    ]


_SOURCES = {"agreement": "chosen without labels"}


def _shown(divergence: float | None) -> str:
    """Folders written before the divergence chose a strength do not have it."""
    return "-" if divergence is None else f"{divergence:.5f}"


def what_labels_said(calibration: Mapping[str, Any]) -> str:
    """Whether the labels overruled the strength that unlabelled texts chose, in a sentence; empty where labels alone
    chose, as in folders that were written before both could.

    Args:
        calibration: A `Calibration` as a dictionary.
    """
    before, p_value = calibration.get("without_labels"), calibration.get("p_value")
    if before is None or p_value is None:
        return ""
    scores = {point["strength"]: point["score"] for point in calibration["curve"]}
    best = max(scores, key=lambda strength: scores[strength])
    if calibration["strength"] != before:
        base = ", or the base," if best else ""  # the p-value is the smaller of two comparisons
        return (
            f"Unlabelled texts chose {before:g}, which the labels overrule: strength {best:g}{base} answers more of "
            f"them rightly (p = {p_value:.2g})."
        )
    if scores[best] == scores[before]:
        return "Unlabelled texts chose it, and no strength answers more of the labelled ones rightly."
    return (
        f"Unlabelled texts chose it. Strength {best:g} answers more of the labelled ones rightly, but too few tell the "
        f"two apart to overrule it (p = {p_value:.2g})."
    )


def _calibration_lines(record: GuardrailRecord) -> list[str]:
    labelled = record.certificate is not None and record.certificate["n_labels"] > 0
    lines = []
    if record.calibration:
        lines += [
            f"## Calibration on {record.calibration['n']} labelled rows",
            "",
            *(_CROSS_VALIDATED if record.calibration.get("cross_validated") else ()),
            *((said, "") if (said := what_labels_said(record.calibration)) else ()),
            "| strength | accuracy | 95 % interval | gained | lost |",
            "|---|---|---|---|---|",
            *(
                f"| {p['strength']} | {p['accuracy']:.3f} | {p['interval'][0]:.3f} to {p['interval'][1]:.3f} "
                f"| {p['gained']} | {p['lost']} |"
                for p in record.calibration["curve"]
            ),
            "",
        ]
    if record.unlabelled_calibration:
        lines += [
            f"## Strength chosen without labels on {record.unlabelled_calibration['n']} texts: "
            f"{record.unlabelled_calibration['strength']:g}",
            "",
            "The strength whose answers diverge least from the base model's answers without the shortcuts (mean "
            "Kullback-Leibler divergence, in nats)."
            + ("" if labelled or record.calibration else " Whether these are better answers was not measured."),
            "",
            "| strength | divergence | same answers |",
            "|---|---|---|",
            *(
                f"| {p['strength']} | {_shown(p.get('divergence'))} | {p['agreement']:.3f} |"
                for p in record.unlabelled_calibration["curve"]
            ),
            "",
        ]
    if not (record.calibration or record.unlabelled_calibration or labelled):
        lines += [
            "No labelled rows were used: the strength is not calibrated, and whether it helps was not measured.",
            "",
        ]
    return lines
