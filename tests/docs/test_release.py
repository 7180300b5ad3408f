"""The version and the changelog of a release."""

import datetime
import re
import tomllib

import shortcut_guardrail
from checkout import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere():
    projects = [tomllib.loads((ROOT / at / "pyproject.toml").read_text(encoding="utf-8")) for at in (".", "bench")]
    cited = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    newest = re.findall(r"^## (\S+) \(", CHANGELOG, re.MULTILINE)[:1]
    versions = [project["project"]["version"] for project in projects] + cited + newest
    assert versions == [shortcut_guardrail.__version__] * 4


def test_a_version_has_its_day_and_the_changelog_says_nothing_twice():
    days = re.findall(r"^## \S+ \((.*)\)$", CHANGELOG, re.MULTILINE)
    assert [datetime.date.fromisoformat(day) for day in days if day != "unreleased"]
    entries = re.findall(r"^- (.*?)(?=^- |^#|\Z)", CHANGELOG, re.MULTILINE | re.DOTALL)
    firsts = [entry.split(".")[0] for entry in entries]
    assert len(set(firsts)) == len(firsts)
