"""A method whose run is cut short goes on from its last checkpoint, with what it had noted on the way."""

import dataclasses
import functools
import json
import warnings

import numpy as np
import pytest

from methods_toy import REVERSED
from shortcut_bench.finetuning.checkpoints import MARK_FILE, Checkpoints
from shortcut_bench.methods import training
from shortcut_bench.registry import make_system
from shortcut_guardrail.errors import GuardrailWarning

QUICK = {"recipe": {"learning_rate": 5e-3, "epochs": 3, "batch_size": 32}}
CASES = {
    "jtt, errors of two passes": ("jtt", {**QUICK, "upweights": (4, 5), "identification_rate": 0.05}),
    "nfl, a grid": ("nfl", {**QUICK, "factors": (0.01, 0.1), "select": "dev-accuracy"}),
    "group_dro, best epoch": ("group_dro", {**QUICK, "adjustments": (0.0, 2.0)}),
    "ltgr, late early state": ("ltgr", {**QUICK, "steps": 2, "early_epoch": 2}),
    "ltgr, the base's second epoch": ("ltgr", {"recipe": "base", "steps": 2, "early_epoch": 2}),
    "c2l": ("c2l", QUICK),
    "mixin, its gate and exponent": ("learned_mixin", {**QUICK, "last_theta": 0.2}),
    "interpoll, its draws": ("interpoll", {**QUICK, "folds": 2, "weak_epochs": 2}),
    "identify_mitigate, its words": ("identify_mitigate", QUICK),
    "defi, its teacher": ("defi", {"recipe": {**QUICK["recipe"], "epochs": 1, "batch_size": 48}}),
    "less_learn, its weights": ("less_learn", QUICK),
    "fairflow, its views": ("fairflow", QUICK),
    "ttt, its masks": ("ttt", QUICK),
    "poe, best epoch on labels of the target": ("poe-bow-40", QUICK),
    "poe, several weak learners": ("poe-weak", {**QUICK, "folds": 2, "weak_epochs": 2}),
}


@pytest.fixture(autouse=True)
def at_every_epoch(monkeypatch):
    monkeypatch.setattr(training, "Checkpoints", functools.partial(Checkpoints, every=0))


def fit(material, case, **options):
    kind, config = CASES[case]
    system = make_system(kind, **config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardrailWarning)
        return system.fit(material.for_needs(system.needs), seed=0, **options)


def without_seconds(value):
    if isinstance(value, dict):
        return {name: without_seconds(item) for name, item in value.items() if name != "seconds"}
    return [without_seconds(item) for item in value] if isinstance(value, list | tuple) else value


class Plug:
    """Counts the steps of all trainings, and pulls itself at one."""

    def __init__(self, at=None):
        self.steps, self._at = 0, at

    def __call__(self, stage, done, total):
        if stage != "fine-tune" or done == 0:
            return
        self.steps += 1
        if self.steps == self._at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("case", CASES)
def test_a_method_that_was_cut_short_ends_as_it_would_have(case, material, tmp_path):
    counter = Plug()
    whole = fit(material, case, progress=counter)
    kept = dataclasses.replace(material, checkpoints=tmp_path / "unfinished")
    with pytest.raises(KeyboardInterrupt):
        fit(kept, case, progress=Plug(int(0.7 * counter.steps)))
    last = Plug()
    resumed = fit(kept, case, progress=last)
    assert last.steps < counter.steps * 0.75, "it went on from a checkpoint"
    assert np.array_equal(resumed.predict_proba(REVERSED.texts), whole.predict_proba(REVERSED.texts))
    assert without_seconds(resumed.info()) == without_seconds(whole.info())
    assert resumed.forward_equivalents == whole.forward_equivalents


def test_seconds_hold_what_was_done_before(material, tmp_path):
    case = "group_dro, best epoch"
    kept = dataclasses.replace(material, checkpoints=tmp_path / "unfinished")
    counter = Plug()
    fit(material, case, progress=counter)
    with pytest.raises(KeyboardInterrupt):
        fit(kept, case, progress=Plug(int(0.9 * counter.steps)))
    marks = list((tmp_path / "unfinished").rglob(MARK_FILE))
    assert len(marks) == 2  # of the first point and the second
    for mark in marks:
        mark.write_text(json.dumps({**json.loads(mark.read_text(encoding="utf-8")), "seconds": 500.0}), "utf-8")
    assert 1000 < fit(kept, case).info()["seconds"]["train"] < 1100
