"""Answered files as people, spreadsheets and programs send them back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from shortcut_guardrail import DataError
from shortcut_guardrail.data import text_hash
from shortcut_guardrail.decisions import keys_of, read_keys, written_keys
from shortcut_guardrail.decisions.answers import read_answers
from shortcut_guardrail.decisions.questions import Key

TEXTS = ["a fine text", 'it says "no",\nand more', "plain; with; semicolons", "last one"]
KEYS = [Key(f"q{i}", "card", "a", text_hash(text), i) for i, text in enumerate(TEXTS)]


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def lines(answers: list[str], delimiter: str = ",") -> list[str]:
    head = delimiter.join(["id", "row", "text", "option_a", "option_b", "answer"])
    rows = [
        delimiter.join([f"q{i}", str(i), quoted(TEXTS[i]), "pos", "neg", answer]) for i, answer in enumerate(answers)
    ]
    return [head, *rows]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_a_spreadsheet_saves_is_read_as_meant(tmp_path, delimiter, end, mark):
    file = tmp_path / "flips.csv"
    content = mark + end.join(lines(["a", " B ", "Neither", ""], delimiter)) + end
    file.write_text(content, encoding="utf-8", newline="")
    assert read_answers(str(file), KEYS) == {"q0": "a", "q1": "b", "q2": "neither"}


def test_json_lines_and_redacted_files(tmp_path):
    file = tmp_path / "flips.jsonl"
    rows = [{"id": "q0", "row": 0, "answer": "unclear"}, {"id": "q1", "row": 1, "answer": None}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_answers(str(file), KEYS) == {"q0": "unclear"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: s.replace("q2,", "q9,"), "line 5: the audit has no question 'q9'"),
        (lambda s: s.replace("a fine text", "a fine test"), "line 2: the text is not the one that question 'q0' is"),
        (lambda s: s.replace("neg,b", "neg,yes"), "line 3: the answer must be a, b, neither or unclear, or left empty"),
        (lambda s: s.replace("neg,b", "neg,nether"), "Did you mean 'neither'?"),
        (lambda s: s + "q0,0,a fine text,pos,neg,b\n", "lines 2 and 7: question 'q0' is answered 'a' and 'b'"),
        (lambda s: s.replace("answer", "reply"), "has no column 'answer'"),
        (lambda s: s.replace("last one", 'last "one'), "the quotes of the record"),
    ],
)
def test_what_cannot_be_meant_has_a_sentence(tmp_path, change, sentence):
    file = tmp_path / "flips.csv"
    file.write_text(change("\n".join(lines(["a", "b", "", "a"])) + "\n"))
    with pytest.raises(DataError) as caught:
        read_answers(str(file), KEYS)
    assert sentence in str(caught.value)
    assert "flips.csv" in str(caught.value)


def test_the_same_answer_twice_is_one(tmp_path):
    file = tmp_path / "flips.csv"
    file.write_text("\n".join([*lines(["a"]), "q0,0,a fine text,pos,neg,a"]) + "\n")
    assert read_answers(str(file), KEYS) == {"q0": "a"}


def test_keys_survive_their_file(tmp_path):
    # Of a version that did not count its calls, and of two calls since.
    known = [*KEYS, Key("q7", "card", "b", "h", 3, call=1), Key("q9", "other", "b", "h", 0, label="neither", call=2)]
    for i, before in ((4, KEYS), (5, known[:5])):
        (tmp_path / "questions.jsonl").write_text(written_keys(before, [replace(known[i], call=0)]))
    assert read_keys(tmp_path) == known
    assert read_keys(tmp_path / "nowhere") == []


def test_labels_answer_for_the_files_of_their_call_and_later_ones(tmp_path):
    first, second = tmp_path / "one.csv", tmp_path / "two.csv"
    first.write_text("id,answer\nq0,a\nq1,\n")
    second.write_text("id,answer\nq2,a\n")
    labels = [
        Key(f"l{i}", card, "a", "h", 9, label="a", call=i) for i, card in ((1, "card"), (1, "other"), (2, "card"))
    ]
    questions = [replace(key, call=call) for key, call in zip(KEYS, (1, 1, 2, 2), strict=True)]
    keys = [*questions[:2], *labels[:2], *questions[2:], labels[2]]
    # "q3" is in neither file, and "other" has labels alone.
    assert keys_of([str(first)], keys) == [*questions[:2], *labels[:2]]
    assert keys_of([str(second)], keys) == [*labels[:2], questions[2], labels[2]]
    assert keys_of([str(first), str(second)], keys) == [*questions[:2], *labels[:2], questions[2], labels[2]]


@pytest.mark.parametrize("line", ["{", "[]", '{"id": 1}', '{"id": "q", "card": "c", "masked_option": "x"}', "null"])
def test_a_damaged_key_names_its_line(tmp_path, line):
    (tmp_path / "questions.jsonl").write_text(written_keys(KEYS[:2], []) + line + "\n")
    with pytest.raises(DataError, match="line 3: this is no key of a question"):
        read_keys(tmp_path)
