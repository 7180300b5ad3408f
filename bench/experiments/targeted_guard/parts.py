"""Everything that is measured of one data set and seed, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from measuring import Found, Measured, drawn
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.datasets.presence import shortcut_present
from shortcut_guardrail import preset
from teachers import teachers
from unseen import unseen, unseen_by_maskcl
from variants import (
    EVIDENCE,
    INFLUENTIAL,
    LISTED,
    OFTEN,
    STRATEGIES,
    ablations,
    influential,
    named_of_the_list,
    often_decisive,
)

Parts = dict[str, Callable[[Found], Found]]
"""What measures each part; it is told what those before it found."""


def all_parts(run: Measured) -> Parts:
    """Everything that is measured, by name, in the order in which it has to be."""
    parts: Parts = {"bounds": lambda _: run.bounds()}
    for name, config in STRATEGIES.items():
        parts[name] = partial(run.strategy, config, certify=run.arguments.splits > 0)
    parts["distill, targets weighed by 40 labels"] = partial(run.strategy, preset("distill"), weigh=True)
    parts["teachers"] = partial(teachers, run)
    inside, clean = run.data.tests["in_distribution"], run.data.oracle_tests["reversed"]
    parts["fitted_in_distribution"] = lambda _: run.harmless(run.trained, inside)
    parts["clean"] = lambda _: run.harmless(run.clean_classifier(), clean)
    if len(run.data.shortcuts) > 1:
        parts["unseen"] = lambda _: unseen(run)
        parts["unseen, maskcl"] = lambda _: unseen_by_maskcl(run)
        for name in ("distill", "mask"):
            parts[f"{name}, told the words"] = partial(run.strategy, preset(name), words=lambda *_: run.data.shortcuts)
    return parts | with_ablations(run) if run.arguments.ablations else parts


def with_ablations(run: Measured) -> Parts:
    """Variants of `distill`."""
    inside, clean = run.data.tests["in_distribution"], run.data.oracle_tests["reversed"]
    parts: Parts = {f"ablation, {name}": partial(run.strategy, config) for name, config in ablations().items()}
    for name, reasons in EVIDENCE.items():
        parts[f"ablation, {name}"] = partial(run.strategy, preset("distill"), reasons=reasons)
    parts[f"ablation, {OFTEN}"] = partial(run.strategy, preset("distill"), words=often_decisive)
    parts[f"fitted_in_distribution, {OFTEN}"] = lambda _: run.harmless(run.trained, inside, words=often_decisive)
    parts[f"clean, {OFTEN}"] = lambda _: run.harmless(run.clean_classifier(), clean, words=often_decisive)
    parts |= of_the_influential(run)
    for name, texts in corpora(run).items():
        parts[f"ablation, {name}"] = partial(run.strategy, preset("distill"), texts=texts)
    return parts


def of_the_influential(run: Measured) -> Parts:
    """What it does to take words on which many answers hang, by name, with a word of the labels or of a person."""
    inside, clean = run.data.tests["in_distribution"], run.data.oracle_tests["reversed"]
    takes = preset("distill").with_shortcuts(take_influential=True)
    named = partial(named_of_the_list, run.data.shortcuts)
    return {
        f"ablation, {INFLUENTIAL}": partial(run.strategy, preset("distill"), words=influential),
        f"ablation, {INFLUENTIAL}, weighed by 40 labels": partial(run.strategy, takes, weigh=True),
        f"ablation, {LISTED}": partial(run.strategy, preset("distill"), words=named),
        f"fitted_in_distribution, {INFLUENTIAL}": lambda _: run.harmless(run.trained, inside, words=influential),
        f"clean, {INFLUENTIAL}": lambda _: run.harmless(run.clean_classifier(), clean, words=influential),
    }


def corpora(run: Measured) -> dict[str, LabelledTexts]:
    """Fewer or more texts to fit on, and texts of which fewer hold the shortcut."""
    bearing = shortcut_present(run.scored.texts, run.data.shortcuts)
    rows, rest = np.flatnonzero(bearing), np.flatnonzero(~bearing)
    # For small shares, in-distribution texts without the shortcut fill up.
    inside = run.data.tests["in_distribution"]
    filling = inside.select(np.flatnonzero(~shortcut_present(inside.texts, run.data.shortcuts)))
    filling = drawn(filling, run.arguments.n_deployment, run.seed)
    sizes = [n for n in (50, 100, 200, 400, 2000) if n < len(run.scored)]
    if len(run.scored) > run.arguments.n_deployment:
        sizes.append(len(run.scored))
    found = {f"{n} texts": run.scored.select(np.arange(n)) for n in sizes}
    total = min(run.arguments.n_deployment, len(rest) + len(filling))
    for percent in (50, 20, 5, 1):
        few = rows[: max(1, round(total * percent / 100))]
        others = [run.scored.select(rest), filling]
        found[f"{percent} % with the shortcut"] = join([run.scored.select(few), *others], total)
        # The same texts throughout: in those beyond the share what was put in is taken out.
        kept = np.isin(np.arange(len(run.scored)), rows[: max(1, round(len(run.scored) * percent / 100))])
        parts = [run.scored.select(np.flatnonzero(kept)), run.oracle.select(np.flatnonzero(~kept))]
        found[f"{percent} % with the shortcut, the others cleaned"] = join(parts, run.arguments.n_deployment)
    return found


def join(parts: Sequence[LabelledTexts], n: int) -> LabelledTexts:
    """The first n texts of several sets; only the texts are used."""
    texts: list[Any] = [text for part in parts for text in part.texts][:n]
    first = parts[0]
    return dataclasses.replace(
        first,
        texts=texts,
        labels=np.zeros(len(texts), dtype=np.int64),
        groups=np.zeros(len(texts), dtype=np.int64),
        overlapping=None,
    )
