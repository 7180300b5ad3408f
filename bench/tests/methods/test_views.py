"""Changed copies of texts, and SimCLR's contrast of two of them beside a literal evaluation."""

import math
from collections import Counter
from functools import partial

import pytest
import torch

from methods_toy import literal_contrast
from shortcut_bench.methods.simclr import ViewContrast
from shortcut_bench.methods.views import delete, halve, shuffle, swap, view_of
from shortcut_guardrail.models.classifier import TextClassifier
from tiny_models import tiny_bert

WORDS = "a b c d e f g h i j k l m n o p q r s t u v w x y".split()


def drawn(change, words=WORDS, n=400, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [change(list(words), generator) for _ in range(n)]


def test_words_are_deleted_at_their_rate_and_one_is_always_left():
    found = drawn(partial(delete, share=0.1))
    assert all(words == [word for word in WORDS if word in words] for words in found)
    n, n_words = len(found), len(WORDS)
    missing = n * n_words - sum(map(len, found))
    assert missing == pytest.approx(0.1 * n * n_words, abs=4 * math.sqrt(0.09 * n * n_words))
    assert drawn(partial(delete, share=0.0), n=1) == [WORDS]
    alone = Counter(words[0] for words in drawn(partial(delete, share=1.0), ["x", "y"]) if len(words) == 1)
    assert alone["x"] == pytest.approx(200, abs=40)
    assert sum(alone.values()) == 400


@pytest.mark.parametrize(("n", "n_swaps"), [(1, 0), (2, 1), (9, 1), (25, 2)])
def test_so_many_pairs_of_words_change_places(n, n_swaps):
    moved = Counter(
        sum(a != b for a, b in zip(words, WORDS[:n], strict=True))
        for words in drawn(partial(swap, share=0.1), WORDS[:n])
    )
    assert max(moved) == 2 * n_swaps
    assert min(moved) >= (2 if n_swaps == 1 else 0)
    assert all(sorted(words) == WORDS[:n] for words in drawn(partial(swap, share=0.1), WORDS[:n], n=5))


def test_half_keeps_the_order_and_a_shuffle_the_words():
    for words in drawn(halve, n=20):
        assert len(words) == 13
        assert words == sorted(words)
    assert Counter(word for words in drawn(halve, ["x", "y"]) for word in words)["x"] == pytest.approx(200, abs=40)
    assert all(sorted(words) == WORDS for words in drawn(shuffle, n=20))
    assert len({tuple(words) for words in drawn(shuffle, ["x", "y", "z"])}) == 6
    assert drawn(halve, ["x"], n=1) == drawn(shuffle, ["x"], n=1) == [["x"]]


def test_each_side_of_a_pair_is_changed_and_a_seed_gives_the_same():
    def views(seed):
        generator = torch.Generator().manual_seed(seed)
        return [view_of(text, shuffle, generator) for text in (("a b c d e f", "g h i j k l"), "", "o")]

    (first, second), *short = views(0)
    assert [sorted(first.split()), sorted(second.split())] == [WORDS[:6], WORDS[6:12]]
    assert (first, second) != ("a b c d e f", "g h i j k l")
    assert short == ["", "o"]
    assert views(0) == views(0) != views(1)


def test_simclr_contrasts_every_view_with_all_others(texts):
    model, tokenizer = tiny_bert()
    classifier = TextClassifier(model, tokenizer, packing=False).with_model(model)
    options = {"temperature": 0.2, "embedding": "cls", "deleted": 0.3, "swapped": 0.1}
    objective, same = (ViewContrast(classifier, texts, **options, seed=4) for _ in range(2))
    rows = [5, 1, 6, 3]
    views = same.views(rows)
    assert len(views) == 8
    for at, view in enumerate(views):
        assert set(view.split()) <= set(texts[rows[at % 4]].split())
    assert views[:4] != views[4:]
    alone = [model.bert(**tokenizer(view, return_tensors="pt")).last_hidden_state[0, 0] for view in views]
    expected = literal_contrast(torch.stack(alone), torch.tensor([0, 1, 2, 3] * 2), 0.2)
    loss = objective.loss(None, {}, torch.tensor(rows))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert objective.views(rows) != views  # drawn anew
