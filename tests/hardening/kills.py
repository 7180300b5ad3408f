"""Kills writers at every file operation and at random moments, and looks at what is left.

    PYTHONPATH=tests python -m hardening.kills                                     every operation, and more
    PYTHONPATH=tests python -m hardening.kills --kills 60 --twice 10 --moments 20  a sample, as the tests take it

A writer is a forked process that ends itself with SIGKILL before its n-th file operation, for n from 1 on until it
comes to its end; or one that is killed from outside after a random time. Then the place is loaded: it must hold the
whole old version or the whole new one, or, where a folder is replaced, none that can be loaded. Files of others must be
there, and the same writer, run again, must come to the new version and leave nothing beside it.

Operations are what Python reports to audit hooks (files opened for writing, renamed, linked, removed, made, their
permissions) and each `fsync`. What libraries in Rust do within a file is between two of them; random moments fall there
too.
"""

import argparse
import copy
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

from made_guards import GUARDS, TEXTS, make_guards
from shortcut_guardrail import Decisions, GuardrailError, ShortcutGuardrail
from shortcut_guardrail.data import manifests, read_whole, write_file, write_folder

KINDS = ("old", "new", "absent", "mixed")
PARTNER = "one by one (must be mixed)"

Write = Callable[[Path], Any]
Look = Callable[[Path], list[Any]]
"""What each kind of reader finds in a place, so that two versions differ; `None` where it can load nothing."""


@dataclass(frozen=True)
class Output:
    """Something that is written: its new version, and its old one into an empty folder, `None` where there is none.

    `look` says what is there. `folder` is what is replaced within the place, and what others may put files into.
    """

    name: str
    old: Write | None
    new: Write
    look: Look
    folder: str | None = None


@dataclass
class Row:
    """What came of one output."""

    output: str
    in_one_step: bool
    operations: int = 0
    found: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    not_resumed: int = 0
    left: int = 0

    def to_dict(self) -> dict[str, Any]:
        """With how many writers were killed."""
        return {**vars(self), "kills": sum(self.found.values())}


@cache
def _made() -> tuple[Any, list[ShortcutGuardrail]]:
    """A plain model and guards on it."""
    with tempfile.TemporaryDirectory() as folder:
        made = make_guards(Path(folder))
        base = ShortcutGuardrail.from_pretrained(made / "base")._base.plain_model
        return base, [ShortcutGuardrail.from_pretrained(made / name, base=base) for name in GUARDS]


def guards() -> Iterator[Output]:
    """Guards as `fit` saves them, with and without an adapter, over one another."""
    base, (other, mask, adapter) = _made()
    texts = TEXTS[:3]

    def look(place: Path) -> list[Any]:
        folder = place / "out"
        peft = [folder / name for name in ("adapter_config.json", "adapter_model.safetensors")]
        # As PEFT sees it, which knows no manifest.
        by_peft = tuple(file.read_bytes() if file.is_file() else None for file in peft) if peft[0].is_file() else None
        try:
            guard = ShortcutGuardrail.from_pretrained(folder, base=base, verify=True)
        except GuardrailError:
            return [None, by_peft]
        return [(guard.predict_proba(texts).tobytes(), guard.record().strategy), by_peft]

    def save(guard: ShortcutGuardrail) -> Write:
        # The writer is forked: it needs a guard of its own.
        return lambda place: copy.deepcopy(guard).save_pretrained(place / "out", overwrite=True)

    yield Output("guard", save(adapter), save(other), look, "out")
    yield Output("guard, adapter goes", save(adapter), save(mask), look, "out")
    yield Output("guard where none was", None, save(other), look)


@dataclass(frozen=True)
class _Judge:
    name: str


