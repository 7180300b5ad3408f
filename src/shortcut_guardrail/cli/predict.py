"""`shortcut-guardrail predict`: label a file with the guarded model, the base model's label beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import options
from .rows import check_suffix, rendered
from .running import progress_bars


def predict(
    model: options.ModelOrGuard,
    data: options.Data,
    out: Annotated[Path, typer.Option("--out", help="CSV, TSV or JSON Lines file to write.", show_default=False)],
    text_column: options.TextColumn = None,
    text_pair_column: options.TextPairColumn = None,
    base: options.Base = None,
    revision: options.Revision = None,
    head: options.Head = None,
    device: options.Device = None,
    batch_size: options.BatchSize = 32,
    max_length: options.MaxLength = None,
    precision: options.Precision = options.PrecisionChoice.float32,
    allow_pickle: options.AllowPickle = False,
    trust_remote_code: options.TrustRemoteCode = False,
    overwrite: options.Overwrite = False,
    debug: options.Debug = False,
) -> None:
    """Label every text; one output row for each input row.

    Rows keep their order. Columns: label, probability, p_<name> for every label, and base_label, which is the label
    without the adapter.
    """
    from ..data import check_output, read_data, write_file
    from ..report import cut_note

    check_suffix(out)
    check_output(out, overwrite=overwrite)
    options.check_spared(out, data)
    texts = read_data(data, text_column=text_column, text_pair_column=text_pair_column)
    guard = options.load_guard(
        model,
        device=device,
        head=head,
        precision=precision,
        base=base,
        revision=revision,
        batch_size=batch_size,
        max_length=max_length,
        allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
    )
    with progress_bars() as progress:
        probs = guard.predict_proba(texts.texts, progress=progress)
        base_probs = probs
        if guard.is_fitted:
            base_probs = guard.predict_proba(
                texts.texts, strength=0, progress=lambda _stage, done, n: progress("Predicting, base model", done, n)
            )
    rows = _rows(guard.label_names, probs, base_probs)
    write_file(out, rendered(rows, out.suffix), overwrite=overwrite)
    changed = int((probs.argmax(1) != base_probs.argmax(1)).sum())
    cut = cut_note(guard.count_truncated(texts.texts))
    print(f"Written: {out} ({len(rows)} rows; {changed} labels differ from the base model's).{cut}")


def _rows(names: tuple[str, ...], probs: Any, base_probs: Any) -> list[dict[str, Any]]:
    return [
        {
            "label": names[int(row.argmax())],
            "probability": round(float(row.max()), 6),
            **{f"p_{name}": round(float(p), 6) for name, p in zip(names, row, strict=True)},
            "base_label": names[int(base_row.argmax())],
        }
        for row, base_row in zip(probs, base_probs, strict=True)
    ]
