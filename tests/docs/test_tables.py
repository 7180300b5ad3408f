"""Tables of the pages of evidence whose rows are records of a result: every cell is that of the result."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import page_tables
from checkout import ROOT
from expressions import load
from page_tables import result, rows_of, short
from shortcut_guardrail.decisions import MOST_QUESTIONS
from shortcut_guardrail.strength.calibration import OVERRULING_P


def with_deviation(pair: list[float], digits: int) -> str:
    return f"{short(pair[0], digits)} ({short(pair[1], digits)})"


def share(record: dict[str, Any], key: str) -> str:
    low, high = record[f"{key}_interval"]
    return f"{with_deviation(record[key], 2)} [{short(low, 2)}, {short(high, 2)}]"


def targeted(record: dict[str, Any], *, balanced: bool) -> list[str]:
    """The cells of a strategy from accuracy on; "-" where it was not run in distribution."""
    inside = record["in_distribution"]
    return [
        with_deviation(record["accuracy"], 3),
        share(record, "gap_closed"),
        *([share(record, "gap_closed_balanced")] if balanced else []),
        "-" if inside is None else with_deviation(inside, 3),
    ]


CHOSEN = {"no labels": "without labels", "40 labels": "40 labels", "both": "both", "at full strength": "1"}
STRATEGIES = {
    "`maskcl`": "maskcl",
    "`maskcl`, seeds 1 and 2": "maskcl",
    "`mask`": "mask",
    "`distill`": "distill",
    "`distill`, per input": "distill, per input",
    "`few-shot`": "few-shot",
    "`distill`, shortcuts weighed by the labels too": "distill, targets weighed by 40 labels",
    "`distill`, told the 15 synonyms": "distill, told the words",
    "`mask`, told the 15 synonyms": "mask, told the words",
    "`distill`, all 4,960 texts deployed": "ablation, 4960 texts",
}


def test_strategies_on_inserted_shortcuts() -> None:
    check_strategies(balanced=True, sets=("goemo-st", "goemo-syn"))
    check_strategies(balanced=False, sets=("yelp-st", "yelp-syn"))


def strengths(name: str, kind: str, chosen: str) -> list[str]:
    """The strength of each seed that has the strategy."""
    parts = [result(f"targeted_guard/{name}-{seed}.json")["parts"].get(kind) for seed in range(3)]
    found = [part["strengths"][chosen]["strength"] for part in parts if part and chosen in part["strengths"]]
    return [f"{value:g}".removeprefix("0") or "0" for value in found]


def check_strategies(*, balanced: bool, sets: tuple[str, str]) -> None:
    summary, checked, name, kind = result("targeted_guard/summary.json"), 0, "", ""
    header = "| set | strategy | strength chosen by | strengths | accuracy | share of gap"
    width = 8 if balanced else 7
    for cells in rows_of("strategies-measured.md", header):
        if len(cells) != width:
            continue
        name = {"ST": sets[0], "Syn": sets[1]}.get(cells[0], name)
        if cells[1] == "base / oracle":
            for cell, inside in ((cells[4], ""), (cells[-1], "_in_distribution")):
                bounds = (summary[name][f"{one}{inside}"] for one in ("base", "oracle"))
                assert cell == " / ".join(with_deviation(one["accuracy"], 3) for one in bounds)
            continue
        kind = kind if cells[1] == "the same" else STRATEGIES[cells[1]]
        for chosen in map(CHOSEN.__getitem__, cells[2].split("; ")):
            assert cells[3] == ", ".join(strengths(name, kind, chosen)), cells
            assert cells[4:] == targeted(summary[name][f"{kind}, {chosen}"], balanced=balanced), cells
        checked += 1
    assert checked >= 12


def test_rates_and_steps_of_the_default() -> None:
    runs = result("defaults.json")["runs"]
    rows = rows_of("defaults.md", "| target | steps | texts | layers")
    assert len(rows) == len(runs) == 8
    for cells, run in zip(rows, runs, strict=True):

        def at(part: str, metric: str, strengths: tuple[float, ...], run: Any = run) -> str:
            of = {one["strength"]: one[metric] for one in run[part]}
            return ", ".join(short(of[strength]) for strength in strengths)

        assert float(cells[0].split()[0]) == run["target_change"]
        assert [int(cell) for cell in cells[1:4]] == [run["steps"], run["n"], run["layers"]]
        assert cells[5:7] == [f"{run['learning_rate']:.1e}", f"{run['relative_change']:.3f}"]
        assert cells[7] == at("reversed", "accuracy", (0.0, 0.5, 0.75, 1.0))
        assert cells[8] == at("reversed", "worst_group_accuracy", (0.0, 0.5, 0.75, 1.0))
        assert cells[9] == at("in_distribution", "accuracy", (0.0, 0.75, 1.0))


def test_the_demo_seed_by_seed() -> None:
    seeds = {one["seed"]: one for one in result("demo_seeds.json")["seeds"]}
    rows = rows_of("strategies-measured.md", "| seed | accuracy: base, repaired")
    assert {int(cells[0]) for cells in rows} == set(seeds)
    for cells in rows:
        one = seeds[int(cells[0])]
        turned, held = one["shortcut_reversed"], one["shortcut_as_in_training"]
        groups = turned["guarded"]["groups"].values()
        worst = min(groups, key=lambda group: (group["accuracy"], group["n"]))
        said = f"{worst['n']}, {' to '.join(short(bound, 2) for bound in worst['interval'])}"
        assert cells[2:4] == [short(worst["accuracy"]), said]
        low, high = held["guarded"]["interval"]
        assert cells[1] == f"{short(turned['base']['accuracy'])}, {short(turned['guarded']['accuracy'])}"
        assert cells[4] == f"{short(held['base']['accuracy'])}, {short(held['guarded']['accuracy'])}"
        assert cells[5] == f"{short(low)} to {short(high)}"
        wrong = turned["base"]["groups"]["negative, with shortcut"]
        assert (wrong["n"], wrong["accuracy"]) == (300, 0)


SETS = {"Amazon": "natural-shortcuts/Amazon/test", "Civil": "natural-shortcuts/Civil/test"}
SETS |= {"SST-2": "natural-shortcuts/SST-2/test", "MultiNLI": "natural-shortcuts/MultiNLI/test"}


NEUTRALISED = {"mask": "masked", "distill": "found", "told the shortcut": "the shortcut"}
GUARDS = {
    "what is found": "found",
    "likewise": "three genuine words",
    "three genuine words, told": "three genuine words",
}


def setting_of(name: str) -> str:
    if name in SETS:
        return SETS[name]
    data, kind = name.split(", ")
    return f"in-distribution/{data}/in_distribution" if kind == "in distribution" else f"shifted/{data}/reversed"


def test_rules_for_the_strength() -> None:
    results = {one["setting"]: one for one in result("dial_rules.json")["results"]}
    rows = rows_of("strategies-measured.md", "| set | `distill` neutralises | base | labels alone")
    assert len(rows) == 16
    for cells in rows:
        guards = results[setting_of(cells[0])]["guards"]
        kinds = {name: NEUTRALISED.get(name, "three genuine words") for name in guards}
        kind = GUARDS.get(cells[1], "the shortcut")
        (guard,) = (guards[name] for name in guards if kinds[name] == kind)
        (draws,) = (one for one in guard["draws"] if one["size"] == 40)
        rules = [draws[rule] for rule in ("labels", "without_labels", f"both, {OVERRULING_P}", "both, certified")]
        shown = [short(value) for value in (draws["base"], *(rule["accuracy"] for rule in rules))]
        if "(" in cells[2]:
            worst = [short(value) for value in (draws["base_worst_group"], *(rule["worst_group"] for rule in rules))]
            shown = [f"{value} ({of_group})" for value, of_group in zip(shown, worst, strict=True)]
        assert cells[2:] == shown, cells


ERRORS = {
    "none": "none",
    "10 % either way": "10 % symmetric",
    "20 % either way": "20 % symmetric",
    "10 % of broken answers called mended": "10 % of broken called mended",
    "20 % of broken answers called mended": "20 % of broken called mended",
    "10 % of mended answers called broken": "10 % of mended called broken",
    "20 % of mended answers called broken": "20 % of mended called broken",
}


def test_errors_of_reviewers() -> None:
    found = {(one["errors"], one["share"]): one["shortcut"] for one in result("reviewer_errors.json")["results"]}
    header = "| errors of the reviewer | .50 | .65 | .75 | .85 |"
    assert rows_of("../howto/decide.md", header) == [
        [name, *(short(found[errors, share], 2) for share in (0.5, 0.65, 0.75, 0.85))]
        for name, errors in ERRORS.items()
    ]


CLEAN_SETS = {
    "shifted/GoEmo-ST/clean": "GoEmotions, clean",
    "natural-shortcuts/SST-2/test": "SST-2",
    "shifted/Yelp-ST/clean": "Yelp, clean",
    "natural-shortcuts/Civil/test": "Civil",
    "natural-shortcuts/MultiNLI/test": "MultiNLI",
}


def rate(value: float) -> str:
    """Three digits, and a plain 0 where it never happened."""
    return short(value) if value else "0"


def wrong(cards: list[dict[str, Any]], reviewer: str) -> str:
    rates = [card["reviewers"][reviewer]["within_40"] for card in cards]
    return f"{rate(float(np.mean(rates)))} ({rate(max(rates))})"


def clean_row(entry: dict[str, Any]) -> list[str]:
    """What the page says of a set where nothing should be taken."""
    cards = entry["cards"]
    genuine = [card for card in cards if card["mended"] <= card["broken"]]
    others = [card for card in cards if card["mended"] > card["broken"]]
    most = max(others, key=lambda card: card["reviewers"]["no errors"]["within_40"], default=None)
    shown = ""
    if most is not None:
        often = most["reviewers"]["no errors"]["within_40"]
        shown = f"{', '.join(most['words'][:3])} ({most['mended']} : {most['broken']}), {rate(often)}"
    accuracy = (entry["base"]["accuracy"], entry["repaired"]["scores"]["accuracy"])
    return [
        f"{CLEAN_SETS[entry['setting']]}, seed {entry['seed']}, {entry['n']}",
        str(len(genuine)),
        *(wrong(genuine, reviewer) for reviewer in ("no errors", "20 % symmetric", "20 % one-sided")),
        str(len(others)),
        shown.replace("1.000", "1.00"),
        ", ".join(entry["repaired"]["neutralised"][:3]) or "nothing",
        ", ".join(map(short, accuracy)),
    ]


def clean_rows() -> list[list[str]]:
    entries = [entry for entry in result("flips.json")["results"] if entry["setting"] in CLEAN_SETS]
    return [
        clean_row(entry)
        for entry in sorted(entries, key=lambda one: (list(CLEAN_SETS).index(one["setting"]), one["seed"]))
    ]


def test_sets_where_nothing_should_be_taken() -> None:
    assert rows_of("natural-measured.md", "| set, texts | such cards") == clean_rows()


def alike_rows() -> list[list[str]]:
    rows = []
    for one in sorted(result("alike_words.json")["results"], key=lambda one: one["seed"]):
        base, guards, pools = one["base"], one["guards"], one["random pools"]
        scores = guards["default"]["scores"]
        reached = (base["reversed"], scores["reversed"], base["oracle"])
        held = (base["in distribution"], scores["in distribution"])
        rows.append(
            [
                str(one["seed"]),
                ", ".join(short(each["accuracy"], 3) for each in reached),
                *(both_shares(guards[name]["gap"]) for name in ("default", "one card")),
                *(", ".join(short(each[key], 3) for each in held) for key in ("accuracy", "balanced_accuracy")),
                *(f"{pools[key]['passed']} of {pools['draws']}" for key in pools if key.endswith(" words")),
            ]
        )
    return rows


def both_shares(gap: dict[str, float]) -> str:
    return f"{short(gap['accuracy'], 2)}, {short(gap['balanced_accuracy'], 2)}"


def test_what_is_alike() -> None:
    assert rows_of("natural-measured.md", "| seed | accuracy: base, default, oracle") == alike_rows()


def test_what_stands_beside_the_flips_on_amazon() -> None:
    rows = {cells[0]: cells[1:] for cells in rows_of("natural-measured.md", "| | labels of texts like these")}
    eighty = [one for one in result("amazon_eighty_labels.json")["results"] if one["system"] == "few_shot"]
    flips = [one for one in result("flips.json")["results"] if one["setting"] == "natural-shortcuts/Amazon/test"]
    for name, labelled, n, scores in (
        ("the same on 80", "80", eighty[0]["n"], eighty),
        (
            "a repair by flips, one reviewer",
            f"at most {MOST_QUESTIONS} answers a card",
            flips[0]["n"],
            [one["repaired"]["scores"] for one in flips],
        ),
    ):
        assert len(scores) == 3
        assert rows[name][0] == labelled
        means = [short(float(np.mean([one[key] for one in scores]))) for key in ("accuracy", "worst_group_accuracy")]
        assert rows[name][1:] == [str(n), *means]
    table = (ROOT / "results/natural-shortcuts/natural-shortcuts.md").read_text(encoding="utf-8")
    stored = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| Amazon |")]
    found = {cells[1].strip(" §"): [re.sub(r"^0", "", cells[at].split()[0]) for at in (3, 6)] for cells in stored}
    labels = {cells[1].strip(" §"): cells[13].strip() for cells in stored}
    n = {cells[2].strip() for cells in stored}
    for name, system in {
        "the base": "erm",
        "a classifier on 40 random labels (`few_shot`)": "few_shot",
        "`fit --strategy few-shot`": "guardrail-few-shot",
        '`fit --strategy distill`, told "book"': "guardrail-distill-named",
        "JTT, on the training texts": "jtt",
        "LTGR, on the training texts": "ltgr",
        "C2L, on the training texts": "c2l",
    }.items():
        assert rows[name] == [labels[system], *n, *found[system]], name


NATURAL = {
    "base": "erm",
    "`distill`": "guardrail-distill",
    "`distill --take-influential`": "guardrail-distill-influential",
    "the same with labels": "guardrail-distill-influential-40",
    "`distill`, labels beside (`guardrail-distill-40`)": "guardrail-distill-40",
    "`distill`, told the words": "guardrail-distill-named",
    "`few-shot`": "guardrail-few-shot",
    "`maskcl`": "guardrail",
    "all weights trained on the labels (`few_shot`)": "few_shot",
    "DFR by the paper's setting (`dfr-sg-paper`)": "dfr-sg-paper",
    "JTT by the paper's setting (`jtt-sg-paper`)": "jtt-sg-paper",
    "JTT by its authors' code (`jtt`)": "jtt",
    "LTGR": "ltgr",
    "C2L": "c2l",
    "NFL by the paper's setting (`nfl`)": "nfl",
}


def natural_cells(record: dict[str, str], base: dict[str, str]) -> list[str]:
    """Accuracy, and accuracy of the worst group with its interval; of one seed, there is no deviation."""
    shown = []
    for key, with_interval in (("accuracy", False), ("worst_group_accuracy", True)):
        mean, *deviation = re.findall(r"[\d.]+", re.sub(r"\[.*", "", record[key]))
        cell = short(float(mean)) + (f" ({short(float(deviation[0]))})" if deviation else "*")
        if with_interval:
            # A hair more than half is rounded up, as the value behind three digits may be.
            low, high = (short(float(one) + 1e-9, 2) for one in re.findall(r"[\d.]+", record[key])[-2:])
            cell += f" [{low}, {high}]"
        shown.append(cell)
    return ["the base"] * 2 if record["accuracy"] == base["accuracy"] and record is not base else shown


def test_natural_shortcuts() -> None:
    stored = {(one["setting"], one["system"]): one for one in load("natural-shortcuts/natural-shortcuts.md")}
    rows = rows_of("strategies-measured.md", "| method | labels | Civil")
    assert [cells[0] for cells in rows] == list(NATURAL)
    for cells in rows:
        of = {name: stored.get((name, NATURAL[cells[0]])) for name in ("Civil", "Amazon", "MultiNLI", "SST-2")}
        labels = {name: record["target_labels"] for name, record in of.items() if record}
        most = labels.pop("MultiNLI", labels["Amazon"])
        assert set(labels.values()) == {cells[1].split()[0]}
        assert cells[1].split()[1:] == ([] if most == labels["Amazon"] else ["(MultiNLI", f"{most})"])
        expected: list[str] = []
        for name, record in of.items():
            expected += natural_cells(record, stored[name, "erm"]) if record else ["-", "-"]
        assert cells[2:] == expected[:-1], cells


INFLUENTIAL = {
    "GoEmo-Syn, reversed": "shifted/GoEmo-Syn/reversed",
    "GoEmo-Syn, in distribution": "shifted/GoEmo-Syn/in_distribution",
    "GoEmo, trained on clean texts": "shifted/GoEmo-Syn/clean",
    "Yelp-Syn, reversed, 1,000 reviews, seed 0": "shifted/Yelp-Syn/reversed",
    "Yelp-Syn, in distribution, 1,000 reviews, seed 0": "shifted/Yelp-Syn/in_distribution",
    "Amazon": "natural-shortcuts/Amazon/test",
}


def test_rules_for_influential_words() -> None:
    results = result("influential_words.json")["results"]
    rows = rows_of("strategies-measured.md", "| set | base | nothing of the list | all of it")
    assert len(rows) == len(INFLUENTIAL)
    for cells in rows:
        name, _, oracle = cells[0].partition(" (oracle ")
        found = [one for one in results if one["setting"] == INFLUENTIAL[name]]
        second = "worst_group_accuracy" if name == "Amazon" else "balanced_accuracy"

        def shown(scores: list[dict[str, float]], second: str = second) -> str:
            return " / ".join(short(float(np.mean([one[key] for one in scores]))) for key in ("accuracy", second))

        rules = [[one["rules"][rule] for one in found] for rule in ("none", "all", "today", "unless cleared", "mended")]
        assert cells[1:] == [shown([one["base"] for one in found]), *map(shown, rules)]
        assert not oracle or oracle == shown([one["oracle"] for one in found]) + ")"
        assert {one["n"] for one in found} == {1000} or "1,000" not in name


@pytest.mark.parametrize(("page", "test"), page_tables.compared_by(globals()))
def test_another_last_digit_in_a_checked_table_is_noticed(page: str, test: str, monkeypatch) -> None:
    assert page_tables.unnoticed(page, globals()[test], monkeypatch) == []


def test_every_checked_table_has_its_test() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests/docs").glob("test_*.py"))
    assert [test for _, test in page_tables.checked() if f"def {test}()" not in tests] == []
