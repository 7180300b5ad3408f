import time

import numpy as np
import pytest
import torch

from shortcut_guardrail.classifiers import log_probs
from shortcut_guardrail.classifiers.probabilities import checked_probs, geometric_mean, log_softmax
from shortcut_guardrail.errors import RunError
from shortcut_guardrail.models import measured_seconds, n_characters

NAN, EVEN = float("nan"), [[0.25, 0.75]]


def test_probabilities_become_logarithms():
    found = log_probs(checked_probs([[0.25, 0.75], [1, 0], [NAN, NAN]], 3, ["a", "b"], "f"))
    np.testing.assert_allclose(np.exp(found), [[0.25, 0.75], [1, 1e-12], [NAN, NAN]])


@pytest.mark.parametrize("options", [{"requires_grad": True}, {"dtype": torch.bfloat16}])
def test_tensors_serve_as_they_come(options):
    assert checked_probs(torch.tensor(EVEN, **options), 1, ["a", "b"], "f").tolist() == EVEN


def test_what_is_no_probability_is_refused():
    for values, said in (
        ([0.2, 0.8], r"of shape \(2, 2\), a column for each of a, b, but gave shape \(2,\)"),
        *[([[0.5, 0.5]], r"gave shape \(1, 2\)"), ([[1, 0, 0]] * 2, r"gave shape \(2, 3\)")],
        *[(["good", "bad"], "gave a list that is no array of numbers"), (None, r"gave shape \(\)")],
        ([[0.5, 0.5], [NAN, 1]], "NaN beside numbers in 1 row of 2, the first of which is row 1"),
        ([[0.5, 0.5], [2, -1]], "a negative number in 1 row"),
        ([[0.5, float("inf")], [0, 1]], "an infinite number in 1 row of 2, the first of which is row 0"),
        ([[0.5, 0.52], [0.1, 0.1]], "numbers that do not sum to 1 in 2 rows"),
    ):
        with pytest.raises(RunError, match=said):
            checked_probs(values, 2, ["a", "b"], "f")


def test_prompts_without_an_answer_do_not_count():
    one, other = np.array([[-1.0, -2], [-9, NAN], [NAN, NAN]]), np.array([[-3.0, -4], [-5, -6], [NAN, NAN]])
    found = geometric_mean([one, other])
    np.testing.assert_allclose(found, [[np.e / (1 + np.e), 1 / (1 + np.e)]] * 2 + [[NAN, NAN]])
    np.testing.assert_allclose(np.exp(log_softmax(np.array([[1000.0, 1000], [0, -1000]]))), [[0.5, 0.5], [1, 0]])


def test_seconds_are_those_of_a_few_texts(monkeypatch):
    asked, clock = [], iter([10.0, 12.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    texts = ["x" * n for n in range(1, 101)]
    seconds = measured_seconds(lambda few: asked.append(list(few)), texts)
    assert len(asked[0]) == 1
    assert 1 < len(asked[1]) < 10
    assert {asked[1][0], asked[1][-1]} == {texts[0], texts[-1]}
    assert seconds == pytest.approx(2 * 5050 / sum(map(len, asked[1])))
    assert measured_seconds(lambda few: asked.append(few), []) == 0
    assert ([n_characters(text) for text in ("good", ("good", "bad"))], len(asked)) == ([4, 7], 2)
