"""`shortcut-guardrail review`: a person decides about the word groups of an audit, in the browser."""

from __future__ import annotations

import getpass
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ..audit import name_classes
from ..data import read_data, warn_without_names
from ..errors import ConfigError
from . import options

_setting = partial(typer.Option, rich_help_panel="Settings")


@options.command
def review(
    *,
    audit: options.AuditFolder,
    data: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help="The audited file, if the audit stores no texts.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File of decisions (.json), new or to be continued.", show_default="AUDIT/decisions.json"),
    ] = None,
    reviewer: Annotated[str | None, typer.Option(help="Your name.", show_default="your login name")] = None,
    cards: options.Cards = "all",
    port: Annotated[int, _setting(help="Port on this machine.", min=0, max=65535, show_default="a free one")] = 0,
    idle: Annotated[int, _setting(metavar="MINUTES", help="Stop after so many minutes without an answer.", min=1)] = 60,
    browser: Annotated[bool, _setting("--browser/--no-browser", help="Open the page.")] = True,
    seed: options.Seed = 0,
    label_names: options.LabelNames = None,
    columns: options.Columns,
    debug: options.Debug = False,
) -> None:
    """Decide in the browser which words should influence predictions.

    \b
    shortcut-guardrail audit MODEL texts.csv --out audit
    shortcut-guardrail review audit
    shortcut-guardrail fit MODEL texts.csv --decisions audit/decisions.json --out guarded

    Opens a page with at most ten word groups, those first on which most predictions depend. If you are not sure about
    one, the page asks about texts. Each answer is saved at once; the same command continues. No model is needed.
    """
    from ..decisions import AUDIT_FILE
    from ..report import render_review
    from ..review import Page, make_deck, review_in_browser
    from ..saving import read_audit

    if audit.is_file():
        raise ConfigError(f"'{audit}' is a file. Give the folder that `audit` wrote: '{audit.parent}'.")
    file, source = out or audit / "decisions.json", audit / AUDIT_FILE
    # A review that is there is gone on with.
    options.Output(overwrite=True).check(options.Place(file, options.JSON_ENDINGS), inputs=[source, data])
    texts = None if data is None else read_data(data, **columns.given()).texts
    if label_names is not None:
        name_classes(audit, label_names)
    document = read_audit(source)
    warn_without_names(document["label_names"])
    deck = make_deck(document, texts=texts, which=cards, source=f"'{source}'")
    page = Page(*render_review())
    how: dict[str, Any] = {"by": _name(reviewer), "seed": seed, "port": port, "minutes": idle, "browser": browser}
    review_in_browser(deck, file, page, folder=audit, **how)


def _name(reviewer: str | None) -> str:
    if reviewer is None:
        with suppress(Exception):  # no login name is known in some containers; each system says so in its own way
            reviewer = getpass.getuser()
    if not (reviewer or "").strip():
        raise ConfigError("Say who answers, with --reviewer NAME.")
    return str(reviewer).strip()
