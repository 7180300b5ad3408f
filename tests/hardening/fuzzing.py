"""Property-based fuzzing of every reader: whatever is in a file, it is read rightly or refused in a sentence.

`python -m hardening.fuzzing --seconds 600 --seed 0` goes on until the time is up and prints the table.
The tests try some.
"""

import argparse
import csv
import io
import itertools
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from hardening.outcomes import Outcome, attempt, bad, report
from hardening.tampering import DAMAGES, at, audit_subjects, damaged, places
from made_guards import make_guards

CHECKS = list(HealthCheck)
JUNK = [b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\t", b"\r", b"\n", b"\r\n", b" " * 5000, b"\x1b[31m"]
JUNK += r"""" "" ' , ; \ \u0000 \ud800 NaN 1e999 -0 null true [] {} # = text label id İﬀ字😀""".encode().split()
JUNK += ["\u2028\u202e\u200b".encode(), b"[" * 2000, b"{" * 2000, b"9" * 5000, b"x" * 200_000]


@st.composite
def mutated(draw: st.DrawFn, bases: list[bytes]) -> bytes:
    """A good file with a few pieces put in, cut out, doubled or replaced."""
    content = draw(st.sampled_from(bases))
    for _ in range(draw(st.integers(1, 4))):
        where = draw(st.integers(0, max(0, len(content))))
        length = draw(st.sampled_from([0, 0, 1, 2, 8, 64]))
        junk = draw(st.one_of(st.sampled_from(JUNK), st.binary(max_size=6), st.just(content[where : where + 20])))
        content = content[:where] + junk + content[where + length :]
    return content


def contents(bases: list[bytes]) -> st.SearchStrategy[bytes]:
    """Mostly almost good files; sometimes anything."""
    written = st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))
    anything = st.one_of(st.binary(max_size=200), written)
    return st.one_of(st.sampled_from(bases), mutated(bases), mutated(bases), mutated(bases), anything)


# What a person may have written: anything that UTF-8 can hold and that is more than white space.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40).filter(str.strip)


@dataclass(frozen=True)
class Reader:
    """A reader of files: its kind, their suffix, what is put in, and what reads one and says what is wrong with it."""

    name: str
    suffix: str
    inputs: st.SearchStrategy[bytes]
    use: Callable[[Path], str | None]


def _use_texts(file: Path) -> str | None:
    from shortcut_guardrail.data import read_data

    data = read_data(file)
    first = [text if isinstance(text, str) else text[0] for text in data.texts]
    if not all(isinstance(text, str) and text.strip() for text in first):
        return "an empty text came through"
    if not len(data.rows) == len(data.texts) == len(data.labels or data.texts) > 0:
        return "rows, texts and labels differ in number"
    return None


ROWS = [["text", "label"], ["A fine day", "good"], ['Rain, and "fog"', "bad"], ["zwei\nZeilen", "good"]]
JSON_LINES = b'{"text": "A fine day", "label": "good"}\n{"text": "Rain", "label": "bad"}\n'

JSON_ARRAY = b'[{"text": "A fine day", "label": "good"}, "Rain"]'


def _table(delimiter: str) -> bytes:
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter).writerows(ROWS)
    return written.getvalue().encode()


def _parquet() -> bytes:
    columns = {"text": ["A fine day", "Rain"], "label": ["good", "bad"]}
    written = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), written)
    return written.getvalue()


def _use_round_trips(file: Path) -> str | None:
    """Texts that are written by others' writers come back as they are, whatever is in them."""
    from shortcut_guardrail.data import read_data

    texts = json.loads(file.read_bytes())
    lines = "".join(json.dumps({"text": text, "label": "x"}) + "\n" for text in texts)
    file.with_suffix(".jsonl").write_text(lines, encoding="utf-8")
    columns = {"text": texts, "label": ["x"] * len(texts)}
    pyarrow.parquet.write_table(pyarrow.table(columns), file.with_suffix(".parquet"))
    rows = [["text", "label"], *([text, "x"] for text in texts)]
    for suffix, delimiter in itertools.product((".csv", ".tsv"), ",;\t|"):
        cut = file.with_name(f"cut-{ord(delimiter)}{suffix}")
        with cut.open("w", newline="", encoding="utf-8") as written:
            csv.writer(written, delimiter=delimiter).writerows(rows)
        if read_data(cut).texts != texts:
            return f"other texts come back from {cut.name}"
    # The input itself is an array of texts.
    for suffix in (".json", ".jsonl", ".parquet"):
        if read_data(file.with_suffix(suffix)).texts != texts:
            return f"other texts come back from {suffix}"
    return None


def _use_word_list(file: Path) -> str | None:
    from shortcut_guardrail.data import read_shortcuts_file
    from shortcut_guardrail.text import WordFinder

    words = read_shortcuts_file(file)
    WordFinder(words).find("honestly, a fine day")
    return None if words and all(word.strip() for word in words) else "an empty word came through"


def _audited() -> dict[str, Any]:
    """What questions need of an audit."""
    return {"cards": [], "model": "m", "data": "d", "label_names": ["x", "y"], "n_distinct": 3}


def _use_answers(file: Path) -> str | None:
    from shortcut_guardrail import Answers, Questions
    from shortcut_guardrail.data import text_hash
    from shortcut_guardrail.decisions import AuditedCards
    from shortcut_guardrail.decisions.drawing import Key

    keys = tuple(Key(f"q{i}", "c", "a", text_hash(f"text {i}"), i) for i in range(3))
    questions = Questions(AuditedCards.from_dict(_audited()), {}, keys)
    answers = Answers.from_files([str(file)], questions, by=["anna"]).to_questions()["anna"]
    known = set(answers) <= {"q0", "q1", "q2"} and set(answers.values()) <= {"a", "b", "neither", "unclear"}
    return None if known else "an unknown question or answer came through"


