"""What shards hold of each word of a text, and how far scores and effects agree."""

import hashlib

import numpy as np
import pytest

from shortcut_guardrail import DataError
from shortcut_guardrail.audit.measurements import NOT_ASKED, Shard, _agreement, _Occurrences
from shortcut_guardrail.audit.sampling import Below, Drawing
from shortcut_guardrail.data import numbers_file


def test_of_a_word_in_a_text_the_first_stays_and_what_is_not_known_of_it_is_told():
    table = _Occurrences()
    table.add(1, "tea", (4, 7, 0), rank=2, score=0.5, probs=np.array([0.25, 0.75]))
    table.add(1, "tea", (9, 12, 1), rank=0, score=0.9, probs=np.array([0.5, 0.5]))
    table.add(1, "hot tea", (0, 7, 0), n_words=2)
    table.add(0, "tea", (0, 3, 1), rank=1, score=0.5, probs=np.array([1, 0]))
    table.add(0, "hot", (0, 3, 0), rank=0, probs=np.array([0, 1]))
    table.add(1, "hot", (0, 3, 0))
    table.add(0, "soup", (0, 3, 0))
    whole = table.arrays(2, {"hot"}, None)
    assert (whole["names"], whole["n_words"].tolist()) == (("tea", "hot tea", "hot", "soup"), [1, 2, 1, 1])
    assert (whole["texts"].tolist(), whole["keys"].tolist()) == ([0, 0, 0, 1, 1, 1], [0, 2, 3, 0, 1, 2])
    assert (whole["ranks"].tolist(), whole["spans"][3].tolist()) == ([1, 0, -1, 2, -1, -1], [4, 7, 0])
    assert whole["masked"].tolist() == [1, 2, -1, 0, NOT_ASKED, NOT_ASKED]  # nor was the phrase that holds the word
    # The second text was drawn for "hot": of a word alone it says nothing, and of one below its own place it does.
    drawn = Drawing(np.array([0.1, 0.5]), Below(0.5, 3), {"hot": Below(0.75, 5)})
    sample = table.arrays(2, set(), drawn)
    assert sample["masked"].tolist() == [1, 2, -1, NOT_ASKED, -1, -1]
    assert sample["ranks"].tolist() == [1, 0, -1, -1, -1, -1]


def test_agreement_is_of_ranks_and_of_the_first():
    nan = np.nan
    scores = np.array([[3, 2, 1], [3, 2, nan], [1, 1, 1], [nan] * 3, [1, 2, 30], [nan, 2, 1]])
    drops = np.array([[-0.3, 0.2, 0.1], [0.1, 0.5, nan], [0.1, 0.2, 0.3], [nan] * 3, [0.3, 0.1, 0.2], [nan, -0.4, 0.1]])
    correlation, top = _agreement(scores, drops)
    np.testing.assert_allclose(correlation, [1, nan, nan, nan, -0.5, nan], atol=1e-6)
    assert top.tolist() == [True, False, False, False, False, True]


def test_a_shard_without_what_this_version_needs_is_told(tmp_path):
    content = numbers_file({"names": [], "phrases": []}, rows=np.arange(2))
    file = tmp_path / "shard.npz"
    file.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    with pytest.raises(DataError, match=r"shard\.npz' is damaged or was written by another version"):
        Shard.from_file(file)
