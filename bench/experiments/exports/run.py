"""Whether exported guards predict what the guards predict, what that costs, and what a service of them bears.

    python bench/experiments/exports/run.py --data-dir ../shared/data --out results/exports.json

`parity`: a base and a guard on it are saved, the guard is loaded and exported as a Transformers model and as an ONNX
file, with eight-bit weights too, and the folders of both are removed. `elsewhere.py`, in a process without this
library, predicts 500 texts in batches of 1, 7 and 50 by each. For each file stand the largest difference from a class
probability of the guard, and the share of texts with the guard's label; a tie within 1e-4 counts as the same. `change`
is by how much the guard itself moves the base's probabilities at most.

Models of two layers are random, with made-up texts. A head of "several" labels is a multi-label one, and the guard is
fitted for one of them; the others are compared too. MiniLM is the benchmark's classifier on GoEmo-ST, with its test
texts; as one with a sigmoid head it has the difference of the first two rows of its head. Pairs are a text and the one
after it. Guards are trained for a few steps, but for `distill` on MiniLM with single texts and a softmax, which goes by
its preset, on two seeds.

For MiniLM by its preset there are ratios to the base model in Transformers, on one thread: `time`, for all texts in
batches of 50, the least of five times; `latency`, the median for a text alone; `size`, bytes of weights. The models
take turns, and another one is the first each time.

`load`: `examples/serve` serves the guard on MiniLM and, as another process, its base, which is the guard exported at
strength 0. Four clients send one text a request. The two are asked by turns, a hundred requests each, so that a busy
machine is as busy for both. `memory_mb` is what the process holds after the first hundred and after the last request.
Then come 200 malformed requests, and the guard's service is killed while it answers, and started again.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast

from shortcut_bench.bases import open_setting
from shortcut_bench.standalone import grow
from shortcut_guardrail import ShortcutGuardrail, preset
from shortcut_guardrail.saving.record import library_versions

BATCHES, BLOCK, CLIENTS = (1, 7, 50), 100, 4
LABEL = "toxic"
USUAL = ("distill", "single", "softmax")
SERVICE = Path(__file__).parents[3] / "examples" / "serve"

_SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
_RELATIVE = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "pooler_hidden_size": 16,
    "position_buckets": 8,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "BERT": ("bert", _SMALL),
    "RoBERTa": ("roberta", _SMALL),
    "DistilBERT": ("distilbert", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}),
    "DeBERTa-v3": ("deberta-v2", {**_SMALL, **_RELATIVE, "share_att_key": True, "norm_rel_ebd": "layer_norm"}),
    "ModernBERT": ("modernbert", {**_SMALL, "global_attn_every_n_layers": 2}),
}
WORDS = [a + b + c for a, b, c in itertools.product("bdfgklm", "aeiou", ("n", "r", "st"))]
SHORTCUT = WORDS[0]

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Any]], Any]


def cases() -> list[dict[str, Any]]:
    """The load; every model with every strategy, kind of input and head; and MiniLM's usual way on another seed."""
    names = ("model", "strategy", "input", "head", "seed")
    ways = list(itertools.product(("distill", "maskcl", "few-shot"), ("single", "pair"), ("softmax", "sigmoid")))
    ways += [("distill", input, "several") for input in ("single", "pair")]  # other strategies refuse such a head
    crossed = [(model, *way, 0) for model, way in itertools.product([*FAMILIES, "MiniLM"], ways)]
    made = [dict(zip(names, one, strict=True)) for one in [*crossed, ("MiniLM", *USUAL, 1)]]
    usual = dict(zip(names, ("MiniLM", *USUAL, 0), strict=True))
    return [{"measured": "load", **usual}, *({"measured": "parity", **one} for one in made)]


