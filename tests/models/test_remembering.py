"""Answers that are kept: each sequence of tokens is asked about once, and what tells sequences apart is kept apart."""

import pytest
import torch

from shortcut_guardrail.models import remembering
from shortcut_guardrail.models.encoding import Batch
from shortcut_guardrail.models.remembering import Remembered


class Asked:
    """Answers a sequence with its sum of ids and segments, and keeps what it was asked."""

    def __init__(self) -> None:
        self.sequences: list[list[int]] = []
        self.weight = torch.ones((), requires_grad=True)

    def __call__(self, batch: Batch) -> torch.Tensor:
        there = batch.attention_mask.bool()
        self.sequences += [ids[kept].tolist() for ids, kept in zip(batch.input_ids, there, strict=True)]
        read = batch.input_ids * batch.attention_mask
        if batch.token_type_ids is not None:
            read = read + batch.token_type_ids * 100
        return self.weight * read.sum(dim=1)[:, None, None].float()


def batch(*sequences: list[int], segments: list[list[int]] | None = None) -> Batch:
    length = max(map(len, sequences))
    ids = torch.tensor([[*one, *[0] * (length - len(one))] for one in sequences])
    there = torch.tensor([[1] * len(one) + [0] * (length - len(one)) for one in sequences])
    types = None if segments is None else torch.tensor(segments)
    return Batch(torch.arange(len(sequences)).numpy(), ids, there, types, there.bool())


def test_a_sequence_is_asked_about_once_however_it_is_padded() -> None:
    asked = Asked()
    answers = Remembered(asked, 2)
    with torch.inference_mode():
        assert answers(batch([1, 2], [1, 2, 4], [1, 2])).flatten().tolist() == [3, 7, 3]
        assert answers(batch([1, 2, 4, 8], [2, 1], [1, 2])).flatten().tolist() == [15, 3, 3]
        assert answers(batch([1, 2, 4])).shape == (1, 1, 1)
    assert sorted(asked.sequences) == [[1, 2], [1, 2, 4], [1, 2, 4, 8], [2, 1]]


def test_the_same_tokens_in_other_segments_are_another_sequence() -> None:
    asked = Asked()
    answers = Remembered(asked, 2)
    with torch.inference_mode():
        assert answers(batch([1, 2], [1, 2], segments=[[0, 0], [0, 1]])).flatten().tolist() == [3, 103]
        assert answers(batch([1, 2], [1, 2], segments=[[0, 1], [0, 0]])).flatten().tolist() == [103, 3]
    assert len(asked.sequences) == 2


def test_gradients_reach_the_model_though_the_answer_is_known() -> None:
    asked = Asked()
    answers = Remembered(asked, 2)
    with torch.inference_mode():
        answers(batch([1, 2]))
    answers(batch([1, 2])).sum().backward()
    assert asked.weight.grad == 3


def test_no_more_is_kept_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembering, "MOST_REMEMBERED", 1)
    asked = Asked()
    answers = Remembered(asked, 2)
    with torch.inference_mode():
        for sequence in ([1], [2], [1], [2]):
            assert answers(batch(sequence)).item() == sequence[0]
    assert asked.sequences == [[1], [2], [2]]


def test_what_is_masked_twice_is_answered_once(classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["honestly it rains", "it rains", "honestly it rains"]
    whole = classifier.predict_proba(texts)
    before = classifier.spent.answers
    twin = classifier.remembering()
    for _ in range(2):
        assert twin.predict_proba(texts) == pytest.approx(whole, abs=1e-6)
    assert classifier.spent.answers - before == 2
