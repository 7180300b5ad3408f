"""What labelled texts say of candidates: the tests behind clearing and confirming."""

import numpy as np
import pytest
import torch

from shortcut_guardrail import Shortcut, ShortcutConfig
from shortcut_guardrail.shortcuts.labels import Paired, paired_evidence, weigh
from shortcut_guardrail.stats.paired import sign_flip_test


def test_paired_evidence_counts_answers_with_and_without(classifier):
    support = classifier.encode(["honestly bad", "honestly awful", "honestly good", "bad soup"])
    items = [Shortcut("honestly", "found", "flagged"), Shortcut("zebra", "found", "flagged")]
    found = paired_evidence(classifier, items, support, np.array([0, 1, 1, 0]))
    assert [(one.n, one.fixed, one.broken) for one in found] == [(3, 1, 1), (0, 0, 0)]
    logits = classifier.predict_logits(classifier.encode(["honestly bad", "[MASK] bad"]))
    probs = torch.from_numpy(logits).softmax(dim=-1).numpy()
    assert found[0].changes[0] == pytest.approx(probs[1, 0] - probs[0, 0])
    assert [len(one.changes) for one in found] == [3, 0]


def test_a_labelled_text_counts_once(classifier):
    texts, labels = ["honestly bad", "honestly awful", "the soup was good"], np.array([0, 0, 1])
    item = [Shortcut("honestly", "found", "flagged")]
    (once,) = paired_evidence(classifier, item, classifier.encode(texts), labels)
    (often,) = paired_evidence(classifier, item, classifier.encode([*texts, *texts[:1] * 5]), np.r_[labels, [0] * 5])
    assert (once.n, once.fixed) == (often.n, often.fixed) == (2, 2)
    # The partner: the same text with another label is another observation.
    (both,) = paired_evidence(classifier, item, classifier.encode([*texts, texts[0]]), np.r_[labels, [1]])
    assert (both.n, both.fixed, both.broken) == (3, 2, 1)


def test_slight_gains_and_more_broken_than_fixed_are_no_evidence_slight_losses_are():
    assert (sign_flip_test(np.zeros(0)), sign_flip_test(np.full(15, 0.5))) == (1, 2**-15)
    assert sign_flip_test(np.full(40, 0.5)) == pytest.approx(1e-5)
    # A legitimate word: it holds the right class down a little here, and up a lot in texts that are not among these.
    assert sign_flip_test(np.full(30, 0.09)) == 1
    assert sign_flip_test(np.r_[np.full(30, -0.02), np.full(10, 0.3)]) < 0.01
    assert sign_flip_test(np.r_[np.full(10, 0.3), np.full(10, -0.3)]) > 0.5
    # Most texts lose a little, a few gain: the mean is below 0.
    assert sign_flip_test(np.r_[np.full(48, -0.09), np.full(12, 0.3)]) > 0.5
    for broken in (2, 3):
        found = weighed((BOOK, Paired(8, 3, broken, np.full(8, 0.4))))
        assert found == ({"book": ("confirmed", 2**-8)} if broken == 2 else {})


SERVICE = Shortcut("service", "found", "flagged", 900, 0.5)
BOOK, SOME = Shortcut("book", "cleared", None, 300, 0.3), Shortcut("some", "cleared", None, 10, 0.1)
SILENT, TELLING = (Paired(7, 1, 0, np.full(7, change)) for change in (0.0, 0.4))  # p = 1 and 1 / 128


def weighed(*pairs, **config):
    items, evidence = zip(*pairs, strict=True)
    return {one.text: (one.verdict, one.p_value) for one in weigh([*items], [*evidence], ShortcutConfig(**config))}


def test_a_candidate_is_cleared_at_the_level_that_is_asked_for():
    broken = Paired(3, 0, 3, np.zeros(3))
    for level, verdict in ((0.125, "cleared"), (0.12, "found")):  # three of three
        assert weighed((SERVICE, broken), clear_level=level) == {"service": (verdict, 1 / 8)}
    assert weighed((SERVICE, Paired(0, 0, 0, np.zeros(0)))) == {"service": ("found", None)}, "no text holds it"