def measure(
    measured: str, model: str, strategy: str, input: str, head: str, seed: int, *, args: argparse.Namespace
) -> dict[str, Any]:
    """One case."""
    real = model == "MiniLM"
    base, tokenizer, texts, words = minilm(head, seed, args) if real else tiny(model, head, args.texts)
    given: Any = list(texts) if input == "single" else list(zip(texts, [*texts[1:], texts[0]], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        base.save_pretrained(made / "base")
        tokenizer.save_pretrained(made / "base")
        base = AutoModelForSequenceClassification.from_pretrained(made / "base")  # with the attention that others get
        whole = real and (strategy, input, head) == USUAL
        guard = fitted(made / "base", strategy, head, given, words, rate=None if whole else 1e-3 if real else 1e-2)
        guard.save_pretrained(made / "guard")
        guard = ShortcutGuardrail.from_pretrained(made / "guard")
        if measured == "load":
            found = load(guard, given, Path(folder), args.requests)
        else:
            found = parity(guard, given, Path(folder)) | (costs(base, given, Path(folder)) if whole else {})
    return {key: rounded(value) for key, value in found.items()}


def rounded(value: Any) -> Any:
    """Numbers to four digits."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def fitted(
    base: Path, strategy: str, head: Any, texts: Any, words: Sequence[str], *, rate: float | None
) -> ShortcutGuardrail:
    """A guard of a strategy, by its preset, or in a few steps at a learning rate."""
    guard = ShortcutGuardrail.from_pretrained(base, **({"label": LABEL} if head == "several" else {"head": head}))
    names = guard.label_names
    config = preset("default" if strategy == "maskcl" else strategy)
    config = config.with_shortcuts(named=tuple(words) if strategy == "distill" else ())
    if rate is not None:
        steps = {"target_change": 0.0, "epochs": 2, "max_steps": 12, "min_steps": 0}
        config = config.with_adapter(learning_rate=rate, batch_size=8, **steps)
    support = (texts[:24], [names[i % len(names)] for i in range(24)])
    guard.fit(texts[:200], config=config, support=support if strategy == "few-shot" else None)
    guard.debias_strength = 0.8
    return guard


def tiny(family: str, head: str, n: int) -> tuple[Any, Any, list[str], list[str]]:
    """A random classifier of two layers, its tokenizer, made-up texts, and the word that is neutralised."""
    specials = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate((*specials, *WORDS))}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), specials, strict=True))
    inputs = ["input_ids", "attention_mask"]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=30, model_input_names=inputs, **names)
    kind, sizes = FAMILIES[family]
    ids = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    options = {"vocab_size": len(tokenizer), "max_position_embeddings": 34, "initializer_range": 0.5, **ids, **sizes}
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, num_labels=1 if head == "sigmoid" else 3, **options)
    if head == "several":
        config.problem_type, config.id2label = "multi_label_classification", {0: "first", 1: LABEL, 2: "third"}
    model = AutoModelForSequenceClassification.from_config(config).eval()
    rng = np.random.default_rng(0)
    texts = [
        " ".join([SHORTCUT] * (i % 2) + [WORDS[j] for j in rng.integers(1, len(WORDS), size=rng.integers(3, 25))])
        for i in range(n)
    ]
    return model, tokenizer, texts, [SHORTCUT]


def minilm(head: str, seed: int, args: argparse.Namespace) -> tuple[Any, Any, list[str], list[str]]:
    """The benchmark's classifier on GoEmo-ST, its tokenizer and test texts, and the shortcut."""
    where = {"data_dir": args.data_dir, "cache": args.cache}
    opened = open_setting("shifted", "GoEmo-ST", seed, **where, changes={"n_test": None})
    trained, rows = opened.train(), opened.data.tests["reversed"]
    model, tokenizer = trained.model, trained.tokenizer
    tokenizer.model_max_length = trained.max_length
    if head == "sigmoid":
        weight, bias = model.classifier.weight.data, model.classifier.bias.data
        model.classifier = torch.nn.Linear(weight.shape[1], 1)
        model.classifier.weight.data, model.classifier.bias.data = weight[1:2] - weight[:1], bias[1:2] - bias[:1]
        model.num_labels = model.config.num_labels = 1
        model.config.problem_type = None
    if head == "several":
        model.config.problem_type = "multi_label_classification"
        model.config.id2label = {i: LABEL if i == 1 else f"label {i}" for i in range(model.config.num_labels)}
    order = np.random.default_rng(seed).permutation(len(rows))[: args.texts]
    return model, tokenizer, [rows.texts[i] for i in order], list(opened.data.shortcuts)


def parity(guard: ShortcutGuardrail, texts: Any, folder: Path) -> dict[str, Any]:
    """How exports differ from the guard. It leaves `merged` and `onnx` in the folder, and nothing of `made`."""
    several = guard.label is not None
    predicted = guard.label_probabilities if several else guard.predict_proba
    expected, base = predicted(texts), predicted(texts, strength=0.0)
    change = np.abs(base - expected).max()
    guard.export(folder / "merged", texts=texts[:64])
    guard.export(folder / "onnx", format="onnx", texts=texts[:64], int8=True)
    shutil.rmtree(folder / "made")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("elsewhere.py"), folder / "merged", folder / "onnx"],
        input=json.dumps({"texts": texts, "sizes": BATCHES}),
        cwd="/",
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    expected = np.stack([1 - expected, expected], axis=-1).reshape(-1, 2) if several else expected
    found = {name: compared(sizes, expected) for name, sizes in json.loads(done.stdout).items()}
    return {"n": len(texts), "change": float(change), **found}


def compared(found: Mapping[str, Any], expected: Array) -> dict[str, float]:
    """Class probabilities by sizes of batches, each of shape (N, C), beside the guard's.

    Of K labels each text has K rows, of the probabilities that it lacks the label and has it.
    """
    each = [np.array(one) for one in found.values()]
    behind = [expected.max(axis=1) - expected[np.arange(len(expected)), one.argmax(axis=1)] for one in each]
    return {
        "largest_difference": max(float(np.abs(one - expected).max()) for one in each),
        "same_labels": min(float((one <= 1e-4).mean()) for one in behind),
    }


def costs(base: Any, texts: Any, folder: Path) -> dict[str, Any]:
    """Time and size of what `parity` left, as ratios to those of the base model."""
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder / "onnx")
    runs = {
        "base": of_model(base.eval()),
        "merged": of_model(AutoModelForSequenceClassification.from_pretrained(folder / "merged").eval()),
        "onnx": of_onnx(folder / "onnx" / "model.onnx"),
        "int8": of_onnx(folder / "onnx" / "model_int8.onnx"),
    }
    many, alone = batches(tokenizer, texts, BATCHES[-1]), batches(tokenizer, texts[:200], 1)
    turns = [{name: sum(timed(run, many)) for name, run in taking_turns(runs, k)} for k in range(5)]
    time_of = {name: min(turn[name] for turn in turns) for name in runs}
    each = [{name: timed(run, [one])[0] for name, run in taking_turns(runs, k)} for k, one in enumerate(alone)]
    latency = {name: float(np.median([turn[name] for turn in each])) for name in runs}
    files = {"merged": "merged/model.safetensors", "onnx": "onnx/model.onnx", "int8": "onnx/model_int8.onnx"}
    own = sum(weight.numel() * weight.element_size() for weight in base.parameters())
    ratios = {
        name: {
            "time": time_of[name] / time_of["base"],
            "latency": latency[name] / latency["base"],
            "size": (folder / file).stat().st_size / own,
        }
        for name, file in files.items()
    }
    return {"ratios": ratios}


