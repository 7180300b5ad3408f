"""`shortcut-guardrail export`: from a repaired model to a folder that can be served without this library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from . import options
from .certify import load_guard


@options.command
def export(
    *,
    guard: options.Guarded,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="File with texts to compare predictions on.", show_default="made-up texts"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder to write.", show_default=False)],
    format: Annotated[
        Literal["merged", "onnx"],
        typer.Option(help="merged: a Transformers model. onnx: a file for ONNX Runtime, with tokenizer and labels."),
    ] = "merged",
    strength: Annotated[
        float | None, typer.Option(help="Strength of the repair, 0 to 1.", show_default="as fitted")
    ] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Also write model_int8.onnx, with 8-bit weights.")] = False,
    columns: options.Columns,
    loading: options.GuardLoading,
    output: options.Output,
) -> None:
    """Write a model that can be served without this library and without the original model.

    \b
    shortcut-guardrail export guarded --out merged
    shortcut-guardrail export guarded texts.csv --format onnx --int8 --out served

    The adapter is merged into the weights. Predictions are compared with the repaired model's on at least 64 texts,
    alone and in batches. If they differ by more than rounding, nothing is written.
    """
    from ..data import read_data
    from ..serving import EXPORT_FILE

    inputs = [data, *loading.read_from(guard)]
    output.check(options.Place(out, key=EXPORT_FILE), inputs=inputs)
    texts = None if data is None else read_data(data, **columns.given()).texts
    loaded = load_guard(guard, loading)
    made = loaded.export(out, format=format, texts=texts, strength=strength, int8=int8, overwrite=output.overwrite)
    parity = made.parity
    output.say(
        f"Written: {out} ({', '.join(f'{name}, {size / 1e6:.1f} MB' for name, size in made.sizes.items())}). "
        f"Compared with the repaired model on {parity.n_texts} texts, {parity.n_made_up} of them made up: same labels, "
        f"probabilities within {parity.largest_difference:.1g}."
    )
    if (small := made.int8) is not None:
        output.say(
            f"8-bit weights: same labels on {small.same_labels:.1%} of them, probabilities within "
            f"{small.largest_difference:.2g}, {small.relative_time:.2f} times the merged model's time on this machine."
        )
    output.finish(made.to_dict())
