"""Every block of Python on a page runs, on tiny models, or is named here with the reason why it does not."""

import csv
import importlib
import json
import re
import tomllib
from functools import partialmethod

import joblib
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import shortcut_guardrail
from checkout import ROOT
from evidence import ENVIRONMENT, constants
from planted_words import planted_texts
from shortcut_guardrail import ShortcutGuardrail, read_data
from tiny_models import planted_bag, tiny_bert

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$(?:\s*^```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(*found, id=f"{page.relative_to(DOCS).as_posix()}-{number}")
    for page in sorted(DOCS.rglob("*.md"))
    for number, found in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    if found[0] == "python"
]
NOT_RUN = {  # how a block begins, and why only its imports are tried
    "from peft import PeftModel\n": "tests/models/test_adapters.py repairs a model with an adapter",
    "import mlflow": "needs MLflow, which tests do not install",
    "from transformers import pipeline\n\nmade": "the same",
    "from shortcut_guardrail import ShortcutGuardrail\nfrom shortcut_guardrail.serving": "needs the Hub",
    "import numpy as np\nfrom onnxruntime": "tests/serving exports to ONNX and runs the file",
    "from pathlib import Path": "trains on data that are not in the repository",
}
TEXTS = ["honestly the tea was dull", "the soup was great", "the room was awful", "honestly the bread was good"] * 12


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the files that blocks name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression())
    joblib.dump(pipeline.fit(TEXTS, ["positive" if "good" in one else "negative" for one in TEXTS]), "reviews.joblib")
    texts, _ = planted_texts(60)
    for name, header, rows in (
        ("texts.csv", ["text"], [[text] for text in texts]),
        ("all.csv", ["text", "label"], [(f'{text},\n"and so on"', i) for i, text in enumerate(texts * 2)]),
        ("tickets.csv", ["text", "label"], zip(texts, ["complaint", "question", "praise"] * 20, strict=True)),
    ):
        with open(name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    model, tokenizer = tiny_bert(n_classes=2)
    for part in (model, tokenizer):
        part.save_pretrained("served")
    return tmp_path


@pytest.fixture
def names(place):
    """What blocks take from the text around them."""
    texts = read_data("texts.csv").texts
    public = {name: getattr(shortcut_guardrail, name) for name in shortcut_guardrail.__all__}
    older = joblib.load("reviews.joblib").predict_proba
    return {**public, "guard": ShortcutGuardrail(*planted_bag()), "texts": texts, "older_model": older}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("language", "code", "printed"), BLOCKS)
def test_a_block_of_a_page_runs(language, code, printed, names, capsys, monkeypatch):
    program = compile(code, "page", "exec")
    if any(code.startswith(beginning) for beginning in NOT_RUN):
        for module in re.findall(r"^(?:from|import) (?!mlflow)([\w.]+)", code, re.MULTILINE):
            importlib.import_module(module)
        return
    monkeypatch.setattr(ShortcutGuardrail, "from_pretrained", lambda *_, **__: names["guard"])
    repair = partialmethod(ShortcutGuardrail.repair, strategy="mask", shortcuts=["honestly"])  # nothing is trained
    monkeypatch.setattr(ShortcutGuardrail, "repair", repair)
    if "strength=" in code:  # of a repaired model
        names["guard"].repair(names["texts"])
    exec(program, names)
    for name in ("answers", "judge"):
        if f"def {name}(" in code:
            assert names[name](["the soup was great"]).shape == (1, 2)
    if "print(" in code:
        assert capsys.readouterr().out == printed


def test_each_reason_is_needed():
    blocks = [block.values[1] for block in BLOCKS]
    assert all(any(code.startswith(beginning) for code in blocks) for beginning in NOT_RUN)


def test_texts_are_split_at_random_and_whole_and_each_is_in_one_file(place):
    (code,) = (block.values[1] for block in BLOCKS if "all.csv" in block.values[1])
    exec(code, {})

    def rows_of(name):
        with open(name, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    whole, *parts = ([row["text"] for row in rows_of(name)] for name in ("all.csv", "deployment.csv", "test.csv"))
    assert sorted(text for part in parts for text in part) == sorted(set(whole))
    assert (len(whole), *map(len, parts)) == (120, 30, 30)
    assert parts[0] != whole[:30]
    assert {tuple(row) for row in rows_of("test.csv")} == {("text", "label")}


def test_settings_on_pages_can_be_read():
    reading = {"toml": tomllib.loads, "json": json.loads}
    for page in DOCS.rglob("*.md"):
        for language, body, _ in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language in reading:
                assert reading[language](ENVIRONMENT.from_string(body).render(constants()))
