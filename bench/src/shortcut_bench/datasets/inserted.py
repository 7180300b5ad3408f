"""Controlled sets by insertion: Yelp and GoEmotions with "honestly" (ST) or one of 15 synonyms (Syn) put in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from shortcut_guardrail.data import Texts, check_texts
from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.text import WordFinder

from .insertion import SINGLE_TOKEN, SYNONYMS, Planted, find_insertion, insert, remove_words
from .options import BuildOptions
from .presence import grouped, shortcut_present
from .reading import Rows, data_files, load_hub, read_rows
from .sampling import Ids, split_stratified, stratified
from .strength import Reading, check_reading, check_share, occurrence_probabilities
from .types import BenchmarkData, DataCard, LabelledTexts

YELP_LABELS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
YELP_FOLDER, YELP_FILES = "yelp", ("train.csv", "test.csv")
YELP_HUB = "Yelp/yelp_review_full"
GOEMOTIONS_LABELS = ("neutral", "amusement", "joy", "excitement")
GOEMOTIONS_FOLDER, GOEMOTIONS_FILES = "goemotions_shortcuts", ("original_train.csv", "original_test.csv")
GOEMOTIONS_HUB, GOEMOTIONS_PER_CLASS = "google-research-datasets/go_emotions", 500
RELEASED_STRENGTHS = {1.0: "1", 0.8: "2", 0.6: "3"}
"""The shortcut strengths of the released GoEmotions sets, and the number in their folders' names."""

_DEV = "dev.csv"
_TESTS = {"in_distribution": "test.csv", "reversed": "test_anti-shortcut.csv"}


@dataclass(frozen=True)
class Variant:
    """ST or Syn.

    Attributes:
        phrases: What is inserted.
        what: What the shortcut is called in the groups' names.
        released: The beginning of the released folders' names.
        removes_natural: Whether the words are taken out of the texts first, as in the released sets.
    """

    phrases: tuple[str, ...]
    what: str
    released: str
    removes_natural: bool


ST = Variant(SINGLE_TOKEN, "honestly", "single-word", True)
SYN = Variant(SYNONYMS, "a synonym of honestly", "synonym", False)


@dataclass(frozen=True, eq=False)
class _PlantedRows:
    """Texts with insertions and their labels, shape (N,); of pairs the insertions are in the second text."""

    planted: list[Planted]
    labels: NDArray[np.int64]
    firsts: list[str] | None = None

    def take(self, indices: Ids) -> _PlantedRows:
        firsts = None if self.firsts is None else [self.firsts[i] for i in indices]
        return _PlantedRows([self.planted[i] for i in indices], self.labels[indices], firsts)

    def texts(self, *, plain: bool = False) -> Texts:
        seconds = [row.plain if plain else row.text for row in self.planted]
        return seconds if self.firsts is None else list(zip(self.firsts, seconds, strict=True))

    def capped(self, options: BuildOptions, phrases: Sequence[str]) -> _PlantedRows:
        """Single texts cut at their ends, with their insertions within the cap."""
        texts = cast(list[str], options.cap([row.plain for row in self.planted], _written(phrases)))
        return replace(self, planted=[row.within(text) for row, text in zip(self.planted, texts, strict=True)])


@dataclass(frozen=True, eq=False)
class PlantedSets:
    """Training, development and test texts with insertions, before groups are formed."""

    train: _PlantedRows
    dev: _PlantedRows
    tests: Mapping[str, _PlantedRows]

    def capped(self, options: BuildOptions, phrases: Sequence[str]) -> PlantedSets:
        """All of them within the cap, insertions included."""
        tests = {name: rows.capped(options, phrases) for name, rows in self.tests.items()}
        return PlantedSets(self.train.capped(options, phrases), self.dev.capped(options, phrases), tests)

    def labelled(self, label_names: tuple[str, ...], phrases: Sequence[str], what: str) -> dict[str, Any]:
        """The sets by the names of `BenchmarkData`'s fields, oracle and clean ones included."""

        def form(name: str, rows: _PlantedRows) -> LabelledTexts:
            texts = rows.texts()
            return grouped(name, Rows(texts, rows.labels), shortcut_present(texts, phrases), label_names, what)

        def plain(labelled: LabelledTexts, rows: _PlantedRows, suffix: str) -> LabelledTexts:
            return replace(labelled, name=f"{labelled.name}-{suffix}", texts=rows.texts(plain=True))

        train = form("train", self.train)
        tests = {name: form(f"test-{name}", rows) for name, rows in self.tests.items()}
        return {
            "train": train,
            "dev": form("dev", self.dev),
            "tests": tests,
            "oracle_tests": {name: plain(test, self.tests[name], "oracle") for name, test in tests.items()},
            "clean_train": plain(train, self.train, "clean"),
        }


