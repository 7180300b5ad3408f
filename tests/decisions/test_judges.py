"""Classifiers judge cards: qualified ones, that are centred, against a bound; and what follows with people."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from shortcut_guardrail import Answers, ConfigError, Questions, decide
from shortcut_guardrail.cards import Card, Flip
from shortcut_guardrail.cards.card import CardEvidence
from shortcut_guardrail.data import text_hash
from shortcut_guardrail.decisions import Answer, AuditedCards, Decision, Decisions
from shortcut_guardrail.decisions.answers import JudgeAnswers
from shortcut_guardrail.decisions.drawing import ReferenceText
from shortcut_guardrail.decisions.judges import _unqualified, _why_open, is_ordered, sides_of
from shortcut_guardrail.decisions.record import SecondModelResult

LABELS = ("negative", "positive")
N = 200
CARD = Card("book", ("book",), "positive", 90, 60, 0.2, CardEvidence("undecided", (), 1.0, 0.7))
AUDITED = AuditedCards("audit", "deployed", "data", LABELS, 300, (CARD,))


def free(i: int, answer: int, **changes) -> ReferenceText:
    sides = LABELS[answer], LABELS[1 - answer]
    return replace(ReferenceText(i, f"free {answer} {i}", *sides, 0.1 * i, True, True), **changes)


FLIPS = [Flip.of(i, "positive", "negative", f"book flip {i}", 0.5) for i in range(60)]
FREE = tuple(free(i, answer) for answer in (0, 1) for i in range(N))
QUESTIONS = Questions(AUDITED, {"book": FLIPS}, (), FREE, ("deployed", "base"))


def scores(questions: Questions, says, *, lean: float = 0.0, refused: str = "") -> JudgeAnswers:
    """Of a judge that says of each text how far ahead "positive" is."""
    ahead = np.array([says(text) + lean for text in questions.for_judges.texts], dtype=float)
    turned = questions.audited.labels[0] == "positive"
    return JudgeAnswers(np.stack([turned * ahead, (not turned) * ahead], axis=1), refused=refused)


def noisy(accuracy: float, fixed: float, *, seed: int = 0):
    """A judge that is right so often on texts without the words, and calls so large a share of flips fixed."""
    rng = np.random.default_rng(seed)
    votes: dict[str, float] = {}

    def says(text: str) -> float:
        key = text.removeprefix("book ")
        if key not in votes:
            right = 1.0 if text.split()[:2] == ["free", "1"] else -1.0
            often = accuracy if text.startswith("free") else fixed
            votes[key] = right * (1 if rng.random() < often else -1) * rng.uniform(0.5, 1.5)
        return votes[key]

    for text in QUESTIONS.for_judges.texts:
        says(text)
    return says


def agreeing_on(n: int):
    """A judge that agrees with the model on n of 200 texts without the words of either side."""
    positive = {one.text for one in FREE if (one.answer == "positive") == (one.row < n)}
    return lambda text: 1.0 if text in positive else -1.0


def decided(judges, questions: Questions = QUESTIONS, **options) -> Decisions:
    return decide(questions, Answers((), judges, questions.for_judges.texts), **options)


def judged(says, questions: Questions = QUESTIONS, **options):
    found = decided({"judge": scores(questions, says)}, questions, **options)
    return found.cards[0].second_model, found.judges[0].qualifications[0]


def test_a_qualified_judge_decides_a_shortcut():
    found, qualification = judged(noisy(0.8, 0.95))
    assert qualification.qualified
    assert qualification.agreement == pytest.approx(0.8, abs=0.06)
    assert (found.outcome, found.judges, found.rule, found.reason) == ("shortcut", ("judge",), "agreement", "")
    assert found.fixed + found.broken == 60
    assert found.p_value == found.q_value < 0.05 < 0.5 < found.bound < 0.65
    assert set(found.rules) == {"agreement", "reference"}
    # The reference rule allows as many as the judge calls right of the model's own predictions.
    assert found.rules["reference"]["bound"] == pytest.approx(qualification.agreement, abs=0.03)
    by_reference, _ = judged(noisy(0.8, 0.95), rule="reference")
    assert (by_reference.rule, by_reference.bound) == ("reference", found.rules["reference"]["bound"])


def test_a_judge_is_qualified_with_confidence():
    # The standard error is .0246, and 1.645 of it is .0405: .595 - .0405 is above .55, and .585 - .0405 is below.
    for agrees, qualified in ((117, False), (119, True)):
        found = judged(agreeing_on(agrees))[1]
        assert (found.agreement, found.error) == (pytest.approx(agrees / N), pytest.approx(0.0246, abs=0.0002))
        assert (found.qualified, found.reason == "") == (qualified, qualified)


CHANCE = "is not clearly more than the 0.58 that a biased second model may reach."


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((40, 20, 0.01, 0.0501), "3 word groups are tested together, and for this one q = 0.051 is above 0.05."),
        ((30, 30, 0.2, 0.6), f"30 of 60 fixed {CHANCE}"),
        ((29, 31, 0.2, 0.6), "The second models agree with your model. That does not show that the words are legit"),
    ],
)
def test_the_reason_names_the_numbers_that_it_rests_on(counts, said):
    fixed, broken, p_value, q_value = counts
    found = SecondModelResult(("one",), "agreement", fixed, broken, 0, 0.58, p_value, "open", q_value=q_value)
    assert _why_open(found, 3).startswith(said)
    # A coin agrees in half of the texts: of .60 give or take 1.645 * .05 the lower end is above it, of .58 it is not.
    for share, chance in ((0.6, ""), (0.58, " That is what a coin does.")):
        start = f"It agrees with the model on {share:.2f} of texts without the words, give or take 0.08, and 0.55 has"
        assert _unqualified(share, 0.05, LABELS).startswith(f"{start} to be certain.{chance} Describe")


# Every other reference text is near the boundary, and the others are drawn at random.
SPLIT = replace(QUESTIONS, reference=tuple(replace(o, near=o.row % 2 == 0, drawn=o.row % 2 == 1) for o in FREE))


def test_a_lean_of_the_judge_is_centred_away_but_for_one_near_the_boundary():
    says = noisy(0.8, 0.5)
    assert judged(says) == judged(lambda text: says(text) + 7.0)
    leaning = {one.text for one in SPLIT.reference if one.near and one.row % 4 == 0}
    found, plain = (judged(one, SPLIT)[0] for one in (lambda t: -1.0 if t in leaning else says(t), says))
    assert found.bound > plain.bound + 0.05


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (noisy(0.5, 0.9), "That is what a coin does."),
        (agreeing_on(115), "0.55 has to be certain. Describe the labels negative, positive to it"),
        (lambda text: 0.3, "It predicts the same class for every text."),
        (lambda text: np.nan, "It answered nothing."),
    ],
)
def test_an_unqualified_judge_decides_nothing_and_the_sentence_says_why(says, reason):
    found, qualification = judged(says)
    assert not qualification.qualified
    assert reason in qualification.reason
    assert (found.outcome, found.judges, found.reason) == ("open", (), "No second model is qualified.")
    assert (found.unanswered, found.at_stake) == (60, None)


@pytest.mark.parametrize("missing", [20, 21])
def test_a_judge_that_drops_more_than_a_third_of_the_flips_leaves_the_card_open(missing):
    full = noisy(0.9, 1.0)
    for side in ("book flip", "flip"):
        dropped = {f"{side} {i}" for i in range(missing)}
        found, _ = judged(lambda text, dropped=dropped: np.nan if text in dropped else full(text))
        assert (found.fixed, found.unanswered) == (60 - missing, missing)
        said = "No qualified second model gave a prediction for 21 of its 60 texts."
        assert (said in found.reason) == (missing == 21)


@pytest.mark.parametrize(("n", "enough"), [(24, False), (25, True)])
def test_few_texts_without_the_words_decide_nothing(n, enough):
    says = noisy(1.0, 1.0)
    sparse = replace(QUESTIONS, reference=tuple(one for one in FREE if one.answer == "positive" or one.row < n))
    found, qualification = judged(says, sparse)
    assert (qualification.qualified, found.outcome == "shortcut") == (enough, enough)
    assert ("It answered 24 texts without the words on one side" in qualification.reason) == (not enough)
    # The same near the boundary, where the reference rule asks for twice as many of the masked class.
    for rule, least in (("reference", 2 * n), ("agreement", n)):
        few = replace(QUESTIONS, reference=tuple(replace(one, near=one.row < least) for one in FREE))
        found = judged(says, few)[0]
        assert (rule in found.rules) == enough
    assert enough or "too few texts without its words near the model's boundary for the agreement" in found.reason


def test_of_classes_in_an_order_one_as_near_to_both_speaks_for_neither():
    assert sides_of((1, 2), 5, ordered=True) == ([0, 1], [2, 3, 4])
    assert sides_of((1, 3), 5, ordered=True) == sides_of((0, 4), 5, ordered=True) == ([0, 1], [3, 4])
    assert sides_of((1, 3), 5, ordered=False) == ([1], [3])
    assert all(map(is_ordered, [("1 star", "2 stars", "3 stars"), ("1-star", "3-star", "5-star")]))
    turned, two, a_word = ("3 stars", "2 stars", "1 star"), ("1 star", "2 stars"), ("1 star", "2 stars", "many")
    twice, numbers, names = ("1 star", "1 stars", "2 stars"), ("0", "1", "2"), ("LABEL_0", "LABEL_1", "LABEL_2")
    assert not any(map(is_ordered, [turned, two, a_word, twice, numbers, names]))


@dataclass
class Judging:
    says: object = noisy(0.8, 0.95)
    print: str = "other"
    changes: int = 0
    asked: int = 0
    name: str = "judge"
    label_names: tuple[str, ...] = LABELS

    def fingerprint(self) -> str:
        return self.print

    def predict_proba(self, texts, *, progress=None, again=False):
        self.asked += len(texts)
        ahead = np.array([self.says(text) * (-1 if again and i < self.changes else 1) for i, text in enumerate(texts)])
        return np.stack([1 / (1 + np.exp(ahead)), 1 / (1 + np.exp(-ahead))], axis=1)

    def record(self):
        return {"kind": "test", "fingerprint": self.print}


def test_what_was_answered_becomes_decisions_that_people_overrule():
    judge = Judging()
    answers = QUESTIONS.answered_by(judge)
    assert judge.asked == len(answers.texts) + 20  # some twice, to see whether it changes its answer
    answers.judges["judge"].log_probs[0] = np.nan
    stored = [json.loads(line) for line in answers.to_lines().splitlines()]
    assert [one["text_hash"] for one in stored] == list(map(text_hash, answers.texts))
    assert np.exp(stored[1]["scores"]["judge"]).sum() == pytest.approx(1, abs=1e-5)
    assert stored[0]["scores"]["judge"] == [None, None]
    found = decide(QUESTIONS, answers)
    (card,) = found.cards
    assert (card.decision, card.source, card.outcome, card.asked) == ("remove_reliance", "machine", None, 0)
    assert not card.by_person
    assert found.judges[0].qualifications[0].qualified
    assert found.judges[0].texts == len(answers.texts)
    assert decide(QUESTIONS, replace(answers, earlier=Decisions((), answers="old.jsonl"))).answers is None
    not_sure = Answer("anna", "t", decision="unsure", card="book")
    (beside,) = decide(QUESTIONS, replace(answers, said=(not_sure,))).cards
    assert (beside.decision, beside.source) == ("remove_reliance", "machine")
    assert [(one.by, one.decision) for one in beside.reviews] == [("anna", "unsure")]

    def over(**changes) -> Decision:
        earlier = Decisions((replace(card, second_model=None, **changes),))
        return decide(QUESTIONS, replace(answers, earlier=earlier)).cards[0]

    overruled = over(decision="keep", source="person")
    assert (overruled.decision, overruled.source, overruled.second_model) == ("keep", "person", card.second_model)
    beside = over(decision=None, source="answers", asked=3)
    assert (beside.decision, beside.source, beside.asked) == ("remove_reliance", "machine", 3)
    legitimate = over(decision="keep", source="answers", asked=9, broken=9, outcome="legitimate")
    assert (legitimate.decision, legitimate.source) == ("keep", "answers")
    unsure = over(decision="unsure", source="person")
    assert (unsure.decision, unsure.source) == ("remove_reliance", "machine")


def test_neither_the_deployed_model_nor_its_base_nor_one_of_other_labels_is_a_judge_and_two_are_two():
    wide = Judging()
    wide.predict_proba = lambda texts, **_: np.ones((len(texts), 3)) / 3
    with pytest.raises(ConfigError, match=r"gives an array of shape \(520, 3\), but \(520, 2\) is needed"):
        QUESTIONS.answered_by(wide)
    for same in ("deployed", "base"):
        with pytest.raises(ConfigError, match="is the audited model or its original"):
            QUESTIONS.answered_by([Judging(), Judging(print=same, name="second")])
    with pytest.raises(ConfigError, match="are the same"):
        QUESTIONS.answered_by([Judging()] * 2)


def test_a_judge_that_changes_more_than_two_of_twenty_answers_is_refused():
    for changes, refused in ((2, False), (3, True)):
        answers = QUESTIONS.answered_by(Judging(changes=changes))
        assert ("3 of 20 texts when it is asked twice" in answers.judges["judge"].refused) == refused
        assert (decide(QUESTIONS, answers).cards[0].decision is None) == refused
