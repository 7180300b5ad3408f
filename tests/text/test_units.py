"""Tokens to words with every kind of tokenizer, word scores, masks over spans, and neighbours that recur."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from shortcut_guardrail import SaliencyConfig, TextClassifier
from shortcut_guardrail.attribution.occlusion import mask_variants, masking_effects
from shortcut_guardrail.attribution.saliency import find_important_tokens, token_scores
from shortcut_guardrail.text import WordFinder
from shortcut_guardrail.text.edits import masked_texts
from shortcut_guardrail.text.units import recurring_phrases, tokens_as_units, words_as_units
from shortcut_guardrail.text.words import word_spans
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


def test_words_of_a_text():
    for text, words in (
        ("Don't stop!! :)", ["Don't", "stop", "!!", ":", ")"]),
        ("e-book_club 'quoted'", ["e", "-", "book_club", "'", "quoted", "'"]),
        ("I’m naïve, she’s", ["I’m", "naïve", ",", "she’s"]),
    ):
        assert [text[start:end] for start, end in word_spans(text)] == words


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


def test_a_word_scores_the_norm_over_its_tokens():
    classifier, encoded = encode("wordpiece", ["dzzy soup was xyz", "honestly good"])
    units = words_as_units(encoded)
    found = find_important_tokens(classifier, encoded, SaliencyConfig(top_k=5), units=units)
    for i, n in enumerate(map(len, units.keys)):
        scores = token_scores(classifier, classifier.collate(encoded, [i])).scores[0].numpy()
        expected = np.array([np.sqrt(np.square(scores[units.of_token[i] == unit]).sum()) for unit in range(n)])
        order = np.argsort(-expected)
        assert found.positions[i].tolist() == [*order, *[-1] * (5 - n)]
        np.testing.assert_allclose(found.margin_scores[i][:n], expected[order], rtol=1e-4)


def test_single_tokens_as_units_give_the_papers_scores(bert):
    classifier = TextClassifier(*bert)
    encoded = classifier.encode(["the soup was dzzy", "honestly good bread"])
    units, config = tokens_as_units(encoded), SaliencyConfig(top_k=4)
    ours = find_important_tokens(classifier, encoded, config, units=units)
    papers = find_important_tokens(classifier, encoded, config)
    assert (ours.positions == papers.positions).all()
    np.testing.assert_allclose(ours.scores, papers.scores, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(
        masking_effects(classifier, encoded, ours.positions, units=units).probs,
        masking_effects(classifier, encoded, papers.positions).probs,
        atol=1e-6,
    )


def test_a_span_is_masked_whole_and_nothing_else():
    ids = torch.tensor([[1, 10, 11, 12, 13, 2], [1, 20, 21, 2, 0, 0]])
    units = torch.tensor([[-1, 0, 0, 1, 2, -1], [-1, 0, 1, -1, -1, -1]])
    first, last = torch.tensor([[0, 1], [1, -1]]), torch.tensor([[0, 2], [1, -1]])
    variants = mask_variants(ids, first, 9, units=units, last=last)
    assert variants.input_ids.tolist() == [[1, 9, 9, 12, 13, 2], [1, 10, 11, 9, 9, 2], [1, 20, 9, 2, 0, 0]]
    assert (variants.rows.tolist(), variants.slots.tolist()) == ([0, 0, 1], [0, 1, 0])


def test_a_phrase_that_a_text_repeats_recurs_in_one_text():
    _, encoded = encode("wordpiece", ["good soup good soup good soup", "good soup", "bad tea"])
    units = words_as_units(encoded)
    important = np.array([[0, 1, 2, 3, 4, 5], [0, 1, -1, -1, -1, -1], [0, 1, -1, -1, -1, -1]])
    for least, phrases in ((1, {"good soup", "bad tea"}), (2, {"good soup"}), (3, set())):
        assert recurring_phrases(units, important, min_count=least) & {"good soup", "bad tea"} == phrases
