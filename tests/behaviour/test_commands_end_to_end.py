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
PAIRS = [(text, SHORTCUT_TEXTS[(i + 3) % 8]) for i, text in enumerate(SHORTCUT_TEXTS)]


def save(folder, model, tokenizer):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def balance(model, tokenizer, inputs):
    """Move the head's bias so that no class is ahead of the others and the answers differ between texts."""
    with torch.no_grad():
        logits = torch.cat([model(**tokenizer(*pair, return_tensors="pt")).logits for pair in inputs])
        model.classifier.bias -= logits.mean(0)


def plain_logits(model, tokenizer, inputs):
    model.eval()
    with torch.no_grad():
        return torch.cat([model(**tokenizer(*pair, return_tensors="pt")).logits for pair in inputs])


def read_rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run_all(ok, model, data, support, out, *options):
    """Audit, fit, predict and evaluate; what came of it."""
    for arguments in (
        ("audit", model, data, "--out", out / "audit", *options),
        ("fit", model, data, "--strategy", "maskcl", "--support", support, "--out", out / "guarded", *FAST, *options),
        ("predict", out / "guarded", data, "--out", out / "predictions.csv"),
        ("evaluate", out / "guarded", data, "--shortcut", "honestly", "--json", out / "scores.json"),
        ("evaluate", model, data, "--shortcut", "honestly", "--json", out / "base.json", *options),
    ):
        ok(*arguments)
    return {
        "audit": json.loads((out / "audit" / "audit.json").read_text()),
        "record": json.loads((out / "guarded" / "guardrail.json").read_text()),
        "predictions": read_rows(out / "predictions.csv"),
        "scores": json.loads((out / "scores.json").read_text()),
        "base": json.loads((out / "base.json").read_text()),
    }


def right(rows, labels, column):
    return float(np.mean([row[column] == label for row, label in zip(rows, labels, strict=True)]))


def test_single_texts(ok, bert, write_csv, tmp_path):
    balance(*bert, [(text,) for text in SHORTCUT_TEXTS])
    model = save(tmp_path / "model", *bert)
    labels = ["negative", "positive", "mixed", "negative", "positive", "mixed", "negative", "positive"]
    data = write_csv("data.csv", *zip(SHORTCUT_TEXTS, labels, strict=True))
    support = write_csv("support.csv", ("good soup", "positive"), ("the bad tea", "negative"), ("so so", "mixed"))
    found = run_all(ok, model, data, support, tmp_path)
    predictions, record = found["predictions"], found["record"]
    # The file of predictions and the scores tell one story.
    assert found["scores"]["accuracy"] == pytest.approx(right(predictions, labels, "label"))
    assert found["base"]["accuracy"] == pytest.approx(right(predictions, labels, "base_label"))
    assert len({row["base_label"] for row in predictions}) > 1
    # The curve, too, is what predictions at its strengths give.
    guard = ShortcutGuardrail.from_pretrained(tmp_path / "guarded")
    for point in record["calibration"]["curve"]:
        answers = guard.predict(["good soup", "the bad tea", "so so"], strength=point["strength"])
        assert point["accuracy"] == pytest.approx(
            np.mean([*map(str.__eq__, answers, ["positive", "negative", "mixed"])])
        )
    # And somebody with PEFT alone gets the same answers.
    base = AutoModelForSequenceClassification.from_pretrained(model)
    with pytest.warns(FutureWarning, match="is_gradient_checkpointing"):
        peft = PeftModel.from_pretrained(base, tmp_path / "guarded")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "guarded")
    probs = plain_logits(peft, tokenizer, [(text,) for text in SHORTCUT_TEXTS]).softmax(-1)
    for row, expected in zip(predictions, probs.tolist(), strict=True):
        assert [float(row[f"p_{name}"]) for name in ("negative", "mixed", "positive")] == pytest.approx(
            expected, abs=2e-6
        )


