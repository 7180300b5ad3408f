"""Which predictions a repair changes: counted over all texts, without asking the model what is known."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from shortcut_guardrail import GuardrailWarning, ShortcutGuardrail, Shortcuts, TextClassifier, preset
from shortcut_guardrail.mitigation import changes, choosing
from shortcut_guardrail.strength import Counterfactual
from tiny_models import planted_bag, tiny_bert

NOUNS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
TEXTS = [f"honestly the bad {noun} was awful" for noun in NOUNS] + [f"the {noun} was bad" for noun in NOUNS]


@pytest.fixture
def guard(bag):
    return ShortcutGuardrail(*bag)


@pytest.mark.parametrize(
    ("strategy", "given"), [("mask", planted_bag), ("distill", lambda: tiny_bert(seed=1, n_classes=2))]
)
def test_changes_are_those_of_the_predictions(strategy, given):
    guard = ShortcutGuardrail(*given())
    found = guard.repair(TEXTS, shortcuts=["honestly"], strategy=strategy, strength=1.0).changes
    before, after = guard.predict(TEXTS, strength=0), guard.predict(TEXTS)
    rows = [row for row in range(len(TEXTS)) if before[row] != after[row]]
    assert (found.n, found.changed, found.share) == (24, len(rows), len(rows) / 24)
    assert rows
    assert len(found.examples) == min(5, len(rows))
    # `mask` leaves texts without the word unasked, and nobody has audited them.
    assert (found.shift is None) == (strategy == "mask" or len(guard.label_names) > 2)
    assert [one.row for one in found.examples] == sorted({one.row for one in found.examples} & {*rows})
    for one in found.examples:
        assert (one.text, one.before, one.after) == (TEXTS[one.row], before[one.row], after[one.row])


def test_another_threshold_is_one_at_which_each_class_is_predicted_as_often(guard):
    texts = [*TEXTS, *(f"honestly the {noun} was good" for noun in NOUNS), "the tea was warm"]
    base = guard.predict_proba(texts)
    repair = guard.repair(texts, shortcuts=["honestly"], strategy="mask", strength=1.0, report=guard.audit(texts))
    after, own = guard.predict_proba(texts).argmax(axis=1), base.argmax(axis=1)
    shift = repair.changes.shift
    shifted = (base[:, 1] > shift.threshold).astype(int)
    assert np.bincount(shifted).tolist() == np.bincount(after).tolist() != np.bincount(own).tolist()
    changed, alike = shifted != own, shifted == after
    assert (shift.same, shift.other) == ((changed & alike).sum(), (changed & ~alike).sum())
    assert shift.same + shift.other == repair.changes.changed > shift.other
    assert f"{shift.threshold:.4f} on the original model: {shift.same} of these changes, {shift.other} others" in str(
        repair
    )


def test_texts_that_choose_a_strength_are_drawn_by_the_seed_and_weighed(guard, monkeypatch):
    given, choose, weights = {}, choosing.choose_without_labels, np.arange(24) / 276
    guard.fit(TEXTS, config=preset("mask").with_shortcuts(named=("honestly",)), seed=5)
    monkeypatch.setattr(choosing, "draw", lambda *_, seed: given.update(seed=seed) or (np.arange(24), weights))
    monkeypatch.setattr(choosing, "choose_without_labels", lambda *a, **k: given.update(k) or choose(*a, **k))
    guard.calibrate_without_labels(TEXTS)
    assert (given["seed"], given["weights"] is weights) == (5, True)
    with pytest.warns(GuardrailWarning, match=r"Of the 4 unlabelled texts 2 are distinct\. The certificate takes each"):
        guard.certify([], [], unlabelled=["good soup", "bad soup"] * 2)


def test_nothing_changes_at_strength_0(guard):
    found = guard.repair(TEXTS, shortcuts=["honestly"], strategy="mask", strength=0.0)
    assert (found.changes.changed, found.changes.examples) == (0, ())
    assert found.to_dict()["changes"] == {
        "n": 24,
        "changed": 0,
        "share": 0.0,
        "examples": (),
        "others": (),
        "shift": None,
    }


@pytest.mark.parametrize(
    ("before", "after", "k", "warned"),
    [
        (2.0, 2.2, 50, True),  # from .881 to .900, and no decision changes
        (2.0, 2.2, 20, False),  # of 50 texts 30 are left to the base
        (0.001, -0.001, 1, True),  # one decision of 50 changes, by next to nothing
        (0.001, 0.002, 50, False),
    ],
)
def test_another_label_that_moves_or_is_decided_otherwise_is_warned_of(before, after, k, warned):
    """By texts without the words: those with them, the last 50 of 100, move in any case."""
    base = TextClassifier(*tiny_bert(problem_type="multi_label_classification"), label="mixed")
    answers = np.zeros((2, k + 50, 3, 2), dtype=np.float32)
    answers[0, :, 2, 1], answers[1, :, 2, 1] = before, [after] * k + [-9] * 50
    asked, without = np.r_[:k, 50:100], np.arange(100) < 50
    with pytest.warns(GuardrailWarning, match="also changes positive, on texts") if warned else nullcontext():
        found = changes._others(base, None, asked, *answers, without)
    moved = 1 / (1 + np.exp([-before, -after]))
    assert [(one.label, one.n) for one in found] == [("negative", 50), ("positive", 50)]
    assert (found[0].moved, found[1].moved) == (0, pytest.approx(abs(moved[1] - moved[0]) * k / 50, abs=1e-6))
    assert found[1].changed == ((before > 0) != (after > 0)) * k / 50


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
    assert changes.prediction_changes(*about, probs=probs, seed=1).examples != known.examples
    asked.clear()
    assert (changes.prediction_changes(*about, probs=None), asked) == (replace(known, shift=None), [12, 12])
    # Of several labels one is known, and the others are not.
    one = TextClassifier(*tiny_bert(problem_type="multi_label_classification"), label="mixed")
    same, texts = SimpleNamespace(only=None, at=lambda _: nullcontext(one)), one.encode(TEXTS)
    of = one, same, texts, 1.0, guard.shortcuts.finder
    found = changes.prediction_changes(*of, probs=one.predict_proba(texts))
    assert found == changes.prediction_changes(*of, probs=None)
    assert [(other.n, other.moved) for other in found.others] == [(12, 0)] * 2


def test_kept_answers_are_those_of_a_guard_its_precision_words_texts_and_strengths(guard, tmp_path, monkeypatch):
    guard.fit(TEXTS, config=preset("mask").with_shortcuts(named=("honestly",)))
    base, fitted, choice, asked = guard._base, guard._fitted, guard._choice, []
    answer, kept, told = type(fitted.guard).logits_by_strength, tmp_path / "answers.npz", []
    monkeypatch.setattr(type(fitted.guard), "logits_by_strength", lambda *a, **k: asked.append(a) or answer(*a, **k))
    some, note = replace(fitted, unlabelled=SimpleNamespace(strength=0.4)), lambda *now: told.append(now)
    for of, texts, precision in (
        *((of, TEXTS, "float32") for of in (fitted, replace(fitted, shortcuts=Shortcuts()), fitted, some)),
        *((fitted, TEXTS[1:], precision) for precision in ("float32", "bfloat16")),
    ):
        base.precision, n = precision, len(asked)
        for _ in range(2):
            strengths, found = choosing.answers_by_strength(base, of, choice, texts, kept=kept, progress=note)
            assert (len(asked), found.shape) == (n + 1, (len(strengths), len(texts)))
    assert told[:11] == [("Calibrating", i, 11) for i in range(1, 12)]


class _Along:
    """A guard, and its base, whose predictions for one text come closest to (.9, .1) at strength `best`."""

    def __init__(self, best):
        self.best, self.asked = best, []

    def logits_by_strength(self, encoded, strengths, progress=None):
        self.asked += strengths
        return np.array([[[2.0 * np.log(3) - 9 * abs(s - self.best), 0.0]] for s in strengths])

    def predict_logits(self, encoded):
        return self.logits_by_strength(encoded, [0.0])[0]


@pytest.mark.parametrize(("best", "tried"), [(1.0, 4), (0.8, 6), (0.5, 9), (0.1, 11), (0.0, 11)])
def test_strengths_are_tried_from_the_largest_down_until_two_are_worse(best, tried):
    guard = _Along(best)
    fitted = SimpleNamespace(guard=guard, config=preset("distill"))
    expected = Counterfactual(np.log([[0.9, 0.1]]), np.array([True]))
    steps = []
    chosen = choosing._from_the_largest(guard, fitted, [0], expected, None, lambda *said: steps.append(said[1:]))
    assert chosen.strength == pytest.approx(best)
    assert guard.asked == [0.0, *(round(1 - 0.1 * i, 1) for i in range(tried - 1))]
    assert [point.strength for point in chosen.curve] == sorted(guard.asked)
    assert steps == [(i, 11) for i in range(1, tried + 1)]


def test_a_certificate_is_about_the_strength_that_texts_chose_and_half_of_it(guard):
    guard.repair(TEXTS, shortcuts=["honestly"], strategy="mask")
    chosen = guard.debias_strength
    others = [f"{text}, it rained" for text in TEXTS]
    found = guard.certify([], [], unlabelled=others)
    assert [point.strength for point in found.points] == [chosen / 2, chosen]
    guard.debias_strength = 0.3  # by hand: what is certified stays what it was
    assert len(guard.certify([], [], unlabelled=others).points) == 2
    guard.calibrate(TEXTS[:8], [0, 1] * 4)  # these labels may certify too, so nothing that they chose is singled out
    found = guard.certify([], [], unlabelled=others)
    assert [point.strength for point in found.points] == pytest.approx([0.1 * i for i in range(1, 11)])
    guard.calibrate_without_labels(TEXTS)  # nothing of what was chosen before stays beside the new choice
    record = guard.record()
    assert (record.strength_source, record.calibration, record.certificate) == ("agreement", None, None)
    assert record.support_hashes == ()


def test_names_that_somebody_gave_stay_where_an_audit_has_the_models_own(bag):
    report = ShortcutGuardrail(*bag).audit(TEXTS)
    given, own = ShortcutGuardrail(*bag, label_names=("no", "yes")), ShortcutGuardrail(*bag)
    for guard, names in ((given, ("no", "yes")), (own, ("negative", "positive"))):
        guard.repair(TEXTS, shortcuts=["honestly"], strategy="mask", report=report)
        assert guard.label_names == names
