"""Stories: a person with a classifier and a file, from the first audit to the guarded predictions."""

import csv
import json

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from shortcut_guardrail import ShortcutGuardrail
from tiny_models import SHORTCUT_TEXTS, tiny_bert

FAST = ("--set", "adapter.epochs=3", "--set", "adapter.learning_rate=2e-2", "--set", "adapter.batch_size=4")
SINGLE = [(text,) for text in SHORTCUT_TEXTS]
PAIRS = [(text, SHORTCUT_TEXTS[(i + 3) % 8]) for i, text in enumerate(SHORTCUT_TEXTS)]


def plain_logits(model, tokenizer, inputs):
    model.eval()
    with torch.no_grad():
        return torch.cat([model(**tokenizer(*one, return_tensors="pt")).logits for one in inputs])


def save_balanced(folder, model, tokenizer, inputs):
    """Save a model, with the head's bias moved so that no class is ahead and the answers differ between texts."""
    if hasattr(model, "bert"):
        model.classifier.bias.data -= plain_logits(model, tokenizer, inputs).mean(0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run_all(ok, model, data, support, out, *options):
    """Audit, fit, predict and evaluate; what came of it."""
    guarded, scores, base = out / "guarded", out / "scores.json", out / "base.json"
    ok("audit", model, data, "--out", out / "audit", *options)
    ok("fit", model, data, "--strategy", "maskcl", "--support", support, "--out", guarded, *FAST, *options)
    ok("predict", guarded, data, "--out", out / "predictions.csv")
    ok("evaluate", guarded, data, "--shortcut", "honestly", "--json", scores)
    ok("evaluate", model, data, "--shortcut", "honestly", "--json", base, *options)
    with (out / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    files = (out / "audit" / "audit.json", guarded / "guardrail.json", scores, base)
    return rows, *(json.loads(file.read_text()) for file in files)


def test_single_texts(ok, bert, write_csv, tmp_path):
    model = save_balanced(tmp_path / "model", *bert, SINGLE)
    labels = ["negative", "positive", "mixed", "negative", "positive", "mixed", "negative", "positive"]
    data = write_csv("data.csv", *zip(SHORTCUT_TEXTS, labels, strict=True))
    support = write_csv("support.csv", ("good soup", "positive"), ("the bad tea", "negative"), ("so so", "mixed"))
    rows, _, record, scores, base = run_all(ok, model, data, support, tmp_path)
    # The file of predictions and the scores tell one story.
    for found, column in ((scores, "label"), (base, "base_label")):
        right = [row[column] == label for row, label in zip(rows, labels, strict=True)]
        assert found["accuracy"] == pytest.approx(np.mean(right))
    assert len({row["base_label"] for row in rows}) > 1
    # The curve, too, is what predictions at its strengths give.
    guard = ShortcutGuardrail.from_pretrained(tmp_path / "guarded")
    for point in record["calibration"]["curve"]:
        answers = guard.predict(["good soup", "the bad tea", "so so"], strength=point["strength"])
        right = [*map(str.__eq__, answers, ["positive", "negative", "mixed"])]
        assert point["accuracy"] == pytest.approx(np.mean(right))
    # And somebody with PEFT alone gets the same answers.
    plain = AutoModelForSequenceClassification.from_pretrained(model)
    with pytest.warns(FutureWarning, match="is_gradient_checkpointing"):
        peft = PeftModel.from_pretrained(plain, tmp_path / "guarded")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "guarded")
    written = [[float(row[f"p_{name}"]) for name in ("negative", "mixed", "positive")] for row in rows]
    np.testing.assert_allclose(written, plain_logits(peft, tokenizer, SINGLE).softmax(-1), atol=2e-6)


@pytest.mark.parametrize("family_name", ["bert", "deberta-v3"])
def test_text_pairs(ok, family, write_csv, tmp_path, family_name):
    model, tokenizer = family(family_name, n_classes=3)
    names, header = ["entailment", "neutral", "contradiction"], ("premise", "hypothesis", "label")
    model.config.id2label, model.config.label2id = dict(enumerate(names)), {n: i for i, n in enumerate(names)}
    folder = save_balanced(tmp_path / "model", model, tokenizer, PAIRS)
    labelled = [(*pair, names[i % 3]) for i, pair in enumerate(PAIRS)]
    data = write_csv("nli.csv", *labelled, header=header)
    support = write_csv("few.csv", *labelled[:2], header=header)
    rows, audit, _, scores, _ = run_all(ok, folder, data, support, tmp_path)
    # Token types are the tokenizer's own: the plain model agrees on the base labels.
    expected = [names[i] for i in plain_logits(model, tokenizer, PAIRS).argmax(-1)]
    assert [row["base_label"] for row in rows] == expected
    assert scores["n"] == audit["n"] == 8
    # The side that is searched decides the groups.
    counts = []
    for where in ("text", "pair", "both"):
        path = tmp_path / f"{where}.json"
        arguments = ("--shortcut", "honestly", "--shortcut-in", where, "--json", path)
        ok("evaluate", tmp_path / "guarded", data, *arguments)
        groups = json.loads(path.read_text())["groups"]
        counts.append(sum(group["n"] for group in groups if group["name"].endswith("with shortcut")))
    inside = [("honestly" in first, "honestly" in second) for first, second in PAIRS]
    assert counts == [sum(first for first, _ in inside), sum(second for _, second in inside), sum(map(any, inside))]
    assert counts[2] > counts[0]


def test_a_pair_is_not_its_first_text_alone(bert):
    guard = ShortcutGuardrail(*bert)
    pairs = guard.predict_proba(PAIRS)
    for others in ([first for first, _ in PAIRS], [(second, first) for first, second in PAIRS]):
        assert np.abs(pairs - guard.predict_proba(others)).max() > 1e-3


def test_a_sigmoid_head(ok, refused, write_csv, tmp_path):
    model, tokenizer = tiny_bert(n_classes=1)
    model.config.id2label, model.config.label2id = {0: "toxic"}, {"toxic": 0}
    folder = save_balanced(tmp_path / "model", model, tokenizer, SINGLE)
    data = write_csv("data.csv", *zip(SHORTCUT_TEXTS, ["toxic", "not toxic"] * 4, strict=True))
    support = write_csv("support.csv", ("good soup", "not toxic"), ("awful soup", "toxic"))
    # A single logit may as well be a regression, so it is asked for.
    assert "say so with --head sigmoid." in refused("audit", folder, data, "--out", tmp_path / "refused")
    rows, _, record, *_ = run_all(ok, folder, data, support, tmp_path, "--head", "sigmoid")
    assert record["head"] == "sigmoid"
    guard = ShortcutGuardrail.from_pretrained(tmp_path / "guarded")
    base = plain_logits(model, tokenizer, SINGLE)[:, 0].sigmoid()
    np.testing.assert_allclose(guard.predict_proba(list(SHORTCUT_TEXTS), strength=0)[:, 1], base, atol=1e-6)
    labels = [row["base_label"] for row in rows]
    assert labels == ["toxic" if p > 0.5 else "not toxic" for p in base.tolist()]
    assert len({*labels}) == 2
    for row in rows:
        assert float(row["p_toxic"]) + float(row["p_not toxic"]) == pytest.approx(1, abs=2e-6)


def test_the_commands_and_the_library_agree(ok, model_folder, write_csv, tmp_path):
    data = write_csv("data.csv", *SINGLE, header=("text",))
    ok("audit", model_folder, data, "--top-k", 3, "--out", tmp_path / "audit")
    guard, written = ShortcutGuardrail.from_pretrained(model_folder), (tmp_path / "audit" / "audit.json").read_text()
    found = [json.loads(json.dumps(guard.audit(list(SHORTCUT_TEXTS), top_k=k).to_dict())) for k in (3, 2)]
    document = json.loads(written)
    assert document.pop("fit_would_take") == []
    assert document.pop("about")["data"] == str(data)
    assert all(one.pop("seconds") >= 0 for one in (document, *found))
    assert found[0] == document != found[1]
