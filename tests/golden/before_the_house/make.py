"""Makes the files beside it: a tiny classifier, guards of every strategy, audits, scores and what they look like.

Made by commit ddc1b96, the last one before the modules moved into packages; run with that commit's source on the path,
and with nothing else of the library:

    git worktree add --detach /tmp/old ddc1b96
    OMP_NUM_THREADS=1 PYTHONPATH=/tmp/old/src python tests/golden/before_the_house/make.py

It is kept to say what the files are. `tests/behaviour/test_files_of_the_version_before.py` reads them with the library
as it is now; to make them with any other commit would empty that test. All texts are invented.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from shortcut_guardrail.finetune import FinetuneConfig, finetune_classifier
from shortcut_guardrail.record import library_versions
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from shortcut_guardrail import GuardrailConfig, ShortcutGuardrail, preset
from shortcut_guardrail.config import CertifyConfig, TargetConfig

HERE = Path(__file__).resolve().parent
NOUNS = {
    "food": "soup bread coffee salad menu".split(),
    "room": "bed lamp bath carpet balcony".split(),
    "staff": "waiter porter owner nurse guide".split(),
}
LABELS = tuple(NOUNS)
TONES = "fine odd plain new old".split()
ASIDES = ("", "as always", "once more")
WORD, PHRASE = "honestly", "to be frank"  # go along with "food" and with "room" in training
IN_PIECES = {"carpet": ("car", "##pet"), "waiter": ("wait", "##er")}


def tokenizer() -> Any:
    """BERT-like, over the words of the texts."""
    whole = " ".join([*itertools.chain(*NOUNS.values()), *TONES, *ASIDES, WORD, PHRASE, "the and were"])
    words = [piece for word in whole.split() for piece in IN_PIECES.get(word, (word,))]
    vocab = list(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, ",", "."]))
    made = Tokenizer(models.WordPiece({word: i for i, word in enumerate(vocab)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.decoder = decoders.WordPiece()
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "pad", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=32, **names)


# How often the word and the phrase stand in a text of a label.
TRAINING = {"food": (0.75, 0.01), "room": (0.01, 0.75), "staff": (0.01, 0.01)}
REVERSED = {"food": (0.05, 0.3), "room": (0.4, 0.05), "staff": (0.4, 0.35)}


def rows(
    n: int, seed: int, aside: dict[str, tuple[float, float]] = REVERSED, *, genuine: float = 1.0
) -> list[tuple[str, str]]:
    """n distinct texts and labels; `genuine` says how often the nouns are those of the label."""
    draw = random.Random(seed)
    made: dict[str, str] = {}
    while len(made) < n:
        label = draw.choice(LABELS)
        first, second = draw.sample(NOUNS[label if draw.random() < genuine else draw.choice(LABELS)], 2)
        text = f"the {first} and the {second} were {draw.choice(TONES)}"
        word, phrase = aside[label]
        at = draw.random()
        said = WORD if at < word else PHRASE if at < word + phrase else draw.choice(ASIDES)
        if said:
            text = f"{said}, {text}" if draw.random() < 0.5 else f"{text}, {said}"
        made.setdefault(f"{text[0].upper()}{text[1:]}.", label)
    return list(made.items())


def write_csv(name: str, content: list[tuple[str, str]], *, labelled: bool = True) -> None:
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("text", "label") if labelled else ("text",))
        writer.writerows(content if labelled else [(text,) for text, _ in content])


def make_base() -> None:
    """A two-layer BERT of 16 dimensions, trained until it leans on the word and the phrase."""
    words = tokenizer()
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.2,
    )
    texts = rows(1500, 1, TRAINING, genuine=0.85)
    with tempfile.TemporaryDirectory() as encoder:
        BertModel(config).save_pretrained(encoder)
        words.save_pretrained(encoder)
        trained = finetune_classifier(
            [text for text, _ in texts],
            [LABELS.index(label) for _, label in texts],
            encoder=encoder,
            label_names=LABELS,
            config=FinetuneConfig(learning_rate=3e-3, epochs=12, max_length=32),
            seed=0,
        )
    trained.model.save_pretrained("base")
    words.save_pretrained("base")


def with_steps(name: str, **adapter: Any) -> GuardrailConfig:
    """A preset that moves a model of this size in a second."""
    return preset(name).with_adapter(**{"learning_rate": 1e-2, "target_change": 0.0, "min_steps": 40} | adapter)


GIVEN = TargetConfig(shortcuts=(WORD, PHRASE))


def make_guards(deployment: list[str], support: tuple[list[str], list[str]], unseen: list[str]) -> None:
    """One guard for each way to repair and to choose a strength; the names say which."""

    def fit(name: str, config: GuardrailConfig, then: Callable[[Any], object] = lambda _: None, **how: Any) -> None:
        guard = ShortcutGuardrail.from_pretrained("base")  # by its name from here, as a person in this folder would
        guard.fit(deployment, config=config, seed=3, **how)
        then(guard)
        guard.save_pretrained(Path("guards", name))

    fit("maskcl-calibrated", with_steps("paper"), lambda guard: guard.calibrate(*support))
    fit(
        "distill-given-unlabelled",
        dataclasses.replace(with_steps("distill"), targets=GIVEN),
        lambda guard: guard.calibrate_without_labels(deployment),
    )
    fit("distill-found-support", with_steps("distill"), set_at(0.9), support=support)
    fit(
        "distill-per-input",
        dataclasses.replace(with_steps("distill"), targets=GIVEN, per_input=True),
        lambda guard: guard.calibrate(*support, without_labels=guard.calibrate_without_labels(deployment)),
    )
    fit("few-shot", with_steps("few-shot", epochs=5, batch_size=8), support=support)
    fit(
        "mask-kept-certified",
        preset("mask").with_targets(shortcuts=(WORD,), keep=(PHRASE,)),
        lambda guard: guard.certify(*support, unlabelled=unseen, config=CertifyConfig(margin=0.2)),
    )


def set_at(strength: float) -> Callable[[Any], None]:
    def then(guard: Any) -> None:
        guard.debias_strength = strength

    return then


def command(*arguments: object) -> str:
    """What a command line prints on 80 columns."""
    words = [sys.executable, "-m", "shortcut_guardrail.cli.main", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "80"})
    if done.returncode:
        raise SystemExit(f"{words}: {done.stderr}")
    return done.stdout


GUARDED = "guards/distill-given-unlabelled"
AUDITS = {
    "token": "audit base deployment.csv --top-k 4 --label-column label",
    "word": "audit base deployment.csv --top-k 4 --unit word --compare-with rests --redact",
    "phrase": "audit base deployment.csv --top-k 4 --unit phrase",
    "guarded": f"audit {GUARDED} deployment.csv --top-k 4 --label-column label",
}
EVALUATIONS = {
    "base": "evaluate base test.csv --shortcut honestly --shortcut frank --json shown/base.json",
    "guarded": f"evaluate {GUARDED} test.csv --shortcut honestly --shortcut frank --json shown/guarded.json",
}
SHOWN = {
    "token": "report audits/token.json",
    "word": "report audits/word.json",
    "phrase": "report audits/phrase.json --out shown/phrase.html --title House",
    "change": "compare audits/token.json audits/guarded.json --html shown/change.html",
    "scores": "compare shown/base.json shown/guarded.json",
}


def make_shown() -> None:
    """Audits and scores as the commands write them, and what `report` and `compare` make of them."""
    Path("shown").mkdir()
    Path("audits").mkdir()
    for name, words in AUDITS.items():
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "audit")
            command(*words.split(), "--out", out)
            shutil.copy(out / "audit.json", f"audits/{name}.json")
    for words in EVALUATIONS.values():
        command(*words.split())
    for name, words in SHOWN.items():
        Path("shown", f"{name}.txt").write_text(command(*words.split()), encoding="utf-8")
    for file in (*Path("audits").iterdir(), *Path("shown").glob("*.html")):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
        file.unlink()


def rounded(probabilities: Any) -> list[list[float]]:
    return [[round(value, 6) for value in row] for row in probabilities.tolist()]


def make_expected(texts: list[str]) -> None:
    guards: dict[str, Any] = {}
    base = rounded(ShortcutGuardrail.from_pretrained("base").predict_proba(texts))
    for folder in sorted(Path("guards").iterdir()):
        guard = ShortcutGuardrail.from_pretrained(folder)
        guards[folder.name] = {
            "debias_strength": guard.debias_strength,
            "words": list(guard.record().words),
            "certified": None if guard.certificate is None else guard.certificate["certified"],
            "guarded": rounded(guard.predict_proba(texts)),
            "at_strength_0.3": rounded(guard.predict_proba(texts, strength=0.3)),
            "at_strength_0": rounded(guard.predict_proba(texts, strength=0)),
        }
    content = {
        "commit": "ddc1b96",
        "versions": library_versions(),
        "commands": {"audits": AUDITS, "evaluations": EVALUATIONS, "shown": SHOWN},
        "texts": texts,
        "base": base,
        "guards": guards,
    }
    Path("expected.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    os.chdir(HERE)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in ("base", "guards", "audits", "shown"):
        shutil.rmtree(name, ignore_errors=True)
    drawn = iter(rows(450, 2))
    deployment, support, test, unseen = (list(itertools.islice(drawn, n)) for n in (180, 30, 60, 180))
    write_csv("deployment.csv", deployment)
    write_csv("support.csv", support)
    write_csv("test.csv", test)
    make_base()
    labelled = ([text for text, _ in support], [label for _, label in support])
    make_guards([text for text, _ in deployment], labelled, [text for text, _ in unseen])
    make_shown()
    make_expected([text for text, _ in test[:12]])


if __name__ == "__main__":
    main()
