"""`shortcut-guardrail review`: a person decides the cards of an audit, in the browser."""

from __future__ import annotations

import getpass
import os
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options

if TYPE_CHECKING:
    from ..data import Texts
    from ..review import Rules, Session


@options.command
def review(
    *,
    audit: options.AuditFolder,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]", help="The audited file; needed for an audit without texts.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File of decisions (JSON). An existing file is continued.",
            show_default="AUDIT/decisions.json",
        ),
    ] = None,
    reviewer: Annotated[str | None, typer.Option(help="Who answers.", show_default="your login name")] = None,
    cards: Annotated[
        str,
        typer.Option(
            metavar="all|undecided|WORD,...", help="Which cards, by a word or id; undecided: those not flagged."
        ),
    ] = "all",
    port: Annotated[int, typer.Option(help="Port of this machine.", min=0, max=65535, show_default="a free one")] = 0,
    idle: Annotated[int, typer.Option(metavar="MINUTES", help="Stop after so long without an answer.", min=1)] = 60,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    seed: options.Seed = 0,
    columns: options.Columns,
    debug: options.Debug = False,
) -> None:
    """Decide in minutes which words should count.

    \b
    shortcut-guardrail audit MODEL texts.csv --out audit
    shortcut-guardrail review audit
    shortcut-guardrail fit MODEL texts.csv --decisions audit/decisions.json --out guarded

    Opens a page with at most ten cards, those first on which most answers hang. Where you are not sure of one, it asks
    about texts. Every answer is saved as it is given; the same command goes on. No model is needed.
    """
    from ..decisions import AUDIT_FILE
    from ..errors import ConfigError
    from ..report import read_audit
    from ..review import Session, locked, next_command

    if audit.is_file():
        raise ConfigError(f"'{audit}' is a file. Give the folder that `audit` wrote: '{audit.parent}'.")
    file = audit / "decisions.json" if out is None else out
    name = _name(reviewer)
    source = audit / AUDIT_FILE
    place = options.Place(file, options.JSON_ENDINGS, goes_on=True)
    options.Output().check(place, inputs=[source, data])
    document = read_audit(source)
    texts = _texts(data, columns)
    with locked(file):
        rules = _rules(document, texts, file, source=f"'{source}'", cards=cards, seed=seed)
        session = Session(rules, file, name)
        try:
            _serve(session, port=port, idle=idle, open_it=browser)
        except KeyboardInterrupt:
            print()
        finally:
            if file.exists():
                print(f"Decisions: {file}")
                print(f"Next: {next_command(file)}")
            else:
                print("Nothing was answered, and nothing is written.")


def _name(reviewer: str | None) -> str:
    from ..errors import ConfigError

    name = reviewer
    if name is None:
        with suppress(Exception):  # no login name is known in some containers; each system says so in its own way
            name = getpass.getuser()
    if not (name or "").strip():
        raise ConfigError("Say who answers, with --reviewer NAME.")
    return str(name).strip()


def _texts(data: str | None, columns: options.Columns) -> Texts | None:
    from ..data import read_data

    return None if data is None else read_data(data, **columns.given()).texts


def _rules(document: dict[str, Any], texts: Texts | None, file: Path, *, source: str, cards: str, seed: int) -> Rules:
    """What is asked; a review that was begun goes on in its own order."""
    from ..review import Rules, make_deck, seed_of

    deck = make_deck(document, texts=texts, which=cards, source=source)
    begun = seed_of(file)
    return Rules(deck, seed=seed if begun is None else begun)


def _serve(session: Session, *, port: int, idle: int, open_it: bool) -> None:
    """Serve the page until it is stopped."""
    from ..report import render_review
    from ..review import Page, ReviewServer

    server = ReviewServer(session, Page(*render_review()), port=port, idle=60.0 * idle)
    remote = bool(os.environ.get("SSH_CONNECTION"))
    with _doorway(server.address, session.file.parent, open_it and not remote) as opened:
        if not opened:
            print("Open this address in a browser on this machine:")
        print(server.address, flush=True)
        if remote:
            print("From another machine, forward the port first, then open the address there:")
            print(f"  ssh -N -L {server.port}:127.0.0.1:{server.port} USER@THIS-MACHINE")
        print("Ctrl-C stops; every answer is saved as it is given.", flush=True)
        if server.run():
            print(f"Stopped after {idle} minutes without an answer.")


@contextmanager
def _doorway(address: str, folder: Path, wanted: bool) -> Iterator[bool]:
    """Open the address in a browser, and say whether that was possible.

    The browser is given a file that leads there, which only this user can read: others on the machine can see what
    programs are started with, and the address lets in.
    """
    if not wanted:
        yield False
        return
    descriptor, name = tempfile.mkstemp(prefix="review-", suffix=".html", dir=folder)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><title>Review</title>')
        opened = False
        with suppress(webbrowser.Error, OSError):
            opened = webbrowser.open(Path(name).resolve().as_uri())
        yield opened
    finally:
        Path(name).unlink(missing_ok=True)
