"""What axe-core objects to in a page."""

import importlib.util
from pathlib import Path

import pytest


def violations(page):
    """With every rule that it has, best practices too."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("needs axe-core (pip install axe-playwright-python)")
    page.evaluate((Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8") + "; 0")
    assert page.evaluate("axe.run().then(r => r.passes.length)") > 10
    shown = "[v.id, v.help, ...v.nodes.map(n => n.html)].join(' | ')"
    return page.evaluate(f"axe.run().then(r => r.violations.map(v => {shown}))")
