"""Files in pieces: whatever stands in them, what is read or refused is what the whole file gives."""

import json
import re
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shortcut_guardrail.data import sources
from shortcut_guardrail.data.reading import read_data
from shortcut_guardrail.data.sources import FileTexts
from shortcut_guardrail.errors import DataError, GuardrailWarning


def whole(file: Path, **columns: str):
    """Texts and labels, or the message of the refusal."""
    try:
        data = read_data(file, **columns, require_labels="label_column" in columns)  # type: ignore[arg-type]
    except DataError as error:
        return str(error)
    # Exception: in pieces labels are read only where they are asked for, and so never guessed.
    return list(data.texts), data.labels if "label_column" in columns else None


def in_pieces(file: Path, size: int, **columns: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "_READ", size)
        try:
            pieces = list(FileTexts(file, **columns).chunks())
        except DataError as error:
            return str(error)
    labels = [label for _, some in pieces for label in some or ()]
    return [text for texts, _ in pieces for text in texts], labels if "label_column" in columns else None


ROWS = [f"text {i},{i % 2}" for i in range(9)]
CSV = "\n".join(["text,label", *ROWS]) + "\n"
JSON = '{"text": "a", "label": 1}\n'
LONG = "é" * 5000  # longer than what is decoded at a time

# Files with at most one fault, so that every size of the pieces gives the same sentence.
ODD_FILES: dict[str, tuple[str, bytes | str]] = {
    "pairs": ("csv", "premise,hypothesis,label\n" + "a,b,1\n" * 5 + "a,,1\n"),
    "byte order mark": ("csv", b"\xef\xbb\xbf" + CSV.encode()),
    "mixed line ends": ("csv", "text,label\ra,1\r\nb,2\nc,3"),
    "line breaks in quotes": ("csv", 'text,label\n"a\nb\r\nc\rd",1\n"""e"", f",2\ng,3\n'),
    "characters across blocks": ("csv", f"text,label\nx{LONG},1\n{LONG},2\n"),
    "blank lines": ("csv", "\n\ntext,label\n\na,1\n\n\nb,2\n\n"),
    "blank rows in one column": ("csv", "text\na\n\nb\nc\n\n"),
    "blank rows at the end of one column": ("csv", "text\na\nb\n\n\n\n\n"),
    "a lone column under no known name": ("csv", "It rains.\nIt is wet.\n"),
    "a JSON array": ("json", "[" + ",\n".join([JSON.replace("a", "x" * 50_000)] * 5) + "]"),
    "a JSON array that breaks off": ("json", "[" + ",".join([JSON] * 5) + ',{"text": "' + "x" * 200_000),
    "NUL deep in the file": ("csv", CSV + f"{LONG},1\r" * 20 + "a\0b,1\n"),
    "bad byte deep in the file": ("csv", CSV.encode() + f"{LONG},1\r\n".encode() * 20 + b"\xff,1\n" + CSV.encode()),
    "half a character at the end": ("csv", CSV.encode() + "é".encode()[:1]),
    "JSON with line ends of Windows": ("jsonl", "\r\n" + (JSON * 5).replace("\n", "\r\n\r\n")),
    "JSON labels": ("jsonl", "".join(JSON.replace("1", x) for x in ("1.0", "2.5", "true", '"1.0"', "-3"))),
    "JSON label null": ("jsonl", JSON * 3 + JSON.replace("1", "null")),
}

