"""`shortcut-guardrail history`: audits week after week, and alarms for what rose."""

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .running import FAILED_RUN, stderr

_FILES = "Folders that audit wrote, or audit.json files."


@options.command
def history(
    *,
    audits: Annotated[list[Path], typer.Argument(metavar="AUDIT...", help=_FILES, show_default=False)],
    out: Annotated[Path | None, typer.Option(help="HTML page to write.", show_default="only the table")] = None,
    csv: Annotated[
        Path | None,
        typer.Option(help="CSV, TSV or JSON Lines file to write: a row per audit and word.", show_default=False),
    ] = None,
    words: options.Shortcuts,
    false_alarms: Annotated[
        float,
        typer.Option(help="Probability that an alarm is ever raised by chance.", rich_help_panel="Settings"),
    ] = 0.05,
    fail_on_alarm: Annotated[
        bool, typer.Option("--fail-on-alarm", help="Exit with status 1 if the last audit raises an alarm.")
    ] = False,
    output: options.Output,
) -> None:
    """Show what changed over audits of one classifier, week after week.

    \b
    shortcut-guardrail history audits/2026-* --out trend.html --csv trend.csv

    For each known word: how many texts contain it, how often removing it changes the prediction, and how many
    predictions depend on it. An alarm means that more predictions depend on a word than before. Audits are ordered by
    the dates in their paths.
    """
    from ..data import write_file
    from ..display import say
    from ..history import read_history
    from ..report import render_history
    from .rows import check_suffix, rendered

    if csv is not None:
        check_suffix(csv, "--csv")
    places = options.Place(out, options.HTML_ENDINGS), options.Place(csv, (".csv", ".tsv", ".jsonl", ".ndjson"))
    output.check(*places, inputs=audits)
    found = read_history(audits, words=words.words(), false_alarms=false_alarms)
    if output.speaks:
        say(repr(found))
    written = [] if out is None else [(out, render_history(found))]
    if csv is not None:
        written.append((csv, rendered(list(found.rows()), csv.suffix)))
    for file, content in written:
        write_file(file, content, overwrite=output.overwrite)
        output.say(f"Written: {file}")
    output.finish(found.to_dict())
    if fail_on_alarm and found.new_alarms:
        for trend in found.new_alarms:
            stderr().print(f"failed: {found.said(trend)}")
        raise typer.Exit(FAILED_RUN)
