"""Audits of large corpora: texts come in pieces, one shard is in memory at a time, and finished shards stay on disk.

What grows with the corpus is some 50 bytes an input (which inputs are equal, and their labels), four a class (its
probability), and the table of candidates.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
from typing_extensions import TypedDict

from ..classifiers import require
from ..config import AuditConfig
from ..data import Count, Texts, TextSource, Within, checked, counted, json_content, sentences, to_json, write_file
from ..display import Shown, Summary
from ..errors import ConfigError, DataError, GuardrailWarning, RunError
from ..models import (
    EncodedTexts,
    Reader,
    TextClassifier,
    apart,
    by_turns,
    n_processes,
    own_rank,
    own_share,
    wait_for_others,
)
from ..text import Repeats, evidence_key, find_repeats, segmenter_name, text_key
from ..typing import Array, Erasure, Progress
from .auditing import check_ordinary, complete, make_report, model_digest, texts_fingerprint
from .erasures import Erasures, sampled_texts, try_erasures
from .examples import important_units
from .measurements import Shard, attribute, make_shard, measure
from .results import AuditReport, input_line

PARTIAL_SCHEMA_VERSION = 2
MANIFEST = "partial-audit.json"
DEFAULT_SHARD_SIZE = 2000
_ONE_FOLDER = "All processes have to see one folder. What is finished is kept; go on with resume=True."


@dataclass(frozen=True, repr=False)
class ShardedAudit(Shown):
    """What an audit found, the folder of its shards, how many they are, and which inputs repeat another."""

    report: AuditReport
    folder: Path
    n_shards: int
    repeats: Repeats

    def _summary(self) -> Summary:
        found = self.report._summary()
        return replace(
            found, title=found.title.replace("AuditReport", f"ShardedAudit in {counted(self.n_shards, 'shard')}")
        )

    def shards(self) -> Iterator[Shard]:
        """The shards in their order, one at a time."""
        return (Shard.from_file(_shard_file(self.folder, number)) for number in range(self.n_shards))

    def inputs(self, *, redact: bool = False) -> Iterator[dict[str, Any]]:
        """One JSON-ready line for every input, as `AuditReport.input_to_dict` has it, or which input it repeats."""
        same_as, done = self.repeats.same_as, 0
        for shard in self.shards():
            for i, row in enumerate(shard.rows.tolist()):
                yield from ({"index": j, "same_as": int(same_as[j])} for j in range(done, row))
                agreement, tokens = float(shard.agreement[i]), important_units(shard, i)
                yield {
                    **input_line(row, self.report.label_names, shard.probs[i], tokens, redact=redact),
                    "sensitivity": float(shard.sensitivity[i]),
                    "agreement": None if math.isnan(agreement) else agreement,
                }
                done = row + 1
        yield from ({"index": j, "same_as": int(same_as[j])} for j in range(done, len(same_as)))


def audit_in_shards(
    reader: Reader,
    source: TextSource,
    config: AuditConfig,
    folder: Path,
    *,
    resume: bool = False,
    map_shards: Callable[..., Iterable[Any]] | None = None,
    progress: Progress | None = None,
) -> ShardedAudit:
    """Audit texts a shard at a time; a shard that is finished is on disk and is not computed again.

    Args:
        config: `shard_size` is the number of inputs to a shard; 0 takes that of the audit to resume, else 2,000.
        folder: Where shards are kept. They hold the words of the texts; remove them when they are not needed any more.
        resume, map_shards: See `ShortcutGuardrail.audit_in_shards`. A damaged shard is computed again.

    Several processes that `models.joined` joins share the shards, in one folder; each returns the same audit.

    Raises:
        ConfigError: The folder holds an audit and `resume` is not set, or one of another model, file or configuration.
            Several processes are to audit phrases, or `map_shards` to cut words by a segmenter.
        RunError: The disk is full, or another process ended or wrote its shards elsewhere.
    """
    whole = "An audit in one piece does without: leave shard_size out. "
    require(reader, "gradients", "an audit in shards", otherwise=whole)
    require(reader, "masks", "an audit in shards")
    classifier = cast(TextClassifier, reader)
    if config.unit == "phrase" and (n_processes() > 1 or map_shards):
        raise ConfigError("Phrases depend on earlier shards, so several processes cannot share them. Set unit='word'.")
    if map_shards and segmenter_name() is not None:
        raise ConfigError("A segmenter does not reach the processes of map_shards. Leave one of the two out.")
    begun, before = time.perf_counter(), classifier.spent.answers
    size = config.shard_size or (_started_with(folder) if resume else 0) or DEFAULT_SHARD_SIZE
    read = _read_once(source, classifier.label_ids, progress)
    repeats, source = find_repeats(read.exact, read.near), _Unchanged(source, read.exact)
    (erasures,) = by_turns(1, lambda _: _tried(classifier, source, config, read, repeats))
    _open_folder_of_all(folder, _manifest(classifier, config, size, read, erasures.chosen), resume)
    files = [_shard_file(folder, number) for number in range(-(-len(read.exact) // size))]
    made = partial(map_shards or map, partial(_computed, classifier, config, erasures.chosen))
    _make_shards(classifier, source, files, size=size, told=(read, repeats), made=made, progress=progress)

    def finish(_: int) -> AuditReport:
        report = make_report(
            lambda: map(Shard.from_file, files),
            config,
            classifier.label_names,
            texts_of=lambda rows: {row: text for row, text in enumerate(_every(source)) if row in rows},
            erasures=erasures,
        )
        pieces = partial(_distinct_texts, classifier, source, folder, size)
        report = replace(report, probs=_probs(files, repeats))
        return complete(report, classifier, pieces, read.exact, config, progress)

    (report,) = by_turns(1, finish)
    answers = sum(by_turns(n_processes(), lambda _: classifier.spent.answers - before))
    seconds = round(time.perf_counter() - begun, 3)
    return ShardedAudit(replace(report, answers=answers, seconds=seconds), folder, len(files), repeats)


_Unfinished = tuple[int, Texts, dict[str, Any]]  # a shard's first row, its distinct texts, what `make_shard` is told


def _computed(classifier: TextClassifier, config: AuditConfig, erasure: Erasure, one: _Unfinished) -> tuple[Shard, int]:
    """A shard, and how many answers it took."""
    (start, texts, known), before = one, classifier.spent.answers
    encoded = classifier.encode(texts)
    check_ordinary(encoded, start + known["rows"] + 1)
    measured = measure(classifier, attribute(classifier, encoded, config), config, erasure)
    shard = make_shard(classifier, config, measured, erasure, **known)
    return replace(shard, rows=start + shard.rows), classifier.spent.answers - before


def _make_shards(
    classifier: TextClassifier,
    source: TextSource,
    files: Sequence[Path],
    *,
    size: int,
    told: tuple[_Read, Repeats],
    made: Callable[[Iterator[_Unfinished]], Iterable[tuple[Shard, int]]],
    progress: Progress | None,
) -> None:
    """Compute this process's share of the shards that are not finished, and wait for the others'."""
    (read, repeats), own, phrases = told, set(files[own_share(len(files))]), set[str]()

    def unfinished() -> Iterator[_Unfinished]:
        for number, texts in enumerate(in_pieces(source, size)):
            if files[number] not in own:
                continue
            if shard := _finished(files[number]):
                phrases.update(shard.phrases)
                continue
            part = slice(number * size, (number + 1) * size)
            of = Repeats(repeats.same_as[part], repeats.weights[part], repeats.evidence[part])
            # A shard without a text would need care everywhere.
            chosen = np.flatnonzero(of.weights) if of.weights.any() else np.array([0])
            known: dict[str, Any] = {"rows": chosen, "repeats": of, "known_phrases": tuple(sorted(phrases))}
            known["labels"] = None if read.labels is None else read.labels[part]
            yield part.start, cast(Texts, [texts[i] for i in chosen]), known

    answers = classifier.spent.answers
    with apart():
        for shard, taken in made(unfinished()):
            number, answers = int(shard.rows[0]) // size, answers + taken
            _write_shard(files[number], shard)
            phrases.update(shard.phrases)
            if progress is not None:
                progress("Auditing", min((number + 1) * size, len(read.exact)), len(read.exact))
    classifier.spent.answers = answers  # those of other processes, too
    wait_for_others()
    if gone := [file.name for file in files if not file.exists()]:
        raise RunError(
            f"{counted(len(gone), 'shard')} of another process cannot be found in '{files[0].parent}' ({gone[0]}). "
            + _ONE_FOLDER
        )


def _probs(files: Sequence[Path], repeats: Repeats) -> Array:
    """Class probabilities of every input, shape (N, C), from the shards of the distinct ones."""
    answered = [(shard.rows, shard.probs) for shard in map(Shard.from_file, files)]
    computed, probs = (np.concatenate(arrays) for arrays in zip(*answered, strict=True))
    every: Array = probs[np.searchsorted(computed, repeats.same_as)]
    return every


class _Read(NamedTuple):
    """What is kept of N inputs from the first time that they are read: the keys that tell equal texts, those that tell
    texts that are one piece of evidence, and class ids, each of shape (N,); no ids of a source without labels."""

    exact: Array
    near: Array
    labels: Array | None


@dataclass(frozen=True)
class _Unchanged:
    """A source that was read before, when the keys of its N texts were `exact`, shape (N,): it says if they differ."""

    source: TextSource
    exact: Array

    @property
    def name(self) -> str:
        return self.source.name

    def chunks(self) -> Iterator[tuple[Texts, list[str] | None]]:
        """See `data.TextSource`; a `DataError` before a text that is another one now, or is missing."""
        done = 0
        for texts, labels in self.source.chunks():
            if [text_key(text) for text in texts] != self.exact[done : done + len(texts)].tolist():
                break
            yield texts, labels
            done += len(texts)
        else:
            if done == len(self.exact):
                return
        raise DataError(
            f"{self.name} was changed while it was read. Restore it and go on with resume=True, which keeps what is "
            "finished, or start again when nothing writes to it."
        )


def _read_once(source: TextSource, label_ids: Callable[..., Array], progress: Progress | None) -> _Read:
    """Keys and labels of all texts. Labels are understood all at once: a shard alone may fit another reading."""
    exact, near, codes = [], [], []
    first: dict[str, int] = {}  # where each label stands first
    done = 0
    for texts, labels in source.chunks():
        exact.append(np.array([text_key(text) for text in texts], dtype=np.uint64))
        near.append(np.array([evidence_key(text) for text in texts], dtype=np.uint64))
        if labels is not None:
            for row, label in enumerate(labels, start=done + 1):
                first.setdefault(label, row)
            number = {label: i for i, label in enumerate(first)}
            codes.append(np.array([number[label] for label in labels], dtype=np.int32))
        done += len(texts)
        if progress is not None:
            progress("Reading", done, done + 1)  # the end is not known yet
    if not exact:
        raise DataError(f"{source.name} holds no text; at least one is needed.")
    if progress is not None:
        progress("Reading", done, done)
    ids = None
    if codes:
        ids = label_ids(list(first), source=source.name, rows=list(first.values()))[np.concatenate(codes)]
    return _Read(np.concatenate(exact), np.concatenate(near), ids)


def _tried(
    classifier: TextClassifier, source: TextSource, config: AuditConfig, read: _Read, repeats: Repeats
) -> Erasures:
    """What each erasure does by itself, on the same texts as in one piece: those are read and attributed first."""
    rows = sampled_texts(read.exact, repeats.evidence, config.top_k)
    wanted = set(rows.tolist())
    encoded = classifier.encode(cast(Texts, [text for row, text in enumerate(_every(source)) if row in wanted]))
    check_ordinary(encoded, rows + 1)
    found = attribute(classifier, encoded, config)
    return try_erasures(classifier, found, np.arange(len(rows)), read.exact[rows], config)


def _every(source: TextSource) -> Iterator[Any]:
    return (text for texts, _ in source.chunks() for text in texts)


def in_pieces(source: TextSource, size: int) -> Iterator[Texts]:
    """The texts in pieces of exactly `size` inputs but for the last."""
    texts = _every(source)
    while piece := list(itertools.islice(texts, size)):
        yield piece


def _distinct_texts(
    classifier: TextClassifier, source: TextSource, folder: Path, size: int
) -> Iterator[tuple[Array, EncodedTexts, Array]]:
    """The texts that count as evidence, a shard at a time: which they are, and what the model answers to them."""
    for number, texts in enumerate(in_pieces(source, size)):
        shard = Shard.from_file(_shard_file(folder, number))
        counted = np.flatnonzero(shard.evidence)
        if len(counted):
            chosen = cast(Texts, [texts[row - number * size] for row in shard.rows[counted]])
            yield shard.rows[counted], classifier.encode(chosen), shard.probs[counted]


# The folder of an unfinished audit


def _manifest(
    classifier: TextClassifier, config: AuditConfig, size: int, read: _Read, erasure: Erasure
) -> dict[str, Any]:
    """What has to be the same for shards to belong to one audit."""
    return {
        "schema_version": PARTIAL_SCHEMA_VERSION,
        "model": model_digest(classifier),
        "texts": texts_fingerprint(read.exact),
        "labels": None if read.labels is None else hashlib.sha256(read.labels.tobytes()).hexdigest(),
        "n": len(read.exact),
        "shard_size": size,
        # The others only decide how shards are read.
        "config": {"unit": config.unit, "top_k": config.top_k, "erasure": erasure},
    }


_SAID = {
    "model": "the model",
    "texts": "the texts",
    "labels": "the labels",
    "n": "the number of texts",
    "shard_size": "shard_size",
    "config": "unit, top_k or erasure",
    "schema_version": "the version of this library",
}


def _open_folder(folder: Path, manifest: dict[str, Any], resume: bool) -> None:
    file = folder / MANIFEST
    if not file.exists():
        with sentences(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for stale in folder.glob("shard-*.npz*"):
                stale.unlink()
        write_file(file, to_json(manifest))
        return
    if not resume:
        raise ConfigError(
            f"'{folder}' holds an unfinished audit. Go on with it with resume=True, or remove the folder."
        )
    found = _read_manifest(folder)
    other = [said for key, said in _SAID.items() if found[key] != manifest[key]]  # type: ignore[literal-required]
    if other:
        raise ConfigError(
            f"'{folder}' holds an unfinished audit that differs in {', '.join(other)}. Start it again with what it "
            "was started with, or remove the folder."
        )


def _open_folder_of_all(folder: Path, manifest: dict[str, Any], resume: bool) -> None:
    """`_open_folder` in the first process, then in the others, which have to find what the first one left there."""
    if own_rank() > 0:
        wait_for_others()
        if not (folder / MANIFEST).exists():
            raise RunError(f"'{folder}' of the first process is not there for another. {_ONE_FOLDER}")
    _open_folder(folder, manifest, resume or own_rank() > 0)
    if own_rank() == 0:
        wait_for_others()


def _started_with(folder: Path) -> int:
    """The shard size of the audit in a folder; 0 if there is none that can be read, which is complained of later."""
    with suppress(ConfigError):
        return _read_manifest(folder)["shard_size"]
    return 0


class _Manifest(TypedDict):
    schema_version: Annotated[int, Within(1)]
    model: str
    texts: str
    labels: str | None
    n: Count
    shard_size: Annotated[int, Within(1)]
    config: dict[str, Any]


def _read_manifest(folder: Path) -> _Manifest:
    how: dict[str, Any] = {"error": ConfigError, "advice": f"Remove '{folder}' and start again."}
    return cast(_Manifest, checked(json_content(folder / MANIFEST, **how), _Manifest, str(folder / MANIFEST), **how))


def _shard_file(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:06d}.npz"


def _finished(path: Path) -> Shard | None:
    if not path.exists():
        return None
    try:
        return Shard.from_file(path)
    except DataError as error:
        warnings.warn(f"{error} It is computed again.", GuardrailWarning, stacklevel=3)
        return None


def _write_shard(path: Path, shard: Shard) -> None:
    try:
        write_file(path, shard.to_bytes(), overwrite=True)
    except RunError as error:
        raise RunError(f"{error} What is finished is kept; go on with resume=True.") from error
