"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from shortcut_guardrail import ConfigError, RunError
from shortcut_guardrail.data import check_output, to_json, write_file


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
    check_output(tmp_path / "deep" / "new", overwrite=False, folder="a.txt")
    (tmp_path / "empty").mkdir()
    check_output(tmp_path / "empty", overwrite=False, folder="a.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_an_occupied_place_needs_overwrite(tmp_path):
    write_file(tmp_path / "a.txt", "a")
    for folder, target in (("a.txt", tmp_path), (None, tmp_path / "a.txt")):
        with pytest.raises(ConfigError) as error:
            check_output(target, overwrite=False, folder=folder)
        assert str(error.value) == (
            f"'{target}' already exists. Choose another place, or allow it to be replaced with overwrite=True."
        )
        check_output(target, overwrite=True, folder=folder)


def test_a_file_is_no_folder_and_a_folder_no_file(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("a")
    with pytest.raises(ConfigError, match=r"a\.txt' is a file, but a folder is to be written\. Name a folder\."):
        check_output(file, overwrite=True, folder="a.txt")
    with pytest.raises(ConfigError, match="' is a folder, but a file is to be written"):
        check_output(tmp_path, overwrite=True)


def test_a_place_within_a_file_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(ConfigError, match=r"a\.txt' is no folder you may write to \(Not a directory\)"):
        check_output(tmp_path / "a.txt" / "deep" / "er", overwrite=False, folder="a.txt")


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
