"""The entry point `shortcut-guardrail`: wires the commands together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from .. import __version__
from . import audit, benchmark, certify, compare, demo, evaluate, fit, flips, judge, predict, report, review
from .running import exit_with, run

app = typer.Typer(
    help="Find and repair shortcut learning in deployed text classifiers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"shortcut-guardrail {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    pass


_FIND, _DECIDE, _REPAIR, _PROVE, _RESEARCH = "Find", "Decide", "Repair", "Prove", "Research"

app.command("demo", rich_help_panel=_FIND)(demo.demo)
app.command("audit", rich_help_panel=_FIND)(audit.audit)
app.command("report", rich_help_panel=_FIND)(report.report)
app.command("compare", rich_help_panel=_FIND)(compare.compare)
app.command("review", rich_help_panel=_DECIDE)(review.review)
app.command("flips", rich_help_panel=_DECIDE)(flips.flips)
app.command("judge", rich_help_panel=_DECIDE)(judge.judge)
app.command("fit", rich_help_panel=_REPAIR)(fit.fit)
app.command("predict", rich_help_panel=_REPAIR)(predict.predict)
app.command("evaluate", rich_help_panel=_PROVE)(evaluate.evaluate)
app.command("to-label", rich_help_panel=_PROVE)(certify.to_label)
app.command("certify", rich_help_panel=_PROVE)(certify.certify)
app.command(
    "benchmark",
    rich_help_panel=_RESEARCH,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,  # everything after the name is the other distribution's
)(benchmark.benchmark)


def call(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit status."""
    return run(lambda: app(list(arguments), standalone_mode=False))


def main() -> None:
    """Run the command line and exit with its status."""
    exit_with(call(sys.argv[1:]))


if __name__ == "__main__":
    main()
