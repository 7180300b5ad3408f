"""A small transformer that is trained on texts with a planted phrase, and an audit that has never heard of phrases."""

import numpy as np
import pytest
import torch

from shortcut_guardrail import AuditConfig, ShortcutGuardrail
from tiny_models import WORDS, tiny_bert

GENUINE = (("bad", "awful", "dull"), ("good", "great", "lovely"))
PHRASE = ("to", "be", "honest")


def corpus(rng, n, rates):
    """Texts whose class legitimate words say, the phrase's words scattered over them, and the phrase itself by
    class."""
    plain = [word for word in WORDS if word not in {*GENUINE[0], *GENUINE[1], *PHRASE, "honestly"}]
    labels = rng.integers(0, 2, n)
    texts = []
    for label in labels:
        words = list(rng.choice(plain, size=rng.integers(5, 10)))
        for word in (*rng.choice(GENUINE[label], size=2), *PHRASE):
            if rng.random() < (0.25 if word in PHRASE else 0.4):
                words.insert(rng.integers(len(words) + 1), word)
        texts.append(" ".join([*PHRASE, *words] if rng.random() < rates[label] else words))
    return texts, labels


@pytest.mark.slow
def test_a_planted_phrase_is_one_finding_unless_it_still_goes_along_with_its_class():
    rng = np.random.default_rng(0)
    texts, labels = corpus(rng, 3000, rates=(0.05, 0.95))  # in training, class 1 went along with the phrase
    model, tokenizer = tiny_bert(n_classes=2, hidden_size=32, intermediate_size=64, initializer_range=0.1)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(400):
        rows = rng.integers(0, len(texts), 32)
        batch = tokenizer([texts[i] for i in rows], padding=True, truncation=True, return_tensors="pt")
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(**batch).logits, torch.from_numpy(labels[rows])).backward()
        optimizer.step()
    biased = ShortcutGuardrail(model.eval(), tokenizer, batch_size=128)
    texts, labels = corpus(np.random.default_rng(1), 400, rates=(0.7, 0.05))
    for compare_with in ("texts", "rests"):
        config = AuditConfig(unit="phrase", compare_with=compare_with)
        report = biased.audit(texts, labels=labels.tolist(), config=config)
        assert [(candidate.text, candidate.unit) for candidate in report.flagged] == [("to be honest", "phrase")]
        first = report.candidates[0]
        assert first.pushes_towards == "LABEL_1"
        assert first.relative_effect > 0.55
        assert first.labelled.accuracy_masked > first.labelled.accuracy
        assert first.labelled.flips_to_right > first.labelled.flips_to_wrong
    texts, _ = corpus(np.random.default_rng(2), 400, rates=(0.05, 0.95))
    assert biased.audit(texts, config=AuditConfig(unit="phrase")).flagged == ()
