"""The chart of an audit."""

import sys
import warnings
from dataclasses import replace

import matplotlib
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot

from audits import HOSTILE, UNTESTED, audit, candidate, card, example
from shortcut_guardrail import ConfigError
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.display import whiskers


def test_a_bar_for_each_candidate(monkeypatch):
    report = audit(
        candidate("book", flagged=True, flip_rate=0.8),
        candidate("dull", pushes_towards="negative", flip_rate=0.5),
        candidate("was", pushes_towards=None, flip_rate=0.1, **UNTESTED),
    )
    _, (other, axes) = pyplot.subplots(1, 2)
    ax = report.plot(axes)
    assert (ax is axes, len(other.patches)) == (True, 0)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["book", "dull", "was"]
    assert [bar.get_width() for bar in ax.patches] == [0.8, 0.5, 0.1]
    pulls = [text.get_text().removeprefix("pushes towards ") for text in ax.get_legend().get_texts()]
    assert pulls == ["positive", "negative", "no class"]
    # Classes differ by colour, flagged and not flagged by how strong it is.
    assert len({bar.get_facecolor()[:3] for bar in ax.patches}) == 3
    assert [bar.get_alpha() or bar.get_facecolor()[3] for bar in ax.patches] == [1.0, 0.4, 0.4]
    # The interval of the flip rate, as far as it holds the rate; the first is on top.
    assert [line.round(6).tolist() for line in ax.collections[-1].get_segments()[:2]] == [
        [[0.1, 0], [0.8, 0]],
        [[0.1, 1], [0.5, 1]],
    ]
    assert ax.yaxis_inverted()
    assert len(report.plot(most=2).patches) == 2
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    advice = r"plot needs Matplotlib. Install it with: pip install 'shortcut-guardrail\[plot\]'"
    with pytest.raises(ConfigError, match=advice):
        report.plot()


def test_words_are_no_formulas():
    """A dollar sign begins a formula, and one that is none is an error when the chart is drawn."""
    words = [*HOSTILE, "$\\frac{$", "_x", "$$", "a\nb"]
    report = audit(*(candidate(word, pushes_towards=word) for word in words), label_names=words, predicted=[1] * 12)
    ax = report.plot(most=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()
    assert (len(ax.patches), ax.get_yticklabels()[-1].get_text()) == (len(words), "a[U+000A]b")


def test_whiskers_go_to_both_sides():
    low, high = whiskers([0.5, 0.2], [(0.4, 0.7), (float("nan"), float("nan"))])
    assert (low, high) == (pytest.approx([0.1, 0.0]), pytest.approx([0.2, 0.0]))


def test_a_redacted_audit_has_no_text_of_a_pair():
    flip = Flip.of(0, "positive", "negative", ("one side", "the other"))
    one = replace(example(0, "a book", "book"), text_pair="the other")
    report = audit(candidate("book", examples=(one,)), cards=(card("book", flips=(flip,)),))
    for redact, due in ((False, {"one side", "the other", "a book"}), (True, {None})):
        values = report.to_dict(redact=redact)
        told = [*values["candidates"][0]["examples"], *values["cards"][0]["flips"]]
        assert {one[name] for one in told for name in ("text", "text_pair")} == due
