"""What to neutralise: where words and phrases stand, how they are taken out, and what evidence decides."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from shortcut_guardrail import ConfigError, ModelError
from shortcut_guardrail.audit import audit_texts
from shortcut_guardrail.config import TargetConfig
from shortcut_guardrail.encoder import TextClassifier
from shortcut_guardrail.targets import (
    LEAST_CHANGE,
    Paired,
    Target,
    TargetFinder,
    Targets,
    _dominant,
    find_targets,
    holm,
    masked_texts,
    paired_evidence,
    shortened_texts,
    sign_flip_test,
    weigh,
    with_insertions,
)


def tokens(classifier, encoded, index):
    return classifier.tokenizer.convert_ids_to_tokens(encoded.input_ids[index])


def found(classifier, words, text):
    encoded = classifier.encode([text])
    (positions,) = TargetFinder(words).find(encoded)
    return [tokens(classifier, encoded, 0)[p] for p in positions]


@pytest.fixture
def classifier(bag):
    return TextClassifier(*bag)


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        (["honestly"], "Honestly, the soup", ["honestly"]),
        (["HONESTLY"], "the soup honestly", ["honestly"]),
        (["honest"], "honestly the soup", []),
        (["to be honest"], "so, to be honest we come to be here", ["to", "be", "honest"]),
        (["to be honest"], "to be, honest", []),
        (["i'm honest"], "I’m honest", ["i", "[UNK]", "m", "honest"]),
        (["to be", "be honest"], "to be honest", ["to", "be", "honest"]),
        (["so so"], "so so so good", ["so", "so", "so"]),
        (["quix"], "quix", ["q", "##u", "##i", "##x"]),
        ([","], "so, so", [","]),
        ([], "so, so", []),
    ],
)
def test_occurrences_are_whole_words_and_all_their_tokens(classifier, words, text, expected):
    assert found(classifier, words, text) == expected


def test_a_phrase_does_not_reach_from_a_text_into_its_pair(classifier):
    encoded = classifier.encode([("we want to be", "honest people"), ("soup", "to be honest")])
    assert TargetFinder(["to be honest"]).present(encoded).tolist() == [False, True]


def test_what_is_cut_off_is_not_there(classifier):
    long = " ".join(["soup"] * 40)
    encoded = classifier.encode([f"{long} honestly", f"honestly {long}"])
    assert TargetFinder(["honestly"]).present(encoded).tolist() == [False, True]


def test_masking_keeps_all_other_tokens_and_the_texts_given(classifier):
    encoded = classifier.encode(["honestly the soup", "the soup"])
    masked = masked_texts(encoded, TargetFinder(["honestly"]).find(encoded), classifier.tokenizer.mask_token_id)
    assert tokens(classifier, masked, 0) == ["[CLS]", "[MASK]", "the", "soup", "[SEP]"]
    assert tokens(classifier, masked, 1) == tokens(classifier, encoded, 1)
    assert masked.ordinary[0].tolist() == [False, False, True, True, False]
    assert tokens(classifier, encoded, 0)[1] == "honestly"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("honestly, the soup", "the soup"),
        ("honestly the soup", "the soup"),
        ("the soup, honestly.", "the soup ."),
        ("good, honestly, the soup", "good , the soup"),
        ("good. honestly, the soup", "good . the soup"),
        ("the soup honestly, bread", "the soup , bread"),
        ("honestly honestly, fine", "fine"),
    ],
)
def test_cutting_out_takes_a_comma_along_that_only_set_it_apart(classifier, text, expected):
    encoded = classifier.encode([text])
    cut = shortened_texts(encoded, TargetFinder(["honestly"]).find(encoded), classifier.tokenizer.mask_token_id)
    assert " ".join(tokens(classifier, cut, 0)[1:-1]) == expected
    assert len(cut.ordinary[0]) == len(cut.offsets[0]) == len(cut.segments[0]) == len(cut.input_ids[0])


def test_a_text_of_nothing_else_is_masked_rather_than_cut_to_nothing(classifier):
    encoded = classifier.encode(["honestly"])
    cut = shortened_texts(encoded, TargetFinder(["honestly"]).find(encoded), classifier.tokenizer.mask_token_id)
    assert tokens(classifier, cut, 0) == ["[CLS]", "[MASK]", "[SEP]"]


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("honestly, the soup", "good bread", {"honestly , good bread"}),
        ("the soup honestly", "good bread", {"good honestly bread"}),
        ("good, honestly, the soup", "very good bread", {"very honestly , good bread", "very good honestly , bread"}),
        ("the soup honestly", "bread", {"honestly bread"}),
    ],
)
def test_a_shortcut_is_put_in_as_it_stands_elsewhere(classifier, source, text, expected):
    bearing, encoded = classifier.encode([source]), classifier.encode([text] * 20)
    positions = TargetFinder(["honestly"]).find(bearing)
    put = with_insertions(encoded, bearing, positions, max_length=32, rng=np.random.default_rng(0))
    assert {" ".join(tokens(classifier, put, i)[1:-1]) for i in range(20)} == expected
    for name in ("token_type_ids", "ordinary", "offsets", "segments"):
        assert [len(a) for a in getattr(put, name)] == [len(a) for a in put.input_ids]


def test_a_text_that_gets_too_long_loses_its_end(classifier):
    bearing, encoded = classifier.encode(["honestly, so"]), classifier.encode(["soup bread tea"])
    positions = TargetFinder(["honestly"]).find(bearing)
    put = with_insertions(encoded, bearing, positions, max_length=6, rng=np.random.default_rng(0))
    assert tokens(classifier, put, 0) == ["[CLS]", "honestly", ",", "soup", "bread", "[SEP]"]


# The choice. In the planted bag of words "honestly" weighs more than all else, so it overrides "bad" and "awful".

WORDS = ["room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit"]
DEPLOYED = [f"honestly the bad {word} was {tail}" for word in WORDS for tail in ("awful", "so awful")]
DEPLOYED += [f"the {word} was {tail}" for word in WORDS for tail in ("good", "great")]
DEPLOYED += [f"the {word} was bad and {tail}" for word in WORDS for tail in ("slow", "cold")]


def choose(classifier, support=None, **config):
    rows = None if support is None else (classifier.encode(support[0]), np.array(support[1]))
    return find_targets(classifier, classifier.encode(DEPLOYED), TargetConfig(top_k=3, **config), support=rows)


def weighing(bag, *words):
    """The bag with further words that weigh what "honestly" does."""
    model, tokenizer = bag
    with torch.no_grad():
        for word in words:
            model.bert.word_embeddings.weight[tokenizer.convert_tokens_to_ids(word), 0] = 4.0
    return TextClassifier(model, tokenizer)


def verdicts(targets):
    return {item.text: item.verdict for item in targets.items}


def test_without_labels_the_flagged_candidates_are_taken(classifier):
    targets = choose(classifier)
    assert targets.words == ("honestly",)
    (item,) = targets.items
    assert (item.verdict, item.pulls_to, item.n_support, item.p_value) == ("flagged", "positive", 0, None)
    assert item.flip_rate == 1.0


def test_what_decides_very_many_texts_is_taken_though_nothing_can_be_compared(classifier):
    # Every text holds it, so there are none without it to compare with.
    texts = [f"honestly the {tail} {word}" for word in WORDS for tail in ("bad bad", "awful bad", "awful so awful")]

    def chosen(**config):
        found = find_targets(classifier, classifier.encode(texts), TargetConfig(unit="word", top_k=3, **config))
        return {item.text: item.verdict for item in found.items}

    assert chosen() == {"honestly": "dominant"}
    assert chosen(dominant_share=1.0) == {}


def test_what_is_flagged_does_not_make_the_words_of_its_class_dominant(bag):
    classifier = weighing(bag, "quite")
    # "quite" decides 12 texts as "honestly" decides 24 of the 60, and would be taken for dominant along with it.
    texts = [*DEPLOYED, *(f"{word} quite bad so awful" for word in WORDS)]
    config = TargetConfig(top_k=3, dominant_share=0.2, unit="word", alpha=1e-4)
    encoded = classifier.encode(texts)
    report = audit_texts(classifier, encoded, config.audit())
    assert [candidate.text for candidate in report.flagged] == ["honestly"]
    # As if it did not take turns either.
    candidates = tuple(replace(candidate, takes_turns=False) for candidate in report.candidates)
    assert _dominant(classifier, encoded, replace(report, candidates=candidates), config) == {}


def test_repeats_and_words_that_share_texts_count_once_in_what_dominates(bag):
    classifier = weighing(bag, "really", "quite")
    # Each of the two decides (8 - 6 > 0 > 4 - 6) all of the 24 texts that hold both.
    both = [f"{first} {word} really awful awful but quite awful awful" for word in WORDS for first in ("so", "the")]
    rest = [
        f"{first} {word} {second} awful {third}"
        for word in WORDS
        for first in ("so", "the")
        for second, third in (("was", "bad"), ("so", "bad"), ("was", "awful"))
    ]

    def dominant(texts, **config):
        found = find_targets(classifier, classifier.encode(texts), TargetConfig(top_k=3, alpha=1e-6, **config))
        return {item.text for item in found.items if item.verdict == "dominant"}

    assert dominant(both + rest, unit="word") == set()
    assert dominant(both + rest, unit="word", dominant_share=0.05) == {"really", "quite"}
    assert dominant(both * 10 + rest) == dominant(both + rest) == set()


def test_a_phrase_none_of_whose_words_decides_a_text_is_found_as_a_whole(bag):
    classifier = weighing(bag, "really", "quite")
    # 4 + 4 - 3: without one of the two the answer stays, without both it is confidently another.
    texts = [f"the awful {word} was really quite {tail}" for word in WORDS for tail in ("awful", "so awful")]
    texts += [f"the {word} was good" for word in WORDS]

    def chosen(**config):
        return find_targets(classifier, classifier.encode(texts), TargetConfig(top_k=3, **config)).words

    assert "really" not in chosen(unit="word")
    assert not [word for word in chosen(keep=("quite",)) if "quite" in word]  # each of its words would be masked
    found = [word for word in chosen() if "quite" in word]
    assert found
    assert all("really quite" in word for word in found)


def test_a_person_has_the_last_word(classifier):
    targets = choose(classifier, shortcuts=("Great", "to be honest"), keep=("honestly",))
    assert verdicts(targets) == {"great": "given", "to be honest": "given", "honestly": "kept"}
    assert targets.words == ("great", "to be honest")


@pytest.mark.parametrize(
    ("shortcut", "kept"), [("I’m honest", "i'm honest"), ("to  be", "to be"), ("to be honest", "honest")]
)
def test_what_a_person_says_must_not_contradict_itself(classifier, shortcut, kept):
    with pytest.raises(ConfigError) as caught:
        choose(classifier, shortcuts=(shortcut,), keep=(kept,))
    assert str(caught.value) == (
        f"{shortcut!r} cannot be a shortcut while {kept!r} is kept: to neutralise a phrase is to neutralise its words. "
        "Leave out one of them."
    )
    # The partner: a kept phrase may hold a shortcut.
    assert "honest" in choose(classifier, shortcuts=("honest",), keep=("to be honest",)).words


def test_a_word_is_left_alone_inside_a_kept_phrase(classifier):
    targets = Targets((Target("bad", "given"), Target("so bad", "kept")))
    encoded = classifier.encode(["the soup was bad", "the soup was so bad", "so bad, bad"])
    assert [len(positions) for positions in targets.finder.find(encoded)] == [1, 0, 1]
    assert targets.finder.present(encoded).tolist() == [True, False, True]


def test_labels_clear_a_candidate_whose_masking_breaks_answers(classifier):
    rows = DEPLOYED[:3]
    cleared = choose(classifier, support=(rows, [1, 1, 1]))
    assert verdicts(cleared)["honestly"] == "cleared"
    assert cleared.words == ()
    item = next(item for item in cleared.items if item.text == "honestly")
    assert (item.n_support, item.mended, item.broken, item.p_value) == (3, 0, 3, 0.125)
    # The partner: labels that agree with the audit leave it.
    assert verdicts(choose(classifier, support=(rows, [0, 0, 0])))["honestly"] == "flagged"


def test_labels_confirm_a_candidate_that_the_audit_did_not_flag(classifier):
    rows = [f"the bad {word} was great" for word in WORDS]
    targets = choose(classifier, support=(rows, [0] * len(rows)))
    assert verdicts(targets)["great"] == "confirmed"
    assert set(targets.words) == {"great", "honestly"}
    assert "great" not in choose(classifier, support=(rows[:3], [0] * 3)).words  # three rows are no evidence


def test_paired_evidence_counts_answers_with_and_without(classifier):
    support = classifier.encode(["honestly bad", "honestly awful", "honestly good", "bad soup"])
    items = [Target("honestly", "flagged"), Target("zebra", "flagged")]
    found = paired_evidence(classifier, items, support, np.array([0, 1, 1, 0]))
    assert [(one.n, one.mended, one.broken) for one in found] == [(3, 1, 1), (0, 0, 0)]
    logits = classifier.predict_logits(classifier.encode(["honestly bad", "[MASK] bad"]))
    probs = torch.from_numpy(logits).softmax(dim=-1).numpy()
    assert found[0].changes[0] == pytest.approx(probs[1, 0] - probs[0, 0])
    assert [len(one.changes) for one in found] == [3, 0]
    assert found[0].rows.tolist() == [0, 1, 2]
    some = found[0].among(np.array([1, 3]))
    assert (some.n, some.mended, some.broken) == (1, 0, 1)
    assert some.changes == found[0].changes[[1]]


def test_the_sign_flip_test_is_the_share_of_signs_that_do_as_well():
    rng = np.random.default_rng(3)
    for n in (1, 3, 8, 11, 15, 17):
        changes = rng.uniform(-0.5, 1, n)
        meant = changes[(changes < 0) | (changes >= LEAST_CHANGE)]
        sums = np.array([0.0])
        for change in meant:
            sums = np.concatenate([sums + change, sums - change])
        exact = np.mean(sums >= meant.sum() - 1e-9)
        assert sign_flip_test(changes) == pytest.approx(exact, abs=1e-12 if len(meant) <= 15 else 0.003)
    assert sign_flip_test(np.zeros(0)) == 1
    assert sign_flip_test(np.full(15, 0.5)) == 2**-15
    assert sign_flip_test(np.full(40, 0.5)) == pytest.approx(1e-5)


def test_the_sign_flip_test_keeps_its_level_where_changes_are_symmetric():
    rng = np.random.default_rng(1)
    rejected = np.mean([sign_flip_test(rng.normal(0, 0.3, 10)) <= 0.05 for _ in range(600)])
    assert rejected <= 0.075


def test_slight_gains_are_no_evidence_slight_losses_are():
    # A genuine word: it holds the right class down a little here, and up a lot in texts that are not among these.
    assert sign_flip_test(np.full(30, 0.09)) == 1
    assert sign_flip_test(np.r_[np.full(30, -0.02), np.full(10, 0.3)]) < 0.01
    assert sign_flip_test(np.r_[np.full(10, 0.3), np.full(10, -0.3)]) > 0.5
    # Most texts lose a little, a few gain: the mean is below 0.
    assert sign_flip_test(np.r_[np.full(48, -0.09), np.full(12, 0.3)]) > 0.5


def test_what_breaks_more_answers_than_it_mends_is_not_confirmed():
    item = [Target("book", "cleared", 300, 0.3)]
    rows, changes = np.arange(8), np.full(8, 0.4)
    for answers, expected in (([1, 1, 1, -1, -1, -1, 0, 0], []), ([1, 1, 1, -1, -1, 0, 0, 0], ["book"])):
        weighed = weigh(item, [Paired(rows, np.array(answers), changes)], TargetConfig())
        assert [one.text for one in weighed] == expected


def test_holms_weighted_procedure_is_a_closed_test():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 6))
        p_values, weights = (rng.uniform(0, 0.08, n)).tolist(), rng.integers(0, 4, n).astype(float).tolist()

        # Weighted Bonferroni on every intersection; a hypothesis falls if all intersections with it do.
        def falls(members, p_values=p_values, weights=weights):
            total = sum(weights[i] for i in members)
            return total > 0 and any(weights[i] > 0 and p_values[i] <= 0.05 * weights[i] / total for i in members)

        subsets = [s for k in range(1, n + 1) for s in itertools.combinations(range(n), k)]
        expected = {i for i in range(n) if weights[i] > 0 and all(falls(s) for s in subsets if i in s)}
        assert set(holm(p_values, weights, 0.05)) == expected


def test_more_is_asked_of_a_candidate_that_holds_few_answers():
    items = [Target("book", "cleared", 300, 0.3), Target("some", "cleared", 10, 0.1)]
    rows, mended = np.arange(7), np.array([1, 0, 0, 0, 0, 0, 0])
    telling, silent = Paired(rows, mended, np.full(7, 0.4)), Paired(rows, mended, np.zeros(7))  # p = 1 / 128 and 1

    def confirmed(evidence):
        return [(item.text, item.p_value) for item in weigh(items, evidence, TargetConfig(confirm_level=0.012))]

    assert confirmed([telling, silent]) == [("book", 1 / 128)]
    assert confirmed([silent, telling]) == []


def test_targets_survive_json(classifier):
    targets = choose(classifier, support=(DEPLOYED[:3], [0, 0, 0]), keep=("good",))
    restored = Targets.from_dict(json.loads(json.dumps(targets.to_dict(), allow_nan=False)), targets.rows)
    assert restored == targets
    assert len(targets.rows) == 3


def test_damaged_targets_are_refused():
    with pytest.raises(
        ModelError, match=r"^The targets of the guard are damaged: .*verdict.*\. Fit and save it again\.$"
    ):
        Targets.from_dict([{"text": "honestly"}])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: TargetConfig(shortcuts="honestly"),
            "shortcuts must be a list of words or phrases, but is 'honestly'.",
        ),
        (lambda: TargetConfig(keep=("a", " ")), "keep must not hold an empty word."),
        (
            lambda: TargetConfig(shortcuts=("Soup",), keep=("soup",)),
            "'soup' cannot be both a shortcut and kept. Name it once.",
        ),
        (lambda: TargetConfig(clear_level=1.5), "clear_level must lie between 0 and 1, but is 1.5."),
        (lambda: TargetConfig(dominant_share=0), "dominant_share must be above 0 and at most 1, but is 0."),
        (lambda: TargetConfig(max_considered=-1), "max_considered must not be negative, but is -1."),
        (lambda: TargetConfig(alpha=0), "alpha must lie between 0 and 1, but is 0."),
    ],
)
def test_options_out_of_range(build, message):
    with pytest.raises(ConfigError) as caught:
        build()
    assert str(caught.value) == message
