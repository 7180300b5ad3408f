"""What becomes of a bad input: a sentence, the right result, or one of the three things that must not happen."""

import contextlib
import io
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from shortcut_guardrail.errors import GuardrailError

KINDS = ("sentence", "right", "unexpected", "hang", "wrong")
SECONDS = 30.0


@dataclass(frozen=True)
class Outcome:
    """What became of one input, given to one reader.

    The `kind` is a clear sentence; the right result; another exception than the library's; longer than `SECONDS`;
    accepted although it had to be refused, or another result.
    """

    reader: str
    what: str
    kind: str
    said: str = ""


class _TooLong(BaseException):
    """The alarm, which no `except Exception` catches."""


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempt(reader: str, what: str, use: Callable[[], str | None], *, seconds: float = SECONDS) -> Outcome:
    """Try an input; `use` reads it and uses what was read, and returns what is wrong with the result, or `None`."""
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
    counts["all"] = sum(counts.values(), Counter())
    lines = [f"{'reader':24}{'tried':>8}" + "".join(f"{kind:>12}" for kind in KINDS)]
    for reader, of in counts.items():
        lines.append(f"{reader:24}{of.total():>8}" + "".join(f"{of[kind]:>12}" for kind in KINDS))
    return "\n".join(lines)


def bad(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those that must not happen."""
    return [outcome for outcome in outcomes if outcome.kind not in ("sentence", "right")]


def report(outcomes: list[Outcome]) -> str:
    """The table, and below it what ended badly, in characters that every terminal has."""
    said = [f"{found.kind}: {found.reader}: {found.what[:200]}: {found.said[:150]}" for found in bad(outcomes)]
    return "\n".join([table(outcomes), *said]).encode("ascii", "backslashreplace").decode()
