"""Files on disk: whole or not at all, the guarded-model folder, and its model card."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .errors import ConfigError, ModelError, RunError

GUARDRAIL_FILE = "guardrail.json"
GUARDRAIL_SCHEMA_VERSION = 1


@contextmanager
def _sentences(target: Path) -> Iterator[None]:
    """Turns what the file system says into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise RunError(f"'{target}' could not be written: the disk is full. Nothing was left behind.") from error
        raise RunError(
            f"'{target}' could not be written: {error.strerror or error}. Nothing was left behind."
        ) from error


def check_output(target: Path, *, overwrite: bool) -> None:
    """Refuse an output path before any work is done for it.

    Raises:
        ConfigError: It exists and `overwrite` was not asked for, is a file where a folder is needed, or is in a place
            that cannot be written to.
    """
    occupied = target.exists() and (target.is_file() or any(target.iterdir()))
    if occupied and not overwrite:
        raise ConfigError(
            f"'{target}' already exists. Choose another place, or allow it to be replaced with --overwrite."
        )
    parent = target if target.is_dir() else target.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ConfigError(f"'{target}' cannot be written: '{parent}' is no folder you may write to.")


def write_folder(target: Path, fill: Callable[[Path], None], *, overwrite: bool = False) -> None:
    """Fill a folder so that it appears whole or not at all.

    Files are written to a temporary folder beside the target. A new target appears in one rename; in an existing one
    each file is replaced in one rename, and files that are not written again stay.

    Args:
        target: The folder.
        fill: Writes the files into the folder it is given.
        overwrite: Whether the target may exist with something in it.

    Raises:
        ConfigError: See `check_output`.
        RunError: The disk is full, or the like.
    """
    check_output(target, overwrite=overwrite)
    with _sentences(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        with _sentences(target):
            fill(temporary)
            temporary.chmod(0o755)
            if target.exists() and any(target.iterdir()):
                _move_files(temporary, target)
            else:
                os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _move_files(source: Path, target: Path) -> None:
    # The record goes last: a folder whose record is new has new files throughout.
    files = sorted((p for p in source.rglob("*") if p.is_file()), key=lambda p: p.name == GUARDRAIL_FILE)
    for file in files:
        destination = target / file.relative_to(source)
        destination.parent.mkdir(parents=True, exist_ok=True)
        os.replace(file, destination)


def write_file(target: Path, content: str, *, overwrite: bool = False) -> None:
    """Write a text file, UTF-8, so that it appears whole or not at all.

    Raises:
        ConfigError: See `check_output`.
        RunError: The disk is full, or the like.
    """
    check_output(target, overwrite=overwrite)
    if target.is_dir():
        raise ConfigError(f"'{target}' is a folder; name a file.")
    with _sentences(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(content)
            os.chmod(name, 0o644)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def to_json(values: Any) -> str:
    """JSON with a stable layout; numbers that are not finite are refused, since JSON has none."""
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def text_hash(text: str | tuple[str, str]) -> str:
    """A hash that recognises a text without holding it, 32 hexadecimal digits."""
    return hashlib.sha256(json.dumps(text, ensure_ascii=False).encode()).hexdigest()[:32]


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
        strength_source: `calibrated`, `fixed` or `set`.
        calibration: The support-set curve, or `None`.
        support_hashes: Hashes of the support set's texts.
        seed: Seed of the adapter.
        training: Counts and losses of the adapter's training.
        seconds: Wall-clock time by stage.
        versions: Library versions.
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
        values["support_hashes"] = tuple(values["support_hashes"])
        return GuardrailRecord(**values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"'{file}' is damaged and cannot be read: {error}. Fit and save the guard again.") from error


def model_card(record: GuardrailRecord) -> str:
    """A README for the folder, with the numbers a reader needs before using it."""
    name = record.base_model["name"] or "(an in-memory model)"
    training = record.training
    lines = [
        "---",
        "library_name: peft",
        "pipeline_tag: text-classification",
        "tags: [shortcut-guardrail, lora, text-classification]",
        "---",
        "",
        f"# Shortcut guardrail for {name}",
        "",
        "A LoRA adapter that lowers a text classifier's reliance on shortcut tokens. It was trained on unlabelled "
        f"texts with the strategy `{record.strategy}` (Shortcut Guardrail "
        f"{record.versions.get('shortcut-guardrail', '')}).",
        "",
        "| | |",
        "|---|---|",
        f"| Base model | `{name}`, revision `{record.base_model['revision'] or 'not stated'}` |",
        f"| Base fingerprint | `{record.base_model['fingerprint']}` |",
        f"| Labels | {', '.join(record.label_names)} |",
        f"| Deployment texts | {training['n_texts']} given, {training['n_trained']} trained on |",
        f"| Steps | {training['n_steps']} of batches of {record.config['adapter']['batch_size']} |",
        f"| Trained parameters | {training['n_trainable']} in {', '.join(training['target_modules'])} |",
        f"| Debiasing strength | {record.debias_strength} ({record.strength_source}) |",
        "",
    ]
    if record.calibration:
        lines += [
            f"## Calibration on {record.calibration['n']} labelled rows",
            "",
            "| strength | accuracy | 95 % interval | gained | lost |",
            "|---|---|---|---|---|",
            *(
                f"| {p['strength']} | {p['accuracy']:.3f} | {p['interval'][0]:.3f} to {p['interval'][1]:.3f} "
                f"| {p['gained']} | {p['lost']} |"
                for p in record.calibration["curve"]
            ),
            "",
        ]
    else:
        lines += [
            "No labelled rows were used: the strength is not calibrated, and whether it helps was not measured.",
            "",
        ]
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
        "Plain PEFT gives the same predictions: the strength is folded into `lora_alpha`.",
        "",
    ]
    return "\n".join(lines)
