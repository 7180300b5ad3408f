"""What becomes of a bad input: a sentence, the right result, or one of the three things that must not happen."""

from __future__ import annotations

import contextlib
import io
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType

from shortcut_guardrail.errors import GuardrailError

KINDS = ("sentence", "right", "unexpected", "hang", "wrong")
SECONDS = 30.0


@dataclass(frozen=True)
class Outcome:
    """What became of one input.

    Attributes:
        reader: Which reader it was given to.
        what: The input, in words.
        kind: One of `KINDS`: a clear sentence; the right result; another exception than the library's; longer than
            `SECONDS`; accepted although it had to be refused, or another result.
        said: The sentence, or the exception.
    """

    reader: str
    what: str
    kind: str
    said: str = ""


class _TooLong(BaseException):
    """The alarm, which no `except Exception` catches."""


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempt(reader: str, what: str, use: Callable[[], str | None], *, seconds: float = SECONDS) -> Outcome:
    """Try an input.

    Args:
        reader: Which reader it is given to.
        what: The input, in words.
        use: Reads it and uses what was read; returns what is wrong with the result, or `None`.
        seconds: From when on it counts as a hang.
    """
    try:
        with _alarm(seconds), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            problem = use()
    except GuardrailError as error:
        return Outcome(reader, what, "sentence", str(error))
    except _TooLong:
        return Outcome(reader, what, "hang", f"more than {seconds:g} s")
    except Exception as error:
        return Outcome(reader, what, "unexpected", f"{type(error).__name__}: {str(error)[:200]}")
    return Outcome(reader, what, "wrong" if problem else "right", problem or "")


def table(outcomes: Iterable[Outcome]) -> str:
    """One line a reader: how many inputs were tried, and what became of them."""
    counts: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        counts.setdefault(outcome.reader, Counter())[outcome.kind] += 1
    rows = [(reader, of.total(), *(of[kind] for kind in KINDS)) for reader, of in counts.items()]
    rows.append(("all", *(sum(row[i] for row in rows) for i in range(1, len(KINDS) + 2))))  # type: ignore[arg-type,misc]
    lines = [f"{'reader':24}{'tried':>8}" + "".join(f"{kind:>12}" for kind in KINDS)]
    lines += [f"{row[0]:24}{row[1]:>8}" + "".join(f"{number:>12}" for number in row[2:]) for row in rows]
    return "\n".join(lines)


def bad(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those that must not happen."""
    return [outcome for outcome in outcomes if outcome.kind not in ("sentence", "right")]


def report(outcomes: list[Outcome]) -> str:
    """The table, and below it what ended badly, in characters that every terminal has."""
    said = [f"{found.kind}: {found.reader}: {found.what[:200]}: {found.said[:150]}" for found in bad(outcomes)]
    return "\n".join([table(outcomes), *said]).encode("ascii", "backslashreplace").decode()
