"""`shortcut-guardrail demo`: see the whole thing work, without a network."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from ..data import counted
from . import options

if TYPE_CHECKING:
    from ..demo import DemoResult
    from ..evaluation import Evaluation
    from ..mitigation import Repair


@options.command
def demo(
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for report.html and metrics.json.")] = Path("demo-output"),
    seed: options.Seed = 0,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1, ...", show_default="a GPU where there is one")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the report in a browser.")] = False,
    output: options.Output,
) -> None:
    """See it work on made-up reviews: plant a shortcut, find it, repair it.

    Fine-tunes a small encoder on reviews with a planted shortcut word, audits it, repairs it with unlabelled texts and
    by the paper's method, and compares the three models. No network is needed.
    """
    from ..demo import METRICS_FILE, run_demo, write_demo

    output.check(options.Place(out, key=METRICS_FILE), inputs=())
    options.check_device(device)
    with output.progress() as progress:
        result = run_demo(seed=seed, device=device, progress=progress)
    write_demo(result, out, overwrite=output.overwrite)
    if output.speaks:
        show(result)
    output.say(f"Report: {out / 'report.html'}\n{_NEXT}")
    if output.speaks and not no_open and on_desktop(sys.stdout, os.environ, sys.platform):
        webbrowser.open((out / "report.html").resolve().as_uri())
    output.finish(result.to_dict())


_NEXT = """Next, with a model and texts of your own, no labels needed:
  shortcut-guardrail audit MODEL texts.csv --out audit
  shortcut-guardrail fit MODEL texts.csv --out guarded"""


def show(result: DemoResult) -> None:
    """The planted shortcut before and after, one column for each model."""
    from rich.text import Text

    from ..demo import SHORTCUT
    from ..display import Screen, interval, number
    from ..report import new_table

    table = new_table("", *result.evaluations)

    def scores(heading: str, models: Mapping[str, Evaluation]) -> None:
        table.add_row(f"{heading}, {models['original'].n:,} texts")
        table.add_row("  accuracy", *(number(model.accuracy) for model in models.values()))
        table.add_row("  always the same label", *(number(model.majority_accuracy) for model in models.values()))

    scores("shortcut reversed", result.evaluations)
    worst = [model.worst_group for model in result.evaluations.values()]
    table.add_row("  worst group", *(number(group.accuracy if group else None) for group in worst))
    table.add_row("    95 % interval", *(interval(*group.interval) if group else "-" for group in worst))
    table.add_row("    which", *(group.name.replace(", ", ",\n") if group else "-" for group in worst))
    table.add_row("    texts in it", *(str(group.n) if group else "-" for group in worst))
    scores("shortcut as in training", result.in_distribution)
    words = ("\n".join(candidate.text for candidate in audit.candidates[:3]) for audit in result.audits.values())
    table.add_row("words it depends on most", *(Text(words) for words in words))
    table.add_row("repaired with", *(_repaired_with(result.repairs.get(name)) for name in result.evaluations))
    console = Screen()
    console.print(f"Planted shortcut: {SHORTCUT}. {result.found}")
    console.print(table)
    console.print(
        "All texts are synthetic. None that is scored was used for training or settings. "
        f"{sum(result.seconds.values()):.0f} s."
    )


def _repaired_with(repair: Repair | None) -> str:
    if repair is None:
        return "-"
    labels = 0 if repair.choice.calibration is None else repair.choice.calibration.n
    steps = repair.fitted.training.n_steps
    return f"{counted(labels, 'label')},\n{counted(steps, 'step')},\nstrength {repair.choice.strength:g}"


def on_desktop(stream: TextIO, environment: Mapping[str, str], platform: str) -> bool:
    """Whether somebody sits in front of a screen that can show a page."""
    if not stream.isatty() or environment.get("CI"):
        return False
    has_display = bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))
    return has_display or (platform in ("darwin", "win32") and not environment.get("SSH_CONNECTION"))