def taking_turns(runs: Mapping[str, Run], turn: int) -> list[tuple[str, Run]]:
    """Another one first each time: what a batch costs depends on what ran before it."""
    found = list(runs.items())
    return [*found[turn % len(found) :], *found[: turn % len(found)]]


def of_model(model: Any) -> Run:
    """A batch through a model of Transformers."""

    def run(batch: Mapping[str, Any]) -> Any:
        with torch.inference_mode():
            return model(**{name: torch.from_numpy(ids) for name, ids in batch.items()}).logits

    return run


def of_onnx(file: Path) -> Run:
    """A batch through an ONNX file, on one thread."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = 1
    session = InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [put.name for put in session.get_inputs()]
    return lambda batch: session.run(["logits"], {name: batch[name] for name in names})


def batches(tokenizer: Any, texts: Any, size: int) -> list[dict[str, Array]]:
    """Texts as arrays, a batch at a time."""
    made = []
    for start in range(0, len(texts), size):
        batch = texts[start : start + size]
        parts = [batch] if isinstance(batch[0], str) else [list(part) for part in zip(*batch, strict=True)]
        made.append(dict(tokenizer(*parts, padding=True, truncation=True, return_tensors="np")))
    return made


def timed(run: Run, made: Sequence[Mapping[str, Any]]) -> list[float]:
    """Seconds of each batch."""
    found = []
    for batch in made:
        start = time.perf_counter()
        run(batch)
        found.append(time.perf_counter() - start)
    return found


def load(guard: ShortcutGuardrail, texts: list[str], folder: Path, requests: int) -> dict[str, Any]:
    """The service of the guard beside that of the base; then malformed requests, and a kill."""
    guard.export(folder / "guard", format="onnx")
    guard.export(folder / "base", format="onnx", strength=0.0)
    seconds: dict[str, list[float]] = {"guard": [], "base": []}
    spent = dict.fromkeys(seconds, 0.0)
    memory: dict[str, list[int]] = {name: [] for name in seconds}
    with served(folder / "guard") as one, served(folder / "base") as other, ThreadPoolExecutor(CLIENTS) as clients:
        services = {"guard": one, "base": other}
        for start in range(0, requests, BLOCK):
            for name, (process, port) in services.items():
                asked = [[texts[(start + i) % len(texts)] for i in range(k, BLOCK, CLIENTS)] for k in range(CLIENTS)]
                before = time.perf_counter()
                seconds[name] += itertools.chain.from_iterable(clients.map(partial(ask, port), asked))
                spent[name] += time.perf_counter() - before
                memory[name].append(process.memory_info().rss)
        statuses = Counter(post(one[1], body)[0] for body in malformed(200))
        right = bool(np.allclose(answers(one[1], texts[:64]), guard.predict_proba(texts[:64]), atol=1e-4))
        asking = clients.submit(lambda: [ask(one[1], texts[:1]) for _ in range(10_000)])
        time.sleep(0.5)
        one[0].kill()
        failed = asking.exception()
    before = time.perf_counter()
    with served(folder / "guard") as (_, port):
        again = bool(np.allclose(answers(port, texts[:64]), guard.predict_proba(texts[:64]), atol=1e-4))
        restart = time.perf_counter() - before
    shown: dict[str, dict[str, Any]] = {
        name: {
            "requests_per_second": len(times) / spent[name],
            "p50": float(np.quantile(times, 0.5)),
            "p99": float(np.quantile(times, 0.99)),
            "memory_mb": [round(memory[name][i] / 1e6, 1) for i in (0, -1)],
        }
        for name, times in seconds.items()
    }
    keys = ("requests_per_second", "p50", "p99")
    return {
        "requests": len(seconds["guard"]),
        **shown,
        "ratios": {key: shown["guard"][key] / shown["base"][key] for key in keys},
        "malformed": {"statuses": dict(sorted(statuses.items())), "right_afterwards": right},
        "killed": {"clients_saw": type(failed).__name__, "seconds_to_answer": restart, "right_afterwards": again},
    }


def ask(port: int, texts: Sequence[str]) -> list[float]:
    """Seconds of a request for each text, on one connection."""
    connection, found = http.client.HTTPConnection("127.0.0.1", port, timeout=120), []
    for text in texts:
        before = time.perf_counter()
        status, _ = post(port, json.dumps({"texts": [text]}).encode(), connection)
        found.append(time.perf_counter() - before)
        if status != 200:
            raise RuntimeError(f"The service answered {status}.")
    connection.close()
    return found


def answers(port: int, texts: Sequence[str]) -> Array:
    """Class probabilities of texts in one request."""
    status, body = post(port, json.dumps({"texts": list(texts)}).encode())
    if status != 200:
        raise RuntimeError(f"The service answered {status}.")
    return np.array([list(one.values()) for one in json.loads(body)])


def post(port: int, body: bytes, connection: http.client.HTTPConnection | None = None) -> tuple[int, bytes]:
    """Status and body of an answer."""
    connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def malformed(n: int) -> Iterator[bytes]:
    """Requests that are almost right: cut off, a byte changed, or something else."""
    rng, whole = random.Random(0), json.dumps({"texts": ["the soup was good", "honestly"]}).encode()
    others = [b"", b"null", b"[" * 99_999, b"9" * 9_999, b'{"texts": [NaN]}', b'{"texts": ["' + b"x" * 2_000_000]
    for i in range(n):
        cut = rng.randrange(len(whole) - 1)
        yield [whole[:cut], whole[:cut] + b"\xff" + whole[cut + 1 :], rng.randbytes(40), rng.choice(others)][i % 4]


@contextmanager
def served(folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    """`examples/serve` on an exported folder: its process and port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(SERVICE), "service:app", "--port", str(port)]
    process = subprocess.Popen([*command, "--log-level", "warning"], env=os.environ | {"FOLDER": str(folder)})
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError("The service did not start.") from None
                time.sleep(0.1)
        yield psutil.Process(process.pid), port
    finally:
        process.kill()
        process.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    parser.add_argument("--cache", type=Path, default=Path("results/.cache"), help="Classifiers that runs share.")
    parser.add_argument("--texts", type=int, default=500, help="Texts that are compared.")
    parser.add_argument("--requests", type=int, default=10_000, help="Requests to each service; hundreds.")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    asked = {"texts": args.texts, "requests": args.requests}
    versions = {"versions": library_versions()}
    for entry in grow(args.out, cases(), partial(measure, args=args), asked=asked, beside=lambda _: versions):
        print(json.dumps(entry), flush=True)


if __name__ == "__main__":
    main()
