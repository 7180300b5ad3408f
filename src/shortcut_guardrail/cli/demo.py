"""`shortcut-guardrail demo`: see the whole thing work, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

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
    output: options.Output,
) -> None:
    """Plant a shortcut in a classifier, find it, repair it.

    Fine-tunes a small encoder on made-up reviews with a planted shortcut word, audits it, trains an adapter on
    unlabelled texts, chooses its strength and compares base and guarded model. No network is needed.
    """
    from ..data import check_output
    from ..demo import run_demo, write_demo
    from ..report import print_repair

    check_output(out, overwrite=output.overwrite, folder=True)
    output.check()
    options.check_device(device)
    with output.progress() as progress:
        result = run_demo(seed=seed, device=device, progress=progress)
    write_demo(result, out, overwrite=output.overwrite)
    if output.speaks:
        print_repair(
            result.evaluations,
            result.audits,
            result.calibration,
            shortcut=result.corpus.shortcut,
            seconds=sum(result.seconds.values()),
        )
    output.say(
        f"Written: {out / 'report.html'} and {out / 'metrics.json'}; beside them the biased model and its files."
    )
    output.finish(json.loads((out / "metrics.json").read_text(encoding="utf-8")))
