"""Sphinx extension: formulas as MathML, which browsers show without a script and screen readers read aloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _inline(translator: Any, node: Any) -> None:
    translator.body.append(convert(node.astext()))
    raise SkipNode


def _block(translator: Any, node: Any) -> None:
    formula = convert(node.astext(), display="block")
    translator.body.append(f'<div class="formula" role="group" aria-label="Formula">{formula}</div>\n')
    raise SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True}
