"""No command writes over what it reads, nor over what somebody else wrote, with --overwrite or without."""

import os
import shutil
from pathlib import Path

import pytest

READ = ("base/config.json", "base/model.safetensors", "guard/guardrail.json", "guard/adapter_config.json")
READ += ("audit/audit.json", "audit/questions.jsonl", "data.csv", "support.csv", "questions.csv", "old.json")
READ += ("decisions.json", "settings.json", "words.json", "second.json", "data")
"""Everything that a command may read, each of it a file (`data` is a folder of somebody else)."""

# What is read, and the options for what is written.
LINES = {
    "audit base data.csv": ("--out", "--json"),
    "fit base data.csv --support support.csv --decisions decisions.json --config settings.json --shortcuts-file "
    "words.json --second-model second.json": ("--out", "--json"),
    "predict guard data.csv": ("--out", "--json"),
    "evaluate guard data.csv --shortcuts-file words.json": ("--json",),
    "certify guard data.csv --labelled support.csv": ("--out", "--html", "--json"),
    "to-label guard data.csv": ("--out", "--json"),
    "questions audit base data.csv": ("--out", "--json"),
    "decide audit questions.csv --reviewer anna": ("--out", "--json"),
    "decide audit questions.csv --with second.json": ("--out", "--json"),
    "report audit/audit.json --decisions decisions.json": ("--out", "--json"),
    "compare old.json audit/audit.json": ("--html", "--json"),
    "review audit data.csv --reviewer anna --no-browser": ("--out",),
}
OUT = {"audit": "new", "fit": "new", "predict": "new.csv", "to-label": "new.csv", "questions": "new.csv"}
OUT["decide"] = "new.json"
"""Where the command itself writes, while another option is tried."""
SENTENCES = ("is also what the command reads", "which the command reads", "is a folder, but a file is to be written")
SENTENCES += ("is a file, but a folder is to be written", "exists, and does not end in", "--out must end in")
SENTENCES += ("which each such folder has: this program did not write it",)
ENDINGS = {"--html": ".html", "--json": ".json", "--out": ".csv"}


@pytest.fixture
def place(saved_guards, tmp_path, monkeypatch) -> Path:
    """One of everything; the models are whole, so that what is not refused would run."""
    shutil.copytree(saved_guards / "base", tmp_path / "base")
    hashes = shutil.ignore_patterns("*-manifest.json")
    shutil.copytree(saved_guards / "mask-kept-certified", tmp_path / "guard", ignore=hashes)
    record = tmp_path / "guard" / "guardrail.json"
    record.write_text(record.read_text().replace(str(saved_guards / "base"), "base"))
    for name in READ:
        if not (tmp_path / name).exists():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(f"somebody's {name}")
    (tmp_path / "data").unlink()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "photo").write_text("mine")
    os.link(tmp_path / "data.csv", tmp_path / "same.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


CASES = [(line, option) for line, options in LINES.items() for option in options]


@pytest.mark.parametrize(("line", "option"), CASES, ids=[f"{line.split()[0]} {option}" for line, option in CASES])
def test_no_input_is_written_over(refused, place, line, option):
    before, words = contents(place), line.split()
    inside = [f"{name}/new{ENDINGS[option]}" for name in ("base", "guard") if name in words[1:]]
    read = [name for name in READ if name.split("/")[0] in words[1:] or name in words]
    same = ["same.csv"] if "data.csv" in words else []
    targets = [*read, *inside, *same, "data", f"base/../{read[0]}"]
    assert len(read) >= 2
    for target in targets:
        more = [] if words[0] == "review" else ["--overwrite"]
        if option != "--out" and words[0] in OUT:
            more += ["--out", OUT[words[0]]]
        said = refused(*words, option, target, *more)
        assert any(sentence in said for sentence in SENTENCES), (target, said)
        assert contents(place) == before, target


def test_a_file_of_somebody_else_is_not_replaced_by_a_result(refused, place):
    (place / "notes.txt").write_text("mine")
    for command, option in (("report old.json", "--out"), ("compare old.json old.json", "--html"), ("demo", "--json")):
        said = refused(*command.split(), option, "notes.txt", "--overwrite")
        assert "'notes.txt' exists, and does not end in " in said
    assert (place / "notes.txt").read_text() == "mine"


def test_nothing_is_written_into_a_folder_that_the_command_replaces(refused, place):
    said = refused(*"audit base data.csv --out new --json new/more.json".split())
    assert said == "'new/more.json' lies in 'new', which is written too. Choose another place for one of them."


def test_the_folder_of_an_audit_takes_what_belongs_there(place):
    from shortcut_guardrail.cli import options

    inputs = ["audit/audit.json", "audit/questions.jsonl", "questions.csv"]
    options.Output().check(options.Place(Path("audit/decisions.json"), options.JSON_ENDINGS), inputs=inputs)
