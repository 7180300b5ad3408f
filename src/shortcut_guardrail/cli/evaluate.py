"""`shortcut-guardrail evaluate`: score a model or a guarded folder on labelled texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .running import progress_bars


def evaluate(
    model: options.ModelOrGuard,
    data: options.Data,
    shortcut: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="A shortcut word or phrase; repeat for more.")
    ] = None,
    shortcuts_file: Annotated[Path | None, typer.Option(help="Shortcuts, one a line.")] = None,
    shortcut_in: Annotated[
        options.ShortcutInChoice, typer.Option(help="Which side of a pair is searched.")
    ] = options.ShortcutInChoice.text,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the scores to this file.")] = None,
    text_column: options.TextColumn = None,
    text_pair_column: options.TextPairColumn = None,
    label_column: options.LabelColumn = None,
    top_k: options.TopK = 10,
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
    """Score a model on labelled texts, by label and shortcut.

    Prints accuracies with their 95 % intervals, the sensitivity to single tokens (MSTPS) and, where shortcuts are
    named, how often one is among the most important tokens.
    """
    from ..data import check_output, label_ids, read_data, to_json, write_file
    from ..errors import ConfigError
    from ..report import print_evaluations
    from ..text import ShortcutMatcher, read_shortcuts_file

    shortcuts = [*(shortcut or []), *(read_shortcuts_file(shortcuts_file) if shortcuts_file else [])]
    if shortcuts:
        ShortcutMatcher.from_words(shortcuts)
    if json_file is not None:
        check_output(json_file, overwrite=overwrite)
        options.check_spared(json_file, data, shortcuts_file)
    rows = read_data(
        data,
        text_column=text_column,
        text_pair_column=text_pair_column,
        label_column=label_column,
        require_labels=True,
    )
    if shortcut_in is not options.ShortcutInChoice.text and isinstance(rows.texts[0], str):
        raise ConfigError(f"--shortcut-in {shortcut_in.value} needs text pairs, but {rows.source} has single texts.")
    guard = options.load_guard(
        model,
        device=device,
        head=head,
        precision=precision,
        top_k=top_k,
        base=base,
        revision=revision,
        batch_size=batch_size,
        max_length=max_length,
        allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
    )
    assert rows.labels is not None
    labels = label_ids(rows.labels, guard.label_names, source=rows.source, rows=rows.rows, row_word=rows.row_word)
    with progress_bars() as progress:
        result = guard.evaluate(
            rows.texts, labels, shortcuts=shortcuts, shortcut_in=shortcut_in.value, top_k=top_k, progress=progress
        )
    if json_file is not None:
        write_file(json_file, to_json(result.to_dict()), overwrite=overwrite)
    print_evaluations({"guarded" if guard.is_fitted else "model": result})
    if json_file is not None:
        print(f"Written: {json_file}")
