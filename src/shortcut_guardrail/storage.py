"""Files on disk: whole or not at all, the guarded-model folder, and its model card."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .config import GuardrailConfig, check_strength
from .errors import ConfigError, ModelError, RunError

GUARDRAIL_FILE = "guardrail.json"
GUARDRAIL_SCHEMA_VERSION = 1


@contextmanager
def _sentences(target: Path) -> Iterator[None]:
    """Turns what the file system says into a sentence."""
    try:
        yield
    except Exception as error:
        reason = _file_system_reason(error)
        if reason is None:
            raise
        raise RunError(f"'{target}' could not be written: {reason}. Nothing was left behind.") from error


def _file_system_reason(error: Exception) -> str | None:
    """Why a file could not be written; `None` for errors of another kind."""
    number = error.errno if isinstance(error, OSError) else None
    # The writers of safetensors and tokenizers, which are in Rust, put the system's error into the text of their own.
    if found := re.search(r"\(os error (\d+)\)", str(error)):
        number = int(found[1])
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    if number is not None:
        return os.strerror(number)
    return str(error) if isinstance(error, OSError) else None


def check_output(target: Path, *, overwrite: bool, folder: bool = False) -> None:
    """Refuse an output path before any work is done for it.

    Args:
        target: What is to be written.
        overwrite: Whether files that are there may be replaced.
        folder: Whether a folder is to be written rather than a file.

    Raises:
        ConfigError: It exists and `overwrite` was not asked for, is a file where a folder is needed or the other way
            round, or is in a place that cannot be written to.
    """
    try:
        _check_kind(target, folder)
        occupied = target.exists() and (not folder or any(target.iterdir()))
        place = target if target.is_dir() else target.parent
        while not place.exists():
            place = place.parent
    except OSError as error:
        raise ConfigError(f"'{target}' cannot be written ({error.strerror or error}).") from error
    if occupied and not overwrite:
        raise ConfigError(
            f"'{target}' already exists. Choose another place, or allow it to be replaced with --overwrite."
        )
    try:
        # Asking for permissions is not enough: root has them all, and file systems can refuse for other reasons.
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise ConfigError(
            f"'{target}' cannot be written: '{place}' is no folder you may write to ({error.strerror or error})."
        ) from error


def _check_kind(target: Path, folder: bool) -> None:
    if folder and target.exists() and not target.is_dir():
        raise ConfigError(f"'{target}' is a file, but a folder is to be written. Name a folder.")
    if not folder and target.is_dir():
        raise ConfigError(f"'{target}' is a folder, but a file is to be written. Name a file.")


def write_folder(target: Path, fill: Callable[[Path], None], *, overwrite: bool = False) -> None:
    """Fill a folder so that it appears whole or not at all.

    Files are written to a temporary folder on the same file system. A new target appears in one rename. In an existing
    one the new files take the place of the old ones of the same name once all are written, and those come back if that
    is interrupted; other files stay.

    Args:
        target: The folder.
        fill: Writes the files into the folder it is given.
        overwrite: Whether the target may exist with something in it.

    Raises:
        ConfigError: See `check_output`.
        RunError: The disk is full, or the like.
    """
    check_output(target, overwrite=overwrite, folder=True)
    exists = target.is_dir()
    with _sentences(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        # Within an existing target, since its parent may be on another file system or closed to us.
        temporary = _new_folder(target if exists else target.parent, target.name)
    try:
        with _sentences(target):
            new = temporary / "new"
            new.mkdir()
            fill(new)
            _set_modes(new)
            if exists:
                _swap_files(new, target, temporary / "old")
            else:
                os.replace(new, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _new_folder(parent: Path, name: str) -> Path:
    """A hidden folder with the permissions that a new folder of this user gets, which mkdtemp's has not."""
    folder = parent / f".{name}-{secrets.token_hex(4)}"
    folder.mkdir()
    return folder


def _set_modes(folder: Path) -> None:
    """Files get the permissions that new files of this user get; safetensors writes for the owner alone."""
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)


def _swap_files(new: Path, target: Path, old: Path) -> None:
    """Put the files of `new` into `target`, and what they replace into `old`; undone if it does not succeed."""
    moved: list[Path] = []
    replaced: list[Path] = []
    try:
        for file in sorted(path for path in new.rglob("*") if path.is_file()):
            name = file.relative_to(new)
            for folder in (target, old):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (target / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if (target / name).exists():
                replaced.append(name)
                os.replace(target / name, old / name)
            moved.append(name)
            os.replace(file, target / name)
    except BaseException:
        for name in moved:
            (target / name).unlink(missing_ok=True)
        for name in replaced:
            if (old / name).exists():
                os.replace(old / name, target / name)
        raise


def write_file(target: Path, content: str, *, overwrite: bool = False) -> None:
    """Write a text file, UTF-8, so that it appears whole or not at all.

    Raises:
        ConfigError: See `check_output`.
        RunError: The disk is full, or the like.
    """
    check_output(target, overwrite=overwrite)
    temporary = target.parent / f".{target.name}-{secrets.token_hex(4)}"
    with _sentences(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(content, encoding="utf-8", newline="")
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


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
        record = GuardrailRecord(**values)
        _check_record(record)
        return record
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ModelError):
            raise
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise ModelError(f"'{file}' is damaged and cannot be read: {reason}. Fit and save the guard again.") from error


def _check_record(record: GuardrailRecord) -> None:
    """What loading a guard takes for granted."""
    GuardrailConfig.from_dict(record.config)
    check_strength(record.debias_strength)
    absent = {"name", "revision", "fingerprint"} - set(record.base_model)
    if absent:
        raise ValueError(f"base_model has no {', '.join(sorted(absent))}")


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
