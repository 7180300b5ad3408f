"""Questions: what is asked of classifiers, and their file."""

from dataclasses import asdict, replace

import pytest

from shortcut_guardrail import DataError, Questions
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.cards.card import Card, CardEvidence
from shortcut_guardrail.data import to_json
from shortcut_guardrail.decisions import AuditedCards, Decisions
from shortcut_guardrail.decisions.drawing import Drawing, ReferenceText
from shortcut_guardrail.decisions.questions import pieces_of
from shortcut_guardrail.saving.audits import audit_of
from shortcut_guardrail.text import WordFinder

TEXTS = [f"text number {i}" for i in range(60)]
NAMES = ("negative", "positive", "mixed")
FLIPS = {"first-card": [Flip.of(i, "positive", "negative", TEXTS[i], 0.5) for i in range(30)]}
FLIPS["second-card"] = FLIPS["first-card"][20:] + [Flip.of(i, "positive", "mixed", TEXTS[i]) for i in range(5)]


def card(name: str, *words: str) -> Card:
    evidence = CardEvidence("undecided", (), 1.0, 0.7)
    return Card(name, words or (name,), "positive", 40, 30, 0.5, evidence, except_in=("text number 3",))


def audited(folder, *cards: Card):
    document = {"cards": list(map(asdict, cards)), "model": "m", "data": "d", "label_names": NAMES, "n_distinct": 60}
    (folder / "audit.json").write_text(to_json(document))
    return folder


@pytest.fixture
def folder(tmp_path):
    return audited(tmp_path, card("first-card", "number"), card("second-card"))


def asked(folder, **changes) -> Questions:
    cards = AuditedCards.from_folder(folder)
    questions, keys = Drawing(cards.id, NAMES, **changes).of_flips(FLIPS)
    reference = (ReferenceText(50, TEXTS[50], "positive", "negative", 1.5, True, False, ("second-card",)),)
    return Questions(cards, FLIPS, tuple(keys), reference, ("deployed",), tuple(questions))


def test_questions_survive_their_file(folder):
    made = asked(folder, known={0: "mixed"})
    made.save(folder)
    assert replace(made, asked=()) == Questions.from_folder(folder)
    one, rows = made.asked[0], (made.rows()[0], made.rows(redact=True)[0])
    expected = {"id": one.id, "row": one.row, "option_a": one.option_a, "option_b": one.option_b, "answer": ""}
    assert rows == (expected | {"text": one.text}, expected)
    # Classes of the audit may get other names.
    document = (folder / "audit.json").read_text()
    (folder / "audit.json").write_text(document.replace('"negative"', '"bad"').replace('"positive"', '"good"'))
    (read,), flip = Questions.from_folder(folder).reference, Questions.from_folder(folder).flips["first-card"][0]
    assert (read.answer, read.other, flip.before, flip.after) == ("good", "bad", "good", "bad")
    (folder / "audit.json").write_text(document)
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
    assert (cases["first-card", 7].text, cases["first-card", 7].without) == ("text number 7", "text 7")
    assert cases["first-card", 3].without == "text number 3", "within a phrase of another card the word stays"
    assert len(cases) == 30 + 15
    assert made.texts[0] == TEXTS[50], "reference texts come first"
    assert len(made.texts) == len(set(made.texts))
    few = {"first-card": FLIPS["first-card"][:7], "second-card": FLIPS["second-card"][:8]}
    few = replace(asked(folder), flips=few, keys=()).for_judges
    assert {case.card for case in few.cases} == {"second-card"}, "seven flips decide nothing, and eight may"
    assert [one.row for one in few.reference] == [50]
    other = replace(asked(folder), flips={"second-card": FLIPS["second-card"][10:] * 2}, keys=())
    assert other.for_judges.reference == (), "these are of other classes"


def test_words_are_cut_with_the_space_that_they_leave(folder):
    pairs = {("one  number  more", "two"): ("one more", "two"), ("number", "x"): None}
    cut = {"A number.": "A .", "number": None, **pairs}
    flips = [Flip.of(i, "positive", "negative", text) for i, text in enumerate([*cut] * 2)]
    made = replace(asked(folder), flips={"first-card": flips}, keys=())
    assert [case.without for case in made.for_judges.cases] == [*cut.values()] * 2
    finder = WordFinder(["this book", "book is", "one"])
    pieces = [("this book is", True), (" ", False), ("one", True)]
    assert pieces_of(finder, "this book is one") == pieces, "words that overlap are one piece"


def test_nothing_asked_a_damaged_line_and_another_audit_are_told(folder):
    with pytest.raises(DataError, match=r"Nothing was asked about the audit .* it has no questions.jsonl. Run "):
        Questions.from_folder(folder)
    asked(folder).save(folder)
    file = folder / "questions.jsonl"
    head, *rest = file.read_text().splitlines()
    for line in ("{", '{"key": {"id": 1}}', "null"):
        file.write_text("\n".join([head, line, *rest]))
        with pytest.raises(DataError, match="line 2: this is no question"):
            Questions.from_folder(folder)
    file.write_text(head)
    with pytest.raises(DataError, match="it was audited again"):
        Questions.from_folder(audited(folder, card("other")))


def test_decisions_find_the_audit_that_they_are_about_beside_them(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        audited(tmp_path / name, card(name))
    of = Decisions((), audit=AuditedCards.from_folder(tmp_path / "b").id)
    for file in (tmp_path / "d.json", tmp_path / "b" / "d.json"):
        assert audit_of(of, file) == tmp_path / "b"
    assert audit_of(of, tmp_path / "a" / "d.json") is audit_of(replace(of, audit="c"), tmp_path / "d.json") is None
