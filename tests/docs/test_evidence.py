"""Pages show what results and the code hold, and a page that asks for what they do not have fails the build."""

import doctest
import re

import pytest

import evidence
from checkout import ROOT
from evidence import results
from shortcut_bench.statistics import resample

PAGES = sorted(evidence.DOCS.rglob("*.md"))


def shown(template):
    return evidence.ENVIRONMENT.from_string(template).render(evidence.constants())


ASKED = [
    ('{{ results("flips.json").results.where(setting="natural-shortcuts/Amazon/test") | length }}', "3"),
    ("{{ rows.at(seed=1).gap[0] }} {{ short(mean(rows.each('gap[0]'))) }}", "8 6.50"),
    ("{{ rows.where('gap[1] > 1') | length }} {{ rows[0].items }}", "1 own"),
    ("{{ percent(cell[1]) }} % {{ deviation(cell) }} {{ short(cell[-1]) }}", "2 % .81 (.02) .83"),
    ("{{ number('1,124') | int }} {{ digits(0.5, 1) }}", "1,124 0.5"),
    ("{{ signed(0.014, 3) }} {{ power(2.5e-4, 1) }}", "+.014 2.5e-4"),
    ("{{ MOST_QUESTIONS }} {{ short(audit.fdr) }} {{ code('shortcut_guardrail:AuditConfig.unit') }}", "40 .05 phrase"),
]


@pytest.mark.parametrize(("template", "text"), ASKED)
def test_what_a_page_asks_for(template, text):
    rows = "{% set rows = [{'seed': 0, 'gap': [5, 1], 'items': 'own'}, {'seed': 1, 'gap': [8, 2]}] %}"
    assert shown(f"{rows}{{% set cell = '0.812 (0.020) [0.79, 0.83]' %}}{template}") == text


def test_what_is_not_there_is_an_error():
    for template, said in (
        ('{{ results("nowhere.json") }}', "no results/nowhere.json"),
        ('{{ results("review_effort.json").nothing }}', "has no attribute 'nothing'"),
        ('{{ results("flips.json").results.at(seed=0) }}', "records, where one was expected"),
        ("{{ audit.fdr }}", "has to say its form"),
        ("{{ NOWHERE }}", "is undefined"),
    ):
        with pytest.raises(Exception, match=said):
            shown(template)


@pytest.mark.parametrize("page", evidence.for_users(), ids=lambda page: page.relative_to(evidence.DOCS).as_posix())
def test_pages_for_users_have_the_figures_of_today_in_them(page):
    text = page.read_text(encoding="utf-8")
    assert evidence.filled(text) == text, "run python docs/tools/evidence.py"
    assert not re.search("{{|{%", re.sub("<!--.*?-->", "", text, flags=re.DOTALL)), "a repository host shows templates"


def test_figures_that_changed_are_seen_and_the_site_has_no_comments():
    table = "<!-- filled in by\n{% for one in rows %}\n| {{ one }} |\n{% endfor %}\n-->\n| 7 |\n<!-- end -->\n"
    page = f"<!-- given\n{{% set rows = [8, 9] %}}\n-->\n(7<!-- MOST_QUESTIONS -->) `x`<!-- audit.unit -->\n{table}"
    right = page.replace("(7", "(40").replace("`x`", "`phrase`").replace("| 7 |", "| 8 |\n| 9 |")
    assert evidence.filled(page) == right
    assert evidence.for_the_site(right) == "(40) `phrase`\n| 8 |\n| 9 |\n"
    lists = "<!-- on the site\n{{ MOST_QUESTIONS }}\n-->\nSee the site.\n<!-- end -->\n"
    assert (evidence.filled(lists), evidence.for_the_site(lists)) == (lists, "40\n")


def test_a_run_of_an_experiment_and_its_table_agree():
    table = results("natural-shortcuts/natural-shortcuts.md")
    (row,) = (one for one in table if (one["setting"], one["system"]) == ("Amazon", "ltgr"))
    runs = "results('natural-shortcuts/runs.json').runs.where(setting='Amazon', system='ltgr')"
    assert doctest.testmod(evidence).failed == 0
    mean = float(shown(f"{{{{ short(mean({runs}.each('metrics.accuracy')), 6) }}}}"))
    assert evidence.number(row["accuracy"]) == pytest.approx(mean, abs=0.0005)


def test_tables_of_pages_are_whole(monkeypatch):
    monkeypatch.setitem(resample.__kwdefaults__, "resamples", 20)  # which numbers stand in them is asked elsewhere
    for page in PAGES:
        for table in re.findall(r"(?:^\|.*\n)+", shown(page.read_text(encoding="utf-8")), re.MULTILINE):
            _, line, *rows = (re.sub(r"\\\||`[^`]*`", "", row) for row in table.splitlines())
            assert not line.strip("|- "), (page, table[:200])
            assert {row.count("|") for row in rows} == {line.count("|")}, (page, table[:200])


SYSTEMS = {"original model": "erm", "the paper's method, its settings": "guardrail-paper"}
SYSTEMS |= {"the paper's method, our settings": "guardrail", "`distill`, the default": "guardrail-distill"}
SYSTEMS |= {"`mask`, nothing trained": "guardrail-mask", "`few-shot`": "guardrail-few-shot"}
SYSTEMS |= {"plain fine-tuning": "few_shot", "the words removed by hand": "oracle"}


def test_the_results_of_the_readme_are_those_of_the_leaderboard():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = {one["system"]: one for one in results("leaderboard/leaderboard.md") if one["setting"] == "GoEmo-ST"}
    table = re.search(r"^\| \| labels \|.*\n.*\n((?:\|.*\n)+)", readme, re.MULTILINE)
    assert table
    shown = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table[1].splitlines()]
    expected = [["always the majority class", "0", rows["erm"]["majority_class"].split()[0], f"{1 / 4:.3f}", "0.000"]]
    table = (ROOT / "results/leaderboard/leaderboard.md").read_text(encoding="utf-8")
    marks = dict(re.findall(r"^\| GoEmo-ST \| ([\w-]+)([§¶]*) \|", table, re.MULTILINE))
    for name, system in SYSTEMS.items():
        measures = "accuracy", "balanced_accuracy", "worst_group_accuracy"
        accuracy, balanced, worst = (re.sub(r" \[.*", "", rows[system][key]) for key in measures)
        labels = "-" if system == "oracle" else rows[system]["target_labels"]
        expected.append([name + marks[system], labels, accuracy, balanced.split()[0], worst])
    assert shown == [[re.sub(r"\b0\.", ".", cell) for cell in row] for row in expected]
    words = " ".join(readme.split())
    assert f"{rows['erm']['n']} comments (GoEmotions) with" in words
    assert f"an e-value of at least {evidence.constants()['THRESHOLD']:.0f};" in words
