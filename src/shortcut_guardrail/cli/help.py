"""The help of a command: options that few people need are named in a line until `--help-all` asks for them."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text
from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose `--help` explains the options outside panels, and only names those of each panel."""

    shows_all = False

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters. A switch takes no value, so no type is shown for it."""
        found = super().get_params(ctx)
        for one in found:
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help as tables."""
        panels: dict[str, list[Any]] = {}
        for one in [] if self.shows_all else self.params:
            if panel := getattr(one, "rich_help_panel", None):
                panels.setdefault(panel, []).append(one)
        rare = [one for options in panels.values() for one in options]
        for one in rare:
            one.hidden = True
        super().format_help(ctx, formatter)
        for one in rare:
            one.hidden = False
        console = Console(highlight=False)
        for panel, options in panels.items():
            names = Text(", ".join(one.opts[0] for one in options), style="cyan")
            console.print(Padding(Text(f"{panel}: ", style="bold").append(names), (0, 1)))
        if panels:
            console.print(Padding(f"These are explained by {ctx.command_path} --help-all.", (0, 1, 1, 1)))


def _show_all(ctx: typer.Context, value: bool) -> None:
    if value:
        assert isinstance(ctx.command, Command)
        ctx.command.shows_all = True
        print(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[bool, typer.Option("--help-all", help="Explain all options.", is_eager=True, callback=_show_all)]
"""A switch that `options.command` adds to commands with options in panels."""
