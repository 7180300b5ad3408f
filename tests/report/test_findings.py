"""The first screen of an audit: what was audited, what was found, a text before and after, and what to type next."""

from pathlib import Path
from types import SimpleNamespace

from audits import UNDECIDED, audit, candidate, card, labelled, to_review
from shortcut_guardrail.audit.defaults import Defaults, HeldUp, Probe
from shortcut_guardrail.cards.card import Flip
from shortcut_guardrail.decisions import LEAST_FLIPS, Decision, Decisions
from shortcut_guardrail.report import print_questions
from shortcut_guardrail.report.decisions import print_decisions
from shortcut_guardrail.report.defaults import defaults_said
from shortcut_guardrail.report.findings import findings
from shortcut_guardrail.report.history import _trend
from shortcut_guardrail.report.terminal import _audit_outcome, _would_take, open_questions, print_change, words_of
from shortcut_guardrail.report.view import _texts

FLAGGED = {"status": "flagged", "flagged": ("honestly",)}
SOUP = "honestly, the soup at this place was cold"
FLIPS = (Flip.of(0, "good", "bad", "honestly no"), Flip.of(1, "good", "bad", f"{SOUP}, and so on"))
FLIPS += (Flip.of(2, "good", "bad", SOUP),)
HONESTLY = candidate("honestly", flagged=True)
ABOUT = {"model": "my model", "data": "texts.csv", "date": "2026-11-26"}


def found(*cards, words=(HONESTLY,), redact=False, **values):
    return findings(audit(*words, cards=cards).to_dict(redact=redact) | values)


def test_what_was_audited_and_commands_that_can_be_pasted():
    said = found(card("honestly", flips=FLIPS, **FLAGGED), about=ABOUT)
    data = "40 texts (39 distinct) from 'texts.csv'"
    assert said.audited == f"The model 'my model' was audited with {data} on 2026-11-26."
    fit = "shortcut-guardrail fit 'my model' texts.csv --decisions audit/decisions.json --out guarded"
    assert [command for _, command in said.steps] == ["shortcut-guardrail review audit", fit]
    # The partners: an audit that does not know them, and one without its texts.
    assert found().audited == "The model was audited with 40 texts (39 distinct)."
    more = ("Audit more texts, or texts that were misclassified.", "")
    assert [found(one).steps for one in (card("soup", changes=0), card("the"))] == [(more,)] * 2
    assert found(card("the", **FLAGGED)).steps[0][1] == "shortcut-guardrail review audit DATA"
    several = "soup tea cake pie".split()
    for words, said in ((["a waste"], "“a waste” by itself"), (several, "“tea” and 2 more words by themselves")):
        one = found(card(*words, status="undecided"), words=())
        assert f"{said}: there are too few" in one.status
    assert one.finding == "Masking “soup”, “tea” and 2 more words changes 8 of 39 predictions."
    redacted = found(card("honestly", flips=FLIPS, **FLAGGED), redact=True, about=ABOUT)
    assert redacted.steps[0][1] == "shortcut-guardrail review audit texts.csv"
    assert redacted.example is None
    (_, review), (_, fit) = findings(to_review(1).to_dict() | {"about": {"folder": "my audit", "label": "toxic"}}).steps
    assert review == "shortcut-guardrail review 'my audit'"
    assert fit.endswith("fit MODEL DATA --decisions 'my audit/decisions.json' --out guarded --label toxic")


def test_the_example_is_the_shortest_text_that_says_something_and_halves_are_of_other_classes():
    example = found(card("honestly", flips=FLIPS, **FLAGGED)).example
    assert (example.text, example.masked) == (SOUP, SOUP.replace("honestly", "____"))
    assert (example.before, example.after) == ("good", "bad")
    kept = Flip.of(4, "good", "bad", "Quite honestly, the soup was honestly cold")
    example = found(card("honestly", flips=(kept,), except_in=("quite honestly",), **FLAGGED)).example
    assert example.masked == "Quite honestly, the soup was ____ cold"
    pair = Flip.of(3, "go\nod", "b\nad", ("honestly, it was all right", "was it"))
    longer = Flip.of(5, "good", "bad", ("honestly, so it all was", "was it " * 9))
    example = found(card("honestly", flips=(longer, pair), **FLAGGED)).example
    assert example.masked == "____, it was all right | was it"
    assert (example.before, example.after) == ("go[U+000A]od", "b[U+000A]ad")
    first, second = ("first half", 50, (30, 20), (27, 2), (45, 5)), ("second half", 50, (30, 20), (30, 18), (32, 18))
    held = HeldUp("harmless", ("tea", "soup"), 20, (15, 5), (1, 19))
    end, close = " So what keeps them from it stands at the end.", ("second half", 50, (30, 20), (30, 1), (49, 1))
    for other, share, place in ((second, 10, end), (close, 95, "")):
        halves = Defaults("attack", ("halves",), (Probe(*first), Probe(*other)), (held,), ())
        report = audit(HONESTLY, label_names=("attack", "harmless"), predicted=(20, 20), defaults=halves)
        _, cues, said = defaults_said(report.to_dict())
        missing = "when “tea”, “soup” are missing, and in 5% when as many random words are. So these are not all of"
        assert missing in cues
        # Of the 20 that were harmless 18 and 2 are given the other class.
        assert said == (
            "Of the texts of other classes 90% are given 'attack' when only their first half is left, and "
            + f"{share}% when only their second half is.{place}"
        )


