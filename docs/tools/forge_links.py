"""Sphinx extension: links to files of the repository that are no pages, and the tables of contents from overviews.

Pages link to results, code and other files of the repository by relative paths, as a forge needs them. On the site they
become links to the forge where `SOURCE_URL` says where it shows a file (such as `https://forge/project/blob/main`).
Elsewhere the site has a copy of the file, and a link to a folder becomes plain text. A link to a file that is not there
is a warning, as is one to a page that is not there.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((\.{1,2}/[^)\s#]*|[\w./-]+)(#[^)\s]*)?\)")
FENCED = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)\s*?$)", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## (.+?)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)

OVERVIEWS = ("index", "reference/python", "research/methods")
"""Pages whose links, section by section, make up the tables of contents."""

_log = logging.getLogger(__name__)


def outward(text: str, page: Path, source_url: str | None) -> tuple[str, list[str]]:
    """The page's Markdown with links to files outside of the site replaced.

    Args:
        text: The page's Markdown.
        page: Where it lies.
        source_url: Where a forge shows the repository's files; `None` has linked files copied to the site, and turns
            links to folders into their text.

    Returns:
        The text, and the targets that are not there.
    """
    missing = []

    def replaced(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        file = (page.parent / unquote(target)).resolve()
        if not file.exists():
            missing.append(target)
            return match[0]
        if file.is_relative_to(DOCS) and file.suffix in (".md", ".png"):
            return match[0]
        if source_url is None:
            copied = (
                f"{{download}}`{label.replace('`', '')} <{target}>`"  # MyST takes any other link to Markdown for a page
            )
            return copied if file.is_file() else label
        return f"[{label}]({source_url.rstrip('/')}/{file.relative_to(ROOT).as_posix()}{anchor})"

    parts = FENCED.split(text)
    parts[::2] = [LINK.sub(replaced, part) for part in parts[::2]]
    return "".join(parts), missing


def contents(text: str) -> str:
    """Hidden tables of contents for the sidebar: one for each section of an overview, of the pages it links to."""
    trees = []
    for title, body in SECTION.findall(text):
        pages = dict.fromkeys(target for _, target, _ in LINK.findall(body) if not target.startswith("../"))
        if pages:
            entries = "\n".join(page.removesuffix(".md") for page in pages if page.endswith(".md"))
            trees.append(f"```{{toctree}}\n:caption: {title}\n:hidden:\n\n{entries}\n```\n")
    return "\n" + "\n".join(trees)


def _read(app: Sphinx, name: str, content: list[str]) -> None:
    page = DOCS / f"{name}.md"
    source_url = os.environ.get("SOURCE_URL")
    trees = contents(content[0]) if name in OVERVIEWS else ""
    if name == "index" and source_url:  # the last entry of the sidebar
        trees += f"```{{toctree}}\n:hidden:\n\nRepository <{source_url.partition('/blob/')[0]}>\n```\n"
    text, missing = outward(content[0], page, source_url)
    for target in missing:
        _log.warning("there is no file %r", target, location=name)
    content[0] = text + trees


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
