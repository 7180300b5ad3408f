"""Tables from made-up results: the numbers, what is refused, and the three formats."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from harness_fakes import fake_results, with_systems
from shortcut_bench.collect import Collection, collect
from shortcut_bench.experiments import read_experiment
from shortcut_bench.methods import METHODS
from shortcut_bench.positioning import APPROACHES, CHOSEN_BESIDE, PER_INPUT_ATTRIBUTION, SETTLED_ON
from shortcut_bench.registry import built_in_systems, make_system
from shortcut_bench.results import read_index, result_path
from shortcut_bench.statistics import mcnemar
from shortcut_bench.systems import Need
from shortcut_bench.tables import make_table, render
from shortcut_guardrail import ConfigError, DataError, GuardrailWarning
from shortcut_guardrail.metrics import group_accuracy
from shortcut_guardrail.stats.exact import exact_interval

SHIFTED = read_experiment("shifted")
pytestmark = [pytest.mark.usefixtures("few_resamples"), pytest.mark.filterwarnings("ignore:The worst group has fewer")]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    fake_results(folder, with_systems(SHIFTED, "erm", "jtt", "oracle", "guardrail"))
    return folder


@pytest.fixture(scope="module")
def collection(results):
    return collect(results, SHIFTED)


@pytest.fixture(scope="module")
def table(collection, few_resamples):
    return make_table(collection)


def tabled(folder, config, **options):
    """The table of made-up results."""
    fake_results(folder, config, **{"seeds": (0,), **options})
    return make_table(collect(folder, config))


def cell_of(collection, system, setting="GoEmo-ST"):
    return next(cell for cell in collection.cells if (cell.setting, cell.system) == (setting, system))


def entry(table, column, system, setting="GoEmo-ST"):
    row = next(row for row in table.rows if (row[0].text, row[1].text) == (setting, system))
    return row[table.header.index(column)]


def test_means_differences_and_shares_of_the_gap_are_those_of_the_runs(collection, table):
    cell = cell_of(collection, "guardrail")
    values = [run.rows.right.mean() for run in cell.runs.values()]
    found = entry(table, "accuracy", "guardrail")
    assert (found.value, found.spread) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert found.interval[0] < np.mean(values) < found.interval[1]
    base, guard = cell_of(collection, "erm"), cell_of(collection, "guardrail")
    pairs = [mcnemar(base.runs[seed].rows.right, guard.runs[seed].rows.right) for seed in (0, 1, 2)]
    found = entry(table, "p (+gained −lost)", "guardrail")
    assert found.value == max(pair.p_value for pair in pairs)
    assert f"(+{sum(p.gained for p in pairs)} −{sum(p.lost for p in pairs)})" in found.text
    means = [[run.rows.right.mean() for run in cell.runs.values()] for cell in (base, guard)]
    assert entry(table, "accuracy − erm", "guardrail").value == pytest.approx(np.mean(np.subtract(*means[::-1])))
    assert entry(table, "accuracy − erm", "erm").shown() == "-"
    base, guard, best = (np.mean(cell_of(collection, s).values("accuracy")) for s in ("erm", "guardrail", "oracle"))
    found = entry(table, "share of gap, accuracy", "guardrail")
    assert found.value == pytest.approx((guard - base) / (best - base))
    assert found.interval[0] < found.value < found.interval[1]
    assert entry(table, "share of gap, balanced", "guardrail").value != found.value
    assert entry(table, "share of gap, accuracy", "oracle").shown() == "-"


def test_the_worst_group_comes_with_its_size_and_exact_interval(collection, table):
    ends, sizes = [], []
    for run in cell_of(collection, "guardrail").runs.values():
        names = tuple(group["name"] for group in run.result["groups"])
        groups = group_accuracy(run.rows.predictions, run.rows.labels, run.rows.groups, names)
        worst = min((group for group in groups if group.n), key=lambda group: group.accuracy)
        ends.append(exact_interval(round(worst.accuracy * worst.n), worst.n))
        sizes.append(worst.n)
    found = entry(table, "worst-group accuracy", "guardrail")
    assert found.interval == pytest.approx(tuple(np.mean(ends, axis=0)))
    assert (found.mark == "†") == (min(sizes) < 30)
    assert f"n = {min(sizes)}" in entry(table, "worst group", "guardrail").text


def test_small_groups_can_be_left_out_of_the_worst_and_are_warned_about_otherwise(collection, table):
    few = make_table(collection, min_group_size=30)
    assert "†" not in render(few, "csv")
    assert "†" in render(table, "markdown")
    assert "Groups with fewer than 30 rows are not taken for the worst one." in few.notes
    column = "worst-group accuracy"
    assert any(entry(few, column, s).value != entry(table, column, s).value for s in collection.systems)
    with pytest.raises(ConfigError, match="min_group_size must be at least 1, but is 0"):
        make_table(collection, min_group_size=0)
    with pytest.warns(GuardrailWarning, match=r"has fewer than 30 rows in \d+ cells: .* \(n = \d+\)") as caught:
        make_table(collection)
    assert len(caught) == 1


def test_folds_are_scored_together(results, collection):
    """MultiNLI has five folds: five times the rows, and the accuracy of all of them."""
    cell = cell_of(collection, "erm", "MultiNLI")
    assert [run.metrics["n"] for run in cell.runs.values()] == [600, 600, 600]
    entries = [e for e in read_index(results, "shifted") if (e.setting, e.system, e.seed) == ("MultiNLI", "erm", 1)]
    parts = [json.loads(result_path(results, e.run).read_text())["metrics"] for e in entries]
    for metric in ("accuracy", "mstps"):
        assert cell.runs[1].metrics[metric] == pytest.approx(np.mean([part[metric] for part in parts]))
    recall = cell.runs[1].metrics["shortcut_token_recall"]["10"]
    assert recall["n"] == sum(part["shortcut_token_recall"]["10"]["n"] for part in parts)
    assert len(cell.runs[1].rows.sensitivity) == 150


def test_a_setting_without_all_its_folds_is_left_out_with_a_warning(tmp_path):
    config = with_systems(SHIFTED, "erm")
    fake_results(tmp_path, config, seeds=(0,))
    path = tmp_path / "shifted/runs.json"
    record = json.loads(path.read_text())
    record["runs"] = [e for e in record["runs"] if e["fold"] != 3]
    path.write_text(json.dumps(record))
    with pytest.warns(GuardrailWarning, match="'MultiNLI, erm, reversed, seed 0' has 4 of 5 folds and is left out"):
        found = collect(tmp_path, config)
    assert "MultiNLI" not in {cell.setting for cell in found.cells}


@pytest.mark.parametrize("name", ["shifted", "support-size", "adaptation-cost", "mstps"])
def test_an_experiment_has_its_table_in_every_format(name, tmp_path):
    config = replace(read_experiment(name), systems=read_experiment(name).systems[:4])
    table = tabled(tmp_path, config, seeds=(0, 1))
    assert len(table.rows) == len(config.plan())
    assert all(len(row) == len(table.header) for row in table.rows)
    lines = render(table, "markdown").splitlines()
    assert len({line.replace("\\|", "").count("|") for line in lines if line.startswith("|")}) == 1
    cells = list(csv.reader(io.StringIO(render(table, "csv"))))
    assert len({len(row) for row in cells}) == 1
    assert len(set(cells[0])) == len(cells[0]), "every column of a CSV file has its own name"
    assert render(table, "latex").count(r" \\") == len(table.rows) + 1
    shown = [entry.shown() for row in table.rows for entry in row]
    assert shown.count("-") < len(shown) / 2, "most of a table says something"
    assert not any("nan" in cell for cell in shown)


def test_the_table_of_positioning_is_the_papers_where_systems_are_handed_what_it_says(tmp_path):
    # As the paper has it, and then what it has otherwise or does not have.
    expected = {
        "no no no": "group_dro oracle dfr",
        "no yes yes": "ltgr c2l",
        "no yes no": "dfr-sg-paper nfl jtt eata",  # at this scale JTT chooses nothing by groups
        "yes yes no": "tent few_shot",
        "yes yes yes": "guardrail guardrail-per-input",
    }
    names = ("deployment_time", "no_annotation", "attribution", "approach")
    systems = " ".join(expected.values()).split()
    config = with_systems(_with_columns(read_experiment("leaderboard"), *names), *systems)
    table = tabled(tmp_path, config)
    *titles, last = table.header[-4:]
    for said, systems in expected.items():
        for system in systems.split():
            assert " ".join(entry(table, title, system).text for title in titles) == said, system
    assert entry(table, last, "tent").text == "Entropy minimization"
    assert set(APPROACHES) == set(built_in_systems())
    assert set(SETTLED_ON) | set(CHOSEN_BESIDE) | PER_INPUT_ATTRIBUTION <= set(APPROACHES)


def test_what_people_settled_on_scored_rows_is_marked_where_they_did(tmp_path):
    config = with_systems(read_experiment("natural-shortcuts"), "erm", "guardrail-distill", "guardrail-distill-40")
    on_amazon = tabled(tmp_path, config)
    marked = {(row[0].text, row[1].shown()) for row in on_amazon.rows if row[1].mark}
    assert marked == {("Amazon", "guardrail-distill-40§")}
    (note,) = [note for note in on_amazon.notes if note.startswith("§")]
    assert "settled by people who saw its answers to scored rows of this data set" in note
    table = tabled(tmp_path, with_systems(SHIFTED, "erm", "guardrail", "guardrail-distill"))
    shown = {(row[0].text, row[1].shown()) for row in table.rows}
    assert {("GoEmo-ST", "guardrail-distill§"), ("GoEmo-ST", "guardrail¶"), ("Civil", "guardrail-distill")} <= shown
    assert {("GoEmo-Syn", "guardrail"), ("GoEmo-ST", "erm")} <= shown
    assert sum(note.startswith("¶ Rate and steps of this system, or how far") for note in table.notes) == 1
    assert "guardrail-distill§," in render(table, "csv")
    unmarked = tabled(tmp_path / "without", with_systems(SHIFTED, "erm", "few_shot"))
    assert not any(mark in note for mark in "§¶" for note in unmarked.notes)


def test_group_labels_are_those_of_the_rows_whose_groups_a_system_saw(tmp_path):
    config = with_systems(_with_columns(read_experiment("leaderboard"), "group_labels"), "nfl", "dfr", "group_dro")
    table = tabled(tmp_path, config)
    shown = {system: entry(table, "group labels", system).text for system in ("nfl", "dfr", "group_dro")}
    assert shown == {"nfl": "0", "dfr": "20", "group_dro": "100"}


def test_a_column_that_few_data_sets_fill_is_there_where_one_does(tmp_path):
    config = with_systems(_with_columns(read_experiment("real-world"), "n", "worst_overlapping_group"), "erm")

    def fill(run, record):
        if run.setting.name == "Civil":
            group = {"name": "toxic, muslim", "n": 40, "accuracy": (0.5, 0.7)[run.seed], "interval": [0.3, 0.9]}
            record["metrics"]["worst_overlapping_group"] = group

    assert "worst of 16 groups" not in tabled(tmp_path / "empty", config).header
    table = tabled(tmp_path / "filled", config, seeds=(0, 1), alter=fill)
    assert entry(table, "worst of 16 groups", "erm", "Civil").value == pytest.approx(0.6)
    assert entry(table, "worst of 16 groups", "erm", "SST-2").shown() == "-"


def test_what_an_oracle_chose_is_marked_in_every_table(tmp_path):
    config = with_systems(SHIFTED, "erm", "nfl", "dfr-sg-paper", "guardrail")
    rules = {
        "nfl": {"rule": "oracle-worst-group", "oracle": True},
        "dfr-sg-paper": {"rule": "probe-accuracy", "oracle": False},
        "guardrail": "support accuracy",  # as results had it at first
    }

    def choose(run, record):
        if run.spec.label in rules:
            record["system"]["info"]["selection"] = rules[run.spec.label]

    table = tabled(tmp_path, config, alter=choose)
    shown = {row[1].shown() for row in table.rows}
    assert shown == {"erm", "nfl‡", "dfr-sg-paper", "guardrail", "guardrail¶"}
    assert [note for note in table.notes if "‡" in note] == [
        "‡ Chosen by a rule that looks at test labels (an oracle): no method can do that."
    ]
    assert "GoEmo-ST,nfl‡," in render(table, "csv")
    with_rules = make_table(collect(tmp_path, _with_columns(config, "selection")))
    chosen = ["-", "oracle worst group", "probe accuracy", "support accuracy"]
    assert [entry(with_rules, "chosen by", system).shown() for system in ("erm", *rules)] == chosen


def test_an_unknown_format_or_column_is_refused(collection, table):
    with pytest.raises(ConfigError, match="format must be one of markdown, latex, csv, but is 'html'"):
        render(table, "html")
    odd = Collection(_with_columns(SHIFTED, "speed"), collection.cells, "small", "an-encoder")
    with pytest.raises(ConfigError, match="There is no column 'speed'"):
        make_table(odd)


def _with_columns(config, *columns):
    return replace(config, table={"columns": columns})


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        ({"scale": "tiny"}, r"several kinds, scale small and tiny, .*Choose one with --scale"),
        ({"changes": {"epochs": 9}}, r"2 runs of 'SST-2, erm, test, seed 0' .*epochs is 3 in one and 9 in the other"),
        ({"seeds": (1,), "changes": {"max_tokens": 32}}, r"not belong in one table: .*max_tokens is 64 in one and 32"),
    ],
)
def test_runs_that_differ_in_more_than_their_seed_are_refused(second, sentence, tmp_path):
    config = with_systems(read_experiment("real-world"), "erm", "guardrail")
    fake_results(tmp_path, config, seeds=(0,))
    fake_results(tmp_path, config, **{"seeds": (0,), **second})
    with pytest.raises(ConfigError, match=sentence):
        collect(tmp_path, config)
    if "scale" in second:
        assert collect(tmp_path, config, scale="tiny").scale == "tiny"
        with pytest.raises(ConfigError, match=r"no runs of 'real-world' with scale 'paper' \(there are: small, tiny\)"):
            collect(tmp_path, config, scale="paper")


@pytest.mark.parametrize("field", ["test", "index", "labels"])
def test_systems_on_different_rows_are_refused(field, tmp_path):
    def change(run, record):
        if run.spec.label == "erm":
            of = record["data"]["fingerprints"] if field == "test" else record["rows"]
            of[field] = of[field][::-1]

    config = with_systems(read_experiment("real-world"), "erm", "guardrail")
    fake_results(tmp_path, config, seeds=(0,), alter=change)
    with pytest.raises(ConfigError, match="were scored on different rows: the data have changed"):
        collect(tmp_path, config)


def test_systems_around_different_base_classifiers_are_refused(tmp_path):
    config = with_systems(SHIFTED, "erm", "clean", "nfl", "guardrail", "zero_shot")

    def retrained(system, needs):
        def change(run, record):
            if run.spec.label == system:
                record["base"]["train_loss"], record["system"]["needs"] = [0.7, 0.5001], needs

        fake_results(tmp_path / system, config, seeds=(0,), alter=change)
        return collect(tmp_path / system, config)

    assert retrained("clean", ["clean-train"])  # it does not start from the base classifier
    assert retrained("nfl", ["dev", "train"])
    assert retrained("zero_shot", [])
    assert not [kind for kind in METHODS if Need.BASE in make_system(kind).needs]
    for system, needs in (("guardrail", ["deployment"]), ("nfl", ["gradients", "train"])):
        with pytest.raises(ConfigError, match=rf"erm, .*{system}, .*start from base classifiers that differ"):
            retrained(system, needs)


def test_seeds_that_only_some_cells_have_are_warned_about(tmp_path):
    config = with_systems(read_experiment("real-world"), "erm", "guardrail", "guardrail-paper")
    fake_results(tmp_path, config, seeds=(0, 1))
    fake_results(tmp_path, with_systems(config, "erm"), seeds=(2,))
    with pytest.warns(GuardrailWarning, match=r"6 of 9 cells do not have all seeds \[0, 1, 2\]: 'SST-2, guardrail'"):
        found = collect(tmp_path, config)
    table = make_table(found)
    assert table.rows
    (note,) = [note for note in table.notes if note.startswith("Not all seeds")]
    assert "SST-2 guardrail (0, 1)" in note
    assert "erm" not in note


def test_results_that_are_not_there_are_missed_with_the_command(tmp_path):
    with pytest.raises(DataError, match="Make it with: shortcut-guardrail benchmark run shifted --out"):
        collect(tmp_path, SHIFTED)
    runs = fake_results(tmp_path, with_systems(SHIFTED, "erm"), seeds=(0,))
    result_path(tmp_path, runs[0].hash).unlink()
    with pytest.raises(DataError, match="which a list of runs names"):
        collect(tmp_path, SHIFTED)
