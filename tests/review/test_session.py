"""What is asked next, what follows from answers, undo, resume, several people, and a file that others change."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from audits import to_review
from shortcut_guardrail import Answers, ConfigError, DataError, Decisions
from shortcut_guardrail.data import to_json
from shortcut_guardrail.decisions import Answer, Decision
from shortcut_guardrail.decisions.record import Review, SecondModelResult
from shortcut_guardrail.review.session import BY_FILE, Session, StaleError, _beyond_people, _said_by_file, locked
from shortcut_guardrail.review.shown import make_deck

DECK = make_deck(to_review(3).to_dict())
W0, W1, W2 = (card.id for card in DECK.cards)


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "decisions.json"


def session(file, by="anna", **how) -> Session:
    return Session(DECK, file, by, **how)


def say(review: Session, *decisions: str) -> Session:
    for card, decision in zip(review.deck.cards, decisions, strict=False):
        review.save({"card": card.id, "decision": decision}, review.revision)
    return review


def answer_texts(review: Session, right: str, most: int = 1000) -> list[str]:
    """Answer what is asked with one class, and give the texts."""
    seen = []
    while (question := review.state()["question"]) and len(seen) < most:
        answer = {question["a"]: "a", question["b"]: "b"}.get(right, right)
        review.save({"question": question["id"], "answer": answer}, review.revision)
        seen.append(question["sides"][0])
    return seen


def cards_in(file: Path) -> dict[str, dict]:
    return {card["words"][0]: card for card in json.loads(file.read_text())["cards"]}


def said_of(word: str, file: Path) -> list[tuple[str, str]]:
    return [(one["by"], one["decision"]) for one in cards_in(file)[word]["reviews"]]


def test_an_answer_is_in_the_file_when_it_is_confirmed(file):
    review = session(file)
    assert not file.exists()
    say(review, "remove_reliance", "keep")
    (one, two) = Decisions.from_file(file).cards
    assert (one.decision, one.source, one.words) == ("remove_reliance", "person", ("w0", "w0s"))
    assert [(r.by, r.decision) for r in one.reviews] == [("anna", "remove_reliance")]
    assert (two.decision, Decisions.from_file(file).audit) == ("keep", DECK.audited.id)
    assert review.state()["end"] is None
    say(review, "remove_reliance", "keep", "keep")
    end = review.state()["end"]
    assert [row["decision"] for row in end["cards"]] == ["remove_reliance", "keep", "keep"]
    assert (end["both"], end["agree"]) == (0, 0), "of one person"


def test_texts_are_asked_about_until_they_decide(file):
    review = say(session(file), "unsure", "keep", "unsure")
    assert review.state()["progress"] == {"answered": 0, "open": 2, "least": 16, "most": 34, "lost": 0}
    seen = answer_texts(review, "negative")  # the answer with the words masked
    assert len(seen) == 16
    assert {text.split("w")[1][0] for text in seen[:4]} == {"0", "2"}  # the cards are mixed
    cards = cards_in(file)
    assert [cards["w0"][key] for key in ("outcome", "decision", "source")] == ["shortcut", "remove_reliance", "answers"]
    assert (cards["w0"]["fixed"], cards["w0"]["asked"], len(cards["w0"]["text_hashes"])) == (8, 8, 8)
    assert (cards["w1"]["decision"], "outcome" not in cards["w1"]) == ("keep", True)
    assert review.state()["follows"][W0]["how"] == "reliance removed (texts: shortcut, 8 fixed, 0 broken of 8)"


def test_what_is_asked_does_not_tell_the_card_and_was_not_shown(file):
    review = say(session(file), "unsure", "unsure", "unsure")
    question, asked = review.state()["question"], review.questions.asked
    assert (set(question), {question["a"], question["b"]}) == ({"id", "sides", "a", "b"}, {"positive", "negative"})
    assert {question.option_a for question in asked} == {"positive", "negative"}  # in random order
    shown = {"".join(p for p, _ in e["excerpt"][0]) for card in DECK.shown.values() for e in card["examples"]}
    assert len({question.text for question in asked} - shown) == len(asked) == 51


def test_undo_takes_back_cards_and_texts_also_after_a_restart(file):
    review = session(file)
    say(review, "keep", "unsure", "keep")
    say(review, "remove_reliance")
    answer_texts(review, "negative", most=2)
    question = review.state()["question"]
    again = session(file)
    assert again.state() == review.state()
    again.undo(again.revision)
    assert again.state()["progress"]["answered"] == 1
    assert again.state()["question"] != question
    for _ in range(2):
        again.undo(again.revision)
    assert again.state()["said"][W0] == "keep"  # what was said before
    for taken_back in range(4):
        assert again.state()["can_undo"] == (taken_back < 3)
        again.undo(again.revision)
    assert (again.state()["said"], json.loads(file.read_text())["cards"]) == ({}, [])


def test_what_is_no_answer_is_refused(file):
    cards = {}, {"card": W0}, {"card": W0, "decision": "kept"}, {"card": "z", "decision": "keep"}
    questions = {"question": W0, "answer": "a"}, {"question": "z", "answer": "c"}, {"card": [], "decision": "keep"}
    for values in (*cards, *questions):
        with pytest.raises(DataError, match="What was sent"):
            session(file).save(values, 0)
    assert not file.exists()


def test_several_people_and_their_agreement(file):
    say(session(file, "anna"), "remove_reliance", "keep", "unsure")
    ben = session(file, "ben")
    assert (ben.state()["said"], ben.state()["can_undo"]) == ({}, False)  # blind
    say(ben, "remove_reliance", "remove_reliance", "keep")
    end = ben.state()["end"]
    # On the third card one is not sure: the other's answer decides.
    assert (end["both"], end["agree"], end["differ"]) == (3, 1, 1)
    assert end["cards"][1]["people"] == {"anna": "keep", "ben": "remove_reliance"}
    assert [row["decision"] for row in end["cards"]] == ["remove_reliance", "unsure", "keep"]
    assert said_of("w1", file) == [("anna", "keep"), ("ben", "remove_reliance")]
    ben.undo(ben.revision)
    assert said_of("w2", file) == [("anna", "unsure")]
    anna = session(file, "anna")
    anna.undo(anna.revision)
    assert "w2" not in cards_in(file)
    assert said_of("w1", file) == [("anna", "keep"), ("ben", "remove_reliance")]


def test_decisions_by_hand_are_taken_up(file):
    by_hand = {"words": ["W0s", "w0"], "decision": "remove_reliance"}, {"words": ["zebra"], "decision": "keep"}
    file.write_text(json.dumps({"cards": by_hand}))
    review = session(file)
    assert (review.answers.said[0].by, review.state()["notice"]) == (BY_FILE, ""), "nobody changed it meanwhile"
    say(review, "remove_reliance", "keep", "keep")
    cards = cards_in(file)
    assert ([r["by"] for r in cards["w0"]["reviews"]], cards["zebra"]["decision"]) == ([BY_FILE, "anna"], "keep")


def judged(**how) -> dict:
    card = {"id": W0, "words": ["w0", "w0s"], "pushes_towards": "positive", "source": "answers", "outcome": "open"}
    counts = {"asked": 9, "fixed": 7, "broken": 2, "e_value": 4.3, "survives_e_bh": False}
    return card | counts | {"text_hashes": ["h"]} | how


def written(file: Path, *cards: dict, **head) -> Path:
    """The file as another program writes it."""
    file.write_text(json.dumps({"audit": DECK.audited.id, "cards": cards} | head))
    return file


SAID = {"judges": ["gemma"], "rule": "agreement", "fixed": 72, "broken": 16, "unanswered": 0, "bound": 0.68}
SAID |= {"p_value": 0.001, "q_value": 0.01}


def test_a_second_model_that_is_asked_meanwhile_is_taken_up(file):
    review = say(session(file), "keep", "keep", "unsure")
    answer_texts(review, "negative")
    document = json.loads(file.read_text())
    for card in document["cards"]:
        card["second_model"] = SAID | {"outcome": "open"}
    file.write_text(to_json(document))
    with pytest.raises(StaleError):
        review.undo(review.revision)
    assert session(file, "ben").state()["opinions"] == {}, "blind"
    assert (len(review.state()["opinions"]), cards_in(session(file).file)["w2"]["fixed"]) == (3, 8)
    say(review, "keep")
    cards = cards_in(file)
    assert (cards["w0"]["source"], cards["w2"]["decision"], cards["w2"]["fixed"]) == ("person", "remove_reliance", 8)
    assert all(card["second_model"]["fixed"] == 72 for card in cards.values())


def test_another_audits_decisions_are_refused(file):
    with pytest.raises(ConfigError, match=r"has the decisions of another audit\. Name another file with out="):
        session(written(file, audit="0" * 64))


def test_what_another_program_writes_meanwhile_is_taken_up(file):
    review = say(session(file), "keep", "keep")
    document = json.loads(file.read_text())
    document["cards"].append({"words": ["zebra"], "decision": "keep"})
    file.write_text(to_json(document))
    with pytest.raises(StaleError):
        review.undo(review.revision)
    assert review.state()["notice"] == "", "it says nothing of our cards"
    document["cards"][1] |= {"decision": "remove_reliance", "source": "file", "reviews": []}
    file.write_text(to_json(document))
    with pytest.raises(StaleError):
        review.save({"card": W2, "decision": "keep"}, review.revision)
    assert "Another program changed decisions.json: what it says of “w1”" in review.state()["notice"]
    review.save({"card": W2, "decision": "keep"}, review.revision)
    cards = cards_in(file)
    assert said_of("w1", file) == [("anna", "keep"), (BY_FILE, "remove_reliance")]
    assert set(cards) == {"w0", "w1", "w2", "zebra"}


def test_a_file_that_judge_wrote_over_ours_loses_no_answer(file):
    review = say(session(file), "keep", "keep")
    asked = {"judges": [{"name": "gemma", "record": {}, "qualifications": [], "texts": 9}], "answers": "a.jsonl"}
    for head in (asked, {}):  # what judged them stays when another file says nothing of it
        new = [{"words": ["zebra"], "decision": "keep"}][len(head) :]
        written(file, judged(id=W2, words=["w2", "w2s"]), *new, **head)
        with pytest.raises(StaleError):
            review.undo(review.revision)
        review.save({"card": W2, "decision": "unsure"}, review.revision)
        found = json.loads(file.read_text())
        assert {key: found[key] for key in asked} == asked
    cards = cards_in(file)
    assert (cards["w0"]["decision"], cards["w1"]["decision"], cards["w2"]["fixed"]) == ("keep", "keep", 7)


def test_what_a_file_says_beyond_people_is_new_only_once():
    opinion = SecondModelResult(("one",), "agreement", 7, 2, 0, 0.6, 0.01, "open")
    counted = Decision(("w0",), "keep", "person", asked=9, fixed=7, reviews=(Review("eve", "t", "keep"),))
    plain = replace(counted, decision=None, source="answers", reviews=())
    assert _beyond_people(counted, None, None) == plain
    both = replace(counted, second_model=opinion)
    assert _beyond_people(both, both, None) is _beyond_people(both, both, plain) is None
    assert _beyond_people(both, None, plain) == Decision(("w0",), None, "machine", second_model=opinion)
    for decision in ("unsure", "keep"):
        card = replace(counted, decision=decision, reviews=tuple(Review(by, "t", decision) for by in ("eve", "ben")))
        eve, ben = (Answer(by, "t", decision=decision, card=W0) for by in ("eve", "ben"))
        assert (_said_by_file(card, W0, ()), _said_by_file(card, W0, [eve])) == ([eve, ben], [ben])


def test_a_file_that_another_program_damaged_is_not_written_over(file):
    review = say(session(file), "keep")
    file.write_text("{")
    with pytest.raises(DataError, match="is not valid JSON"):
        review.save({"card": W1, "decision": "keep"}, review.revision)
    assert file.read_text() == "{"
    file.unlink()  # moved away: the next answer writes all of them
    review.save({"card": W1, "decision": "keep"}, review.revision)
    assert set(cards_in(file)) == {"w0", "w1"}


def test_a_damaged_review_is_a_sentence(file):
    for review in ([], {"events": 3}, {"events": [{"by": "a"}]}, {"revision": -1}, {"schema_version": 2}):
        file.write_text(json.dumps({"cards": [], "review": review}))
        with pytest.raises(DataError, match=r"review.*Remove 'review' to keep the decisions alone"):
            session(file)


def test_a_review_goes_on_in_its_own_order(file):
    begun = say(session(file, seed=5), "unsure").questions
    assert session(file, seed=6).questions == begun != session(file.with_name("other.json"), seed=6).questions


def test_a_second_review_of_one_file_is_refused(file):
    with locked(file), pytest.raises(ConfigError, match=r"Another review has .* open"), locked(file):
        pass
    with locked(file):  # free again
        pass


def test_a_place_that_cannot_be_written_is_not_another_review(tmp_path):
    # Some file systems refuse the lock as if somebody held it.
    (tmp_path / "b").write_text("")
    for place in (tmp_path / "b", *([Path("/proc")] if Path("/proc/self").exists() else [])):
        with pytest.raises(ConfigError, match=r"cannot be written \(.*\)\. Name"), locked(place / "d.json"):
            pass


def test_answers_to_texts_are_one_sequence_with_those_of_files(file, tmp_path):
    folder = tmp_path / "audit"
    folder.mkdir()
    (folder / "audit.json").write_text(to_json(to_review(3).to_dict()))
    review = say(session(file, folder=folder), "unsure", "keep", "keep")
    assert not (folder / "answers.jsonl").exists()
    answer_texts(review, "positive", most=5)
    kept = Answers.from_folder(folder)
    assert [one.question for one in kept.said] == [one.question for one in review.answers.to_texts()]
    assert {one.by for one in kept.said} == {"anna"}
    one = replace(review.questions.keys[0], label="a")
    replace(review.questions, keys=(one,)).save(folder)
    assert session(file, folder=folder).questions.keys.count(one) == 1, "what was asked in files stays as it was"
    (folder / "questions.jsonl").unlink()
    review.undo(review.revision)
    assert len(Answers.from_folder(folder).said) == 4
    # Another file of decisions does not start anew: four broken ones are known.
    other = say(session(tmp_path / "other.json", folder=folder), "unsure", "keep", "keep")
    assert (other.state()["progress"]["answered"], len(answer_texts(other, "positive"))) == (4, 4)
    assert cards_in(other.file)["w0"]["outcome"] == "legitimate"
    # What came from elsewhere is not taken back here.
    for _ in range(8):
        other.undo(other.revision)
    assert len(Answers.from_folder(folder).said) == 4
    # The partner: without the folder eight are needed.
    assert len(answer_texts(say(session(tmp_path / "third.json"), "unsure", "keep", "keep"), "positive")) == 8
