"""Sets sampled by group, so that a shortcut that is in the texts anyway goes with the labels to a chosen degree."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shortcut_guardrail.errors import DataError

from .options import BuildOptions
from .sampling import Ids, check_available, shuffled_groups, take_groups
from .strength import Reading, occurrence_probabilities
from .types import LabelledTexts

PAPER_STRENGTHS = (1.0, 0.9, 0.8, 0.6)
"""The shortcut strengths of the paper's sweeps, which share one size."""


def sampled_sets(
    options: BuildOptions,
    pool: LabelledTexts,
    test_pool: LabelledTexts,
    *,
    order: Sequence[str],
    strength: float,
    reading: Reading,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Training, development, in-distribution and reversed test sets, sampled from the groups of two pools.

    Classes are equally large, and within a class the share with the shortcut is what the strength says, to the nearest
    row. Without `n_train` and `n_test`, sizes are the largest that all strengths of `PAPER_STRENGTHS` and this one
    allow, so that strengths compare; both test sets have the same size. The two test sets have rows in common.

    Args:
        options: See `build`.
        pool: What training and development rows are taken from, with groups by label and presence.
        test_pool: What test rows are taken from.
        order: The label names from the one that has the shortcut least to the one that has it most.
        strength: Shortcut strength.
        reading: What a strength below 1 means.

    Returns:
        The sets by the names of `BenchmarkData`'s fields, and the settings.

    Raises:
        ConfigError: The strength or the reading is not one.
        DataError: Some group has too few rows.
    """
    names, rng = pool.label_names, options.generator()
    members = shuffled_groups(pool.groups, rng, len(pool.group_names))
    test_members = shuffled_groups(test_pool.groups, rng, len(pool.group_names))

    def shares(strength: float, reverse: bool = False) -> dict[str, float]:
        return occurrence_probabilities(order, strength, reading, reverse=reverse)

    occurrence = {"in_distribution": shares(strength), "reversed": shares(strength, True)}
    sweep = dict.fromkeys([strength, *PAPER_STRENGTHS])
    n = _per_class(options.n_train, len(names), members, names, [[shares(s)] for s in sweep], with_dev=True)
    n_test = _per_class(options.n_test, len(names), test_members, names, [[shares(s), shares(s, True)] for s in sweep])
    n_dev = max(1, n // 10)
    train_counts, dev_counts = (_counts(size, shares(strength), names) for size in (n, n_dev))
    both = {group: count + dev_counts[group] for group, count in train_counts.items()}
    check_available(members, both, pool.group_names, f"{n} training and {n_dev} development rows of each label")
    sets = {
        "train": replace(pool.select(take_groups(members, train_counts)), name="train"),
        "dev": replace(pool.select(take_groups(members, dev_counts, from_end=True)), name="dev"),
        "tests": _test_sets(test_pool, test_members, n_test, occurrence),
    }
    settings = {
        **options.to_dict(),
        "strength": strength,
        "reading": reading,
        "occurrence": occurrence,
        "n_train": n * len(names),
        "n_dev": n_dev * len(names),
        "n_test": n_test * len(names),
    }
    return sets, settings


def _test_sets(
    pool: LabelledTexts, members: list[Ids], n: int, occurrence: Mapping[str, Mapping[str, float]]
) -> dict[str, LabelledTexts]:
    """Test sets with n rows of each label, from the first members of each group of the pool."""
    tests = {}
    for name, probabilities in occurrence.items():
        counts = _counts(n, probabilities, pool.label_names)
        check_available(members, counts, pool.group_names, f"A test set ({name}) with {n} rows of each label")
        tests[name] = replace(pool.select(take_groups(members, counts)), name=f"test-{name}")
    return tests


def _counts(n: int, probabilities: Mapping[str, float], label_names: Sequence[str]) -> dict[int, int]:
    """Rows of each group in a set with n rows of each label, to the nearest row."""
    counts = {}
    for label, name in enumerate(label_names):
        counts[2 * label + 1] = int(n * probabilities[name] + 0.5)
        counts[2 * label] = n - counts[2 * label + 1]
    return counts


def _per_class(
    asked: int | None,
    n_classes: int,
    members: Sequence[Ids],
    label_names: Sequence[str],
    needed: Sequence[Sequence[Mapping[str, float]]],
    with_dev: bool = False,
) -> int:
    """Rows of each label: what is asked for, or the most that all the needed probabilities allow."""
    if asked is not None:
        if asked < n_classes:
            raise DataError(f"{asked} rows are asked for, but there are {n_classes} labels; ask for one of each.")
        return asked // n_classes

    def allowed(n: int) -> bool:
        return all(
            count + (_counts(max(1, n // 10), probabilities, label_names)[group] if with_dev else 0)
            <= len(members[group])
            for setting in needed
            for probabilities in setting
            for group, count in _counts(n, probabilities, label_names).items()
        )

    # The counts grow with n, so that the sizes that are allowed come before those that are not.
    size = bisect_left(range(1, 2 * sum(map(len, members)) + 1), True, key=lambda n: not allowed(n))
    if not size:
        found = ", ".join(str(len(rows)) for rows in members)
        raise DataError(
            "The groups by label and shortcut presence are too small to sample from: for the labels "
            f"{', '.join(label_names)}, without and with a shortcut, they have {found} rows."
        )
    return size
