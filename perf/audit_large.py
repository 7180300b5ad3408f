"""Audit a large made-up corpus with a tiny model: memory over time, a kill in the middle, and the resumed rest.

    python -m perf.audit_large --texts 100000 --out results/audit/large.json

The classifier is a two-layer BERT with random weights and a vocabulary of 500 made-up words; the texts are random words
of it, a tenth of them repeats. The command line is run three times on the same file: to the end; until half of the
shards are there, and then killed (SIGKILL); and to the end again with --resume. Memory is that of the process (resident
set), read every half second. The resumed audit has to equal the first one.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from shortcut_guardrail.data.writing import to_json, write_file
from shortcut_guardrail.saving.record import library_versions

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MIB = 2**20


def make_model(folder: Path, words: list[str]) -> None:
    """Saves a two-layer BERT classifier with random weights that knows these words."""
    vocab = {word: i for i, word in enumerate([*SPECIALS, *words])}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIALS, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=32, **names).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocab),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        num_labels=3,
        initializer_range=0.5,
    )
    BertForSequenceClassification(config).save_pretrained(folder)


def make_texts(file: Path, words: list[str], n: int) -> None:
    """Writes n texts of 6 to 14 random words to a CSV file, a tenth of them repeats."""
    rng = np.random.default_rng(0)
    texts: list[str] = []
    for _ in range(n):
        if texts and rng.random() < 0.1:
            texts.append(texts[int(rng.integers(len(texts)))])
        else:
            texts.append(" ".join(rng.choice(words, size=int(rng.integers(6, 15)))))
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([("text",), *((text,) for text in texts)])


def run(command: list[str], stop: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """Run a command, note its memory, and kill it once `stop` says so."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    watched, curve, killed = psutil.Process(process.pid), [], False
    while process.poll() is None:
        try:
            curve.append((round(time.monotonic() - started, 1), round(watched.memory_info().rss / MIB)))
        except psutil.NoSuchProcess:
            break
        if stop():
            process.send_signal(signal.SIGKILL)
            killed = True
        time.sleep(0.5)
    errors = process.communicate()[1]
    if process.returncode and not killed:
        raise RuntimeError(errors)
    return {
        "seconds": round(time.monotonic() - started, 1),
        "killed": killed,
        "peak_mib": max(rss for _, rss in curve),
        "memory_curve": thinned(curve),
    }


def thinned(curve: list[tuple[float, int]], points: int = 60) -> list[dict[str, float]]:
    """So many points of a curve at most, evenly spread, with its first and last."""
    chosen = np.unique(np.linspace(0, len(curve) - 1, min(points, len(curve))).astype(int))
    return [{"seconds": curve[i][0], "mib": curve[i][1]} for i in chosen]


def audited_thrice(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The audit in one go, until it is killed half way, and the rest of that; and whether the two say the same."""
    words = ["".join(parts) for parts in itertools.product("bdklm", "aeiou", "bdklmnprst", "ao")]
    make_model(folder / "model", words)
    make_texts(folder / "texts.csv", words, args.texts)
    command = [sys.executable, "-m", "shortcut_guardrail.cli.main", "audit", str(folder / "model")]
    command += [str(folder / "texts.csv"), "--unit", "word", "--top-k", "5", "--batch-size", "256"]
    command += ["--shard-size", str(args.shard_size), "--out"]
    n_shards = -(-args.texts // args.shard_size)
    shards = folder / "resumed.partial"
    whole = run([*command, str(folder / "whole")])
    until = run(
        [*command, str(folder / "resumed")],
        lambda: shards.exists() and len(list(shards.glob("*.npz"))) >= n_shards // 2,
    )
    kept = len(list(shards.glob("*.npz")))
    rest = run([*command, str(folder / "resumed"), "--resume"])
    audits = [json.loads((folder / one / "audit.json").read_text()) for one in ("whole", "resumed")]
    return {
        "n_texts": args.texts,
        "n_distinct": audits[0]["n_distinct"],
        "shard_size": args.shard_size,
        "n_shards": n_shards,
        "whole": whole,
        "until_killed": until,
        "shards_kept": kept,
        "resumed": rest,
        "equal": audits[0] == audits[1],
        "versions": library_versions(),
    }


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(
        prog="python -m perf.audit_large", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--shard-size", type=int, default=2000)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        result = audited_thrice(Path(name), args)
    write_file(args.out, to_json(result), overwrite=True)
    seconds = [result[part]["seconds"] for part in ("whole", "until_killed", "resumed")]
    print(f"{seconds[0]} s in one go, {seconds[1]} and {seconds[2]} s with a kill between; equal: {result['equal']}")


if __name__ == "__main__":
    main()
