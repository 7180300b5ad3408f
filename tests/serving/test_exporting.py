"""What is exported predicts what the guard predicts: elsewhere, without this library, the guard or its base."""

import copy
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from made_guards import TEXTS
from shortcut_guardrail import CertifyConfig, ConfigError, ModelError, RunError, Shortcut, ShortcutGuardrail, Shortcuts
from shortcut_guardrail.models import Windowing
from shortcut_guardrail.serving import exporting, parity
from tiny_models import tiny_bert

pytest.importorskip("onnxruntime")
FIT = {"strategy": "distill", "shortcuts": ["honestly"], "strength": 0.7}
FAST = {"adapter": {"epochs": 2, "learning_rate": 1e-2, "batch_size": 8}}

# Run by somebody who has Transformers and ONNX Runtime, and not this library.
ELSEWHERE = """
import json, sys
import numpy as np
folder, texts = sys.argv[1], json.load(sys.stdin)
if sys.argv[2] == "merged":
    from transformers import pipeline
    serve = pipeline("text-classification", model=folder, top_k=None)
    names = serve.model.config.id2label
    def answer(batch):
        scores = [{s["label"]: s["score"] for s in one} for one in serve(batch, truncation=True, batch_size=len(batch))]
        return [[one[names[i]] for i in range(len(names))] for one in scores]
else:
    from onnxruntime import InferenceSession
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    session = InferenceSession(folder + "/model.onnx")
    names = {int(i): name for i, name in json.load(open(folder + "/config.json"))["id2label"].items()}
    def answer(batch):
        encoded = tokenizer(batch, padding=True, truncation=True, return_tensors="np")
        logits = session.run(["logits"], {i.name: encoded[i.name] for i in session.get_inputs()})[0]
        return (np.exp(logits) / np.exp(logits).sum(1, keepdims=True)).tolist()
assert not any(name.startswith("shortcut_guardrail") for name in sys.modules)
found = {n: [p for i in range(0, len(texts), n) for p in answer(texts[i:i + n])] for n in (1, 7, 50)}
json.dump([found, [names[i] for i in range(len(names))]], open(sys.argv[3], "w"))
"""


@pytest.mark.parametrize(("format", "kind"), [("merged", "few-shot"), ("onnx", "distill-named-support")])
def test_it_is_served_without_library_guard_or_base(saved_guards, tmp_path, format, kind):
    for name in ("base", kind):
        shutil.copytree(saved_guards / name, tmp_path / "made" / name)
    made, names = tmp_path / "made", ["bad", "good", "so so"]
    guard = ShortcutGuardrail.from_pretrained(made / kind, base=made / "base", label_names=names)
    expected = guard.predict_proba(TEXTS)
    made = guard.export(tmp_path / "served", format=format, texts=TEXTS, int8=format == "onnx")
    shutil.rmtree(tmp_path / "made")
    found = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, tmp_path / "served", format, tmp_path / "found.json"],
        input=json.dumps([*TEXTS, "good " * 99]),  # it is cut where the guard cuts
        cwd="/",
        text=True,
        capture_output=True,
    )
    assert found.returncode == 0, found.stderr
    answers, names = json.loads((tmp_path / "found.json").read_text())
    assert names == ["bad", "good", "so so"]
    for in_batches in answers.values():
        np.testing.assert_allclose(in_batches[:-1], expected, atol=1e-4)
    np.testing.assert_allclose(answers["7"][-1], guard.predict_proba(["good " * 99])[0], atol=1e-4)
    assert made.parity.agrees
    assert (made.parity.n_texts, made.parity.n_made_up) == (len(TEXTS), 0)
    if made.int8 is not None:  # eight bits are compared, and may differ
        assert set(made.sizes) == {"model.onnx", "model_int8.onnx"}
        assert 1e-4 < made.int8.largest_difference < 0.5
        assert made.int8.same_labels > 0.8
        assert "`model_int8.onnx` | the same label on" in (tmp_path / "served" / "README.md").read_text()
    written = json.loads((tmp_path / "served" / "export.json").read_text())
    assert made.to_dict() == written | {"label_names": ("bad", "good", "so so")}


@pytest.mark.parametrize(("format", "kind"), [("merged", "sigmoid"), ("merged", "pairs"), ("onnx", "pairs")])
def test_heads_and_pairs(tmp_path, format, kind):
    model, tokenizer = tiny_bert(n_classes=1 if kind == "sigmoid" else 3)
    guard = ShortcutGuardrail(model, tokenizer, head="sigmoid" if kind == "sigmoid" else None)
    texts = TEXTS[:20] if kind == "sigmoid" else [(text, text[::-1]) for text in TEXTS[:20]]
    guard.repair(texts, config=FAST, **FIT)
    made = guard.export(tmp_path / "served", format=format, texts=texts)
    assert (made.parity.agrees, made.parity.n_texts, made.parity.n_made_up) == (True, 64, 44)
    if format == "merged":  # it says of itself how its logits are read
        again = ShortcutGuardrail.from_pretrained(tmp_path / "served")
        np.testing.assert_allclose(again.predict_proba(texts), guard.predict_proba(texts), atol=1e-4)


