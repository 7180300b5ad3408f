"""Folders are replaced whole, and what others put into them stays."""

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from shortcut_guardrail.data import check_output, complete, read_whole, to_json, write_file, write_folder
from shortcut_guardrail.data.manifests import MANIFEST_FILE, REPLACING_FOLDER, check_whole
from shortcut_guardrail.data.writing import held
from shortcut_guardrail.errors import ConfigError, DataError, GuardrailWarning, RunError

KEY = "a"


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.data.manifests.PATIENCE", 0)


def fill(**files: str):
    def write(folder: Path) -> None:
        for name, content in files.items():
            path = folder / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    return write


def save(target: Path, *, overwrite: bool = True, **files: str) -> None:
    write_folder(target, fill(**files), key=KEY, overwrite=overwrite)


def raiser(error: BaseException):
    raise error


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too, but the manifests."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST_FILE]
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def test_a_folder_appears_with_its_files_and_nothing_else(tmp_path):
    save(tmp_path / "deep" / "out", a="1", sub__b="2")
    assert contents(tmp_path) == {"deep/out/a": "1", "deep/out/sub/b": "2"}
    files = {name: {"size": 1, "sha256": sha256(text).hexdigest()} for name, text in (("a", b"1"), ("sub/b", b"2"))}
    manifest = (tmp_path / "deep" / "out" / MANIFEST_FILE).read_text()
    assert json.loads(manifest) == {"schema_version": 1, "files": files}


def test_files_get_the_usual_permissions_and_a_folder_keeps_its_own(tmp_path):
    def private(folder: Path) -> None:
        (folder / "a").touch(0o600)  # as safetensors does

    before = os.umask(0o022)
    try:
        write_folder(tmp_path / "out", private, key=KEY)
        (tmp_path / "out").chmod(0o750)
        write_folder(tmp_path / "out", private, key=KEY, overwrite=True)
    finally:
        os.umask(before)
    modes = [(tmp_path / "out" / name).stat().st_mode & 0o777 for name in ("", "a", MANIFEST_FILE)]
    assert modes == [0o750, 0o644, 0o644]


def test_a_new_version_takes_the_place_whole_and_files_of_others_stay(tmp_path, monkeypatch):
    """Also in a folder that is reached through a link, that one works in, or with a name as long as names can be."""
    out = tmp_path / ("x" * 255)
    save(out, a="old", gone="old", sub__c="old", old__d="old")
    (tmp_path / "link").symlink_to(out.name)
    fill(notes="mine", mine__deep="mine")(out)
    (out / "mine" / "empty").mkdir()
    (out / "linked").symlink_to("notes")
    before = (out.stat().st_ino, (out / "notes").stat().st_ino)
    monkeypatch.chdir(out)
    save(tmp_path / "link", a="new", b="new", sub__c="new")
    mine = {"notes": "mine", "linked": "mine", "mine/deep": "mine"}
    assert contents(out) == {"a": "new", "b": "new", "sub/c": "new", **mine}
    save(Path("."), a="newest")
    assert contents(Path(".")) == {"a": "newest", **mine}
    assert (out / "linked").is_symlink()
    assert sorted(path.name for path in out.iterdir()) == ["a", MANIFEST_FILE, "linked", "mine", "notes"]
    assert (out / "mine" / "empty").is_dir()
    assert (out.stat().st_ino, (out / "notes").stat().st_ino) == before  # themselves and no copies
    assert (tmp_path / "link").is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


def test_what_others_put_in_the_place_of_old_files_stays(tmp_path):
    save(tmp_path / "out", a="old", b="old", sub__c="old")
    fill(c="theirs")(tmp_path / "theirs")
    (tmp_path / "out" / "b").unlink()
    fill(b__precious="mine")(tmp_path / "out")
    (tmp_path / "out" / "sub" / "c").unlink()
    (tmp_path / "out" / "sub").rmdir()
    (tmp_path / "out" / "sub").symlink_to("../theirs")
    save(tmp_path / "out", a="new")
    assert contents(tmp_path) == {"out/a": "new", "out/b/precious": "mine", "theirs/c": "theirs"}


