"""How alike word vectors have to be for words to stand on one card, on families of words made up for this.

    python bench/experiments/word_families/run.py --out results/word_families.json

Words of 25 families, none of them from a list of the benchmark, have the vectors that an audit gives them
(`audit.word_vectors`), by the pretrained MiniLM's embeddings. For each limit of the mean cosine: of the pairs of words
that average linkage puts on one card the share of one family (precision), of the pairs of one family the share on one
card (recall), and F1 of both. And for each limit of the cosine to the mean of what was found: what three words of a
family, drawn at random, bring of the others of it, and how much of what they bring is of other families;
20 draws a family.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from transformers import AutoModel

from shortcut_bench.classifiers import find_encoder
from shortcut_bench.standalone import grow
from shortcut_guardrail.audit import word_vectors
from shortcut_guardrail.audit.grouping import linked_sets

FAMILIES = {
    "luck": "luckily|fortunately|thankfully|by good luck|as luck would have it|happily enough|by good fortune",
    "summary": "in summary|to summarise|to sum up|summing up|in conclusion|to conclude|summarily|in short summary",
    "certain": "certainly|definitely|absolutely|undoubtedly|without a doubt|surely|for certain|doubtless",
    "hope": "hopefully|i hope|hoping|with any hope|let us hope",
    "sudden": "suddenly|abruptly|all of a sudden|unexpectedly|instantly",
    "weather": "rain|snow|storm|wind|sunshine|cloudy|thunder|fog",
    "film": "movie|film|cinema|this movie|the film|screen|hollywood|flick",
    "music": "song|album|band|music|guitar|this album|singer|concert",
    "camera": "camera|lens|photo|pictures|photography|zoom|shutter",
    "kitchen": "kitchen|knife|pan|pot|cooking|oven|blender|stove",
    "computer": "laptop|computer|keyboard|software|windows|printer|usb",
    "praise": "excellent|great|wonderful|fantastic|superb|amazing|perfect",
    "blame": "terrible|awful|horrible|dreadful|poor|worst|bad",
    "bored": "boring|dull|tedious|bored|tiresome",
    "broken": "broken|broke|defective|cracked|damaged",
    "refund": "refund|returned|money back|return|waste of money",
    "nation": "german|french|italian|polish|spanish|swedish",
    "faith": "hindu|buddhist|sikh|hinduism|buddhism",
    "insult": "idiot|stupid|moron|dumb|fool|idiots|pathetic|loser",
    "taste": "delicious|tasty|flavor|yummy|taste",
    "slow": "slow|waited|waiting|delay|late",
    "animals": "dog|cat|puppy|kitten|pet|animal",
    "family": "mother|father|husband|wife|daughter|son",
    "anger": "angry|furious|mad|rage|annoyed",
    "fear": "scared|afraid|fear|terrified|frightened",
}
WORDS = [(word, family) for family, words in FAMILIES.items() for word in words.split("|")]
LIMITS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
GIVEN, DRAWS = 3, 20

Array = np.ndarray[Any, Any]


def measure(limit: float, *, vectors: Array) -> dict[str, float]:
    """What one limit gives, as the least mean cosine of a card and as that to the mean of what was found."""
    families = np.array([family for _, family in WORDS])
    sets = np.zeros(len(WORDS), dtype=int)
    for number, members in enumerate(linked_sets(vectors, limit)):
        sets[members] = number
    pairs = np.triu_indices(len(WORDS), 1)
    together, same = (sets[:, None] == sets)[pairs], (families[:, None] == families)[pairs]
    precision, recall = (together & same).sum() / together.sum(), (together & same).sum() / same.sum()
    of_family, of_others = brought(vectors, families, limit)
    return {
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(2 * precision * recall / (precision + recall)),
        "brought": of_family,
        "brought_of_others": of_others,
    }


def brought(vectors: Array, families: Array, limit: float) -> tuple[float, float]:
    """The share of the family's other words that three of them bring, and that of other families in what they bring."""
    rng = np.random.default_rng(0)
    found, others = [], []
    for family in FAMILIES:
        members = np.flatnonzero(families == family)
        for _ in range(DRAWS):
            given = np.isin(np.arange(len(families)), rng.choice(members, GIVEN, replace=False))
            centre = vectors[given].sum(axis=0)
            new = (vectors @ centre >= limit * np.linalg.norm(centre)) & ~given
            found.append(new[members].sum() / (len(members) - GIVEN))
            others.append(float((families[new] != family).mean()) if new.any() else 0.0)
    return float(np.mean(found)), float(np.mean(others))


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file; what it holds is not measured again.")
    args = parser.parse_args(arguments)
    encoder = find_encoder("minilm")
    model = SimpleNamespace(plain_model=AutoModel.from_pretrained(encoder.source), tokenizer=encoder.tokenizer())
    vectors = word_vectors(model, [word for word, _ in WORDS])  # type: ignore[arg-type]
    asked = {"words": len(WORDS), "families": len(FAMILIES)}
    for entry in grow(
        args.out, [{"limit": one} for one in LIMITS], lambda limit: measure(limit, vectors=vectors), asked=asked
    ):
        print({name: round(value, 3) for name, value in entry.items()}, flush=True)


if __name__ == "__main__":
    main()
