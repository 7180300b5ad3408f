"""The contract between the rooms: imports go down only, and a room shows others what its `__init__.pyi` names."""

import ast
import importlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import shortcut_guardrail
from sizes import MOST_LINES, MOST_LINES_OF_A_FILE, MOST_POSITIONAL, functions_of, lines_of, positional_of

PACKAGE = Path(shortcut_guardrail.__file__).parent
BENCH = Path(__file__).parents[1] / "bench" / "src" / "shortcut_bench"

# Top floor first; a room imports from rooms below it.
FLOORS = (
    "cli demo report review guardrail serving history saving mitigation shortcuts decisions evaluation audit cards "
    "strength attribution classifiers display text models config data metrics stats threads typing errors"
).split()
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


@dataclass(frozen=True)
class Import:
    """One imported name: `from module import name`, with the module's absolute path, and where it is written."""

    module: tuple[str, ...]
    name: str
    line: int

    @property
    def room(self) -> str:
        """The room it comes from; empty for what is not of the library."""
        return (*self.module, self.name)[1] if self.module[:1] == ("shortcut_guardrail",) else ""


@cache
def imports_of(path: Path) -> list[Import]:
    """What a file imports, inside functions and for type checkers too."""
    root = next(folder for folder in (PACKAGE, BENCH) if path.is_relative_to(folder))
    package = [root.name, *path.relative_to(root).parent.parts]
    found: list[Import] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = (*base, *(node.module.split(".") if node.module else ()))
            found += [Import(module, alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [Import(tuple(alias.name.split(".")), "", node.lineno) for alias in node.names]
    return found


@cache
def shown(room: str) -> set[str]:
    """The names that a room shows to others."""
    stub = PACKAGE / room / "__init__.pyi"
    if not stub.is_file():
        return set()
    body = ast.parse(stub.read_text(encoding="utf-8")).body
    return {alias.asname or alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if room_of(path) != "__init__"]
BENCH_FILES = sorted(BENCH.rglob("*.py"))
IMPORTING = [*FILES, *BENCH_FILES, PACKAGE / "__init__.pyi"]


def test_imports_go_down():
    assert {room_of(path) for path in FILES} == set(FLOORS)
    assert len(FLOORS) == len(set(FLOORS))
    assert {"config", "data", "models"} <= {found.room for found in imports_of(PACKAGE / "guardrail.py")}
    assert "shortcut_guardrail" in {found.module[0] for found in imports_of(BENCH / "runner.py")}
    # Whatever the package shows at its door belongs to nobody above the command line, which prints its version.
    upward = [
        f"{path.relative_to(PACKAGE)}:{found.line} imports {found.room}"
        for path in FILES
        for found in imports_of(path)
        if found.room not in ("", "__version__") and FLOORS.index(found.room) < FLOORS.index(room_of(path))
    ]
    assert not upward


def test_only_what_a_room_shows_is_imported_from_outside():
    past = [
        f"{path.name}:{found.line}: {found.name} of {'.'.join(found.module)}"
        for path in [*FILES, *BENCH_FILES]
        for found in imports_of(path)
        if found.room in ROOMS and not (path.is_relative_to(PACKAGE) and found.room == room_of(path))
        if found.module != ("shortcut_guardrail", found.room) or found.name not in shown(found.room)
    ]
    assert not past, "These go past the door of a room (its __init__.pyi)."


def test_the_library_does_not_know_the_benchmark():
    bench = ("shortcut_bench",)
    know = {path for path in IMPORTING if any(found.module[:1] == bench for found in imports_of(path))}
    assert not know & {*FILES}
    assert know & {*BENCH_FILES}


def test_a_room_says_what_it_is_for_and_has_what_it_shows():
    for room in ROOMS:
        module = importlib.import_module(f"shortcut_guardrail.{room}")
        assert (module.__doc__ or "").strip(), room
        for name in shown(room):
            assert not name.startswith("_"), f"{room}.{name}"
            assert getattr(module, name) is not None


def test_what_a_room_shows_is_used_outside():
    """A door that nobody goes through is to be closed: names come off the list when their last user goes."""
    used = {
        (found.room, found.name)
        for path in IMPORTING
        for found in imports_of(path)
        if not (path.is_relative_to(PACKAGE) and room_of(path) == found.room)
    }
    assert not {(room, name) for room in ROOMS for name in shown(room)} - used


def test_a_function_fits_on_a_page_and_a_file_in_a_head():
    sources = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in FILES}
    # The entry point of a command declares its options, one a line.
    functions = [
        (f"{name}:{found.name}", found)
        for name, source in sources.items()
        for found in functions_of(source)
        if not any("command" in ast.unparse(decorator) for decorator in found.decorator_list)
    ]
    assert [name for name, found in functions if lines_of(found) > MOST_LINES] == []
    assert [name for name, found in functions if len(positional_of(found)) > MOST_POSITIONAL] == []
    # Half of the facade are docstrings of its public methods.
    long = {name for name, source in sources.items() if len(source.splitlines()) > MOST_LINES_OF_A_FILE}
    assert long == {"guardrail.py"}


LINES_OF = {
    "the house": 24_000,
    "words that users understand": 343,
    "exports and the Hub": 687,
    "kinds of models that people deploy": 1_484,
    "any classifier": 1_014,
    "words that are added, and cues that are missing": 1_284,
    "audits over weeks": 788,
    "samples of large files": 592,
    "work in several processes": 263,
    "remote files": 112,
    "a seam for clusters": 14,
    "answers that are asked for once": 86,
}
"""The library's lines. Those of the house go up only by lines removed elsewhere, the others with what they name."""


def test_the_library_stays_small():
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py"))
    assert lines < sum(LINES_OF.values())


def test_lines_and_positions_are_counted() -> None:
    (found,) = functions_of('@cached\ndef far(self, a, /, b, *rest, c):\n    """It\n    is."""\n    return 1\n')
    assert lines_of(found) == 4
    assert positional_of(found) == ["a", "b"]
