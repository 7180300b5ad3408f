"""Audits of any classifier: does asking find what gradients find, and what does it cost?

    python bench/experiments/any_classifier/run.py --data-dir ../shared/data --out results/any_classifier.json

For settings of the benchmark a classifier is audited on half of the test texts, without labels, in several ways:

- `gradients`: the base classifier, by gradients and masking;
- `callable`: the same, of which nothing but `predict_proba` is known, by cutting words in two rounds;
- `onnx`: the same as a session of ONNX Runtime; `http`: the same as an endpoint on the loopback address;
- `tfidf`, `pairs`, `characters`: TF-IDF and logistic regression, of words, of words and pairs of them, of characters;
- `head`: the encoder of the benchmark, frozen, under a logistic regression, which is SetFit without contrastive steps;
- `setfit`: a SetFit model, trained on `SHOTS` texts of each class. It needs the package `setfit`, and is not among the
  ways unless it is named.

Each audit says its flagged words, its answers and its seconds. The words are then neutralised by the guard that `fit`
makes (`mask`; `distill` by gradients), and base and guard are scored on the other half. Finished cases are kept.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortcut_bench.standalone import grow, open_rows, settings_parser
from shortcut_guardrail import AuditConfig, CertifyConfig, NothingToRepairError, ShortcutGuardrail
from shortcut_guardrail.demo import find_minilm

SETTINGS = ("shifted/GoEmo-ST/reversed", "natural-shortcuts/Amazon/test", "shifted/GoEmo-ST/clean")
WAYS = ("gradients", "callable", "onnx", "http", "tfidf", "pairs", "characters", "head")
SHOTS, SETFIT_STEPS = 64, 200
OF_BASE = ("gradients", "callable", "onnx", "http")
MAX_ROWS = 686  # GoEmo-ST has so many reversed ones, of which half are deployed

Array = np.ndarray[Any, Any]
Ask = Callable[[Sequence[Any]], Array]


def measure(setting: str, seed: int, way: str, *, args: argparse.Namespace) -> dict[str, Any]:
    """One setting, seed and way."""
    opened, make, rows = open_rows(setting, seed, args, at_most=MAX_ROWS)
    half = len(rows) // 2
    deployed, held = rows.select(np.arange(half)), rows.select(np.arange(half, len(rows)))
    train = opened.data.clean_train if setting.endswith("/clean") else opened.data.train
    assert train is not None
    base, trained = make(), opened.train(train)
    with tempfile.TemporaryDirectory() as folder, answering(way, base, trained, train, Path(folder)) as classifier:
        guard = base if way == "gradients" else ShortcutGuardrail.around(classifier, rows.label_names)
        report = guard.audit(deployed.texts, config=AuditConfig(n_examples=0))
        found: dict[str, Any] = {
            "n": half,
            "flagged": [c.text for c in report.flagged],
            "undecided": [c.text for c in report.undecided],
            "tested": report.n_tested,
            "answers": report.answers,
            "seconds": report.seconds,
            "base": scores(guard, held),
        }
        try:
            guard.repair(deployed.texts, report=report, seed=seed)
        except NothingToRepairError:
            return {**found, "taken": []}
        found["taken"] = list(guard.shortcuts.words)
        found["guard"] = scores(guard, held)
        found["certified"] = certified(guard, held)
        return found


def scores(guard: ShortcutGuardrail, rows: Any) -> dict[str, float]:
    """Accuracy and balanced accuracy."""
    scored = guard.evaluate(rows.texts, rows.labels.tolist(), sensitivity="none")
    return {"accuracy": scored.accuracy, "balanced": scored.balanced_accuracy}


def certified(guard: ShortcutGuardrail, rows: Any) -> bool:
    """Whether 100 labels certify some strength at a margin of 5 %."""
    n = min(100, len(rows) // 2)
    found = guard.certify(
        rows.texts[:n], rows.labels[:n].tolist(), unlabelled=rows.texts, config=CertifyConfig(margin=0.05)
    )
    return bool(found.certified)


@contextmanager
def answering(way: str, base: ShortcutGuardrail, trained: Any, train: Any, folder: Path) -> Iterator[Any]:
    """What is audited."""
    if way in OF_BASE:
        asked: Ask = partial(base.predict_proba, strength=0)
        if way == "onnx":
            asked = onnx_session(trained, folder)
        if way == "http":
            with served(asked, base.label_names) as url:
                file = folder / "endpoint.toml"
                file.write_text(f'kind = "endpoint"\nmodel = "base"\nurl = "{url}"\nparallel = 2\n', encoding="utf-8")
                yield str(file)
            return
        yield asked
        return
    makers: dict[str, Callable[[Any], Any]] = {"head": head, "setfit": partial(setfit, names=base.label_names)}
    yield makers.get(way, partial(linear, way))(train)


def linear(way: str, train: Any) -> Any:
    """TF-IDF and logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    how: dict[str, dict[str, Any]] = {
        "tfidf": {},
        "pairs": {"ngram_range": (1, 2)},
        "characters": {"analyzer": "char_wb", "ngram_range": (2, 4)},
    }
    model = make_pipeline(TfidfVectorizer(**how[way]), LogisticRegression(C=10, max_iter=1000))
    return model.fit(list(train.texts), train.labels).predict_proba


