"""A user's own data: the same groups, insertions and reversed test sets from any file and a list of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

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
    seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
    max_tokens: int | None = None,
    tokenizer: Any = None,
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
        seed: Decides every draw.
        n_train: Number of training texts; None for as many as there are.
        n_test: Number of test texts; None for as many as there are.
        max_tokens: See `build`.
        tokenizer: See `build`.

    Raises:
        ConfigError: An option is out of range, or `order` is not an order of the labels.
        DataError: A file cannot be read, or some group has too few rows.
    """
    if how not in get_args(How):
        raise ConfigError(f"how must be one of {', '.join(get_args(How))}, but is {how!r}.")
    options = BuildOptions(Path(), seed, n_train, n_test, max_tokens, tokenizer)
    columns = {"text_column": text_column, "text_pair_column": text_pair_column, "label_column": label_column}
    data = read_data(train, **columns, require_labels=True)
    tested = None if test is None else read_data(test, **columns, require_labels=True)
    labels = _label_names(data)
    steps = _checked_order(order, labels)
    rows, test_rows, left_out = _split(data, tested, labels, options)
    words = WordFinder(check_words(words)).words
    read = reading or ("zhou" if how == "insert" else "paper")
    if how == "insert":
        variant = Variant(words, WHAT, "", remove_natural)
        planted, settings = insert_into(
            options, rows, test_rows, labels, variant, (strength, strength), read, order=steps
        )
        sets = planted.labelled(labels, words, WHAT)
    else:
        pool, test_pool = (_pool(part, labels, words, options) for part in (rows, test_rows))
        if how == "sample":
            sets, settings = sampled_sets(options, pool, test_pool, order=steps, strength=strength, reading=read)
        else:
            sets, settings = _natural(options, pool, test_pool)
        sets |= {"oracle_tests": {}, "clean_train": None}
    sources = [_shown(source) for source in (train, test) if source is not None]
    settings = settings | {"source": sources, "how": how, "order": list(steps), "n_left_out": left_out}
    card = DataCard(
        name=name or Path(sources[0]).stem,
        description=f"A user's own data; words or phrases that are the shortcut: {len(words)}.",
        source=", ".join(sources),
        licence=licence,
        citation="None",
    )
    return BenchmarkData(name=card.name, **sets, shortcuts=words, card=card, settings=settings)


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
    data: TextData, tested: TextData | None, label_names: tuple[str, ...], options: BuildOptions
) -> tuple[Rows, Rows, int]:
    """Rows to train on and rows to test on without a text in common, and how many rows are left out of both."""
    rows = _rows(data, label_names)
    if tested is None:
        return _held_out(rows, options)
    test = _rows(tested, label_names)
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
