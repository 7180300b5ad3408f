"""`export`: from a folder that `fit` wrote to one that others serve."""

import json
from types import SimpleNamespace

from shortcut_guardrail.serving.exporting import Export
from shortcut_guardrail.serving.parity import Parity


def test_export(ok, saved_guards, write_csv, tmp_path):
    data = write_csv("data.csv", *[(f"honestly the soup was {word}", "good") for word in ("cold", "good", "slow")])
    served, guard = tmp_path / "served", saved_guards / "distill-named-support"
    out, _ = ok("export", guard, data, "--text-column", "text", "--out", served, "--strength", 0.5)
    assert "Compared with the repaired model on 64 texts, 61 of them made up: same labels, probabilities within" in out
    made = json.loads((served / "export.json").read_text())
    assert (made["format"], made["strength"]) == ("merged", 0.5)
    assert made["base_model"]["fingerprint"]
    card = (served / "README.md").read_text()
    assert "It relies less on `honestly`, `to be honest`." in card
    assert "library_name: transformers" in card
    assert "# base, repaired" in card
    assert str(saved_guards) not in card


def test_what_was_exported_is_said_with_sizes_and_differences(ok, tmp_path, monkeypatch):
    big, small = Parity(64, 61, 2.6e-6, 1.0, 0.9), Parity(64, 61, 0.0234, 0.953, 0.41)
    sizes, out = {"model.onnx": 2_540_000, "model_int8.onnx": 800_000}, tmp_path / "served"
    guard = SimpleNamespace(export=lambda *_, **__: Export("onnx", 0.5, {}, ("a", "b"), 32, big, small, sizes, {}))
    monkeypatch.setattr("shortcut_guardrail.cli.export.load_guard", lambda *_: guard)
    said, _ = ok("export", "guard", "--format", "onnx", "--int8", "--out", out)
    assert " ".join(said.split()) == (
        f"Written: {out} (model.onnx, 2.5 MB, model_int8.onnx, 0.8 MB). Compared with the repaired model on 64 texts, "
        "61 of them made up: same labels, probabilities within 3e-06. 8-bit weights: same labels on 95.3% of them, "
        "probabilities within 0.023, 0.41 times the merged model's time on this machine."
    )


def test_bad_input(cli, saved_guards, tmp_path):
    out = ("--out", tmp_path / "served")
    for arguments, sentence in [
        ((saved_guards / "base", *out), "is no folder that fit wrote"),
        ((saved_guards / "mask-kept-certified", *out), "no ordinary model does"),
        ((saved_guards / "few-shot", "--int8", *out), "int8 is for the format onnx"),
        ((saved_guards / "few-shot", "--strength", 2, *out), "strength"),
        ((saved_guards / "few-shot", tmp_path / "none.csv", *out), "none.csv"),
        ((saved_guards / "few-shot", "--out", saved_guards / "base"), "base"),
    ]:
        status, _, err = cli("export", *arguments)
        assert status == 2
        assert sentence in " ".join(err.split())
        assert not (tmp_path / "served").exists()
