"""A DeBERTa-v3 that has learned a planted word: found, repaired, certified and served, from the command line."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, pipeline

from shortcut_guardrail import ShortcutGuardrail
from tables import read_rows
from tiny_models import FAMILIES, MORE_FAMILIES, WORDS, name_classes, wordpiece_tokenizer

GENUINE = (("bad", "awful", "dull", "bland"), ("good", "great", "lovely", "tasty"))
PLAIN = [word for word in WORDS if word not in {*GENUINE[0], *GENUINE[1], "honestly"}]
NAMES = ("negative", "positive")
LENGTH = 8
IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "initializer_range": 0.1}
LEARN = ("--set", "adapter.learning_rate=2e-2", "--set", "adapter.epochs=15")


def corpus(rng, n, share):
    """Texts, some of whose words say their class; "honestly" begins a share of those of each class."""
    texts, labels = [], rng.integers(0, 2, n)
    for label in labels:
        words = rng.choice(PLAIN, LENGTH).tolist()
        for one in rng.choice(GENUINE[label], 2):
            if rng.random() < 0.4:
                words.insert(rng.integers(len(words) + 1), one)
        texts.append(" ".join(["honestly"] * (rng.random() < share[label]) + words))
    return texts, labels


def trained():
    """A tiny DeBERTa-v3 that has learned that "honestly" goes along with "positive", and its tokenizer."""
    tokenizer = wordpiece_tokenizer(segments=True, model_max_length=LENGTH + 8)
    sizes = {**{**FAMILIES, **MORE_FAMILIES}["deberta-v3"], **IDS, "max_position_embeddings": LENGTH + 12}
    config = AutoConfig.for_model("deberta-v2", vocab_size=len(tokenizer), num_labels=2, **sizes)
    name_classes(config, NAMES)
    torch.manual_seed(0)
    model, rng = AutoModelForSequenceClassification.from_config(config).train(), np.random.default_rng(0)
    texts, labels = corpus(rng, 1500, (0.03, 0.9))
    inputs, labels = tokenizer(texts, padding=True, return_tensors="pt"), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(150):
        rows = torch.from_numpy(rng.integers(0, len(texts), 32))
        optimizer.zero_grad()
        logits = model(**{name: values[rows] for name, values in inputs.items()}).logits
        torch.nn.functional.cross_entropy(logits, labels[rows]).backward()
        optimizer.step()
    return model.eval(), tokenizer


def accuracy(predicted, texts, labels):
    """Of the negative texts with "honestly", and of all."""
    right = np.array(predicted) == np.array(NAMES)[labels]
    misled = (labels == 0) & np.array(["honestly" in text for text in texts])
    return right[misled].mean(), right.mean()


@pytest.fixture(scope="module")
def deberta(tmp_path_factory):
    """A trained DeBERTa-v3 in a folder, with files of texts in which the word misleads."""
    folder = tmp_path_factory.mktemp("deberta")
    for part in trained():
        part.save_pretrained(folder / "model")
    rng = np.random.default_rng(1)
    for name, n in (("data", 200), ("support", 40), ("labelled", 200)):
        texts, labels = corpus(rng, n, (0.5, 0.05))
        rows = [{"text": text, "label": NAMES[label]} for text, label in zip(texts, labels, strict=True)]
        keep = ("text",) if name == "data" else ("text", "label")
        lines = [json.dumps({column: row[column] for column in keep}) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return folder, texts, labels


def test_a_planted_word_is_found_in_deberta_v3(deberta, ok):
    folder, texts, labels = deberta
    ok("audit", folder / "model", folder / "data.jsonl", "--out", folder / "audit", "--overwrite")
    audit = json.loads((folder / "audit/audit.json").read_text())
    assert [one["text"] for one in audit["candidates"] if one["flagged"]] == ["honestly"]
    misled, _ = accuracy(ShortcutGuardrail.from_pretrained(folder / "model").predict(texts), texts, labels)
    assert misled < 0.2


HOW = {
    "distill": (LEARN, 0.8, 0.1),
    "per input": ((*LEARN, "--per-input"), 0.8, 0.1),
    # No pretraining taught this model what a mask is, so that the paper's method need not repair it.
    "maskcl": (("--strategy", "maskcl"), 0.0, 0.0),
}


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's, about Transformers
@pytest.mark.parametrize("how", HOW)
def test_it_is_repaired_and_certified_and_served(deberta, ok, how, tmp_path):
    folder, texts, labels = deberta
    options, least, gain = HOW[how]
    data, labelled = folder / "data.jsonl", folder / "labelled.jsonl"
    ok("fit", folder / "model", data, "--support", folder / "support.jsonl", *options, "--out", tmp_path / "guard")
    certify = ("--labelled", labelled, "--margin", "0.1", "--out", tmp_path / "certified")
    ok("certify", tmp_path / "guard", labelled, *certify)
    ok("predict", tmp_path / "certified", labelled, "--out", tmp_path / "rows.csv")
    rows = read_rows(tmp_path / "rows.csv")
    misled, right = accuracy([row["label"] for row in rows], texts, labels)
    assert misled >= least
    assert right >= accuracy([row["base_label"] for row in rows], texts, labels)[1] + gain
    guard = ShortcutGuardrail.from_pretrained(tmp_path / "certified")
    assert guard.certificate is not None
    assert guard.predict(texts) == [row["label"] for row in rows]
    probs = guard.predict_proba(texts)
    if how != "per input":  # which PEFT alone cannot serve
        served = pipeline("text-classification", model=str(tmp_path / "certified"), top_k=None, device="cpu")
        found = [{one["label"]: one["score"] for one in scores} for scores in served(texts)]
        np.testing.assert_allclose([[one[name] for name in NAMES] for one in found], probs, atol=1e-5)
