"""Fills the disk at every file operation of a writer, and looks at what is said and what is left.

    PYTHONPATH=tests python -m hardening.full_disks                every operation
    PYTHONPATH=tests python -m hardening.full_disks --trials 60    a sample, as the tests take it

A writer is what `kills.py` kills. Here its n-th operation that needs room fails (opened for writing, written, renamed,
linked, made, flushed), for n from 1 on until it comes to its end: that one alone, or that and all later ones.

It must come to its end, or say in a sentence which place could not be written, with exit status 1. The old version must
be there, or the new one where that is said, or, where a folder is replaced, none. The next run must come to the
new version and leave nothing beside it.
"""

import builtins
import errno
import io
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

from shortcut_guardrail.cli.running import FAILED_RUN, run
from shortcut_guardrail.data import manifests

from .kills import GROUPS, PARTNER, Bench, Output, forked, program, watch

ALONE, STAYS = "one operation", "from one on"
_NEED_NO_ROOM = {"os.remove", "os.rmdir", "os.chmod", "os.truncate"}


def broken() -> Iterator[Output]:
    """The partner that must be found out: it passes over what the system says, and writes into the old version."""

    def write(text: str) -> Callable[[Path], None]:
        def save(place: Path) -> None:
            for name in ("a", "b"):
                try:
                    (place / name).write_text(text)
                except OSError:
                    continue

        return save

    yield Output(PARTNER, write("old"), write("new"), lambda place: [tuple(map(_text, (place / "a", place / "b")))])


def _text(file: Path) -> str | None:
    return file.read_text() if file.exists() else None


@contextmanager
def writing(before: Callable[[str], None]) -> Iterator[None]:
    """Have something called before each write of Python's files."""

    class Raw(io.FileIO):
        def write(self, content: Any) -> int:
            before("write")
            return super().write(content)

    plain = io.open

    def opened(file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **options: Any) -> Any:
        if isinstance(file, int) or not {*mode} & {*"wax"} or "+" in mode:
            return plain(file, mode, buffering, *rest, **options)
        raw = Raw(os.fspath(file), mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        buffered = io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *rest, **options)

    io.open = builtins.open = opened  # type: ignore[assignment]
    try:
        yield
    finally:
        io.open = builtins.open = plain


class FullDisk(Bench):
    """A place for one output on a disk that is full from some moment on."""

    def __init__(self, output: Output, work: Path, kind: str, said: Path) -> None:
        self.kind, self.said = kind, said
        self.problems: list[str] = []
        super().__init__(output, work)

    def _measured(self) -> tuple[int, float]:
        """How many operations need room."""
        self.reset()
        self._attempt(10**9)
        return int(json.loads(self.said.read_text())["operations"]), 0.0

    def fail_at(self, number: int) -> None:
        """Have the disk full at one operation, counted from 1."""
        self.reset()
        self._attempt(number)
        self._check(number)
        self.judge()

    def _attempt(self, number: int) -> None:
        """Write in a process of its own, as a command does; what it said goes into a file elsewhere."""
        os.waitpid(forked(lambda: self._command(number)), 0)

    def _command(self, number: int) -> None:
        done: list[str] = []

        def before(name: str) -> None:
            if name not in _NEED_NO_ROOM:
                done.append(name)
                if len(done) == number or (self.kind == STAYS and len(done) > number):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        said = io.StringIO()
        plain = open(self.said, "w", encoding="utf-8")  # noqa: SIM115
        with redirect_stderr(said):
            watch(self.place, before)
            with writing(before):
                status = run(self.write)
        failed = done[number - 1] if number <= len(done) else ""
        at_end = {"status": status, "said": said.getvalue(), "operations": len(done), "failed": failed}
        plain.write(json.dumps(at_end))
        plain.close()

    def _check(self, number: int) -> None:
        """Whether what was said is right."""
        end = json.loads(self.said.read_text(encoding="utf-8"))
        kind, said = self._kind(self.output.look(self.place)), end["said"]
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        problem = ""
        if end["status"] == 0:
            problem = "" if kind == "new" else f"says nothing, but is {kind}"
        elif end["status"] != FAILED_RUN or len(errors) != 1 or "should not have" in said:
            problem = f"status {end['status']}"
        elif not errors[0].startswith(f"error: '{self.place}") or "disk" not in errors[0]:
            problem = "does not name the place"
        elif "Nothing was left behind" in said and (kind == "new" or any(self.place.rglob(".*"))):
            problem = f"untrue: it is {kind}, with {[path.name for path in self.place.rglob('.*')]}"
        if problem:
            self.problems.append(f"{self.output.name}, {self.kind} {number} {end['failed']}: {problem}: {said}")


def benches(work: Path) -> Iterator[FullDisk]:
    """All outputs with all kinds of full disks."""
    groups = [group for group in GROUPS if group.__name__ != "partner"]
    for group in (*groups, broken):
        for output in group():
            for kind in (ALONE, STAYS):
                yield FullDisk(output, Path(tempfile.mkdtemp(dir=work)), kind, work / "said")


def tried(trials: int, seed: int, work: Path) -> list[dict[str, Any]]:
    """Fill disks, by so many trials (0 for all) that the seed draws, in a folder `work`, and count what is left."""
    manifests.PATIENCE = 0
    all_of_them = list(benches(work))
    pairs = [(bench, number) for bench in all_of_them for number in range(1, bench.row.operations + 1)]
    if trials:
        sample = random.Random(seed).sample(pairs, min(trials, len(pairs)))
        pairs = [pair for pair in pairs if pair in sample or pair[0].output.name == PARTNER]
    for bench, number in pairs:
        bench.fail_at(number)
    return [{**bench.row.to_dict(), "disk": bench.kind, "problems": bench.problems} for bench in all_of_them]


if __name__ == "__main__":
    program(__doc__, {"trials": 0, "seed": 0}, tried)
