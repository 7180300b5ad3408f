"""`export`: from a folder that `fit` wrote to one that others serve."""

import json


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
