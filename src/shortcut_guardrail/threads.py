"""One thread at a time in an object whose model is changed while it computes.

To predict at a strength, a guard adds that much of the adapter to its model's layers, and takes it out again when it is
done; packed texts have hooks and an attention of their own for as long as they are computed; and fast tokenizers keep
the length they truncate to. A second thread would compute with the first one's weights, and without an error.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

from .errors import RunError

P = ParamSpec("P")
R = TypeVar("R")


class Lock:
    """A re-entrant lock that copies and pickles of its owner do not share: they get one of their own.

    A process that is forked while another thread holds it has a copy of the owner in the midst of a computation, and
    nobody who would finish it: there the lock is refused, where it would be waited for without end.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holder: int | None = None
        self._depth = 0
        self._torn = False
        _LOCKS.add(self)

    def __enter__(self) -> None:
        if self._torn:
            raise RunError(
                "This process was forked while another thread used the guard, whose copy here is half computed. Load "
                "the guard anew in this process, or fork while no thread uses it."
            )
        self._lock.acquire()
        self._holder, self._depth = threading.get_ident(), self._depth + 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self._lock.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()

    def after_fork(self) -> None:
        """In the child process; the thread that forked goes on as it was."""
        self._torn = self._torn or (self._depth > 0 and self._holder != threading.get_ident())


_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()


def _after_fork() -> None:
    """The child process has the parent's locks, and none of its threads."""
    locks = list(_LOCKS)
    for lock in locks:
        lock.after_fork()
    # OpenMP would wait for its threads, which the child does not have. PyTorch's own workers compute in one, too.
    if locks and (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)


class Locked(Protocol):
    """What has a lock."""

    _lock: Lock


S = TypeVar("S", bound=Locked)


def one_at_a_time(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A method that waits until no other thread is in such a method of the same object."""

    @wraps(method)
    def waiting(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(Callable[Concatenate[S, P], R], waiting)  # `wraps` gives a type of its own
