"""`shortcut-guardrail report`: show a stored audit again, as a page or in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..data import write_file
from ..errors import ConfigError
from . import options


@options.command
def report(
    *,
    audit: Annotated[Path, typer.Argument(metavar="AUDIT", help="An audit.json.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="HTML page to write.", show_default="only the table")] = None,
    decisions: options.DecisionsFile = None,
    redact: options.Redact = False,
    output: options.Output,
) -> None:
    """Show a stored audit again; no model is needed.

    \b
    shortcut-guardrail report audit/audit.json --decisions decisions.json --out report.html

    Prints the tables and, with --out, writes the page: one file that works without a network.
    """
    from ..decisions import AuditedCards, Decisions
    from ..report import print_audit, print_decisions, render_audit
    from ..saving import read_audit

    output.check(options.Place(out, options.HTML_ENDINGS), inputs=[audit, decisions])
    document = read_audit(audit)
    decided = None if decisions is None else Decisions.from_file(decisions)
    if decided is not None and decided.audit not in (None, AuditedCards.from_dict(document, source=str(audit)).id):
        raise ConfigError(
            f"'{decisions}' is about another audit than '{audit}'. Give the audit that the decisions are about."
        )
    if output.speaks:
        print_audit(document)
        if decided is not None:
            print_decisions(decided)
    if out is not None:
        write_file(out, render_audit(document, redact=redact, decisions=decided), overwrite=output.overwrite)
        output.say(f"Written: {out}")
    output.finish(document)
