"""`shortcut-guardrail judge`: from answered questions to decisions."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .second_opinion import Asking, answers_file, show_cost, write_with_answers

if TYPE_CHECKING:
    from ..decisions import Asked, Decisions, Sheet
    from ..typing import Progress


@options.command
def judge(
    *,
    audit: options.AuditFolder,
    answers: Annotated[
        list[str], typer.Argument(metavar="FLIPS...", help="Files of `flips`, answered.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File of decisions to write (JSON).", show_default="none with --dry-run"),
    ] = None,
    reviewer: Annotated[
        list[str] | None,
        typer.Option(
            help="The person who answered. Once for all files, or once for each: two people's answers to one text "
            "count once.",
            show_default=False,
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            help="The model that answered, instead of a person: kept, but it decides nothing. With --with it may.",
            show_default=False,
        ),
    ] = None,
    second: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="SPEC",
            help="A second model to ask: a folder, a Hub id, a TOML file or module:function. Repeat for more; the "
            "scores of those that are fit are averaged.",
            show_default=False,
            rich_help_panel="Second opinion",
        ),
    ] = None,
    asking: Asking,
    no_text_hashes: options.NoTextHashes = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what --with would ask, and what it costs.",
            rich_help_panel="Second opinion",
        ),
    ] = False,
    keep_asking: Annotated[
        bool, typer.Option("--keep-asking", help="Count the evidence on after a card is decided.")
    ] = False,
    output: options.Output,
) -> None:
    """Judge cards by the answered questions of `flips`, or ask a second model.

    \b
    shortcut-guardrail judge audit flips.csv --reviewer anna --out decisions.json
    shortcut-guardrail judge audit flips.csv --with SPEC --out decisions.json

    A card is a shortcut here where enough answers say that masking its words mends more than it breaks, and genuine
    here where they say the opposite: evidence of 20 decides, and is wrong once in twenty cards at most if nobody errs.
    After 40 questions it is open. A second model says shortcut or nothing, and people overrule it. `fit --decisions`
    neutralises shortcuts, and spares what is genuine in these texts.
    """
    from ..data import to_json, write_file
    from ..decisions import (
        AUDIT_FILE,
        QUESTIONS_FILE,
        SHEET_FILE,
        AuditedCards,
        Sheet,
        agreed,
        consultation_of,
        cut_sheet,
        decide,
        first_five,
        keys_of,
        questions_in,
        read_keys,
        read_reviews,
        reference_answers,
    )

    options.check_hashes(no_text_hashes, second)
    reviewers = _reviewers(reviewer, machine, answers, asks=bool(second))
    target = _target(out, dry_run=dry_run, asks=bool(second))
    beside = answers_file(target) if second and target is not None else None
    inputs = [*answers, *(audit / name for name in (AUDIT_FILE, QUESTIONS_FILE, SHEET_FILE)), *asking.read(second)]
    places = (options.Place(target, options.JSON_ENDINGS), options.Place(beside, (".jsonl",)))
    output.check(*places, inputs=inputs)
    audited = AuditedCards.from_folder(audit)
    keys = read_keys(audit)
    given = read_reviews(answers, reviewers, keys, folder=audit) if reviewers else {}
    keys = keys_of(answers, keys)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    found: Decisions = decide(audited, keys, given, at=now, machine=machine, keep_asking=keep_asking)
    found = found.without_text_hashes() if no_text_hashes else found
    if second:
        sheet = cut_sheet(Sheet.from_folder(audit), questions_in(answers, keys))
        with output.progress() as progress:
            said = _ask(sheet, second, asking, dry_run=dry_run, output=output, progress=progress)
        if said is None or target is None:
            return
        people = agreed(list(given.values()))
        consulted = consultation_of(
            audited,
            said,
            rule=asking.rule.value,
            answers=reference_answers(sheet, keys, people),
            five=first_five(keys, people),
            people=found if reviewers or any(key.label for key in keys) else None,
        )
        found = write_with_answers(target, consulted.decisions, said, overwrite=output.overwrite)
    else:
        assert target is not None
        write_file(target, to_json(found.to_dict()), overwrite=output.overwrite)
    _show(found, target, output)


def _ask(
    sheet: Sheet, specs: list[str], asking: Asking, *, dry_run: bool, output: options.Output, progress: Progress
) -> Asked | None:
    """Ask second models, after it was said what that costs; `None` for a dry run."""
    from ..decisions import ask

    sources = asking.sources(specs, sheet.labels)
    costs = {source.name: source.cost(sheet.texts) for source in sources}
    if output.speaks:
        show_cost(sheet, costs)
    if dry_run:
        output.finish({"texts": len(sheet.texts), "costs": {name: asdict(cost) for name, cost in costs.items()}})
        return None
    return ask(sheet, sources, progress=progress)


def _show(found: Decisions, out: Path, output: options.Output) -> None:
    from ..report import print_decisions

    if output.speaks:
        print_decisions(found)
        print(f"Written: {out}")
        if any(card.decision for card in found.cards):
            print(f"Next: shortcut-guardrail fit MODEL DATA --decisions {out} --out guarded")
    output.finish(found.to_dict())


def _target(out: Path | None, *, dry_run: bool, asks: bool) -> Path | None:
    """Where decisions go; `None` for a dry run.

    Raises:
        ConfigError: There is no place, or a place for nothing.
    """
    from ..errors import ConfigError

    if dry_run and not asks:
        raise ConfigError("--dry-run says what a second opinion costs. Name one with --with SPEC.")
    if dry_run and out is not None:
        raise ConfigError("--out is for decisions, and --dry-run makes none. Leave one of them out.")
    if out is None and not dry_run:
        raise ConfigError("--out is missing: name the file to write, such as decisions.json.")
    return out


def _reviewers(reviewer: list[str] | None, machine: str | None, files: list[str], *, asks: bool) -> list[str]:
    """Who answered each file; empty where a second model is asked and nobody answered.

    Raises:
        ConfigError: Nobody is named, or both a person and a machine, or another number of people than of files.
    """
    from ..errors import ConfigError

    if asks and machine:
        raise ConfigError("--machine names a model that answered, and --with asks one. Leave one of them out.")
    if asks and not reviewer:
        return []
    if bool(reviewer) == bool(machine):
        raise ConfigError("Say who answered: --reviewer NAME for a person, or --machine NAME for another model.")
    names = reviewer or [str(machine)]
    if len(names) not in (1, len(files)):
        raise ConfigError(
            f"--reviewer is given {len(names)} times for {len(files)} files. Give it once for all, or once for each."
        )
    return names * len(files) if len(names) == 1 else names
