"""Classifiers judge cards: qualified ones, that are centred, against a bound; and what follows with people."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from shortcut_guardrail import Answers, ConfigError, Questions, decide
from shortcut_guardrail.cards import Card, Flip
from shortcut_guardrail.cards.card import CardEvidence
from shortcut_guardrail.decisions import Answer, AuditedCards, Decision, Decisions
from shortcut_guardrail.decisions.answers import JudgeAnswers
from shortcut_guardrail.decisions.drawing import REFERENCE, Drawing, Key, ReferenceText
from shortcut_guardrail.decisions.judges import decides, is_ordered, sides_of

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


def with_labels(*labels: str) -> Questions:
    """The same questions, with other names of the classes and more of them."""
    names = dict(zip(LABELS, labels, strict=False))
    flips = [replace(one, before=names[one.before], after=names[one.after]) for one in FLIPS]
    reference = tuple(replace(one, answer=names[one.answer], other=names[one.other]) for one in FREE)
    return replace(QUESTIONS, audited=replace(AUDITED, labels=labels), flips={"book": flips}, reference=reference)


def scores(questions: Questions, says, *, lean: float = 0.0, refused: str = "") -> JudgeAnswers:
    """Of a judge that says of each text how far ahead "positive" is."""
    ahead = np.array([says(text) + lean for text in questions.for_judges.texts], dtype=float)
    return JudgeAnswers(np.stack([np.zeros(len(ahead)), ahead], axis=1), refused=refused)


def noisy(accuracy: float, mended: float, *, seed: int = 0):
    """A judge that is right so often on texts without the words, and calls so large a share of flips mended."""
    rng = np.random.default_rng(seed)
    votes: dict[str, float] = {}

    def says(text: str) -> float:
        if text.startswith("free"):
            right = 1.0 if text.split()[1] == "1" else -1.0
            return right * (1 if rng.random() < accuracy else -1) * rng.uniform(0.5, 1.5)
        vote = -1.0 if rng.random() < mended else 1.0
        return votes.setdefault(text.removeprefix("book "), vote * rng.uniform(0.5, 1.5))

    return says


def fixed(says, questions: Questions = QUESTIONS):
    """The same votes whenever it is asked."""
    votes = {text: says(text) for text in questions.for_judges.texts}
    return lambda text: votes[text]


def decided(judges, questions: Questions = QUESTIONS, *, said=(), **options) -> Decisions:
    given = Answers(tuple(said), judges, questions.for_judges.texts)
    return decide(questions, given, **options)


def judged(says, questions: Questions = QUESTIONS, **options):
    found = decided({"judge": scores(questions, says)}, questions, **options)
    return found.cards[0].second_opinion, found.judges[0].qualifications[0]


def test_a_qualified_judge_decides_a_shortcut():
    found, qualification = judged(noisy(0.8, 0.95))
    assert qualification.qualified
    assert qualification.agreement == pytest.approx(0.8, abs=0.06)
    assert (found.outcome, found.judges, found.rule, found.reason) == ("shortcut", ("judge",), "agreement", "")
    assert found.mended + found.broken == 60
    assert found.p_value < 0.05 < 0.5 < found.bound < 0.65
    assert set(found.rules) == {"agreement", "reference"}
    # The reference rule allows as many as the judge calls right of the model's own predictions.
    assert found.rules["reference"]["bound"] == pytest.approx(qualification.agreement, abs=0.03)


@pytest.mark.parametrize(("agrees", "qualified"), [(116, False), (117, False), (119, True), (122, True)])
def test_a_judge_is_qualified_with_confidence(agrees, qualified):
    """Agreement on 117 of 200 texts of either side is above .55, and not with 95 % confidence; on 119 it is.

    The standard error is .0246, and 1.645 of it is .0405: .595 - .0405 is above .55, and .585 - .0405 is below.
    """
    positive = {one.text for one in FREE if (one.answer == "positive") == (one.row < agrees)}
    found = judged(lambda text: 1.0 if text in positive else -1.0)[1]
    assert found.agreement == agrees / N
    assert found.error == pytest.approx(0.0246, abs=0.0002)
    assert found.qualified is qualified


def test_what_is_at_stake_is_a_share_of_the_audited_texts():
    says = fixed(noisy(0.8, 0.95))
    stakes = [judged(says, replace(QUESTIONS, audited=replace(AUDITED, n=n)))[0].at_stake for n in (0, 300, 600)]
    assert stakes[0] is None, "nobody knows how many texts there are"
    (low, high), half = stakes[1], stakes[2]
    assert 0.5 * 60 / 300 < low < high <= 60 / 300
    assert half == pytest.approx((low / 2, high / 2))


@pytest.mark.parametrize(
    ("mended", "sentence"),
    [(0.6, "is not clearly more than the 0.5"), (0.05, "A machine cannot call that genuine")],
)
def test_a_machine_never_says_genuine(mended, sentence):
    found, _ = judged(noisy(0.8, mended))
    assert found.outcome == "open"
    assert sentence in found.reason


def near_and_drawn() -> Questions:
    """Every other reference text is near the boundary, and the others are drawn at random."""
    return replace(QUESTIONS, reference=tuple(replace(o, near=o.row % 2 == 0, drawn=o.row % 2 == 1) for o in FREE))


def test_a_lean_of_the_judge_is_centred_away_but_for_one_near_the_boundary():
    says = fixed(noisy(0.8, 0.5))
    assert judged(says) == judged(lambda text: says(text) + 7.0)
    split = near_and_drawn()
    leaning = {one.text for one in split.reference if one.near and one.row % 4 == 0}
    found, plain = (judged(one, split)[0] for one in (lambda t: -1.0 if t in leaning else says(t), says))
    assert found.bound > plain.bound + 0.05


def test_texts_near_the_boundary_bound_and_texts_drawn_at_random_qualify():
    """Where a judge is right on the one kind of texts and a coin on the other."""
    split, rng = near_and_drawn(), np.random.default_rng(0)
    right, coin = fixed(noisy(1.0, 1.0)), {text: rng.choice([-1.0, 1.0]) for text in split.for_judges.texts}
    near = {one.text for one in split.reference if one.near}
    _, unqualified = judged(lambda t: right(t) if t in near or "flip" in t else coin[t], split)
    assert not unqualified.qualified
    found, qualification = judged(lambda t: coin[t] if t in near else right(t), split)
    assert qualification.agreement == 1.0
    assert qualification.texts == N
    assert found.rules["reference"]["bound"] < 0.65, "the judge gives the masked class to half of the near texts"


def test_texts_that_hold_the_cards_own_words_bound_nothing():
    split, says = near_and_drawn(), fixed(noisy(0.8, 0.95))
    # Half of the texts near the boundary hold the word after all, and there the judge gives the masked class.
    held = {one.text for one in split.reference if one.row % 4 == 0}

    def bound(holds: tuple[str, ...]) -> float:
        reference = tuple(replace(one, holds=holds if one.text in held else ()) for one in split.reference)
        return judged(lambda text: -1.0 if text in held else says(text), replace(split, reference=reference))[0].bound

    without = replace(split, reference=tuple(one for one in split.reference if one.text not in held))
    assert bound(("book",)) == judged(says, without)[0].bound
    assert bound(("film",)) > bound(("book",)) + 0.1


def test_a_flip_is_mended_only_if_the_prediction_stays_without_the_words():
    full = noisy(0.9, 1.0)
    found, _ = judged(lambda text: 1.0 if text.startswith("flip") else full(text))
    assert (found.mended, found.broken) == (0, 60)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (noisy(0.5, 0.9), "It agrees with the model on 0."),
        (lambda text: 0.3, "It gives the same answer to every text."),
        (lambda text: np.nan, "It answered nothing."),
        (lambda text: np.nan if sum(map(ord, text)) % 10 else 1.0, "It answered"),
    ],
)
def test_an_unqualified_judge_decides_nothing_and_the_sentence_says_why(says, reason):
    found, qualification = judged(says)
    assert not qualification.qualified
    assert reason in qualification.reason
    assert (found.outcome, found.judges, found.reason) == ("open", (), "No judge is qualified.")


def test_a_judge_that_drops_flips_leaves_the_card_open():
    full = fixed(noisy(0.9, 1.0))
    found, _ = judged(lambda text: np.nan if "flip" in text and text[-1] in "01234" else full(text))
    assert found.unanswered == 30
    assert "No qualified judge answered 30 of its 60 flips." in found.reason
    assert judged(full)[0].outcome == "shortcut"


def test_few_texts_without_the_words_decide_nothing():
    sparse = replace(QUESTIONS, reference=tuple(one for one in FREE if one.answer == "positive" or one.row < 20))
    found, qualification = judged(noisy(0.9, 1.0), sparse)
    assert "It answered 20 texts without the words on one side" in qualification.reason
    assert found.outcome == "open"


def test_qualified_judges_are_averaged_and_others_left_out():
    given = {
        "one": scores(QUESTIONS, noisy(0.75, 0.8, seed=1)),
        "two": scores(QUESTIONS, noisy(0.75, 0.8, seed=2), lean=40.0),
        "coin": scores(QUESTIONS, noisy(0.5, 0.0, seed=3)),
    }
    found = decided(given)
    assert found.cards[0].second_opinion.judges == ("one", "two")
    assert [judge.qualifications[0].qualified for judge in found.judges] == [True, True, False]
    # The unit of a judge's scores makes no difference.
    louder = {**given, "two": JudgeAnswers(3 * given["two"].log_probs)}
    assert decided(louder).cards[0].second_opinion == found.cards[0].second_opinion
    refused = {**given, "one": replace(given["one"], refused="no")}
    assert decided(refused).cards[0].second_opinion.judges == ("two",)


def test_an_answer_that_is_missing_in_part_is_none():
    full = scores(QUESTIONS, fixed(noisy(0.9, 1.0)))
    texts = QUESTIONS.for_judges.texts
    holed = full.log_probs.copy()
    holed[[i for i, text in enumerate(texts) if "flip" in text and text[-1] in "01234"], 0] = np.nan
    found = decided({"judge": JudgeAnswers(holed)}).cards[0].second_opinion
    assert (found.unanswered, found.outcome) == (30, "open")
    # Of several judges those that answered are averaged: a silent one takes nothing from the other's say.
    both = decided({"one": full, "two": JudgeAnswers(holed)}).cards[0].second_opinion
    assert (both.mended, both.unanswered) == (60, 0)


def answers_of_a_person(right: dict[str, bool], some: list[ReferenceText]) -> tuple[tuple[Key, ...], list[Answer]]:
    """A person's answers to reference texts, whether the model is right there."""
    of = Flip.of
    keys = [Key(f"r{i}", REFERENCE, "a", of(0, "", "", one.text).text_hash, i) for i, one in enumerate(some)]
    said = [Answer("anna", "", "a" if right[one.text] else "b", question=f"r{i}") for i, one in enumerate(some)]
    return tuple(keys), said


