"""Whole outputs of what reads texts: words, spellings, the finder, units, edits and repeats."""

import json
from itertools import product
from pathlib import Path

import numpy as np

from made_answers import bag
from shortcut_guardrail import text as room
from shortcut_guardrail.classifiers import WordReader
from shortcut_guardrail.classifiers.function import FunctionClassifier
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.text.folding import fold
from shortcut_guardrail.text.segmenters import segmenting
from tiny_models import build_family
from whole_outputs import compare, each, told

SPELLINGS = json.loads((Path(__file__).parent / "spellings.json").read_text(encoding="utf-8"))
HALVES = room.Segmenter("halves", lambda run: [run[i : i + 2] for i in range(0, len(run), 2)])
GAPS = room.Segmenter("gaps", lambda run: [(1, min(3, len(run)))] if len(run) > 1 else [])
WRONG = (lambda run: [(0, 2), (1, 3)], lambda run: [run + run], lambda run: 5, lambda run: [(2, 1)])


def test_words():
    lines = []
    for one, segmenter in product(SPELLINGS["texts"], (None, HALVES, GAPS)):
        with segmenting(segmenter):
            lines += [f"{room.segmenter_name()}: " + "|".join(one[a:b] for a, b in room.word_spans(one))]
    for one in SPELLINGS["texts"]:
        folded, n = fold(one), len(fold(one).text)
        lines += [folded.text, f"{[*folded.starts]} {[*folded.ends]}", room.unit_key(one), room.visible_name(one)]
        lines += [f"{[folded.span(a, b) for a in range(n) for b in range(a + 1, min(a + 3, n + 1))]}"]
        lines += [room.spaced(one), str(room.evidence_key(one) % 997), *told(room.parts_of(one))]
    for bad in WRONG:
        lines += each(room.Segmenter("bad", bad), ("\u5f88\u597d\u5f88",))
    lines += each(room.recorded_segmenter, (None, "halves", "nowhere:f", "math:pi", "no"))
    lines += each(room.open_segmenter, ("nowhere:f", "math:pi", "no", "math:"))
    lines += [one.name for one in map(room.open_segmenter, ("math:sqrt", HALVES))]
    for function in (room.content_words, room.is_content, room.stems):
        lines += each(function, SPELLINGS["phrases"])
    for one in SPELLINGS["phrases"]:
        lines += each(room.content_spans, (f"Oh, {one}!",), (4,), (4 + len(one),))
    repeats = ["a 1", "A 2!", "a 1", ("a", "1"), ("a", "1"), "b", "a 1", "!", "?"]
    lines += told(room.find_repeats(*([key(one) for one in repeats] for key in (room.text_key, room.evidence_key))))
    lines += [*each(room.distinct_rows, (repeats,)), room.visible_name("x" * 1200)[990:]]
    compare("words", lines + each(room.check_words, ("a", [], ["a", " "], ["", "b", "\u200b"], ["x"])))


def test_finder():
    lines, texts = [], ["to be honest, the food was fine", "honestly", "a good place!", "honestly good honestly"]
    kept = ((), ("not bad", "book", "to be honest"), ("bad at all", "so bad, bad", "\u5f88"))
    for phrases, with_marks in product(kept, (False, True)):
        finder = room.WordFinder(SPELLINGS["words"], kept=phrases, with_marks=with_marks)
        lines += [f"{finder.words} {bool(finder)}"]
        lines += [
            f"{[(o.word, one[o.start : o.end], o.start) for o in finder.find(one)]}" for one in SPELLINGS["texts"]
        ]
    texts += ["it was bad, to be honest", "the soup, honestly, was good and so it was honestly fine really"]
    read, tokens = (
        WordReader(FunctionClassifier("bag", ("a", "b"), bag({}))),
        TextClassifier(*build_family("bert"), max_length=14),
    )
    byte = TextClassifier(*build_family("roberta"), max_length=30)
    for reader, given in product((read, tokens, byte), (texts, [*zip(texts, texts[::-1], strict=True)])):
        lines += edited(reader, reader.encode(given))
    for one in ("a, b, c", "b b, a", "x-b-y", "\u597db\u597d", "a b", "b", "(b) a", "a b.", "a,b"):
        encoded = read.encode([one])
        cut = room.shortened_texts(encoded, room.WordFinder(["b"]).positions(encoded), None)
        lines += told(room.remaining_texts(cut))
    compare("finder", lines)


def edited(reader, encoded):
    """What is found in some texts, the units that they are read as, and the texts without and with what was found."""
    finder = room.WordFinder(["honestly", "to be honest", "good"], kept=["so it was honestly"])
    for sides, content in product(((0,), (1,), (0, 1)), (False, True)):
        how = {"sides": sides, "content_only": content}
        yield from told([np.flatnonzero(finder.tokens(encoded, i, **how)) for i in range(6)], f"{sides} {content}")
    yield from each(room.warn_of_absent, (["good", "zzz", "tea"],), (encoded,), sides=(1,))
    yield from told(encoded.select([3, 0]))
    yield from (
        encoded.visible_text(i, side) for i in range(6) for side in range(1 + (type(encoded.texts[0]) is tuple))
    )
    important = np.array([[0, 2, 5], [1, 3, -1], [0, -1, -1], [2, 1, 0], [1, 2, 6], [10, 5, 9]])
    for units in (room.words_as_units(encoded), room.tokens_as_units(encoded)):
        yield from told(units)
        for least, known in ((1, ()), (2, ("the food",))):
            phrases = room.recurring_phrases(units, important, min_count=least, known=known)
            yield from told([sorted(phrases), *room.choose_spans(units, important, phrases)])
    positions, mask = finder.positions(encoded), reader.mask_token_id
    yield from told(finder.present_in(encoded))
    for how in ("cut", *(("mask", "replace") if mask else ())):
        erased = room.erased_texts(encoded, positions, mask, how)
        yield from told([erased.input_ids, erased.ordinary], how)
        yield from told(room.remaining_texts(erased)) if mask is None else ()
    for most in (10, 40):
        how = {"max_length": most, "rng": np.random.default_rng(most)}
        new = room.with_insertions(encoded.select([2, 1]), encoded.select([0, 3]), [positions[0], positions[3]], **how)
        yield from told([new.input_ids, new.segments], f"with {most}")
