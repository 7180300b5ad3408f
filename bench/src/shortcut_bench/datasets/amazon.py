"""The testbed: Amazon reviews in which a word goes with positive reviews to a chosen degree: "book" (Section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shortcut_guardrail.errors import ConfigError, DataError

from .options import BuildOptions
from .presence import grouped, shortcut_present
from .reading import Rows, data_files, read_rows
from .sampling import Ids, check_available, shuffled_groups, take_groups
from .strength import check_share
from .types import BenchmarkData, DataCard, LabelledTexts

NAME = "amazon-testbed"
SHORTCUT = "book"
LABEL_NAMES = ("negative", "positive")
PROPORTIONS = (0.0, 0.05, 0.1, 0.2)
"""The paper's shares of training texts with the word, at correlation 1."""
CORRELATIONS = (1.0, 0.995, 0.99, 0.975, 0.95, 0.9, 0.7, 0.5)
"""The paper's shares of positive labels among training texts with the word, at proportion .1."""
PAPER_TRAIN_SIZE = 10_000
FOLDER, FILES = "amazon", ("amazon_blitzer_train.csv", "amazon_blitzer_test.csv")
HUB_NAME = "fancyzhx/amazon_polarity"

_SETTINGS = tuple((share, 1.0) for share in PROPORTIONS) + tuple((0.1, p) for p in CORRELATIONS)
_NEGATIVE, _NEGATIVE_BOOK, _POSITIVE, _POSITIVE_BOOK = range(4)
_NOTES = (
    "The word is in the reviews as they were written; nothing is inserted. Training texts are chosen by group.",
    "The training size is one for all settings and the largest that all of them allow, a multiple of 1,000 so that the "
    "shares of the paper's tables are whole numbers of texts; the paper trains on 10,000.",
    "The four groups of the test set are equally large. In the paper's words they are group 1 (positive, without), "
    "2 (positive, with), 3 (negative, without) and 4 (negative, with).",
)


