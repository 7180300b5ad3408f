"""`shortcut-guardrail judge`: from answered questions to decisions."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options

if TYPE_CHECKING:
    from ..decisions import Decisions


@options.command
def judge(
    *,
    audit: options.AuditFolder,
    answers: Annotated[
        list[str], typer.Argument(metavar="FLIPS...", help="Files of `flips`, answered.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", help="File of decisions to write (JSON).", show_default=False)],
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
            help="The model that answered, instead of a person: kept, but it decides nothing.", show_default=False
        ),
    ] = None,
    keep_asking: Annotated[
        bool, typer.Option("--keep-asking", help="Count the evidence on after a card is decided.")
    ] = False,
    output: options.Output,
) -> None:
    """Judge cards by the answered questions of `flips`.

    A card is a shortcut here where enough answers say that masking its words mends more than it breaks, and genuine
    here where they say the opposite: evidence of 20 decides, and is wrong once in twenty cards at most if nobody errs.
    After 40 questions it is open. `fit --decisions` neutralises shortcuts, and spares what is genuine in these texts.
    """
    from ..data import check_output, to_json, write_file
    from ..decisions import AuditedCards, decide, read_keys, read_reviews
    from ..report import print_decisions

    reviewers = _reviewers(reviewer, machine, answers)
    check_output(out, overwrite=output.overwrite)
    options.check_spared(out, *answers)
    output.check(*answers, folder=audit)
    audited = AuditedCards.from_folder(audit)
    keys = read_keys(audit)
    given = read_reviews(answers, reviewers, keys, folder=audit)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    found: Decisions = decide(audited, keys, given, at=now, machine=machine, keep_asking=keep_asking)
    write_file(out, to_json(found.to_dict()), overwrite=output.overwrite)
    if output.speaks:
        print_decisions(found)
        print(f"Written: {out}")
        if any(card.decision for card in found.cards):
            print(f"Next: shortcut-guardrail fit MODEL DATA --decisions {out} --out guarded")
    output.finish(found.to_dict())


def _reviewers(reviewer: list[str] | None, machine: str | None, files: list[str]) -> list[str]:
    """Who answered each file.

    Raises:
        ConfigError: Nobody is named, or both a person and a machine, or another number of people than of files.
    """
    from ..errors import ConfigError

    if bool(reviewer) == bool(machine):
        raise ConfigError("Say who answered: --reviewer NAME for a person, or --machine NAME for another model.")
    names = reviewer or [str(machine)]
    if len(names) not in (1, len(files)):
        raise ConfigError(
            f"--reviewer is given {len(names)} times for {len(files)} files. Give it once for all, or once for each."
        )
    return names * len(files) if len(names) == 1 else names
