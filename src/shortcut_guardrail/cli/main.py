"""The entry point `shortcut-guardrail`: wires the commands together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from .. import __version__
from . import (
    audit,
    benchmark,
    certify,
    compare,
    decide,
    demo,
    evaluate,
    export,
    fit,
    history,
    predict,
    questions,
    report,
    review,
)
from .help import Command
from .running import collect_rarely, exit_with, run

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


_COMMANDS = {
    "Find": (demo.demo, audit.audit, report.report, compare.compare, history.history),
    "Decide": (review.review, questions.questions, decide.decide),
    "Repair": (fit.fit, predict.predict),
    "Prove": (evaluate.evaluate, certify.to_label, certify.certify),
    "Serve": (export.export,),
}
for _panel, _commands in _COMMANDS.items():
    for _command in _commands:
        app.command(cls=Command, rich_help_panel=_panel)(_command)
app.command(
    rich_help_panel="Research",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,  # everything after the name is the other distribution's
)(benchmark.benchmark)
_COMMAND = typer.main.get_command(app)  # once: it reads the options of all commands


def call(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit status."""
    return run(lambda: _COMMAND(list(arguments), standalone_mode=False))


def main() -> None:
    """Run the command line and exit with its status."""
    collect_rarely()
    exit_with(call(sys.argv[1:]))


if __name__ == "__main__":
    main()
