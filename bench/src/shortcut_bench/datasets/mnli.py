"""MultiNLI, with negation words in the hypothesis as the shortcut; as it is, and sampled to a shortcut strength."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shortcut_guardrail.errors import ConfigError

from .controlled import sampled_sets
from .options import BuildOptions
from .presence import grouped, shortcut_present
from .reading import Rows, data_files, read_rows
from .sampling import Ids, split_sizes, stratified
from .strength import Reading
from .types import BenchmarkData, DataCard, LabelledTexts

NAME, CONTROLLED_NAME = "mnli", "mnli-controlled"
LABEL_NAMES = ("entailment", "neutral", "contradiction")
SHORTCUTS = ("nobody", "no", "never", "nothing")
WHAT = "a negation"
ORDER = ("neutral", "entailment", "contradiction")
"""From the label that has the shortcut least to the one that has it most, the only order that fits the paper's text."""
FOLDER, FILES = "mnli", ("mnli_train.csv", "mnli_test.csv")
HUB_NAME, HUB_SPLITS = "nyu-mll/multi_nli", ("train", "validation_matched")
FOLDS = 5


@dataclass(frozen=True, eq=False)
class _Split:
    """Rows to train on, with their premises before any cut, and rows to test on.

    From files they are folds of one pool, without a premise in common.
    """

    rest: LabelledTexts
    premises: list[str]
    test: LabelledTexts
    rng: np.random.Generator
    settings: dict[str, Any]


def build_mnli(options: BuildOptions, *, fold: int = 0, n_folds: int = FOLDS) -> BenchmarkData:
    """Builds MultiNLI as it is, with groups by label and negation in the hypothesis.

    From files, all pairs are pooled and cut into folds that share no premise: `fold` is the test set, the other folds
    are for training and development. Running all folds with one seed tests on every pair once. From the Hub, the
    matched development set is the test set, and `fold` must be 0.

    Args:
        options: See `build`.
        fold: Which fold is tested on, in [0, n_folds).
        n_folds: Number of folds, at least 2.

    Raises:
        ConfigError: There is no such fold.
        DataError: Files are missing, or there are fewer rows than asked for.
    """
    split = _read(options, fold, n_folds)
    train_at, dev_at = _train_and_dev(split, options.n_train)
    test = split.test
    if options.n_test is not None:
        test = test.select(stratified(test.groups, options.n_test, split.rng))
    train, dev = split.rest.select(train_at), split.rest.select(dev_at)
    return BenchmarkData(
        name=NAME,
        train=replace(train, name="train"),
        dev=replace(dev, name="dev"),
        tests={"test": replace(test, name="test")},
        oracle_tests={},
        clean_train=None,
        shortcuts=SHORTCUTS,
        card=_card(options),
        settings=split.settings | {"n_train": len(train), "n_dev": len(dev), "n_test": len(test)},
    )


def build_mnli_controlled(
    options: BuildOptions, *, strength: float = 1.0, reading: Reading = "paper", fold: int = 0, n_folds: int = FOLDS
) -> BenchmarkData:
    """Builds MultiNLI sampled by group, so that negation goes with contradiction to a chosen degree.

    Args:
        options: See `build`.
        strength: Shortcut strength (the paper's lambda), in [0, 1].
        reading: What a strength below 1 means; see `strength.occurrence_probabilities`.
        fold: As for `build_mnli`.
        n_folds: As for `build_mnli`.

    Raises:
        ConfigError: The strength, the reading or the fold is not one.
        DataError: Files are missing, or some group has too few rows.
    """
    split = _read(options, fold, n_folds)
    sets, settings = sampled_sets(options, split.rest, split.test, order=ORDER, strength=strength, reading=reading)
    return BenchmarkData(
        name=CONTROLLED_NAME,
        **sets,
        oracle_tests={},
        clean_train=None,
        shortcuts=SHORTCUTS,
        card=_card(options, controlled=True),
        settings=split.settings | settings,
    )