def decisions() -> Iterator[Output]:
    """The files of `decide`: decisions alone, and with the answers they rest on."""

    def look(place: Path) -> list[Any]:
        file = place / "decisions.json"
        if not file.exists():
            return [None]
        said = json.loads(file.read_text(encoding="utf-8"))
        answers = said.get("second_model_answers")
        return [(said["audit"], None if answers is None else (place / answers).read_text(encoding="utf-8"))]

    def save(audit: str, judge: bool) -> Write:
        found = Decisions((), audit=audit, judges=(_Judge("other"),) if judge else ())  # type: ignore[arg-type]
        if not judge:
            return lambda place: write_file(place / "decisions.json", json.dumps(found.to_dict()), overwrite=True)
        answers = f'{{"audit": "{audit}"}}\n' * 1000
        return lambda place: found.save(place / "decisions.json", answers=answers, overwrite=True)

    yield Output("decisions", save("one", False), save("other", False), look)
    yield Output("decisions with answers", save("one", True), save("other", True), look)


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def folders_of_any_kind() -> Iterator[Output]:
    """A folder of five files that all hold one number, some large enough that writing takes a while; no model."""
    names = ("config.json", "a", "b", "deep/c", "deep/d")

    def save(number: int) -> Write:
        def fill(folder: Path) -> None:
            for i, name in enumerate(names):
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(b"%d\n" % number * (1 + 50_000 * i))

        return lambda place: write_folder(place / "out", fill, key="config.json", overwrite=True)

    def look(place: Path) -> list[Any]:
        folder = place / "out"

        def read() -> list[set[bytes]]:
            return [set((folder / name).read_bytes().split()) for name in names]

        there = (folder / "config.json").exists()  # what Transformers looks for
        try:
            return [read() if there else None, read_whole(folder, read, hashes=True) if there else None]
        except GuardrailError:
            return [read(), None]

    yield Output("folder of any kind", save(1), save(2), look, "out")


def partner() -> Iterator[Output]:
    """A writer that does not write whole, but files one by one, to see that it is found out."""
    names = ("config.json", "a")

    def save(text: str) -> Write:
        def write(place: Path) -> None:
            for name in names:
                write_file(place / "out" / name, text, overwrite=True)

        return write

    yield Output(PARTNER, save("old"), save("new"), lambda p: [[_bytes(p / "out" / name) for name in names]], "out")


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate"}


def watch(place: Path, before: Callable[[str], None]) -> None:
    """Have `before` called with each file operation of this process at a place, from now on to its end."""
    here = os.fsencode(place)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES or (event == "open" and writes(*arguments)):
            before(event)

    def writes(path: Any, _mode: Any, flags: Any) -> bool:
        if not isinstance(path, str | bytes) or not isinstance(flags, int):
            return False
        return bool(flags & _WRITING) and os.fsencode(path).startswith(here)

    def hooked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            before(name)
            return function(*arguments)

        return call

    sys.addaudithook(hook)
    os.fsync = hooked(os.fsync, "os.fsync")  # type: ignore[assignment]


def forked(work: Callable[[], Any]) -> int:
    """The process that does some work and nothing else."""
    process = os.fork()
    if process:
        return process
    torch.set_num_threads(1)  # the others stayed behind
    try:
        work()
    except BaseException as error:
        print(f"A writer failed: {error!r}", file=sys.stderr)
        os._exit(1)
    os._exit(0)


