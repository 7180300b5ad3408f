"""`shortcut-guardrail decide`: from answered questions to decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..audit import name_classes
from ..data import warn_without_names
from ..errors import ConfigError
from . import options
from .second_model import HOW_TO_NAME, Asking, specs


@options.command
def decide(
    *,
    audit: options.AuditFolder,
    answers: Annotated[
        list[str],
        typer.Argument(metavar="QUESTIONS...", help="Files that `questions` wrote, answered.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File of decisions to write (.json).", show_default="none with --dry-run"),
    ] = None,
    reviewer: Annotated[
        list[str] | None,
        typer.Option(
            help="Who answered. Once for all files, or once per file. If two people answer one text, it counts once.",
            show_default=False,
        ),
    ] = None,
    second: Annotated[list[str] | None, specs("--with", help=f"A second model to ask: {HOW_TO_NAME}")] = None,
    asking: Asking,
    label_names: options.LabelNames = None,
    no_text_hashes: options.NoTextHashes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what asking costs.", rich_help_panel="Second model")
    ] = False,
    keep_asking: Annotated[
        bool, typer.Option("--keep-asking", help="Also count answers after a decision.", rich_help_panel="Settings")
    ] = False,
    output: options.Output,
) -> None:
    """Decide which words are shortcuts, from an answered labelling sheet or a second model.

    \b
    shortcut-guardrail decide audit questions.csv --reviewer anna --out decisions.json
    shortcut-guardrail decide audit questions.csv --with SPEC --out decisions.json

    A word group is a shortcut if masking its words fixes more predictions than it breaks, and legitimate if it is the
    other way round. An e-value of at least 20 decides: one decision in twenty is wrong at most, if answers are right.
    After 40 answers without a decision the group stays open. All answers about an audit count, in the order in which
    they were given (AUDIT/answers.jsonl). A second model can only say "shortcut", and people overrule it. Then run fit
    --decisions.
    """
    from ..decisions import ANSWERS_FILE, AUDIT_FILE, QUESTIONS_FILE, Answers, Questions, answers_file
    from ..decisions import decide as decided_by
    from ..report import print_decided
    from ..review import fit_command
    from ..saving import read_audit

    options.check_hashes(no_text_hashes, second)
    reviewers = _reviewers(reviewer, answers, asks=bool(second))
    if dry_run and not second:
        raise ConfigError("--dry-run says what a second model would cost. Name one with --with SPEC.")
    options.check_out(out, dry_run=dry_run, what="decisions", name="file to write, such as decisions.json")
    inputs = [*answers, *(audit / name for name in (AUDIT_FILE, QUESTIONS_FILE, ANSWERS_FILE)), *asking.read(second)]
    beside = answers_file(out) if second and out is not None else None
    output.check(options.Place(out, options.JSON_ENDINGS), options.Place(beside, (".jsonl",)), inputs=inputs)
    if label_names is not None:
        name_classes(audit, label_names)
    questions = Questions.from_folder(audit)
    if second and not asking.describe:
        warn_without_names(questions.audited.labels)
    given = Answers.from_folder(audit)
    if reviewers:
        given = given.and_more(Answers.from_files(answers, questions, by=reviewers))
        given.keep(audit)
    if second:
        asked = asking.ask(questions, second, dry_run=dry_run, output=output)
        given = replace(given, judges=asked.judges, texts=asked.texts)
    found = decided_by(questions, given, rule=asking.rule, keep_asking=keep_asking)
    assert out is not None  # a dry run has ended
    found = found.without_text_hashes() if no_text_hashes else found
    found = found.save(out, answers=given.to_lines(), overwrite=output.overwrite)
    if output.speaks:
        command = fit_command(read_audit(audit / AUDIT_FILE).get("about", {}), str(out), audit)
        print_decided(found, out, command, undecidable=questions.undecidable)
    output.finish(found.to_dict())


def _reviewers(names: list[str] | None, files: list[str], *, asks: bool) -> list[str]:
    """Who answered each file; empty where a second model is asked and nobody answered."""
    if not names:
        if asks:
            return []
        raise ConfigError("Say who answered, with --reviewer NAME, or ask a second model, with --with SPEC.")
    if len(names) not in (1, len(files)):
        raise ConfigError(
            f"--reviewer is given {len(names)} times for {len(files)} files. Give it once for all, or once for each."
        )
    return names * len(files) if len(names) == 1 else names
