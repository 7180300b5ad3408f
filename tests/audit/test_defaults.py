"""What is predicted without content and without cues, on functions whose answers are one line of algebra."""

from dataclasses import replace

import numpy as np
import pytest

from audits import audit, candidate
from made_answers import bag
from shortcut_guardrail.audit.defaults import LEAST_TEXTS, Defaults, HeldUp, Probe, _default, _recurring, find_defaults
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


def test_a_default_is_given_nearly_always_or_others_fall_to_it_and_few_texts_tell_nothing():
    def default(*probes, held=(), halves=(), predicted=(60, 20)):
        made = [Probe(change, sum(given), (0, 0), (0, 0), given) for change, given in probes]
        made += [Probe(f"{which} half", sum(given), before, kept, given) for which, before, kept, given in halves]
        return _default(LABELS, predicted, made, [HeldUp(label, (), n, *counts) for label, n, *counts in held])

    both, most = [
        [("function words", one), ("sampled words", other)] for one, other in (((38, 2), (37, 3)), ((70, 30), (72, 28)))
    ]
    assert default(*both) == ("attack", ("without content",))
    assert default(*both, predicted=(60, 19)) == default(both[0]) == default(("function words", (19, 0)), both[1])
    assert default(both[0]) == default(*most) == (None, ())
    gone = [("harmless", 50, (45, 5), (3, 47))]
    assert default(*most, held=gone) == ("attack", ("cues",))
    # As many fall without random words, or lose the class itself.
    assert default(*most, held=[("harmless", 50, (45, 5), (45, 5))])[0] is None
    assert default(*most, held=[*gone, ("attack", 50, (20, 30), (0, 0))])[0] is None
    for own, reasons in ((20, ("halves",)), (19, ())):
        halves = [(which, (own, 40 - own), (own - 2, 2), (36, 4)) for which in ("first", "second")]
        assert default(*most, halves=halves)[1] == reasons


def test_openings_and_endings_recur_in_a_twentieth_of_the_texts_and_are_as_long_as_can_be():
    def found(n, total=500, words="please say the word"):
        texts = [f"{words} {i} one{i}" for i in range(n)]
        return _recurring([*texts, *(f"a{i} text{i} of{i} its{i} own{i}" for i in range(total - n))])

    assert (found(24), found(25)) == ([], [("please say the word", "start")])
    assert (found(19, 30), found(20, 30, "- - - word"), found(20, 30, "say it")) == ([], [], [])
    branches = [f"please say the {'word' if i < 20 else 'other'} one{i}" for i in range(23)]
    assert _recurring(branches) == [("please say the", "start"), ("please say the word", "start")]
    pairs = [(f"one two three a{i}", f"b{i} c{i} please write it") for i in range(40)]
    assert _recurring(pairs) == [("please write it", "end"), ("one two three", "start")]
    texts = [*pairs, *((f"d{i}", f"e{i} f{i}") for i in range(30))]
    asked = []
    answer = bag({"please": 4.0})
    ending = find_defaults(lambda of: (asked.append(of), answer(of))[1], texts, answer(texts), {}, LABELS).wrappers[0]
    told = ending.place, ending.n, ending.without, ending.alone, ending.n_added, ending.added
    assert told == ("end", 40, 0, "harmless", 30, 30)
    of_one = {"label_names": LABELS, "predicted": (20, 20), "defaults": Defaults(None, (), (), (), (ending,))}
    said = defaults_said(audit(candidate("a"), **of_one).to_dict())
    assert said[0].startswith("40 texts end with “please write it”. With nothing in it, it is given 'harmless', and")
    assert [asked[2][0], asked[0][1]] == [("d0", "e0 f0 please write it"), ("one two three a1", "b1 c1")]
    asked.clear()
    texts = [f"one{i} two three" for i in range(160)]
    find_defaults(lambda of: (asked.append(of), answer(of))[1], texts, answer(texts), {}, LABELS)
    assert [asked[i][0] for i in (-2, -1)] == ["one0 two", "two three"]
    assert [len(of) for of in asked[-2:]] == [150, 150]
