"""The places of the marks of small charts, in the units of their view boxes."""

from shortcut_guardrail.report.charts import histogram, meter
from shortcut_guardrail.report.view import distributions


def test_a_bar_and_the_whisker_of_its_interval():
    assert meter(0.25, (0.125, 0.5)) == {"x": 0, "width": 24, "below": False, "whisker": (12, 48)}
    # A change goes to either side of the centre line, and nothing leaves the frame.
    assert meter(-0.5, (-2, 0.5), signed=True) == {"x": 24, "width": 24, "below": True, "whisker": (0, 72)}
    assert meter(0.5, (None, None), signed=True) == {"x": 48, "width": 24, "below": False, "whisker": None}
    assert meter(None) is None


def test_a_histogram_stands_on_its_axes():
    found = histogram([1, 3], low=-1, high=1, mean=0.5)
    bars = [(bar["x"], bar["width"], bar["height"], bar["count"]) for bar in found["bars"]]
    assert bars == [(49, 247, 50, 1), (298, 247, 150, 3)]
    assert [(bar["low"], bar["high"], bar["y"]) for bar in found["bars"]] == [(-1, 0, 126), (0, 1, 26)]
    assert found["x_ticks"] == [(48, "-1"), (172.5, "-0.5"), (297, "0"), (421.5, "0.5"), (546, "1")]
    assert (found["y_ticks"], found["mean"]) == ([(176, "0"), (126, "1"), (26, "3")], (421.5, "mean 0.500"))
    shared = histogram([1, 3], low=-1, high=1, most=6)
    assert ([bar["height"] for bar in shared["bars"]], shared["mean"], shared["n"]) == ([25, 75], None, 4)
    assert histogram([0, 0], low=0, high=1) is None
    # Those of several models stand side by side.
    few, many = distributions({str(n): {"mstps": 0.1, "sensitivity_histogram": [n]} for n in (2, 6)})
    assert [few["chart"]["bars"][0]["height"], many["chart"]["bars"][0]["height"]] == [50, 150]
