"""`shortcut-guardrail report`: show a stored audit again, as a page or in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options


@options.command
def report(
    *,
    audit: Annotated[Path, typer.Argument(metavar="AUDIT", help="An audit.json.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", help="HTML page to write.", show_default="only the table")
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Shortcut audit",
    redact: options.Redact = False,
    output: options.Output,
) -> None:
    """Show a stored audit again; no model is needed.

    Prints the table of candidates and, with --out, writes the page: one file that opens from disk and asks no other
    machine for anything.
    """
    from ..data import check_output, write_file
    from ..report import print_audit, read_audit, render_audit

    if out is not None:
        check_output(out, overwrite=output.overwrite)
        options.check_spared(out, audit)
    output.check(audit)
    document = read_audit(audit)
    if output.speaks:
        print_audit(document)
    if out is not None:
        write_file(out, render_audit(document, title=title, redact=redact), overwrite=output.overwrite)
        output.say(f"Written: {out}")
    output.finish(document)