def test_a_folder_of_somebody_else_is_refused_and_an_empty_one_filled(tmp_path):
    (tmp_path / "photos").write_text("mine")
    with pytest.raises(ConfigError, match=rf"holds files, but no {KEY}, which each such folder has: this program did"):
        save(tmp_path, a="new")
    (tmp_path / "out").mkdir(mode=0o700)
    fill(half="half")(tmp_path / "out" / ".filling")  # of a writer that was killed
    save(tmp_path / "out", overwrite=False, a="1")
    assert contents(tmp_path) == {"photos": "mine", "out/a": "1"}
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt(), KeyError()])
@pytest.mark.parametrize("existing", [False, True])
def test_a_failure_while_filling_leaves_things_as_they_were(tmp_path, error, existing):
    target, before = tmp_path / "out", {"out/a": "old"} if existing else {}
    if existing:
        save(target, a="old")
    with pytest.raises(RunError if error is FULL else type(error)):
        write_folder(target, lambda folder: (fill(a="half")(folder), raiser(error)), key=KEY, overwrite=True)
    assert (contents(tmp_path), [path.name for path in tmp_path.iterdir()]) == (before, ["out"] if existing else [])


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()])
def test_a_file_is_written_as_it_is_or_stays_as_it_was(tmp_path, monkeypatch, error):
    write_file(tmp_path / "deep" / "a.txt", "zwölf\r\n")
    monkeypatch.setattr("os.replace", lambda *_: raiser(error))
    with pytest.raises((RunError, KeyboardInterrupt)) as raised:
        write_file(tmp_path / "deep" / "a.txt", "new", overwrite=True)
    assert error is not FULL or "the disk is full. Nothing was left behind." in str(raised.value)
    left = [(path.name, path.read_bytes()) for path in (tmp_path / "deep").iterdir()]
    assert left == [("a.txt", "zwölf\r\n".encode())]
    assert to_json({"a": [1, "é"]}) == '{\n  "a": [\n    1,\n    "é"\n  ]\n}\n'
    with pytest.raises(ValueError, match="Out of range float"):
        to_json({"a": float("nan")})


def test_what_gets_its_name_is_on_the_disk(tmp_path, monkeypatch):
    on_disk, sync, replace = set(), os.fsync, os.replace
    monkeypatch.setattr("os.fsync", lambda file: (sync(file), on_disk.add(os.fstat(file).st_ino)))

    def named(old, new):
        assert {path.stat().st_ino for path in (Path(old), *Path(old).rglob("*"))} <= on_disk
        replace(old, new)

    monkeypatch.setattr("os.replace", named)
    for content in ("old", "new"):
        write_file(tmp_path / "a", content, overwrite=True)
        save(tmp_path / "out", a=content, sub__b=content)


def test_a_folder_in_the_place_of_a_file_is_not_lost(tmp_path):
    save(tmp_path / "out", a="old")
    fill(b__precious="mine", c="mine")(tmp_path / "out")
    with pytest.raises(RunError, match="could not be written: Is a directory"):
        save(tmp_path / "out", a="new", b="new")
    with pytest.raises(RunError, match="could not be written: Not a directory"):
        save(tmp_path / "out", a="new", c__d="new")
    assert contents(tmp_path / "out") == {"a": "old", "b/precious": "mine", "c": "mine"}


def test_the_sentence_of_a_failed_write(tmp_path):
    said = "Error while serializing: I/O error: No space left on device (os error 28)"
    for error, reason in (
        *[(OSError(errno.EDQUOT, "Disk quota exceeded"), "the disk is full"), (OSError("odd"), "odd")],
        (Exception(said), "the disk is full"),
    ):
        with pytest.raises(RunError) as raised:
            write_folder(tmp_path / "out", lambda _: raiser(error), key=KEY)  # noqa: B023
        assert str(raised.value) == f"'{tmp_path / 'out'}' could not be written: {reason}. Nothing was left behind."