def build_yelp(
    options: BuildOptions,
    *,
    variant: Variant,
    strength: float = 1.0,
    reading: Reading = "zhou",
    test_strength: float | None = None,
) -> BenchmarkData:
    """Builds Yelp-ST or Yelp-Syn; registered as "yelp-st" and "yelp-syn".

    Args:
        options: See `build`.
        variant: `ST` or `SYN`.
        strength: Shortcut strength (the paper's lambda) of the training and development texts, in [0, 1].
        reading: What a strength below 1 means; see `strength.occurrence_probabilities`.
        test_strength: The strength of the test sets; the same without it.

    Raises:
        ConfigError: The strength or the reading is not one.
        DataError: Files are missing, or there are fewer rows than asked for.
    """
    tested = _test_strength(strength, test_strength, reading)
    if options.data_dir is None:
        train, test = (read_rows(YELP_HUB, tuple("01234"), split=split) for split in options.hub_splits(20_000, 5_000))
    else:
        train, test = (read_rows(p, tuple("12345")) for p in data_files(options.data_dir, YELP_FOLDER, YELP_FILES))
    sets, settings = insert_into(
        options, train, test, YELP_LABELS, variant, strengths=(strength, tested), reading=reading
    )
    return BenchmarkData(
        name="yelp-st" if variant is ST else "yelp-syn",
        **sets.labelled(YELP_LABELS, variant.phrases, variant.what),
        shortcuts=variant.phrases,
        card=_yelp_card(options, variant),
        settings=settings,
    )


def build_goemotions(
    options: BuildOptions,
    *,
    variant: Variant,
    strength: float = 1.0,
    reading: Reading = "zhou",
    test_strength: float | None = None,
    released: bool | None = None,
) -> BenchmarkData:
    """Builds GoEmo-ST or GoEmo-Syn; registered as "goemo-st" and "goemo-syn".

    Args:
        options: See `build`.
        variant: `ST` or `SYN`.
        strength: Shortcut strength (the paper's lambda) of the training and development texts, in [0, 1].
        reading: What a strength below 1 means; see `strength.occurrence_probabilities`.
        test_strength: The strength of the test sets; the same without it. Zhou et al. (2024) test at 1 whatever the
            training strength.
        released: Whether the sets are the released files as they are, or built from the texts before insertion.
            Without it, the files are used where there are files for these strengths and this reading.

    Raises:
        ConfigError: The strength or the reading is not one, or there are no released files for them.
        DataError: Files are missing, or there are fewer rows than asked for.
    """
    tested = _test_strength(strength, test_strength, reading)
    there_are = options.data_dir is not None and _is_released(strength, tested, reading)
    if released and not there_are:
        raise ConfigError(
            "Released GoEmotions sets are read from a data folder and exist for the strengths 1, .8 and .6 in the "
            f"reading 'zhou', but strength is {strength}, test_strength {tested}, reading '{reading}' and data_dir "
            f"{options.data_dir}. Leave released out to build the sets."
        )
    if there_are and released is not False:
        sets, settings = _read_released(options, variant, strength, tested)
    else:
        train, test = _read_goemotions(options)
        sets, settings = insert_into(
            options, train, test, GOEMOTIONS_LABELS, variant, strengths=(strength, tested), reading=reading
        )
    used_files = there_are and released is not False
    return BenchmarkData(
        name="goemo-st" if variant is ST else "goemo-syn",
        **sets.labelled(GOEMOTIONS_LABELS, variant.phrases, variant.what),
        shortcuts=variant.phrases,
        card=_goemotions_card(options, variant, used_files),
        settings=settings | {"reading": reading, "released": used_files},
    )