def _read(options: BuildOptions, fold: int, n_folds: int) -> _Split:
    if n_folds < 2 or not 0 <= fold < n_folds:
        raise ConfigError(
            f"n_folds must be at least 2 and fold lie in 0 to n_folds - 1, but they are {n_folds} and {fold}."
        )
    rng = options.generator()
    if options.data_dir is None:
        if fold:
            raise ConfigError(f"fold is {fold}, but the Hub's MultiNLI has a test set of its own; leave fold out.")
        rows, test_rows = (_read_pairs(HUB_NAME, split) for split in HUB_SPLITS)
        settings = options.to_dict() | {"fold": None, "n_folds": None}
        return _Split(_grouped(rows, options), _premises(rows), _grouped(test_rows, options), rng, settings)
    rows = Rows.concatenate([_read_pairs(path) for path in data_files(options.data_dir, FOLDER, FILES)])
    pool = _grouped(rows, options)
    rest, test = _fold(pool.groups, _premises(rows), fold, n_folds, rng)
    settings = options.to_dict() | {"fold": fold, "n_folds": n_folds}
    return _Split(pool.select(rest), _premises(rows.take(rest)), pool.select(test), rng, settings)


def _read_pairs(source: str | Path, split: str | None = None) -> Rows:
    return read_rows(source, ("0", "1", "2"), text="premise", text_pair="hypothesis", split=split)


def _premises(rows: Rows) -> list[str]:
    return [text[0] for text in rows.texts]


def _grouped(rows: Rows, options: BuildOptions) -> LabelledTexts:
    capped = rows.with_texts(options.cap(rows.texts))
    return grouped("pool", capped, shortcut_present(capped.texts, SHORTCUTS, side="second"), LABEL_NAMES, WHAT)


def _fold(strata: Ids, premises: Sequence[str], fold: int, n_folds: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """Positions of the other folds' rows and of this fold's: each group spread evenly, each premise in one fold."""
    from sklearn.model_selection import StratifiedGroupKFold

    folds = StratifiedGroupKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
    rest, test = list(folds.split(strata, strata, premises))[fold]
    return rest.astype(np.int64), test.astype(np.int64)


def _train_and_dev(split: _Split, n_train: int | None) -> tuple[Ids, Ids]:
    """Training and development rows without a premise in common, about ten to one."""
    strata = split.rest.groups
    n_train, n_dev = split_sizes(len(strata), n_train)
    distinct, premise_of = np.unique(split.premises, return_inverse=True)
    order = split.rng.permutation(len(distinct))
    size = np.cumsum(np.bincount(premise_of)[order])
    held_out = order[: int(np.searchsorted(size, n_dev)) + 1]
    dev = np.flatnonzero(np.isin(premise_of, held_out))
    rest = np.flatnonzero(~np.isin(premise_of, held_out))
    n_train = min(n_train, len(rest))
    return rest[stratified(strata[rest], n_train, split.rng)], dev


def _card(options: BuildOptions, controlled: bool = False) -> DataCard:
    local = options.data_dir is not None
    notes = ["A shortcut counts in the hypothesis only; the paper does not say where it counts."]
    if local:
        notes.append(
            "The pairs are those of the matched development set: training and test sets are folds of these, without a "
            "premise in common. The paper trains on 206,175 pairs."
        )
    if controlled:
        notes.append(
            "The paper gives the probabilities 100, 50 and 0 % without naming the classes; contradiction 1, entailment "
            ".5, neutral 0 is the one order that fits its text."
        )
    if controlled and local:
        notes.append(
            "Few entailed or neutral pairs have a negation, so sets are small: differences of a few rows decide, and "
            "results are to be pooled over the folds."
        )
    return DataCard(
        name="MultiNLI",
        description="Premise and hypothesis: entailment, neutral or contradiction; negation goes with contradiction.",
        source=f"{FOLDER}/ of the data folder" if local else f"https://huggingface.co/datasets/{HUB_NAME}",
        licence="By genre: that of the OANC, CC BY 3.0, CC BY-SA 3.0 and others; see the data set's paper",
        citation="Williams, Nangia and Bowman, A Broad-Coverage Challenge Corpus, NAACL 2018; negation words of "
        "Gururangan et al., NAACL 2018",
        notes=tuple(notes),
    )
