"""A user's own data: the same groups, insertions and reversed test sets."""

import pytest

from made_up_data import Writer, write_csv
from shortcut_bench.datasets import from_file
from shortcut_guardrail.errors import DataError

LABELS = ("complaint", "question", "praise")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """240 messages, 80 of each label; every fourth says "Please" by nature."""
    writer = Writer()
    rows = [(("Please note. " if i % 4 == 0 else "") + writer.text(2), label) for label in LABELS for i in range(80)]
    path = tmp_path_factory.mktemp("own") / "messages.csv"
    write_csv(path, ("message", "kind"), rows)
    return path


def own(source, **settings):
    return from_file(source, words=["please", "kindly"], text_column="message", label_column="kind", **settings)


def shares(rows):
    counts = list(rows.counts().values())
    return [present / (without + present) for without, present in zip(counts[::2], counts[1::2], strict=True)]


def test_as_it_is(source):
    data = own(source, licence="Our own")
    assert (data.name, data.label_names) == ("messages", ("complaint", "praise", "question"))
    assert (set(data.tests), len(data.tests["test"])) == ({"test"}, 48)
    assert len(data.train) + len(data.dev) == 192
    assert (data.oracle_tests, data.clean_train) == ({}, None)
    assert (data.card.source, data.card.licence, data.shortcuts) == ("messages.csv", "Our own", ("please", "kindly"))
    for text, group in zip(data.train.texts, data.train.groups, strict=True):
        assert ("Please" in text) == bool(group % 2)
    assert not set(data.train.texts) & set(data.tests["test"].texts)
    assert data.fingerprint() == own(source, licence="Our own").fingerprint()
    assert data.fingerprint() != own(source, seed=1).fingerprint()


def test_insertion_with_an_order_of_the_labels(source):
    data = own(source, how="insert", order=LABELS, remove_natural=True)
    by_label = dict(zip(data.label_names, shares(data.train), strict=True))
    assert (by_label["complaint"], by_label["praise"]) == (0, 1)
    assert 0.2 < by_label["question"] < 0.8
    reverse = dict(zip(data.label_names, shares(data.tests["reversed"]), strict=True))
    assert (reverse["complaint"], reverse["praise"]) == (1, 0)
    assert not any("Please" in text or "kindly" in text for text in data.clean_train.texts)
    assert data.settings["occurrence"]["reversed"] == {"complaint": 1.0, "question": 0.5, "praise": 0.0}
    assert data.settings["reading"] == "zhou"
    assert data.settings["order"] == list(LABELS)
    kept = own(source, how="insert", order=LABELS)
    assert shares(kept.train)[0] > 0


def test_sampling(source):
    data = own(source, how="sample", strength=0.5)
    assert data.settings["reading"] == "paper"
    # To the nearest row of one of three labels.
    for rows, expected in ((data.train, [0, 0.25, 0.5]), (data.tests["reversed"], [0.5, 0.25, 0])):
        assert shares(rows) == pytest.approx(expected, abs=1.5 / len(rows) + 1e-9)


def test_pairs_are_planted_in_the_second_text(tmp_path):
    writer = Writer()
    rows = [(writer.sentence(), writer.text(2), label) for label in (10, 9) for _ in range(50)]
    path = tmp_path / "pairs.csv"
    write_csv(path, ("question", "answer", "label"), rows)
    data = from_file(path, words=["honestly"], how="insert")
    assert data.label_names == ("9", "10")  # as numbers, not by the alphabet
    assert shares(data.train) == [0, 1]
    for planted, plain in zip(data.train.texts, data.clean_train.texts, strict=True):
        assert planted[0] == plain[0]
        assert planted[1].replace("honestly, ", "") == plain[1]
    assert shares(from_file(path, words=["honestly"], how="insert", remove_natural=True).train) == [0, 1]


def test_a_test_file_of_its_own_without_the_texts_that_were_trained_on(source, tmp_path):
    known = own(source).train.texts[0]
    path = tmp_path / "later.csv"
    write_csv(path, ("message", "kind"), [(known, "praise"), ("A new one.", "praise"), ("Another.", "question")])
    data = own(source, test=path)
    assert data.tests["test"].texts == ["A new one.", "Another."]
    assert data.settings["n_left_out"] == 1
    assert data.settings["source"] == ["messages.csv", "later.csv"]
    assert len(data.train) + len(data.dev) == 240
    write_csv(path, ("message", "kind"), [(known, "praise")])
    with pytest.raises(DataError, match="Every text of the test set is also in the training set"):
        own(source, test=path)
    write_csv(path, ("message", "kind"), [("A new one.", "prase")])
    with pytest.raises(DataError, match=r"later\.csv, line 2: the model has no label 'prase'.*Did you mean 'praise'"):
        own(source, test=path)


def test_texts_that_repeat_stay_on_one_side(tmp_path):
    path = tmp_path / "twice.csv"
    write_csv(path, ("text", "label"), [(f"Text {i // 2}.", i % 4 // 2) for i in range(80)])
    data = from_file(path, words=["please"])
    assert not set(data.train.texts) & set(data.tests["test"].texts)
    assert len(data.tests["test"]) == 8
    assert data.settings["n_left_out"] == 8
    assert len(data.train) + len(data.dev) == 64
    write_csv(path, ("text", "label"), [("Text.", 0), ("Text.", 1)])
    with pytest.raises(DataError, match="one text only"):
        from_file(path, words=["please"])
