"""Every regular expression, and every function that reads users' texts, takes linear time on its worst case."""

import ast
import importlib
import pkgutil
import re
import time
from pathlib import Path

import pytest

import shortcut_guardrail
from shortcut_guardrail.text import (
    WordFinder,
    content_spans,
    evidence_key,
    printable,
    spaced,
    text_key,
    unit_key,
    visible_name,
)
from shortcut_guardrail.text.words import word_spans

MEGABYTE = 1_000_000
PACKAGE = Path(shortcut_guardrail.__file__).parent
# Pieces of which the worst cases of the package's patterns are made: what they repeat, and what ends a repetition.
PIECES = ["a", "a'", "a_", " ", "1.", "!", "n't ", "é", "字 ", "{a"]
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
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args:
                if ast.unparse(node.func) == "re.compile":
                    continue
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    yield f"{found.name}:{ast.unparse(node.func)} {first.value}", re.compile(first.value)


PATTERNS = dict({pattern: (name, pattern) for name, pattern in reversed(list(patterns()))}.values())

# On what a person types on the command line, and on an excerpt that was cut before.
NO_TEXTS = {
    "shortcut_guardrail.review.shown._BEFORE",
    "shortcut_guardrail.review.shown._AFTER",
    "shortcut_guardrail.classifiers.opening._FUNCTION",
    "shortcut_guardrail.data.tables._HUB_NAME",
    *(name for name in PATTERNS if name.startswith("shortcut_guardrail.audit.conditions")),
}


def seconds(use, text):
    start = time.process_time()
    use(text)
    return time.process_time() - start


def grows_faster_than_its_text(use, largest=MEGABYTE):
    """The texts for which a function takes more than fifty times as long where they are sixteen times as long."""
    found = []
    for piece in PIECES:
        for end in ENDS:

            def text(length, piece=piece, end=end):
                return piece * (length // len(piece)) + end

            # What is quadratic is caught where it is short, before it takes hours.
            for length in (largest // 16, largest):
                short, long = text(length // 16), text(length)
                before, now = seconds(use, short), seconds(use, long)
                if now > 0.1 and now > 50 * max(before, 0.001):
                    now = min(now, seconds(use, long))
                if now > 0.1 and now > 50 * max(before, 0.001):
                    found.append(f"{piece!r} * {length} + {end!r}: {before:.3f} s, then {now:.3f} s")
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
    assert {"shortcut_guardrail.text.words._ASCII_WORD", "shortcut_guardrail.classifiers.prompts._FIELD"} <= set(
        PATTERNS
    )
    assert set(PATTERNS) >= NO_TEXTS
    assert len(PATTERNS) > 10


FINDER = WordFinder(["honestly", "to be frank", "a", "a a", "don't"], kept=["a a a"])
FUNCTIONS = {
    "word_spans": word_spans,
    "find": FINDER.find,
    "text_key": text_key,
    "evidence_key": evidence_key,
    "spaced": spaced,
    "unit_key": unit_key,
    "visible_name": visible_name,
    "printable": printable,
    "content_spans": lambda text: content_spans(text, 0, len(text)),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_on_texts_is_linear(name):
    # A twentieth of a megabyte: these work character by character in Python, and do so for every text of a file.
    assert grows_faster_than_its_text(FUNCTIONS[name], MEGABYTE // 20) == []


def test_what_is_quadratic_is_caught():
    slow = re.compile(r"(\w+)\s+$")
    assert grows_faster_than_its_text(lambda text: slow.search(text), 6_000)
