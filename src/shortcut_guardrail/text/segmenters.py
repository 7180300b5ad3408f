"""Where words end in scripts that do not set them apart by spaces: a library or a function says it, or nobody does.

Whoever cuts texts into words (`words.word_spans`) asks the segmenter in use. `segmenting` says which one that is, for
what this thread does within a block. Without one each character is a word.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from operator import index
from typing import Any

from ..data import enumerated
from ..errors import ConfigError, DataError
from ..threads import Lock

Cut = Callable[[str], Sequence[Any]]
"""From a run of such characters to its words, in order, or to their spans (start, end)."""

_REMEMBERED = 2**16  # runs of characters; the same ones are asked about at every step of an audit


def _jieba(module: Any) -> Cut:
    logger = logging.getLogger("jieba")
    level = logger.level
    logger.setLevel(logging.WARNING)  # else it tells everybody that it reads its dictionary
    try:
        module.initialize()
    finally:
        logger.setLevel(level)
    return lambda text: module.lcut(text)


def _fugashi(module: Any) -> Cut:
    tagger = module.Tagger()
    return lambda text: [word.surface for word in tagger(text)]


_KNOWN: dict[str, tuple[str, str, Callable[[Any], Cut]]] = {
    "jieba": ("jieba", "jieba", _jieba),
    "fugashi": ("fugashi", "fugashi unidic-lite", _fugashi),
    "pythainlp": ("pythainlp", "pythainlp", lambda module: module.word_tokenize),
    "icu": ("icu4py.breakers", "icu4py", lambda module: lambda text: list(module.WordBreaker(text, "root"))),
}
"""By name: the module, what to install, and how it is asked."""


class Segmenter:
    """What cuts runs of such characters into words, by name.

    Args:
        name: By which records know it.
        cut: What does.
    """

    def __init__(self, name: str, cut: Cut) -> None:
        self.name, self._cut = name, cut
        self.spans = lru_cache(_REMEMBERED)(self._spans)

    def __call__(self, run: str) -> Sequence[tuple[int, int]]:
        """The words of a run, as spans."""
        return self.spans(run)

    def _spans(self, run: str) -> tuple[tuple[int, int], ...]:
        """The words of a run as spans, without gaps: characters that are in no word are words of their own.

        Raises:
            DataError: Words overlap, or are not those of the run.
        """
        found, spans, end = self._words(run), list[tuple[int, int]](), 0
        for one in found:
            start = run.find(one, end) if isinstance(one, str) else one[0]
            stop = start + len(one) if isinstance(one, str) else one[1]
            if start < end or stop > len(run) or stop < start:
                raise DataError(
                    f"The segmenter '{self.name}' cuts '{run[:60]}' into {str(found)[:60]}: words must "
                    "come in order, must not overlap, and must be those of the text."
                )
            spans += [(i, i + 1) for i in range(end, start)]
            spans += [(start, stop)] if stop > start else []
            end = stop
        return (*spans, *((i, i + 1) for i in range(end, len(run))))

    def _words(self, run: str) -> list[str | tuple[int, int]]:
        """What was cut, in types that are known."""
        found = self._cut(run)
        try:
            return [one if isinstance(one, str) else (index(one[0]), index(one[1])) for one in found]
        except (TypeError, IndexError) as error:
            raise DataError(
                f"The segmenter '{self.name}' makes {found!r:.60} of '{run[:60]}', but must give a list of words, or "
                "of their spans (start, end)."
            ) from error


def recorded_segmenter(name: str | None) -> Segmenter | None:
    """The one that a record names. Of others than libraries it knows the name only, and no code is run by it.

    Raises:
        ConfigError: It has to be given, or is not installed.
    """
    if name is not None and name not in _KNOWN:
        raise ConfigError(f"The repaired model splits words with '{name}'. Give that function as segmenter=.")
    return open_segmenter(name)


def open_segmenter(given: str | Cut | Segmenter | None) -> Segmenter | None:
    """A segmenter by the name of a library, as `module:function`, or as a function.

    Raises:
        ConfigError: There is none of this name, or it is not installed.
    """
    if given is None or isinstance(given, Segmenter):
        return given
    if callable(given):
        function = getattr(given, "__qualname__", type(given).__qualname__)
        return Segmenter(f"{getattr(given, '__module__', '')}:{function}", given)
    if given in _KNOWN:
        module, install, cut = _KNOWN[given]
        try:
            return Segmenter(given, cut(importlib.import_module(module)))
        except (ImportError, RuntimeError) as error:
            raise ConfigError(
                f"The segmenter '{given}' cannot be used ({error}). Install it with `pip install {install}`."
            ) from error
    module, _, name = given.partition(":")
    try:
        function = getattr(importlib.import_module(module), name) if name else None
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"The segmenter '{given}' could not be imported: {error}. Give the function itself."
        ) from error
    if not callable(function):
        raise ConfigError(
            f"segmenter= must be {enumerated(list(_KNOWN))}, module:function or a function, but is '{given}'."
        )
    return Segmenter(given, function)


_in_use: ContextVar[Segmenter | None] = ContextVar("segmenter", default=None)


def segmenter_in_use() -> Segmenter | None:
    """The one that this thread's words are cut by."""
    return _in_use.get()


def segmenter_name() -> str | None:
    """Its name, as records have it."""
    return None if (found := _in_use.get()) is None else found.name


@contextmanager
def segmenting(segmenter: Segmenter | None) -> Iterator[None]:
    """Within the block words are cut by this segmenter."""
    token = _in_use.set(segmenter)
    try:
        yield
    finally:
        _in_use.reset(token)


class WordLock(Lock):
    """A lock whose holder cuts words by a segmenter."""

    def __init__(self, segmenter: Segmenter | None = None) -> None:
        super().__init__()
        self.segmenter = segmenter
        self._blocks: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        super().__enter__()
        self._blocks.append(segmenting(self.segmenter))
        self._blocks[-1].__enter__()

    def __exit__(self, *_: object) -> None:
        self._blocks.pop().__exit__(None, None, None)
        super().__exit__()

    def __reduce__(self) -> Any:
        return WordLock, (self.segmenter,)
