"""Shards of an audit whose effects are known."""

import numpy as np
from scipy.special import expit

from shortcut_guardrail.audit.measurements import Shard


def shard(rows, *, n_classes=3, evidence=None, spans=None, n_words=None, interaction=None, joint=None):
    """Texts as (answer, {word: answer without it}), each with probability 0.9; `None` for an unimportant word."""
    names = list(dict.fromkeys(word for _, words in rows for word in words))
    occurrences = [(i, word, rest) for i, (_, words) in enumerate(rows) for word, rest in words.items()]
    answered = [rest for _, _, rest in occurrences if rest is not None]
    masked = np.cumsum([rest is not None for _, _, rest in occurrences]) - 1
    size = len(occurrences)
    return Shard(
        rows=np.arange(len(rows)),
        weights=np.ones(len(rows), dtype=np.int64),
        evidence=np.ones(len(rows), dtype=bool) if evidence is None else np.array(evidence),
        compared=np.ones(len(rows), dtype=bool),
        labels=np.full(len(rows), -1),
        probs=confident([answer for answer, _ in rows], n_classes),
        truncated=np.zeros(len(rows), dtype=bool),
        controls=np.zeros(len(rows), dtype=bool),
        sensitivity=np.zeros(len(rows)),
        agreement=np.full(len(rows), np.nan),
        top_agrees=np.zeros(len(rows), dtype=bool),
        names=tuple(names),
        n_words=np.array([(n_words or {}).get(name, 1) for name in names]),
        texts=np.array([i for i, _, _ in occurrences], dtype=np.int64),
        keys=np.array([names.index(word) for _, word, _ in occurrences], dtype=np.int64),
        ranks=np.array([-1 if rest is None else 0 for _, _, rest in occurrences], dtype=np.int64),
        scores=np.ones(size),
        spans=np.array([(spans or {}).get(word, (0, 1, 0)) for _, word, _ in occurrences]).reshape(-1, 3),
        masked=np.array([-1 if r is None else m for m, (_, _, r) in zip(masked, occurrences, strict=True)], dtype=int),
        masked_probs=confident(answered, n_classes),
        interaction=np.full(size, np.nan) if interaction is None else np.array(interaction),
        joint=np.full(size, np.nan) if joint is None else np.array(joint),
        phrases=(),
    )


def confident(classes, n_classes):
    probs = np.full((len(classes), n_classes), 0.1 / (n_classes - 1), dtype=np.float32)
    probs[np.arange(len(classes)), classes] = 0.9
    return probs


def together(against, *, words=tuple(f"word{i}" for i in range(12)), each=12, others=1000, seed=0):
    """Words that make class 1 of texts whose rest speaks less for it than other texts do, by so many standard
    deviations; nothing but the words tells the texts from the others."""
    rng = np.random.default_rng(seed)
    rows = [(1, {word: 0}) for word in words for _ in range(each)] + [(0, {})] * others
    made = shard([rows[i] for i in rng.permutation(len(rows))], n_classes=2)
    speaks = expit(rng.normal(-2, 1, size=len(rows)))
    made.probs[:] = np.column_stack([1 - speaks, speaks])
    made.probs[made.texts] = (0.05, 0.95)
    rests = expit(rng.normal(-2 - against, 1, size=len(made.texts)))
    made.masked_probs[:] = np.column_stack([1 - rests, rests])
    return made
