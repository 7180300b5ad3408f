"""The box above a table: it says what the runs say, and above the numbers in every format that is read."""

from dataclasses import replace

import pytest

from checkout import ROOT
from harness_fakes import fake_results, with_systems
from shortcut_bench.collect import collect
from shortcut_bench.conditions import PARAMETERS, conditions
from shortcut_bench.experiments import experiment_names, read_experiment
from shortcut_bench.tables import Table, make_table, render

SHIFTED = read_experiment("shifted")
RESULTS = ROOT / "results"
MINILM = next(iter(PARAMETERS))


def few(*settings):
    config = with_systems(SHIFTED, "erm", "guardrail")
    return replace(config, settings=tuple(setting for setting in config.settings if setting.name in settings))


def collected(folder, change=lambda run, record: None, config=None):
    """Made-up runs of Civil and GoEmo-ST, with a change to some of them."""
    config = config or few("Civil", "GoEmo-ST")
    fake_results(folder, config, alter=change)
    return collect(folder, config)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    return collected(tmp_path_factory.mktemp("results"))


def put(*path, value, data="", kind=""):
    """Puts a value into the records of a data set or of a kind of system; of all unless one is named."""

    def change(run, record):
        if data in ("", run.setting.data) and kind in ("", run.spec.kind):
            for key in path[:-1]:
                record = record[key]
            record[path[-1]] = value

    return change


def test_the_box_says_what_made_up_runs_say(unchanged):
    assert conditions(unchanged) == (
        "Backbone: an-encoder. Scale small, seeds 0, 1, 2. Hardware: an abacus, 1 thread, no GPU.",
        "Training rows: 100. Development rows: 20. Scored rows: 120. Texts cut to tokens: 64 (Civil); 128 (GoEmo-ST).",
        "Learning rate of the base classifier: 0.0001, set beforehand (Civil); 5e-05, set beforehand (GoEmo-ST). "
        "Debiasing strength by: rule not recorded (40 labels).",
        "The paper fine-tunes BERT-base (110 million parameters) on more training rows: compare trends, not digits.",
    )


MACHINE = {"processor": "X", "cores": 8, "threads": 1, "gpu": "a GPU"}
CIVIL, TRAIN = "civil-controlled", ("data", "counts", "train")
EACH = {"learning_rates": [1e-4, 2e-4], "select": "each"}
BY_RULE = {"debias_strength": 0, "labels_spent": 9, "selection": "a-rule"}


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (put("config", "encoder", "weights", value=MINILM), 0, "an-encoder (22.7 million parameters)"),
        (put("hardware", value=MACHINE, kind="erm"), 0, "X, 8 cores, 1 thread, a GPU; an abacus, 1 thread, no GPU"),
        (put(*TRAIN, value={"a": 7}, data=CIVIL), 1, "Training rows: 7 (Civil); 100 (GoEmo-ST)."),
        (put("data", "counts", "dev", value={"a": 7}, data=CIVIL), 1, "Development rows: 7 to 20."),
        (put("metrics", "n", value=110, data=CIVIL), 1, "Scored rows: 110 to 120."),
        (put("config", "data", "max_tokens", value=32), 1, "Texts cut to tokens: 32."),
        (put("config", "base", value=EACH), 2, "0.0001, 0.0002, by the development loss of each seed."),
        (put("config", "base", value={**EACH, "select": "seed 0"}), 2, "loss of seed 0."),
        (put("system", "info", value=BY_RULE, data=CIVIL), 2, "a rule (9 labels); rule not recorded (40 labels)."),
        (put(*TRAIN, value={"a": 1124}, data="goemo-st"), 3, "rows (as many on GoEmo-ST): compare"),
    ],
)
def test_other_runs_have_another_box(change, line, said, unchanged, tmp_path):
    assert said in conditions(collected(tmp_path, change))[line]
    assert said not in conditions(unchanged)[line]


def test_seeds_that_some_rows_lack_are_told(tmp_path):
    fake_results(tmp_path, with_systems(few("Civil"), "erm"))
    fake_results(tmp_path, with_systems(few("Civil"), "guardrail"), seeds=(0, 1))
    with pytest.warns(match="do not have all seeds"):
        short = collect(tmp_path, few("Civil"))
    assert "seeds 0, 1, 2 (not all in every row)." in conditions(short)[0]


def test_only_what_rebuilds_a_table_of_the_paper_speaks_of_it(unchanged):
    (*lines, last) = conditions(unchanged)
    beyond = replace(unchanged, experiment=replace(unchanged.experiment, rebuilds=False))
    assert conditions(beyond) == tuple(lines)
    assert "The paper" in last
    not_rebuilt = [name for name in experiment_names() if not read_experiment(name).rebuilds]
    natural = ["natural-shortcuts", "natural-rest"]
    boards = ["leaderboard", "leaderboard-in-distribution", "leaderboard-rest", "leaderboard-rest-synonyms"]
    assert not_rebuilt == [*boards, *natural, "source-recipes", "biaswipe", "fresh-phrase", "fresh-word"]


@pytest.mark.filterwarnings("ignore:The worst group has fewer")
def test_the_box_is_above_the_numbers_in_markdown_and_latex_and_not_in_a_csv_file(unchanged):
    table = make_table(unchanged)
    assert table.box == conditions(unchanged)
    text = render(table, "markdown")
    assert text.split("\n\n")[1].splitlines() == [f"> - {said}" for said in table.box]
    assert render(table, "csv") == render(replace(table, box=()), "csv")
    assert "> - " not in render(replace(table, box=()), "markdown")
    latex = render(Table("t", ("a", "b"), (), (), ("50 % of a_b & #1", "x")), "latex")
    box = r"\begin{quote}\raggedright" "\n" r"50 \% of a\_b \& \#1\par" "\n" r"x\par" "\n" r"\end{quote}"
    assert latex.index(box) < latex.index(r"\begin{tabular}")
    assert "quote" not in render(Table("t", ("a", "b"), (), ()), "latex")
