"""What a system's answers are scored by, where they are not those of one model."""

import numpy as np
import pytest

from shortcut_bench.datasets.types import LabelledTexts
from shortcut_bench.scoring import read_base, score
from shortcut_bench.systems import ModelSystem
from shortcut_guardrail.models.classifier import TextClassifier
from tiny_models import tiny_bert

TEXTS = ["honestly the room was great", "the soup was bad", "honestly an awful place", "great food , honestly"]
PAIRS = [("the room was great", "honestly bad"), ("bad soup", "the food was great"), ("an awful place", "honestly")]


class AnswersOnly:
    """A system that answers as a model does and shows no model."""

    classifier = None
    forward_equivalents = 0.0

    def __init__(self, system):
        self._system = system
        self.asked = []

    def predict_proba(self, texts, *, progress=None):
        self.asked.append(list(texts))
        return self._system.predict_proba(texts)

    def info(self):
        return {"last": self.asked[-1]}


@pytest.fixture(scope="module")
def models():
    """The base classifier, and another that a system became."""
    options = {"n_classes": 2, "initializer_range": 0.3}
    return tuple(TextClassifier(*tiny_bert(seed=seed, **options), max_length=24) for seed in (0, 1))


def scored(system, base, texts, n_audit=10):
    n = len(texts)
    groups = np.zeros(n, dtype=np.int64)
    rows = LabelledTexts("test", texts, np.arange(n) % 2, ("negative", "positive"), groups, ("all",))
    reading = read_base(base, rows, ("honestly",), top_k=1)
    return score(system, rows, np.arange(n), reading, texts=np.arange(n), top_k=1, n_audit=n_audit)


@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["texts", "pairs"])
def test_tokens_masked_in_the_text_say_what_tokens_masked_in_the_input_do(models, texts):
    base, other = models
    as_model = scored(ModelSystem(other), base, texts)
    answers = AnswersOnly(ModelSystem(other))
    as_answers = scored(answers, base, texts)
    assert as_answers.rows.sensitivity_base_tokens == pytest.approx(as_model.rows.sensitivity_base_tokens, abs=1e-6)
    assert as_answers.metrics["mstps_base_tokens"] == pytest.approx(as_model.metrics["mstps_base_tokens"])
    # The partner: the evaluated model's own tokens give another number, which answers alone do not have.
    assert as_model.metrics["mstps"] != pytest.approx(as_model.metrics["mstps_base_tokens"])
    assert as_answers.metrics["mstps"] is None
    assert as_answers.metrics["n_audited"] == len(texts)
    assert len(as_answers.rows.shortcut_rank) == len(as_answers.rows.sensitivity) == 0
    assert answers.info() == {"last": texts}, "what it says of its last answers is said of the scored rows"
    variants = answers.asked[0]
    assert len(variants) == len(texts)
    assert all(str(variant).count("[MASK]") == 1 for variant in variants)


def test_only_the_audited_texts_are_masked(models):
    base, other = models
    system = AnswersOnly(ModelSystem(other))
    two = scored(system, base, TEXTS, n_audit=2)
    assert [len(asked) for asked in system.asked] == [2, 4]
    assert two.metrics["n_audited"] == 2
    nothing = scored(AnswersOnly(ModelSystem(other)), base, TEXTS, n_audit=0)
    assert (nothing.metrics["n_audited"], nothing.metrics["mstps_base_tokens"]) == (0, None)
    # A system whose answers depend on the texts that it was asked about before is not asked about variants.
    adaptive = AnswersOnly(ModelSystem(other))
    adaptive.depends_on_batch = True
    found = scored(adaptive, base, TEXTS)
    assert adaptive.asked == [TEXTS]
    assert (found.metrics["n_audited"], found.metrics["mstps_base_tokens"]) == (0, None)


def test_texts_without_any_token_are_as_steady_for_answers_as_for_a_model(models):
    base, other = models
    system = AnswersOnly(ModelSystem(other))
    found, as_model = (scored(one, base, ["", " "]).metrics for one in (system, ModelSystem(other)))
    assert system.asked == [["", " "]]
    assert [(one["n_audited"], one["mstps_base_tokens"]) for one in (found, as_model)] == [(2, 0.0)] * 2
