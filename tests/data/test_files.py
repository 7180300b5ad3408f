"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from shortcut_guardrail import ConfigError, RunError
from shortcut_guardrail.data.files import check_output, to_json, write_file, write_folder


def fill(**files: str):
    def write(folder: Path) -> None:
        for name, content in files.items():
            path = folder / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)

    return write


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def raising(error: BaseException, *, at: int):
    """`os.replace`, but its `at`-th call fails."""
    real, calls = os.replace, []

    def replace(*arguments):
        calls.append(arguments)
        if len(calls) == at:
            raise error
        return real(*arguments)

    return replace


# What is refused before any work


def test_a_free_place_is_fine(tmp_path):
    check_output(tmp_path / "new", overwrite=False)
    check_output(tmp_path / "deep" / "new", overwrite=False, folder=True)
    (tmp_path / "empty").mkdir()
    check_output(tmp_path / "empty", overwrite=False, folder=True)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_an_occupied_place_needs_overwrite(tmp_path):
    write_file(tmp_path / "a.txt", "a")
    for folder, target in ((True, tmp_path), (False, tmp_path / "a.txt")):
        with pytest.raises(ConfigError) as error:
            check_output(target, overwrite=False, folder=folder)
        assert str(error.value) == (
            f"'{target}' already exists. Choose another place, or allow it to be replaced with --overwrite."
        )
        check_output(target, overwrite=True, folder=folder)


def test_a_file_is_no_folder_and_a_folder_no_file(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("a")
    with pytest.raises(ConfigError, match=r"a\.txt' is a file, but a folder is to be written\. Name a folder\."):
        check_output(file, overwrite=True, folder=True)
    with pytest.raises(ConfigError, match="' is a folder, but a file is to be written"):
        check_output(tmp_path, overwrite=True)


def test_a_place_within_a_file_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(ConfigError, match=r"a\.txt' is no folder you may write to \(Not a directory\)"):
        check_output(tmp_path / "a.txt" / "deep" / "er", overwrite=False, folder=True)


def test_a_place_that_the_system_closes_is_refused(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ConfigError) as error:
        check_output(tmp_path / "out", overwrite=False)
    assert str(error.value) == (
        f"'{tmp_path / 'out'}' cannot be written: '{tmp_path}' is no folder you may write to (Permission denied)."
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="is no folder you may write to"):
        check_output(tmp_path / "out", overwrite=False)
    tmp_path.chmod(0o700)


def test_a_name_too_long_for_the_system_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be written.*File name too long"):
        check_output(tmp_path / ("x" * 300), overwrite=False)


# Folders


def test_a_folder_appears_with_its_files_and_nothing_else(tmp_path):
    write_folder(tmp_path / "deep" / "out", fill(a="1", sub__b="2"))
    assert contents(tmp_path) == {"deep/out/a": "1", "deep/out/sub/b": "2"}


def test_a_folder_and_its_files_get_the_usual_permissions(tmp_path):
    def private(folder: Path) -> None:
        (folder / "a").write_text("1")
        (folder / "a").chmod(0o600)  # as safetensors does

    before = os.umask(0o022)
    try:
        write_folder(tmp_path / "out", private)
        write_file(tmp_path / "b", "2")
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "out", tmp_path / "out" / "a", tmp_path / "b")]
    assert modes == [0o755, 0o644, 0o644]


def test_overwriting_replaces_and_keeps_what_is_not_written_again(tmp_path):
    write_folder(tmp_path / "out", fill(a="old", notes="mine", sub__c="old"))
    write_folder(tmp_path / "out", fill(a="new", b="new", sub__c="new"), overwrite=True)
    assert contents(tmp_path / "out") == {"a": "new", "b": "new", "notes": "mine", "sub/c": "new"}
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


def test_the_current_folder_can_be_written_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("mine")
    write_folder(Path("."), fill(a="1"), overwrite=True)
    assert contents(tmp_path) == {"a": "1", "data.csv": "mine"}


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), ValueError()])
@pytest.mark.parametrize("existing", [False, True])
def test_a_failure_while_filling_leaves_things_as_they_were(tmp_path, error, existing):
    target = tmp_path / "out"
    if existing:
        write_folder(target, fill(a="old"))

    def fail(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise error

    with pytest.raises(RunError if isinstance(error, OSError) else type(error)):
        write_folder(target, fail, overwrite=True)
    assert contents(tmp_path) == ({"out/a": "old"} if existing else {})
    assert target.exists() == existing


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_failure_while_replacing_puts_every_old_file_back(tmp_path, monkeypatch, error, at):
    old = {"a": "old", "b": "old", "mine": "old"}
    write_folder(tmp_path / "out", fill(**old))
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", raising(error, at=at))
        with pytest.raises((RunError, KeyboardInterrupt)):
            write_folder(tmp_path / "out", fill(a="new", b="new", c="new"), overwrite=True)
    assert contents(tmp_path / "out") == old
    # The partner: without the failure everything is replaced.
    write_folder(tmp_path / "out", fill(a="new", b="new", c="new"), overwrite=True)
    assert contents(tmp_path / "out") == {"a": "new", "b": "new", "c": "new", "mine": "old"}


def test_a_folder_in_the_place_of_a_file_is_not_lost(tmp_path):
    write_folder(tmp_path / "out", fill(a__precious="mine"))
    with pytest.raises(RunError, match="could not be written: Is a directory"):
        write_folder(tmp_path / "out", fill(a="new"), overwrite=True)
    assert contents(tmp_path / "out") == {"a/precious": "mine"}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "the disk is full"),
        (OSError(errno.EROFS, "Read-only file system"), "Read-only file system"),
        (OSError("odd"), "odd"),
        (Exception("Error while serializing: I/O error: No space left on device (os error 28)"), "the disk is full"),
    ],
)
def test_the_sentence_of_a_failed_write(tmp_path, error, reason):
    def fail(folder: Path) -> None:
        raise error

    with pytest.raises(RunError) as raised:
        write_folder(tmp_path / "out", fail)
    assert str(raised.value) == f"'{tmp_path / 'out'}' could not be written: {reason}. Nothing was left behind."
    assert isinstance(raised.value, RuntimeError)


def test_other_errors_keep_their_kind(tmp_path):
    def fail(folder: Path) -> None:
        raise KeyError("a bug of ours")

    with pytest.raises(KeyError):
        write_folder(tmp_path / "out", fail)


# Files


def test_a_file_is_written_as_it_is(tmp_path):
    write_file(tmp_path / "deep" / "a.txt", "zwölf\r\n")
    assert (tmp_path / "deep" / "a.txt").read_bytes() == "zwölf\r\n".encode()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_file_that_could_not_be_written_is_as_it_was(tmp_path, monkeypatch, error):
    write_file(tmp_path / "a.txt", "old")
    monkeypatch.setattr("os.replace", raising(error, at=1))
    with pytest.raises((RunError, KeyboardInterrupt)) as raised:
        write_file(tmp_path / "a.txt", "new", overwrite=True)
    if isinstance(error, OSError):
        assert "the disk is full. Nothing was left behind." in str(raised.value)
    assert contents(tmp_path) == {"a.txt": "old"}


def test_json_has_no_number_that_is_not_finite():
    assert to_json({"a": [1, "é"]}) == '{\n  "a": [\n    1,\n    "é"\n  ]\n}\n'
    with pytest.raises(ValueError, match="Out of range float"):
        to_json({"a": float("nan")})