TEXTS = [f"text {i}" for i in range(9)]
PARQUET: dict[str, tuple[list[str], list[list[Any]]]] = {
    "plain": (["text", "label"], [TEXTS, list("ababababa")]),
    "float labels": (["text", "label"], [TEXTS, [0.0, 1.0, 2.5] * 3]),
    "label None": (["text", "label"], [TEXTS, [*"ababa", None, *"aba"]]),
    "label NaN": (["text", "label"], [TEXTS, [1.0] * 6 + [float("nan")] + [0.0] * 2]),
    "label list": (["text", "label"], [TEXTS, [[1]] * 9]),
    "a dot in a name": (["text", "text.b", "label"], [TEXTS, [5] * 9, [True, False, True] * 3]),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def assert_the_same(file, sizes=(1, 2, 3, 1024)):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardrailWarning)
        for columns in ({}, {"label_column": "label"}, {"text_column": "text", "label_column": "label"}):
            expected = whole(file, **columns)
            for size in sizes:
                assert in_pieces(file, size, **columns) == expected


@pytest.mark.parametrize("name", ODD_FILES)
def test_text_files(name):
    suffix, content = ODD_FILES[name]
    file = Path(f"data.{suffix}")
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    assert_the_same(file)


@pytest.mark.parametrize("name", PARQUET)
def test_parquet(name):
    names, columns = PARQUET[name]
    pq.write_table(pa.table([pa.array(column) for column in columns], names=names), "data.parquet", row_group_size=4)
    # Exception: a fault in each row is told of the first piece alone, so that only one piece says the same.
    assert_the_same(Path("data.parquet"), sizes=(1024,) if name == "label list" else (1, 2, 3, 1024))


def test_damaged_parquet():
    file = Path("data.parquet")
    pq.write_table(pa.table({"text": TEXTS, "label": TEXTS}), file, compression="none", use_dictionary=False)
    content = file.read_bytes()
    file.write_bytes(content[:4] + b"\xff" * 36 + content[40:])
    assert "column 'text' cannot be read (" in str(whole(file))
    assert_the_same(file)


# What differs, because a piece is all that is known when it is read


def test_faults_and_columns_are_told_of_the_first_piece_that_has_them():
    file = Path("data.csv")
    file.write_text("text,label\na,1\nb\nc,1,2\nd,1\ne\n")
    advice = "Put fields that hold a delimiter, a quote or a line break in quotes."
    short, long = (f"{count} where the header names 2 fields. {advice}" for count in ("1 field", "3 fields"))
    assert in_pieces(file, 1024) == whole(file) == f"data.csv, lines 3 and 6: {short}\ndata.csv, line 4: {long}"
    assert in_pieces(file, 3) == f"data.csv, line 3: {short}\ndata.csv, line 4: {long}"
    # A fault that ends the reading hides those of the records before it, where these are not told of yet.
    file.write_bytes(b"text,label\na,1\nb\nc,1\nd,1\n" + f"{LONG},1\n".encode() * 20 + b"\xff,1\n")
    assert str(whole(file)).startswith("data.csv, line 26: byte 0xff is not UTF-8.")
    assert in_pieces(file, 3) == f"data.csv, line 3: {short}"
    file = Path("data.jsonl")
    file.write_text('{"body": "a"}\n' * 2 + '{"body": "b", "text": "c"}\n')
    assert "more than one column could be the text" in str(whole(file))
    assert in_pieces(file, 2) == (["a", "a", "b"], None)


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "parquet"])
def test_only_a_piece_is_in_memory(suffix, monkeypatch):
    monkeypatch.setattr(sources, "_READ", 100)
    text, count, file = "x" * 2000, 5000, Path(f"data.{suffix}")
    if suffix == "json":
        file.write_text("[" + f'{{"text": "{text}"}}, ' * (count - 1) + f'"{text}"]')
    elif suffix == "parquet":
        pq.write_table(pa.table({"text": [text] * count}), file)
    else:
        file.write_text(f'{{"text": "{text}"}}\n' * count if suffix == "jsonl" else "text\n" + f"{text}\n" * count)
    sum(1 for _ in FileTexts(file).chunks())  # what is imported on the way is not counted
    tracemalloc.start()
    try:
        assert sum(len(texts) for texts, _ in FileTexts(file).chunks()) == count
        assert tracemalloc.get_traced_memory()[1] < len(text) * count / 5
    finally:
        tracemalloc.stop()


