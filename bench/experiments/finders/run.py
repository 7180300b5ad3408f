"""Which finder puts a shortcut's words first: the library's audit, or rankings that have the training data.

    python bench/experiments/finders/run.py --data-dir ../shared/data --out results/finders.json

The base classifier of each seed is that of the benchmark. Words are ranked by

- `audit`: the audit of the deployment texts, which reads no label and no training row; its candidates in its order;
- `lmi`: local mutual information of words and labels in the training rows (Schuster et al., 2019), of each word the
  largest over labels;
- `degrees`: the excess degree of `less_learn` times log n(w), in the training rows;
- `attention`: steps 1 and 2 of `identify_mitigate`, on the training texts;
- `attention, two corpora`: the same, less the score in the deployment texts.

Only the last two and the audit ask the classifier. A word is relevant that is a content word of a planted or tracked
shortcut and stands in the training texts. Words are runs of letters and digits in lower case; a ranking's other words
are split, and each counts where it comes first. Words of the audit beyond its candidates are not ranked. The test is
what is planted: other words may be shortcuts too, and count as wrong here.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from functools import partial
from typing import Any

import numpy as np

from shortcut_bench.bases import open_setting
from shortcut_bench.datasets import LabelledTexts
from shortcut_bench.methods import identify, less_learn
from shortcut_bench.methods.ltgr import local_mutual_information
from shortcut_bench.standalone import grow, settings_cases, settings_parser
from shortcut_guardrail.audit import audit_texts
from shortcut_guardrail.cards import is_of_content
from shortcut_guardrail.config import AuditConfig
from shortcut_guardrail.models import TextClassifier

SETTINGS = (
    "leaderboard/GoEmo-ST/reversed",
    "leaderboard/GoEmo-Syn/reversed",
    "natural-shortcuts/Amazon/test",
)
CUTS = (1, 5, 10, 20, 50)
SHOWN = 20


def measure(setting: str, seed: int, *, args: argparse.Namespace) -> dict[str, Any]:
    """One seed of one setting: what each finder's ranking has in its head."""
    experiment, name, test = setting.split("/")
    opened = open_setting(
        experiment,
        name,
        seed,
        data_dir=args.data_dir,
        cache=args.cache,
        scale=args.scale,
        encoder=args.encoder,
    )
    material = opened.material(test)
    train, deployment = material.train, material.deployment
    assert train is not None
    assert deployment is not None
    classifier = material.base.text_classifier(precision="auto")
    held = Counter(word for text in train.texts for word in less_learn.words_of(text))
    planted = {word for word in content(opened.data.shortcuts) if word in held}
    found = {
        "audit": audited(classifier, deployment),
        "lmi": by_information(train),
        "degrees": by_degree(train),
        "attention": attended(classifier, train.texts),
        "attention, two corpora": attended(classifier, train.texts, deployment),
    }
    return {
        "n_train": len(train),
        "n_deployment": len(deployment),
        "n_words": len(held),
        "planted": {word: held[word] for word in sorted(planted)},
        "finders": {finder: scored(ranking, planted) for finder, ranking in found.items()},
    }


def content(shortcuts: Sequence[str]) -> set[str]:
    """The words of the shortcut's wordings, but for function words."""
    return {word for phrase in shortcuts for word in less_learn.words_of(phrase) if is_of_content(word)}


def as_words(ranked: Iterable[str]) -> list[str]:
    """Entries split to words, each where it comes first."""
    return list(dict.fromkeys(word for entry in ranked for word in sorted(less_learn.words_of(entry))))


def audited(classifier: TextClassifier, texts: Any) -> list[str]:
    """The candidates of an audit of words."""
    report = audit_texts(classifier, classifier.encode(texts), AuditConfig(unit="word"), with_cards=False)
    return as_words(candidate.text for candidate in report.candidates)


def by_information(rows: LabelledTexts) -> list[str]:
    """Words by the largest LMI with a label; occurrences count, of equals the first in the alphabet."""
    words = [less_learn.occurrences_of(text) for text in rows.texts]
    names = sorted({word for of_text in words for word in of_text})
    ids = {word: i for i, word in enumerate(names)}
    arrays = [np.array([ids[word] for word in of_text], dtype=np.int64) for of_text in words]
    best = np.full(len(names), -np.inf)
    for (word, _), value in local_mutual_information(arrays, rows.labels).items():
        best[word] = max(best[word], value)
    return [names[i] for i in np.argsort(-best, kind="stable")]


def by_degree(rows: LabelledTexts) -> list[str]:
    """Words by their degree."""
    found = less_learn.degrees(rows.texts, rows.labels, len(rows.label_names))
    return [word for word, _ in less_learn.ranked_words(found)]


def attended(classifier: TextClassifier, source: Any, other: Any = None) -> list[str]:
    """Words by the classifier's attention, in one corpus or less that in another."""
    scores = identify.corpus_scores(classifier, source)
    taken_off = None if other is None else identify.corpus_scores(classifier, other)
    return as_words(word for word, _ in identify.ranked_words(scores, taken_off))


def scored(ranking: Sequence[str], planted: Set[str]) -> dict[str, Any]:
    """Precision and recall of the first k words, the place of the first planted one, and the head to read.

    Precision is over k, also where a ranking is shorter. Recall is `None` where nothing is planted.
    """
    hits = np.cumsum([word in planted for word in ranking], dtype=np.int64)
    places = [place for place, word in enumerate(ranking, start=1) if word in planted]
    found = {k: int(hits[min(k, len(ranking)) - 1]) if ranking else 0 for k in CUTS}
    return {
        "ranked": len(ranking),
        "precision": {str(k): n / k for k, n in found.items()},
        "recall": {str(k): n / len(planted) if planted else None for k, n in found.items()},
        "first": places[0] if places else None,
        "head": list(ranking[:SHOWN]),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = settings_parser(__doc__, settings=SETTINGS, seeds=(0, 1, 2))
    parser.add_argument("--scale", default="small", help="Scale of the benchmark.")
    parser.add_argument("--encoder", help="Folder or Hub id; that of the scale by default.")
    args = parser.parse_args(arguments)
    asked = {"scale": args.scale}
    for entry in grow(args.out, settings_cases(args), partial(measure, args=args), asked=asked):
        firsts = {finder: (one["first"], one["recall"]["20"]) for finder, one in entry["finders"].items()}
        print(entry["setting"], entry["seed"], firsts, flush=True)


if __name__ == "__main__":
    main()