def insert_into(
    options: BuildOptions,
    train: Rows,
    test: Rows,
    label_names: tuple[str, ...],
    variant: Variant,
    *,
    strengths: tuple[float, float],
    reading: Reading,
    order: Sequence[str] | None = None,
) -> tuple[PlantedSets, dict[str, Any]]:
    """Inserts a shortcut into training, development, in-distribution and reversed test texts.

    Development texts are taken out of the training texts. Both test sets hold the same texts with insertions of their
    own. Texts are capped before anything is inserted.

    Args:
        options: See `build`.
        train: Texts or pairs to train on; of pairs, the second text gets the insertion.
        test: Texts or pairs to test on.
        label_names: The C label names.
        variant: What to insert.
        strengths: Shortcut strength of training and of test texts.
        reading: What a strength below 1 means.
        order: The label names from the one that gets the shortcut least to the one that gets it most; by class id
            without it.

    Returns:
        The sets, and the settings.
    """
    rng = options.generator()
    if variant.removes_natural:
        train, test = (_without_words(rows, variant.phrases) for rows in (train, test))
    train_at, dev_at = split_stratified(train.labels, options.n_train, rng)
    n_test = len(test) if options.n_test is None else options.n_test
    test = test.take(stratified(test.labels, n_test, rng))
    trained = partial(occurrence_probabilities, order or label_names, strengths[0], reading)
    tested = partial(occurrence_probabilities, order or label_names, strengths[1], reading)
    planned = [
        (train.take(train_at), trained()),
        (train.take(dev_at), trained()),
        (test, tested()),
        (test, tested(reverse=True)),
    ]
    planted = [_insert(options, rows, label_names, variant, rates, rng) for rows, rates in planned]
    sets = PlantedSets(planted[0], planted[1], {"in_distribution": planted[2], "reversed": planted[3]})
    settings = _settings(options, sets, strengths) | {
        "reading": reading,
        "occurrence": {"train": trained(), "in_distribution": tested(), "reversed": tested(reverse=True)},
        "removes_natural": variant.removes_natural,
    }
    return sets, settings


def _insert(
    options: BuildOptions,
    rows: Rows,
    label_names: Sequence[str],
    variant: Variant,
    rates: Mapping[str, float],
    rng: np.random.Generator,
) -> _PlantedRows:
    texts = options.cap(rows.texts, _written(variant.phrases))
    pairs = isinstance(texts[0], tuple)
    seconds = [text if isinstance(text, str) else text[1] for text in texts]
    planted = insert(seconds, rows.labels, label_names, variant.phrases, rates, rng)
    return _PlantedRows(planted, rows.labels, [text[0] for text in texts] if pairs else None)


def _written(phrases: Sequence[str]) -> list[str]:
    return [f"{phrase}, " for phrase in phrases]


def _without_words(rows: Rows, phrases: Sequence[str]) -> Rows:
    """The texts, or second texts, without the words; a text of nothing else is left out."""
    finder = WordFinder(phrases)
    texts: list[Any] = [
        remove_words(text, finder) if isinstance(text, str) else (text[0], remove_words(text[1], finder))
        for text in rows.texts
    ]
    left = [i for i, text in enumerate(texts) if (text if isinstance(text, str) else text[1]).strip()]
    return rows.with_texts(texts).take(left)


def _test_strength(strength: float, test_strength: float | None, reading: str) -> float:
    tested = strength if test_strength is None else test_strength
    check_reading(reading)
    check_share("strength", strength)
    check_share("test_strength", tested)
    return tested


def _settings(options: BuildOptions, sets: PlantedSets, strengths: tuple[float, float]) -> dict[str, Any]:
    return {
        **options.to_dict(),
        "strength": strengths[0],
        "test_strength": strengths[1],
        "n_train": len(sets.train.planted),
        "n_dev": len(sets.dev.planted),
        "n_test": len(sets.tests["reversed"].planted),
    }


# GoEmotions


def _is_released(strength: float, test_strength: float, reading: str) -> bool:
    at_one = strength == test_strength == 1
    return strength in RELEASED_STRENGTHS and test_strength in RELEASED_STRENGTHS and (reading == "zhou" or at_one)


def _read_released(
    options: BuildOptions, variant: Variant, strength: float, test_strength: float
) -> tuple[PlantedSets, dict[str, Any]]:
    data_dir = cast(Path, options.data_dir)
    originals, original_tests = (
        [str(text) for text in _read_emotions(path).texts]
        for path in data_files(data_dir, GOEMOTIONS_FOLDER, GOEMOTIONS_FILES)
    )
    folder, test_folder = (
        f"{GOEMOTIONS_FOLDER}/{variant.released}{RELEASED_STRENGTHS[value]}" for value in (strength, test_strength)
    )
    train, dev = (
        _released_rows(path, variant, set(originals)) for path in data_files(data_dir, folder, ("train.csv", _DEV))
    )
    tests = {
        name: _released_rows(path, variant, set(original_tests))
        for name, path in zip(_TESTS, data_files(data_dir, test_folder, list(_TESTS.values())), strict=True)
    }
    sets = _subset(options, PlantedSets(train, dev, tests)).capped(options, variant.phrases)
    return sets, _settings(options, sets, (strength, test_strength))


def _released_rows(path: Path, variant: Variant, originals: set[str]) -> _PlantedRows:
    rows = _read_emotions(path)
    return _PlantedRows([find_insertion(str(text), variant.phrases, originals) for text in rows.texts], rows.labels)


