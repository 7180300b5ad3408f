"""What audits find when words are masked, cut or replaced, and which of these `auto` takes.

    python bench/experiments/erasures/run.py --data-dir ../shared/data --out results/erasures.json

For settings of the benchmark two base classifiers are audited on the test texts, without labels, once with each
erasure: the benchmark's own, on MiniLM, and `scratch`, two layers of random weights with MiniLM's tokenizer that were
fine-tuned on the same rows, and whose mask token nothing ever trained. `user` is the demo's corpus with "@USER", a
token that was added to the tokenizer, in place of its shortcut; there the default repair is scored as well, on the
reversed texts.

- `tried`: of so many texts in which one word that hardly matters is taken out, those whose prediction changes.
- `recall`: the share of planted (or, in natural data, tracked) words that are flagged, or go with what is.
- `others`: what else is flagged. On `clean` classifiers all of it is a false alarm.

The thresholds (`audit.erasures.MARGIN` and `LEVEL`) were not chosen on these: the margin is the share of texts in which
a word has to move predictions to be a candidate for a flag, and the level a usual one. They were tried on `user` only.
Finished settings and seeds are kept. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortcut_bench.bases import open_setting
from shortcut_bench.standalone import grow, settings_parser
from shortcut_guardrail import AuditConfig, ShortcutGuardrail
from shortcut_guardrail.audit import AuditReport
from shortcut_guardrail.demo import find_minilm
from shortcut_guardrail.demo.corpus import LABEL_NAMES, Part, make_corpus
from shortcut_guardrail.demo.training import Recipe, train_classifier
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.text.content import content_spans
from shortcut_guardrail.text.words import unit_key

SETTINGS = (
    "shifted/GoEmo-ST/reversed",
    "shifted/GoEmo-Syn/reversed",
    "natural-shortcuts/Amazon/test",
    "natural-shortcuts/SST-2/test",
    "shifted/GoEmo-ST/clean",
    "shifted/GoEmo-Syn/clean",
    "user",
)
USERS = "user"
ENCODERS = ("minilm", "scratch")
MAX_ROWS = 600
USER = "@USER"

Array = np.ndarray[Any, Any]


def measure(setting: str, encoder: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One setting, encoder and seed."""
    if setting == USERS:
        return with_user(seed)
    experiment, name, test = setting.split("/")
    source = None if encoder == "minilm" else str(scratch(args.cache))
    changes = {"n_test": None}
    opened = open_setting(
        experiment, name, seed, data_dir=args.data_dir, cache=args.cache, encoder=source, changes=changes
    )
    data, clean = opened.data, test == "clean"
    trained = opened.train(data.clean_train if clean else None)
    rows = data.oracle_tests["reversed"] if clean else data.tests[test]
    rows = rows.select(np.random.default_rng(seed).permutation(len(rows))[:MAX_ROWS])
    guard = ShortcutGuardrail(
        trained.model, trained.tokenizer, max_length=trained.max_length, batch_size=64, precision="auto"
    )
    accuracy = float((guard.predict_proba(rows.texts).argmax(axis=1) == rows.labels).mean())
    report = guard.audit(rows.texts, config=AuditConfig(n_examples=0))
    return {"accuracy": accuracy, **audits(guard, rows.texts, report, () if clean else data.shortcuts)}


def audits(guard: ShortcutGuardrail, texts: Any, by_itself: AuditReport, planted: Sequence[str]) -> dict[str, Any]:
    """An audit with each erasure, given that by `auto`, which is one of them."""
    assert by_itself.erasures is not None
    found: dict[str, Any] = {"auto": by_itself.erasure, "tried": asdict(by_itself.erasures)}
    for erasure in ("mask", "cut", "replace"):
        report = by_itself
        if erasure != by_itself.erasure:
            report = guard.audit(texts, config=AuditConfig(n_examples=0, erasure=erasure))
        found[erasure] = outcome(guard, texts, report, planted)
    return {"n": len(texts), "planted": list(planted), **found}


