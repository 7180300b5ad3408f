"""Answered files as people, spreadsheets and programs send them back."""

import json
from dataclasses import replace

import numpy as np
import pytest

from shortcut_guardrail import Answers, DataError, Questions
from shortcut_guardrail.data import checked, text_hash
from shortcut_guardrail.decisions import Answer, AuditedCards
from shortcut_guardrail.decisions.answers import _changes_its_mind
from shortcut_guardrail.decisions.drawing import Key

TEXTS = ["a fine text", 'it says "no",\nand more', "plain; with; semicolons", "last one"]
KEYS = tuple(Key(f"q{i}", "card", "a", text_hash(text), i) for i, text in enumerate([*TEXTS, ("one", "two")]))
QUESTIONS = Questions(AuditedCards("a", "m", "d", ("neg", "pos"), 4, ()), {}, KEYS)


def read(*files, by=("anna",)) -> dict[str, str]:
    return Answers.from_files([str(file) for file in files], QUESTIONS, by=by).to_questions().get("anna", {})


def lines(answers: list[str], delimiter: str = ",") -> list[str]:
    quoted = ['"' + text.replace('"', '""') + '"' for text in TEXTS]
    rows = [("id", "row", "text", "option_a", "option_b", "answer")]
    rows += [(f"q{i}", str(i), quoted[i], "pos", "neg", one) for i, one in enumerate(answers)]
    return list(map(delimiter.join, rows))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_a_spreadsheet_saves_is_read_as_meant(tmp_path, delimiter, end, mark):
    file, content = tmp_path / "questions.csv", mark + end.join(lines(["a", " B ", "Neither", ""], delimiter)) + end
    file.write_text(content, encoding="utf-8", newline="")
    assert read(file) == {"q0": "a", "q1": "b", "q2": "neither"}


def test_json_lines_redacted_files_and_pairs(tmp_path):
    file = tmp_path / "flips.jsonl"
    rows = {"id": " q0 ", "answer": "unclear"}, {"id": "q1", "answer": None}, {"id": "q4", "answer": "b"}
    pair = {"text": "one", "text_pair": "two"}
    file.write_text("".join(json.dumps(row | pair if row["id"] == "q4" else row) + "\n" for row in rows))
    assert read(file) == {"q0": "unclear", "q4": "b"}
    file.write_text(json.dumps(rows[2] | {"text": "one", "text_pair": "three"}))
    with pytest.raises(DataError, match="line 1: the text is not the one"):
        read(file)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: s.replace("q2,", "q9,"), "line 5: the audit has no question 'q9'"),
        (lambda s: s.replace("a fine text", "a fine test"), "line 2: the text is not the one that question 'q0' is"),
        (lambda s: s.replace("neg,b", "neg,yes"), "line 3: the answer must be one of a, b, neither, unclear, but is"),
        (lambda s: s + "q0,0,a fine text,pos,neg,b\n", "line 7: anna answers question 'q0' with 'b', and with 'a' in "),
        (lambda s: s.replace("answer", "reply"), "has no column 'answer'"),
    ],
)
def test_what_cannot_be_meant_has_a_sentence(tmp_path, change, sentence):
    file = tmp_path / "questions.csv"
    file.write_text(change("\n".join(lines(["a", "b", "", "a"])) + "\n"))
    with pytest.raises(DataError, match=f"questions.csv.*{sentence}"):
        read(file)


def test_without_an_answer_a_file_is_refused_unless_labels_answer_and_a_judge_without_one_changes_none(tmp_path):
    (tmp_path / "questions.csv").write_text("id,answer\nq0,\n")
    with pytest.raises(DataError, match="has no answer"):
        read(tmp_path / "questions.csv")
    labelled = replace(QUESTIONS, keys=(replace(KEYS[0], label="a"),))
    assert Answers.from_files([str(tmp_path / "questions.csv")], labelled, by=("anna",)).said == ()
    second, none = np.array([[0.1, 0.9]] * 2), np.full((2, 2), np.nan)
    assert _changes_its_mind(second, none) == _changes_its_mind(none, second) == ""


def test_one_person_says_one_thing_in_all_files(tmp_path):
    first, second = tmp_path / "one.csv", tmp_path / "two.csv"
    first.write_text("\n".join([*lines(["a"]), "q0,0,a fine text,pos,neg,a"]) + "\n")
    second.write_text("id,answer\nq0,b\n")
    assert read(first) == read(first, second, by=("anna", "ben")) == {"q0": "a"}
    assert read(first, second, by=("ben", "anna")) == {"q0": "b"}
    with pytest.raises(DataError, match=r"anna answers question 'q0' with 'b', and with 'a' in .*one.csv, line 2"):
        read(first, second, by=("anna", "anna"))


def test_the_last_word_counts():
    said = [Answer("anna", "t", answer, "q0") for answer in "ab"]
    said += [Answer("anna", "t", decision=decision, card="c") for decision in ("unsure", "keep")]
    answers = Answers(tuple(said))
    assert (answers.to_questions(), answers.to_cards()["c"]["anna"].decision) == ({"anna": {"q0": "b"}}, "keep")
    assert [checked(one.to_dict(), Answer, "a file") for one in said] == said


def test_an_answer_is_to_a_text_or_on_a_card():
    to_text, on_card = {"question": "q0", "answer": "a"}, {"card": "c", "decision": "keep"}
    for said in (to_text | on_card, {}, {"question": "q0"}, {"answer": "a"}, {"card": "c", "answer": "a"}):
        with pytest.raises(DataError, match="a file: it must have `card` and `decision`, or `question` and `answer`"):
            checked({"by": "anna", "at": "t", **said}, Answer, "a file")


def test_answers_are_kept_in_the_order_in_which_they_came(tmp_path):
    def said(by: str, at: str, **answers: str) -> Answers:
        return Answers(tuple(Answer(by, at, one, question) for question, one in answers.items()))

    assert Answers.from_folder(tmp_path).said == ()
    first = said("anna", "1", q2="a", q0="b")
    first.and_more(Answers((Answer("anna", "1", decision="keep", card="c"),))).keep(tmp_path)
    kept = Answers.from_folder(tmp_path)
    assert kept.said == first.said, "what is said of cards stands in the decisions"
    # Who changes an answer does not make it come later; another person's is an answer of its own.
    kept.and_more(said("anna", "2", q1="a", q2="unclear")).and_more(said("ben", "3", q0="a")).keep(tmp_path)
    kept = Answers.from_folder(tmp_path)
    assert kept.to_questions() == {"anna": {"q2": "unclear", "q0": "b", "q1": "a"}, "ben": {"q0": "a"}}
    assert (kept.arrived(), [one.at for one in kept.said]) == ({"q2": 0, "q0": 0, "q1": 2}, ["1", "1", "2", "3"])


def test_a_damaged_file_of_answers_is_told_and_nothing_is_lost(tmp_path):
    Answers((Answer("anna", "1", "a", "q0"),)).keep(tmp_path)
    file = tmp_path / "answers.jsonl"
    for line in ("{", '{"by": "anna", "at": "1", "answer": "maybe", "question": "q1"}', "null"):
        file.write_text(content := file.read_text().splitlines()[0] + f"\n{line}\n")
        with pytest.raises(DataError, match=r"line 2: this is no answer .*Repair or remove the line"):
            Answers.from_folder(tmp_path)
        assert file.read_text() == content