def test_the_share_of_a_dominant_word_is_of_the_texts_that_it_was_counted_in():
    for q_value, share in ((0.4, "25% of all"), (None, "50% of all")):  # of 40 texts, of 20 distinct ones
        taken = {"text": "soup", "verdict": "found", "reason": "dominant", "count": 10, "q_value": q_value}
        document = audit(HONESTLY, n_distinct=20).to_dict() | {"fit_would_take": [taken]}
        assert f"“soup” (dominant: overrides most of its texts, which are {share})" in " ".join(_would_take(document))


def test_what_would_be_taken_is_named_up_to_five_and_what_a_decision_adds(capsys):
    similar = {"verdict": "found", "reason": "similar", "count": 3, "q_value": 0.1}
    taken = {"fit_would_take": [{"text": f"w{i}", **similar} for i in range(7)]}
    first, also = _would_take(audit(HONESTLY, cards=(card("w0", "tea"), card("soup", "stew"))).to_dict() | taken)
    assert first.endswith("“w4” (similar to what is flagged) and 2 more.")
    assert also == "A decision about the word group of “w0” would add “tea”."
    known = candidate("a", **UNDECIDED, alternative_wording=True, labelled=labelled())
    document = audit(known, candidate("b", **UNDECIDED)).to_dict()
    assert [c["text"] for c in open_questions(document["candidates"])] == ["b", "a"]
    assert "2 undecided (? or +): unsettled by the test so far, see what the labels" in _audit_outcome(document)
    print_change(audit(candidate("old")).to_dict(), audit(*(candidate(f"w{i}") for i in range(9))).to_dict())
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith((" w", " old  "))]
    assert shown == ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "old"]
    assert words_of(["a" * 13, "b" * 15]).plain == f"{'a' * 13}, {'b' * 15}"


def test_eight_prediction_changes_can_decide_and_cards_that_were_not_asked_about_are_left_out(capsys):
    cards = card("tea"), card("soup")
    questions = SimpleNamespace(audited=SimpleNamespace(cards=cards), asked=())
    print_questions(questions, {cards[0].id: LEAST_FLIPS, "b": LEAST_FLIPS - 1}, Path("q.csv"), Path("audit"))
    said = " ".join(capsys.readouterr().out.split())
    assert "1 word group with fewer than 8 prediction changes cannot be decided" in said
    assert ("tea" in said, "soup" in said) == (True, False)
    open_ = {"judges": ("good",), "fixed": 3, "broken": 1, "bound": None, "q_value": None, "outcome": "open"}
    opinion = SimpleNamespace(**open_, at_stake=(0.1, 0.2), reason="At stake is little.")
    asked = Decision(("tea",), None, "machine", asked=3, fixed=2, second_model=opinion)
    for judges in ((), (SimpleNamespace(qualifications=()),)):
        for cards in ((asked, Decision(("soup",), None, "machine")), (Decision(("soup",), None, "machine"),)):
            print_decisions(Decisions(cards, judges=judges))
            said = " ".join(capsys.readouterr().out.split())
            assert ("soup" in said, "right only with the words masked" in said) == (False, asked in cards or not judges)
            assert ("Open: “tea”. At stake is little." in said) == (asked in cards and bool(judges))
            assert "answers would help most" not in said


def test_a_text_is_shown_once_though_two_words_have_it_as_an_example():
    one, other = ({"index": i, "sides": ["a text"]} for i in (0, 1))
    words = [{"name": "soup", "examples": [one]}, {"name": "honestly", "examples": [one, other]}]
    assert [(name, example["index"]) for name, example in _texts(words)] == [("soup", 0), ("honestly", 1)]
    many = [{"name": "soup", "examples": [{"index": i, "sides": ["a text"]} for i in range(20)]}]
    assert [example["index"] for _, example in _texts(many)] == [*range(12)]


def test_of_a_history_the_last_decision_is_shown():
    rates = dict.fromkeys(("exposure", "flip_rate", "affected"))
    seen = [SimpleNamespace(**rates, status="flagged", decision=said) for said in ("keep", "remove reliance", "")]
    shown = _trend(None, SimpleNamespace(seen=seen, alarm=None, known=1), ["a", "b", "c"], [])
    assert (shown["decision"], shown["known"]) == ("remove reliance", "b")
