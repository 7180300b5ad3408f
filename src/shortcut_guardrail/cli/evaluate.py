"""`shortcut-guardrail evaluate`: score a model or a guarded folder on labelled texts."""

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
        Literal["text", "pair", "both"], typer.Option(help="Which side of a pair is searched.")
    ] = "text",
    top_k: options.TopK = 10,
    sensitivity: Annotated[
        str,
        typer.Option(
            metavar="all|N|none",
            help="On how many texts, drawn at random, MSTPS and shortcut token recall are measured.",
        ),
    ] = "500",
    seed: options.Seed = 0,
    columns: options.LabelledColumns,
    loading: options.ModelOrGuardLoading,
    output: options.Output,
) -> None:
    """Score a model on labelled texts, by label and shortcut.

    Prints accuracies with their 95 % intervals and, for a random sample of the texts, the sensitivity to single tokens
    (MSTPS) and how often a shortcut that is named is among the most important ones. Beside a folder that fit wrote
    stands its base model, for one more pass over the texts; of two classes also at the threshold at which it predicts
    each class as often as the repaired model does, for a second one.
    """
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
    guard = loading.load(model)
    labels = options.class_ids(rows, guard)
    with output.progress() as progress:
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
    if output.speaks:
        print_evaluations({**others, "guarded": result} if others else {"model": result})
    output.finish(result.to_dict() | {name: one.to_dict() for name, one in others.items()})


def _sensitivity_on(text: str) -> SensitivityOn:
    if text in ("all", "none"):
        return text  # type: ignore[return-value]
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise ConfigError(f"--sensitivity must be all, none or a positive number of texts, but is '{text}'.")
