"""Every block of Python on a page runs, on tiny models, or is named in `NOT_RUN` with the reason why it does not.

What takes a network, a service or large data has a stand-in that is called as the real one is: the Hub, MLflow, and the
data sets and pretrained encoders of the benchmark.
"""

import csv
import importlib
import json
import re
import sys
import tomllib
from contextlib import nullcontext
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import create_autospec

import joblib
import numpy as np
import pandas
import pytest
from peft import LoraConfig, get_peft_model
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import shortcut_guardrail
from checkout import ROOT
from evidence import ENVIRONMENT, constants
from planted_words import planted_texts
from shortcut_bench import bases, datasets
from shortcut_bench.datasets import from_file
from shortcut_bench.experiments import read_experiment
from shortcut_guardrail import ShortcutGuardrail, read_data, serving
from tiny_models import planted_bag, save_tiny_encoder, tiny_bert

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$(?:\s*^```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(*found, id=f"{page.relative_to(DOCS).as_posix()}-{number}")
    for page in sorted(DOCS.rglob("*.md"))
    for number, found in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    if found[0] == "python"
]
TEXTS = ["honestly the tea was dull", "the soup was great", "the room was awful", "honestly the bread was good"] * 12
ORDER = ["complaint", "question", "praise"]


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
        (
            "tickets.csv",
            ["text", "label"],
            zip(planted_texts(240)[0], ["complaint", "question", "praise"] * 80, strict=True),
        ),
    ):
        with open(name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    return tmp_path


def save_served():
    for part in tiny_bert(n_classes=2):
        part.save_pretrained("served")


def save_adapters():
    """Two of PEFT's, one to be merged before the other is put on."""
    for name in ("adapter", "guard"):
        model, tokenizer = tiny_bert(n_classes=2)
        for part in (model, tokenizer):
            part.save_pretrained("base")
        config = LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"], init_lora_weights=False)
        get_peft_model(model, config).save_pretrained(name)
        tokenizer.save_pretrained(name)


FILES = {'served"': save_served, "PeftModel": save_adapters}
"""What is made for a block that has such words in it."""

NOT_RUN = {"import numpy as np\nfrom onnxruntime": "tests/serving exports to ONNX and runs the file"}
"""How a block begins of which only the imports are tried, and why."""


def logged_model(*, name, python_model, artifacts, pip_requirements):
    """What MLflow does with a model of one's own: it loads it with its files, and asks it about a table."""
    python_model.load_context(SimpleNamespace(artifacts=artifacts))
    assert np.shape(python_model.predict(None, pandas.DataFrame({"text": TEXTS[:3]}))) == (3, 2)
    return SimpleNamespace(model_uri=name)


def logged_pipeline(pipeline, *, name, model_config, pip_requirements):
    assert len(pipeline(TEXTS[:3], **model_config)) == 3


def own_data(*_, seed=0, strength=1.0, **__):
    return from_file("tickets.csv", words=["please"], how="insert", order=ORDER, seed=seed, strength=strength)


@pytest.fixture
def stand_ins(place, monkeypatch):
    """For what is not on this machine."""
    pyfunc = SimpleNamespace(PythonModel=object, log_model=logged_model)
    transformers = SimpleNamespace(log_model=logged_pipeline)
    mlflow = SimpleNamespace(pyfunc=pyfunc, transformers=transformers, start_run=nullcontext)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setattr(serving, "push_to_hub", create_autospec(serving.push_to_hub))
    monkeypatch.setattr(ShortcutGuardrail, "push_to_hub", create_autospec(ShortcutGuardrail.push_to_hub))
    Path("mine.toml").write_text(MINE, encoding="utf-8")
    opened = bases.open_setting

    def open_setting(experiment, setting, seed, *, data_dir, cache):
        assert read_experiment(experiment).setting(setting)
        encoder = str(save_tiny_encoder(Path("encoder"), n_classes=3))
        given = {"data_dir": None, "cache": Path("kept"), "scale": "tiny", "encoder": encoder, "changes": FEW}
        return opened("mine.toml", "mine", seed, **given)

    monkeypatch.setattr(bases, "open_setting", open_setting)
    monkeypatch.setattr(datasets, "build", own_data)


FEW = dict.fromkeys(("n_audit", "n_support", "n_held_out"), 8)
FEW |= {"n_train": 32, "n_test": 36, "max_tokens": 32, "n_deployment": 8, "epochs": 1}
MINE = """
shows = "Shows."
paper = "nothing"
tests = ["reversed"]
systems = ["erm"]
[[settings]]
name = "mine"
data = "own-files"
options = { train = "tickets.csv", words = ["please"], how = "insert", order = ["complaint", "question", "praise"] }
"""


@pytest.fixture
def names(place, stand_ins):
    """What blocks take from the text around them."""
    texts = read_data("texts.csv").texts
    public = {name: getattr(shortcut_guardrail, name) for name in shortcut_guardrail.__all__}
    older = joblib.load("reviews.joblib").predict_proba
    return {
        **public,
        "guard": ShortcutGuardrail(*planted_bag()),
        "texts": texts,
        "older_model": older,
        "mlflow": sys.modules.get("mlflow"),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("language", "code", "printed"), BLOCKS)
def test_a_block_of_a_page_runs(language, code, printed, names, capsys, monkeypatch):
    program = compile(code, "page", "exec")
    if any(code.startswith(beginning) for beginning in NOT_RUN):
        for module in re.findall(r"^(?:from|import) ([\w.]+)", code, re.MULTILINE):
            importlib.import_module(module)
        return
    for words, make in FILES.items():
        if words in code:
            make()
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
