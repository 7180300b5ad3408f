"""`shortcut-guardrail audit`: which words does the model depend on?"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..audit import Condition, check_conditions, parse_condition
from ..config import AuditConfig
from ..data import (
    FileTexts,
    MemoryTexts,
    TextData,
    Texts,
    TextSource,
    files_of,
    place_of,
    public_name,
    read_data,
    to_json,
    write_folder,
)
from ..errors import ConfigError
from ..text import visible_name
from . import options
from .compare import exit_by
from .running import stderr

if TYPE_CHECKING:
    from ..audit import AuditReport, Sample
    from ..guardrail import ShortcutGuardrail

_setting = partial(typer.Option, rich_help_panel="Settings")
STREAMED_BYTES = 64 * 2**20
"""Files from this size on are read and audited in shards without being asked."""

_paid = partial(typer.Option, metavar="N", min=0, rich_help_panel="Any classifier")

PROPOSED_SAMPLE = 20_000
"""Texts that are proposed where there are at least twice as many."""

SAMPLE_FILE = "sample.csv"


@dataclass(frozen=True, kw_only=True)
class Paying:
    """How many predictions an endpoint may be asked for without a question."""

    confirm_above: Annotated[int, _paid(help="Ask you before an endpoint makes more predictions than this.")] = 1000
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask you.", rich_help_panel="Any classifier")] = False

    def agree(self, guard: ShortcutGuardrail, texts: Texts, config: AuditConfig, *, output: options.Output) -> None:
        """Say what an audit of any classifier asks for, and let a person stop it before an endpoint is paid."""
        if guard.capabilities:
            return
        least, most = guard.answers_needed(texts, config)
        cost = guard.cost(texts)
        said = f"Asks for {least:,} to {most:,} predictions, and some more for phrases and word groups"
        if cost.tokens is not None:
            said += f"; about {most * cost.tokens // len(texts):,} tokens at most"
        if cost.seconds is not None:
            said += f"; {least * cost.seconds / len(texts):,.0f} s or more"
        output.say(f"{said}.")
        if guard.is_paid and not self.yes and most > self.confirm_above:
            if not sys.stdin.isatty():
                raise ConfigError(
                    f"{said}. Say --yes, or audit with a --budget: --confirm-above is {self.confirm_above}."
                )
            typer.confirm("Ask the endpoint?", abort=True)


@options.command
def audit(
    *,
    model: options.ModelOrGuard,
    data: options.Data,
    out: options.OutFolder,
    label_column: Annotated[
        str | None,
        typer.Option(
            help="Column with true labels, if you have them: shows how many predictions each word fixes or breaks.",
            show_default="none",
            rich_help_panel="Columns",
        ),
    ] = None,
    budget: Annotated[int, _paid(help="Most predictions to ask any classifier for; 0 for no limit.")] = 0,
    paying: Paying,
    unit: Annotated[
        Literal["token", "word", "phrase"],
        _setting(help="What is scored and masked. phrase includes words; token is the paper's unit."),
    ] = "phrase",
    top_k: options.TopK = 10,
    fdr: Annotated[
        float, _setting(help="False-discovery rate: the share of flagged words that may be false alarms.")
    ] = 0.05,
    compare_with: Annotated[
        Literal["texts", "rests"], _setting(help="What the texts of a word are compared with; rests is stricter.")
    ] = "texts",
    erasure: Annotated[
        Literal["auto", "mask", "cut", "replace"],
        _setting(help="How words are erased. auto: with the mask token, unless it changes predictions by itself."),
    ] = "auto",
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help='Exit with status 1 if this holds, by its interval: "mstps > 0.4". Repeatable.',
            show_default=False,
        ),
    ] = None,
    redact: options.Redact = False,
    no_text_hashes: options.NoTextHashes = False,
    shard_size: Annotated[
        int, _setting(metavar="N", help="Texts in memory at a time; 0 for all, or 2000 for large files.", min=0)
    ] = 0,
    resume: Annotated[bool, _setting("--resume", help="Resume an interrupted audit in shards.")] = False,
    sample: Annotated[
        int,
        _setting(
            metavar="N",
            help="Audit about N texts of a large file: random ones, then more with words that matter; 0 for all.",
            min=0,
        ),
    ] = 0,
    columns: options.Columns,
    loading: options.ModelOrGuardLoading,
    output: options.Output,
) -> None:
    """Find the words that a model's predictions depend on.

    \b
    shortcut-guardrail audit MODEL texts.csv --out audit
    shortcut-guardrail review audit

    The texts need no labels. For each word the table shows how often masking it changes the prediction, and towards
    which class it pushes. A word is flagged (!) if it overrides the rest of its texts more often than chance allows.
    It is undecided (?) if the texts do not settle whether the model depends on it by itself: there are too few, or
    other words may be the cause. Then decide yourself with `review` or `questions`, or audit more texts. A multi-label
    model is audited for each label, unless --label names one.
    """
    from ..audit import in_pieces
    from ..classifiers import is_spec
    from ..decisions import AUDIT_FILE
    from ..models import LabelNeededError, check_alone, joined, own_rank
    from ..report import print_audit

    output.check(options.Place(out, key=key_of(out)), inputs=[data, *loading.read_from(model)])
    conditions: list[Condition] = [parse_condition(text) for text in fail_if or ()]
    chosen: dict[str, Any] = {"compare_with": compare_with, "erasure": erasure, "shard_size": shard_size}
    chosen["budget"] = budget
    config = AuditConfig(unit=unit, top_k=top_k, fdr=fdr, **chosen)
    given = {**columns.given(), "label_column": label_column}
    if sample and (shard_size or resume):
        raise ConfigError("--sample audits its texts in one piece. Leave --shard-size and --resume out.")
    large = _is_large(data) and not is_spec(model) and not sample
    found = None if large or sample else _read(data, given, loading.label_of(model))
    source: Any = FileTexts(data, **given) if found is None else MemoryTexts(found.texts, found.labels, name=data)
    how: dict[str, Any] = {"redact": redact, "hashes": not no_text_hashes, "overwrite": output.overwrite}
    how["about"] = {"model": model, "data": public_name(data), "folder": str(out), "date": date.today().isoformat()}
    how["about"] |= {"labels": loading.labels} if loading.labels else {}
    in_shards = bool(shard_size or resume or large)
    if not in_shards:
        check_alone("An audit in one piece", "Several share one in shards of words: --shard-size 2000 --unit word.")
    with joined():
        try:
            guard = loading.load(model)
        except LabelNeededError as needed:
            if found is None or label_column or shard_size or resume:
                raise  # the labels of rows, and audits in shards, are of one label
            guard = loading.load(model, label=needed.labels[0])
            documents = _audit_labels(guard, found.texts, config, out, output=output, **how)
            output.finish(documents)
            exit_by(*(check_conditions(one, conditions) for one in documents.values()), names=[*documents])
            return
        if sample:
            paying.agree(guard, next(in_pieces(source, sample)), config, output=output)
            document = _audit_sample(guard, source, sample, config, out, output=output, **how)
        elif in_shards or found is None:
            if own_rank() == 0:
                _propose_sample(source, output)
            document = _audit_in_shards(guard, source, config, out, resume=resume, output=output, **how)
        else:
            labels = None if found.labels is None else options.class_ids(found, guard)
            paying.agree(guard, found.texts, config, output=output)
            _, document = make_audit(guard, found.texts, config, out, labels=labels, output=output, **how)
        if own_rank() > 0:
            return
    if output.speaks:
        print_audit(document)
        output.say(f"Written: {out / AUDIT_FILE}")
        output.say(f"         {out / 'report.html'}")
        output.say(f"         {out / 'important_tokens.jsonl'} (input by input)")
        if sample and not redact:
            output.say(f"         {out / SAMPLE_FILE} (the texts of the sample, for the commands that follow)")
    output.finish(document)
    exit_by(check_conditions(document, conditions))


def _is_large(data: str) -> bool:
    try:
        place = place_of(data)
        return files_of(data) != [data] or (place.is_file() and place.stat().st_size >= STREAMED_BYTES)
    except (OSError, ValueError):  # which is told about when it is read
        return False


def _audit_sample(
    guard: ShortcutGuardrail,
    source: TextSource,
    size: int,
    config: AuditConfig,
    out: Path,
    *,
    output: options.Output,
    **how: Any,
) -> dict[str, Any]:
    from .rows import rendered

    with output.progress() as progress:
        found = guard.audit_sample(source, size, config=config, taken=True, progress=progress)
    if not how["redact"]:
        how["about"] |= {"data": str(out / SAMPLE_FILE), "corpus": how["about"]["data"]}
        how["sample"] = rendered(_rows_of(found.sample), ".csv")
    return write_audit(found.report, _inputs(found.report, how["redact"]), out, **how)


def _rows_of(drawn: Sample) -> list[dict[str, Any]]:
    """The texts of a sample, in columns that need not be named, with their labels and their numbers in the corpus."""
    rows = []
    for i, (row, text) in enumerate(zip(drawn.rows.tolist(), drawn.texts, strict=True)):
        one: dict[str, Any] = {"text": text} if isinstance(text, str) else {"text": text[0], "text_pair": text[1]}
        one |= {} if drawn.labels is None else {"label": drawn.labels[i]}
        rows.append(one | {"row": row})
    return rows


def _propose_sample(source: TextSource, output: options.Output) -> None:
    """Say what a sample of many texts would save."""
    from ..audit import in_pieces

    n = sum(map(len, in_pieces(source, PROPOSED_SAMPLE))) if output.speaks else 0
    if n >= 2 * PROPOSED_SAMPLE:
        output.say(
            f"This audits all {n:,} texts. --sample {PROPOSED_SAMPLE} asks about {PROPOSED_SAMPLE / n:.0%} of them, "
            "and adds texts with the words that matter."
        )


def _read(data: str, columns: dict[str, Any], label: str | None) -> TextData:
    """The texts, all of them checked. Labels are read only where they are asked for."""
    labelled = columns["label_column"] is not None
    found = read_data(data, **columns, label=label if labelled else None, require_labels=labelled)
    return found if labelled else replace(found, labels=None)


def make_audit(
    guard: ShortcutGuardrail,
    texts: Texts,
    config: AuditConfig,
    out: Path | None,
    *,
    labels: Any = None,
    output: options.Output,
    **how: Any,
) -> tuple[AuditReport, dict[str, Any]]:
    """Audit texts in memory, say what `fit --audit` would take, and write the folder, if any; returns what its
    `audit.json` holds, too."""
    from ..models import own_rank

    with output.progress(quiet=own_rank() > 0) as progress:
        report = guard.audit(texts, labels=labels, config=config, taken=True, progress=progress)
    return report, {} if out is None else write_audit(report, _inputs(report, how["redact"]), out, **how)


def _inputs(report: AuditReport, redact: bool) -> Iterator[dict[str, Any]]:
    return (report.input_to_dict(index, redact=redact) for index in range(len(report.encoded)))


def key_of(out: Path) -> str:
    """The file by which the folder of an audit is known, or one with an audit of each label."""
    from ..decisions import AUDIT_FILE
    from ..saving import LABELS_FILE

    return LABELS_FILE if (out / LABELS_FILE).is_file() else AUDIT_FILE


def _audit_labels(
    guard: ShortcutGuardrail,
    texts: Texts,
    config: AuditConfig,
    out: Path,
    *,
    output: options.Output,
    **how: Any,
) -> dict[str, dict[str, Any]]:
    """Audit each label of a model that can give a text several: a folder with an audit of each, and one table."""
    from ..report import label_rows, print_labels, render_labels
    from ..saving import LABELS_FILE

    reports = {}
    for label in guard.labels:
        output.say(f"Label {visible_name(label)}")
        reports[label], _ = make_audit(guard.about(label), texts, config, None, output=output, **how)
    documents = {label: _document(report, **how) for label, report in reports.items()}
    rows = label_rows(documents)
    for row, (label, one) in zip(rows, documents.items(), strict=True):
        one["about"] |= {"label": label, "folder": str(out / row["folder"])}

    def fill(folder: Path) -> None:
        for row, (label, report) in zip(rows, reports.items(), strict=True):
            (own := folder / row["folder"]).mkdir()
            inputs = _inputs(report, how["redact"])
            _fill(own, report, documents[label], inputs, redact=how["redact"], sample=how.get("sample"))
        (folder / LABELS_FILE).write_text(to_json(rows), encoding="utf-8")
        (folder / "report.html").write_text(render_labels(rows, fdr=config.fdr), encoding="utf-8")

    write_folder(out, fill, key=key_of(out), overwrite=how["overwrite"])
    if output.speaks:
        print_labels(rows, fdr=config.fdr, n_truncated=next(iter(reports.values())).n_truncated)
        output.say(f"Written: {out / 'report.html'}, and beside it the audit of each label in a folder of its own")
    return documents


def _audit_in_shards(
    guard: ShortcutGuardrail,
    source: TextSource,
    config: AuditConfig,
    out: Path,
    *,
    resume: bool,
    output: options.Output,
    **how: Any,
) -> dict[str, Any]:
    from ..models import own_rank

    out = out.resolve()  # "." has no name
    partial = out.with_name(f"{out.name}.partial")
    try:
        with output.progress(quiet=own_rank() > 0) as progress:
            audited = guard.audit_in_shards(source, partial, config=config, resume=resume, progress=progress)
            if own_rank() > 0:
                return {}
            document = write_audit(audited.report, audited.inputs(redact=how["redact"]), out, **how)
    except KeyboardInterrupt:
        if partial.exists():
            said = f"What is finished is kept in '{partial}'; the same command with --resume goes on from there."
            stderr().print(said)
        raise
    # The shards hold words of the texts; what is kept of those is what was asked for.
    shutil.rmtree(partial)
    return document


def write_audit(
    report: AuditReport, inputs: Iterable[dict[str, Any]], out: Path, *, overwrite: bool, **how: Any
) -> dict[str, Any]:
    """Write the folder of an audit, and return what its `audit.json` holds."""
    document = _document(report, **how)
    fill = partial(
        _fill, report=report, document=document, inputs=inputs, redact=how["redact"], sample=how.get("sample")
    )
    write_folder(out, fill, key=key_of(out), overwrite=overwrite)
    return document


def _document(
    report: AuditReport, *, redact: bool, hashes: bool, about: Mapping[str, str] | None = None, **_: Any
) -> dict[str, Any]:
    document = (report if hashes else report.without_text_hashes()).to_dict(redact=redact)
    return document | ({"about": dict(about)} if about else {})


def _fill(
    folder: Path,
    report: AuditReport,
    document: dict[str, Any],
    inputs: Iterable[dict[str, Any]],
    *,
    redact: bool,
    sample: str | None = None,
) -> None:
    from ..decisions import AUDIT_FILE
    from ..report import render_audit
    from ..saving import PREDICTIONS_FILE, predictions_of

    (folder / PREDICTIONS_FILE).write_bytes(predictions_of(report))
    (folder / AUDIT_FILE).write_text(to_json(document), encoding="utf-8")
    (folder / "report.html").write_text(render_audit(document, redact=redact), encoding="utf-8")
    if sample is not None:
        (folder / SAMPLE_FILE).write_text(sample, encoding="utf-8")
    with (folder / "important_tokens.jsonl").open("w", encoding="utf-8") as lines:
        for one in inputs:
            lines.write(json.dumps(one, ensure_ascii=False) + "\n")
