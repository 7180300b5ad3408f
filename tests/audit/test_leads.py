"""Words that lead to a class as a group, on functions whose answers are one line of algebra."""

from dataclasses import replace

import numpy as np
import pytest

from audits import audit, candidate
from made_answers import bag
from shortcut_guardrail import AuditConfig
from shortcut_guardrail.audit.defaults import Defaults, HeldUp, Probe
from shortcut_guardrail.audit.insertions import Wanted, try_insertions
from shortcut_guardrail.audit.leads import Lead, find_lead
from shortcut_guardrail.report.defaults import defaults_said

LABELS = ("benign", "attack")
TOPICS = [f"topic{i}" for i in range(60)]
TRIGGERS = [f"trigger{i}" for i in range(12)]
EMPTY = Probe("function words", 40, (20, 20), (20, 0), (39, 1))
MOST = Probe("function words", 40, (20, 20), (20, 6), (34, 6))
"""With `EMPTY` 19 of 20 attacks are given `benign` bare, with `MOST` 14: too few to tell by them alone."""


def corpus(n, *, cues=(), triggers=TRIGGERS, more=()):
    """Sixteen topics each, and in every second text four triggers, in the others four cues, if there are any."""
    rng, made = np.random.default_rng(0), []
    for i in range(n):
        own = triggers if i % 2 else cues
        words = [*rng.choice(TOPICS, 16), *(rng.choice(own, 4, replace=False) if len(own) else ()), *more[: i % 2]]
        made.append(" ".join(rng.permutation(words)))
    return made


def found(answer, texts, *, attack=TRIGGERS, benign=(), probes=(MOST,), labels=LABELS):
    words = {1: [Wanted(word, 1) for word in attack], 0: [Wanted(word, 0) for word in benign]}
    return find_lead(answer, texts, answer(texts), words, probes, labels)


def test_words_lead_as_a_group_though_none_of_them_does_alone():
    answer, texts = bag(dict.fromkeys(TRIGGERS, 1.0), bias=-2.5), corpus(300)  # three of four triggers are enough
    alone, *_ = try_insertions(
        answer, texts, answer(texts), [Wanted(word, 1) for word in TRIGGERS], AuditConfig(), n_texts=300
    )
    assert {one.changed for one in alone.values()} == {0}
    lead = found(answer, texts)
    assert (lead.label, lead.left, lead.words) == ("attack", "benign", tuple(TRIGGERS))
    assert (lead.n, lead.gone, lead.n_left, lead.lost) == (60, 60, 20, 0)  # none of 20 benign texts holds a word of it
    assert (lead.n_added, lead.put_in, lead.added, lead.found) == (80, 5, 80, True)
    assert 0 < lead.by_chance < 30 > lead.added_by_chance
    bare = found(answer, texts, probes=(EMPTY,))
    assert bare == replace(lead, bare=True, n_left=0)
    pairs = [("topic1 topic2", text) for text in texts]
    words = {1: [Wanted(word, 1, side=1) for word in TRIGGERS]}
    assert find_lead(answer, pairs, answer(pairs), words, [MOST], LABELS).added == 80


def of(rule):
    """A function of texts that answers `attack` by a rule of a text's words."""
    return lambda texts: np.eye(2)[[int(bool(rule(set(text.split()), len(text.split())))) for text in texts]]


CUES = [f"cue{i}" for i in range(12)]
TOSS = {word: 1.0 if i % 2 else -1.0 for i, word in enumerate(TOPICS)}
"""Topics that speak for either class alike."""


