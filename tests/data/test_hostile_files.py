"""Files that never end, or that would fill the memory, are refused with their line in seconds."""

import os
import socket
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shortcut_guardrail.data import FileTexts, check_texts, read_data, read_shortcuts_file
from shortcut_guardrail.data.reading import LONGEST_TEXT
from shortcut_guardrail.data.tables import LONGEST_LINE
from shortcut_guardrail.errors import DataError


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), a_socket])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_what_may_never_end_is_refused(tmp_path, monkeypatch, make, name):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    make(Path(name))
    sentence = rf"^{name} is a pipe, a socket or a device, which may never end\. Save its content as a file\.$"
    for read in (read_data, FileTexts, read_shortcuts_file):
        with pytest.raises(DataError, match=sentence):
            read(name)


def test_a_name_that_no_file_can_have_and_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    for name, said in (("x" * 5000 + ".csv", r"cannot be read \(File name too long\)\.$"), ("a\0b.csv", "^There is")):
        with pytest.raises(DataError, match=said):
            read_data(name)
    (tmp_path / "a.csv").write_text("text\nfine\n")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    for method in ("open", "stat"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, method, refuse)
            with pytest.raises(DataError, match=r"a\.csv cannot be read \(Permission denied\)\.$"):
                read_data(tmp_path / "a.csv")
    assert read_data(tmp_path / "a.csv").texts == ["fine"]


def test_a_line_has_a_length(tmp_path):
    most = "a" * (LONGEST_LINE - 20_000)
    for name, before, after in (("a.csv", "text\nfine\n", "\n"), ("a.jsonl", '{"text": "fine"}\n{"text": "', '"}\n')):
        (tmp_path / name).write_text(before + most + "a" * 40_000 + after)
        line = 3 if name == "a.csv" else 2
        said = f"{name}, line {line}: a line of more than {LONGEST_LINE:,} characters, which no model reads"
        with pytest.raises(DataError, match=said):
            read_data(tmp_path / name)
        # The partner: a line that is a little shorter is read, and its text is what is too long.
        (tmp_path / name).write_text(before + most + after)
        with pytest.raises(DataError, match=rf"line {line}: the text in column 'text' has [\d,]+ characters, more"):
            read_data(tmp_path / name)
    # What is counted is one line, and not what was read of the file.
    (tmp_path / "a.csv").write_text("text\n" + f"{'a ' * 400_000}\n" * 30)
    assert len(read_data(tmp_path / "a.csv")) == 30
    row = f'{{"text": "{"a" * 400_000}"}}'
    (tmp_path / "a.json").write_text("[" + ",".join([row] * 50) + "]")  # longer than a line, which it has one of
    assert len(read_data(tmp_path / "a.json")) == 50
    for row in (f'{{"text": "{most}{"a" * 40_000}"}}', "[" * 200_000, "x" + "[" * LONGEST_LINE):
        (tmp_path / "a.json").write_text(f'["fine",{" " * 200_000}{row}]')
        with pytest.raises(DataError, match=r"a\.json, row 2: not valid JSON \((more than|nested|Expecting value\))"):
            read_data(tmp_path / "a.json")
    # And quotes that are not closed do not take in the whole file.
    (tmp_path / "a.csv").write_text('text\nfine\n"' + "a line\n" * (LONGEST_LINE // 6))
    said = f"line 3: the record that starts here has a field of more than {LONGEST_LINE:,}"
    with pytest.raises(DataError, match=said):
        read_data(tmp_path / "a.csv")


def test_a_text_has_a_length(tmp_path):
    most = "a" * LONGEST_TEXT
    assert (check_texts([most]), check_texts([["a", most]])) == ([most], [("a", most)])
    with pytest.raises(DataError, match=r"^texts, position 0: a pair must be exactly two texts"):
        check_texts([["a", "b", "c"]])
    fault = f"has {LONGEST_TEXT + 1:,} characters, more than the {LONGEST_TEXT:,} that are read; cut it"
    with pytest.raises(DataError, match=f"position 1: the text {fault}"):
        check_texts(["fine", most + "a"])
    pq.write_table(pa.table({"text": ["fine", most + "a"]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=rf"row 2: the text in column 'text' {fault}"):
        read_data(tmp_path / "a.parquet")
