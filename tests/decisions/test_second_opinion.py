"""Second models judge cards: fit ones, that are centred, against a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from shortcut_guardrail import ConfigError
from shortcut_guardrail.classifiers.probabilities import log_softmax
from shortcut_guardrail.decisions import AuditedCard, AuditedCards, Sheet, ask, consultation_of, cut_sheet
from shortcut_guardrail.decisions.ordered import is_ordered, sides_of
from shortcut_guardrail.decisions.second_opinion import judge_sheet
from shortcut_guardrail.decisions.sheet import AskedFlip, WordFree

LABELS = ("negative", "positive")
N = 200


def free(i: int, answer: int, **changes) -> WordFree:
    return replace(WordFree(f"free {answer} {i}", answer, 1 - answer, 0.1 * i, True, True), **changes)


def flip(i: int, card: str = "book", before: int = 1) -> AskedFlip:
    return AskedFlip(f"{card}-{i}", card, f"{card} flip {i}", f"flip {i} of {card}", before, 1 - before, 0.5)


SHEET = Sheet(
    "audit",
    LABELS,
    ("deployed",),
    tuple(flip(i) for i in range(60)),
    tuple(free(i, answer) for answer in (0, 1) for i in range(N)),
)


def opinions(sheet: Sheet, says, *, lean: float = 0.0) -> np.ndarray:
    """Log-probabilities of a judge that says of each text how far ahead "positive" is."""
    ahead = np.array([says(text) + lean for text in sheet.texts], dtype=float)
    return np.stack([np.zeros(len(ahead)), ahead], axis=1)


def noisy(accuracy: float, mended: float, *, seed: int = 0):
    """A judge that is right so often on texts without the words, and calls so large a share of flips mended."""
    rng = np.random.default_rng(seed)
    votes: dict[str, float] = {}

    def says(text: str) -> float:
        if text.startswith("free"):
            right = 1.0 if text.split()[1] == "1" else -1.0
            return right * (1 if rng.random() < accuracy else -1) * rng.uniform(0.5, 1.5)
        key = text.replace("flip", "").replace("of", "").split()
        vote = -1.0 if rng.random() < mended else 1.0
        return votes.setdefault(" ".join(sorted(key)), vote * rng.uniform(0.5, 1.5))

    return says


def judged(says, sheet: Sheet = SHEET, **options):
    found, fitness = judge_sheet(sheet, {"judge": opinions(sheet, says)}, **options)
    return found["book"], fitness["judge"][0]


def test_a_fit_judge_decides_a_shortcut():
    found, fit = judged(noisy(0.8, 0.95))
    assert fit.fit
    assert fit.agreement == pytest.approx(0.8, abs=0.06)
    assert (found.outcome, found.judges, found.rule, found.reason) == ("shortcut", ("judge",), "agreement", "")
    assert found.mended + found.broken == 60
    assert found.p_value < 0.05 < 0.5 < found.bound < 0.65
    assert set(found.rules) == {"agreement", "reference"}
    # The reference rule allows as many as the judge calls right of the model's own answers.
    assert found.rules["reference"]["bound"] == pytest.approx(fit.agreement, abs=0.03)


def test_what_is_at_stake_is_a_share_of_the_audited_texts():
    says = noisy(0.8, 0.95)
    votes = {text: says(text) for text in SHEET.texts}
    stakes = [
        consultation_of(CARDS, ask(replace(SHEET, n=n), [Judging(two(votes.get))])).decisions.cards[0].second_opinion
        for n in (0, 300, 600)
    ]
    assert stakes[0].at_stake is None, "nobody wrote down how many texts there are"
    (low, high), half = stakes[1].at_stake, stakes[2].at_stake
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


def test_a_lean_of_the_judge_is_centred_away():
    says = noisy(0.8, 0.5)
    votes = {text: says(text) for text in SHEET.texts}
    assert judged(votes.get) == judged(lambda text: votes[text] + 7.0)
    # A lean near the boundary alone is not, and raises the bound.
    near = replace(
        SHEET, free=tuple(replace(one, near=i % 2 == 0, drawn=i % 2 == 1) for i, one in enumerate(SHEET.free))
    )
    lean = {one.text: -1.0 for one in near.free if one.near and int(one.text.split()[2]) % 4 == 0}
    leaning = {text: lean.get(text, vote) for text, vote in votes.items()}
    assert judged(leaning.get, near)[0].bound > judged(votes.get, near)[0].bound + 0.05


def test_a_flip_is_mended_only_if_the_answer_stays_without_the_words():
    full = noisy(0.9, 1.0)

    def says(text: str) -> float:
        return 1.0 if "flip" in text and not text.startswith("book") else full(text)

    found, _ = judged(says)
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
def test_an_unfit_judge_decides_nothing_and_the_sentence_says_why(says, reason):
    found, fit = judged(says)
    assert not fit.fit
    assert reason in fit.reason
    assert (found.outcome, found.judges, found.reason) == ("open", (), "No second opinion is fit to judge.")


def test_a_judge_that_drops_flips_leaves_the_card_open():
    full = noisy(0.9, 1.0)

    def says(text: str) -> float:
        return np.nan if "flip" in text and text.split()[-1][-1] in "01234" else full(text)

    half = replace(SHEET, flips=tuple(replace(one, without=one.text) for one in SHEET.flips))
    found, _ = judged(says, half)
    assert found.unanswered == 30
    assert "No fit judge answered 30 of its 60 flips." in found.reason
    whole, _ = judged(full, half)
    assert whole.outcome == "shortcut"


def test_few_flips_and_few_texts_decide_nothing():
    few = replace(SHEET, flips=SHEET.flips[:7])
    assert "fewer than 8" in judged(noisy(0.9, 1.0), few)[0].reason
    assert cut_sheet(few).flips == ()
    sparse = replace(SHEET, free=tuple(one for one in SHEET.free if one.answer or int(one.text.split()[2]) < 20))
    found, fit = judged(noisy(0.9, 1.0), sparse)
    assert "It answered 20 texts without the words on one side" in fit.reason
    assert found.outcome == "open"


def test_fit_judges_are_averaged_and_unfit_ones_left_out():
    scores = {
        "one": opinions(SHEET, noisy(0.75, 0.8, seed=1)),
        "two": opinions(SHEET, noisy(0.75, 0.8, seed=2), lean=40.0),
        "coin": opinions(SHEET, noisy(0.5, 0.0, seed=3)),
    }
    together, fitness = judge_sheet(SHEET, scores)
    assert together["book"].judges == ("one", "two")
    assert [fitness[name][0].fit for name in scores] == [True, True, False]
    # The unit of a judge's scores makes no difference.
    louder = judge_sheet(SHEET, scores | {"two": 3 * scores["two"]})[0]
    assert louder["book"] == together["book"]
    assert judge_sheet(SHEET, scores, refused={"one": "no"})[0]["book"].judges == ("two",)


def test_answers_on_word_free_texts_lower_the_bound():
    # The model is right on three of four texts that it calls negative near the boundary; the judge nearly always.
    right = {one.text: int(one.text.split()[2]) % 4 != 0 for one in SHEET.free}
    full = noisy(1.0, 0.8)

    def says(text: str) -> float:
        if text.startswith("free"):
            model = 1.0 if text.split()[1] == "1" else -1.0
            return model if right[text] else -model
        return full(text)

    votes = {text: says(text) for text in SHEET.texts}
    some = {one.text: right[one.text] for one in SHEET.free if int(one.text.split()[2]) < 40}
    found, _ = judged(votes.get, answers=some)
    assert found.rule == "answers"
    assert found.bound < found.rules["reference"]["bound"] - 0.1
    assert judged(votes.get, answers=dict(list(some.items())[:10]))[0].rule == "agreement"


def three(text: str) -> list[float]:
    if text.startswith("free"):
        return [0.0, 4.0, -9.0] if text.split()[1] == "1" else [4.0, 0.0, -9.0]
    return [1.0, 0.0, 5.0 if int(text.split()[-1]) % 2 else -9.0] if "book" in text.split()[0] else [1.0, 0.0, -9.0]


def test_with_three_classes_the_two_answers_are_scored_and_answers_elsewhere_leave_it_open():
    sheet = replace(SHEET, labels=(*LABELS, "neutral"))
    found, fitness = judge_sheet(sheet, {"judge": np.array([three(text) for text in sheet.texts])})
    assert fitness["judge"][0].pair == ("negative", "positive")
    assert found["book"].mended == 60
    assert "To 30 of its 60 flips the judges answer another class" in found["book"].reason


def test_of_classes_in_an_order_each_speaks_for_the_nearer_answer():
    sheet = replace(SHEET, labels=("1 star", "2 stars", "3 stars"))
    found, _ = judge_sheet(sheet, {"judge": np.array([three(text) for text in sheet.texts])})
    # The masked answer is 1 star. To half of the flips the judge says 3 stars, which is nearer to 2.
    assert found["book"].mended == 30
    assert "another class" not in found["book"].reason


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


@dataclass
class Judging:
    """A classifier that says log-probabilities up to a constant."""

    says: object
    name: str = "judge"
    weights: str = "other"
    asked: int = 0

    def fingerprint(self):
        return self.weights

    def predict_proba(self, texts, *, progress=None, again=False):
        self.asked += len(texts)
        return np.exp(log_softmax(np.array([self.says(text) for text in texts])))

    def record(self):
        return {"kind": "test", "fingerprint": self.weights}


def two(says):
    return lambda text: [0.0, says(text)]


CARDS = AuditedCards("audit", "deployed", "data", (AuditedCard("book", ("book",), "positive", 90, 60, (), False),))


def test_what_was_answered_becomes_decisions_that_people_overrule():
    says = noisy(0.8, 0.95)
    votes = {text: says(text) for text in SHEET.texts}
    source = Judging(two(votes.get))
    asked = ask(SHEET, [source])
    assert source.asked == len(SHEET.texts) + 20  # some twice, to see whether it changes its answer
    found = consultation_of(CARDS, asked).decisions
    (card,) = found.cards
    assert (card.decision, card.source, card.outcome, card.asked) == ("neutralise", "machine", None, 0)
    assert not card.by_person
    assert found.judges[0].fit
    assert found.judges[0].texts == len(SHEET.texts)
    people = replace(found, cards=(replace(card, decision="keep", source="person", second_opinion=None),))
    (overruled,) = consultation_of(CARDS, asked, people=people).decisions.cards
    assert (overruled.decision, overruled.source) == ("keep", "person")
    assert overruled.second_opinion == card.second_opinion
    unsure = replace(people, cards=(replace(people.cards[0], decision=None, source="flips", asked=3),))
    (beside,) = consultation_of(CARDS, asked, people=unsure).decisions.cards
    assert (beside.decision, beside.source, beside.asked) == ("neutralise", "machine", 3)
    assert len(asked.to_lines().splitlines()) == len(SHEET.texts)


def test_the_deployed_model_is_no_second_opinion():
    with pytest.raises(ConfigError, match="is the model that was audited, or its base"):
        ask(SHEET, [Judging(two(noisy(0.8, 0.9)), weights="deployed")])
    with pytest.raises(ConfigError, match="have the same name"):
        ask(SHEET, [Judging(two(noisy(0.8, 0.9)))] * 2)


def test_a_judge_that_changes_its_answer_is_refused():
    rng = np.random.default_rng(0)
    fickle = Judging(two(lambda text: rng.normal()))
    asked = ask(SHEET, [fickle])
    assert "when it is asked twice" in asked.refused["judge"]
    (card,) = consultation_of(CARDS, asked).decisions.cards
    assert card.decision is None


def test_a_judge_with_other_labels_is_refused():
    with pytest.raises(ConfigError, match=r"gives an array of shape \(520, 3\), but \(520, 2\) is needed"):
        ask(SHEET, [Judging(lambda text: [0.0, 1.0, 2.0])])
