"""The entry point `shortcut-guardrail`: wires the commands together."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from . import audit, benchmark, certify, compare, demo, evaluate, fit, predict, report
from .running import exit_with, run

app = typer.Typer(
    help="Find and repair shortcut learning in deployed text classifiers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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


app.command("audit")(audit.audit)
app.command("fit")(fit.fit)
app.command("predict")(predict.predict)
app.command("to-label")(certify.to_label)
app.command("certify")(certify.certify)
app.command("evaluate")(evaluate.evaluate)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("demo")(demo.demo)
app.command(
    "benchmark",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,  # everything after the name is the other distribution's
)(benchmark.benchmark)


def main() -> None:
    """Run the command line and exit with its status."""
    exit_with(run(lambda: app(standalone_mode=False)))


if __name__ == "__main__":
    main()