def head(train: Any) -> Ask:
    """A logistic regression on the mean vectors of a frozen encoder."""
    from sklearn.linear_model import LogisticRegression
    from transformers import AutoModel, AutoTokenizer

    place = str(find_minilm())
    encoder, tokenizer = AutoModel.from_pretrained(place).eval(), AutoTokenizer.from_pretrained(place)

    @torch.inference_mode()
    def vectors(texts: Sequence[str]) -> Array:
        parts = [np.empty((0, encoder.config.hidden_size), dtype=np.float32)]
        for start in range(0, len(texts), 64):
            some = list(texts[start : start + 64])
            batch = tokenizer(some, padding=True, truncation=True, max_length=128, return_tensors="pt")
            mask = batch["attention_mask"][..., None]
            means = (encoder(**batch).last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1)
            parts.append(torch.nn.functional.normalize(means).numpy())
        return np.concatenate(parts)

    fitted = LogisticRegression(C=10, max_iter=1000).fit(vectors(train.texts), train.labels)

    def answers(texts: Sequence[str]) -> Array:
        return np.asarray(fitted.predict_proba(vectors(texts)))

    return answers


def setfit(train: Any, names: Sequence[str]) -> Ask:
    """A SetFit model: the encoder is trained by contrast of pairs of texts, then a logistic regression on it."""
    from setfit import SetFitModel, Trainer, TrainingArguments

    from datasets import Dataset

    rng = np.random.default_rng(0)
    labels = np.asarray(train.labels)
    rows = np.concatenate([rng.permutation(np.flatnonzero(labels == i))[:SHOTS] for i in range(len(names))])
    data = Dataset.from_dict({"text": [train.texts[i] for i in rows], "label": labels[rows].tolist()})
    model = SetFitModel.from_pretrained(str(find_minilm()), labels=list(names))
    with tempfile.TemporaryDirectory() as folder:
        how = TrainingArguments(folder, batch_size=16, max_steps=SETFIT_STEPS, report_to="none", save_strategy="no")
        Trainer(model=model, args=how, train_dataset=data).train()

    def answers(texts: Sequence[str]) -> Array:
        return np.asarray(model.predict_proba(list(texts), as_numpy=True))

    return answers


def onnx_session(trained: Any, folder: Path) -> Ask:
    """The base classifier as a session of ONNX Runtime."""
    from onnxruntime import InferenceSession

    model, tokenizer = trained.model.eval(), trained.tokenizer
    two = dict(tokenizer(["one text", "and another text"], padding=True, return_tensors="pt"))
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", max=trained.max_length)}
    shapes = dict.fromkeys(two, axes)
    torch.onnx.export(model, (), folder / "m.onnx", kwargs=two, dynamo=True, dynamic_shapes=shapes, verbose=False)
    session = InferenceSession(folder / "m.onnx", providers=["CPUExecutionProvider"])
    names = [put.name for put in session.get_inputs()]

    def answers(texts: Sequence[str]) -> Array:
        parts = []
        for start in range(0, len(texts), 64):
            some = list(texts[start : start + 64])
            batch = tokenizer(some, padding=True, truncation=True, max_length=trained.max_length, return_tensors="np")
            logits = torch.from_numpy(session.run(None, {name: batch[name] for name in names})[0])
            parts.append(logits.double().softmax(dim=-1).numpy())
        return np.concatenate(parts)

    return answers


@contextmanager
def served(ask: Ask, labels: Sequence[str]) -> Iterator[str]:
    """A chat endpoint on the loopback address that says labels with their log-probabilities."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = str(body["messages"][-1]["content"])
            text = said.partition("\n\nText: ")[2].rpartition("\nAnswer:")[0]
            probs = ask([text])[0]
            logs = [{"token": label, "logprob": math.log(p)} for label, p in zip(labels, probs, strict=True)]
            best = logs[int(np.argmax(probs))]
            step = {**best, "top_logprobs": logs}
            message = {"role": "assistant", "content": best["token"]}
            content = json.dumps({"model": "base", "choices": [{"message": message, "logprobs": {"content": [step]}}]})
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 1, 2))
    parser.add_argument("--ways", nargs="+", choices=(*WAYS, "setfit"), default=WAYS)
    args = parser.parse_args(arguments)
    cases = [
        {"setting": setting, "seed": seed, "way": way}
        for setting in args.settings
        for seed in args.seeds
        for way in args.ways
    ]
    for entry in grow(args.out, cases, partial(measure, args=args), asked={}):
        print(json.dumps(entry), flush=True)


if __name__ == "__main__":
    main()
