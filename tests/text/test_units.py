"""Tokens to words with every kind of tokenizer, word scores, masks over spans, and neighbours that recur."""

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from shortcut_guardrail import TextClassifier
from shortcut_guardrail.text import WordFinder
from shortcut_guardrail.text.edits import masked_texts, with_insertions
from shortcut_guardrail.text.units import recurring_phrases, words_as_units
from tiny_models import BYTE_SPECIALS, byte_level_tokenizer, fast_tokenizer, tiny_bert, wordpiece_tokenizer


def sentencepiece_tokenizer():
    """A SentencePiece-like tokenizer of single characters and a few pieces; a word starts with the mark of a space."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "▁", "▁hon", "est", "ly", ",", "!", "'", "你", "好", *letters]
    vocab = [(piece, -1.0 - 0.1 * (i > 8)) for i, piece in enumerate(pieces)]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return fast_tokenizer(tokenizer, BYTE_SPECIALS, "<s> $A </s> </s> $B </s>", model_max_length=64)


TOKENIZERS = {"wordpiece": wordpiece_tokenizer, "byte-level": byte_level_tokenizer, "pieces": sentencepiece_tokenizer}


def encode(kind: str, texts):
    tokenizer = TOKENIZERS[kind]()
    tokenizer.model_max_length = 64
    model, _ = tiny_bert(vocab_size=len(tokenizer), max_position_embeddings=64)
    classifier = TextClassifier(model, tokenizer)
    return classifier, classifier.encode(texts)


JOINED = "https://t.co/a1, @user's 10/10 #tag a@b.co www.ab.c"


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_pieces_are_grouped_to_the_words_they_come_from(kind):
    text = "honestly, don't dzzy!"
    _, encoded = encode(kind, [text, "ok"])
    units = words_as_units(encoded)
    assert units.keys[0] == ["honestly", ",", "don't", "dzzy", "!"]
    assert [text[start:end] for start, end, _ in units.spans[0]] == ["honestly", ",", "don't", "dzzy", "!"]
    ordinary, of_token = encoded.ordinary[0], units.of_token[0]
    assert set(of_token[~ordinary]) == {-1}
    assert ordinary.sum() > 5  # there are more tokens than words, each in one of them, in order
    assert (sorted(of_token[ordinary]), set(of_token[ordinary])) == (of_token[ordinary].tolist(), set(range(5)))
    assert units.wordlike[0].tolist() == [True, False, True, True, False]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_what_is_written_as_one_thing_is_masked_whole_and_found_again(kind):
    classifier, encoded = encode(kind, [f"so {JOINED}", "so 10 10 t.co user tag a b"])
    units, mask = words_as_units(encoded), classifier.tokenizer.mask_token_id
    assert units.keys[0] == ["so", "https://t.co/a1", ",", "@user's", "10/10", "#tag", "a@b.co", "www.ab.c"]
    for unit, (key, (start, end, _)) in enumerate(zip(units.keys[0], units.spans[0], strict=True)):
        assert encoded.texts[0][start:end] == key
        found, elsewhere = WordFinder([key]).positions(encoded)
        assert found.tolist() == np.flatnonzero(units.of_token[0] == unit).tolist()
        assert (len(elsewhere) > 0) == (key == "so")
        masked = masked_texts(encoded, [found, elsewhere], mask).input_ids[0]
        assert np.flatnonzero(masked != encoded.input_ids[0]).tolist() == found.tolist()


def test_bytes_space_pieces_and_sides_of_a_pair():
    _, encoded = encode("byte-level", ["ok 🙂 né"])
    units = words_as_units(encoded)
    assert units.keys[0] == ["ok", "🙂", "né"]
    assert np.bincount(units.of_token[0][units.of_token[0] >= 0]).tolist() == [2, 5, 4]  # with the spaces before
    classifier, encoded = encode("pieces", ["你  z!"])  # a lone space goes with the word after it
    units = words_as_units(encoded)
    assert units.keys[0] == ["你", "z", "!"]
    pieces = classifier.tokenizer.convert_ids_to_tokens(encoded.input_ids[0].tolist())
    by_word = [[p for p, u in zip(pieces, units.of_token[0], strict=True) if u == unit] for unit in range(3)]
    assert by_word == [["▁", "你"], ["▁", "▁", "z"], ["!"]]
    assert WordFinder(["z"]).positions(encoded)[0].tolist() == np.flatnonzero(units.of_token[0] == 1).tolist()
    units = words_as_units(encode("wordpiece", ["nE\u0301 ok"])[1])  # the tokenizer takes the accent off
    assert (units.keys[0], units.spans[0][:, :2].tolist()) == (["né", "ok"], [[0, 3], [4, 6]])
    units = words_as_units(encode("wordpiece", [("the soup", "soup was cold")])[1])
    assert (units.keys[0], units.spans[0][:, 2].tolist()) == (["the", "soup", "soup", "was", "cold"], [0, 0, 1, 1, 1])


def test_a_phrase_that_a_text_repeats_recurs_in_one_text():
    _, encoded = encode("wordpiece", ["good soup good soup good soup", "good soup", "bad tea"])
    units = words_as_units(encoded)
    important = np.array([[0, 1, 2, 3, 4, 5], [0, 1, -1, -1, -1, -1], [0, 1, -1, -1, -1, -1]])
    for least, phrases in ((1, {"good soup", "bad tea"}), (2, {"good soup"}), (3, set())):
        assert recurring_phrases(units, important, min_count=least) & {"good soup", "bad tea"} == phrases


def test_what_is_put_into_a_text_of_one_word_stands_before_it():
    _, bearing = encode("wordpiece", ["the soup honestly"])
    _, encoded = encode("wordpiece", ["bread"])
    positions = WordFinder(["honestly"]).positions(bearing)
    put = with_insertions(encoded, bearing, positions, max_length=9, rng=np.random.default_rng(0))
    assert [put.input_ids[0][1], put.input_ids[0][2]] == [bearing.input_ids[0][3], encoded.input_ids[0][1]]
