"""The tables of docs/research/reproduction.md, the paper's numbers in them, and what the page says about them."""

import re
from dataclasses import replace

import numpy as np
import pytest

from checkout import ROOT
from harness_fakes import fake_results, with_systems
from shortcut_bench.collect import collect
from shortcut_bench.experiments import experiment_names, read_experiment
from shortcut_bench.reproduction import NUMBERS, Claim, beside_the_paper, read_numbers

PAGE = ROOT / "docs" / "research" / "reproduction.md"
PAPER = read_numbers(NUMBERS)
REPRODUCED = [name for name in experiment_names() if read_experiment(name).rebuilds]
pytestmark = pytest.mark.usefixtures("few_resamples")


def block(results, name="shifted", comparison=None):
    return beside_the_paper(name, results, images_from=results, comparison=comparison)


def few(name, *systems, settings=slice(None)):
    config = with_systems(read_experiment(name), *systems)
    return replace(config, settings=config.settings[settings])


def row(text, setting, system):
    """The row of a Markdown table, by the titles of its columns, whatever mark stands at the system's name."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    titles, _, *cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rows = [dict(zip(titles, one, strict=True)) for one in cells]
    return next(one for one in rows if (one["setting"], one["system"].rstrip("‡§¶")) == (setting, system))


def test_our_mean_and_the_papers_number_stand_side_by_side(tmp_path):
    config = few("shifted", "erm", "guardrail")
    fake_results(tmp_path, config)
    text = block(tmp_path)
    values = next(c for c in collect(tmp_path, config).cells if (c.setting, c.system) == ("GoEmo-ST", "guardrail"))
    accuracy = values.values("accuracy")
    found = row(text, "GoEmo-ST", "guardrail")
    assert found["accuracy"].startswith(f"{np.mean(accuracy):.3f} ({np.std(accuracy, ddof=1):.3f}) [")
    assert found["accuracy, paper"] == "0.627"
    assert found["worst-group accuracy, paper"] == "0.339"
    assert "n = " in found["worst group"]
    assert row(text, "GoEmo-ST", "erm")["accuracy, paper"] == "0.513"
    assert text.index("> - Backbone: an-encoder. Scale small, seeds 0, 1, 2.") < text.index("| setting |")


def test_systems_of_the_paper_that_we_have_not_run_have_rows_without_ours(tmp_path):
    fake_results(tmp_path, few("shifted", "erm"))
    text = block(tmp_path)
    found = row(text, "Civil", "JTT, in the paper only")
    assert (found["n"], found["accuracy"], found["accuracy, paper"]) == ("-", "-", "0.532")
    assert row(text, "Civil", "SG, in the paper only")["accuracy, paper"] == "0.572"
    claim = paper_like(Claim("worst_group_accuracy", "SG", "higher", "JTT"))
    not_here = "not run here; in the paper in 4 of 6 settings (not: MultiNLI; Yelp-Syn)."
    assert not_here in block(tmp_path, "shifted", claim)
    fake_results(tmp_path, few("shifted", "guardrail"))
    assert "SG, in the paper only" not in block(tmp_path)


def paper_like(claim):
    return replace(PAPER["shifted"], claims=(claim,))


def test_a_claim_is_counted_here_and_in_the_paper(tmp_path):
    config = few("shifted", "erm", "guardrail")
    fake_results(tmp_path, config)
    collection = collect(tmp_path, config)
    means = {(c.setting, c.system): np.mean(c.values("accuracy")) for c in collection.cells}
    settings = [s.name for s in config.settings]
    for relation, holds in (("higher", np.greater), ("lower", np.less)):
        claim = Claim("accuracy", "SG", relation, "ERM", interval="difference")
        k = sum(holds(means[s, "guardrail"], means[s, "erm"]) for s in settings)
        text = block(tmp_path, "shifted", paper_like(claim))
        line = next(x for x in text.splitlines() if x.startswith('- "accuracy"'))
        assert f"is {relation} than that of ERM: here `guardrail` in {k} of 6 settings" in line
        assert f"in the paper in {6 if relation == 'higher' else 0} of 6 settings" in line
        differences = [row(text, s, "guardrail")["accuracy − erm"] for s in settings]
        ends = [[float(x) for x in re.search(r"\[(.*), (.*)\]", d).groups()] for d in differences]
        clear = sum(low > 0 if relation == "higher" else high < 0 for low, high in ends)
        assert f", {clear} of them with a 95 % interval of the difference that excludes 0" in line


def test_systems_are_compared_on_the_seeds_that_both_have(tmp_path):
    accuracies = {"erm": (0.9, 0.1, 0.1), "guardrail": (0.6,)}

    def score(run, record):
        record["metrics"]["accuracy"] = accuracies[run.spec.label][run.seed]

    for system, given in accuracies.items():
        config = few("shifted", system, settings=slice(4, 5))
        fake_results(tmp_path, config, seeds=tuple(range(len(given))), alter=score)
    text = block(tmp_path, "shifted", paper_like(Claim("accuracy", "SG", "higher", "ERM")))
    # Its one seed is above the base's mean over three, and below the base with that seed.
    assert row(text, "GoEmo-ST", "erm")["accuracy"].startswith("0.367 (")
    said = "is higher than that of ERM: here `guardrail` in 0 of 1 settings (on the seeds that both sides have);"
    assert said in text


def test_a_trend_is_counted_over_steps_within_a_family(tmp_path):
    config = few("lambda-sweep", "erm", "guardrail")
    fake_results(tmp_path, config)
    line = next(x for x in block(tmp_path, "lambda-sweep").splitlines() if "minus that of ERM" in x)
    assert line.endswith("in the paper in 4 of 5 steps (not: Civil, λ = .8 to Civil, λ = .9).")
    cells = {(c.setting, c.system): np.mean(c.values("accuracy")) for c in collect(tmp_path, config).cells}
    gap = [cells[s.name, "guardrail"] - cells[s.name, "erm"] for s in config.settings]
    yelp, civil = gap[2::-1], gap[:2:-1]
    rising = sum(int((np.diff(family) > 1e-9).sum()) for family in (yelp, civil))
    assert f"here `guardrail` in {rising} of 5 steps" in line


def test_the_page_has_the_tables_of_every_experiment():
    names = re.findall(r'{{ beside_the_paper\("(.+)"\) }}', PAGE.read_text(encoding="utf-8"))
    assert sorted(names) == sorted(REPRODUCED) == sorted(PAPER)


def test_the_tables_are_made_from_what_is_committed(tmp_path):
    text = beside_the_paper("shifted", ROOT / "results", images_from=PAGE.parent)
    assert row(text, "GoEmo-ST", "guardrail")["accuracy"].startswith("0.5")
    for file in ("runs.parquet", "predictions.parquet", "test_sets.parquet"):
        (tmp_path / file).symlink_to(ROOT / "results" / file)
    with pytest.raises(LookupError):
        beside_the_paper("shifted", tmp_path, images_from=PAGE.parent)


@pytest.mark.parametrize("name", REPRODUCED)
def test_settings_and_systems_are_those_of_the_experiments(name, tmp_path):
    config, comparison = read_experiment(name), PAPER[name]
    assert set(comparison.settings) <= {setting.name for setting in config.settings}
    fake_results(tmp_path, config, seeds=(0,))
    not_run = [line for line in block(tmp_path, name).splitlines() if "not run here" in line]
    assert all(re.search("than that of (JTT|NFL|DFR): not run here", line) for line in not_run)
    for claim in comparison.claims:
        assert set(claim.only) <= {setting.name for setting in config.settings}


TABLES = {"realworld_results": "real-world", "ood_results": "shifted", "id_results": "in-distribution"}


@pytest.fixture
def latex(shared_data):
    """The numbers in each cell of each line of a table of the paper's source; `{--}` is nan."""
    path = shared_data.parent / "paper" / "shortcut_guardrail.tex"
    if not path.exists():
        pytest.skip("needs the paper's source beside the data")
    source = path.read_text(encoding="utf-8").replace("$-$", "-").replace("$+$", "").replace("{--}", "nan")

    def lines(label):
        tables = re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", source, flags=re.DOTALL)
        (table,) = [table for table in tables if f"\\label{{{label}}}" in table]
        cells = [[re.findall(r"-?\d[\d,]*\.?\d*|nan", cell) for cell in line.split("&")] for line in table.splitlines()]
        return [[cell for cell in line if cell] for line in cells]

    return lines


