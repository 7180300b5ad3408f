"""Every regular expression, and every function that reads users' texts, takes linear time on its worst case."""

import ast
import gc
import importlib
import itertools
import pkgutil
import re
import time
from pathlib import Path

import pytest

import shortcut_guardrail
from shortcut_guardrail import text as of_texts
from shortcut_guardrail.errors import printable
from shortcut_guardrail.text.words import word_spans

LONG = 100_000
PACKAGE = Path(shortcut_guardrail.__file__).parent
# Pieces of which the worst cases of the package's patterns are made: what they repeat, and what ends a repetition.
PIECES = ["a", "a'", "a_", " ", "1.", "!", "n't ", "é", "字 ", "{a", "1/", "www.", "a@a."]
ENDS = ["", "!\n"]


def patterns():
    """What the modules keep compiled, and what is written where it is used."""
    for found in pkgutil.walk_packages([str(PACKAGE)], "shortcut_guardrail."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                yield f"{found.name}.{name}", value
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Attribute(ast.Name("re"), use), [ast.Constant(first), *_]) if use != "compile":
                    yield f"{found.name}:re.{use} {first}", re.compile(first)


PATTERNS = dict({pattern: (name, pattern) for name, pattern in reversed(list(patterns()))}.values())

# On what a person types on the command line, and on an excerpt that was cut before.
_NO_TEXTS = ("review.shown._BEFORE", "review.shown._AFTER", "classifiers.opening._FUNCTION", "data.tables._HUB_NAME")
NO_TEXTS = {f"shortcut_guardrail.{name}" for name in _NO_TEXTS}
TYPED = ("shortcut_guardrail.audit.conditions", "shortcut_guardrail.data.remote")
NO_TEXTS |= {name for name in PATTERNS if name.startswith(TYPED)}


def seconds(use, text):
    gc.disable()  # what other tests left would be collected here
    start = time.process_time()
    use(text)
    taken = time.process_time() - start
    gc.enable()
    return taken


def grows_faster_than_its_text(use, largest=LONG):
    """The texts for which a function takes more than fifty times as long where they are sixteen times as long."""
    found = []
    for piece, end in itertools.product(PIECES, ENDS):
        # What is quadratic is caught where it is short, before it takes hours.
        for length in (largest // 16, largest):
            short, long = (piece * (size // len(piece)) + end for size in (length // 16, length))
            slow = max(0.25, 50 * max(seconds(use, short), 0.001))
            if seconds(use, long) > slow and (now := seconds(use, long)) > slow:
                found.append(f"{piece!r} * {length} + {end!r}: {now:.3f} s, more than {slow:.3f} s")
                break
    return found


@pytest.mark.parametrize("name", sorted(set(PATTERNS) - NO_TEXTS))
def test_a_pattern_is_linear(name):
    pattern = PATTERNS[name]

    def use(text):
        for _ in pattern.finditer(text):
            pass
        pattern.fullmatch(text)

    # A pause of the machine looks like growth once; what is not linear grows each time.
    assert any(grows_faster_than_its_text(use) == [] for _ in range(3))


def test_all_patterns_are_seen():
    some = ("text.words._ASCII_WORD", "text.words._JOINED_WORDS", "classifiers.prompts._FIELD")
    assert PATTERNS.keys() >= {*NO_TEXTS, *(f"shortcut_guardrail.{name}" for name in some)}
    assert len(PATTERNS) > 10


NAMES = ("text_key", "evidence_key", "spaced", "unit_key", "visible_name")
FUNCTIONS = {
    **{name: getattr(of_texts, name) for name in NAMES},
    "word_spans": word_spans,
    "printable": printable,
    "find": of_texts.WordFinder(["honestly", "to be frank", "a", "a a", "don't"], kept=["a a a"]).find,
    "content_spans": lambda text: of_texts.content_spans(text, 0, len(text)),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_on_texts_is_linear(name):
    # A quarter of it: these work character by character in Python, and do so for every text of a file.
    assert grows_faster_than_its_text(FUNCTIONS[name], LONG // 4) == []


def test_what_is_quadratic_is_caught():
    slow = re.compile(r"(\w+)\s+$")
    assert grows_faster_than_its_text(lambda text: slow.search(text), 6_000)
