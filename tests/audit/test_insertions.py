"""What adding words to texts does, on a function whose answers are one line of algebra."""

import re

import numpy as np
import pytest

from audits import audit, candidate
from made_answers import bag
from shortcut_guardrail import AuditConfig
from shortcut_guardrail.audit import Insertions
from shortcut_guardrail.audit.evidence import Intervals
from shortcut_guardrail.audit.insertions import (
    LEAST_TRIED,
    PLACES,
    RECEIVERS,
    SCREENED_ON,
    Insertion,
    Trial,
    Wanted,
    try_insertions,
    with_words,
)
from shortcut_guardrail.report.insertions import insertions_said
from shortcut_guardrail.stats import exact_interval

FILLER = [f"word{i}" for i in range(40)]


def make_texts(n: int, seed: int = 0, *, always: tuple[str, ...] = ()) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join([*rng.choice(FILLER, 6), *always]) for _ in range(n)]


TEXTS = make_texts(300)


def tried(answer, texts, *words: str, **values):
    wanted = [Wanted(word, 1, **values) for word in words]
    return try_insertions(answer, texts, answer(texts), wanted, AuditConfig(), n_texts=len(texts))[:2]


def test_a_word_that_moves_texts_is_found_and_its_neighbours_are_not():
    answer = bag({"honestly": 4.0, "rather": 1.0, "word3": 2.5})
    found, sums = tried(answer, TEXTS, "honestly", "rather", "word3", "as ever honestly")
    # "word3" moves texts only to +0.5, and those that hold it are answered "positive" already.
    assert {name for name, one in found.items() if one.found} == {"honestly", "word3", "as ever honestly"}
    honestly, rather = found["honestly"], found["rather"]
    assert (honestly.n, honestly.changed, honestly.flip_rate) == (RECEIVERS, RECEIVERS, 1.0)
    assert (rather.changed, rather.q_value > 0.05) == (0, True)
    assert honestly.by_chance < 20
    assert honestly.interval == exact_interval(RECEIVERS, RECEIVERS)
    # McNemar's test counts the texts that random words do not move.
    assert honestly.p_value == pytest.approx(max(0.5 ** (RECEIVERS - honestly.by_chance), 0.05**RECEIVERS))
    for strict, p in ((AuditConfig(fdr=1e-40), honestly.p_value), (AuditConfig(min_pull=0.99), 0.99**RECEIVERS)):
        one = try_insertions(answer, TEXTS, answer(TEXTS), [Wanted("honestly", 1)], strict, n_texts=300)[0]["honestly"]
        assert (one.found, one.p_value) == (False, pytest.approx(p))
    assert sums == Insertions(4, 4, 4 * (SCREENED_ON + 2 * RECEIVERS))
    wanted = [Wanted(word, 1) for word in ("rather", "word9", "honestly")]
    assert try_insertions(answer, TEXTS, answer(TEXTS), wanted, AuditConfig(), n_texts=300)[2] == wanted[::-2]


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (make_texts(60, always=("honestly",)), "all hold it"),
        (make_texts(60, always=("sure",)), "the model answers one class always"),
        (make_texts(25), "few"),
        ([], "none"),
    ],
)
def test_what_cannot_be_added_is_said(texts, why):
    found, sums = tried(bag({"honestly": 0.5, "sure": 9.0}), texts, "honestly")
    assert (found, sums.n_tried) == ({}, 0), why
    said = insertions_said(audit(candidate("honestly"), insertions=sums).to_dict())
    assert said == ["No candidate could be added to texts: too few texts without it are predicted as another class."]


def test_words_and_random_ones_like_each_are_put_between_words():
    assert [with_words("a b c d", ["x"], place) for place in PLACES] == ["x a b c d", "a b x c d", "a b c d x"]
    assert (with_words("a", ["x"], "middle"), with_words(" ", ["x"], "start")) == ("a x", "x")
    asked: list[str] = []
    none = lambda of: np.eye(2)[[0] * len(of)]  # noqa: E731
    texts = ["Soup tea", "soup bread", "soup tea"] * 10
    trial = Trial(lambda of: asked.extend(of) or none(of), texts, none(texts))
    assert (trial.vocabulary, trial.counts.tolist()) == (["bread", "tea", "soup"], [10, 20, 30])
    trial.like = str.upper  # each word of a phrase has a random one of its own
    assert trial.counted(Wanted("no room", 1)) == ("no room", 0, 0, 0, 0, 24)
    assert (asked[0], asked[24]) == ("no room Soup tea", "NO ROOM Soup tea")


def test_costs_stay_in_proportion():
    answer, words = bag({}), [f"other{i}" for i in range(500)]
    for n, screened, most in ((40, 20, LEAST_TRIED), (300, 150, LEAST_TRIED), (1000, 300, 16)):
        _, sums = tried(answer, make_texts(n), *words)
        assert (sums.n_screened, sums.n_tried) == (screened, most)
        assert sums.n_predictions <= max(0.8 * 12 * n, screened * SCREENED_ON + LEAST_TRIED * 2 * n)
    assert tried(answer, make_texts(26), "honestly")[1].n_tried == 1  # of 25 too few are left, as above
    # What the audit found is added in any case, before others that do more in a few texts.
    wanted = [Wanted("other", 1), *(Wanted(f"w{i}", 1) for i in range(9)), Wanted("honestly", 1, found=True)]
    texts = make_texts(100)
    assert "honestly" in try_insertions(answer, texts, answer(texts), wanted, AuditConfig(), n_texts=100)[0]


def test_adding_and_removing_differ_where_one_is_twice_the_other_and_their_intervals_do_not_meet():
    def one(text, removed, ends, added, added_ends, found=True):
        insertion = Insertion(60, 30, 6, added, added_ends, 0.001, 0.004, found)
        return candidate(text, flip_rate=removed, interval=Intervals(ends, (0.0, 0.1), (0.0, 0.1)), insertion=insertion)

    words = [one("more", 0.2, (0.1, 0.3), 0.7, (0.5, 0.8)), one("close", 0.4, (0.3, 0.45), 0.65, (0.5, 0.7))]
    words += [one("wide", 0.2, (0.1, 0.55), 0.6, (0.5, 0.7)), one("less", 0.8, (0.7, 0.9), 0.35, (0.2, 0.4))]
    words += [one("near", 0.5, (0.45, 0.6), 0.3, (0.2, 0.4)), one("far", 0.8, (0.1, 0.9), 0.3, (0.2, 0.4))]
    words.append(one("idle", 0.2, (0.1, 0.3), 0.9, (0.5, 0.95), found=False))
    said, more, less = insertions_said(audit(*words, insertions=Insertions(9, 2, 90)).to_dict())
    assert said.startswith("2 candidates tried by adding them to texts without them (90 predictions). These change")
    assert (re.findall("“(.*?)”", said), said[-11:]) == (["more", "close", "wide", "less", "near"], "and 1 more.")
    assert more.startswith("Adding changes more than removing: “more”. Other")
    assert less.startswith("Removing changes more than adding: “less”. Either")