@pytest.mark.parametrize(
    ("why", "answer", "texts", "words", "told"),
    [
        ("the words do nothing", of(lambda words, n: n > 16), corpus(200), {"attack": TOPICS[:1]}, (0, 0, 0, 0)),
        ("each class has its own", bag({**dict.fromkeys(TRIGGERS, 9.0), **dict.fromkeys(CUES, -9.0), **TOSS}, bias=0),
         corpus(200, cues=CUES), {"benign": CUES}, (60, 37, 60, 0)),
        ("any words do as well", of(lambda _, n: n > 16), corpus(200), {}, (60, 60, 0, 0)),
        ("they do not lead without another one", of(lambda words, _: "key" in words and words & set(TRIGGERS)),
         corpus(200, more=["key"]), {}, (60, 60, 20, 80)),
        ("few texts", bag(dict.fromkeys(TRIGGERS, 1.0), bias=-2.5), corpus(38), {}, (19, 19, 0, 0)),
        ("few texts to put them into", bag(dict.fromkeys(TRIGGERS, 1.0), bias=-2.5),
         corpus(200)[1::2] + corpus(46)[::2], {}, (60, 60, 20, 18)),
    ],
)  # fmt: skip
def test_words_do_not_lead_where_one_comparison_fails(why, answer, texts, words, told):
    lead = found(answer, texts, **words)
    assert not lead.found, why
    assert "attack" in words or (lead.n, lead.gone, lead.n_left, lead.n_added) == told, why


def test_where_texts_without_content_do_not_tell_nothing_is_asked():
    texts = corpus(100)
    answer = bag(dict.fromkeys(TRIGGERS, 1.0), bias=-2.5)
    for probe in (
        replace(EMPTY, given=(22, 18)),
        replace(EMPTY, n=19, given=(19, 0)),
        replace(EMPTY, change="first half"),
    ):
        assert found(answer, texts, probes=(probe,)) is None
    assert found(answer, texts, attack=()) is None
    # Of three classes the more frequent of those that are not left is asked about.
    three = lambda of: np.hstack([answer(of), np.zeros((len(of), 1))])  # noqa: E731
    probe = replace(EMPTY, given=(40, 0, 0))
    assert found(three, texts, probes=(probe,), labels=(*LABELS, "other")).label == "attack"


def test_the_report_says_which_words_lead_and_of_a_default_only_what_it_has_not_said():
    lead = Lead("attack", "benign", ("ai", "prompt"), False, 60, 50, 8, 60, 2, 40, 2, 25, 0, found=True)
    held = HeldUp("attack", ("ai",), 20, (5, 15), (1, 19))

    def said(lead, default=None, reasons=()):
        found = Defaults(default, reasons, (EMPTY,), (held,), ())
        values = {"label_names": LABELS, "predicted": (20, 20), "defaults": found, "lead": lead}
        return defaults_said(audit(candidate("a"), **values).to_dict())

    assert said(lead) == [
        "A text gets 'attack' for words that it holds: “ai”, “prompt”. Put into 40 other texts together, 2 of the "
        "strongest change 63% to 'attack', and as many random words 0%. Without all of these words 83% of 60 texts "
        "with some (0.71 to 0.92) are given 'benign', and 13% without as many random words. Of texts of function "
        "words alone 98% are given 'benign'. One of these words alone may change little, and the list need not be "
        "complete."
    ]
    assert said(replace(lead, found=False)) == said(None) == []
    default, words = said(lead, "benign", ("without content",))
    assert default.startswith("Texts without content are predicted as 'benign'")
    assert words == said(lead)[0]
    for other in (said(lead, "benign", ("cues",)), said(None, "benign", ("without content",)), said(lead, "attack")):
        assert not any(one.startswith("A text gets") for one in other)


def test_texts_that_lose_their_class_bare_need_not_lose_it_without_the_known_words():
    # Half of the triggers are not known, and three of four are too many to lose by those that are.
    answer, texts = bag(dict.fromkeys(TRIGGERS, 1.0), bias=-0.5), corpus(300)
    some = TRIGGERS[:6]
    assert not found(answer, texts, attack=some).found
    lead = found(answer, texts, attack=some, probes=(EMPTY,))
    assert (lead.bare, lead.found, lead.n_left, lead.added) == (True, True, 0, 80)
    assert lead.gone < 20
    for before, kept, given in (
        ((19, 21), 19, 40),
        ((21, 19), 21, 40),
        ((20, 20), 10, 29),
        *(((20, 20), 20, n) for n in (38, 39)),
    ):
        probe = Probe("function words", 40, before, (kept, 0), (given, 40 - given))
        assert found(answer, texts, attack=some, probes=(probe,)).bare is (given == 39)
    # Bare texts tell which class is left, and not which words lead to the other.
    idle = found(answer, texts, attack=["topic1"], probes=(EMPTY,))
    assert (idle.bare, idle.n_added, idle.found) == (True, 80, False) or idle.n < 20
