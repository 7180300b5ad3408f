"""What the numbers of a table are: backbone, rows, seeds, what was chosen how, and the machine, read off its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .collect import Collection
from .columns import row_range, rules_of

# Runs say which weights they started from, by the SHA-256 that `classifiers.Encoder` has, but not how many these are.
PARAMETERS = {"53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db": 22_713_216}
# The sets on which the paper has no more training rows than are at hand (its Table 8).
ROWS_OF_THE_PAPER = {"goemo-st": 1124, "goemo-syn": 1124}

Result = Mapping[str, Any]


def conditions(collection: Collection) -> tuple[str, ...]:
    """What a reader has to know before the numbers, line by line; the last says how the paper's differ, if it has any.

    Args:
        collection: The runs of a table.
    """
    lines = [_made_with(collection), _rows(collection), _choices(collection)]
    return (*lines, *([_beside_the_paper(collection)] if collection.experiment.rebuilds else []))


def _made_with(collection: Collection) -> str:
    seeds = ", ".join(map(str, collection.seeds)) + (" (not all in every row)" if collection.short_of_seeds else "")
    return (
        f"Backbone: {_distinct(collection, lambda result: [_encoder(result['config']['encoder'])])}. "
        f"Scale {collection.scale}, seeds {seeds}. Hardware: {_distinct(collection, _machines)}."
    )


def _encoder(encoder: Mapping[str, Any]) -> str:
    count = PARAMETERS.get(encoder["weights"])
    return f"{encoder['name']}{f' ({count / 1e6:.1f} million parameters)' if count else ''}"


def _machines(result: Result) -> list[str]:
    """The machine of a run; of merged folds each one."""
    found = []
    for machine in result.get("machines", [result["hardware"]]):
        counts = [f"{n} {name if n > 1 else name[:-1]}" for name in ("cores", "threads") if (n := machine.get(name))]
        found.append(", ".join([machine["processor"], *counts, machine["gpu"] or "no GPU"]))
    return found


def _rows(collection: Collection) -> str:
    """Training rows and tokens by setting; of the others the range."""
    train = _by_setting(collection, lambda result: [_count(result, "train")])
    dev = row_range(sorted({_count(run.result, "dev") for run in collection.runs}))
    scored = row_range(sorted({int(run.metrics["n"]) for run in collection.runs}))
    tokens = _by_setting(collection, lambda result: [result["config"]["data"]["max_tokens"]])
    return f"Training rows: {train}. Development rows: {dev}. Scored rows: {scored}. Texts cut to tokens: {tokens}."


def _choices(collection: Collection) -> str:
    """How the base's learning rate and the strength of debiasing were chosen, and with how many labels."""
    parts = [f"Learning rate of the base classifier: {_by_setting(collection, lambda result: [_rate(result)])}."]
    labels: dict[str, set[int]] = {}
    for cell in collection.cells:
        infos = [run.result["system"]["info"] for run in cell.runs.values()]
        infos = [info for info in infos if "debias_strength" in info]
        for rule in (rules_of(cell) or ("rule not recorded",)) if infos else ():
            labels.setdefault(rule, set()).update(info.get("labels_spent", 0) for info in infos)
    if labels:
        rules = (f"{rule} ({row_range(sorted(spent))} labels)" for rule, spent in labels.items())
        parts.append(f"Debiasing strength by: {'; '.join(rules)}.")
    return " ".join(parts)


def _rate(result: Result) -> str:
    base = result["config"]["base"]
    rates = [f"{rate:g}" for rate in base["learning_rates"]]
    if len(rates) == 1:
        return f"{rates[0]}, set beforehand"
    return f"{', '.join(rates)}, by the development loss of {'seed 0' if base['select'] == 'seed 0' else 'each seed'}"


def _beside_the_paper(collection: Collection) -> str:
    settings = {run.entry.setting for run in collection.runs}
    runs = [run for run in collection.runs if _count(run.result, "train") >= _rows_of_the_paper(run.result)]
    equal = list(dict.fromkeys(run.entry.setting for run in runs))
    rows = "more training rows"
    if equal:
        rows = "as many training rows" if len(equal) == len(settings) else f"{rows} (as many on {', '.join(equal)})"
    return f"The paper fine-tunes BERT-base (110 million parameters) on {rows}: compare trends, not digits."


def _rows_of_the_paper(result: Result) -> float:
    return ROWS_OF_THE_PAPER.get(result["config"]["data"]["name"], float("inf"))


# From runs to a text


def _count(result: Result, rows: str) -> int:
    return sum(result["data"]["counts"][rows].values())


def _distinct(collection: Collection, of: Callable[[Result], Iterable[str]]) -> str:
    """What is said of the runs, each once."""
    return "; ".join(dict.fromkeys(text for run in collection.runs for text in of(run.result)))


def _by_setting(collection: Collection, of: Callable[[Result], Iterable[Any]]) -> str:
    """What is said of the runs: once if it is the same everywhere, else with the settings of which it holds."""
    found: dict[str, set[Any]] = {}
    for run in collection.runs:
        found.setdefault(run.entry.setting, set()).update(of(run.result))
    settings: dict[str, list[str]] = {}
    for setting, values in found.items():
        # Numbers of rows are a range where seeds differ.
        numbers = all(isinstance(value, int) for value in values)
        shown = row_range(sorted(values)) if numbers else " or ".join(sorted(values))
        settings.setdefault(shown, []).append(setting)
    if len(settings) == 1:
        return next(iter(settings))
    return "; ".join(f"{shown} ({', '.join(names)})" for shown, names in settings.items())