def died(process: int) -> bool:
    """Whether a process was killed; a `RuntimeError` where it failed."""
    _, status = os.waitpid(process, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("A writer failed rather than being killed.")
    return os.WIFSIGNALED(status)


class Bench:
    """A place for one output, in the state before the new version, again and again."""

    def __init__(self, output: Output, work: Path) -> None:
        self.output = output
        self.made, self.place = work / "made", work / "place"
        self.row = Row(output.name, output.folder is None)
        for name, write in (("old", output.old), ("new", output.new)):
            (self.made / name).mkdir(parents=True)
            if write is not None:
                write(self.made / name)
        self.old, self.new = (output.look(self.made / name) for name in ("old", "new"))
        if self.old == self.new:
            raise RuntimeError(f"Two versions of {output.name} do not differ.")
        self.row.operations, self.seconds = self._measured()

    def reset(self) -> None:
        """The state before the new version is written."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.made / "old", self.place)
        if self._others is not None and self.output.old is not None:
            self._others.write_text("mine")

    @property
    def _others(self) -> Path | None:
        """A file that somebody else has put into the folder."""
        return None if self.output.folder is None else self.place / self.output.folder / "notes"

    def write(self) -> None:
        """Write the new version."""
        self.output.new(self.place)

    def _measured(self) -> tuple[int, float]:
        """How many file operations and seconds a writer takes."""
        self.reset()
        reading, writing = os.pipe()

        def work() -> None:
            operations: list[None] = []
            watch(self.place, lambda _: operations.append(None))
            self.write()
            os.write(writing, str(len(operations)).encode())

        started = time.perf_counter()
        died(forked(work))
        os.close(writing)
        with os.fdopen(reading) as said:
            return int(said.read()), time.perf_counter() - started

    def kill_at(self, *numbers: int) -> None:
        """Kill a writer before one of its operations, counted from 1, and the next ones that complete its work."""
        self.reset()

        def work(number: int) -> None:
            left = iter(range(number - 1))
            watch(self.place, lambda _: next(left, None) is None and os.kill(os.getpid(), signal.SIGKILL))
            warnings.simplefilter("ignore")
            self.write()

        for number in numbers:
            died(forked(partial(work, number)))
        self.judge()

    def kill_after(self, seconds: float) -> None:
        """Kill a writer from outside; one that has come to its end counts as well."""
        self.reset()
        process = forked(self.write)
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
        died(process)
        self.judge()

    def judge(self) -> None:
        """Count what a killed writer left, and write again."""
        row = self.row
        row.found[self._kind(self.output.look(self.place))] += 1
        lost = self._lost()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.write()
        row.lost += lost or self._lost()
        row.not_resumed += self.output.look(self.place) != self.new
        row.left += any(self.place.rglob(".*"))

    def _kind(self, found: list[Any]) -> str:
        """Of what is there; absent if readers of one kind or of all can load nothing, and the others one version."""
        for kind, version in (("old", self.old), ("new", self.new)):
            if found == version:
                return kind
        for version in (self.old, self.new):
            each = zip(found, version, strict=True)
            if not self.row.in_one_step and all(one in (None, other) for one, other in each):
                return "absent"
        return "mixed"

    def _lost(self) -> bool:
        """Whether the file of somebody else is gone."""
        return self._others is not None and self.output.old is not None and _bytes(self._others) != b"mine"


GROUPS = (guards, decisions, folders_of_any_kind, partner)


def benches(work: Path) -> Iterator[Bench]:
    """All outputs."""
    for group in GROUPS:
        for output in group():
            yield Bench(output, Path(tempfile.mkdtemp(dir=work)))


def run(kills: int, twice: int, moments: int, seed: int, work: Path) -> list[dict[str, Any]]:
    """Kill writers at so many operations that the seed draws (0 for all), and at so many random moments over all.

    `twice` says how often the next writer, which completes what was begun, is killed as well. All is in `work`.
    """
    manifests.PATIENCE = 0  # nobody goes on with what was interrupted
    draw, all_of_them = random.Random(seed), list(benches(work))
    pairs = [(bench, number) for bench in all_of_them for number in range(1, bench.row.operations + 1)]
    if kills:  # all of the partner's, which is to be found out
        sample = draw.sample(pairs, min(kills, len(pairs)))
        pairs = [pair for pair in pairs if pair in sample or pair[0].output.name == PARTNER]
    for bench, number in pairs:
        bench.kill_at(number)
    completed = [(bench, number) for bench, number in pairs if not bench.row.in_one_step]
    for bench, number in draw.sample(completed, min(twice, len(completed))):
        bench.kill_at(number, draw.randint(1, bench.row.operations))
    for i in range(moments):
        bench = all_of_them[i % len(all_of_them)]
        bench.kill_after(draw.uniform(0, bench.seconds))
    return [bench.row.to_dict() for bench in all_of_them]


def program(doc: str | None, counts: dict[str, int], trials: Callable[..., list[dict[str, Any]]]) -> None:
    """A command line with options that are numbers, which prints a row for each output, a line of JSON."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    for name, default in counts.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--work", type=Path, help="folder for all of it")
    given = vars(parser.parse_args())
    with tempfile.TemporaryDirectory(dir=given.pop("work")) as work:
        for row in trials(**given, work=Path(os.path.realpath(work))):
            print(json.dumps(row))


if __name__ == "__main__":
    program(__doc__, {"kills": 0, "twice": 200, "moments": 200, "seed": 0}, run)
