"""The parts the builders are made of: probabilities, draws, insertions, and the cap on tokens."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shortcut_bench.datasets.insertion import SYNONYMS, Planted, find_insertion, insert, remove_words, sentence_starts
from shortcut_bench.datasets.options import BuildOptions
from shortcut_bench.datasets.presence import shortcut_present
from shortcut_bench.datasets.sampling import split_stratified, stratified
from shortcut_bench.datasets.strength import occurrence_probabilities
from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.text import WordFinder
from tiny_models import byte_level_tokenizer, wordpiece_tokenizer

STARS = ("1", "2", "3", "4", "5")


def test_both_readings_give_the_papers_table_at_strength_1_and_differ_below():
    for reading in ("paper", "zhou"):
        assert list(occurrence_probabilities(STARS, 1.0, reading).values()) == [0, 0.25, 0.5, 0.75, 1]
        assert list(occurrence_probabilities(STARS, 1.0, reading, reverse=True).values()) == [1, 0.75, 0.5, 0.25, 0]
    emotions = ("neutral", "amusement", "joy", "excitement")
    paper = list(occurrence_probabilities(emotions, 0.8, "paper").values())
    zhou = list(occurrence_probabilities(emotions, 0.8, "zhou").values())
    assert paper == pytest.approx([0, 0.8 / 3, 1.6 / 3, 0.8])
    assert zhou == pytest.approx([0.1, 0.1 + 0.8 / 3, 0.1 + 1.6 / 3, 0.9])
    assert set(occurrence_probabilities(emotions, 0.0, "paper").values()) == {0.0}
    assert set(occurrence_probabilities(emotions, 0.0, "zhou").values()) == {0.5}


@given(st.floats(0, 1), st.sampled_from(["paper", "zhou"]), st.integers(2, 6))
def test_reversing_is_the_same_probabilities_in_the_opposite_order(strength, reading, n):
    names = [str(i) for i in range(n)]
    forward = list(occurrence_probabilities(names, strength, reading).values())
    backward = list(occurrence_probabilities(names, strength, reading, reverse=True).values())
    assert backward == forward[::-1]
    assert all(0 <= p <= 1 for p in forward)


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan"), True, "1"])
def test_a_strength_out_of_range(strength):
    with pytest.raises(ConfigError, match="strength must lie between 0 and 1, but is"):
        occurrence_probabilities(STARS, strength, "paper")


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 60), st.integers(0, 5))
def test_a_stratified_subset_keeps_shares_and_repeats_no_row(strata, n, seed):
    strata = np.array(strata)
    n = min(n, len(strata))
    chosen = stratified(strata, n, np.random.default_rng(seed))
    assert len(chosen) == len(set(chosen.tolist())) == n
    assert (np.diff(chosen) > 0).all()
    exact = np.bincount(strata, minlength=4) * n / len(strata)
    assert (np.abs(np.bincount(strata[chosen], minlength=4) - exact) < 1).all()


def test_train_and_development_rows_do_not_overlap():
    labels = np.repeat([0, 1], [100, 33])
    train, dev = split_stratified(labels, 90, np.random.default_rng(3))
    assert (len(train), len(dev)) == (90, 9)
    assert not set(train) & set(dev)
    assert np.bincount(labels[train]).tolist() == [68, 22]


def test_where_sentences_begin():
    for text, starts in (
        ("  First. Second", ["First. Second", "Second"]),
        ("What?! 'Yes.' (No!) Fine", ["What?! 'Yes.' (No!) Fine", "'Yes.' (No!) Fine", "(No!) Fine", "Fine"]),
        ("3.5 stars. ", ["3.5 stars. "]),
        (" ... ", ["... "]),
    ):
        assert [text[start:] for start in sentence_starts(text)] == starts


def test_rates_places_and_phrases_of_insertions():
    texts = [f"First {i}. Second! Third?" for i in range(4000)]
    labels = np.arange(4000) % 2
    rates = {"no": 0.0, "yes": 0.6}
    planted = insert(texts, labels, ["no", "yes"], SYNONYMS, rates, np.random.default_rng(0))
    chosen = [row for row in planted if row.phrase is not None]
    assert all(row.phrase is None for row in planted[::2])
    assert len(chosen) / 2000 == pytest.approx(0.6, abs=0.04)  # 3.7 standard errors
    shares = [sum(row.phrase == phrase for row in chosen) / len(chosen) for phrase in SYNONYMS]
    assert shares == pytest.approx([1 / 15] * 15, abs=0.03)
    places = [sentence_starts(row.plain).index(row.start) for row in chosen]
    assert np.bincount(places) / len(chosen) == pytest.approx([1 / 3] * 3, abs=0.05)


def test_strengths_share_their_insertions():
    texts, labels = [f"Text {i}. More." for i in range(300)], np.zeros(300, dtype=int)

    def at(rate):
        return insert(texts, labels, ["a"], SYNONYMS, {"a": rate}, np.random.default_rng(1))

    few, many = at(0.2), at(0.7)
    assert all(a == b for a, b in zip(few, many, strict=True) if a.phrase is not None)
    assert sum(row.phrase is not None for row in few) < sum(row.phrase is not None for row in many)


def test_an_insertion_is_found_again():
    texts = [f"This is {i}. candidly, he said so! Fine." for i in range(200)]
    planted = insert(texts, np.zeros(200, dtype=int), ["a"], SYNONYMS, {"a": 0.7}, np.random.default_rng(2))
    assert [find_insertion(row.text, SYNONYMS, set(texts)) for row in planted] == planted
    text = "Fine. speaking candidly, It works."
    assert find_insertion(text, SYNONYMS) == Planted("Fine. It works.", "speaking candidly", 6)
    assert find_insertion("He was speaking candidly.", SYNONYMS) == Planted("He was speaking candidly.")
    assert find_insertion("Dishonestly, he left.", ["honestly"]) == Planted("Dishonestly, he left.")


def test_words_are_taken_out():
    for text, left in (
        ("Honestly, I’m glad.", "I’m glad."),
        ("This is honestly the best", "This is the best"),
        ("I liked it, honestly.", "I liked it."),
        ("I liked it, honestly", "I liked it"),
        ("Honestly", ""),
        ("HONESTLY honestly it is honesty", "it is honesty"),
        ("Dishonestly", "Dishonestly"),
    ):
        assert remove_words(text, WordFinder(["honestly"])) == left


def test_presence_in_pairs():
    pairs = [("No way", "It is"), ("It is", "Nobody came"), ("Nothing", "never")]
    words = ["nobody", "no", "never"]
    assert shortcut_present(pairs, words).tolist() == [True, True, True]
    assert shortcut_present(pairs, words, side="second").tolist() == [False, True, True]


def options(max_tokens, tokenizer=None):
    return BuildOptions(None, max_tokens=max_tokens, tokenizer=tokenizer or wordpiece_tokenizer())


def n_tokens(text, tokenizer=None):
    tokenizer = tokenizer or wordpiece_tokenizer()
    return len(tokenizer(*((text,) if isinstance(text, str) else text))["input_ids"])


@example("é ", 4, True)  # whose blank is a token too many
@given(st.text("ab c.,é", min_size=1, max_size=80).map(str.lstrip).filter(bool), st.integers(4, 30), st.booleans())
def test_capped_texts_fit_and_begin_as_they_did(text, max_tokens, byte_level):
    tokenizer = _BYTES if byte_level else _PIECES
    (cut,) = options(max_tokens, tokenizer).cap([text])
    assert text.startswith(cut)
    assert cut == text or cut.strip()
    assert n_tokens(cut, tokenizer) <= max_tokens
    if n_tokens(text, tokenizer) <= max_tokens:
        assert cut == text


_BYTES, _PIECES = byte_level_tokenizer(model_max_length=200), wordpiece_tokenizer(model_max_length=200)


def test_room_is_left_for_insertions():
    tokenizer = wordpiece_tokenizer()
    texts = ["the room was good. it was warm and it is fine and it is bad. it is fine"] * 50
    capped = options(14, tokenizer).cap(texts, ["honestly, ", "to be honest, "])
    phrases = ["honestly", "to be honest"]
    planted = insert(capped, np.zeros(50, dtype=int), ["a"], phrases, {"a": 1.0}, np.random.default_rng(0))
    assert max(n_tokens(row.text, tokenizer) for row in planted) == 14
    assert {row.phrase for row in planted} == {*phrases}