def test_answers_on_reference_texts_lower_the_bound():
    # The model is right on three of four texts that it calls negative near the boundary; the judge nearly always.
    right = {one.text: one.row % 4 != 0 for one in FREE}
    full = noisy(1.0, 0.8)

    def says(text: str) -> float:
        if not text.startswith("free"):
            return full(text)
        return (1.0 if text.split()[1] == "1" else -1.0) * (1 if right[text] else -1)

    says, some = fixed(says), [one for one in FREE if one.row < 40]
    keys, said = answers_of_a_person(right, some)
    found, _ = judged(says, replace(QUESTIONS, keys=keys), said=said)
    assert found.rule == "answers"
    assert found.bound < found.rules["reference"]["bound"] - 0.1
    assert judged(says, replace(QUESTIONS, keys=keys[:10]), said=said[:10])[0].rule == "agreement"


def test_five_answers_to_its_own_flips_settle_a_card_that_is_nearly_decided():
    plain = fixed(noisy(0.8, 1.0))

    def says(text: str) -> float:
        return plain(text) if text.startswith("free") else -1.0 if int(text.split()[-1]) < 39 else 1.0

    keys = Drawing("audit", LABELS).of_flips({"book": FLIPS})[1][:5]
    asked = replace(QUESTIONS, keys=tuple(keys))
    opinion, _ = judged(says)
    assert 0.05 < opinion.q_value <= 0.15
    other = {"a": "b", "b": "a"}
    outcomes = []
    for mended in (3, 4):
        right = [key.masked_option if i < mended else other[key.masked_option] for i, key in enumerate(keys)]
        said = [Answer("anna", "", one, question=key.id) for key, one in zip(keys, right, strict=True)]
        outcomes.append(judged(says, asked, said=said)[0].outcome)
    assert outcomes == ["open", "shortcut"]


