"""Photograph report pages in a headless Chromium, as for docs/howto/report.md.

    python docs/tools/report_screenshots.py audit/report.html report.png --view open=honestly --width 390 --dark

Photograph only pages whose texts may be shown: make others with `shortcut-guardrail report --redact`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from browser import Browser, find_chromium


def main() -> None:
    """Parse, open the page, take its picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, help="a report.html")
    parser.add_argument("picture", type=Path, help="the PNG file to write")
    parser.add_argument("--view", default="", help="what the address says after #, such as sort=flip_rate&q=lol")
    parser.add_argument("--section", default="summary", help="the section that is at the top of the picture")
    parser.add_argument("--width", type=int, default=1200)
    parser.add_argument("--height", type=int, default=1000)
    parser.add_argument("--dark", action="store_true")
    arguments = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        sys.exit("No Chromium is installed (apt-get install chromium).")
    with Browser(executable) as browser:
        page = browser.open(
            arguments.page, arguments.view, width=arguments.width, height=arguments.height, dark=arguments.dark
        )
        place = f"document.getElementById('{arguments.section}').getBoundingClientRect().top + scrollY - 16"
        top = 0 if arguments.section == "summary" else page.evaluate(place)
        page.evaluate(f"window.scrollTo({{top: {top}, behavior: 'instant'}})")
        page.screenshot(arguments.picture, whole=False)


if __name__ == "__main__":
    main()
