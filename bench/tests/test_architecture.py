"""The benchmark's own contract: no two of its modules import each other, and no function grows past a page."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import shortcut_bench
from sizes import MOST_LINES, MOST_LINES_OF_A_FILE, MOST_POSITIONAL, functions_of, lines_of, positional_of

PACKAGE = Path(shortcut_bench.__file__).parent


def graph_of(root):
    """For every module of a package the modules of it that it imports, inside functions and for type checkers too."""
    files = {}
    for path in sorted(root.rglob("*.py")):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {}
    for module, path in files.items():
        package, found = [root.name, *path.relative_to(root).parent.parts], set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                source = ".".join([*base, *([node.module] if node.module else [])])
                # A name of a package may be a module in it.
                found |= {name if (name := f"{source}.{alias.name}") in files else source for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        graph[module] = found & set(files) - {module}
    return graph


def circles(graph):
    """Chains of imports that end where they began: of modules, and of what a reader takes for one part."""
    parts = {}
    for module, imported in graph.items():
        part, *others = (".".join(name.split(".")[:2]) for name in (module, *imported))
        parts.setdefault(part, set()).update({*others} - {part})
    found = []
    for one in (graph, parts):
        try:
            TopologicalSorter(one).prepare()
        except CycleError as error:
            found.append(error.args[1])
    return found


def test_nothing_imports_itself_by_way_of_others():
    graph = graph_of(PACKAGE)
    assert {"shortcut_bench.systems", "shortcut_bench.methods.training"} <= graph["shortcut_bench.methods.jtt"]
    assert circles(graph) == []


def test_a_function_fits_on_a_page_and_a_file_in_a_head():
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        functions = functions_of(source)
        assert {found.name: lines_of(found) for found in functions if lines_of(found) > MOST_LINES} == {}, path
        assert [found.name for found in functions if len(positional_of(found)) > MOST_POSITIONAL] == [], path
        assert len(source.splitlines()) <= MOST_LINES_OF_A_FILE, path
