"""A user's own data: the same groups, insertions and reversed test sets from any file and a list of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np
from typing_extensions import TypedDict

from shortcut_guardrail.data import TextData, label_ids, read_data
from shortcut_guardrail.errors import ConfigError, DataError
from shortcut_guardrail.text import WordFinder, check_words

from .controlled import sampled_sets
from .inserted import Variant, insert_into
from .options import BuildOptions
from .presence import grouped, shortcut_present
from .reading import Rows
from .sampling import split_stratified, stratified
from .strength import Reading
from .types import BenchmarkData, DataCard, LabelledTexts

How = Literal["natural", "insert", "sample"]
"""How the shortcut comes into the sets: it is there anyway, is inserted, or rows are sampled by its presence."""

WHAT = "shortcut"
_HELD_OUT = 5  # one row in five is for testing where there is no test file


class Draws(TypedDict, total=False):
    """What every builder is asked for; without them, seed 0, as many texts as there are, and whole texts.

    `seed` decides every draw, `n_train` and `n_test` are numbers of texts; for `max_tokens` and `tokenizer` see
    `build`.
    """

    seed: int
    n_train: int | None
    n_test: int | None
    max_tokens: int | None
    tokenizer: Any


def from_file(
    train: str | Path,
    *,
    words: Sequence[str],
    how: How = "natural",
    test: str | Path | None = None,
    order: Sequence[str] | None = None,
    strength: float = 1.0,
    reading: Reading | None = None,
    remove_natural: bool = False,
    text_column: str | None = None,
    text_pair_column: str | None = None,
    label_column: str | None = None,
    name: str | None = None,
    licence: str = "Not stated",
    **draws: Unpack[Draws],
) -> BenchmarkData:
    """Builds sets of a user's own data: groups by label and word, and where asked for a controlled shortcut.

    Args:
        train: A labelled file or Hub data set, as `data.read_data` reads it.
        words: The words or phrases that are the shortcut.
        how: "natural" leaves texts as they are and gives one test set; "insert" puts the words into texts and "sample"
            chooses texts by whether they hold the words, both to the shortcut strength, with an in-distribution and a
            reversed test set. In pairs, words count in either text and are inserted into the second.
        test: A file with the same columns and labels; without it a fifth of `train` is held out. No text
            is both trained and tested on: what a test file repeats is left out of it.
        order: The labels from the one that has the shortcut least to the one that has it most; without it they are
            ordered as numbers where all of them are, else by the alphabet.
        strength: Shortcut strength, in [0, 1], for "insert" and "sample".
        reading: What a strength below 1 means, "paper" or "zhou"; by default "zhou" for "insert", "paper" for "sample".
        remove_natural: For "insert", take the words out of the texts first, so that only the inserted ones are there.
        text_column: The column of the text, or of the first text of pairs; guessed without it.
        text_pair_column: The column of the second text of pairs.
        label_column: The column of the label; guessed without it.
        name: What the data are called; the file's name without it.
        licence: Its licence, for the card.
        **draws: Seed, numbers of texts and cap; see `Draws`.

    Raises:
        ConfigError: An option is out of range, or `order` is not an order of the labels.
        DataError: A file cannot be read, or some group has too few rows.
    """
    if how not in get_args(How):
        raise ConfigError(f"how must be one of {', '.join(get_args(How))}, but is {how!r}.")
    options = BuildOptions(Path(), **draws)
    columns = {"text_column": text_column, "text_pair_column": text_pair_column, "label_column": label_column}
    rows = _split(train, test, columns, order, options)
    words = WordFinder(check_words(words)).words
    read = reading or ("zhou" if how == "insert" else "paper")
    sets, settings = _sets(options, rows, _Shortcut(words, how, strength, read, remove_natural))
    sources = [_shown(source) for source in (train, test) if source is not None]
    settings |= {"source": sources, "how": how, "order": list(rows.order), "n_left_out": rows.left_out}
    card = _card(name or Path(sources[0]).stem, sources, licence, len(words))
    return BenchmarkData(name=card.name, **sets, shortcuts=words, card=card, settings=settings)


@dataclass(frozen=True)
class _Split:
    """Rows to train on and rows to test on without a text in common.

    Attributes:
        train: The former.
        test: The latter.
        left_out: How many rows are in neither.
        labels: The C label names.
        order: The same from the one that has the shortcut least to the one that has it most.
    """

    train: Rows
    test: Rows
    left_out: int
    labels: tuple[str, ...]
    order: tuple[str, ...]


@dataclass(frozen=True)
class _Shortcut:
    """The words, and how they come into the sets; see `from_file`."""

    words: tuple[str, ...]
    how: How
    strength: float
    reading: Reading
    remove_natural: bool


def _sets(options: BuildOptions, rows: _Split, shortcut: _Shortcut) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sets by the names of `BenchmarkData`'s fields, and the settings."""
    words, strength, read = shortcut.words, shortcut.strength, shortcut.reading
    if shortcut.how == "insert":
        variant = Variant(words, WHAT, "", shortcut.remove_natural)
        planted, settings = insert_into(
            options,
            rows.train,
            rows.test,
            rows.labels,
            variant,
            strengths=(strength, strength),
            reading=read,
            order=rows.order,
        )
        return planted.labelled(rows.labels, words, WHAT), settings
    pool, test_pool = (_pool(part, rows.labels, words, options) for part in (rows.train, rows.test))
    if shortcut.how == "sample":
        sets, settings = sampled_sets(options, pool, test_pool, order=rows.order, strength=strength, reading=read)
    else:
        sets, settings = _natural(options, pool, test_pool)
    return sets | {"oracle_tests": {}, "clean_train": None}, settings


