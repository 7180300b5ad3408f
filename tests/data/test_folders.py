"""Folders are replaced whole, in one step or file by file, and what others put into them stays."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from shortcut_guardrail.data import check_file, check_output, complete, folders, read_whole, write_files, write_folder
from shortcut_guardrail.data.disk import exchange, held
from shortcut_guardrail.data.manifests import MANIFEST_FILE, REPLACING_FOLDER, check_whole, read_manifest
from shortcut_guardrail.errors import ConfigError, DataError, GuardrailWarning, RunError

KEY = "a"


def fill(**files: str):
    def write(folder: Path) -> None:
        for name, content in files.items():
            path = folder / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)

    return write


def save(target: Path, *, overwrite: bool = True, **files: str) -> None:
    write_folder(target, fill(**files), key=KEY, overwrite=overwrite)


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too, but the manifests."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST_FILE]
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


@pytest.fixture(params=["in one step", "file by file"])
def way(request, monkeypatch) -> str:
    """Both ways in which a folder is replaced."""
    if request.param == "file by file":
        monkeypatch.setattr(folders, "exchange", lambda *_: False)
    return request.param


def test_the_two_ways_differ(tmp_path, way):
    """A folder that changed places is another one; one that is filled anew is the same."""
    save(tmp_path / "out", a="old")
    before = (tmp_path / "out").stat().st_ino
    save(tmp_path / "out", a="new")
    assert ((tmp_path / "out").stat().st_ino == before) == (way == "file by file")


def test_folders_change_places_here(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "said").write_text(name)
    assert exchange(tmp_path / "one", tmp_path / "other")
    assert contents(tmp_path) == {"one/said": "other", "other/said": "one"}
    assert not exchange(tmp_path / "one", tmp_path / "absent")


def test_a_folder_appears_with_its_files_and_nothing_else(tmp_path):
    save(tmp_path / "deep" / "out", a="1", sub__b="2")
    assert contents(tmp_path) == {"deep/out/a": "1", "deep/out/sub/b": "2"}
    assert json.loads((tmp_path / "deep" / "out" / MANIFEST_FILE).read_text()) == {
        "schema_version": 1,
        "number": 1,
        "files": {
            "a": {"size": 1, "sha256": "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"},
            "sub/b": {"size": 1, "sha256": "d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35"},
        },
    }


def test_a_folder_and_its_files_get_the_usual_permissions(tmp_path):
    def private(folder: Path) -> None:
        (folder / "a").write_text("1")
        (folder / "a").chmod(0o600)  # as safetensors does

    before = os.umask(0o022)
    try:
        write_folder(tmp_path / "out", private, key=KEY)
        (tmp_path / "out").chmod(0o750)
        write_folder(tmp_path / "out", private, key=KEY, overwrite=True)
    finally:
        os.umask(before)
    modes = [(tmp_path / "out" / name).stat().st_mode & 0o777 for name in ("", "a", MANIFEST_FILE)]
    assert modes == [0o750, 0o644, 0o644]


def test_a_new_version_takes_the_place_whole_and_files_of_others_stay(tmp_path, way):
    out = tmp_path / "out"
    save(out, a="old", gone="old", sub__c="old", old__d="old")
    (out / "notes").write_text("mine")
    (out / "mine").mkdir()
    (out / "mine" / "deep").write_text("mine")
    (out / "mine" / "empty").mkdir()
    (out / "link").symlink_to("notes")
    written = (out / "notes").stat().st_ino
    save(out, a="new", b="new", sub__c="new")
    assert contents(tmp_path) == {
        "out/a": "new",
        "out/b": "new",
        "out/sub/c": "new",
        "out/notes": "mine",
        "out/link": "mine",
        "out/mine/deep": "mine",
    }
    assert (out / "link").is_symlink()
    assert (out / "mine" / "empty").is_dir()
    assert not (out / "old").exists()
    assert (out / "notes").stat().st_ino == written  # the file itself and no copy
    assert read_manifest(out).number == 2


def test_the_folder_one_works_in_stays_the_folder_one_works_in(tmp_path, monkeypatch):
    save(tmp_path / "out", a="old", b="old")
    monkeypatch.chdir(tmp_path / "out")
    save(Path("."), a="new")
    assert Path("a").read_text() == "new"
    assert contents(tmp_path) == {"out/a": "new"}


def test_a_link_to_a_folder_stays_a_link(tmp_path, way):
    save(tmp_path / "real", a="old")
    (tmp_path / "link").symlink_to("real")
    save(tmp_path / "link", a="new")
    assert (tmp_path / "link").is_symlink()
    assert contents(tmp_path / "real") == {"a": "new"}


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "photos").write_text("mine")
    for act in (
        lambda: check_output(tmp_path, overwrite=True, folder=KEY),
        lambda: save(tmp_path, a="new"),
    ):
        with pytest.raises(ConfigError) as error:
            act()
        assert str(error.value) == (
            f"'{tmp_path}' holds files, but no {KEY}, which each such folder has: this program did not write it, and "
            "does not replace it. Choose another place."
        )
    assert contents(tmp_path) == {"photos": "mine"}


def test_a_folder_of_an_earlier_version_is_replaced(tmp_path, way):
    """It has no manifest: what is written anew and what is known to go with it goes; the rest may be anybody's."""
    fill(a="old", b="old", adapter="old", notes="mine")(tmp_path)
    write_folder(tmp_path, fill(a="new", b="new"), key=KEY, former=("adapter",), overwrite=True)
    assert contents(tmp_path) == {"a": "new", "b": "new", "notes": "mine"}


