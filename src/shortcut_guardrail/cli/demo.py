"""`shortcut-guardrail demo`: see the whole thing work, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .running import progress_bars


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for report.html and metrics.json.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option(help="Decides corpus, classifier and adapter.", min=0)] = 0,
    device: options.Device = None,
    overwrite: options.Overwrite = False,
    debug: options.Debug = False,
) -> None:
    """Plant a shortcut in a classifier, find it, repair it.

    Fine-tunes a small encoder on made-up reviews with a planted shortcut word, audits it, trains an adapter on
    unlabelled texts, chooses its strength and compares base and guarded model. No network is needed.
    """
    from ..data import check_output
    from ..demo import run_demo, write_demo
    from ..report import print_repair

    check_output(out, overwrite=overwrite, folder=True)
    options.check_device(device)
    with progress_bars() as progress:
        result = run_demo(seed=seed, device=device, progress=progress)
    write_demo(result, out, overwrite=overwrite)
    print_repair(
        result.evaluations,
        result.audits,
        result.calibration,
        shortcut=result.corpus.shortcut,
        seconds=sum(result.seconds.values()),
    )
    print(f"Written: {out / 'report.html'} and {out / 'metrics.json'}; beside them the biased model and its files.")
