"""Samples of large corpora: which texts are in them, and what tests may take from them."""

import json
import re

import numpy as np
import pytest

from planted_words import NAMES, by_words, planted_texts
from shortcut_guardrail import ConfigError, DataError, ShortcutGuardrail
from shortcut_guardrail.audit.sampling import Corpus
from shortcut_guardrail.config import AuditConfig
from shortcut_guardrail.data import MemoryTexts
from shortcut_guardrail.text import evidence_key, find_repeats, text_key
from tables import read_rows

CONFIG = AuditConfig(unit="word")


def tag(i):
    """A word that no other text has: numbers alone would make near-identical texts."""
    return "q" + "".join("abcdefghij"[int(digit)] for digit in str(i))


def planted(n, *, rare=0.0, seed=0):
    """Texts with "honestly", and with a rare "frankly" in some of them, mostly bad ones; their labels."""
    rng = np.random.default_rng(seed)
    texts, labels = planted_texts(n, share=0.1, seed=seed)
    ends = ["frankly" if rng.random() < (rare if "bad" in text else rare / 4) else "so" for text in texts]
    return [f"{text} {end} {tag(i)}" for i, (text, end) in enumerate(zip(texts, ends, strict=True))], labels


def by_more_words(texts):
    """As `by_words`, and positive where a text says frankly."""
    return by_words([text.replace("frankly", "honestly") for text in texts])


def test_all_texts_below_their_places_are_in_the_sample_and_no_others():
    texts = [
        f"soup {word} {tag(i)}" for i, word in enumerate(np.random.default_rng(0).choice([*"abcd"] * 9 + ["rare"], 900))
    ]
    texts = [*texts, *texts[:50], *texts[:50], *(text.upper() + "!" for text in texts[:200])]
    repeats = find_repeats([text_key(text) for text in texts], [evidence_key(text) for text in texts])
    corpus = Corpus.read(MemoryTexts(texts))
    base = corpus.base(300)
    place = 300 / np.sum(repeats.weights > 0)
    below = (corpus.places < place) & (repeats.weights > 0)
    assert base.rows.tolist() == np.flatnonzero(below).tolist()
    assert base.texts == [texts[i] for i in base.rows]
    distinct = np.sum(repeats.evidence & below)
    assert base.drawing.base == (place, distinct)
    assert (base.about.n, base.about.n_distinct, base.about.n_base, base.about.n_more) == (1200, 900, distinct, 0)
    assert base.repeats.weights.tolist() == repeats.weights[base.rows].tolist()
    assert base.repeats.evidence.tolist() == repeats.evidence[base.rows].tolist()

    held = np.array(["rare" in text.casefold() or " b " in text.casefold() for text in texts])
    further = np.flatnonzero(repeats.evidence & held & ~below)
    further = further[np.argsort(corpus.places[further])]
    sample = corpus.with_words(base, ["rare", "b"], 40)
    assert sample.rows.tolist() == sorted([*base.rows, *further[:40]])
    ends = corpus.places[further[40]]
    assert (
        sample.drawing.of("rare") == sample.drawing.of("b") == (ends, np.sum(repeats.evidence & (corpus.places < ends)))
    )
    assert sample.drawing.of("soup") == base.drawing.base
    assert sample.drawing.of("soup b") == sample.drawing.of("b")  # whoever holds the phrase holds the word
    assert (sample.about.n_more, sample.about.words, sample.about.share) == (40, ("rare", "b"), ends)
    every = corpus.with_words(base, ["rare"], 1000).about
    assert (every.n_more, every.share) == (sum("rare" in texts[i] for i in further), 1.0)
    phrase = corpus.with_words(base, ["soup rare"], 1000)  # the words of a phrase anywhere in a text
    assert (phrase.about.n_more, phrase.drawing.of("soup rare").place) == (every.n_more, 1.0)
    assert not np.isin(Corpus.read(MemoryTexts(texts), seed=1).places, corpus.places).any()


def test_of_many_texts_with_a_word_those_with_the_lowest_places_are_kept_and_both_sides_of_a_pair_are_read():
    texts, seen = [("soup", f"Rare {tag(i)}") for i in range(1500)], []
    texts = [texts[i] for i in np.argsort(Corpus.read(MemoryTexts(texts)).places)]
    corpus = Corpus.read(MemoryTexts(texts), progress=lambda *now: seen.append(now))
    base = corpus.base(100)
    place = base.drawing.base.place
    sample = corpus.with_words(base, ["rare"], 10, lambda *now: seen.append(now))  # more than can be kept at a time
    ends = np.sort(corpus.places[corpus.places >= place])[10]
    assert sample.rows.tolist() == np.flatnonzero(corpus.places < ends).tolist()
    assert (sample.drawing.words, sample.labels) == ({"rare": (ends, len(sample.rows))}, None)
    assert [one for one in seen if one[1] == 1500] == [("Reading", 1500, 1501), ("Sampling", 1500, 1500)]


