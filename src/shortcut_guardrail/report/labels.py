"""Audits of every label of a model that can give a text several: one table, for a terminal and as a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from itertools import count
from typing import Any

from rich.text import Text

from ..data import counted
from ..display import Screen, percent, template
from ..text import visible_name
from .html import own_files
from .terminal import cut_note, new_table, words_of

_OF_A_CARD = ("words", "texts", "changes", "share", "pushes_towards")
SHOWN_OF_A_LABEL = 5
"""Word groups of each label in the table; all are in the label's own audit."""


def label_rows(documents: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What was found for each label, JSON-ready: those word groups that are flagged, then those that are undecided.

    Args:
        documents: What the `audit.json` of each label holds.
    """
    return [
        {
            "label": label,
            "folder": folder,
            "n": document["n"],
            "predicted": document["predicted"][document["label_names"][-1]],
            "word_groups": [
                {"status": status, **{key: card[key] for key in _OF_A_CARD}}
                for status in ("flagged", "undecided")
                for card in document["cards"]
                if card["evidence"]["status"] == status
            ],
        }
        for (label, document), folder in zip(documents.items(), _folders(documents), strict=True)
    ]


def _folders(labels: Iterable[str]) -> list[str]:
    """A name for the folder of each label, such as "sexual-minors" for "sexual/minors"; no two are the same."""
    names: dict[str, None] = {}
    for label in labels:
        plain = re.sub(r"[^\w-]+", "-", label.casefold()).strip("-") or "label"
        names[next(one for n in count() if (one := f"{plain}-{n}" if n else plain) not in names)] = None
    return [*names]


def print_labels(rows: Iterable[Mapping[str, Any]], *, fdr: float, n_truncated: int) -> None:
    """A line for each label and word group, what limits them, and how one goes on."""
    rows = list(rows)
    heads = ("label", "texts\nwith it", "", "word group", "texts", "changes", "share\nof all", "pushes\ntowards")
    table = new_table(*heads, texts=(0, 2, 3, 7))
    table.collapse_padding = True
    for row in rows:
        first = [visible_name(row["label"]), percent(row["predicted"] / row["n"])]
        for group in row["word_groups"][:SHOWN_OF_A_LABEL]:
            sign = "!" if group["status"] == "flagged" else "?"
            numbers, class_ = (
                (str(group["texts"]), str(group["changes"]), percent(group["share"])),
                group["pushes_towards"],
            )
            table.add_row(*map(Text, first), sign, words_of(group["words"]), *numbers, Text(visible_name(class_)))
            first = ["", ""]
        if not row["word_groups"]:
            table.add_row(*map(Text, first), "", "-", "", "", "", "")
        elif (more := len(row["word_groups"]) - SHOWN_OF_A_LABEL) > 0:
            table.add_row("", "", "", f"and {more} more", "", "", "", "")
    console = Screen()
    console.print(table)
    console.print(f"{counted(rows[0]['n'], 'text')}, {counted(len(rows), 'label')}.{cut_note(n_truncated)}")
    console.print(
        f"Each label is a question of its own, tested at a false-discovery rate of {fdr:.0%}. Flagged are !, undecided "
        "are ?. Only you know which of these words should influence the prediction."
    )


def render_labels(rows: Iterable[Mapping[str, Any]], *, fdr: float) -> str:
    """The page with the same table; it leads to the page of each label, and makes no network request."""
    page: str = template("report/labels.html.j2").render(
        title="Shortcut audit of every label",
        rows=list(rows),
        fdr=fdr,
        shown=SHOWN_OF_A_LABEL,
        version=version("shortcut-guardrail"),
        **own_files("report", script=False),
    )
    return page.lstrip()
