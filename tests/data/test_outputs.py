"""What may be written where: never in the place of what is read, and never over what somebody else wrote."""

import errno
import os
from pathlib import Path

import pytest

from shortcut_guardrail.data import check_output, write_file, write_folder
from shortcut_guardrail.errors import ConfigError

READ = "is also what the command reads. Choose another place for the output."
WITHIN = "which the command reads. Choose a place outside of it."
HOLDS = "which the command reads. Choose another place."


@pytest.fixture
def model(tmp_path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").touch()
    return folder


@pytest.fixture
def data(tmp_path) -> Path:
    (tmp_path / "data.csv").write_text("text\nmine\n")
    return tmp_path / "data.csv"


def refused(target: Path, *inputs: object, folder: str | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        check_output(target, overwrite=True, folder=folder, inputs=inputs)  # type: ignore[arg-type]
    return str(error.value)


def test_a_free_place_is_fine_and_an_occupied_one_needs_overwrite(tmp_path):
    check_output(tmp_path / "new", overwrite=False)
    check_output(tmp_path / "deep" / "new", overwrite=False, folder="a.txt")
    (tmp_path / "empty").mkdir()
    for name in (".a.lock", "a.lock"):  # of a writer, and of somebody else
        check_output(tmp_path / "empty", overwrite=False, folder="a.txt")
        (tmp_path / "empty" / name).touch()
    assert refused(tmp_path / "empty", folder="a.txt").endswith("does not replace it. Choose another place.")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    write_file(tmp_path / "a.txt", "a")
    for folder, target in (("a.txt", tmp_path), (None, tmp_path / "a.txt")):
        with pytest.raises(ConfigError, match=r"' already exists\. Choose another place, or allow it to be replaced"):
            check_output(target, overwrite=False, folder=folder)
        check_output(target, overwrite=True, folder=folder)


def test_a_place_of_another_kind_or_that_is_closed_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "a.txt").touch()
    for name, folder, said in (
        ("a.txt", "key", "a.txt' is a file, but a folder is to be written. Name a folder."),
        ("", None, "' is a folder, but a file is to be written. Name a file."),
        ("pipe", None, "pipe' is a device or a pipe, but a file is to be written. Name a file."),
        ("link", None, "link' is a device or a pipe, but a file is to be written. Name a file."),
        ("a.txt/deep/er", "key", "a.txt' is no folder you may write to (Not a directory)."),
        ("x" * 300, None, "cannot be written (File name too long)."),
    ):
        assert refused(tmp_path / name, folder=folder).endswith(said)

    def refuse(**_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert refused(tmp_path / "out").endswith(f"'{tmp_path}' is no folder you may write to (Permission denied).")


def test_nothing_is_written_into_the_folder_of_a_model_nor_over_it(model):
    for name in ("config.json", "new.json", "new/deep/er.json"):
        assert refused(model / name, str(model)).endswith(WITHIN)
    assert refused(model / "guard", model, folder="guardrail.json").endswith(WITHIN)
    assert refused(model, model, folder="guardrail.json").endswith(READ)


def test_an_input_is_found_behind_every_name(model, data, tmp_path, monkeypatch):
    (tmp_path / "link.csv").symlink_to("data.csv")
    os.link(data, tmp_path / "hard.csv")
    (tmp_path / "other").symlink_to("model")
    monkeypatch.chdir(tmp_path)
    for name in ("data.csv", "./data.csv", "model/../data.csv", "link.csv", "hard.csv"):
        assert refused(Path(name), data).endswith(READ), name
    for name in ("other/config.json", "model/../other/x.json"):
        assert refused(Path(name), model).endswith(WITHIN), name
    assert refused(data, "link.csv").endswith(READ)
    assert refused(model / "x.json", "other").endswith(WITHIN)
    check_output(tmp_path / "model-2" / "x.json", overwrite=False, inputs=[model])  # a name that begins alike


def test_a_folder_that_is_written_holds_no_input(data, tmp_path):
    out = tmp_path / "out"
    write_folder(out, lambda folder: (folder / "key").write_text("1"), key="key")
    data.rename(out / "data.csv")
    assert refused(out, out / "data.csv", folder="key").endswith(HOLDS)
    check_output(out, overwrite=True, folder="key", inputs=[tmp_path / "absent.csv"])


def test_what_is_no_path_here_is_passed_over(tmp_path):
    names = ["owner/name:split", "module:function", None, "", "x" * 5000, "a\0b", "https://example.org/x"]
    check_output(tmp_path / "new", overwrite=False, inputs=names)


def test_outputs_do_not_share_a_place(tmp_path):
    for target in ("out", "out/x.json", "./out/deep/x.json"):
        with pytest.raises(ConfigError, match=r"out', which is written too\. Choose another place"):
            check_output(tmp_path / target, overwrite=True, others=[None, tmp_path / "out"])
    check_output(tmp_path / "outer", overwrite=True, others=[tmp_path / "out"])


def test_only_a_file_that_looks_like_ours_is_replaced(tmp_path):
    for name in ("notes.txt", "model.safetensors", "result"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(ConfigError, match=r"exists, and does not end in \.html or \.htm as what is to be"):
            check_output(tmp_path / name, overwrite=True, endings=(".html", ".htm"))
    (tmp_path / "page.HTML").write_text("<p>")
    check_output(tmp_path / "page.HTML", overwrite=True, endings=(".html", ".htm"))
    check_output(tmp_path / "anything.new", overwrite=False, endings=(".html", ".htm"))