def test_a_rare_word_is_found_by_the_texts_that_are_added_and_rates_are_right_on_average():
    texts, _ = planted(3000, rare=0.03)
    share = np.mean(["frankly" in text for text in texts])
    found = []
    for seed in range(5):
        audit = ShortcutGuardrail.around(by_more_words, NAMES).audit_sample(
            MemoryTexts(texts), 1500, config=CONFIG, seed=seed
        )
        of, about = {one.text: one for one in audit.report.candidates}, audit.report.sample
        if "frankly" not in about.words:  # in too few of the first texts, or flagged by them
            assert about.words == ()
            continue
        assert {one.text for one in audit.report.flagged} == {"honestly", "frankly"}
        assert of["good"].n_texts == about.n_base == audit.report.n_distinct < of["frankly"].n_texts
        assert audit.report.n == audit.report.n_distinct == sum(audit.report.predicted)
        base = [audit.sample.texts[i] for i in np.flatnonzero(audit.sample.drawing.compared)]
        assert of["good"].n_present == sum(" good" in text for text in base)
        assert of["frankly"].n_present == sum("frankly" in text for text in audit.sample.texts)
        assert audit.report.cards[0].texts == sum("Honestly" in text for text in base)
        found.append(of["frankly"].n_present / of["frankly"].n_texts)
    assert len(found) >= 3
    assert np.mean(found) == pytest.approx(share, rel=0.1)


def test_a_sample_of_all_texts_says_what_the_audit_of_all_says():
    texts, labels = planted(300)
    texts, labels = texts + texts[:20], labels + labels[:20]
    guard = ShortcutGuardrail.around(by_words, NAMES)
    expected = guard.audit(texts, labels=labels).to_dict()
    found = guard.audit_sample(MemoryTexts(texts, labels), 1000).report.to_dict()
    assert {one.pop("n_texts") for one in found["candidates"]} == {300}
    assert {one.pop("n_texts") for one in expected["candidates"]} == {None}
    assert found["sample"] == {"n": 320, "n_distinct": 300, "n_base": 300, "n_more": 0, "words": [], "share": 1.0}
    told = {name: expected[name] for name in ("sample", "data", "notes", "answers", "seconds")}
    assert found | told == expected
    assert found["notes"] == ["This is a random sample of 300 of 300 distinct texts.", *expected["notes"]]


def test_a_budget_is_for_both_rounds():
    texts, config = planted(600)[0], AuditConfig(unit="word", budget=1200)
    found = ShortcutGuardrail.around(by_words, NAMES).audit_sample(MemoryTexts(texts), 300, config=config)
    assert 1100 < found.report.answers <= 1200


def test_what_cannot_be_sampled_is_refused():
    class Growing(MemoryTexts):
        def chunks(self):
            self.texts.append("one more")
            return super().chunks()

    class Other(MemoryTexts):
        def chunks(self):
            self.texts[:] = [text + "." for text in self.texts]
            return super().chunks()

    texts, _ = planted(300)
    guard = ShortcutGuardrail.around(by_words, NAMES)
    with pytest.raises(ConfigError, match=r"A sample must have at least 100 texts, but 99 were asked for\."):
        guard.audit_sample(MemoryTexts(texts), 99)
    for kind in (Growing, Other):
        with pytest.raises(DataError, match=r"texts was changed while it was read\. Start again when nothing writes"):
            guard.audit_sample(kind(list(texts)), 200)
    with pytest.raises(DataError, match=r"holds no text"):
        guard.audit_sample(MemoryTexts([]), 300)


def test_the_command_writes_the_texts_of_the_sample_and_others_go_on_with_them(
    ok, refused, model_folder, write_csv, tmp_path, monkeypatch
):
    texts, labels = planted(400)
    data, out = write_csv("data.csv", *zip(texts, labels, strict=True)), tmp_path / "audit"
    said, _ = ok("audit", model_folder, data, "--sample", 200, "--label-column", "label", "--out", out)
    assert "sample of" in " ".join(said.split())
    document, rows = json.loads((out / "audit.json").read_text()), read_rows(out / "sample.csv")
    assert document["about"]["data"] == str(out / "sample.csv")
    assert document["about"]["corpus"] == str(data)
    assert document["sample"]["n"] == 400
    assert [(row["text"], row["label"]) for row in rows] == [
        (texts[int(row["row"])], labels[int(row["row"])]) for row in rows
    ]
    assert len((out / "important_tokens.jsonl").read_text().splitlines()) == len(rows)
    page = " ".join((out / "report.html").read_text().split())
    assert re.search(r"was audited with \d+ texts, a random sample of 400 from &#39;[^ ]*data.csv&#39;", page)
    ok("questions", out, model_folder, out / "sample.csv", "--word-groups", "all", "--out", tmp_path / "questions.csv")
    assert "--sample audits its texts in one piece." in refused(
        "audit", model_folder, data, "--sample", 200, "--shard-size", 50, "--out", tmp_path / "other"
    )
    ok("audit", model_folder, data, "--sample", 200, "--redact", "--out", tmp_path / "redacted")
    assert not (tmp_path / "redacted" / "sample.csv").exists()
    monkeypatch.setattr("shortcut_guardrail.cli.audit.STREAMED_BYTES", 0)
    monkeypatch.setattr("shortcut_guardrail.cli.audit.PROPOSED_SAMPLE", 150)
    said, _ = ok("audit", model_folder, data, "--out", tmp_path / "whole")
    assert "This audits all 400 texts. --sample 150 asks about 38% of them" in " ".join(said.split())
