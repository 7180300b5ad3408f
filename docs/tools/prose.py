"""What hand-written pages for users may cost a reader: words in all, words of a sentence, figures of a sentence.

    python docs/tools/prose.py

prints the words of each page, and every sentence that is too long or has too many figures. Code, tables, pictures and
what is generated are no prose. The pages of `docs/research` are evidence, written for those who check numbers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = 15_000
MOST_WORDS_OF_A_SENTENCE = 35
MOST_FIGURES_OF_A_SENTENCE = 1

_FENCED = re.compile(r"^(```|~~~|:::).*?^\1\s*?$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_NO_PROSE = re.compile(r"^(?:\||    \S|!\[).*$", re.MULTILINE)
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)\s]*\)")
_CODE = re.compile(r"`[^`]+`")
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*>]|\d+\.)\s)|\n(?=#)")
_MARK = re.compile(r"^\s*(?:#+|[-*>]|\d+\.)\s+")
_END = re.compile(r"(?<=[.?!])[)\"'*]*\s+(?=\S)")
_FIGURE = re.compile(r"(?<![\w.-])(?:\d[\d,]+(?:\.\d+)?|\d?\.\d+|\d(?= %))(?![\w-])")
_NO_FIGURE = re.compile(
    r"\b(?:19|20)\d\d\b|\b(?:Section|Figure|Table|Theorem|Lemma|Python|version|schema|step)s? \d[\d.]*"
)


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page, with code and links by what a reader reads of them."""

    page: str
    text: str

    @property
    def words(self) -> int:
        """How many words it has; a piece of code is one."""
        return len(re.findall(r"[^\s/]*\w[^\s/]*", self.text))

    @property
    def figures(self) -> int:
        """How many numbers with a point, a percent sign or more than one digit it has, outside code.

        Years and the numbers of sections, tables and versions are none.

        Example:
            >>> Sentence("", "It rose from .81 to 92 % in 2 steps in 2024 (Table 31, CODE).").figures
            2
        """
        return len(_FIGURE.findall(_NO_FIGURE.sub(" ", self.text)))


def pages() -> list[Path]:
    """The pages that users read."""
    docs = ROOT / "docs"
    return [ROOT / "README.md", *sorted(page for page in docs.rglob("*.md") if "research" not in page.parts)]


def sentences(text: str, page: str = "") -> Iterator[Sentence]:
    """The sentences of a page in Markdown; headings and entries of lists are some too.

    Example:
        >>> [one.text for one in sentences("# A page\\n\\nIt has `a.b c`. And\\n[a link](b.md)!\\n\\n| 1 | 2 |\\n")]
        ['A page', 'It has CODE.', 'And a link!']
    """
    uncommented = _COMMENT.sub("", _FENCED.sub("\n", text))
    plain = _CODE.sub("CODE", _LINK.sub(r"\1", _NO_PROSE.sub("\n", uncommented)))
    for block in _BLOCK.split(plain):
        joined = " ".join(_MARK.sub("", block.strip("\n")).split())
        yield from (Sentence(page, part) for part in _END.split(joined) if re.search(r"\w", part))


def main() -> int:
    """Print the count of each page and what is too much."""
    total, faults = 0, 0
    for page in pages():
        name = page.relative_to(ROOT).as_posix()
        found = list(sentences(page.read_text(encoding="utf-8"), name))
        words = sum(one.words for one in found)
        total += words
        print(f"{words:6,}  {name}")
        for one in found:
            if one.words > MOST_WORDS_OF_A_SENTENCE or one.figures > MOST_FIGURES_OF_A_SENTENCE:
                faults += 1
                print(f"        {one.words} words, {one.figures} figures: {one.text}")
    print(f"{total:6,}  in all, at most {MOST_WORDS:,}; {faults} sentences to mend")
    return int(faults > 0 or total > MOST_WORDS)


if __name__ == "__main__":
    sys.exit(main())
