"""A review from its beginning to its end: the file is locked, the server runs, and the browser is shown the way."""

import os
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..data import counted
from ..display import say
from .server import Page, ReviewServer
from .session import Session, locked
from .shown import Deck


def review_in_browser(
    deck: Deck,
    out: Path,
    page: Page,
    *,
    by: str,
    folder: Path | None = None,
    seed: int = 0,
    port: int = 0,
    minutes: int = 60,
    browser: bool = True,
) -> None:
    """Let a person decide cards on a page of this machine, until they stop it or go away.

    It takes what the command `review` does, and prints the address of the page, and at the end where the decisions are.
    """
    with locked(out):
        session = Session(deck, out, by, seed=seed, folder=folder)
        server = ReviewServer(session, page, port=port, idle=60.0 * minutes)
        remote = bool(os.environ.get("SSH_CONNECTION"))
        try:
            with _doorway(server.address, out.parent, browser and not remote) as opened:
                if not opened:
                    print("Open this address in a browser on this machine:")
                print(server.address, flush=True)
                if remote:
                    print("From another machine, forward the port first, then open the address there:")
                    print(f"  ssh -N -L {server.port}:127.0.0.1:{server.port} USER@THIS-MACHINE")
                print("Ctrl-C stops; every answer is saved as it is given.", flush=True)
                if server.run():
                    print(f"Stopped after {counted(minutes, 'minute')} without an answer.")
        except KeyboardInterrupt:
            print()
        finally:
            if out.exists():
                say(f"Decisions: {out}")
                say(f"Next: {session.next}")
            else:
                print("Nothing was answered, and nothing is written.")


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
