"""Where the tests' checkout lies, for those that read its pages and results."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
