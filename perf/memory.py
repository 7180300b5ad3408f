"""Padding that is computed for nothing, and memory: against the number of texts, and of one training batch."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from shortcut_guardrail import ShortcutGuardrail, preset
from shortcut_guardrail.data.sources import FileTexts

from . import machine, material

_MB = 1 << 20


def padding(data_dir: Path) -> dict[str, Any]:
    """Share of processed tokens that are padding, counted at the embedding layer over a whole fit and evaluation.

    `packed` is what BERT and its kin get, `padded` what families that cannot pack get, `plain` padding to the longest
    of each batch in the order of the texts.
    """
    tokenizer = material.tokenizer()
    model = material.random_bert(material.TINY)
    texts = {
        "sst2": material.sst2(data_dir),
        "goemotions": material.goemotions(data_dir),
        "yelp": material.yelp(data_dir, 500),
    }
    return {
        name: {
            "texts": len(some),
            "packed": _wasted(model, tokenizer, some, packing=True),
            "padded": _wasted(model, tokenizer, some, packing=False),
            "plain": _wasted_plainly(tokenizer, some),
        }
        for name, some in texts.items()
    }


def _wasted(model: Any, tokenizer: Any, texts: list[str], *, packing: bool) -> float:
    guard = ShortcutGuardrail(model, tokenizer, packing=packing, max_length=512, batch_size=64)
    processed = padded = 0

    def count(_module: Any, arguments: tuple[torch.Tensor, ...]) -> None:
        nonlocal processed, padded
        processed += arguments[0].numel()
        padded += int((arguments[0] == tokenizer.pad_token_id).sum())

    # The adapter is trained on a copy of this model, hooks included.
    embeddings = guard._base.plain_model.get_input_embeddings()
    handle = embeddings.register_forward_pre_hook(count)
    guard.fit(texts, config=preset("paper").with_adapter(learning_rate=1e-2))
    guard.audit(texts, unit="token")
    handle.remove()
    return padded / processed


def _wasted_plainly(tokenizer: Any, texts: list[str], size: int = 16) -> float:
    lengths = [len(ids) for ids in tokenizer(texts, truncation=True, max_length=512).input_ids]
    processed = sum(len(part) * max(part) for part in (lengths[i : i + size] for i in range(0, len(lengths), size)))
    return 1 - sum(lengths) / processed


def against_number_of_texts(sizes: tuple[int, ...] = (1_000, 10_000, 100_000)) -> dict[str, Any]:
    """Peak memory of prediction, audit and fit on made-up texts with a tiny model, each in a process of its own.

    Prediction and fit are given a list, which is in memory before they start; the audit reads a file.
    """
    return {task: {str(n): _in_process(task, n) for n in sizes} for task in ("predict", "audit", "fit")}


def _in_process(task: str, n: int) -> dict[str, float]:
    """Memory before and at the peak of a task, MB, and its seconds."""
    code = f"from perf.memory import measure; measure({task!r}, {n})"
    # oneDNN keeps up to 1,024 compiled shapes of products, some 10 KB each; a small cache shows what else grows.
    environment = {**os.environ, "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def made_up_texts(n: int, *, seed: int = 0) -> list[str]:
    """Texts of 5 to 40 words out of 40, so that there are as many candidates in few texts as in many."""
    rng = np.random.default_rng(seed)
    starts, ends = ("ba", "so", "mi", "ter", "lo", "ga", "ne", "pi"), ("n", "ra", "sto", "lin", "ke")
    words = [start + end for start in starts for end in ends]
    return [" ".join(rng.choice(words, rng.integers(5, 40))) for _ in range(n)]


def measure(task: str, n: int) -> None:
    """Run a task and print its memory; called in a process of its own."""
    torch.set_num_threads(1)
    guard = ShortcutGuardrail(material.random_bert(material.TINY), material.tokenizer(), max_length=64, batch_size=256)
    texts = made_up_texts(n)
    warm = texts[:500]
    config = preset("paper").with_adapter(learning_rate=1e-2, max_steps=20)
    run = {
        "predict": lambda some: guard.predict_proba(some),
        "audit": lambda some: _audit_file(guard, some),
        "fit": lambda some: guard.fit(some, config=config),
    }[task]
    run(warm)
    with peak_memory() as peak:
        before, started = psutil.Process().memory_info().rss / _MB, time.perf_counter()
        run(texts)
    print(json.dumps({"before_mb": before, "peak_mb": peak(), "seconds": time.perf_counter() - started}))


def _audit_file(guard: ShortcutGuardrail, texts: list[str]) -> None:
    """From a file to the ranked candidates, a shard at a time, as the command line does it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.csv"
        with file.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([["text"], *([text] for text in texts)])
        guard.audit_in_shards(FileTexts(file), Path(folder) / "shards")