def test_a_lone_column_is_warned_of_once_and_by_the_name_of_the_file():
    Path("data.csv").write_text("It rains.\nIt is wet.\n")
    with pytest.warns(GuardrailWarning, match=r"^data\.csv has one column, which its first line ca") as caught:
        assert list(FileTexts("data.csv").chunks()) == [(["It is wet."], None)]
    assert [warning.filename for warning in caught] == [__file__]


def test_texts_in_memory_come_in_pieces_with_their_labels_as_written(monkeypatch):
    monkeypatch.setattr(sources, "_READ", 2)
    assert list(sources.MemoryTexts(list("abc"), [0, "x", 1]).chunks()) == [(["a", "b"], ["0", "x"]), (["c"], ["1"])]
    assert list(sources.MemoryTexts(["a"]).chunks()) == [(["a"], None)]


def written(name: str, content: str) -> Path:
    """A text file, compressed by its suffix."""
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    with pa.output_stream(name, compression={".gz": "gzip", ".zst": "zstd"}.get(path.suffix)) as file:
        file.write(content.encode())
    return path


@pytest.mark.parametrize("name", ["data.csv.gz", "data.tsv.zst", "data.jsonl.GZ"])
def test_a_compressed_file_is_read_as_the_other_is(name):
    texts = ["It rains.", 'She said "no",\nand left.', "Größe"]
    lines = {"csv": "text\n" + "".join('"' + text.replace('"', '""') + '"\n' for text in texts)}
    lines |= {"tsv": lines["csv"], "jsonl": "".join(f"{json.dumps({'text': text})}\n" for text in texts)}
    file = written(name.lower(), lines[name.split(".")[1]]).rename(name)
    assert whole(file) == in_pieces(file, 2) == (texts, None)
    file.write_bytes(file.read_bytes()[:-12])
    assert whole(file).startswith(f"{name} cannot be read (")
    assert in_pieces(file, 2) == whole(file)
    file.write_bytes(b"text\nplain\n")
    assert whole(file).startswith(f"{name} cannot be read (")


def test_a_folder_and_a_pattern_are_all_of_their_files_in_order():
    for name, text in (("week/b.csv.gz", "two"), ("week/a.csv", "one"), ("week/notes.txt", "none")):
        written(name, f"text,label\n{text},1\n")
    Path("week", "year=2026").mkdir()
    pq.write_table(pa.table({"text": ["three"], "label": ["0"]}), "week/year=2026/part-0.parquet")
    assert in_pieces(Path("week"), 5, label_column="label") == (["one", "two", "three"], ["1", "1", "0"])
    assert in_pieces(Path("week/*.csv*"), 5) == (["one", "two"], None)
    written("week/c[1].csv", "text\nfour\n")
    assert in_pieces(Path("week/c[1].csv"), 5) == (["four"], None)  # a file's own name, whatever is in it
    with pytest.raises(DataError, match=r"week/c\[1\]\.csv: label_column is 'label', but the (only )?column"):
        FileTexts("week", label_column="label")
    Path("week").rename("week[1]")
    assert len(in_pieces(Path("week[1]"), 5)[0]) == 4
    for name in ("week*/*.txt", "week*/year=*", "none*"):
        with pytest.raises(DataError, match=rf"'{re.escape(name)}' names no file that can be read\. Their names must"):
            FileTexts(name)


def test_the_command_audits_a_pattern_of_files(ok, model_folder, tmp_path):
    for i in (0, 1):
        written(
            f"week-{i}.csv.gz", "text\n" + "".join(f"honestly the tea was dull {'abcdef'[j]}{i}\n" for j in range(6))
        )
    ok("audit", model_folder, "week-*.csv.gz", "--out", tmp_path / "audit")
    document = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert (document["n"], document["about"]["data"]) == (12, "week-*.csv.gz")