@pytest.mark.parametrize("family_name", ["bert", "distilbert"])
def test_text_pairs(cli, ok, family, write_csv, tmp_path, family_name):
    from transformers import BertForSequenceClassification

    model, tokenizer = family(family_name, n_classes=3)
    names = ["entailment", "neutral", "contradiction"]
    model.config.id2label, model.config.label2id = dict(enumerate(names)), {n: i for i, n in enumerate(names)}
    if isinstance(model, BertForSequenceClassification):
        balance(model, tokenizer, PAIRS)
    folder = save(tmp_path / "model", model, tokenizer)
    header = ("premise", "hypothesis", "label")
    labels = [names[i % 3] for i in range(8)]
    data = write_csv("nli.csv", *((*pair, label) for pair, label in zip(PAIRS, labels, strict=True)), header=header)
    rows = [(*PAIRS[i], names[i % 3]) for i in (0, 1)]
    found = run_all(ok, folder, data, write_csv("support.csv", *rows, header=header), tmp_path)
    # Token types are the tokenizer's own: the plain model agrees on the base labels.
    expected = [names[i] for i in plain_logits(model, tokenizer, PAIRS).argmax(-1)]
    assert [row["base_label"] for row in found["predictions"]] == expected
    assert found["scores"]["n"] == found["audit"]["n"] == 8
    # The side that is searched decides the groups.
    counts = {}
    for where in ("text", "pair", "both"):
        path = tmp_path / f"{where}.json"
        arguments = ("--shortcut", "honestly", "--shortcut-in", where, "--json", path)
        assert cli("evaluate", tmp_path / "guarded", data, *arguments)[0] == 0
        groups = json.loads(path.read_text())["groups"]
        counts[where] = sum(group["n"] for group in groups if group["name"].endswith("with shortcut"))
    inside = [tuple("honestly" in text for text in pair) for pair in PAIRS]
    assert counts == {
        "text": sum(first for first, _ in inside),
        "pair": sum(second for _, second in inside),
        "both": sum(first or second for first, second in inside),
    }
    assert counts["both"] > counts["text"]


def test_a_pair_is_not_its_first_text_alone(bert):
    guard = ShortcutGuardrail(*bert)
    pairs = guard.predict_proba(PAIRS)
    assert np.abs(pairs - guard.predict_proba([first for first, _ in PAIRS])).max() > 1e-3
    assert np.abs(pairs - guard.predict_proba([(second, first) for first, second in PAIRS])).max() > 1e-3


def test_a_sigmoid_head(ok, refused, write_csv, tmp_path):
    model, tokenizer = tiny_bert(n_classes=1)
    model.config.id2label, model.config.label2id = {0: "toxic"}, {"toxic": 0}
    inputs = [(text,) for text in SHORTCUT_TEXTS]
    balance(model, tokenizer, inputs)
    folder = save(tmp_path / "model", model, tokenizer)
    labels = ["toxic", "not toxic"] * 4
    data = write_csv("data.csv", *zip(SHORTCUT_TEXTS, labels, strict=True))
    support = write_csv("support.csv", ("good soup", "not toxic"), ("awful soup", "toxic"))
    # A single logit may as well be a regression, so it is asked for.
    assert "say so with --head sigmoid." in refused("audit", folder, data, "--out", tmp_path / "refused")
    found = run_all(ok, folder, data, support, tmp_path, "--head", "sigmoid")
    assert found["record"]["head"] == "sigmoid"
    guard = ShortcutGuardrail.from_pretrained(tmp_path / "guarded")
    base = plain_logits(model, tokenizer, inputs)[:, 0].sigmoid()
    np.testing.assert_allclose(guard.predict_proba(list(SHORTCUT_TEXTS), strength=0)[:, 1], base, atol=1e-6)
    for row, p in zip(found["predictions"], base.tolist(), strict=True):
        assert row["base_label"] == ("toxic" if p > 0.5 else "not toxic")
        assert float(row["p_toxic"]) + float(row["p_not toxic"]) == pytest.approx(1, abs=2e-6)
    assert len({row["base_label"] for row in found["predictions"]}) == 2


def test_the_commands_and_the_library_agree(cli, model_folder, write_csv, tmp_path):
    data = write_csv("data.csv", *((text,) for text in SHORTCUT_TEXTS), header=("text",))
    assert cli("audit", model_folder, data, "--top-k", 3, "--out", tmp_path / "audit")[0] == 0
    guard = ShortcutGuardrail.from_pretrained(model_folder)
    written = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert written == json.loads(json.dumps(guard.audit(list(SHORTCUT_TEXTS), top_k=3).to_dict()))
    assert written != json.loads(json.dumps(guard.audit(list(SHORTCUT_TEXTS), top_k=2).to_dict()))
