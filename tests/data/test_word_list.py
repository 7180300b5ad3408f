"""Files with a word or phrase on each line."""

from pathlib import Path

import pytest

from shortcut_guardrail.data import read_shortcuts_file
from shortcut_guardrail.errors import DataError


class TestShortcutsFile:
    def test_words_comments_and_blank_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "shortcuts.txt"
        path.write_bytes(
            "\ufeff# ours\r\nhonestly\r\n\r\n  to be honest # a phrase\nif I’m being honest\n  # c#\nc#\n".encode()
        )
        assert read_shortcuts_file(path) == ["honestly", "to be honest", "if I’m being honest", "c#"]

    def test_files_that_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "shortcuts.txt"
        with pytest.raises(DataError) as missing:
            read_shortcuts_file(path)
        path.write_text("# none\n\n")
        with pytest.raises(DataError) as empty:
            read_shortcuts_file(str(path))
        path.write_bytes(b"fine\ncaf\xe9\n")
        with pytest.raises(DataError) as encoding:
            read_shortcuts_file(path)
        assert str(missing.value) == f"There is no file {path}."
        assert str(empty.value) == f"{path} names no shortcut; write one word or phrase on each line."
        assert str(encoding.value).startswith(f"{path}, line 2: byte 0xe9 is not UTF-8. ")
