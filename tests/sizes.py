"""How long functions and files are, and how many arguments may be given by position: what tests hold small."""

import ast

MOST_LINES, MOST_POSITIONAL, MOST_LINES_OF_A_FILE = 60, 6, 600


def functions_of(source: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From `def` to the end, docstring included."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def positional_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """What may be given by position, without the object or class that a method is of."""
    names = [argument.arg for argument in [*function.args.posonlyargs, *function.args.args]]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names