@pytest.mark.parametrize(
    ("q_value", "five", "taken"),
    [(0.05, None, True), (0.051, None, False), (0.025, 0, True), (0.026, 3, False), (0.15, 4, True), (0.151, 5, False)],
)
def test_five_answers_cost_half_of_the_level_and_lend_three_times_as_much(q_value, five, taken):
    assert decides(q_value, five) is taken


def three(text: str) -> list[float]:
    if text.startswith("free"):
        return [0.0, 4.0, -9.0] if text.split()[1] == "1" else [4.0, 0.0, -9.0]
    return [1.0, 0.0, 5.0 if int(text.split()[-1]) % 2 else -9.0] if "book" in text else [1.0, 0.0, -9.0]


def of_three(*labels: str):
    questions = with_labels(*labels)
    given = {"judge": JudgeAnswers(np.array([three(text) for text in questions.for_judges.texts]))}
    found = decided(given, questions)
    return found.cards[0].second_opinion, found.judges[0].qualifications[0]


def test_with_three_classes_the_two_predictions_are_scored_and_answers_elsewhere_leave_it_open():
    found, qualification = of_three("negative", "positive", "neutral")
    assert qualification.pair == ("negative", "positive")
    assert found.mended == 60
    assert "To 30 of its 60 flips the judges answer another class" in found.reason