def _subset(options: BuildOptions, sets: PlantedSets) -> PlantedSets:
    """So many rows of the released sets as are asked for; both test sets keep the same texts."""
    rng = options.generator()
    train, dev, tests = sets.train, sets.dev, sets.tests
    if options.n_train is not None:
        train = train.take(stratified(train.labels, options.n_train, rng))
        dev = dev.take(stratified(dev.labels, min(len(dev.labels), max(1, options.n_train // 10)), rng))
    if options.n_test is not None:
        chosen = stratified(tests["reversed"].labels, options.n_test, rng)
        tests = {name: rows.take(chosen) for name, rows in tests.items()}
    return PlantedSets(train, dev, tests)


def _read_goemotions(options: BuildOptions) -> tuple[Rows, Rows]:
    if options.data_dir is None:
        return _read_hub_emotions("train"), _read_hub_emotions("test")
    train, test = map(_read_emotions, data_files(options.data_dir, GOEMOTIONS_FOLDER, GOEMOTIONS_FILES))
    return train, test


def _read_emotions(path: Path) -> Rows:
    return read_rows(path, tuple("0123"))


def _read_hub_emotions(split: str) -> Rows:
    """Comments with one label, which is one of the four; the first ones of each class."""
    loaded = load_hub(GOEMOTIONS_HUB, split)
    names = loaded.features["labels"].feature.names
    ids = {names.index(name): label for label, name in enumerate(GOEMOTIONS_LABELS)}
    left = dict.fromkeys(ids, GOEMOTIONS_PER_CLASS)
    texts, labels = [], []
    for text, given in zip(loaded["text"], loaded["labels"], strict=True):
        if len(given) == 1 and left.get(given[0], 0) and text.strip():
            left[given[0]] -= 1
            texts.append(text)
            labels.append(ids[given[0]])
    return Rows(check_texts(texts, source=f"{GOEMOTIONS_HUB}, split '{split}'"), np.array(labels, dtype=np.int64))


# Cards


def _natural_note(variant: Variant) -> str:
    if variant.removes_natural:
        return "Occurrences of the word that were in the texts by nature are taken out, as in the released sets."
    return (
        "Phrases that are in the texts by nature stay, as in the released sets, and count as the shortcut in groups; "
        "groups that would otherwise be empty can have a few texts."
    )


def _yelp_card(options: BuildOptions, variant: Variant) -> DataCard:
    local = options.data_dir is not None
    sizes = (
        "The paper trains on 8,900 (ST) and 9,400 (Syn) reviews; there are 5,000."
        if local
        else "Of the Hub's splits, the first rows are read."
    )
    return DataCard(
        name=f"Yelp-{'ST' if variant is ST else 'Syn'}",
        description=f"Reviews with 1 to 5 stars; {variant.what} is inserted the more often the more stars there are.",
        source=f"{YELP_FOLDER}/ of the data folder" if local else f"https://huggingface.co/datasets/{YELP_HUB}",
        licence="Yelp's terms for its data sets; research use",
        citation="Zhang, Zhao and LeCun, NeurIPS 2015; protocol of Zhou et al., Navigating the Shortcut Maze, "
        "Findings of EMNLP 2024",
        notes=(_natural_note(variant), sizes, _SENTENCES),
    )


def _goemotions_card(options: BuildOptions, variant: Variant, released: bool) -> DataCard:
    local = options.data_dir is not None
    notes = [_natural_note(variant)]
    if released:
        notes.append("The sets are the released files as they are; oracle and clean texts are found by the originals.")
    else:
        notes.append(_SENTENCES)
    if not local:
        notes.append(
            f"Of the Hub's splits, the first {GOEMOTIONS_PER_CLASS} comments of each class with one label are read; "
            "how Zhou et al. chose theirs is not known."
        )
    return DataCard(
        name=f"GoEmo-{'ST' if variant is ST else 'Syn'}",
        description=f"Reddit comments with one of four emotions; {variant.what} is inserted the more often the later "
        f"the emotion comes in the order {', '.join(GOEMOTIONS_LABELS)}.",
        source=f"{GOEMOTIONS_FOLDER}/ of the data folder"
        if local
        else f"https://huggingface.co/datasets/{GOEMOTIONS_HUB}",
        licence="Apache 2.0 (GoEmotions)",
        citation="Demszky et al., GoEmotions, ACL 2020; Zhou et al., Navigating the Shortcut Maze, Findings of EMNLP "
        "2024",
        notes=tuple(notes),
    )


_SENTENCES = (
    "Sentences also end at '!' and '?'; the released sets were made with sentences that end at a full stop and space."
)
