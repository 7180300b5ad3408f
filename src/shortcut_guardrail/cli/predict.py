"""`shortcut-guardrail predict`: label a file with the repaired model, the original model's label beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..data import read_data, write_file
from . import options
from .rows import check_suffix, rendered

if TYPE_CHECKING:
    from ..guardrail import ShortcutGuardrail
    from ..typing import Array


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
    """Label every text of a file.

    \b
    shortcut-guardrail predict guarded texts.csv --out predictions.csv

    Writes one row for each text, in the same order: label, probability, p_<name> for every label, and base_label, the
    original model's label. For a multi-label model: <name> (0 or 1), p_<name> and base_<name> for every label.
    """
    from ..models import joined, own_rank
    from ..report import cut_note

    check_suffix(out)
    output.check(options.Place(out), inputs=[data, *loading.read_from(model)])
    texts = read_data(data, **columns.given())
    with joined():
        guard = loading.load(model)
        several = guard.label is not None
        ask = guard.label_probabilities if several else guard.predict_proba
        with output.progress(quiet=own_rank() > 0) as progress:
            probs = ask(texts.texts, progress=progress)
            base_probs = probs
            if guard.is_fitted:
                base_probs = ask(
                    texts.texts,
                    strength=0,
                    progress=lambda _stage, done, n: progress("Predicting, original model", done, n),
                )
        if own_rank() > 0:
            return
    rows = (_several if several else _rows)(guard, probs, base_probs)
    write_file(out, rendered(rows, out.suffix), overwrite=output.overwrite)
    changed = sum(
        row[name] != row[f"base_{name}"] for row in rows for name in (guard.labels if several else ("label",))
    )
    n_truncated = guard.count_truncated(texts.texts)
    output.say(
        f"Written: {out} ({len(rows)} rows; {changed} labels differ from the original model's).{cut_note(n_truncated)}"
    )
    output.finish({"out": str(out), "n": len(rows), "n_changed": changed, "n_truncated": n_truncated})


def _rows(guard: ShortcutGuardrail, probs: Array, base_probs: Array) -> list[dict[str, Any]]:
    names = guard.label_names
    return [
        {
            "label": names[int(row.argmax())],
            "probability": round(float(row.max()), 6),
            **{f"p_{name}": round(float(p), 6) for name, p in zip(names, row, strict=True)},
            "base_label": names[int(base_row.argmax())],
        }
        for row, base_row in zip(probs, base_probs, strict=True)
    ]


def _several(guard: ShortcutGuardrail, probs: Array, base_probs: Array) -> list[dict[str, Any]]:
    own, base = probs > guard.thresholds, base_probs > guard.thresholds
    return [
        {
            **{name: int(has) for name, has in zip(guard.labels, own[i], strict=True)},
            **{f"p_{name}": round(float(p), 6) for name, p in zip(guard.labels, probs[i], strict=True)},
            **{f"base_{name}": int(has) for name, has in zip(guard.labels, base[i], strict=True)},
        }
        for i in range(len(probs))
    ]
