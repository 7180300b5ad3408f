"""Figures from made-up results: every experiment draws, with axes, units and legends, what is in its runs."""

from dataclasses import replace

import numpy as np
import pytest

from harness_fakes import fake_results, with_systems
from shortcut_bench.collect import collect
from shortcut_bench.columns import group_values
from shortcut_bench.experiments import experiment_names, read_experiment
from shortcut_bench.figures import draw
from shortcut_guardrail import ConfigError, DataError


def collected(folder, name, systems=(), **options):
    config = with_systems(read_experiment(name), *systems) if systems else read_experiment(name)
    fake_results(folder, config, **{"seeds": (0, 1), **options})
    return collect(folder, config)


ONE_OF_EACH_KIND = {read_experiment(name).figure["kind"]: name for name in reversed(experiment_names())}


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND.values(), ids=ONE_OF_EACH_KIND)
def test_every_kind_of_figure_has_labels_and_a_legend_with_labels_and_a_legend(name, tmp_path):
    systems = [spec.label for spec in read_experiment(name).systems][:6]
    figure = draw(collected(tmp_path, name, systems))
    labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert labels
    assert not any(label.startswith("_") for label in labels)
    for axes in figure.axes:
        assert axes.get_ylabel() or axes.get_title() or axes.get_shared_y_axes().get_siblings(axes)
        assert axes.has_data()
    assert any(axes.get_xlabel() for axes in figure.axes) or len(figure.axes[0].get_xticklabels()) > 1
    assert "an-encoder" in figure.get_suptitle()
    assert "2 seeds" in " ".join(figure.get_suptitle().split())


def test_the_testbed_draws_its_groups_with_error_bars(tmp_path):
    found = collected(tmp_path, "testbed-proportion")
    (axes,) = draw(found).axes
    assert len(axes.containers) == 4
    name = next(iter(found.runs)).result["groups"][0]["name"]
    line, _, bars = axes.containers[0].lines
    expected = [np.mean(group_values(cell, name)) for cell in found.cells]
    assert line.get_ydata() == pytest.approx(expected)
    errors = [np.std(group_values(cell, name), ddof=1) for cell in found.cells]
    lengths = [segment[1, 1] - segment[0, 1] for segment in bars[0].get_segments()]
    assert lengths == pytest.approx([2 * error for error in errors])
    (alone,) = draw(collected(tmp_path / "one seed", "testbed-proportion", seeds=(0,))).axes
    assert all(np.ptp(segment[:, 1]) == 0 for segment in alone.containers[0].lines[2][0].get_segments())
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "5", "10", "20"]


def test_many_systems_are_rows_with_a_mark_a_metric(tmp_path):
    found = collected(tmp_path, "leaderboard", ["erm", "jtt", "oracle", "guardrail"])
    figure = draw(found)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["GoEmo-ST", "GoEmo-Syn"]
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == found.systems
    handles, labels = figure.axes[0].get_legend_handles_labels()
    marks = handles[labels.index("balanced accuracy")].lines[0]
    cells = {cell.system: cell for cell in found.at("GoEmo-ST", "reversed")}
    expected = {found.systems.index(s): np.mean(cell.values("balanced_accuracy")) for s, cell in cells.items()}
    assert dict(zip(marks.get_ydata(), marks.get_xdata(), strict=True)) == pytest.approx(expected)
    assert "majority class" in labels


def test_what_cannot_be_drawn_is_said(tmp_path):
    found = collected(tmp_path, "shifted", ["erm"], seeds=(0,))
    config = found.experiment
    with pytest.raises(ConfigError, match="no figure of a known kind"):
        draw(replace(found, experiment=replace(config, figure={})))
    with pytest.raises(DataError, match="No run of 'shifted' has any of speed"):
        draw(replace(found, experiment=replace(config, figure={"kind": "comparison", "metrics": ["speed"]})))
    with pytest.raises(DataError, match="stands on an axis"):
        draw(replace(found, experiment=replace(config, figure={"kind": "sweep", "metrics": ["accuracy"], "x": "x"})))


def test_without_matplotlib_it_is_named(tmp_path, monkeypatch):
    found = collected(tmp_path, "testbed-proportion", seeds=(0,))
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ConfigError, match="pip install matplotlib"):
        draw(found)