def _card(name: str, sources: Sequence[str], licence: str, n_words: int) -> DataCard:
    return DataCard(
        name=name,
        description=f"A user's own data; words or phrases that are the shortcut: {n_words}.",
        source=", ".join(sources),
        licence=licence,
        citation="None",
    )


def _shown(source: str | Path) -> str:
    """The name of a file without its folder, which is of no use elsewhere; the whole name of a Hub data set."""
    return Path(source).name if Path(source).exists() else str(source)


def _label_names(data: TextData) -> tuple[str, ...]:
    names = {label.strip() for label in data.labels or []}
    numbers = all(name.isdecimal() for name in names)
    return tuple(sorted(names, key=int) if numbers else sorted(names))


def _checked_order(order: Sequence[str] | None, label_names: tuple[str, ...]) -> tuple[str, ...]:
    if order is None:
        return label_names
    if sorted(map(str, order)) != sorted(label_names):
        raise ConfigError(
            f"order must name each label once; the labels are {', '.join(label_names)}, but order is "
            f"{', '.join(map(str, order))}."
        )
    return tuple(map(str, order))


def _split(
    train: str | Path,
    test: str | Path | None,
    columns: Mapping[str, Any],
    order: Sequence[str] | None,
    options: BuildOptions,
) -> _Split:
    data = read_data(train, **columns, require_labels=True)
    tested = None if test is None else read_data(test, **columns, require_labels=True)
    labels = _label_names(data)
    steps = _checked_order(order, labels)
    rows = _rows(data, labels)
    parts = _held_out(rows, options) if tested is None else _new(rows, _rows(tested, labels))
    return _Split(*parts, labels, steps)


def _new(rows: Rows, test: Rows) -> tuple[Rows, Rows, int]:
    """The rows that a test set does not repeat are tested on."""
    known = set(rows.texts)
    new = [index for index, text in enumerate(test.texts) if text not in known]
    if not new:
        raise DataError("Every text of the test set is also in the training set; nothing is left to test on.")
    return rows, test.take(new), len(test) - len(new)


def _held_out(rows: Rows, options: BuildOptions) -> tuple[Rows, Rows, int]:
    """A fifth of the different texts to test on; a repeated one counts once, and is not trained on."""
    first: dict[Any, int] = {}
    for index, text in enumerate(rows.texts):
        first.setdefault(text, index)
    distinct = np.array(list(first.values()), dtype=np.int64)
    n_held_out = max(1, len(distinct) // _HELD_OUT)
    chosen = distinct[stratified(rows.labels[distinct], n_held_out, options.generator(stream=1))]
    held_out = {rows.texts[index] for index in chosen}
    rest = [index for index, text in enumerate(rows.texts) if text not in held_out]
    if not rest:
        raise DataError("There is one text only, which cannot be both trained and tested on.")
    return rows.take(rest), rows.take(chosen), len(rows) - len(rest) - len(chosen)


def _rows(data: TextData, label_names: tuple[str, ...]) -> Rows:
    ids = label_ids(data.labels or [], label_names, source=data.source, rows=data.rows, row_word=data.row_word)
    return Rows(data.texts, np.array(ids, dtype=np.int64))


def _pool(rows: Rows, label_names: tuple[str, ...], words: Sequence[str], options: BuildOptions) -> LabelledTexts:
    capped = rows.with_texts(options.cap(rows.texts))
    return grouped("pool", capped, shortcut_present(capped.texts, words), label_names, WHAT)


def _natural(options: BuildOptions, pool: LabelledTexts, test: LabelledTexts) -> tuple[dict[str, Any], dict[str, Any]]:
    rng = options.generator()
    train_at, dev_at = split_stratified(pool.groups, options.n_train, rng)
    if options.n_test is not None:
        test = test.select(stratified(test.groups, options.n_test, rng))
    sets = {
        "train": replace(pool.select(train_at), name="train"),
        "dev": replace(pool.select(dev_at), name="dev"),
        "tests": {"test": replace(test, name="test")},
    }
    sizes = {"n_train": len(train_at), "n_dev": len(dev_at), "n_test": len(test)}
    return sets, options.to_dict() | sizes