@pytest.fixture
def guard(saved_guards):
    return ShortcutGuardrail.from_pretrained(saved_guards / "few-shot")


def test_another_strength(guard, tmp_path):
    guard.certify([], [], unlabelled=[f"so {text}" for text in TEXTS], config=CertifyConfig(margin=0.9, confidence=0.5))
    for folder, strength in (("own", None), ("other", 0.1)):  # what was certified is in use, and says nothing of others
        guard.export(tmp_path / folder, strength=strength)
        card = " ".join((tmp_path / folder / "README.md").read_text().split())
        assert (guard.certificate["sentence"] in card) == (strength is None)
    base, made = guard.predict_proba(TEXTS, strength=0), guard.export(tmp_path / "served", strength=0)
    assert (made.strength, made.parity.n_made_up) == (0, 64)
    served = ShortcutGuardrail.from_pretrained(tmp_path / "served").predict_proba(TEXTS)
    np.testing.assert_allclose(served, base, atol=1e-5)
    assert np.abs(guard.predict_proba(TEXTS) - base).max() > 1e-2, "the guard is as it was"


def test_special_tokens_that_are_split_stay_split_and_texts_are_cut_where_the_guard_cuts(tmp_path):
    model, tokenizer = tiny_bert()
    tokenizer.split_special_tokens = True
    guard = ShortcutGuardrail(model, tokenizer, max_length=12)
    guard.repair(TEXTS, config=FAST, **FIT)
    guard.export(tmp_path / "served", texts=["the [SEP] soup"])
    again = AutoTokenizer.from_pretrained(tmp_path / "served")
    ids = [used("the [SEP] soup")["input_ids"] for used in (tokenizer, again)]
    assert (ids[0], ids[0].count(tokenizer.sep_token_id)) == (ids[1], 1)
    for used, lengths in ((again, [11, 12, 12]), (tokenizer, [11, 12, 13])):  # the caller's own is as it was
        assert [len(used("good " * n, truncation=True)["input_ids"]) for n in (9, 10, 11)] == lengths


def damaged(model):
    """A head that is a little off; of a guard the model within."""
    model, off = copy.deepcopy(model), torch.tensor([0.1, 0, 0])
    getattr(model, "plain_model", model).classifier.bias.data += off
    return model


def onnx_is(monkeypatch, changed):
    """Have PyTorch stand in for the ONNX file, which takes seconds to make: the model, or another in its place."""
    models = []
    monkeypatch.setattr(exporting, "_write_onnx", lambda model, *_: models.append(changed(model)))
    monkeypatch.setattr(exporting, "_of_onnx", lambda _: exporting._of_model(models[0]))


@pytest.mark.parametrize("what", ["merged model", "ONNX file"])
def test_what_predicts_otherwise_is_not_written(guard, tmp_path, monkeypatch, what):
    written = exporting._write_merged
    if what == "ONNX file":
        onnx_is(monkeypatch, damaged)
    else:
        monkeypatch.setattr(exporting, "_write_merged", lambda model, *more: written(damaged(model), *more))
    with pytest.raises(RunError, match=rf"The {what} does not predict .* by up to 0\.\d+ on 64 texts, and .* Nothing"):
        guard.export(tmp_path / "served", format=what.split()[0].lower(), texts=TEXTS[:2])
    assert not (tmp_path / "served").exists()


def test_the_card_and_the_record_say_how_each_file_compares(guard, tmp_path, monkeypatch):
    seconds, asked, files, made_up = iter([2.0, 1.0, 0.5]), [], [], parity.made_up
    onnx_is(monkeypatch, lambda model: model)
    of_onnx = exporting._of_onnx
    monkeypatch.setattr(exporting, "_of_onnx", lambda file: files.append(file.name) or of_onnx(file))
    monkeypatch.setattr(exporting, "_quantise", lambda _: None)
    monkeypatch.setattr(exporting, "made_up", lambda *given: asked.append(given[2]) or made_up(*given))
    monkeypatch.setattr(exporting, "probabilities", lambda *a, **k: (parity.probabilities(*a, **k)[0], next(seconds)))
    guard._fitted = replace(guard._fitted, shortcuts=Shortcuts((Shortcut("zebra", "named"),)))
    made = guard.export(tmp_path / "served", format="onnx", int8=True, texts=["good soup", "bad soup"] * 2)
    assert (asked, files) == ([["zebra"]], ["model.onnx", "model_int8.onnx"])
    assert (made.parity.n_texts, made.parity.n_made_up) == (64, 62), "a text that is given twice is one"
    assert (made.strength, made.parity.relative_time, made.int8.relative_time) == (0.7, 0.5, 0.25)
    card = (tmp_path / "served" / "README.md").read_text()
    for part in (
        *["library_name: onnx\n", "the strategy `few-shot` and the strength 0.7. It relies less on `zebra`."],
        "| Original model | `base`, revision `not stated` |\n| Labels | `negative`, `mixed`, `positive` |\n",
        "| Tokens read per text | 32 |\n| Compared with the repaired model | 64 texts, 62 of them made up: prob",
        "| `model_int8.onnx` | the same label on 100.0% of these texts; probabilities differ by ",
    ):
        assert part in card
    assert str(tmp_path) not in card, "a path of this machine means nothing there"


