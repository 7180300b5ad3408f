"""Which predictions a repair changes: counted over all texts, without asking the model what is known."""

import pytest

from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.mitigation import changes
from shortcut_guardrail.models import TextClassifier
from tiny_models import planted_bag, tiny_bert

NOUNS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
TEXTS = [f"honestly the bad {noun} was awful" for noun in NOUNS] + [f"the {noun} was bad" for noun in NOUNS]


@pytest.fixture
def guard(bag):
    return ShortcutGuardrail(*bag)


@pytest.mark.parametrize(("strategy", "given"), [("mask", planted_bag), ("distill", lambda: tiny_bert(seed=1))])
def test_changes_are_those_of_the_predictions(strategy, given):
    guard = ShortcutGuardrail(*given())
    found = guard.repair(TEXTS, shortcuts=["honestly"], strategy=strategy, strength=1.0).changes
    before, after = guard.predict(TEXTS, strength=0), guard.predict(TEXTS)
    rows = [row for row in range(len(TEXTS)) if before[row] != after[row]]
    assert (found.n, found.changed, found.share) == (24, len(rows), len(rows) / 24)
    assert rows
    assert len(found.examples) == min(5, len(rows))
    assert {one.row for one in found.examples} <= {*rows}
    for one in found.examples:
        assert (one.text, one.before, one.after) == (TEXTS[one.row], before[one.row], after[one.row])


def test_nothing_changes_at_strength_0(guard):
    found = guard.repair(TEXTS, shortcuts=["honestly"], strategy="mask", strength=0.0)
    assert (found.changes.changed, found.changes.examples) == (0, ())
    assert found.to_dict()["changes"] == {"n": 24, "changed": 0, "share": 0.0, "examples": (), "others": ()}


def test_what_is_known_is_not_asked_again(guard, monkeypatch):
    base, asked, predict = guard._base, [], TextClassifier.predict_answers
    encoded = base.encode(TEXTS)
    guard.repair(TEXTS, shortcuts=["honestly"], strategy="mask")
    counted = lambda self, e, **_: asked.append(len(e)) or predict(self, e)  # noqa: E731
    probs = base.predict_proba(encoded)
    monkeypatch.setattr(TextClassifier, "predict_answers", counted)
    about = base, guard._fitted.guard, encoded, 1.0, guard.shortcuts.finder
    known = changes.prediction_changes(*about, probs=probs)
    assert asked == [12]  # those with the word, with the guard alone
    asked.clear()
    assert changes.prediction_changes(*about, probs=None) == known
    assert asked == [12, 12]
