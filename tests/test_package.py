"""The package as a whole: its public names, what importing it does not do, and which way its imports flow."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import shortcut_guardrail

PACKAGE = Path(shortcut_guardrail.__file__).parent
MODULES = sorted(info.name for info in pkgutil.walk_packages([str(PACKAGE)], "shortcut_guardrail."))

# Lowest first; a module imports from levels below its own, or from its own.
LEVELS = [
    {"stop_words"},
    {"characters", "errors", "config", "packing", "precision", "processes", "sentences", "threads"},
    {"files", "tables"},
    {"checkpoints", "data", "encoder"},
    {
        "saliency",
        "masking",
        "losses",
        "groups",
        "metrics",
        "finetune",
        "sensitivity",
        "units",
        "opposition",
        "discovery",
        "power",
        "evidence",
        "shards",
        "override",
        "phrases",
        "collective",
        "details",
    },
    {"record"},
    {"certify"},
    {"audit", "streaming", "adapter", "calibration"},
    {"counterfactuals", "targets", "confirmation", "target_search"},
    {"distill", "few_shot"},
    {"evaluation", "strategies", "dial", "checks"},
    {"adapter_files"},
    {"guardrail"},
    {"report", "gate"},
    {"demo"},
    {"cli"},
]


def level(part: str) -> int:
    found = [i for i, parts in enumerate(LEVELS) if part in parts]
    assert found, f"'{part}' has no place in LEVELS; put it where its imports allow."
    return found[0]


def imports_of(path: Path) -> set[str]:
    """The parts of the package that a file imports when it runs; imports for type checkers alone are left out."""
    package = ["shortcut_guardrail", *path.relative_to(PACKAGE).parent.parts]
    found: set[str] = set()
    skipped: set[ast.AST] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            skipped.update(inner for statement in node.body for inner in ast.walk(statement))
        if node in skipped:
            continue
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *(node.module.split(".") if node.module else [])]
            if module[:1] == ["shortcut_guardrail"]:
                found.update([module[1]] if len(module) > 1 else [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            names = (alias.name.split(".") for alias in node.names)
            found.update(name[1] for name in names if name[0] == "shortcut_guardrail" and len(name) > 1)
    return {name for name in found if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()}


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_public_names_are_those_that_are_exported():
    assert sorted(shortcut_guardrail.__all__) == sorted(set(shortcut_guardrail.__all__))
    for name in shortcut_guardrail.__all__:
        assert getattr(shortcut_guardrail, name).__name__ == name
        assert getattr(shortcut_guardrail, name).__module__.startswith("shortcut_guardrail.")
    eager = {
        name
        for name, value in vars(shortcut_guardrail).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("shortcut_guardrail.")
    }
    assert eager | set(shortcut_guardrail._LAZY) == set(shortcut_guardrail.__all__)


def test_every_public_thing_is_documented():
    for name in shortcut_guardrail.__all__:
        assert getattr(shortcut_guardrail, name).__doc__.strip()


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'shortcut_guardrail' has no attribute 'ShortcutGuardrial'"):
        shortcut_guardrail.ShortcutGuardrial  # noqa: B018


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

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


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_flow_one_way(path):
    relative = path.relative_to(PACKAGE)
    if relative.name == "__init__.py" and len(relative.parts) == 1:
        return
    own = relative.parts[0].removesuffix(".py")
    upward = {name for name in imports_of(path) if level(name) > level(own)}
    assert not upward, f"{relative} is on level {level(own)} but imports {sorted(upward)}"


def test_the_flow_of_imports_is_seen():
    assert {"config", "data", "encoder"} <= imports_of(PACKAGE / "guardrail.py")
    assert "data" in imports_of(PACKAGE / "cli" / "predict.py")
    assert level("data") > level("config")


def test_every_module_belongs_to_a_level():
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
    assert parts - {"__init__"} == set().union(*LEVELS)


@pytest.mark.parametrize("name", ["shortcut_guardrail", *MODULES])
def test_examples_in_docstrings(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("shortcut_guardrail"):
            raise
        pytest.skip(f"{name} needs {error.name}")
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
