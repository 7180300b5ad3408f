"""`shortcut-guardrail demo`: see the whole thing work, without a network."""

from __future__ import annotations

import json
import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TextIO

import typer

from . import options


@options.command
def demo(
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for report.html and metrics.json.")] = Path("demo-output"),
    seed: options.Seed = 0,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1, ...", show_default="a GPU where there is one")
    ] = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Do not show the report in a browser, as on a desktop.")
    ] = False,
    output: options.Output,
) -> None:
    """Plant a shortcut in a classifier, find it, repair it.

    Fine-tunes a small encoder on made-up reviews with a planted shortcut word, audits it, repairs it from unlabelled
    texts, and by the paper's method, and compares the three. No network is needed.
    """
    from ..demo import METRICS_FILE, SHORTCUT, run_demo, write_demo
    from ..report import print_repair

    output.check(options.Place(out, key=METRICS_FILE), inputs=())
    options.check_device(device)
    with output.progress() as progress:
        result = run_demo(seed=seed, device=device, progress=progress)
    write_demo(result, out, overwrite=output.overwrite)
    if output.speaks:
        print_repair(
            result.evaluations,
            result.in_distribution,
            result.audits,
            result.repairs,
            shortcut=SHORTCUT,
            found=result.found,
            seconds=sum(result.seconds.values()),
        )
    output.say(f"Report: {out / 'report.html'}\n{_NEXT}")
    if output.speaks and not no_open and on_desktop(sys.stdout, os.environ, sys.platform):
        webbrowser.open((out / "report.html").resolve().as_uri())
    output.finish(json.loads((out / METRICS_FILE).read_text(encoding="utf-8")))


_NEXT = """Next, with a model and texts of your own, no labels needed:
  shortcut-guardrail audit MODEL texts.csv --out audit
  shortcut-guardrail fit MODEL texts.csv --out guarded"""


def on_desktop(stream: TextIO, environment: Mapping[str, str], platform: str) -> bool:
    """Whether somebody sits in front of a screen that can show a page.

    Args:
        stream: Where output goes.
        environment: The environment variables.
        platform: As `sys.platform` has it.
    """
    if not stream.isatty() or environment.get("CI"):
        return False
    has_display = bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))
    return has_display or (platform in ("darwin", "win32") and not environment.get("SSH_CONNECTION"))
