"""`shortcut-guardrail predict`: label a file with the guarded model, the base model's label beside it."""

from __future__ import annotations

from typing import Any

from ..data import read_data, write_file
from . import options
from .rows import check_suffix, rendered


@options.command
def predict(
    *,
    model: options.ModelOrGuard,
    data: options.Data,
    out: options.OutRows,
    columns: options.Columns,
    loading: options.ModelOrGuardLoading,
    output: options.Output,
) -> None:
    """Label every text; one output row for each input row.

    Rows keep their order. Columns: label, probability, p_<name> for every label, and base_label, which is the label
    without the adapter.
    """
    from ..report import cut_note

    check_suffix(out)
    output.check(options.Place(out), inputs=[data, *loading.read_from(model)])
    texts = read_data(data, **columns.given())
    guard = loading.load(model)
    with output.progress() as progress:
        probs = guard.predict_proba(texts.texts, progress=progress)
        base_probs = probs
        if guard.is_fitted:
            base_probs = guard.predict_proba(
                texts.texts, strength=0, progress=lambda _stage, done, n: progress("Predicting, base model", done, n)
            )
    rows = _rows(guard.label_names, probs, base_probs)
    write_file(out, rendered(rows, out.suffix), overwrite=output.overwrite)
    changed = int((probs.argmax(1) != base_probs.argmax(1)).sum())
    n_truncated = guard.count_truncated(texts.texts)
    output.say(
        f"Written: {out} ({len(rows)} rows; {changed} labels differ from the base model's).{cut_note(n_truncated)}"
    )
    output.finish({"out": str(out), "n": len(rows), "n_changed": changed, "n_truncated": n_truncated})


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