def build_amazon_testbed(
    options: BuildOptions, *, proportion: float = 0.1, correlation: float = 1.0, word: str = SHORTCUT
) -> BenchmarkData:
    """Builds one setting of the testbed.

    The same seed gives settings with as many common training texts as their shares allow, the same development texts
    apart from the shares, and the same test set.

    Args:
        options: See `build`.
        proportion: The share of training texts with the word, in [0, 1].
        correlation: The share of positive labels among them (the paper's p), in [0, 1]. Classes are always balanced.
        word: The word; the paper's is "book".

    Raises:
        ConfigError: A share is out of range, or more than half of all texts would be of one label and with the word.
        DataError: Files are missing, or `n_train` or `n_test` is more than some group allows.
    """
    _check_shares(proportion, correlation)
    pool, test_pool = (_pool(options, rows, word) for rows in _read(options))
    rng = options.generator()
    members, test_members = (shuffled_groups(rows.groups, rng, 4) for rows in (pool, test_pool))
    setting = (proportion, correlation)
    # Other words than the paper's have no settings that share their training size.
    of_paper = _SETTINGS if word == SHORTCUT else ()
    n_train = options.n_train or _most(PAPER_TRAIN_SIZE, members, [*of_paper, setting])
    counts = _counts(n_train, *setting)
    check_available(members, counts, pool.group_names, f"A training set of {n_train}")
    # Where a size is asked for, the other settings need not allow it.
    settings = [setting] if options.n_train else [*of_paper, setting]
    n_dev = _most(max(2, n_train // 10), members, settings, beside=n_train)
    dev_counts = _counts(n_dev, *setting)
    train, dev = pool.select(take_groups(members, counts)), pool.select(take_groups(members, dev_counts, from_end=True))
    test = test_pool.select(_equal_groups(test_members, options.n_test, test_pool.group_names))
    with_word = counts[_POSITIVE_BOOK] + counts[_NEGATIVE_BOOK]
    return BenchmarkData(
        name=NAME,
        train=replace(train, name="train"),
        dev=replace(dev, name="dev"),
        tests={"test": replace(test, name="test")},
        oracle_tests={},
        clean_train=None,
        shortcuts=(word,),
        card=_card(options, word),
        settings={
            **options.to_dict(),
            "proportion": proportion,
            "correlation": correlation,
            "word": word,
            "n_train": n_train,
            "n_dev": n_dev,
            "n_test": len(test),
            "paper_n_train": PAPER_TRAIN_SIZE,
            "train_proportion": with_word / n_train,
            "train_correlation": counts[_POSITIVE_BOOK] / with_word if with_word else None,
        },
    )


def _check_shares(proportion: float, correlation: float) -> None:
    check_share("proportion", proportion)
    check_share("correlation", correlation)
    largest = proportion * max(correlation, 1 - correlation)
    if largest > 0.5:
        raise ConfigError(
            f"With proportion {proportion} and correlation {correlation}, {largest:.0%} of the training texts would be "
            "of one label and have the word, but each label has half of the texts. Lower the proportion."
        )


def _read(options: BuildOptions) -> list[Rows]:
    if options.data_dir is None:
        splits = options.hub_splits(100_000, 20_000, per_row=10)
        return [read_rows(HUB_NAME, ("0", "1"), text="content", split=split) for split in splits]
    return [read_rows(path, ("0", "1")) for path in data_files(options.data_dir, FOLDER, FILES)]


def _pool(options: BuildOptions, rows: Rows, word: str) -> LabelledTexts:
    capped = rows.with_texts(options.cap(rows.texts))
    return grouped("pool", capped, shortcut_present(capped.texts, [word]), LABEL_NAMES, word)


def _counts(n: int, proportion: float, correlation: float) -> dict[int, int]:
    """Texts of each group in a set of n, to the nearest text; halves go up."""
    n_with = int(n * proportion + 0.5)
    positive = int(n_with * correlation + 0.5)
    negative = n_with - positive
    n_positive = n // 2
    return {
        _NEGATIVE: n - n_positive - negative,
        _NEGATIVE_BOOK: negative,
        _POSITIVE: n_positive - positive,
        _POSITIVE_BOOK: positive,
    }


def _most(limit: int, members: Sequence[Ids], settings: Sequence[tuple[float, float]], beside: int = 0) -> int:
    """The most rows that every setting allows: a multiple of 1,000, else of 20, else (beside another set) of 2.

    Args:
        limit: No more than so many.
        members: The rows of each group.
        settings: Proportions and correlations.
        beside: The size of another set that takes its rows from the same groups.
    """

    def allowed(n: int) -> bool:
        return all(
            count + _counts(beside, *setting)[group] <= len(members[group])
            for setting in settings
            for group, count in _counts(n, *setting).items()
        )

    # A set to train on has to have the word at every proportion above 0, which takes 20 texts.
    for step in (1000, 20, 2) if beside else (1000, 20):
        for n in range(limit - limit % step, 0, -step):
            if allowed(n):
                return n
    raise DataError(
        f"The groups by label and word have {[len(rows) for rows in members]} texts, which is too few for a "
        f"set with the shares of the paper's tables{f' beside one of {beside}' if beside else ''}. "
        + ("Lower n_train." if beside else "Use more data.")
    )


def _equal_groups(members: Sequence[Ids], n_test: int | None, names: tuple[str, ...]) -> Ids:
    size = min(map(len, members)) if n_test is None else n_test // 4
    if size == 0:
        raise DataError(f"A test set needs texts of each of the groups {', '.join(names)}; n_test must be at least 4.")
    counts = dict.fromkeys(range(4), size)
    check_available(list(members), counts, names, f"A test set of {4 * size} in equal groups")
    return take_groups(list(members), counts)


def _card(options: BuildOptions, word: str) -> DataCard:
    local = options.data_dir is not None
    note = (
        "The reviews are the multi-domain sentiment set of Blitzer et al. (2007), not those of Ni et al. (2019)."
        + (" The word is mostly in reviews of books." if word == SHORTCUT else "")
        if local
        else f"The first rows of the Hub's {HUB_NAME} are read, not the reviews of Ni et al. (2019)."
    )
    return DataCard(
        name=f"Amazon reviews with '{word}'",
        description="Reviews of 1 or 2 stars (negative) and 4 or 5 stars (positive); the training set is chosen so "
        f"that the word '{word}' goes with positive reviews.",
        source=f"{FOLDER}/ of the data folder" if local else f"https://huggingface.co/datasets/{HUB_NAME}",
        licence="Research use" if local else "Apache 2.0 as stated on the Hub",
        citation="Blitzer, Dredze and Pereira, Biographies, Bollywood, Boom-boxes and Blenders, ACL 2007; protocol of "
        "Chew et al. 2024 (NFL)"
        if local
        else "McAuley and Leskovec, Hidden factors and hidden topics, RecSys 2013; Zhang, Zhao and LeCun, NeurIPS 2015",
        notes=(*_NOTES, note),
    )
