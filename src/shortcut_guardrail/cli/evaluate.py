"""`shortcut-guardrail evaluate`: score a model or a guarded folder on labelled texts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from . import options


class ShortcutInChoice(StrEnum):
    """Which side of a pair is searched."""

    text = "text"
    pair = "pair"
    both = "both"


@options.command
def evaluate(
    *,
    model: options.ModelOrGuard,
    data: options.Data,
    shortcuts: options.Shortcuts,
    shortcut_in: Annotated[
        ShortcutInChoice, typer.Option(help="Which side of a pair is searched.")
    ] = ShortcutInChoice.text,
    top_k: options.TopK = 10,
    columns: options.LabelledColumns,
    loading: options.ModelOrGuardLoading,
    output: options.Output,
) -> None:
    """Score a model on labelled texts, by label and shortcut.

    Prints accuracies with their 95 % intervals, the sensitivity to single tokens (MSTPS) and, where shortcuts are
    named, how often one is among the most important tokens.
    """
    from ..config import SaliencyConfig
    from ..data import label_ids, read_data
    from ..errors import ConfigError
    from ..report import print_evaluations
    from ..text import check_words

    words = shortcuts.words()
    if words:
        check_words(words)
    output.check(data, shortcuts.shortcuts_file)
    SaliencyConfig(top_k=top_k)
    rows = read_data(data, **columns.given(), require_labels=True)
    if shortcut_in is not ShortcutInChoice.text and isinstance(rows.texts[0], str):
        raise ConfigError(f"--shortcut-in {shortcut_in.value} needs text pairs, but {rows.source} has single texts.")
    guard = loading.load(model)
    assert rows.labels is not None
    labels = label_ids(rows.labels, guard.label_names, source=rows.source, rows=rows.rows, row_word=rows.row_word)
    with output.progress() as progress:
        result = guard.evaluate(
            rows.texts, labels, shortcuts=words, shortcut_in=shortcut_in.value, top_k=top_k, progress=progress
        )
    if output.speaks:
        print_evaluations({"guarded" if guard.is_fitted else "model": result})
    output.finish(result.to_dict())
