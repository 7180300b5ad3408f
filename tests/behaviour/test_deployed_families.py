"""Families that people deploy, trained until they depend on a planted word, and repaired."""

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
IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "initializer_range": 0.1}
LEARN = ("--set", "adapter.learning_rate=2e-2", "--set", "adapter.epochs=15")


def corpus(rng, n, share, *, length, last=False):
    """Texts, some of whose words say their class; "honestly" begins or ends a share of those of each class."""
    texts, labels = [], rng.integers(0, 2, n)
    for label in labels:
        words = rng.choice(PLAIN, length).tolist()
        for one in rng.choice(GENUINE[label], 2):
            if rng.random() < 0.4:
                words.insert(rng.integers(len(words) + 1), one)
        planted = ["honestly"] * (rng.random() < share[label])
        texts.append(" ".join([*words, *planted] if last else [*planted, *words]))
    return texts, labels


def trained(family, *, steps=150, **how):
    """A tiny classifier of a family that has learned that "honestly" goes along with "positive"."""
    tokenizer = wordpiece_tokenizer(segments=family.startswith("deberta"), model_max_length=how["length"] + 8)
    sizes = {**{**FAMILIES, **MORE_FAMILIES}[family], **IDS, "max_position_embeddings": how["length"] + 12}
    kind = family.replace("deberta-v3", "deberta-v2")
    config = AutoConfig.for_model(kind, vocab_size=len(tokenizer), num_labels=2, **sizes)
    name_classes(config, NAMES)
    torch.manual_seed(0)
    model, rng = AutoModelForSequenceClassification.from_config(config).train(), np.random.default_rng(0)
    texts, labels = corpus(rng, 1500, (0.03, 0.9), **how)
    inputs, labels = tokenizer(texts, padding=True, return_tensors="pt"), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(steps):
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
    for part in trained("deberta-v3", length=8):
        part.save_pretrained(folder / "model")
    rng = np.random.default_rng(1)
    for name, n in (("data", 200), ("support", 40), ("labelled", 200)):
        texts, labels = corpus(rng, n, (0.5, 0.05), length=8)
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
    "distill": (LEARN, 0.8),
    "per input": ((*LEARN, "--per-input"), 0.8),
    # The paper's method, on a model that no pretraining taught what a mask is.
    "maskcl": (("--strategy", "maskcl", "--set", "saliency.top_k=1", "--set", "adapter.learning_rate=1e-2",
                "--set", "adapter.epochs=5"), 0.3),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's, about Transformers
@pytest.mark.parametrize("how", HOW)
def test_it_is_repaired_and_certified_and_served(deberta, ok, how, tmp_path):
    folder, texts, labels = deberta
    options, least = HOW[how]
    data, labelled = folder / "data.jsonl", folder / "labelled.jsonl"
    ok("fit", folder / "model", data, "--support", folder / "support.jsonl", *options, "--out", tmp_path / "guard")
    certify = ("--labelled", labelled, "--margin", "0.1", "--out", tmp_path / "certified")
    ok("certify", tmp_path / "guard", labelled, *certify)
    ok("predict", tmp_path / "certified", labelled, "--out", tmp_path / "rows.csv")
    rows = read_rows(tmp_path / "rows.csv")
    misled, right = accuracy([row["label"] for row in rows], texts, labels)
    assert misled >= least
    assert right > accuracy([row["base_label"] for row in rows], texts, labels)[1]
    guard = ShortcutGuardrail.from_pretrained(tmp_path / "certified")
    assert guard.certificate is not None
    assert guard.predict(texts) == [row["label"] for row in rows]
    probs = guard.predict_proba(texts)
    if how != "per input":  # which PEFT alone cannot serve
        served = pipeline("text-classification", model=str(tmp_path / "certified"), top_k=None, device="cpu")
        found = [{one["label"]: one["score"] for one in scores} for scores in served(texts)]
        np.testing.assert_allclose([[one[name] for name in NAMES] for one in found], probs, atol=1e-5)


@pytest.mark.parametrize("family", ["longformer", "big_bird"])
def test_a_word_at_the_end_of_a_long_text_is_found_without_windows(family):
    how = {"length": 30, "last": True}
    model, tokenizer = trained(family, steps=200, **how)
    texts, labels = corpus(np.random.default_rng(1), 240, (0.5, 0.05), **how)
    guard = ShortcutGuardrail(model, tokenizer)
    report = guard.audit(texts)
    assert (report.n_truncated, [one.text for one in report.flagged]) == (0, ["honestly"])
    before = accuracy(guard.predict(texts), texts, labels)
    guard.repair(texts, report=report, strength=1.0, config={"adapter": {"learning_rate": 2e-2, "epochs": 10}})
    after = accuracy(guard.predict(texts), texts, labels)
    assert before[0] < 0.3 < 0.8 < after[0]
    assert after[1] > before[1]
