"""What a perfect student of several teachers would predict for texts with words that must not decide alone.

    python bench/experiments/not_alone/teachers.py --data-dir ../shared/data --out results/not_alone_teachers.json

Nothing is repaired: the unrepaired classifier is asked with and without the words. The texts are development rows. Of
MultiNLI they are test texts beyond those that `run.py` takes, of Amazon the half that it repairs on. In neither is a
text that `run.py` scores, of any of its seeds.

- `original`, `without`: the predictions with the words, and with them cut out.
- `half`: the mean of both logits. `probabilities`: the mean of both probabilities.
- `less alone`: where the word decides, the logits with it less its mean effect in texts that it is put into; else
  `original`. This is the teacher of the library.
- `rows`: the development rows; `put_in`: how many texts a word was put into, and how many predictions that changed.

Finished settings and seeds are kept. Called again, the command measures what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from run import SETTINGS, WORDS, group, holding  # type: ignore[import-not-found]  # the script beside it
from shortcut_bench.bases import OpenedSetting, open_setting
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.standalone import grow, settings_cases, settings_parser
from shortcut_guardrail import TextClassifier
from shortcut_guardrail.saving.record import library_versions
from shortcut_guardrail.text import WordFinder, shortened_texts, with_insertions
from shortcut_guardrail.typing import Array, Text

PUT_IN = 600
"""Texts that a word is put into, at most."""


def development(setting: str, seed: int, args: argparse.Namespace) -> tuple[LabelledTexts, TextClassifier]:
    """The rows, and the unrepaired classifier."""
    scored: set[Text] = set()
    for other in (0, 1, 2):
        _, rows, n = drawn(setting, other, args)
        scored |= set(rows.texts[n // 2 : n])
    opened, rows, n = drawn(setting, seed, args)
    free = range(n, len(rows)) if len(rows) > n else range(n // 2)
    chosen = rows.select(np.array([i for i in free if rows.texts[i] not in scored]))
    return chosen, opened.train().text_classifier()


def drawn(setting: str, seed: int, args: argparse.Namespace) -> tuple[OpenedSetting, LabelledTexts, int]:
    """A setting, its test rows in the order of `open_rows`, and how many of them `run.py` takes; nothing is trained."""
    experiment, name, test = setting.split("/")
    opened = open_setting(experiment, name, seed, data_dir=args.data_dir, cache=args.cache, changes={"n_test": None})
    rows = opened.data.tests[test]
    order = np.random.default_rng(seed).permutation(len(rows))
    return opened, rows.select(order), min(args.texts, len(rows))


def measure(setting: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One setting and seed."""
    rows, classifier = development(setting, seed, args)
    finder, encoded = WordFinder(WORDS[setting.split("/")[1]]), classifier.encode(rows.texts)
    found = finder.positions(encoded)
    bearing = np.array([len(one) > 0 for one in found], dtype=bool)
    with_it, rng = encoded.select(np.flatnonzero(bearing)), np.random.default_rng([seed, 1])
    places = [one for one in found if len(one)]
    own = classifier.predict_logits(with_it)
    cut = classifier.predict_logits(shortened_texts(with_it, places, classifier.mask_token_id))
    others = encoded.select(rng.permutation(np.flatnonzero(~bearing))[:PUT_IN])
    put_in = with_insertions(others, with_it, places, max_length=classifier.longest, rng=rng)
    before, after = classifier.predict_logits(others), classifier.predict_logits(put_in)
    decides = own.argmax(axis=1) != cut.argmax(axis=1)
    teachers = {
        "original": own,
        "without": cut,
        "half": own + cut,
        "probabilities": softmax(own) + softmax(cut),
        "less alone": own - decides[:, None] * (after - before).mean(axis=0),
    }
    answers = {name: logits.argmax(axis=1) for name, logits in teachers.items()}
    labels = np.asarray(rows.labels)[bearing]
    texts = [text for text, has in zip(rows.texts, bearing, strict=True) if has]
    holds = holding(WORDS[setting.split("/")[1]], texts)
    everywhere = np.ones(len(labels), dtype=bool)
    return {
        "rows": len(rows),
        "put_in": {"n": len(others), "changed": int((before.argmax(axis=1) != after.argmax(axis=1)).sum())},
        "groups": [
            group(labels, holds, answers, label=label, held=True, where=everywhere, name=name)
            for label, name in enumerate(rows.label_names)
        ],
    }


def softmax(logits: Array) -> Array:
    """Probabilities, of logits of shape (N, C)."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 1, 2))
    parser.add_argument("--texts", type=int, default=1800, help="Test texts that `run.py` takes.")
    args = parser.parse_args(arguments)
    asked, versions = {"texts": args.texts}, {"versions": library_versions()}
    for entry in grow(
        args.out, settings_cases(args), partial(measure, args=args), asked=asked, beside=lambda _: versions
    ):
        print(entry["setting"], entry["seed"], entry["put_in"])
        for one in entry["groups"]:
            print("  ", one, flush=True)


if __name__ == "__main__":
    main()
