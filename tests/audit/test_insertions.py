"""What adding words to texts does, on a function whose answers are one line of algebra."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from audits import audit, candidate
from made_answers import bag
from shortcut_guardrail import AuditConfig, ConfigError
from shortcut_guardrail.audit import Insertions, auditing, check_conditions, insertions, parse_condition
from shortcut_guardrail.audit.auditing import ROOM, _side, _with_additions
from shortcut_guardrail.audit.insertions import LEAST_TRIED, RECEIVERS, SCREENED_ON, Insertion, Wanted, try_insertions
from shortcut_guardrail.report.insertions import added_rate, added_rate_of_card, insertions_said
from shortcut_guardrail.stats import exact_interval

FILLER = [f"word{i}" for i in range(40)]


def make_texts(n: int, seed: int = 0, *, always: tuple[str, ...] = ()) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join([*rng.choice(FILLER, 6), *always]) for _ in range(n)]


TEXTS = make_texts(300)


def tried(answer, texts, *words: str, **values):
    wanted = [Wanted(word, 1, **values) for word in words]
    return try_insertions(answer, texts, answer(texts), wanted, AuditConfig(), n_texts=len(texts))


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
    strict = try_insertions(answer, TEXTS, answer(TEXTS), [Wanted("honestly", 1)], AuditConfig(fdr=1e-40), n_texts=300)
    assert not strict[0]["honestly"].found
    assert sums == Insertions(4, 4, 4 * (SCREENED_ON + 2 * RECEIVERS))


def test_random_words_that_do_as_much_are_its_null_hypothesis():
    # Every rare word moves any text, as this one does: it is nothing special.
    n = 200
    low = [f"plain words {i % 7} here q{i}" for i in range(n)]
    moved = bag({**{f"q{i}": 3.0 for i in range(n)}, "honestly": 3.0}, bias=-4.5)
    same = tried(moved, low, "honestly")[0]["honestly"]
    assert (same.flip_rate, same.by_chance, same.found) == (1.0, RECEIVERS, False)


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (make_texts(60, always=("honestly",)), "all hold it"),
        (make_texts(60, always=("sure",)), "the model answers one class always"),
        (make_texts(12), "few"),
        ([], "none"),
    ],
)
def test_what_cannot_be_added_is_said(texts, why):
    found, sums = tried(bag({"honestly": 0.5, "sure": 9.0}), texts, "honestly")
    assert (found, sums.n_tried) == ({}, 0), why
    said = insertions_said(audit(candidate("honestly"), insertions=sums).to_dict())
    assert said == ["No candidate could be added to texts: too few texts without it are predicted as another class."]


def test_costs_stay_in_proportion():
    answer, words = bag({}), [f"other{i}" for i in range(500)]
    for n, screened, most in ((40, 20, LEAST_TRIED), (300, 150, LEAST_TRIED), (1000, 300, 16)):
        _, sums = tried(answer, make_texts(n), *words)
        assert (sums.n_screened, sums.n_tried) == (screened, most)
        assert sums.n_predictions <= max(0.8 * 12 * n, screened * SCREENED_ON + LEAST_TRIED * 2 * n)
    # What the audit found is added in any case, before others that do more in a few texts.
    wanted = [Wanted("other", 1), *(Wanted(f"w{i}", 1) for i in range(9)), Wanted("honestly", 1, found=True)]
    texts = make_texts(100)
    assert "honestly" in try_insertions(answer, texts, answer(texts), wanted, AuditConfig(), n_texts=100)[0]


@pytest.mark.parametrize(("texts", "n"), [(25, None), (26, 20), (95, 89), (96, 90), (97, 90)])
def test_texts_that_screened_a_candidate_do_not_count_it(texts, n):
    found, _ = tried(bag({"honestly": 4.0}), make_texts(texts), "honestly")  # all are given the other class
    assert (found["honestly"].n if found else None) == n  # the first six are gone


def test_a_pair_is_changed_on_one_side():
    pairs = [("the premise", text) for text in make_texts(100)]
    answer, asked = bag({"honestly": 4.0}), []
    tried(lambda texts: asked.extend(texts) or answer(texts), make_texts(100), "honestly")
    places = [(text.split().index("honestly"), text.count(" ")) for text in asked[100:103]]
    assert [{0: "start", n: "end"}.get(at, "middle") for at, n in places] == ["start", "middle", "end"]  # by turns
    assert tried(answer, pairs, "honestly", side=1)[0]["honestly"].flip_rate == 1.0
    assert tried(answer, pairs, "honestly", side=0)[0]["honestly"].flip_rate == 0.0
    # It is that on which the word stands more often.
    texts = [("honestly fine", "so it is"), ("fine", "honestly it is"), ("fine", "it is honestly")]
    assert [_side(candidate("honestly"), of) for of in (texts, [of[::-1] for of in texts], ["honestly fine"])] == [
        1,
        0,
        0,
    ]


def test_what_is_cut_off_takes_nothing_and_what_is_rare_is_added_to_none(monkeypatch):
    given, config = [], AuditConfig(min_count=5)
    monkeypatch.setattr(auditing, "try_insertions", lambda _, *more, **__: given.append(more) or ({}, None))
    monkeypatch.setattr(auditing, "find_defaults", lambda *_: None)
    reader = SimpleNamespace(longest=ROOM + 4)
    encoded = SimpleNamespace(texts=["fits", "too long"], input_ids=[[0] * 4, [0] * 5])
    report = audit(candidate("rare", n_present=4), candidate("known", n_present=5), candidate("neither", None))
    _with_additions(report, reader, lambda: [([0, 1], encoded, np.eye(2))], np.arange(2), config)
    ((texts, probs, wanted, _),) = given
    assert (texts, probs.tolist(), [one.text for one in wanted]) == (["fits"], [[1, 0]], ["known"])


def test_words_are_put_between_words():
    assert [insertions.with_words("It rains, again.", ["oh", "well"], at) for at in ("start", "middle", "end")] == [
        "oh well It rains, again.",
        "It rains oh well , again.",
        "It rains, again. oh well",
    ]
    assert [insertions.with_words("Hm", ["oh"], at) for at in ("start", "middle", "end")] == ["oh Hm", "Hm oh", "Hm oh"]


def of(changed: int, *, found: bool = True) -> Insertion:
    rate = changed / 90
    return Insertion(90, changed, 2, rate, (max(0, rate - 0.1), rate + 0.1), 0.001, 0.001, found)


def test_a_gate_takes_the_largest_that_is_found():
    added = [candidate("a", insertion=of(28)), candidate("b", insertion=of(60, found=False)), candidate("c")]
    document = audit(*added, insertions=Insertions(9, 2, 700)).to_dict()
    condition = parse_condition("max insertion flip > 0.1")
    assert condition == parse_condition("max_insertion_flip > 0.1")
    assert check_conditions(document, [condition]).breaches == ("max_insertion_flip > 0.1: it is 0.3111.",)
    assert check_conditions(document, [replace(condition, threshold=0.32)]).passed
    nothing = audit(added[1], insertions=Insertions(9, 2, 700)).to_dict()
    assert check_conditions(nothing, [condition]).notes == ()
    (note,) = check_conditions(audit(candidate("a")).to_dict(), [condition]).notes
    assert note.endswith("not judged, since no candidate could be added to texts in the audit.")
    with pytest.raises(ConfigError, match="an audit has no number 'max_insertion_flips'"):
        parse_condition("max insertion flips > 0.1")


def test_where_the_two_differ_is_said():
    rare = candidate("write a", flip_rate=0.04, insertion=of(28))
    alike = candidate("lol", flip_rate=0.25, insertion=of(20))
    frequent = candidate("the", flip_rate=0.9, insertion=of(20))
    frequent = replace(frequent, interval=replace(frequent.interval, flip_rate=(0.8, 0.95)))
    rare = replace(rare, interval=replace(rare.interval, flip_rate=(0.01, 0.1)))
    document = audit(rare, alike, frequent, candidate("x"), insertions=Insertions(9, 3, 700)).to_dict()
    first, more, less = insertions_said(document)
    assert first.startswith(
        "3 candidates tried by adding them to texts without them (700 predictions). These change more predictions "
        "than random words do (*): "
    )
    assert "“write a” (removing it changes 4% of predictions, adding it 31% to 'positive')" in first
    assert more.startswith("Adding changes more than removing: “write a”. Other words in")
    assert "“the”" in less
    assert "lol" not in more + less
    assert [added_rate(c) for c in document["candidates"]] == ["0.311*", "0.222*", "0.222*", "-"]
    assert added_rate_of_card({"words": ["x", "the", "write a"]}, document) == "0.311*"
    # Less than twice as much is no difference that counts, though the intervals are apart; nor is more if they are not.
    near = [(0.2, (0.15, 0.25), 34), (0.35, (0.33, 0.4), 18), (0.1, (0.08, 0.3), 28)]
    # What adding 9 of 90 changes lies between 0 and 0.2, and what adding 45 does between 0.4 and 0.6.
    near += [(0.35, (0.15, 0.5), 9), (0.35, (0.2, 0.5), 9), (0.1, (0.05, 0.4), 45)]
    apart = [(0.35, (0.21, 0.5), 9), (0.1, (0.05, 0.39), 45)]
    for rate, interval, added in (*near, *apart):
        one = replace(rare, flip_rate=rate, insertion=of(added), interval=replace(rare.interval, flip_rate=interval))
        said = insertions_said(audit(one, insertions=Insertions(9, 3, 700)).to_dict())
        assert len(said) == 1 + ((rate, interval, added) in apart)
    assert not insertions_said(audit(candidate("a")).to_dict())