def test_a_model_that_cannot_be_quantised_is_a_sentence(guard, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise ValueError("[ShapeInferenceError] Inferred shape and existing shape differ")

    onnx_is(monkeypatch, lambda model: model)
    monkeypatch.setattr("onnxruntime.quantization.quantize_dynamic", fails)
    with pytest.raises(ModelError, match=r"cannot quantise this model: \[ShapeInferenceError\].*Export without int8"):
        guard.export(tmp_path / "served", format="onnx", int8=True)
    assert not (tmp_path / "served").exists()


def test_what_no_ordinary_model_does_is_refused(saved_guards, tmp_path, monkeypatch, guard):
    with pytest.raises(ConfigError, match="format must be merged or onnx, but is 'torchscript'"):
        guard.export(tmp_path / "served", format="torchscript")
    masking = ShortcutGuardrail.from_pretrained(saved_guards / "mask-kept-certified")
    with pytest.raises(ConfigError, match=r"This repair masks words of a text, which no ordinary model does.*distill"):
        masking.export(tmp_path / "served")
    only = ShortcutGuardrail(*tiny_bert())
    only.repair(TEXTS, config={**FAST, "per_input": True}, **FIT)
    with pytest.raises(ConfigError, match=r"leaves texts without a shortcut to the original model.*without per_input"):
        only.export(tmp_path / "served")
    for format in exporting.FORMATS:
        with pytest.raises(ConfigError, match="reads long texts in windows, which no ordinary model does"):
            exporting.check_exportable(replace(guard.record(), windows=Windowing("mean", 8)), format, int8=False)
    monkeypatch.setattr(exporting, "find_spec", lambda name: None if name == "onnxruntime" else object())
    with pytest.raises(ConfigError, match=r"The format onnx needs onnxruntime.*install 'shortcut-guardrail\[onnx\]'"):
        guard.export(tmp_path / "served", format="onnx")


def test_an_export_is_replaced_on_request_alone(guard, tmp_path):
    guard.export(tmp_path / "mine")
    with pytest.raises(ConfigError, match="mine"):
        guard.export(tmp_path / "mine")
    guard._base_name = "me/base"  # of the Hub
    guard.export(tmp_path / "mine", overwrite=True, strength=0.1)
    card = (tmp_path / "mine" / "README.md").read_text()
    assert ("base_model: me/base\n" in card, "base_model_relation: finetune\n" in card) == (True, True)
    assert json.loads((tmp_path / "mine" / "export.json").read_text())["strength"] == 0.1


def test_made_up_texts_are_distinct_and_hold_the_words():
    _, tokenizer = tiny_bert()
    found = parity.made_up(["a", "b"], tokenizer, ["zebra"])
    assert len(set(found)) == len(found) == parity.LEAST_TEXTS - 2 == 62
    assert sum("zebra" in text for text in found) == 31
    assert {len(pair) if isinstance(pair, tuple) else 0 for pair in parity.made_up([("a", "b")], tokenizer, [])} == {2}
    assert parity.made_up([str(i) for i in range(64)], tokenizer, []) == []


def test_texts_are_asked_about_alone_and_in_batches_by_turns_and_cut_where_the_guard_cuts():
    _, tokenizer = tiny_bert()
    shapes = []
    answer = lambda batch: shapes.append(batch["input_ids"].shape) or np.zeros((shapes[-1][0], 3))  # noqa: E731
    found, _ = parity.probabilities(answer, tokenizer, ["good soup " * 9] * 63, head="softmax", max_length=8)
    assert shapes == [(n, 8) for n in (1, 7, 50, 1, 4)]
    np.testing.assert_allclose(found, np.full((63, 3), 1 / 3))


def test_parity_counts_a_label_that_is_no_tie():
    expected = np.array([[0.6, 0.4], [0.50004, 0.49996], [0.9, 0.1]])
    found = np.array([[0.4, 0.6], [0.49999, 0.50001], [0.9, 0.1]])
    made = parity.compare(found, expected, n_made_up=1, relative_time=None)
    assert (made.n_texts, made.same_labels, made.largest_difference) == (3, 2 / 3, pytest.approx(0.2))
    assert not made.agrees
    for difference, same, agrees in ((1e-5, 1, True), (0.2, 1, False), (1e-5, 2 / 3, False)):
        assert replace(made, largest_difference=difference, same_labels=same).agrees == agrees