def test_an_empty_folder_is_filled(tmp_path, way):
    (tmp_path / "out").mkdir(mode=0o700)
    save(tmp_path / "out", overwrite=False, a="1")
    assert contents(tmp_path) == {"out/a": "1"}
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), ValueError()])
@pytest.mark.parametrize("existing", [False, True])
def test_a_failure_while_filling_leaves_things_as_they_were(tmp_path, error, existing):
    target = tmp_path / "out"
    if existing:
        save(target, a="old")

    def fail(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise error

    with pytest.raises(RunError if isinstance(error, OSError) else type(error)):
        write_folder(target, fail, key=KEY, overwrite=True)
    assert contents(tmp_path) == ({"out/a": "old"} if existing else {})
    assert target.exists() == existing
    assert [path.name for path in tmp_path.iterdir()] == (["out"] if existing else [])


def test_a_folder_in_the_place_of_a_file_is_not_lost(tmp_path, way):
    save(tmp_path / "out", a="old")
    fill(b__precious="mine")(tmp_path / "out")
    with pytest.raises(RunError, match="could not be written: Is a directory"):
        save(tmp_path / "out", a="new", b="new")
    assert contents(tmp_path / "out") == {"a": "old", "b/precious": "mine"}
    (tmp_path / "out" / "c").write_text("mine")
    with pytest.raises(RunError, match="could not be written: Not a directory"):
        save(tmp_path / "out", a="new", c__d="new")
    assert contents(tmp_path / "out") == {"a": "old", "b/precious": "mine", "c": "mine"}


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
        write_folder(tmp_path / "out", fail, key=KEY)
    assert str(raised.value) == f"'{tmp_path / 'out'}' could not be written: {reason}. Nothing was left behind."
    assert isinstance(raised.value, RuntimeError)


def test_other_errors_keep_their_kind(tmp_path):
    def fail(folder: Path) -> None:
        raise KeyError("a bug of ours")

    with pytest.raises(KeyError):
        write_folder(tmp_path / "out", fail, key=KEY)


# Cut short while file by file


@pytest.fixture
def cut_short(tmp_path, monkeypatch):
    """A folder whose replacement, file by file, broke off with an error once `b` was moved in."""
    out = tmp_path / "out"
    save(out, a="old", b="old", gone="old")
    real = os.replace

    def fail(source, target):
        if Path(target) == out / "c":
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(folders, "exchange", lambda *_: False)
        patch.setattr("os.replace", fail)
        with pytest.raises(RunError) as raised:
            save(out, a="new", b="new", c="new")
    assert str(raised.value).endswith(
        "could not be written: Input/output error. The next run that writes there completes it first."
    )
    return out


def test_what_was_cut_short_is_no_version(cut_short):
    assert not (cut_short / KEY).exists()
    with pytest.raises(DataError) as error:
        check_whole(cut_short)
    assert str(error.value) == (
        f"'{cut_short}' is being replaced, or that was interrupted. If no run is writing to it, give the command that "
        "wrote it once more: that completes it first."
    )
    with pytest.raises(DataError, match="is being replaced, or that was interrupted"):
        check_output(cut_short / "notes", overwrite=False)


def test_the_next_writer_completes_it_and_says_so(cut_short):
    seen = {}

    def look(folder: Path) -> None:
        seen.update(contents(cut_short))
        fill(a="newest")(folder)

    check_output(cut_short, overwrite=True, folder=KEY)
    with pytest.warns(GuardrailWarning) as warned:
        write_folder(cut_short, look, key=KEY, overwrite=True)
    assert [str(one.message) for one in warned] == [
        f"The last run that wrote to '{cut_short}' was interrupted; what it wrote was completed first."
    ]
    assert seen == {"a": "new", "b": "new", "c": "new"}
    assert contents(cut_short) == {"a": "newest"}


def test_it_can_be_completed_alone(cut_short):
    with pytest.warns(GuardrailWarning, match="was interrupted"):
        complete(cut_short)
    assert contents(cut_short) == {"a": "new", "b": "new", "c": "new"}
    check_whole(cut_short, hashes=True)
    complete(cut_short)  # and nothing is left to be done or said


@pytest.mark.parametrize(
    "journal",
    [
        "{",
        "[]",
        '{"files": 1, "drop": [], "last": []}',
        '{"files": [], "drop": ["../../notes"], "last": []}',
        '{"files": [], "drop": [], "last": ["a"]}',
    ],
)
def test_a_damaged_journal_is_refused_and_leads_nowhere_else(tmp_path, journal):
    (tmp_path / "notes").write_text("mine")
    save(tmp_path / "deep" / "out", a="old")
    fill(**{f"{REPLACING_FOLDER}__journal.json": journal})(tmp_path / "deep" / "out")
    with pytest.raises(DataError, match=r"journal\.json.*write it again\."):
        complete(tmp_path / "deep" / "out")
    assert (tmp_path / "notes").read_text() == "mine"


def test_some_files_of_a_folder_are_written_together(tmp_path):
    fill(other="mine", a="old")(tmp_path)
    write_files(tmp_path, fill(a="new", b="new"), key=KEY)
    assert contents(tmp_path) == {"other": "mine", "a": "new", "b": "new"}
    assert not (tmp_path / MANIFEST_FILE).exists()


# What is checked when a folder is read


def test_sizes_are_checked_always_and_hashes_on_request(tmp_path):
    save(tmp_path / "out", a="1", page__html="<p>")
    (tmp_path / "out" / "a").write_text("2")
    check_whole(tmp_path / "out")
    with pytest.raises(DataError, match="out/a' has another content than the one that was written"):
        check_whole(tmp_path / "out", hashes=True)
    (tmp_path / "out" / "a").write_text("12")
    with pytest.raises(DataError, match="out/a' has 2 bytes instead of 1"):
        check_whole(tmp_path / "out")
    (tmp_path / "out" / "a").unlink()
    with pytest.raises(DataError, match="out/a' is missing"):
        check_whole(tmp_path / "out")


def test_one_file_of_a_folder_is_checked_alone(tmp_path):
    save(tmp_path / "out", a="1", b="1")
    (tmp_path / "out" / "b").write_text("22")
    (tmp_path / "out" / "notes").write_text("mine")
    for name in ("a", "notes"):
        check_file(tmp_path / "out" / name)
    with pytest.raises(DataError, match="out/b' has 2 bytes instead of 1"):
        check_file(tmp_path / "out" / "b")
    check_file(tmp_path / "anything")  # where there is no manifest


def test_people_may_change_pages_and_add_files(tmp_path):
    write_folder(
        tmp_path / "out", lambda folder: [(folder / name).write_text("1") for name in ("a", "README.md")], key=KEY
    )
    (tmp_path / "out" / "README.md").write_text("my own words")
    (tmp_path / "out" / "notes").write_text("mine")
    check_whole(tmp_path / "out", hashes=True)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "{}",
        '{"schema_version": 2}',
        '{"schema_version": 1, "number": "x", "files": {}}',
        '{"schema_version": 1, "number": 1, "files": {"a": {"size": -1, "sha256": ""}}}',
        '{"schema_version": 1, "number": 1, "files": {"../a": {"size": 1, "sha256": ""}}}',
        '{"schema_version": 1, "number": 1, "files": {"/a": {"size": 1, "sha256": ""}}}',
        '{"schema_version": 1, "number": 1, "files": []}',
        "[" * 100_000,
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path, content):
    save(tmp_path / "out", a="1")
    (tmp_path / "out" / MANIFEST_FILE).write_text(content)
    for act in (lambda: check_whole(tmp_path / "out"), lambda: save(tmp_path / "out", a="2")):
        with pytest.raises(DataError, match=r"manifest\.json.*\. Remove .*write it again\."):
            act()
    assert contents(tmp_path / "out") == {"a": "1"}


