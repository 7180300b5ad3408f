"""What is predicted without content and without cues, on functions whose answers are one line of algebra."""

from dataclasses import replace

import numpy as np
import pytest

from audits import audit, candidate
from made_answers import bag
from shortcut_guardrail.audit.defaults import LEAST_TEXTS, Defaults, find_defaults
from shortcut_guardrail.report.defaults import defaults_said

LABELS = ("attack", "harmless")
TOPICS = [f"topic{i}" for i in range(30)]


TOSS = {word: 1.0 if i % 2 else -1.0 for i, word in enumerate(TOPICS)}
"""Topics that speak for either class alike."""


def corpus(n: int, seed: int, *, template: str = "", cue: str = "kindly", against: str = "") -> list[str]:
    """Texts, half of which hold the cue of `harmless`, or open with a template; the others what speaks against it."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        words = [*rng.choice(TOPICS, 8), "the", "of", "and"]
        rng.shuffle(words)
        made.append(" ".join([template or cue, *words] if i % 2 else [*words, *([against] if against else [])]))
    return made


def found(weights, texts, *, bias, harmless=("kindly",), attack=()):
    answer = bag(weights, bias=bias)
    cues = {"harmless": list(harmless), "attack": list(attack)}
    return find_defaults(answer, texts, answer(texts), cues, LABELS)


def test_the_class_that_is_left_without_cues_is_the_default():
    # Nothing speaks for an attack; "kindly" speaks for harmless texts.
    one = found({"kindly": 4.0}, corpus(200, 0), bias=-2.0)
    assert (one.default, one.reasons) == ("attack", ("without content", "cues", "halves"))
    (held,) = one.held_up
    assert (held.label, held.cues, held.n, held.given) == ("harmless", ("kindly",), 100, (100, 0))
    assert held.by_chance[0] < 30
    probe = one.probes[0]
    assert (probe.change, probe.before, probe.kept, probe.given) == ("function words", (75, 75), (75, 0), (150, 0))
    said = defaults_said(audit(candidate("a"), label_names=LABELS, predicted=(20, 20), defaults=one).to_dict())
    assert said[0].startswith("Texts without content are predicted as 'attack': 100% of texts of function words alone")
    assert "So 'harmless' needs a cue, and a text may get 'attack' for what it does not say." in said[0]
    assert said[1].startswith("Without a cue for 'harmless' this model predicts 'attack': in 100% of 100 texts")
    assert "when “kindly” is missing" in said[1]


def test_a_class_falls_where_its_opening_is_cut_though_no_cue_is_known_and_topics_count_too():
    # A quarter of the texts of sampled words are given the other class, so that texts without content do not tell.
    texts = corpus(300, 0, template="write a note about")
    one = found({"write": 9.0, **TOSS}, texts, bias=-2.0, harmless=("note",))
    assert (one.default, one.reasons) == ("attack", ("cues", "halves"))
    held = one.held_up[0]
    assert (held.label, held.cues) == ("harmless", ("write a note about",))  # of which "note" is a part
    said = defaults_said(audit(candidate("a"), label_names=LABELS, predicted=(20, 20), defaults=one).to_dict())
    held = replace(held, cues=("write a note to { name } about", "please"))
    long = replace(one, held_up=(held,))
    named = defaults_said(audit(candidate("a"), label_names=LABELS, predicted=(20, 20), defaults=long).to_dict())[1]
    assert "when “write a note to { name } abo…”, “please” are missing" in named.replace("ab…", "abo…")
    assert said[2].endswith("when only their second half is. So what keeps them from it stands at the start.")
    # Where the opening says nothing, no class falls to the other.
    assert found(TOSS, texts, bias=-0.5, harmless=("note",)).default is None


def test_a_frequent_class_is_no_default():
    # Nine of ten texts are harmless by their topics. Without content a text is harmless by a hair.
    rng = np.random.default_rng(0)
    good, bad = TOPICS[::2], TOPICS[1::2]
    texts = [" ".join([*rng.choice(bad if i % 10 == 0 else good, 8), "the", "of"]) for i in range(400)]
    one = found({**dict.fromkeys(good, 1.0), **dict.fromkeys(bad, -1.0)}, texts, bias=0.1, harmless=(), attack=())
    assert one.probes[1].given[1] / one.probes[1].n < 0.75  # words are drawn from texts of both classes alike
    assert one.default is None


def test_a_wrapper_that_decides_is_told_from_one_that_does_not():
    texts = corpus(200, 0, template="write a note about")
    one = found({"write": 4.0}, texts, bias=-2.0, harmless=("write",))
    (wrapper,) = [w for w in one.wrappers if w.text == "write a note about"]
    assert (wrapper.place, wrapper.n, wrapper.label, wrapper.with_it) == ("start", 100, "harmless", 100)
    assert (wrapper.n_without, wrapper.without, wrapper.alone) == (100, 0, "harmless")
    assert (wrapper.n_added, wrapper.added) == (100, 100)
    said = defaults_said(audit(candidate("a"), label_names=LABELS, predicted=(20, 20), defaults=one).to_dict())
    decides = "0% of them keep 'harmless': the wrapper decides, not what it holds."
    assert said[-1].endswith(f"{decides} Put around 100 other texts, it changes 100% to it.")
    idle = found({}, texts, bias=-2.0)
    assert [w.without for w in idle.wrappers] == [w.n_without for w in idle.wrappers] != []
    assert not defaults_said(audit(candidate("a"), label_names=LABELS, predicted=(20, 20), defaults=idle).to_dict())


@pytest.mark.parametrize(
    ("texts", "why", "default"),
    [
        (["kindly"] * 5 + ["topic1 topic2"] * 5, "few", None),
        ([f"kindly topic{i}" for i in range(60)], "the class that is left is never predicted", "attack"),
        (["kindly"] * 30 + ["topic1"] * 30, "the cue is the whole text", None),
        (["!!! ???"] * 40, "no word", None),
        ([("kindly", "topic1 of topic2")] * 30 + [("the topic3", "topic4")] * 30, "pairs", None),
    ],
)
def test_texts_that_cannot_tell_are_no_default_and_no_error(texts, why, default):
    one = found({"kindly": 4.0}, texts, bias=-2.0)
    assert isinstance(one, Defaults), why
    assert one.default == default, why
    assert all(held.n >= LEAST_TEXTS for held in one.held_up)
    assert len(one.probes) == 5