def outcome(guard: ShortcutGuardrail, texts: Any, report: AuditReport, planted: Sequence[str]) -> dict[str, Any]:
    """What is flagged, and what a repair would take."""
    flagged = [one.text for one in report.flagged]
    with_flagged = [one.text for one in report.candidates if one.flagged or one.alternative_wording or one.collective]
    found = [word for word in planted if any(is_of(text, word) for text in with_flagged)]
    taken = guard.find_shortcuts(texts, report=report)
    return {
        "flagged": len(flagged),
        "recall": len(found) / len(planted) if planted else None,
        "others": [text for text in flagged if not any(is_of(text, word) for word in planted)],
        "taken": len(taken.words),
        "doubted": len(taken.doubted),
    }


def is_of(text: str, planted: str) -> bool:
    """Whether a candidate is a planted word or phrase, or words of one that are not function words alone."""
    content = {unit_key(planted[start:end]) for start, end in content_spans(planted, 0, len(planted))}
    words = set(unit_key(planted).split())
    return set(text.split()) <= words and bool(set(text.split()) & (content or words))


def scratch(cache: Path) -> Path:
    """The folder of a small encoder of random weights, made once; its weights have to stay the same."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    folder = cache / "scratch-encoder"
    if not folder.exists():
        tokenizer = AutoTokenizer.from_pretrained(find_minilm())
        sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
        torch.manual_seed(0)
        BertModel(BertConfig(vocab_size=len(tokenizer), initializer_range=0.1, **sizes)).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


# The demo's reviews with an added token


def with_user(seed: int) -> dict[str, Any]:
    """The demo's classifier, audited and repaired by default, scored on the reversed texts."""
    corpus = make_corpus(seed=seed)
    train, deployment, test = (user(part) for part in (corpus.train, corpus.deployment, corpus.reversed))
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer = train_classifier(train, encoder=with_token(Path(folder)), recipe=Recipe(), seed=seed)
    guard = ShortcutGuardrail(model, tokenizer, max_length=Recipe().max_length, precision="auto")
    texts = list(deployment.texts)
    report = guard.audit(texts, config=AuditConfig(n_examples=0))
    found = audits(guard, texts, report, (USER,))
    repair = guard.repair(texts, report=report, seed=seed)
    labels = [LABEL_NAMES[label] for label in test.labels]
    about: dict[str, Any] = {"shortcuts": [USER], "sensitivity": "none"}
    scores = [guard.evaluate(list(test.texts), labels, **about, strength=strength) for strength in (0.0, None)]
    worst = [float(one.worst_group_accuracy) for one in scores]
    return {**found, "reliance_removed": list(repair.fitted.shortcuts.words), "worst_group": worst}


def user(part: Part) -> Part:
    """The same with the added token in place of the shortcut and its comma."""
    return Part(tuple(text.replace("honestly,", USER) for text in part.texts), part.labels)


def with_token(folder: Path) -> Path:
    """MiniLM with one more token, which is no special one."""
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(find_minilm()), AutoTokenizer.from_pretrained(find_minilm())
    tokenizer.add_tokens([USER])
    torch.manual_seed(0)
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def cases(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All that is measured, seed by seed."""
    for seed in args.seeds:
        for setting in args.settings:
            encoders = args.encoders if setting != USERS else ENCODERS[:1]
            yield from ({"setting": setting, "encoder": name, "seed": seed} for name in encoders)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 1, 2))
    parser.add_argument("--encoders", nargs="*", choices=ENCODERS, default=ENCODERS)
    args = parser.parse_args(arguments)
    beside = {"versions": library_versions()}
    for entry in grow(
        args.out, cases(args), partial(measure, args=args), asked={"max_rows": MAX_ROWS}, beside=lambda _: beside
    ):
        print({name: value for name, value in entry.items() if name != "planted"}, flush=True)


if __name__ == "__main__":
    main()
