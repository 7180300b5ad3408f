"""Sphinx extension: what the theme's pages lack for people who listen to them or use a keyboard.

Captions of the sidebar get a level, the two sidebars get names, and an empty cell of a table's head is no heading. The
parameters of a signature on lines of their own are no list of definitions.
`static/site.js` lets a keyboard reach what is too wide and scrolls.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

REPLACED = (
    ('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="All pages">'),
    ('<aside class="toc-drawer', '<aside aria-label="On this page" class="toc-drawer'),
    ('<th class="head"><p></p></th>', '<td class="head"></td>'),
    ('<div id="search-results"></div>', '<h1>Search</h1>\n<div id="search-results"> </div>'),
)
"""What the theme and Sphinx write, and what is written in its place."""


PARAMETERS = re.compile(r'<dl>\s*((?:<dd><em class="sig-param">.*?</dd>\s*)+)</dl>', re.DOTALL)


def replaced(page: str) -> str:
    """The HTML of a page with all of these replaced; it may have been before."""
    for written, instead in REPLACED:
        page = page.replace(written, instead)
    return PARAMETERS.sub(lambda found: re.sub("(</?)dd>", r"\1div>", found[1]), page)


def _finish(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        for file in Path(app.outdir).rglob("*.html"):
            file.write_text(replaced(file.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True}
