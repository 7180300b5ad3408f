"""Sphinx extension: the Python API from docstrings.

The directive `api` documents what a room of the library shows: the names of `shortcut_guardrail` that live there, then
those that its content names. The default role of docstrings, a name between single backticks, is a link where it is a
public name, and code elsewhere.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.domains.python import PyObject
from sphinx.util.docutils import SphinxDirective

import shortcut_guardrail

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx

PACKAGE = "shortcut_guardrail"
NAMES_ROLE = "library-name"


def room_of(name: str) -> str:
    """The room in which a public name is at home.

    Example:
        >>> room_of("Certificate"), room_of("preset")
        ('strength', 'config')
    """
    if name == "Texts":  # a type alias, which has no module
        return "data"
    home: str = getattr(shortcut_guardrail, name).__module__
    return home.removeprefix(f"{PACKAGE}.").partition(".")[0]


def _directive_of(path: str) -> str:
    module, _, name = path.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if inspect.isfunction(value) else "data"


def documented(room: str, further: Iterable[str]) -> list[str]:
    """The full names that a page documents: those of `shortcut_guardrail` that live in a room, then further ones."""
    paths = [f"{PACKAGE}.{name}" for name in shortcut_guardrail.__all__ if room_of(name) == room]
    return paths + [f"{PACKAGE}.{name if name.startswith('metrics.') else f'{room}.{name}'}" for name in further]


class Api(SphinxDirective):
    """`{api} audit` with further names of the room as its content, one a line."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The documentation of all names."""
        lines = ["```{eval-rst}"]
        for path in documented(self.arguments[0], self.content):
            kind = _directive_of(path)
            lines += [f".. auto{kind}:: {path}", *(["   :members:"] if kind == "class" else []), ""]
        return self.parse_text_to_nodes("\n".join([*lines, "```"]))


def _link(_name: str, _raw: str, text: str, *_rest: Any) -> tuple[list[nodes.Node], list[Any]]:
    """Code, which leads to its documentation where it is a public name or a method of one."""
    literal = nodes.literal(text, text)
    public, _, member = text.partition("(")[0].partition(".")
    if public not in shortcut_guardrail.__all__ or public == "Texts":
        return [literal], []
    is_method = member and inspect.isroutine(getattr(getattr(shortcut_guardrail, public), member, None))
    target = f"{PACKAGE}.{public}.{member}" if is_method else f"{PACKAGE}.{public}"
    options = {"refdomain": "py", "reftype": "obj", "reftarget": target, "refexplicit": True, "refwarn": True}
    return [pending_xref("", literal, **options)], []


def _signature(_app: Sphinx, _what: str, name: str, value: Any, *_rest: Any) -> tuple[str, str | None] | None:
    """Results are made by the library: their fields are listed below, and not in a signature as well."""
    is_result = dataclasses.is_dataclass(value) and not name.endswith("Config")
    return ("", None) if is_result else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    fields = next(field for field in PyObject.doc_field_types if field.name == "variable")
    fields.label = "Attributes"
    app.connect("autodoc-process-signature", _signature)
    app.add_role(NAMES_ROLE, _link)
    app.add_directive("api", Api)
    return {"parallel_read_safe": True}