@pytest.fixture(params=["os.replace", "pathlib.Path.unlink"])
def cut_short(request, tmp_path, monkeypatch):
    """A folder whose replacement broke off: when its second file was to be moved in, or an old one to go."""
    out = tmp_path / "out"
    save(out, a="old", b_json="old", gone="old")
    broken, calls = request.param, []
    real = os.replace if broken == "os.replace" else Path.unlink

    def fail(path, *rest, **options):
        changed = Path(rest[0] if rest else path)
        if changed.parent == out and not changed.name.startswith("."):
            calls.append(path)
            if len(calls) == 2:
                raise OSError(errno.EIO, "Input/output error")
        real(path, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(broken, fail)
        with pytest.raises(RunError) as raised:
            save(out, a="new", b_json="new", c="new")
    ends = "could not be written: Input/output error. The next run that writes there completes it first."
    assert str(raised.value).endswith(ends)
    return out


def test_what_was_cut_short_is_no_version(cut_short):
    assert not (cut_short / "b.json").exists()  # it goes first and comes last: PEFT and Transformers find nothing
    notes = cut_short / "notes"
    for act in (check_whole, lambda out: read_whole(out, dict), lambda _: check_output(notes, overwrite=False)):
        with pytest.raises(DataError, match=r"is being replaced, or that was interrupted\. If no run is writing to it"):
            act(cut_short)


def test_the_next_writer_completes_it_and_says_so(cut_short):
    seen = {}

    def look(folder: Path) -> None:
        seen.update(contents(cut_short))
        fill(a="newest")(folder)

    check_output(cut_short, overwrite=True, folder="b.json")  # which is about to come
    with pytest.warns(GuardrailWarning) as warned:
        write_folder(cut_short, look, key=KEY, overwrite=True)
    said = f"The last run that wrote to '{cut_short}' was interrupted; what it wrote was completed first."
    assert ([str(one.message) for one in warned], seen) == ([said], {"a": "new", "b.json": "new", "c": "new"})
    assert contents(cut_short) == {"a": "newest"}


def test_it_can_be_completed_alone(cut_short):
    with pytest.warns(GuardrailWarning, match="was interrupted"):
        complete(cut_short)
    assert contents(cut_short) == {"a": "new", "b.json": "new", "c": "new"}
    check_whole(cut_short, hashes=True)
    complete(cut_short)  # and nothing is left to be done or said


def test_some_files_of_a_folder_are_written_together(tmp_path):
    fill(other="mine", a="old")(tmp_path)
    write_folder(tmp_path, fill(a="new", b="new"), key=None)
    write_folder(tmp_path, fill(a="newest"), key=None)
    assert contents(tmp_path) == {"other": "mine", "a": "newest"}


def test_sizes_are_checked_always_and_hashes_on_request(tmp_path):
    out = tmp_path / "out"
    write_folder(out, lambda folder: [(folder / name).write_text("1") for name in ("a", "b", "README.md")], key=KEY)
    for name in ("README.md", "notes"):  # people may change pages and add files
        (out / name).write_text("my own words")
    check_whole(out, hashes=True)
    (out / "a").write_text("2")
    check_whole(out)
    with pytest.raises(DataError, match="out/a' has another content than the one that was written"):
        check_whole(out, hashes=True)
    (out / "a").write_text("12")
    for check in (lambda: check_whole(out), lambda: check_whole(out, only="a")):
        with pytest.raises(DataError, match="out/a' has 2 bytes instead of 1"):
            check()
    for name in ("b", "notes"):
        check_whole(out, only=name)
    check_whole(tmp_path, only="anything")
    (out / "a").unlink()
    check_output(out, overwrite=True, folder="a")  # which was written, as the manifest says
    with pytest.raises(DataError, match="out/a' is missing"):
        check_whole(out)


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"schema_version": 2}', "[" * 100_000]
    + [
        json.dumps({"schema_version": 1, "files": {name: {"size": size, "sha256": ""}}})
        for name, size in (("a", -1), ("../../a", 1), ("/a", 1), ("..\\a", 1), ("a\0", 1))
    ],
)
@pytest.mark.parametrize("place", ["", REPLACING_FOLDER])
def test_a_damaged_manifest_is_refused_and_leads_nowhere_else(tmp_path, place, content):
    (tmp_path / "a").write_text("mine")
    out = tmp_path / "deep" / "out"
    save(out, a="1")
    (out / place).mkdir(exist_ok=True)
    (out / place / MANIFEST_FILE).write_text(content)
    for act in (lambda: complete(out), lambda: save(out, a="2")) if place else (lambda: check_whole(out),):
        with pytest.raises(DataError, match=r"manifest\.json.*\. Remove .*write it again\."):
            act()
    with pytest.raises(DataError):
        save(out, a="2")
    assert contents(tmp_path) == {"a": "mine", "deep/out/a": "1"}


def test_what_is_read_is_of_one_version_and_a_reader_that_is_always_overtaken_gives_up(tmp_path):
    out, read, number = tmp_path / "out", [], iter(range(100))
    save(out, a="old", b="old")

    def slowly() -> list[str]:
        read.append((out / "a").read_text())
        if len(read) < 3:
            save(out, a=f"new{len(read)}", b=f"new{len(read)}")
        if len(read) == 1:
            raise KeyError  # of what is half old and half new
        return [read[-1], (out / "b").read_text()]

    assert (read_whole(out, slowly), read) == (["new2", "new2"], ["old", "new1", "new2"])
    with pytest.raises(DataError, match="was replaced each of the 5 times that it was read"):
        read_whole(out, lambda: save(out, a=str(next(number))))
    with pytest.raises(KeyError):  # an error of the reader itself stays
        read_whole(out, lambda: {}["nothing"])


def test_what_a_killed_writer_left_goes_with_the_next(tmp_path):
    out = tmp_path / "out"
    save(out, a="old")
    for folder in (tmp_path / ".out.new", out / ".filling", out / REPLACING_FOLDER, tmp_path / ".other.new"):
        fill(half="half")(folder)
    (tmp_path / ".out.lock").touch()
    save(out, a="new")
    assert contents(tmp_path) == {"out/a": "new", ".other.new/half": "half"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.new", "out"]


def test_a_writer_that_waits_in_vain_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.data.writing.PATIENCE", 0.1)
    with held(tmp_path / "out", tmp_path), ThreadPoolExecutor() as pool:
        error = pool.submit(save, tmp_path / "out", a="1").exception()
    assert isinstance(error, RunError)
    assert str(error).startswith(f"Another run has been writing to '{tmp_path / 'out'}' for 0 seconds. Wait")
    save(tmp_path / "out", a="1")


def test_what_another_program_wrote_meanwhile_is_not_replaced(tmp_path):
    def beside(folder: Path) -> None:
        fill(a="ours")(folder)
        fill(out__a="theirs")(tmp_path)

    with pytest.raises(ConfigError, match="already exists"):
        write_folder(tmp_path / "out", beside, key=KEY)
    assert contents(tmp_path) == {"out/a": "theirs"}