class peak_memory:
    """Watches the memory of this process; what it yields gives the peak in MB after the block."""

    def __enter__(self) -> Any:
        self._stop, self._peak = threading.Event(), 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return lambda: self._peak

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        process = psutil.Process()
        while not self._stop.wait(0.01):
            self._peak = max(self._peak, process.memory_info().rss / _MB)


def product_cache(data_dir: Path, capacities: tuple[int, ...] = (16, 64, 256, 1024)) -> dict[str, Any]:
    """Memory and time of an epoch by how many compiled shapes of products oneDNN keeps; 1,024 is its default."""
    return {str(capacity): _with_capacity(data_dir, capacity) for capacity in capacities}


def _with_capacity(data_dir: Path, capacity: int) -> dict[str, float]:
    code = f"from perf.memory import measure_epoch; measure_epoch({str(data_dir)!r})"
    environment = {**os.environ, "ONEDNN_PRIMITIVE_CACHE_CAPACITY": str(capacity)}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure_epoch(data_dir: str) -> None:
    """Two epochs on 160 sentences at MiniLM's shape; prints the seconds of the faster and the peak memory."""
    texts = material.spread(material.sst2(Path(data_dir)), 160)
    precision = machine.precision()
    guard = ShortcutGuardrail(material.random_bert(material.MINILM), material.tokenizer(), precision=precision)
    config = preset("paper").with_adapter(learning_rate=1e-3)
    seconds = []
    with peak_memory() as peak:
        for _ in range(2):
            started = time.perf_counter()
            guard.fit(texts, config=config)
            seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": min(seconds), "peak_mb": peak()}))


def training_batch(*, length: int = 128, batch_size: int = 8) -> dict[str, Any]:
    """Peak memory and time of steps at BERT-base shape, holding a whole batch's activations or a few sequences'."""
    return {str(most): _batch_in_process(most, length, batch_size) for most in (0, 44, 11)}


def _batch_in_process(most: int, length: int, batch_size: int) -> dict[str, float]:
    code = f"from perf.memory import measure_batch; measure_batch({most}, {length}, {batch_size})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure_batch(most: int, length: int, batch_size: int) -> None:
    """Two steps of a batch of texts of one length, after one to warm up; prints peak memory, seconds and the loss.

    The peak is that of the whole process, model included: what a step has freed may stay with the process.
    """
    precision = machine.precision()
    guard = ShortcutGuardrail(material.random_bert(material.BERT_BASE), material.tokenizer(), precision=precision)
    rng = np.random.default_rng(0)
    words = ["good", "bad", "film", "plot", "actor", "scene", "music", "long", "story", "funny"]
    texts = [" ".join(rng.choice(words, length - 2)) for _ in range(batch_size)]
    config = preset("paper").with_adapter(batch_size=batch_size, sequences_per_pass=most, max_steps=1)
    model_mb = psutil.Process().memory_info().rss / _MB
    with peak_memory() as peak:
        guard.fit(texts, config=config)
        report = guard.fit(texts, config=config.with_adapter(min_steps=2, max_steps=2))
    result = {
        "model_mb": model_mb,
        "peak_mb": peak(),
        "seconds_per_step": report.training.seconds / 2,
        "first_loss": report.training.losses[0],
    }
    print(json.dumps(result))
