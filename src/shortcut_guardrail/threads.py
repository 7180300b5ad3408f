"""One thread at a time in an object whose model is changed while it computes.

To predict at a strength, a guard adds that much of the adapter to its model's layers, and takes it out again when it is
done; packed texts have hooks and an attention of their own for as long as they are computed; and fast tokenizers keep
the length they truncate to. A second thread would compute with the first one's weights, and without an error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from .errors import RunError

Method = TypeVar("Method", bound=Callable[..., Any])


class Lock:
    """A re-entrant lock that copies and pickles of its owner do not share: they get one of their own.

    A forked process is refused. Its copy of the owner may be half computed, and the threads that PyTorch would wait for
    stayed behind.
    """

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()

    def __enter__(self) -> None:
        if os.getpid() != self._process:
            raise RunError(
                "This process was forked from the one that loaded this model or classifier, and cannot use it. Load it "
                "in each process."
            )
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()


_loading_in: list[int] = []  # the process that loads models, which a forked one finds here


def compute_in_this_process() -> None:
    """Compute with one thread in a process that was forked from one with models, whose threads stayed behind."""
    import torch

    if _loading_in[:1] not in ([], [os.getpid()]):
        torch.set_num_threads(1)
    _loading_in[:] = [os.getpid()]


def one_at_a_time(method: Method) -> Method:
    """A method that waits until no other thread is in such a method of the same object, which has a `_lock`."""

    @wraps(method)
    def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(Method, waiting)
