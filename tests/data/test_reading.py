"""Reading data files: what is read, where each record is said to stand, and the sentence for what is wrong."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import datasets
from shortcut_guardrail.data import FileTexts, label_ids, read_data
from shortcut_guardrail.errors import ConfigError, DataError, GuardrailWarning


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a file into the working folder, so that messages name it as a user there would."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, content: str | bytes) -> Path:
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return Path(name)

    return write_file


def refusal(source: str | Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_data(source, **options)
    return str(caught.value)


class TestFormats:
    def test_csv_with_quotes_and_delimiters(self, write):
        data = read_data(write("a.csv", 'text,label\n"Fine, ""really"" fine",yes\nBad,no\n'))
        assert (data.texts, data.labels) == (['Fine, "really" fine', "Bad"], ["yes", "no"])
        assert (data.source, data.text_column, data.text_pair_column) == ("a.csv", "text", None)
        assert (data.rows, data.row_word, len(data)) == ([2, 3], "line", 2)
        data = read_data(write("a.TSV", "label\ttext\n1\tA comma, here\n"))
        assert (data.texts, data.labels) == (["A comma, here"], ["1"])
        assert read_data(write("a.csv", "text, label,,\na,1,,\n")).labels == ["1"]  # columns without a name

    @pytest.mark.parametrize("suffix", ["jsonl", "ndjson", "json"])
    def test_json_lines(self, write, suffix):
        lines = [{"text": "Eins\u2028zwei", "label": 1}, {"label": "x", "text": "1e5"}]
        content = "\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
        data = read_data(write(f"a.{suffix}", content))
        # A line separator inside a text is not the end of a line; a blank line is counted and skipped.
        assert (data.texts, data.labels, data.rows) == (["Eins\u2028zwei", "1e5"], ["1", "x"], [1, 3])

    def test_parquet(self, tmp_path):
        columns = {"text": pa.array(["b", "a"]).dictionary_encode(), "class": [1.0, 0.0], "a.b": ["c", "d"]}
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        data = read_data(tmp_path / "a.parquet")
        assert (data.texts, data.labels, data.rows, data.row_word) == (["b", "a"], ["1", "0"], [1, 2], "row")
        assert read_data(tmp_path / "a.parquet", text_column="a.b").texts == ["c", "d"]

    def test_text_and_labels_stay_as_written_and_numbers_of_json_become_labels(self, write):
        values = ["12", "007", "NA", "null", "1e5", "true", "nan", "None", "1.0"]
        data = read_data(write("a.csv", "text,label\n" + "".join(f"{value},{value}\n" for value in values)))
        assert (data.texts, data.labels) == (values, values)
        lines = [json.dumps({"text": "a", "label": value}) for value in (1, 1.0, 1.5, -1, True, False, "1.0")]
        assert read_data(write("a.jsonl", "\n".join(lines))).labels == ["1", "1", "1.5", "-1", "true", "false", "1.0"]

    def test_byte_order_marks_halves_of_characters_long_texts_and_line_breaks_in_quotes(self, write):
        assert read_data(write("a.csv", b"\xef\xbb\xbftext\nh\xc3\xa9\n")).texts == ["hé"]
        assert read_data(write("b.jsonl", r'{"text": "a \ud83d\ude00 b"}')).texts == ["a 😀 b"]
        assert read_data(write("a.csv", f"text\n{'x' * 200_000}\n")).texts == ["x" * 200_000]
        data = read_data(write("a.csv", '\ntext,label\r\n"one\r\ntwo\nthree",a\r\n\r\nfour,b\rfive,c\n'))
        assert (data.texts, data.rows) == (["one\r\ntwo\nthree", "four", "five"], [3, 7, 8])


ROWS = '{"text": "a, b", "label": 1.0},\n {"text": "c", "label": 0}'

# The file, what is in it, and the texts, labels and rows that are read.
READ: dict[str, tuple[str, str | bytes, list[str], list[str] | None, list[int]]] = {
    "semicolons": ("a.csv", "text;label\nWell, fine;1\nNo|w;0\n", ["Well, fine", "No|w"], ["1", "0"], [2, 3]),
    "said in a line": ("a.csv", "sep=;\ntext;label, or not\nWell, fine;1\n", ["Well, fine"], None, [3]),
    "a return in quotes": ("a.csv", 'text\n"a\rb"\nc\n', ["a\rb", "c"], None, [2, 4]),
    "an array in an object": ("a.json", f'{{\n"data": [{ROWS}]\n}}', ["a, b", "c"], ["1", "0"], [1, 2]),
    "a list in each line": ("a.json", '{"at": [{"a": 1}], "text": "x"}\n' * 2, ["x", "x"], None, [1, 2]),
}


@pytest.mark.parametrize("case", READ)
def test_separators_and_arrays(write, case):
    name, content, texts, labels, rows = READ[case]
    data = read_data(write(name, content))
    assert (data.texts, data.labels, data.rows) == (texts, labels, rows)
    assert [text for some, _ in FileTexts(name).chunks() for text in some] == texts


FILL = "Remove this row or fill it in."
KINDS = "Use one of .csv, .tsv, .jsonl, .ndjson, .json, .parquet."
SWAPPED = {"text_column": "hypothesis", "text_pair_column": "premise"}

# The file, what is in it, options of `read_data`, and what is said of the file: all, or how it begins.
REFUSED: dict[str, tuple[str, str | bytes, dict[str, Any], str]] = {
    "suffix": ("a.txt", "x", {}, f": the suffix '.txt' names no format that can be read. {KINDS}"),
    "no suffix": ("plain", "x", {}, f": a suffix is missing. {KINDS}"),
    "not UTF-8": (
        *("a.csv", b"\xef\xbb\xbftext\nfine\ncaf\xe9\n", {}),
        ", line 3: byte 0xe9 is not UTF-8. Convert the file to UTF-8 (for example with: iconv -f ",
    ),
    "UTF-16": ("a.csv", "text\na\n".encode("utf-16"), {}, ", line 1: this is UTF-16, but UTF-8 is needed. Save the "),
    "NUL": ("a.csv", b"text\na\0b\n", {}, ", line 2: a NUL byte; this is no text file in UTF-8, or a "),
    "damaged": ("a.parquet", "text\na\n", {}, " cannot be read as Parquet ("),
}


class TestRefused:
    @pytest.mark.parametrize("case", REFUSED)
    def test_all_that_is_wrong_is_said(self, write, case):
        name, content, options, message = REFUSED[case]
        said = refusal(write(name, content), **options)
        if not options:  # the same is said of a file that is read in pieces
            with pytest.raises(DataError, match=re.escape(said)):
                FileTexts(name)
        said = said.removeprefix(name)
        assert said.startswith(message) if message.endswith(("(", ";", " ")) else said == message

    def test_files_that_are_not_there(self, write):
        for name in ("reviews.csv", "revews.csv.lock"):  # of a file that was written
            write(name, "text\na\n")
        assert refusal("revews.csv") == "There is no file revews.csv. Did you mean 'reviews.csv'?"
        assert refusal("reviews.cvs") == "There is no file reviews.cvs. Did you mean 'reviews.csv'?"
        assert refusal("zzz.csv") == "There is no file zzz.csv."
        assert refusal("nowhere/a.csv") == "There is no file nowhere/a.csv: its folder, nowhere, does not exist."
        assert refusal(Path.cwd()) == f"{Path.cwd()} is a folder; name a file in it."
        assert refusal(" ") == "The name of the data file is empty."

    def test_parquet_and_a_column_with_two_roles(self, write):
        pq.write_table(pa.table({"text": pa.array([], pa.string())}), "a.parquet")
        assert refusal("a.parquet") == "a.parquet has columns ('text') but no rows; at least one text is needed."
        pq.write_table(pa.table({"text": [1, 2]}), "a.parquet")
        assert refusal("a.parquet") == "a.parquet, rows 1 and 2: the text in column 'text' is a number, not a string."
        with pytest.raises(ConfigError, match="text_column and label_column are both 'text'; each needs a column"):
            read_data(write("a.csv", "text\na\n"), text_column="text", label_column="text")


class TestColumns:
    def test_well_known_names_of_texts_and_pairs(self, write):
        labels = ["label", "Labels", "class", "target", "category"]
        for name, label in zip(["text", "Sentence", "REVIEW", "comment", "content"], labels, strict=True):
            data = read_data(write("a.csv", f"id,{label},{name}\n7,x,a\n"))
            assert (data.texts, data.labels) == (["a"], ["x"])
        pairs = ("premise", "hypothesis"), ("Sentence1", "Sentence2"), ("question", "sentence"), ("text", "text_pair")
        for first, second in pairs:
            data = read_data(write("a.csv", f"{second},idx,{first}\nb,1,a\n"))
            assert data.texts == [("a", "b")]
            assert (data.text_column, data.text_pair_column, data.labels) == (first, second, None)

    def test_one_column_is_the_text(self, write):
        path = write("a.csv", "It rained all day.\nThen it stopped.\n")
        said = r"^a\.csv has one column, which its first line calls 'It rained all day\.'\. If that is already a text, "
        with pytest.warns(GuardrailWarning, match=said) as caught:
            assert read_data(path).texts == ["Then it stopped."]
        assert caught[0].filename == __file__
        assert read_data(write("b.csv", "remark\na\n\n\n"), text_column="remark").texts == ["a"]  # no warning

    @pytest.mark.parametrize(
        ("content", "options", "texts", "labels"),
        [
            ("id,remark\n1,a\n", {"text_column": "remark", "label_column": "id"}, ["a"], ["1"]),
            # Where labels are not asked for, doubt about them stops nothing.
            ("text,comment,label,target\na,b,1,0\n", {"text_column": "comment"}, ["b"], None),
            ("premise,hypothesis\na,b\n", {"text_column": "premise"}, ["a"], None),
            ("text,comment\na,b\n", {"label_column": "comment"}, ["a"], ["b"]),
            ("label,remark\na,b\n", {"text_column": "label"}, ["a"], None),
            ("premise,hypothesis\na,b\n", {"text_pair_column": "hypothesis"}, [("a", "b")], None),
            ("hypothesis,premise\na,b\n", SWAPPED, [("a", "b")], None),
            ("text,reply\na,b\n", {"text_pair_column": "reply"}, [("a", "b")], None),
        ],
    )
    def test_columns_that_are_named(self, write, content, options, texts, labels):
        data = read_data(write("a.csv", content), **options)
        assert (data.texts, data.labels) == (texts, labels)

    def test_gaps_in_a_label_column(self, write):
        rows = [{"text": "a", "label": label} for label in (None, " ", 1)]
        path = write("a.jsonl", "\n".join(map(json.dumps, rows)))
        assert read_data(path, label_column="label", some_labels=True).labels == ["", "", "1"]
        path = write("b.jsonl", '{"text": "a", "label": null}\n{"text": "b", "label": [1]}\n')
        with pytest.raises(DataError, match="not a string or a number"):
            read_data(path, label_column="label", some_labels=True)
        path = write("a.csv", "text,label\na,1\nb,\n")
        assert read_data(path).labels is None
        message = "a.csv, line 3: the label in column 'label' is missing. Remove this row or fill it in."
        assert refusal(path, require_labels=True) == refusal(path, label_column="label") == message


class TestHub:
    @staticmethod
    def serve(monkeypatch, *splits: str) -> list[tuple[str, str | None]]:
        """A Hub whose data sets have these splits, each of one text that is its name; what was asked of it."""
        calls = []

        def load_dataset(name: str, split: str | None = None) -> Any:
            calls.append((name, split))
            if not splits:
                raise ConnectionError(f"Couldn't reach '{name}' on the Hub")
            tables = {key: datasets.Dataset.from_dict({"text": [key], "label": [1]}) for key in splits}
            return tables[split] if split else datasets.DatasetDict(tables)

        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        return calls

    def test_the_test_split_is_taken_or_the_only_one_or_the_named(self, monkeypatch):
        calls, data = self.serve(monkeypatch, "train", "test"), read_data("owner/some-set")
        assert (data.texts, data.labels, data.rows, data.row_word) == (["test"], ["1"], [1], "row")
        assert read_data("owner/some-set:train").texts == ["train"]
        assert calls == [("owner/some-set", None), ("owner/some-set", "train")]
        self.serve(monkeypatch, "train")
        assert read_data("some-set").texts == ["train"]
        self.serve(monkeypatch, "train", "validation")
        said = "The data set 'some-set' has several splits and no 'test': 'train' and 'validation'. Name one, as in "
        assert refusal("some-set") == f"{said}'some-set:train'."

    def test_neither_a_file_nor_a_data_set(self, write, monkeypatch):
        self.serve(monkeypatch)
        write("reviews.csv", "text\na\n")
        assert refusal("reviews") == (
            "'reviews' is neither a file nor a Hub data set that can be reached and read (Couldn't reach 'reviews' on "
            "the Hub). Did you mean 'reviews.csv'?"
        )
        calls = self.serve(monkeypatch, "test")
        for name in "a.csv owner/a.parquet ./owner/set /owner/set owner/set/more a\tb set: :test set:a:b".split(" "):
            assert refusal(name).startswith(f"There is no file {name}")
        assert calls == []


class TestLabelIds:
    def test_a_whole_number_is_the_label_of_the_integer_in_all_formats(self, write):
        rows = [{"text": "a", "label": 1.0}, {"text": "b", "label": 0.0}]
        pq.write_table(pa.Table.from_pylist(rows), "a.parquet")
        lines = "\n".join(map(json.dumps, rows))
        csv, tsv = "text,label\na,1.0\nb,0.0\n", "text\tlabel\na\t1\nb\t0"
        written = write("a.csv", csv), write("a.jsonl", lines), write("a.tsv", tsv)
        for file in (*written, write("a.json", json.dumps(rows)), Path("a.parquet")):
            labels = read_data(file).labels
            assert labels is not None
            found = [label_ids(labels, names) for names in (["bad", "good"], ["0", "1"], ["1", "0"], ["1.0", "0.0"])]
            assert found == [[1, 0], [1, 0], [0, 1], [0, 1]]
        assert label_ids([1.0, np.float32(0)], ["bad", "good"]) == [1, 0]
        for label in ("0.5", "1e0", "1.0.", "٣.0", "1" * 5000 + ".0"):
            with pytest.raises(DataError, match=f"has no class id '{label[:50]}"):
                label_ids(["0", label], ["bad", "good"])

    def test_many_unknown_labels_are_counted_and_some_values_are_none(self):
        with pytest.raises(DataError) as caught:
            label_ids([f"topic {number}" for number in range(9)], ["bad", "good"])
        lines = str(caught.value).splitlines()
        assert (len(lines), lines[-1]) == (6, "... and 4 more of this kind (9 in all).")
        for labels, said in (
            (
                ["", "c"],
                rf"^labels, position 0: the label is missing\. {FILL}\nlabels, position 1: the model has .* 'c' ",
            ),
            (["1", "1", "1", "bad", "good"], "^labels, position 3: the model has no class id 'bad'"),  # 3 of 5 are ids
        ):
            with pytest.raises(DataError, match=said):
                label_ids(labels, ["bad", "good"])
        for label in (True, b"1", [1]):
            with pytest.raises(DataError, match=r"^labels, position 1: a label must be a string or a whole number, b"):
                label_ids([0, label], ["bad", "good"])
