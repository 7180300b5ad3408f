"""A headless Chromium, driven over the pipe of its DevTools protocol: no package and no port is needed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
TIMEOUT = 60.0


def find_chromium() -> str | None:
    """The browser's path, or `None` where there is none."""
    if shutil.which("bash") is None:
        return None
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """A running browser; use it in a `with` block."""

    def __init__(self, executable: str) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            f"--user-data-dir={self._profile.name}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        # The browser reads commands on descriptor 3 and answers on 4; sh would not know descriptors of two digits.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{commands} 4>&{answers}', executable, *options],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._number = 0
        self._buffer = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            self.call("Browser.close")
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError("The browser does not answer.")
            chunk = os.read(self._in, 1 << 20)
            if not chunk:
                raise RuntimeError("The browser has ended.")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path, fragment: str = "", *, width: int = 1200, height: int = 900, **how: Any) -> Page:
        """Open a file from disk in a new tab."""
        return self.visit(path.resolve().as_uri() + (f"#{fragment}" if fragment else ""), width, height, **how)

    def visit(self, address: str, width: int = 1200, height: int = 900, **how: Any) -> Page:
        """Open an address in a new tab."""
        return Page(self, address, width, height, **how)

    def save_downloads(self, folder: Path) -> None:
        """Put what pages let one download into a folder."""
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder.resolve()))


class Page:
    """A tab with a page in it."""

    def __init__(
        self, browser: Browser, address: str, width: int, height: int, *, dark: bool = False, script: bool = True
    ) -> None:
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=address)
        while not self.events("Page.loadEventFired"):
            browser.events.append(browser._receive())

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a method of the protocol, asked of this page."""
        return self._browser.call(method, self._session, **parameters)

    def events(self, method: str) -> list[dict[str, Any]]:
        """What this tab has reported of one kind."""
        return [
            event["params"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event.get("method") == method
        ]

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until a JavaScript expression holds."""
        deadline = time.monotonic() + TIMEOUT / 4
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"It never comes true: {expression}")
            time.sleep(0.02)

    def front(self) -> None:
        """Bring the tab to the front: only there keys arrive."""
        self.call("Page.bringToFront")

    def close(self) -> None:
        """Close the tab."""
        self._browser.call("Target.closeTarget", targetId=self._target)

    def click(self, expression: str) -> None:
        """Click with the mouse in the middle of an element."""
        place = self.evaluate(
            f"(e => {{ e.scrollIntoView({{block: 'center', behavior: 'instant'}}); const r = e.getBoundingClientRect();"
            f" return [r.x + r.width / 2, r.y + r.height / 2]; }})({expression})"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press and release a key: Tab, Enter, Escape, an arrow, or a letter or digit."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "/": 191, "ArrowUp": 38, "ArrowDown": 40}
        codes.setdefault(key, ord(key[0].upper()))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else None)
        how = {"key": key, "windowsVirtualKeyCode": codes[key]} | ({"text": text} if text else {})
        self.call("Input.dispatchKeyEvent", type="keyDown", **how)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=codes[key])

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Save a picture of the page, PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"clip": {"x": 0, "y": 0, "scale": 1} | {side: size[side] for side in ("width", "height")}}
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **(clip if whole else {}))
        path.write_bytes(base64.b64decode(picture["data"]))
