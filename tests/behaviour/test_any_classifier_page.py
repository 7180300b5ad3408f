"""The page on any classifier: its files are written, its commands typed, and they print what it says."""

import re
import runpy
import shlex
import sys

import pytest

from behaviour.test_first_hour import check_output
from checkout import ROOT

PAGE = (ROOT / "docs" / "howto" / "any-classifier.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = {body.partition("\n")[0].removeprefix("# "): body for kind, body in BLOCKS if kind == "python"}
PRINTED = [body for kind, body in BLOCKS if not kind]


@pytest.mark.slow  # a pipeline is trained, and four commands run
def test_every_command_prints_what_the_page_says(tmp_path, ok, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, body in FILES.items():
        (tmp_path / name).write_text(body, encoding="utf-8")
    runpy.run_path("make.py")
    assert [command.split()[1] for command in PRINTED[::2]] == ["audit", "fit", "evaluate", "certify"]
    for command, said in zip(PRINTED[::2], PRINTED[1::2], strict=True):
        check_output(said, ok(*shlex.split(command)[1:])[0])
    sys.modules.pop("deployed")
