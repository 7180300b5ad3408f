"""Questions: blind, mixed, in an order of the seed, each text once; and their file."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import asdict, replace

import pytest

from shortcut_guardrail import DataError, Questions
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.cards.card import Card, CardEvidence
from shortcut_guardrail.data import text_hash, to_json
from shortcut_guardrail.decisions import AuditedCards
from shortcut_guardrail.decisions.drawing import Drawing, Key, ReferenceText

TEXTS = [f"text number {i}" for i in range(60)]
NAMES = ("negative", "positive", "mixed")


def flip(row: int, after: str = "negative") -> Flip:
    return Flip.of(row, "positive", after, TEXTS[row], 0.5)


FLIPS = {
    "first-card": [flip(i) for i in range(30)],
    "second-card": [flip(i) for i in range(20, 30)] + [flip(i, "mixed") for i in range(5)],
}


def drawn(flips=FLIPS, **changes):
    drawing = Drawing("audit-1", NAMES, **{name: changes.pop(name) for name in ("asked", "known") if name in changes})
    return drawing.of_flips(flips, **{"n": 0, "seed": 0, **changes})


def test_every_flip_is_asked_about_once_however_many_cards_it_serves():
    questions, keys = drawn()
    # Ten flips serve both cards; five rows have two masked predictions, which are two questions.
    assert len(questions) == len({q.id for q in questions}) == 30 + 5
    served = Counter(key.id for key in keys)
    assert Counter(served.values()) == {2: 10, 1: 25}


def test_the_key_says_which_option_is_the_masked_prediction():
    questions, keys = drawn()
    by_id = {q.id: q for q in questions}
    flips = {(card, one.row): one for card, of_card in FLIPS.items() for one in of_card}
    for key in keys:
        question = by_id[key.id]
        sides = (question.option_a, question.option_b)
        one = flips[key.card, question.row]
        assert (sides if key.masked_option == "a" else sides[::-1]) == (one.after, one.before)
        assert key.text_hash == text_hash(TEXTS[question.row]) == text_hash(question.text)


def test_which_option_comes_first_is_a_coin():
    flips = [Flip.of(i, "positive", "negative", f"another text {i}") for i in range(400)]
    _, keys = drawn({"c": flips})
    assert 160 < sum(key.masked_option == "a" for key in keys) < 240


def test_a_question_tells_nothing_of_the_card():
    questions, _ = drawn(n=5)
    assert {f for q in questions for f in vars(q)} == {"id", "row", "text", "option_a", "option_b"}
    renamed, _ = drawn({"renamed": FLIPS["first-card"], "second-card": FLIPS["second-card"]})
    assert {q.id for q in renamed} == {q.id for q in drawn()[0]}


def test_the_seed_fixes_the_order():
    assert drawn() == drawn()
    assert [q.id for q in drawn()[0]] != [q.id for q in drawn(seed=1)[0]]
    assert {q.id for q in drawn()[0]} == {q.id for q in drawn(seed=1)[0]}
    # The masked prediction keeps its place, or earlier answers would mean the opposite.
    sides = [{key.id: key.masked_option for key in drawn(seed=seed)[1]} for seed in (0, 1)]
    assert sides[0] == sides[1]
    # Flips are not asked about in their own order, on whose randomness the evidence rests.
    order = [text_hash(TEXTS[i]) for i in range(30)]
    assert [key.text_hash for key in drawn()[1] if key.card == "first-card"] != order


def test_cards_are_mixed_and_keep_their_order():
    questions, keys = drawn(n=10)
    place = {q.id: i for i, q in enumerate(questions)}
    for card in FLIPS:
        own = [place[key.id] for key in sorted(keys, key=lambda k: k.order) if key.card == card]
        # A text that another card asks about earlier is moved up, so the order is kept but for these.
        assert sum(a > b for a, b in itertools.pairwise(own)) <= 3
    assert {key.card for key in keys if place[key.id] < len(questions) / 2} == set(FLIPS)


def test_what_was_asked_comes_last():
    _, keys = drawn(n=10)
    more, new = drawn(n=10, asked=keys)
    assert {key.call for key in keys} == {1}
    assert {key.call for key in new} == {2}
    of_first = [{key.id for key in some if key.card == "first-card"} for some in (keys, new)]
    assert not of_first[0] & of_first[1]
    assert sorted(key.order for key in new if key.card == "first-card") == list(range(10, 20))
    # Of 15 flips 10 were asked: the other five come, and then old ones again, whose keys stand already.
    assert len([key for key in new if key.card == "second-card"]) == 5
    assert len(more) > len(new) - len(of_first[0] & of_first[1])


def test_a_label_answers_before_anybody_is_asked():
    questions, keys = drawn(known={0: "negative", 1: "positive", 25: "mixed"})
    assert not {q.row for q in questions} & {0, 1, 25}
    known = {(key.card, key.text_hash): key for key in keys if key.label}
    mended, broken, neither = (known["first-card", text_hash(TEXTS[i])] for i in (0, 1, 25))
    assert mended.label == mended.masked_option
    assert broken.label not in (broken.masked_option, "neither")
    assert neither.label == "neither"


@pytest.mark.parametrize("n", [1, 7])
def test_n_is_for_each_card(n):
    _, keys = drawn(n=n)
    assert Counter(key.card for key in keys) == {"first-card": n, "second-card": n}


# The file


def card(name: str, *words: str) -> Card:
    evidence = CardEvidence("undecided", (), 1.0, 0.7)
    return Card(name, words or (name,), "positive", 40, 30, 0.5, evidence, except_in=("text number 3",))


@pytest.fixture
def folder(tmp_path):
    """With an audit of two cards."""
    cards = [card("first-card", "number"), card("second-card")]
    document = {"cards": list(map(asdict, cards)), "model": "m", "data": "d", "label_names": NAMES, "n_distinct": 60}
    (tmp_path / "audit.json").write_text(to_json(document))
    return tmp_path


def asked(folder, **changes) -> Questions:
    audited = AuditedCards.from_folder(folder)
    questions, keys = Drawing(audited.id, NAMES, **changes).of_flips(FLIPS)
    reference = (ReferenceText(50, TEXTS[50], "positive", "negative", 1.5, True, False, ("second-card",)),)
    return Questions(audited, FLIPS, tuple(keys), reference, ("deployed",), tuple(questions))


def test_questions_survive_their_file(folder):
    made = asked(folder, known={0: "mixed"})
    made.save(folder)
    assert replace(made, asked=()) == Questions.from_folder(folder)
    # Without texts nothing is left that tells one, and no classifier can be asked.
    made.save(folder, redact=True)
    assert "text number" not in (folder / "questions.jsonl").read_text()
    redacted = Questions.from_folder(folder)
    assert redacted.keys == made.keys
    with pytest.raises(DataError, match=r"lacks the texts of 35 questions.*redact=True"):
        redacted.for_judges  # noqa: B018


def test_classifiers_are_asked_with_the_words_and_without_them(folder):
    made = asked(folder).for_judges
    cases = {(case.card, case.flip.row): case for case in made.cases}
    assert cases["first-card", 7].text == "text number 7"
    assert cases["first-card", 7].without == "text 7"
    assert cases["first-card", 3].without == "text number 3", "within a phrase of another card the word stays"
    assert len(cases) == 30 + 15
    assert made.texts[0] == TEXTS[50], "reference texts come first"
    assert len(made.texts) == len(set(made.texts))
    few = replace(
        asked(folder), flips={"first-card": FLIPS["first-card"][:7], "second-card": FLIPS["second-card"]}, keys=()
    )
    assert {case.card for case in few.for_judges.cases} == {"second-card"}, "seven flips decide nothing"


def test_nothing_asked_and_another_audit_are_told(folder):
    with pytest.raises(DataError, match=r"Nothing was asked about the audit .* it has no questions.jsonl. Run `flips`"):
        Questions.from_folder(folder)
    asked(folder).save(folder)
    document = {"cards": [asdict(card("other"))], "model": "m", "data": "d", "label_names": NAMES, "n_distinct": 60}
    (folder / "audit.json").write_text(to_json(document))
    with pytest.raises(DataError, match="it was audited again"):
        Questions.from_folder(folder)


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"key": {"id": 1}}', '{"key": {"id": "q", "masked_option": "x"}}', "null"]
)
def test_a_damaged_line_is_named(folder, line):
    asked(folder).save(folder)
    file = folder / "questions.jsonl"
    head, *rest = file.read_text().splitlines()
    file.write_text("\n".join([head, line, *rest]))
    with pytest.raises(DataError, match="line 2: this is no question"):
        Questions.from_folder(folder)


def test_labels_answer_for_the_files_of_their_call_and_later_ones(folder):
    questions = [Key(f"q{i}", "card", "a", "h", i, call=call) for i, call in enumerate((1, 1, 2, 2))]
    of_labels = [(1, "card"), (1, "other"), (2, "card")]
    labels = [Key(f"l{i}", card, "a", "h", 9, label="a", call=i) for i, card in of_labels]
    made = replace(asked(folder), keys=(*questions[:2], *labels[:2], *questions[2:], labels[2]))
    # "q3" is in neither file, and "other" has labels alone.
    assert made.of_rows(["q0", "q1"]).keys == (*questions[:2], *labels[:2])
    assert made.of_rows(["q2"]).keys == (*labels[:2], questions[2], labels[2])
    assert made.of_rows(["q0", "q1", "q2"]).keys == (*questions[:2], *labels[:2], questions[2], labels[2])
