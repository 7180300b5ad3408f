"""What experiments outside the runner share (`bench/experiments/`): their options, and a results file that grows.

Such an experiment writes one JSON file. An entry of it is what one case gave, such as one setting and seed. The file is
whole at any time. A command that is called again measures the cases that are not there yet.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_guardrail.data import to_json, write_file
from shortcut_guardrail.guardrail import ShortcutGuardrail

from .bases import OpenedSetting, open_setting
from .datasets import LabelledTexts
from .store import dense_json

ASKED = "asked"
"""The key in a results file under which the options stand that its entries were measured with."""

Case = Mapping[str, Any]
"""What tells one entry from the others, by its keys in the file."""


def finished(file: Path, asked: Mapping[str, Any], entries: str) -> list[dict[str, Any]]:
    """The entries that an earlier call wrote; none where there is no file.

    Args:
        file: The results file.
        asked: The options on which all entries depend. They have to be the same.
        entries: The key of the list of entries.

    Raises:
        SystemExit: The file was written with other options, or by a version that did not write them down.
    """
    if not file.exists():
        return []
    content = json.loads(file.read_text(encoding="utf-8"))
    found, wanted = content.get(ASKED, {}), _as_json(asked)
    if found != wanted:
        raise SystemExit(
            f"{file} was begun with the options {found}, but these are {wanted}. Choose another --out, or delete it."
        )
    kept: list[dict[str, Any]] = content[entries]
    return kept


def grow(
    file: Path,
    cases: Iterable[Case],
    measure: Callable[..., Mapping[str, Any]],
    *,
    asked: Mapping[str, Any],
    entries: str = "results",
    beside: Callable[[list[dict[str, Any]]], Mapping[str, Any]] = lambda _: {},
) -> Iterator[dict[str, Any]]:
    """Measures the cases that the file does not hold, and writes it whole after each.

    It works as it is iterated over.

    Args:
        file: The results file.
        cases: The cases that are wanted.
        measure: Takes a case as keyword arguments, and gives what was found as JSON types.
        asked: The options on which all entries depend, apart from their cases.
        entries: The key of the list of entries.
        beside: From all entries to what else stands in the file.

    Yields:
        Each new entry: the case, and what was found.

    Raises:
        SystemExit: The file was written with other options.
        RunError: The file cannot be written.
    """
    found = finished(file, asked, entries)
    for case in map(_as_json, cases):
        if any(all(entry.get(key) == value for key, value in case.items()) for entry in found):
            continue
        found.append({**case, **measure(**case)})
        write_file(file, dense_json({ASKED: asked, **beside(found), entries: found}), overwrite=True)
        yield found[-1]


def settings_parser(
    description: str | None, *, settings: Sequence[str], seeds: Sequence[int], draws: int | None = None
) -> argparse.ArgumentParser:
    """The options of an experiment in settings of the benchmark.

    Args:
        description: The experiment's docstring.
        settings: The settings unless others are asked for, as EXPERIMENT/SETTING/TEST.
        seeds: The seeds unless others are asked for.
        draws: How many support sets it draws at random unless another number is asked for; `None` where it draws none.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    parser.add_argument("--cache", type=Path, default=Path("results/.cache"), help="Classifiers that runs share.")
    parser.add_argument("--settings", nargs="+", default=settings, help="EXPERIMENT/SETTING/TEST of the benchmark.")
    parser.add_argument("--seeds", type=int, nargs="+", default=seeds)
    if draws is not None:
        parser.add_argument("--draws", type=int, default=draws, help="Random support sets.")
    return parser


def settings_cases(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The cases that the options of `settings_parser` ask for: every setting with every seed."""
    return [{"setting": setting, "seed": seed} for setting in arguments.settings for seed in arguments.seeds]


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = json.loads(to_json(dict(values)))
    return converted


def open_rows(
    setting: str, seed: int, arguments: argparse.Namespace, *, at_most: int
) -> tuple[OpenedSetting, Callable[[], ShortcutGuardrail], LabelledTexts]:
    """A setting, guards around its trained classifier, one a call, and its test rows in random order, so many at most.

    Args:
        setting: As EXPERIMENT/SETTING/TEST; the test `clean` is the reversed one without the shortcut, and the
            classifier never saw it.
        arguments: With `data_dir` and `cache`, as `settings_parser` gives them.
    """
    experiment, name, test = setting.split("/")
    where = {"data_dir": arguments.data_dir, "cache": arguments.cache}
    opened = open_setting(experiment, name, seed, **where, changes={"n_test": None})
    trained = opened.train(opened.data.clean_train if test == "clean" else None)
    rows = opened.data.oracle_tests["reversed"] if test == "clean" else opened.data.tests[test]

    def guard() -> ShortcutGuardrail:
        return ShortcutGuardrail(
            trained.model, trained.tokenizer, max_length=trained.max_length, batch_size=64, precision="auto"
        )

    return opened, guard, rows.select(np.random.default_rng(seed).permutation(len(rows))[:at_most])
