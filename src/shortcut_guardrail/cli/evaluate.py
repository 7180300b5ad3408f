"""`shortcut-guardrail evaluate`: score a model, or a repaired one beside the original, on labelled texts."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..config import SaliencyConfig
from ..data import read_data
from ..errors import ConfigError, GuardrailWarning
from ..text import check_words
from . import options

if TYPE_CHECKING:
    from ..evaluation import SensitivityOn


@options.command
def evaluate(
    *,
    model: options.ModelOrGuard,
    data: options.Data,
    shortcuts: options.Shortcuts,
    shortcut_in: Annotated[
        Literal["text", "pair", "both"],
        typer.Option(help="Which text of a pair is searched.", rich_help_panel="Settings"),
    ] = "text",
    top_k: options.TopK = 10,
    sensitivity: Annotated[
        str,
        typer.Option(metavar="all|N|none", help="Random sample for MSTPS and recall.", rich_help_panel="Settings"),
    ] = "500",
    seed: options.Seed = 0,
    columns: options.LabelledColumns,
    loading: options.ModelOrGuardLoading,
    output: options.Output,
) -> None:
    """Score a model on labelled texts, by label and shortcut.

    \b
    shortcut-guardrail evaluate guarded labelled.csv --shortcut book

    Prints the accuracy of each group (label, with or without the shortcut) with 95 % intervals, and the sensitivity to
    single tokens (MSTPS). For a folder that fit wrote, the original model stands beside it. If there are two classes,
    so does the original model with its threshold shifted until it predicts each class as often as the repaired one.
    """
    from ..models import joined, own_rank
    from ..report import print_evaluations

    words = shortcuts.words()
    if words:
        check_words(words)
    output.check(inputs=[data, shortcuts.shortcuts_file, *loading.read_from(model)])
    SaliencyConfig(top_k=top_k)
    measured_on = _sensitivity_on(sensitivity)
    rows = read_data(data, **columns.given(), label=loading.label_of(model), require_labels=True)
    if shortcut_in != "text" and isinstance(rows.texts[0], str):
        raise ConfigError(f"--shortcut-in {shortcut_in} needs text pairs, but {rows.source} has single texts.")
    with joined():
        guard = loading.load(model)
        labels = options.class_ids(rows, guard)
        with output.progress(quiet=own_rank() > 0) as progress:
            score = partial(
                guard.evaluate,
                rows.texts,
                labels,
                shortcuts=words,
                shortcut_in=shortcut_in,
                top_k=top_k,
                seed=seed,
                progress=progress,
            )
            result = score(sensitivity=measured_on)
            others = {"base": result} if guard.is_fitted else {}
            if guard.is_fitted and guard.debias_strength != 0:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", GuardrailWarning)  # it would be said twice
                    others["base"] = score(strength=0, sensitivity="none")
                    if len(guard.label_names) == 2:
                        others["shifted"] = score(strength=0, sensitivity="none", like=result)
        if own_rank() > 0:
            return
    if output.speaks:
        names = {"base": "original", "shifted": "shifted"}
        beside = {names[name]: one for name, one in others.items()}
        print_evaluations({**beside, "repaired": result} if others else {"model": result})
    output.finish(result.to_dict() | {name: one.to_dict() for name, one in others.items()})


def _sensitivity_on(text: str) -> SensitivityOn:
    if text in ("all", "none"):
        return text  # type: ignore[return-value]
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise ConfigError(f"--sensitivity must be all, none or a positive number of texts, but is '{text}'.")
