"""Files that may not be read and folders that may not be written to, as the system itself refuses them."""

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from shortcut_guardrail.data import read_whole, write_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")

NOBODY = 65534


@contextmanager
def without_privileges():
    """Be an ordinary user, where root runs the tests: root may do everything."""
    if os.geteuid():
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


@pytest.fixture
def place(model_folder, write_csv):
    """A folder that everybody reaches, with a model, data, a file that is closed and a folder that is."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    shutil.copytree(model_folder, folder / "model")
    for name in ("data.csv", "closed.csv"):
        shutil.copy(write_csv("data.csv", ("the tea was cold", "x")), folder / name)
    (folder / "closed").mkdir(mode=0o555)
    (folder / "open").mkdir()
    modes = {"model": 0o755, **{f"model/{path.name}": 0o644 for path in model_folder.iterdir()}}
    for name, mode in {**modes, "closed.csv": 0, "open": 0o777}.items():
        (folder / name).chmod(mode)
    yield folder
    shutil.rmtree(folder)


def test_what_may_not_be_read_or_written_is_a_sentence(cli, place):
    model, out = place / "model", place / "open" / "out.csv"
    assert cli("predict", model, place / "data.csv", "--out", out)[0] == 0  # and all is imported
    out.unlink()
    with without_privileges():
        with pytest.raises(PermissionError):
            (place / "closed.csv").read_bytes()
        reading = cli("predict", model, place / "closed.csv", "--out", out)
        writing = cli("predict", model, place / "data.csv", "--out", place / "closed" / "out.csv")
        folder = cli("audit", model, place / "data.csv", "--out", place / "closed" / "out")
        # The partner: where all is open it works.
        assert cli("predict", model, place / "data.csv", "--out", out)[0] == 0
    assert [status for status, _, _ in (reading, writing, folder)] == [2, 2, 2]
    assert f"{place / 'closed.csv'}" in reading[2]
    assert "Permission denied" in reading[2]
    for (_, _, said), name in ((writing, "out.csv"), (folder, "out")):
        assert said == (
            f"error: '{place / 'closed' / name}' cannot be written: '{place / 'closed'}' is no folder you may write to "
            "(Permission denied).\n"
        )
    assert not any((place / "closed").iterdir())


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_model_that_may_not_be_read_is_a_sentence(cli, place, name):
    out = place / "open" / "out.csv"
    assert cli("predict", place / "model", place / "data.csv", "--out", out)[0] == 0
    (place / "model" / name).chmod(0)
    with without_privileges():
        status, _, said = cli("predict", place / "model", place / "data.csv", "--out", out, "--overwrite")
    assert status == 2
    assert str(place / "model") in said
    assert "Permission denied" in said


def test_a_folder_in_one_that_is_closed_is_written_and_replaced(place):
    """As where a folder is mounted into a container: nothing may be put beside it."""
    out = place / "closed" / "out"
    out.mkdir()
    out.chmod(0o777)
    with without_privileges():
        for said in ("old", "new"):
            write_folder(out, lambda f, said=said: (f / "a").write_text(said), key="a", overwrite=said == "new")
        assert read_whole(out, (out / "a").read_text, hashes=True) == "new"
    assert sorted(path.name for path in out.iterdir()) == ["a", "guardrail-manifest.json"]
    assert [path.name for path in out.parent.iterdir()] == ["out"]
