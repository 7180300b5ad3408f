"""How a command runs: errors become a sentence and an exit status, warnings a line, long work a bar."""

from __future__ import annotations

import errno
import gc
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from ..display import Screen
from ..errors import GuardrailError, GuardrailWarning, NothingToRepairError, RunError, printable

BAD_INPUT, FAILED_RUN, NOTHING_TO_REPAIR, INTERRUPTED = 2, 1, 3, 130


_STATE = {"debug": False}
_USUAL = gc.get_threshold()


def enable_debug(value: bool) -> bool:
    """Callback of `--debug`."""
    _STATE["debug"] |= value
    return value


def collect_rarely() -> None:
    """Until a model is loaded, have Python look for unused cycles of objects far less often.

    Looking through the 670,000 objects of PyTorch and Transformers took a quarter of a command's start and end, 4.6 s.
    """
    gc.set_threshold(300_000, *_USUAL[1:])


def collect_as_usual() -> None:
    """Look for them as usual again where that was put off, but not among what is there now."""
    if gc.get_threshold() != _USUAL:
        gc.freeze()
        gc.set_threshold(*_USUAL)


def stderr() -> Console:
    """The console for everything that is not the result."""
    return Screen(stderr=True, soft_wrap=True)


def run(command: Callable[[], Any]) -> int:
    """Run a command and return its exit status: 0, or one of the module's constants."""
    import typer

    _STATE["debug"] = False
    try:
        with _warning_lines():
            status = int(command() or 0)
    except typer.Exit as stop:
        status = stop.exit_code
    except _usage_error() as error:
        error.message = printable(error.message.removeprefix("Value error, "))  # Pydantic's, which Typer passes on
        error.show()
        return BAD_INPUT
    except (typer.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has left, so there is no one to tell.
        return FAILED_RUN
    except GuardrailError as error:
        _show(str(error))
        return _status(error)
    except Exception as error:
        _show(_unexpected(error))
        return FAILED_RUN
    # Typer turns Ctrl-C into an exception in some versions and into this status in others.
    if status == INTERRUPTED:
        stderr().print("Interrupted. Files are written whole or not at all, so nothing is half done.")
    return status


def _status(error: GuardrailError) -> int:
    if isinstance(error, NothingToRepairError):
        return NOTHING_TO_REPAIR
    return FAILED_RUN if isinstance(error, RunError) else BAD_INPUT


def _usage_error() -> Any:
    """The base of Typer's complaints about the command line: Click's, of the package or of a copy within Typer."""
    import typer

    return next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def _show(message: str) -> None:
    if _STATE["debug"]:
        stderr().print(traceback.format_exc())
    stderr().print(f"error: {with_options(message)}")


_NAMES = {"shortcuts": "shortcut", "labels": "label-column", "judges": "with", "descriptions": "describe"}
_NAMES |= {"cards": "word-groups"}
"""Options that are called otherwise than the argument of Python."""
_SAME = (
    *("allow_pickle", "base", "config", "decisions", "head", "keep", "out", "overwrite", "per_input", "port"),
    *("n_total", "redact", "resume", "sensitivity", "strategy", "strength", "support", "take_influential", "unit"),
    *("label", "label_column", "label_names", "text_column", "text_pair_column", "thresholds", "segmenter", "windows"),
)
_ARGUMENT = re.compile(
    rf"(?<![\w.'\"-])(?<!--set )(?P<name>{'|'.join([*_NAMES, *_SAME])})="
    r"(?:True\b|'(?P<word>[\w-]+)'|(?P<more>(?=['\w]))|)"
)


def with_options(message: str) -> str:
    """A message about arguments of Python, as in `redact=True` or `strategy='mask'`, about options of the command line:
    --redact, --strategy mask."""

    def option(match: re.Match[str]) -> str:
        flag = f"--{_NAMES.get(match['name'], match['name'].replace('_', '-'))}"
        return f"{flag} {match['word']}" if match["word"] else flag if match["more"] is None else f"{flag} "

    return _ARGUMENT.sub(option, message)


def _unexpected(error: Exception) -> str:
    name = type(error).__name__
    said = str(error)
    # Where PyTorch finds no memory for the CPU, it raises a RuntimeError.
    if name == "OutOfMemoryError" or isinstance(error, MemoryError) or "allocate memory" in said:
        return "Out of memory. Lower --batch-size or --max-length and try again."
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "The disk is full, so the output could not be written."
    first_line = said.partition("\n")[0]
    return f"Something went wrong that should not have ({name}: {first_line}). Run again with --debug for the details."


@contextmanager
def _warning_lines() -> Iterator[None]:
    """Our own warnings as one line each; those of libraries only with `--debug`."""

    def show(message: Warning | str, category: type[Warning], *_rest: Any, **_options: Any) -> None:
        if issubclass(category, GuardrailWarning) or _STATE["debug"]:
            stderr().print(f"warning: {with_options(str(message))}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", GuardrailWarning)
        warnings.showwarning = show
        yield


@contextmanager
def progress_bars(*, quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A callback for the library that draws a bar with the time left, or prints lines where no terminal is."""
    console = stderr()
    if quiet or not console.is_terminal:
        yield (lambda _stage, _done, _total: None) if quiet else _stage_lines(console)
        return
    done_and_time = (MofNCompleteColumn(), TimeElapsedColumn(), "left", TimeRemainingColumn())
    with Progress("{task.description}", BarColumn(bar_width=None), *done_and_time, console=console) as bars:
        tasks: dict[str, Any] = {}

        def update(stage: str, done: int, total: int) -> None:
            # A stage that starts over, such as prediction at another strength, gets its bar back.
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield update


_SECONDS_A_LINE = 30.0
"""How long a stage says nothing at most, as far as it reports at all, where no terminal is."""


def _stage_lines(console: Console) -> Callable[[str, int, int], None]:
    """A line for each stage that ends, and now and then for one that takes long."""
    started: dict[str, float] = {}
    said: dict[str, float] = {}

    def update(stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        began = started.setdefault(stage, now)
        if done >= total:
            console.print(f"{stage}: {total} done in {now - began:.0f} s")
            del started[stage]
            said.pop(stage, None)
        elif now - said.setdefault(stage, began) >= _SECONDS_A_LINE:
            console.print(f"{stage}: {done} of {total} after {now - began:.0f} s")
            said[stage] = now

    return update


def exit_with(status: int) -> None:
    """Leave the process with a status; output that cannot be delivered makes it a failed run."""
    gc.freeze()  # what is there would be looked through once more
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python flushes once more at exit and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            _show(_unexpected(error))
        status = status or FAILED_RUN
    sys.exit(status)