def test_what_is_read_is_of_one_version(tmp_path, way):
    """A reader that is overtaken by a writer reads again."""
    out, read = tmp_path / "out", []
    save(out, a="old", b="old")

    def slowly() -> list[str]:
        read.append((out / "a").read_text())
        if len(read) < 3:
            save(out, a=f"new{len(read)}", b=f"new{len(read)}")
        return [read[-1], (out / "b").read_text()]

    assert read_whole(out, slowly) == ["new2", "new2"]
    assert read == ["old", "new1", "new2"]


def test_a_reader_that_is_overtaken_again_and_again_gives_up(tmp_path):
    out, number = tmp_path / "out", iter(range(100))
    save(out, a="old")
    with pytest.raises(DataError, match="was replaced each of the 5 times that it was read"):
        read_whole(out, lambda: save(out, a=str(next(number))))


def test_an_error_of_the_reader_itself_stays(tmp_path):
    save(tmp_path / "out", a="old")
    with pytest.raises(KeyError):
        read_whole(tmp_path / "out", lambda: {}["nothing"])


# Writers at one place


def test_what_a_killed_writer_left_goes_with_the_next(tmp_path, way):
    save(tmp_path / "out", a="old")
    left = [tmp_path / ".out.new-0123abcd", tmp_path / "out" / f"{REPLACING_FOLDER}-0123abcd"]
    for folder in left:
        folder.mkdir()
        (folder / "half").write_text("half")
    (tmp_path / ".out.lock").touch()
    others = [tmp_path / ".other.new-0123abcd", tmp_path / ".out.new-mine"]
    for folder in others:
        folder.mkdir()
    save(tmp_path / "out", a="new")
    assert contents(tmp_path) == {"out/a": "new"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.new-0123abcd", ".out.new-mine", "out"]


def test_writers_take_turns(tmp_path, way):
    """Twenty writers of a folder of three files: each version is whole, and none is lost."""
    out, failed = tmp_path / "out", []
    save(out, a="0", b="0", c="0")

    def write(number: str) -> None:
        try:
            save(out, a=number, b=number, c=number)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(str(number),)) for number in range(20)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        try:
            found = read_whole(out, lambda: {(out / name).read_text() for name in "abc"})
        except (DataError, FileNotFoundError):
            assert way == "file by file"  # there is none for a moment
            continue
        assert len(found) == 1
    for thread in threads:
        thread.join()
    assert not failed
    assert read_manifest(out).number == 21
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_writer_that_waits_in_vain_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.data.disk.PATIENCE", 0.1)
    with held(tmp_path / "out", tmp_path), pytest.raises(RunError) as error:
        save(tmp_path / "out", a="1")
    assert str(error.value).startswith(f"Another run has been writing to '{tmp_path / 'out'}' for 0 seconds. Wait")
    save(tmp_path / "out", a="1")


def test_what_another_program_wrote_meanwhile_is_not_replaced(tmp_path):
    def beside(folder: Path) -> None:
        fill(a="ours")(folder)
        fill(out__a="theirs")(tmp_path)

    with pytest.raises(ConfigError, match="already exists"):
        write_folder(tmp_path / "out", beside, key=KEY)
    assert contents(tmp_path) == {"out/a": "theirs"}


def test_a_long_name_leaves_room_for_what_is_prepared(tmp_path, way):
    out = tmp_path / ("x" * 255)
    save(out, a="old")
    save(out, a="new")
    assert contents(out) == {"a": "new"}
    assert list(tmp_path.iterdir()) == [out]
