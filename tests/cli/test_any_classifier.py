"""Commands on `module:function` and on an endpoint in a TOML file, where MODEL stands."""

import json
import re
import sys
from types import SimpleNamespace

import pytest

from classifiers.chat_server import chat, served
from planted_words import by_words, planted_texts
from shortcut_guardrail.cli.audit import Paying
from shortcut_guardrail.cli.options import Output
from shortcut_guardrail.config import AuditConfig
from shortcut_guardrail.models import Cost

LABELS = ("--labels", "negative,positive")


@pytest.fixture
def here(tmp_path, monkeypatch, write_csv):
    """A folder with a function, audited texts and labelled ones."""
    (tmp_path / "deployed.py").write_text("from planted_words import by_words as answers\n")
    texts, labels = planted_texts(200)
    write_csv("data.csv", *zip(texts, labels, strict=True))
    write_csv("held.csv", *zip(*planted_texts(150, share=0.7, seed=1), strict=True))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("deployed", None)


@pytest.fixture
def run(cli):
    def call(*arguments, status=0):
        found, out, err = cli(*arguments)
        assert found == status, err
        return " ".join((out + err).split())

    return call


def test_what_an_audit_costs_is_said_before_it_is_paid(capsys):
    guard = SimpleNamespace(capabilities=(), is_paid=False, answers_needed=lambda *_: (1200, 5000))
    guard.cost = lambda texts: Cost(len(texts), tokens=40, calls=4, seconds=2.0)
    Paying().agree(guard, ["a"] * 4, AuditConfig(), output=Output())
    assert " ".join(capsys.readouterr().out.split()) == (
        "Asks for 1,200 to 5,000 predictions, and some more for phrases and word groups; about 50,000 tokens at most; "
        "600 s or more."
    )


def test_every_command_takes_a_function_where_it_takes_a_model(here, run):
    model = ("deployed:answers", "data.csv")
    said = run("audit", *model, *LABELS, "--out", "audit")
    assert "Asks for" in said
    assert "Asked for" in said
    assert "1 flagged" in said
    assert f"fit {' '.join(model)} --decisions audit/decisions.json --out guarded {' '.join(LABELS)}" in said
    document = json.loads((here / "audit" / "audit.json").read_text())
    assert [word["text"] for word in document["fit_would_take"]] == ["honestly"]
    run("questions", "audit", *model, *LABELS, "--word-groups", "all", "--out", "questions.csv")
    distill = ("--strategy", "distill", "--shortcut", "honestly", "--out", "no")
    assert "no adapter" in run("fit", *model, *LABELS, *distill, status=2)
    said = run("fit", *model, *LABELS, "--audit", "audit", "--out", "guarded")
    assert "mask, since the audit finds honestly" in said
    run("predict", "guarded", "data.csv", "--out", "labels.csv")
    for place, one in (("base", ("deployed:answers", "held.csv", *LABELS)), ("guard", ("guarded", "held.csv"))):
        run("evaluate", *one, "--json", f"{place}.json")
    before, after = (json.loads((here / f"{place}.json").read_text())["accuracy"] for place in ("base", "guard"))
    assert before < after == 1.0
    run("to-label", "guarded", "held.csv", "--out", "label.csv", "--n", "40")
    assert "certified" in run("certify", "guarded", "held.csv", "--labelled", "held.csv")
    assert "1 flagged" not in run("audit", "guarded", "data.csv", "--out", "again")
    run("compare", "audit/audit.json", "again/audit.json")


def test_labels_are_needed_and_only_there(here, run):
    refused = run("audit", "deployed:answers", "data.csv", *LABELS, "--windows", "mean", "--out", "a", status=2)
    assert "--windows is for models of Transformers" in refused
    assert "Give label_names (--labels a,b,c)" in run("audit", "deployed:answers", "data.csv", "--out", "a", status=2)
    assert "--labels is for module:function" in run("audit", "folder", "data.csv", *LABELS, "--out", "a", status=2)


def by_planted(text, body):
    (p,) = by_words([text])[:, 1]
    return 200, {}, chat("positive" if p > 0.5 else "negative", {"positive": float(p), "negative": float(1 - p)})


def test_an_endpoint_is_asked_only_when_somebody_agrees_and_what_it_said_is_kept(here, run, write_csv):
    write_csv("data.csv", *zip(*planted_texts(50), strict=True))  # few: each answer is a request
    with served(by_planted) as asked:
        (here / "endpoint.toml").write_text(f'kind = "endpoint"\nmodel = "m"\nurl = "{asked.url}"\n')
        audit = ("audit", "endpoint.toml", "data.csv", *LABELS, "--kept-answers", "kept", "--unit", "word")
        said = run(*audit, "--confirm-above", "100", "--out", "a", status=2)
        assert "Say --yes, or audit with a --budget" in said
        most = int(re.search(r"Asks for [\d,]+ to ([\d,]+) predictions", said)[1].replace(",", ""))
        run(*audit, "--confirm-above", most - 1, "--out", "a", status=2)
        assert asked.answered == []
        assert "1 flagged" in run(*audit, "--confirm-above", most, "--out", "a")
        paid = len(asked.answered)
        assert paid > 200
        run(*audit, "--yes", "--out", "b")
        assert len(asked.answered) == paid
        fit = ("fit", "endpoint.toml", "data.csv", *LABELS, "--confirm-above", "100", "--out", "guarded")
        assert "Say --yes, or audit with a --budget" in run(*fit, status=2)
        assert len(asked.answered) == paid
        run(*audit, "--budget", "120", "--kept-answers", "others", "--out", "c")
        assert paid + 50 < len(asked.answered) <= paid + 120
