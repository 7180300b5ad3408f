"""The package as a whole: its public names, and what importing it does not do."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import shortcut_guardrail

PACKAGE = Path(shortcut_guardrail.__file__).parent
MODULES = sorted(info.name for info in pkgutil.walk_packages([str(PACKAGE)], "shortcut_guardrail."))


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_public_name_is_there_and_documented():
    for name in {*shortcut_guardrail.__all__} - {"Texts"}:  # a type alias
        public = getattr(shortcut_guardrail, name)
        assert public.__name__ == name
        assert public.__module__.startswith("shortcut_guardrail.")
        assert public.__doc__.strip()
    assert shortcut_guardrail.__version__ == version("shortcut-guardrail")


def test_importing_loads_nothing_heavy():
    heavy = "{'torch', 'transformers', 'peft', 'datasets', 'pyarrow', 'sklearn', 'scipy', 'matplotlib', 'captum'}"
    shown = f"print({heavy} & set(sys.modules))"
    assert python(f"import sys, shortcut_guardrail as s; s.preset('paper'); {shown}") == "set()\n"
    # The partner: what needs PyTorch does load it.
    assert "torch" in python(f"import sys; from shortcut_guardrail import FitReport; {shown}")


def test_importing_leaves_loggers_warning_filters_and_seeds_alone():
    print_state = """
import logging, random, warnings
import numpy, torch, transformers, peft, rich.console  # what they do is theirs
def state():
    loggers = {n: (l.level, len(l.handlers)) for n, l in logging.root.manager.loggerDict.items() if hasattr(l, "level")}
    return (list(warnings.filters), logging.root.level, len(logging.root.handlers), random.getstate(),
            numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist(), torch.is_grad_enabled(),
            torch.get_num_threads(), torch.get_default_dtype(), transformers.logging.get_verbosity(), loggers)
before = state()
from shortcut_guardrail import ShortcutGuardrail
import shortcut_guardrail.cli.main
after = state()
changed = [i for i, (a, b) in enumerate(zip(before[:-1], after[:-1])) if a != b]
print(changed, [n for n, l in before[-1].items() if after[-1][n] != l])
"""
    done = subprocess.run([sys.executable, "-c", print_state], capture_output=True, text=True, check=False)
    assert done.stdout == "[] []\n", done.stderr


def test_examples_in_docstrings():
    attempted, failed = 0, []
    for name in ["shortcut_guardrail", *MODULES]:
        result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
        attempted += result.attempted
        failed += [name] * bool(result.failed)
    assert failed == []
    assert attempted > 30
