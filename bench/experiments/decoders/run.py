"""A decoder with a head on its last token: is its planted word found, and does distillation repair it?

    python bench/experiments/decoders/run.py --decoder FOLDER --data-dir ../shared/data --out results/decoders.json

A pretrained decoder is fine-tuned on the planted training set: all its layers and a head that starts at zero, without
the vectors of words. It is audited on a third of the reversed texts, without labels, by gradients and by cutting words,
and repaired by `distill`, whose teacher answers texts without the word. Original and repaired model are scored on the
others. The oracle is the original on these texts without the inserted word. Plain PEFT then loads the adapter, and
what it predicts is compared with what the guard does, both in float32.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortcut_bench.bases import open_setting
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.finetuning import Checkpoints, FinetuneConfig, finetune_classifier
from shortcut_bench.finetuning.config import Objective
from shortcut_bench.standalone import grow, settings_cases, settings_parser
from shortcut_guardrail import AuditConfig, ShortcutGuardrail
from shortcut_guardrail.data import Texts

SETTINGS = ("shifted/GoEmo-ST/reversed",)
N_DEPLOYED, N_HELD = 240, 446  # together all reversed rows of GoEmo-ST, but one
COMPARED = 100
RECIPE = FinetuneConfig(learning_rate=5e-5, epochs=2, max_length=128, precision="bfloat16", group_by_length=True)


class FrozenWords(Objective):
    """Cross-entropy, with the vectors of words as they are, and a head that starts at zero.

    A random head on states as large as a decoder's says more at first than any text does.
    """

    def begin(self, model: Any, tokenizer: Any) -> None:
        """See `Objective`."""
        model.get_input_embeddings().requires_grad_(False)
        torch.nn.init.zeros_(model.score.weight)


def measure(setting: str, seed: int, *, args: Any) -> dict[str, Any]:
    """One setting and seed."""
    experiment, name, test = setting.split("/")
    where = {"data_dir": args.data_dir, "cache": args.cache}
    data = open_setting(experiment, name, seed, **where, changes={"n_test": None}).data
    order = np.random.default_rng(seed).permutation(len(data.tests[test]))[: N_DEPLOYED + N_HELD]
    deployed, held = data.tests[test].select(order[:N_DEPLOYED]), data.tests[test].select(order[N_DEPLOYED:])
    trained = finetune_classifier(
        data.train.texts,
        data.train.labels.tolist(),
        encoder=args.decoder,
        label_names=data.label_names,
        config=RECIPE,
        seed=seed,
        objective=FrozenWords(),
        progress=told,
        checkpoints=Checkpoints(args.cache / "unfinished" / f"decoder-{name}-{seed}"),
    )
    guard = ShortcutGuardrail(trained.model, trained.tokenizer, max_length=RECIPE.max_length, precision="bfloat16")
    report = guard.audit(deployed.texts, config=AuditConfig(n_examples=0), progress=told)
    original = scores(guard, held)
    oracle = scores(guard, data.oracle_tests[test].select(order[N_DEPLOYED:]))
    begun = time.perf_counter()
    guard.repair(deployed.texts, report=report, strategy="distill", seed=seed, progress=told)
    repaired = scores(guard, held)
    return {
        "n": len(deployed),
        "n_held": len(held),
        "train_loss": list(trained.train_loss),
        "seconds_of_training": trained.seconds,
        "flagged": [c.text for c in report.flagged],
        "undecided": [c.text for c in report.undecided],
        "tested": report.n_tested,
        "answers": report.answers,
        "seconds": report.seconds,
        "taken": list(guard.shortcuts.words),
        "strength": guard.debias_strength,
        "seconds_of_repair": time.perf_counter() - begun,
        "base": original,
        "guard": repaired,
        "oracle": oracle,
        "gap": {key: (repaired[key] - original[key]) / (oracle[key] - original[key]) for key in original},
        "peft": beside_peft(guard, trained, held.texts[:COMPARED]),
    }


def told(stage: str, done: int, total: int) -> None:
    """How far it is: a decoder takes an hour on two busy cores."""
    print(f"{stage} {done} of {total}", file=sys.stderr, flush=True)


def scores(guard: ShortcutGuardrail, rows: LabelledTexts) -> dict[str, float]:
    """Accuracy and balanced accuracy."""
    scored = guard.evaluate(rows.texts, rows.labels.tolist(), sensitivity="none")
    return {"accuracy": scored.accuracy, "balanced": scored.balanced_accuracy}


@torch.inference_mode()
def beside_peft(guard: ShortcutGuardrail, trained: Any, texts: Texts) -> dict[str, Any]:
    """How plain PEFT's predictions differ from the guard's."""
    from peft import PeftModel

    with tempfile.TemporaryDirectory() as folder:
        guard.save_pretrained(Path(folder) / "guard")
        own = ShortcutGuardrail.from_pretrained(
            Path(folder) / "guard", base=trained.model, max_length=RECIPE.max_length, precision="float32"
        )
        ours = own.predict_proba(texts)
        plain = PeftModel.from_pretrained(trained.model, folder + "/guard").eval()
    parts = []
    for start in range(0, len(texts), 20):
        some = trained.tokenizer(
            list(texts[start : start + 20]),
            padding=True,
            truncation=True,
            max_length=RECIPE.max_length,
            return_tensors="pt",
        )
        parts.append(plain(**some).logits.double().softmax(dim=-1).numpy())
    theirs = np.concatenate(parts)
    return {
        "n": len(texts),
        "largest_difference": float(np.abs(ours - theirs).max()),
        "same_predictions": int((ours.argmax(axis=1) == theirs.argmax(axis=1)).sum()),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = settings_parser(__doc__, settings=SETTINGS, seeds=(0,))
    parser.add_argument("--decoder", required=True, help="Folder or Hub id of a pretrained decoder.")
    parser.add_argument("--name", help="What the results call it; the last part of --decoder otherwise.")
    args = parser.parse_args(arguments)
    asked = {"decoder": args.name or Path(args.decoder).name, "recipe": RECIPE.to_dict()}
    for entry in grow(args.out, settings_cases(args), partial(measure, args=args), asked=asked):
        print(json.dumps(entry), flush=True)


if __name__ == "__main__":
    main()
