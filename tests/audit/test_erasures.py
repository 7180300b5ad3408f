"""What taking a word out does by itself, on bags of words whose mask token may be a word of one class."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from mask_words import masking_bag, reviews
from shortcut_guardrail import AuditConfig, ConfigError, NothingToRepairError, ShortcutGuardrail, preset
from shortcut_guardrail.audit import audit_in_shards, audit_texts, erasures
from shortcut_guardrail.audit.erasures import WAYS, Erasures, _unimportant, sample_size, sampled_texts, try_erasures
from shortcut_guardrail.data import MemoryTexts
from shortcut_guardrail.decisions import AuditedCards
from shortcut_guardrail.saving import open_audit
from shortcut_guardrail.shortcuts.search import MOST_DOUBTED


@cache
def audited(mask: float, **config):
    classifier, texts = masking_bag(mask), reviews()
    return audit_texts(classifier, classifier.encode(texts), AuditConfig(top_k=4, n_examples=0, **config))


def said(report):
    return {**report.to_dict(), "seconds": None}


def test_a_mask_that_is_a_word_of_one_class_is_not_taken():
    pulled, by_force = audited(6.0), audited(6.0, erasure="mask")
    assert said(pulled) == said(audited.__wrapped__(6.0))  # the same texts give the same sample
    assert pulled.erasures.chosen == "cut"
    assert pulled.erasures.cut == pulled.erasures.replace == 0
    assert pulled.erasures.mask > 0.1 * pulled.erasures.n
    assert pulled.erasures.notes[0].startswith(
        "Words are left out, not masked: where none should change, the mask token changes "
        f"{pulled.erasures.mask} of {pulled.erasures.n} predictions ("
    )
    assert (pulled.notes[0], [one.text for one in pulled.flagged]) == (pulled.erasures.notes[0], ["honestly"])
    assert pulled.flagged[0].flip_rate == 1
    # What a mask shows is the mask: "honestly" is hidden by it, and legitimate words seem to decide.
    assert (by_force.erasure, "honestly" not in {one.text for one in by_force.flagged}) == ("mask", True)
    (hidden,) = [one for one in by_force.candidates if one.text == "honestly"]
    assert hidden.flip_rate == 0


@pytest.mark.parametrize("unit", ["phrase", "word", "token"])
def test_nothing_changes_where_the_mask_does_nothing(unit):
    by_itself, by_mask = (audited(0.0, unit=unit, erasure=how) for how in ("auto", "mask"))
    assert (by_itself.erasures.chosen, said(by_itself)) == ("mask", said(by_mask))
    np.testing.assert_array_equal(by_itself.inputs.effects.probs, by_mask.inputs.effects.probs)
    assert AuditedCards.of(by_itself).id == AuditedCards.of(replace(by_mask, erasures=None)).id
    assert not by_itself.erasures.notes
    if unit == "word":
        cut = audited(0.0, unit=unit, erasure="cut")
        assert cut.erasure == "cut"
        assert AuditedCards.of(cut).id != AuditedCards.of(by_mask).id, "what is decided of one is not of the other"


def test_tokens_are_the_papers_and_stay_masked():
    report = audited(6.0, unit="token")
    assert (report.erasure, report.insertions, report.defaults) == ("mask", None, None)
    assert report.erasures.mask > 0.1 * report.erasures.n
    assert report.erasures.weak
    said = "What this audit finds is weak evidence: where none should change, the mask token"
    assert report.notes[0].startswith(said)


def test_shards_try_the_same_texts_and_go_on_with_the_same_erasure(tmp_path):
    classifier, texts = masking_bag(6.0), reviews()
    whole = audited(6.0)
    source = MemoryTexts(texts, name="texts")
    config = AuditConfig(top_k=4, n_examples=0, shard_size=70)
    in_shards = audit_in_shards(classifier, source, config, tmp_path / "shards").report
    assert in_shards.erasures == whole.erasures
    first = [[(c.text, c.flip_rate, c.status) for c in of.candidates[:5]] for of in (in_shards, whole)]
    assert first[0] == first[1]
    assert in_shards.cards == whole.cards


def test_flips_and_repairs_take_words_out_as_the_audit_did(tmp_path):
    from shortcut_guardrail.cli.audit import write_audit

    classifier, texts = masking_bag(6.0), reviews()
    guard = ShortcutGuardrail(classifier.model, classifier.tokenizer)
    report = guard.audit(texts, config=AuditConfig(top_k=4, n_examples=0))
    write_audit(report, [], tmp_path / "audit", redact=False, hashes=True, overwrite=False)
    stored = open_audit(tmp_path / "audit")
    assert stored.erasures == report.erasures
    assert AuditedCards.from_folder(tmp_path / "audit") == AuditedCards.of(report)
    card = next(card for card in report.cards if "honestly" in card.words)
    for audit in (report, tmp_path / "audit"):
        questions = guard.questions(audit, texts, cards="honestly")
        assert len(questions.flips[card.id]) == card.changes > 0
    assert guard.find_shortcuts(texts, report=stored).words == ("honestly",)
    masked = guard.audit(texts, config=AuditConfig(top_k=4, n_examples=0, erasure="mask"))
    assert all("honestly" not in card.words for card in masked.cards)


def test_many_words_on_weak_evidence_are_not_neutralised_unasked():
    texts, guard = reviews(160), ShortcutGuardrail(masking_bag(6.0).model, masking_bag(6.0).tokenizer)
    masked = guard.audit(texts, config=AuditConfig(top_k=4, erasure="mask"))
    found = guard.find_shortcuts(texts, report=masked)
    assert found.words == ()
    assert len(found.doubted) > MOST_DOUBTED
    assert "honestly" not in found.doubted
    for strategy in ("auto", "mask"):
        with pytest.raises(NothingToRepairError, match=r"erasing any word.*Name the shortcuts.*--erasure") as stopped:
            guard.repair(texts, report=masked, strategy=strategy)
        assert f"The audit found {len(found.doubted)} words, such as " in str(stopped.value)
    with pytest.raises(NothingToRepairError):
        guard.fit(texts, config=preset("mask").with_shortcuts(erasure="mask", top_k=4))
    # Who names a word, gets that one, and who gives labels, has the others weighed.
    repaired = guard.repair(texts, report=masked, strategy="mask", shortcuts=["honestly"])
    assert repaired.fitted.shortcuts.words == ("honestly",)
    labels = ["negative" if i % 2 else "positive" for i in range(len(texts))]
    assert not guard.find_shortcuts(texts, report=masked, support=(texts, labels)).doubted
    # A fair erasure finds the shortcut, and nothing else.
    assert guard.find_shortcuts(texts).words == ("honestly",)
    with pytest.raises(ConfigError, match="made with erasure mask, and shortcuts"):
        guard.find_shortcuts(texts, report=masked, config=preset("mask").with_shortcuts(erasure="cut"))


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ((200, 0, 0), "cut"),  # as good as the other, it is asked about first
        ((200, 190, 100), "replace"),
        ((200, 182, 182), "cut"),  # 6 %, and the margin is 5
        ((200, 195, 195), "mask"),  # less than the margin, beyond chance as it may be
        ((9, 3, 3), "mask"),
    ],
)
def test_another_way_than_the_mask_changes_surely_fewer_by_the_margin(monkeypatch, changed, chosen):
    n = 300 if changed[0] > 100 else 60
    monkeypatch.setattr(erasures, "_unimportant", lambda *_: None)
    monkeypatch.setattr(erasures, "erased_texts", lambda texts, units, mask, way: WAYS.index(way))
    classifier = SimpleNamespace(mask_token_id=1, predict_logits=lambda i: np.eye(2)[(np.arange(n) < changed[i]) * 1])
    of = SimpleNamespace(encoded=SimpleNamespace(select=lambda _: None))
    of.saliency = SimpleNamespace(predictions=np.zeros(n, dtype=int))
    found = try_erasures(classifier, of, np.arange(n), np.zeros(n), AuditConfig())
    assert (found.chosen, found.n, found.mask, found.cut, found.replace) == (chosen, n, *changed)


def test_words_that_hardly_matter_are_tried_in_some_texts():
    given = ((50, 4), (100, 4), (1000, 4), (1000, 10), (9000, 4))
    assert [sample_size(n, top_k) for n, top_k in given] == [50, 60, 100, 200, 300]
    chosen = sampled_texts(np.arange(80, 0, -1), np.arange(80) != 79, 4)  # the smallest hashes that are evidence
    assert chosen.tolist() == [*range(19, 79)]
    units = SimpleNamespace(keys=[["the", "", "!", "soup", "tea"]], wordlike=[np.array([1, 1, 0, 1, 1])])
    units.of_token = [np.array([-1, 0, 1, 2, 3, 3, 4, 4, -1])]
    for important, key, tokens in (
        *[([3], 1, [6, 7]), ([3], 2, [1]), ([3, 0, 4], 1, [3])],  # a word, or a mark where no word is left
        *[([4, 0, 3, 2], 2, [4, 5]), ([4, 0, 3, 2], 1, [3])],  # or one of the less important half
    ):
        saliency = SimpleNamespace(positions=np.array([[*important, -1]]))
        assert _unimportant(SimpleNamespace(saliency=saliency, units=units), 0, key).tolist() == tokens


@pytest.mark.parametrize(
    ("found", "weak", "said"),
    [
        (Erasures("mask", 300, 20, 0, 0), False, ""),
        (Erasures("cut", 300, None, 20, None), False, ""),
        (Erasures("cut", 300, None, 30, None), True, "leaving the word out changes 30 of 300 predictions (10.0%)."),
        (Erasures("replace", 60, 9, 9, 1), False, "9 of 60 predictions (15.0%), and another word of the text in its"),
        (Erasures("mask", 0, 0, 0, 0), False, ""),
    ],
)
def test_an_erasure_is_weak_where_it_surely_changes_more_than_the_margin(found, weak, said):
    assert (found.weak, len(found.notes), said in "".join(found.notes)) == (weak, bool(said), True)
    assert (
        found.done == {"mask": "masked", "cut": "left out", "replace": "replaced by others of their text"}[found.chosen]
    )