def numbers(lines, n):
    """The first number of each of the last n cells, of the lines that have them."""
    return [[float(cell[0].replace(",", "")) for cell in line[-n:]] for line in lines if len(line) >= n]


@pytest.mark.parametrize("label", TABLES)
def test_the_numbers_are_those_of_tables_1_2_and_9(label, latex):
    numbers_of, columns = PAPER[TABLES[label]].numbers, ("accuracy", "worst_group_accuracy")
    ours = [list(values) for column in columns for values in numbers_of[column].values()]
    printed = [line for line in numbers(latex(f"tab:{label}"), len(ours[0])) if all(x < 1 or np.isnan(x) for x in line)]
    assert np.array_equal(np.array(printed), np.array(ours, dtype=float), equal_nan=True)


def test_the_numbers_are_those_of_tables_3_4_and_8(latex):
    mstps = numbers(latex("tab:mstps"), 5)
    assert np.array_equal(mstps, np.transpose(list(PAPER["mstps"].numbers["mstps"].values())))
    sweep = np.array(numbers(latex("tab:lambda"), 6))
    columns = [PAPER["lambda-sweep"].numbers[c][s] for c in ("accuracy", "worst_group_accuracy") for s in ("ERM", "SG")]
    assert np.array_equal(sweep[:, [0, 1, 3, 4]], np.transpose(columns))
    sizes = [size for name in ("real-world", "shifted") for size in PAPER[name].sizes.values()]
    assert np.array_equal(numbers(latex("tab:dataset_sizes"), 9), np.transpose(sizes))
