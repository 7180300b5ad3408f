"""The benchmark's own contract: no two of its modules import each other, and no function grows past a page."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import shortcut_bench
from sizes import MOST_LINES, MOST_LINES_OF_A_FILE, MOST_POSITIONAL, functions_of, lines_of, positional_of

PACKAGE = Path(shortcut_bench.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(path, root=PACKAGE):
    parts = [root.name, *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path, modules, root=PACKAGE):
    """Which of the package's modules a file imports, inside functions and for type checkers too."""
    package = [root.name, *path.relative_to(root).parent.parts]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else ())])
            # A name of a package may be a module in it.
            found |= {name if (name := f"{module}.{alias.name}") in modules else module for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & set(modules) - {module_of(path, root)}


def graph_of(root):
    """For every module of a package the modules of it that it imports."""
    files = {module_of(path, root): path for path in sorted(root.rglob("*.py"))}
    return {module: imports_of(path, files, root) for module, path in files.items()}


def room_of(module):
    """The top-level module or package: what a reader takes for one part."""
    return ".".join(module.split(".")[:2])


def rooms(graph):
    found = {}
    for module, imported in graph.items():
        found.setdefault(room_of(module), set()).update(room_of(other) for other in imported)
    return {room: others - {room} for room, others in found.items()}


def circle(graph):
    """A chain of imports that ends where it began; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_way_of_others():
    assert circle(graph_of(PACKAGE)) == []


def test_no_part_imports_itself_by_way_of_others():
    assert circle(rooms(graph_of(PACKAGE))) == []


def test_the_flow_of_imports_is_seen():
    graph = graph_of(PACKAGE)
    assert {"shortcut_bench.systems", "shortcut_bench.methods.training"} <= graph["shortcut_bench.methods.jtt"]
    assert "shortcut_bench.theory" in rooms(graph)["shortcut_bench.cli"]
    assert "shortcut_bench.own_systems" in graph["shortcut_bench.registry"]


@pytest.mark.parametrize("inside", ["", "def late():\n    ", "if TYPE_CHECKING:\n    "])
def test_a_circle_is_found_wherever_it_is_written(tmp_path, inside):
    root = tmp_path / "made"
    (root / "part").mkdir(parents=True)
    (root / "__init__.py").touch()
    (root / "part" / "__init__.py").write_text("from ..low import name\n")
    (root / "low.py").write_text("name = 1\n")
    assert circle(graph_of(root)) == circle(rooms(graph_of(root))) == []
    (root / "low.py").write_text(f"{inside}from .part import other\n")
    assert set(circle(graph_of(root))) == set(circle(rooms(graph_of(root)))) == {"made.part", "made.low"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-2:]))
def test_a_function_fits_on_a_page_and_a_file_in_a_head(path):
    source = path.read_text(encoding="utf-8")
    functions = functions_of(source)
    assert {found.name: lines_of(found) for found in functions if lines_of(found) > MOST_LINES} == {}
    assert [found.name for found in functions if len(positional_of(found)) > MOST_POSITIONAL] == []
    assert len(source.splitlines()) <= MOST_LINES_OF_A_FILE
