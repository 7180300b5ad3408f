"""CivilComments: toxicity, with identity terms as the shortcut; as it is, and sampled to a shortcut strength."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shortcut_guardrail.data import check_texts

from .controlled import sampled_sets
from .identities import ALL_TERMS, IDENTITIES
from .options import BuildOptions
from .presence import grouped, shortcut_present
from .reading import Rows, data_files, header, load_hub, read_columns, read_numbers, read_rows
from .sampling import split_stratified, stratified
from .strength import Reading
from .types import BenchmarkData, DataCard, LabelledTexts, OverlappingGroups

NAME, CONTROLLED_NAME = "civil", "civil-controlled"
LABEL_NAMES = ("non-toxic", "toxic")
WHAT = "an identity term"
FOLDER, FILES = "civilcomments", ("civil_pool_train.csv", "civil_pool_test.csv")
WILDS_FILE, WILDS_SPLITS = "all_data_with_identities.csv", ("train", "val", "test")
HUB_NAME = "google/civil_comments"
HUB_ROWS_PER_ROW, HUB_ROWS_PER_SAMPLED_ROW = 2, 20
"""Rows read from the Hub for each that is asked for.

About 11 % of the comments are toxic, and about a quarter of those name an identity; a sampled set may need them for
half of its rows.
"""

_MAJORITY = 0.5  # of the annotators, as in WILDS


@dataclass(frozen=True, eq=False)
class _Pool:
    """Comments, and which identities the annotators saw in each, shape (N, 8), where the source says so."""

    rows: Rows
    identities: NDArray[np.bool_] | None

    def labelled(self, options: BuildOptions) -> LabelledTexts:
        texts = options.cap(self.rows.texts)
        rows = self.rows.with_texts(texts)
        if self.identities is None:
            return grouped("pool", rows, shortcut_present(texts, ALL_TERMS), LABEL_NAMES, WHAT)
        overlapping = _wilds_groups(rows.labels, self.identities)
        return grouped("pool", rows, np.asarray(self.identities.any(axis=1)), LABEL_NAMES, WHAT, overlapping)


def build_civil(options: BuildOptions) -> BenchmarkData:
    """Builds CivilComments as it is: a stratified subset, with groups by label and identity.

    The groups are by the annotators' identities where the files have their columns, and then `overlapping` holds the 16
    groups of WILDS too; else by the words of `identities.IDENTITY_TERMS`.

    Raises:
        DataError: Files or columns are missing, or there are fewer rows than asked for.
    """
    train_pool, dev_pool, test_pool = _read(options, HUB_ROWS_PER_ROW)
    rng = options.generator()
    pool = train_pool.labelled(options)
    if dev_pool is None:
        train_at, dev_at = split_stratified(pool.groups, options.n_train, rng)
        train, dev = pool.select(train_at), pool.select(dev_at)
    else:
        dev = dev_pool.labelled(options)
        train = pool if options.n_train is None else pool.select(stratified(pool.groups, options.n_train, rng))
        dev = dev.select(stratified(dev.groups, min(len(dev), max(1, len(train) // 10)), rng))
    test = test_pool.labelled(options)
    if options.n_test is not None:
        test = test.select(stratified(test.groups, options.n_test, rng))
    annotated = train.overlapping is not None
    return BenchmarkData(
        name=NAME,
        train=replace(train, name="train"),
        dev=replace(dev, name="dev"),
        tests={"test": replace(test, name="test")},
        oracle_tests={},
        clean_train=None,
        shortcuts=ALL_TERMS,
        card=_card(options, annotated),
        settings={
            **options.to_dict(),
            "n_train": len(train),
            "n_dev": len(dev),
            "n_test": len(test),
            "identities": "annotators" if annotated else "words",
        },
    )


def build_civil_controlled(
    options: BuildOptions, *, strength: float = 1.0, reading: Reading = "paper"
) -> BenchmarkData:
    """Builds CivilComments sampled by group, so that identity terms go with the toxic label to a chosen degree.

    Args:
        options: See `build`.
        strength: Shortcut strength (the paper's lambda), in [0, 1].
        reading: What a strength below 1 means; see `strength.occurrence_probabilities`.

    Raises:
        ConfigError: The strength or the reading is not one.
        DataError: Files are missing, or some group has too few rows.
    """
    train_pool, dev_pool, test_pool = _read(options, HUB_ROWS_PER_SAMPLED_ROW)
    if dev_pool is not None:
        train_pool = _joined(train_pool, dev_pool)
    pool, test = train_pool.labelled(options), test_pool.labelled(options)
    sets, settings = sampled_sets(options, pool, test, order=LABEL_NAMES, strength=strength, reading=reading)
    annotated = pool.overlapping is not None
    return BenchmarkData(
        name=CONTROLLED_NAME,
        **sets,
        oracle_tests={},
        clean_train=None,
        shortcuts=ALL_TERMS,
        card=_card(options, annotated),
        settings={**settings, "identities": "annotators" if annotated else "words"},
    )


def _joined(first: _Pool, second: _Pool) -> _Pool:
    rows = Rows.concatenate([first.rows, second.rows])
    both = [part.identities for part in (first, second) if part.identities is not None]
    return _Pool(rows, np.concatenate(both) if both else None)


def _read(options: BuildOptions, per_row: int) -> tuple[_Pool, _Pool | None, _Pool]:
    """Training, development (where the source has them) and test comments."""
    if options.data_dir is None:
        train, test = (_read_hub(split) for split in options.hub_splits(100_000, 20_000, per_row))
        return train, None, test
    wilds = options.data_dir / FOLDER / WILDS_FILE
    if wilds.is_file():
        train, dev, test = _read_wilds(wilds)
        return train, dev, test
    train, test = (_read_pool(path) for path in data_files(options.data_dir, FOLDER, FILES))
    return train, None, test


def _read_pool(path: Path) -> _Pool:
    rows = read_rows(path, ("0", "1"))
    if not set(IDENTITIES) <= set(header(path)):
        return _Pool(rows, None)
    return _Pool(rows, _identities(read_columns(path, IDENTITIES), path))


def _read_wilds(path: Path) -> list[_Pool]:
    """The splits of the file that WILDS distributes; a few of its comments are empty, and are left out."""
    texts, toxicity, splits, *identities = read_columns(path, ("comment_text", "toxicity", "split", *IDENTITIES))
    labels = (read_numbers(toxicity, str(path), "toxicity") >= _MAJORITY).astype(np.int64)
    annotated = _identities(identities, path)
    pools = []
    for split in WILDS_SPLITS:
        at = [i for i, (text, where) in enumerate(zip(texts, splits, strict=True)) if where == split and text.strip()]
        checked = check_texts([texts[i] for i in at], source=f"{path}, split '{split}'")
        pools.append(_Pool(Rows(checked, labels[at]), annotated[at]))
    return pools


def _identities(columns: Sequence[Sequence[str]], path: Path) -> NDArray[np.bool_]:
    shares = [read_numbers(column, str(path), name) for name, column in zip(IDENTITIES, columns, strict=True)]
    return np.stack(shares, axis=1) >= _MAJORITY  # an identity that was not annotated, NaN, counts as absent


def _read_hub(split: str) -> _Pool:
    loaded = load_hub(HUB_NAME, split)
    pairs = [(text, share) for text, share in zip(loaded["text"], loaded["toxicity"], strict=True) if text.strip()]
    texts = check_texts([text for text, _ in pairs], source=f"{HUB_NAME}, split '{split}'")
    labels = np.array([share >= _MAJORITY for _, share in pairs], dtype=np.int64)
    return _Pool(Rows(texts, labels), None)


def _wilds_groups(labels: NDArray[np.int64], identities: NDArray[np.bool_]) -> OverlappingGroups:
    """The 16 groups of WILDS: one for each label and identity; a comment is in as many as it names identities."""
    members = [(labels == label)[:, None] & identities for label in range(len(LABEL_NAMES))]
    names = tuple(f"{label}, {identity}" for label in LABEL_NAMES for identity in IDENTITIES)
    return OverlappingGroups(np.concatenate(members, axis=1), names)


def _card(options: BuildOptions, annotated: bool) -> DataCard:
    local = options.data_dir is not None
    identities = (
        "Identities are the annotators' (at least half of them), as in WILDS."
        if annotated
        else "The source has no annotators' identities: a comment counts as naming an identity if it holds one of "
        f"{len(ALL_TERMS)} words, so groups differ from the paper's, and the 16 groups of WILDS cannot be formed."
    )
    where = f"{FOLDER}/ of the data folder" if local else f"https://huggingface.co/datasets/{HUB_NAME}"
    notes = [
        identities,
        "Worst-group accuracies on the coarse groups (label x any identity) and on WILDS's 16 do not compare.",
    ]
    if local and not annotated:
        notes.append("The pool is balanced between the classes; about 11 % of the original comments are toxic.")
    if not local:
        notes.append("Of the Hub's splits, the first rows are read.")
    return DataCard(
        name="CivilComments",
        description="Comments on news sites, toxic or not; identity terms go with the toxic label.",
        source=where,
        licence="CC0 1.0",
        citation="Borkan et al., Nuanced Metrics for Measuring Unintended Bias, WWW Companion 2019; groups of Koh et "
        "al., WILDS, ICML 2021",
        notes=tuple(notes),
    )