ANSWERS = b"id,text,option_a,option_b,answer\nq0,text 0,x,y,a\nq1,text 1,x,y,B\nq2,text 2,x,y,\n"


def _use_questions(file: Path) -> str | None:
    from shortcut_guardrail import Questions

    file.rename(file.with_name("questions.jsonl"))
    file.with_name("audit.json").write_text(json.dumps(_audited()))
    Questions.from_folder(file.parent)
    return None


def _questions() -> bytes:
    from shortcut_guardrail.decisions import AuditedCards

    key = {"id": "q0", "card": "c", "masked_option": "a", "text_hash": "h", "order": 0, "label": None, "call": 1}
    flip = {"row": 0, "before": "x", "after": "y", "text_hash": "h", "text": "t", "margin": 0.5}
    reference = {"row": 1, "text": ["t", "u"], "answer": "x", "other": "y", "margin": 1, "drawn": True, "near": True}
    audit = AuditedCards.from_dict(_audited()).id
    lines = [{"audit": audit, "models": ["m"]}, {"key": key}, {"card": "c", "flip": flip}, {"reference": reference}]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _use_toml(file: Path) -> str | None:
    from shortcut_guardrail.classifiers.settings import read_settings

    read_settings(file)
    return None


TOML = [
    b'kind = "endpoint"\nurl = "https://example.org/v1"\nmodel = "m"\nsamples = 3\n[request]\nseed = 1\n',
    b'kind = "function"\nfunction = "module:name"\n',
    b'kind = "classifier"\nmodel = "m"\nname = "n"\n[labels]\ngood = "positive"\n',
]


def _use_config(file: Path) -> str | None:
    from shortcut_guardrail.cli.settings import settings as read_settings
    from shortcut_guardrail.config import preset, updated

    given = read_settings(file, [])
    updated(preset("default"), given) if isinstance(given, dict) else given.to_dict()
    return None


CONFIG = [b'{"adapter": {"rank": 8, "learning_rate": 0.001}, "per_input": true}', b'{"preset": "mask"}']


def _use_record(file: Path) -> str | None:
    from shortcut_guardrail.saving.model_card import model_card
    from shortcut_guardrail.saving.record import read_record

    file.rename(file.with_name("guardrail.json"))
    record = read_record(file.parent)
    model_card(record)
    json.dumps(record.to_dict(), allow_nan=False)
    return None


@st.composite
def _damaged_documents(draw: st.DrawFn, document: Any) -> bytes:
    """A document with one to three fields damaged, and sometimes bytes of it."""
    content = None
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(list(places(document))))
        if damage := damaged(document, place, draw(st.sampled_from(sorted(DAMAGES)))):
            content = damage
            if all(part not in damage for part in ("[" * 50, "Infinity", "NaN")):
                document = json.loads(damage)
                at(document, ())
    written = (content or json.dumps(document)).encode("utf-8", "surrogatepass")
    return draw(st.one_of(st.just(written), st.just(written), mutated([written])))


def readers(folder: Path) -> list[Reader]:
    """All of them; documents that are damaged come from files of this version."""
    record = make_guards(folder / "made") / "few-shot/guardrail.json"
    texts = st.lists(TEXTS, min_size=1).map(lambda texts: json.dumps(texts).encode())
    return [
        Reader("CSV", ".csv", contents([_table(","), _table(";"), _table("|")]), _use_texts),
        Reader("TSV", ".tsv", contents([_table("\t")]), _use_texts),
        Reader("JSON Lines", ".jsonl", contents([JSON_LINES]), _use_texts),
        Reader("JSON array", ".json", contents([JSON_ARRAY, b'{"data": %s}' % JSON_ARRAY]), _use_texts),
        Reader("Parquet", ".parquet", contents([_parquet()]), _use_texts),
        Reader("round trips", ".json", texts, _use_round_trips),
        Reader("word list", ".txt", contents([b"honestly\nto be frank # a comment\n\nbook club\n"]), _use_word_list),
        Reader("answered questions", ".csv", contents([ANSWERS]), _use_answers),
        Reader("questions.jsonl", ".jsonl", contents([_questions()]), _use_questions),
        Reader("second model, TOML", ".toml", contents(TOML), _use_toml),
        Reader("--config", ".json", contents(CONFIG), _use_config),
        Reader("guardrail.json", ".json", _damaged_documents(json.loads(record.read_text("utf-8"))), _use_record),
        *(
            Reader(of.name, ".json", _damaged_documents(of.document), lambda file, use=of.use: use(_text(file)))
            for of in audit_subjects(folder)
        ),
    ]


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "surrogateescape")


def tried(reader: Reader, number: int, *, start: int, seconds: float = 20) -> list[Outcome]:
    """What became of so many inputs, drawn from a seed."""
    outcomes: list[Outcome] = []

    @seed(start)
    @settings(max_examples=number, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=CHECKS)
    @given(reader.inputs)
    def run(content: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"input{reader.suffix}"
            file.write_bytes(content)
            shown = repr(content[:300])
            outcomes.append(attempt(reader.name, shown, lambda: reader.use(file), seconds=seconds))

    run()
    return outcomes


def main() -> None:
    """Go on until the time is up, then print the table and the inputs that ended badly."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    outcomes: list[Outcome] = []
    end = time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory() as folder:
        number, known = asked.seed, readers(Path(folder))
        while time.monotonic() < end:
            for reader in known:
                if time.monotonic() < end:
                    outcomes += tried(reader, 40, start=number)
            number += 1
    print(report(outcomes))
    raise SystemExit(1 if bad(outcomes) else 0)


if __name__ == "__main__":
    main()
