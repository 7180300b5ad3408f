"""`shortcut-guardrail demo`: see the whole thing work, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .running import progress_bars


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for report.html and metrics.json.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option(help="Decides corpus, classifier and adapter.")] = 0,
    device: options.Device = None,
    overwrite: options.Overwrite = False,
    debug: options.Debug = False,
) -> None:
    """Fine-tune a classifier on made-up reviews with a planted shortcut, audit it, repair it, compare."""
    from ..demo.run import run_demo, write_demo
    from ..report.terminal import print_demo
    from ..storage import check_output

    check_output(out, overwrite=overwrite)
    options.check_device(device)
    with progress_bars() as progress:
        result = run_demo(seed=seed, device=device, progress=progress)
    write_demo(result, out, overwrite=overwrite)
    print_demo(result)
    print(f"Written: {out / 'report.html'} and {out / 'metrics.json'}")
