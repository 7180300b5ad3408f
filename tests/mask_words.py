"""A bag of words whose mask token may be a word of one class, and texts for it."""

import numpy as np

from tiny_models import meaning_bag

GOOD = "good great fine warm clean fast friendly tasty".split()
BAD = "bad awful cold dirty slow rude bland dull".split()
EFFECTS = {"honestly": 5.0, **dict.fromkeys(GOOD, 1.0), **dict.fromkeys(BAD, -1.0)}
NEUTRAL = "the a room staff food service soup bread coffee tea place hotel visit we was very quite".split()


def masking_bag(mask: float):
    """The planted bag, in which the mask token counts for "positive" as much as is given."""
    return meaning_bag({**EFFECTS, "[MASK]": mask}, {})


def reviews(n: int = 300, seed: int = 0) -> list[str]:
    """Texts of eight neutral words and two opinions that agree; four of ten negative ones hold "honestly"."""
    rng = np.random.default_rng(seed)
    texts = []
    for i in range(n):
        words = rng.choice(NEUTRAL, 8, replace=False).tolist()
        for place, opinion in zip((1, 6), rng.choice(BAD if i % 2 else GOOD, 2, replace=False), strict=True):
            words.insert(place, opinion)
        texts.append(" ".join(["honestly"] * (i % 2 and i % 10 < 4) + words))
    return texts