def test_of_classes_in_an_order_each_speaks_for_the_nearer_one():
    found, _ = of_three("1 star", "2 stars", "3 stars")
    # The masked prediction is 1 star. To half of the flips the judge says 3 stars, which is nearer to 2.
    assert found.mended == 30
    assert "another class" not in found.reason


@pytest.mark.parametrize(
    ("pair", "expected"), [((1, 2), ([0, 1], [2, 3, 4])), ((1, 3), ([0, 1], [3, 4])), ((0, 4), ([0, 1], [3, 4]))]
)
def test_a_class_as_near_to_both_speaks_for_neither(pair, expected):
    assert sides_of(pair, 5, ordered=True) == expected
    assert sides_of(pair, 5, ordered=False) == ([pair[0]], [pair[1]])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("1 star", "2 stars", "3 stars"), True),
        (("1-star", "3-star", "5-star"), True),
        (("3 stars", "2 stars", "1 star"), False),
        (("1 star", "2 stars"), False),
        (("1 star", "2 stars", "many"), False),
        (("0", "1", "2"), False),
        (("LABEL_0", "LABEL_1", "LABEL_2"), False),
    ],
)
def test_an_order_is_seen_in_the_labels(labels, expected):
    assert is_ordered(labels) is expected


# Asking


@dataclass
class Judging:
    """A classifier."""

    says: object
    name: str = "judge"
    print: str = "other"
    label_names: tuple[str, ...] = LABELS
    asked: int = 0

    def fingerprint(self) -> str:
        return self.print

    def predict_proba(self, texts, *, progress=None, again=False):
        self.asked += len(texts)
        ahead = np.array([self.says(text) for text in texts])
        return np.stack([1 / (1 + np.exp(ahead)), 1 / (1 + np.exp(-ahead))], axis=1)

    def record(self):
        return {"kind": "test", "fingerprint": self.print}


def test_what_was_answered_becomes_decisions_that_people_overrule():
    judge = Judging(fixed(noisy(0.8, 0.95)))
    answers = QUESTIONS.answered_by(judge)
    assert judge.asked == len(answers.texts) + 20  # some twice, to see whether it changes its answer
    assert len(answers.to_lines().splitlines()) == len(answers.texts)
    found = decide(QUESTIONS, answers)
    (card,) = found.cards
    assert (card.decision, card.source, card.outcome, card.asked) == ("neutralise", "machine", None, 0)
    assert not card.by_person
    assert found.judges[0].qualifications[0].qualified
    assert found.judges[0].texts == len(answers.texts)

    def over(**changes) -> Decision:
        earlier = Decisions((replace(card, second_opinion=None, **changes),))
        return decide(QUESTIONS, replace(answers, earlier=earlier)).cards[0]

    overruled = over(decision="keep", source="person")
    assert (overruled.decision, overruled.source) == ("keep", "person")
    assert overruled.second_opinion == card.second_opinion
    beside = over(decision=None, source="flips", asked=3)
    assert (beside.decision, beside.source, beside.asked) == ("neutralise", "machine", 3)
    genuine = over(decision="keep", source="flips", asked=9, broken=9, outcome="genuine")
    assert (genuine.decision, genuine.source) == ("keep", "flips")
    unsure = over(decision="unsure", source="person")
    assert (unsure.decision, unsure.source) == ("neutralise", "machine")


@pytest.mark.parametrize("print_", ["deployed", "base"])
def test_neither_the_deployed_model_nor_its_base_is_a_judge(print_):
    with pytest.raises(ConfigError, match="is the model that was audited, or its base"):
        QUESTIONS.answered_by(Judging(noisy(0.8, 0.9), print=print_))
    assert QUESTIONS.answered_by(Judging(noisy(0.8, 0.9))).judges


def test_two_judges_are_two():
    with pytest.raises(ConfigError, match="are the same"):
        QUESTIONS.answered_by([Judging(noisy(0.8, 0.9))] * 2)


def test_a_judge_that_changes_its_answer_is_refused():
    rng = np.random.default_rng(0)
    answers = QUESTIONS.answered_by(Judging(lambda text: rng.normal()))
    assert "when it is asked twice" in answers.judges["judge"].refused
    assert decide(QUESTIONS, answers).cards[0].decision is None


def test_a_judge_with_other_labels_is_refused():
    wide = Judging(noisy(0.8, 0.9))
    wide.predict_proba = lambda texts, **_: np.ones((len(texts), 3)) / 3
    with pytest.raises(ConfigError, match=r"gives an array of shape \(520, 3\), but \(520, 2\) is needed"):
        QUESTIONS.answered_by(wide)
