"""Commands, options and statuses that pages and notebooks name are those that there are."""

import re
from functools import cache

import nbformat
import typer

import notebooks
from checkout import ROOT
from shortcut_guardrail.cli import main, running

COMMANDS = typer.main.get_command(main.app).commands
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(notebooks.NOTEBOOKS.glob("*.ipynb"))]
STATUSES = {0, running.FAILED_RUN, running.BAD_INPUT, running.NOTHING_TO_REPAIR, running.INTERRUPTED}
OTHER_PROGRAMS = {"--nproc-per-node", "--no-python", "--reweight_groups"}  # torchrun's and group_DRO's
OTHER_PROGRAMS |= {"--ablations", "--splits"}  # of experiments that are kept under a tag
EVIDENCE = ROOT / "docs" / "research"
STATUS = re.compile(r"\b(?:ends? with|exit|exits with|exit code|status)(?: status)? (\d+)\b")


def text_of(page):
    if page.suffix == ".md":
        return page.read_text(encoding="utf-8")
    return "\n".join(cell.source for cell in nbformat.read(page, 4).cells)


def options_of(command):
    return {name for one in COMMANDS[command].params for name in (*one.opts, *one.secondary_opts)} | {"--help"}


@cache
def options_of_programs():
    """Options of the benchmark, of experiments and of the other programs that pages of evidence name."""
    folders = ("bench/src", "bench/experiments", "perf", "docs/tools")
    sources = [file.read_text(encoding="utf-8") for folder in folders for file in (ROOT / folder).rglob("*.py")]
    return frozenset(re.findall(r"[\"'](--[a-z][\w-]*)", "\n".join(sources)))


def lines_with_a_command(text):
    """Each command of a page with what follows it, lines that end in a backslash joined."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return re.findall(r"shortcut-guardrail ([a-z][a-z-]*)(?![\w/.:-])([^\n`|#]*)", joined)


def test_commands_options_and_statuses_that_pages_name_are_there():
    known = {name for command in COMMANDS for name in options_of(command)} | OTHER_PROGRAMS
    for page in PAGES:
        text = text_of(page)
        for command, rest in lines_with_a_command(text):
            assert command in COMMANDS, (page, command)
            if command != "benchmark":
                assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", rest)) <= options_of(command), (page, command, rest)
        of_programs = options_of_programs() if EVIDENCE in page.parents else set()
        assert set(re.findall(r"`(--[a-z][\w-]*)", text)) <= known | of_programs, page
        assert {int(status) for status in STATUS.findall(text)} <= STATUSES, page


def test_what_is_wrong_is_seen():
    ((command, rest),) = lines_with_a_command("```\nshortcut-guardrail audit a b \\\n  --with-nothing\n```")
    assert (command, rest.split()[-1]) == ("audit", "--with-nothing")
    assert not set(re.findall(r"--[\w-]+", rest)) <= options_of(command)
    assert STATUS.findall("It ends with status 4, or exits with 5; exit status 6.") == ["4", "5", "6"]
