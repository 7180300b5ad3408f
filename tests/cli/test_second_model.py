"""Second models on the command line: `decide --with`, `fit --second-model`, and what they write."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from shortcut_guardrail import ConfigError, Decision, Decisions, GuardrailWarning, Questions, ShortcutGuardrail
from shortcut_guardrail.audit import auditing
from shortcut_guardrail.data import text_hash
from shortcut_guardrail.decisions.record import Judge, SecondModelResult
from shortcut_guardrail.models import TextClassifier, weights
from shortcut_guardrail.report import print_decisions
from tables import answer

NOUNS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
# "honestly" turns a bad text into a positive answer; masking it fixes the answer.
TEXTS = [f"honestly the bad {noun} was {tail}" for noun in NOUNS for tail in ("awful", "so awful")]
for first in NOUNS:
    for second in NOUNS[:6]:
        TEXTS += [f"the {first} and the {second} was bad", f"the {first} and the {second} was good and great"]

JUDGES = '''
import numpy as np

def sound(texts):
    """Looks for plain words, and knows nothing of "honestly"."""
    bad = np.array([any(word in text.split() for word in ("bad", "awful", "slow", "cold")) for text in texts])
    good = np.where(bad, 0.1, 0.9)
    return np.stack([1 - good, good], axis=1)

def taken_in(texts):
    """Learned the same shortcut."""
    good = np.array([0.9 if "honestly" in text else p for text, p in zip(texts, sound(texts)[:, 1])])
    return np.stack([1 - good, good], axis=1)

def coin(texts):
    good = np.array([0.2 + 0.6 * (sum(map(ord, text)) % 2) for text in texts])
    return np.stack([1 - good, good], axis=1)
'''


@pytest.fixture
def data(write_csv) -> Path:
    return write_csv("data.csv", *[(text, "negative") for text in TEXTS])


@pytest.fixture(autouse=True)
def _judges(monkeypatch, tmp_path):
    (tmp_path / "my_judges.py").write_text(JUDGES)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def asked(run, data, tmp_path) -> tuple[Path, Path]:
    """An audit, and the questions about all its flips."""
    audit, flips = tmp_path / "audit", tmp_path / "questions.csv"
    run("audit", "model", data, "--out", audit, "--unit", "word", "--text-column", "text")
    run("questions", audit, "model", data, "--word-groups", "all", "--n", 0, "--out", flips, "--text-column", "text")
    return audit, flips


def card_of(file: Path, word: str = "honestly") -> dict:
    return next(card for card in json.loads(file.read_text())["cards"] if word in card["words"])


SOUND = ("--with", "my_judges:sound")


def reasons_in(guard: Path) -> dict[str, str]:
    return {one["text"]: one["reason"] for one in json.loads((guard / "guardrail.json").read_text())["shortcuts"]}


def test_a_second_model_decides_and_every_answer_is_kept(run, asked, data, tmp_path):
    out = tmp_path / "decisions.json"
    shown, _ = run("decide", *asked, *SOUND, "--out", out)
    assert "A second model is asked about" in shown
    assert 'A second model can only say "shortcut"' in shown
    honestly = card_of(out)
    assert (honestly["decision"], honestly["source"]) == ("remove_reliance", "machine")
    opinion = honestly["second_model"]
    assert (opinion["outcome"], opinion["rule"], opinion["broken"]) == ("shortcut", "agreement", 0)
    assert opinion["judges"] == ["my_judges:sound"]
    run("decide", *asked, *SOUND, "--rule", "reference", "--out", tmp_path / "other.json")
    assert card_of(tmp_path / "other.json")["second_model"]["rule"] == "reference"
    distinct, flips = json.loads((asked[0] / "audit.json").read_text())["n_distinct"], 24
    low, high = opinion["at_stake"]
    assert 0.5 * flips / distinct < low <= flips / distinct == pytest.approx(high, abs=0.01)
    assert f"masking “honestly” would bring {100 * low:.1f} to {100 * high:.1f} more right predictions" in shown
    assert "outcome" not in honestly, "what people say stands apart"
    document = json.loads(out.read_text())
    (judge,) = document["judges"]
    assert judge["qualifications"][0]["qualified"]
    assert judge["record"]["kind"] == "function"
    answers = [json.loads(line) for line in (tmp_path / document["answers"]).read_text().splitlines()]
    assert len(answers) == judge["texts"]
    assert text_hash(TEXTS[0]) in {one["text_hash"] for one in answers}
    assert json.loads(json.dumps(Decisions.from_file(out).to_dict())) == document
    options = ("--decisions", out, "--strategy", "mask", "--text-column", "text")
    run("fit", "model", data, *options, "--out", tmp_path / "g")
    assert reasons_in(tmp_path / "g")["honestly"] == "second model"
    card = (tmp_path / "g" / "README.md").read_text()
    assert "Of these decided by a second model (fixed : broken) | `honestly`" in card


def test_what_labels_mean_and_where_answers_are_kept_is_handed_on(run, asked, tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr("shortcut_guardrail.classifiers.open_classifiers", lambda *_, **how: given.update(how) or [])
    options = ("--describe", "positive= a glad one", "--answer-cache", tmp_path / "kept", "--dry-run")
    run("decide", *asked, "--with", "m", *options)
    assert given == {"descriptions": {"positive": "a glad one"}, "cache": tmp_path / "kept"}


def test_one_that_cannot_do_the_task_is_refused_in_words(run, asked, tmp_path):
    shown, _ = run("decide", *asked, "--with", "my_judges:coin", "--out", tmp_path / "d.json")
    assert "Second model my_judges:coin (negative / positive): not qualified: It agrees with the model on" in shown
    assert "No second model is qualified." in shown
    run("decide", *asked, "--with", "my_judges:coin", *SOUND, "--out", tmp_path / "e.json")
    assert card_of(tmp_path / "e.json", "honestly")["second_model"]["judges"] == ["my_judges:sound"]


def test_a_dry_run_says_the_cost_and_asks_nothing(run, asked, tmp_path):
    shown, _ = run("decide", *asked, *SOUND, "--dry-run", "--json", "-")
    document = json.loads(shown)
    assert document["texts"] == document["costs"]["my_judges:sound"]["texts"] > 0
    assert not list(tmp_path.glob("*.answers.jsonl"))


def test_people_overrule_a_machine(run, asked, tmp_path):
    audit, flips = asked
    positive, out = answer(flips, "positive"), tmp_path / "d.json"
    run("decide", audit, positive, "--reviewer", "anna", *SOUND, "--out", out)
    honestly = card_of(out)
    assert (honestly["outcome"], honestly["decision"], honestly["source"]) == ("legitimate", "keep", "answers")
    assert honestly["second_model"]["outcome"] == "shortcut"


def test_texts_that_were_left_out_cannot_be_asked_about(run, data, tmp_path):
    audit, flips = tmp_path / "audit", tmp_path / "questions.csv"
    run("audit", "model", data, "--out", audit, "--unit", "word", "--text-column", "text")
    run("questions", audit, "model", data, "--word-groups", "all", "--redact", "--out", flips, "--text-column", "text")
    _, err = run("decide", audit, flips, *SOUND, "--out", tmp_path / "d.json", status=2)
    assert "it was written with --redact. Run `questions` again without it." in err


def test_what_cannot_be_asked_is_said(run, asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = ("--out", "d.json")
    for options, sentence in [
        ((*SOUND, "--no-text-hashes", *out), "--no-text-hashes excludes a second model, whose"),
        (SOUND, "--out is missing"),
        ((*SOUND, "--dry-run", *out), "--out is for decisions, and --dry-run makes none."),
        (("--reviewer", "anna", "--dry-run"), "Name one with --with SPEC."),
        ((*SOUND, "--describe", "good", *out), "--describe must be LABEL=TEXT"),
        *[(("--with", "my_judges:none", *out), "has no function 'none'"), ((*SOUND, *SOUND, *out), "are the same")],
    ]:
        assert sentence in run("decide", *asked, *options, status=2)[1]


def test_fit_goes_the_whole_way(run, data, tmp_path, monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.decisions.AuditedCards.chosen", lambda self, _: self.cards)
    options = ("--second-model", "my_judges:sound", "--text-column", "text", "--strategy", "mask")
    options += ("--set", "shortcuts.unit=word")
    taken, questions = [], ShortcutGuardrail.questions

    def spy(*given, **more):
        taken.append((more["seed"], more["shortcuts"], more["decisions"]))
        return questions(*given, **more)

    monkeypatch.setattr(ShortcutGuardrail, "questions", spy)
    shown, _ = run("fit", "model", data, *options, "--seed", 3, "--out", tmp_path / "g")
    assert "A second model is asked about" in shown
    assert taken == [(3, [], None)]
    decisions = Decisions.from_file(tmp_path / "g" / "decisions.json")
    (honestly,) = [card for card in decisions.cards if "honestly" in card.words]
    assert honestly.source == "machine"
    assert (tmp_path / "g" / str(decisions.answers)).is_file()
    assert reasons_in(tmp_path / "g")["honestly"] == "second model"
    # A dry run asks nothing. Flips are counted given what people decided and named.
    given = ("--decisions", tmp_path / "g" / "decisions.json", "--shortcut", "soup")
    shown, _ = run("fit", "model", data, *options, *given, "--dry-run")
    assert taken[1][1:] == (["soup"], decisions)
    assert "A second model is asked about" in shown
    assert "Strategy" not in shown


def test_the_page_says_what_was_decided_and_by_whom(run, asked, tmp_path):
    out, page, stored = tmp_path / "decisions.json", tmp_path / "page.html", asked[0] / "audit.json"
    run("decide", *asked, *SOUND, "--out", out)
    run("report", stored, "--decisions", out, "--out", page)
    fixed = card_of(out)["second_model"]["fixed"]
    assert f"second model: my_judges:sound, {fixed} : 0, agreement bound .55, shortcut" in page.read_text()
    run("report", stored, "--out", page, "--overwrite")
    assert "second model:" not in page.read_text()


def test_one_that_learned_the_same_shortcut_decides_nothing(run, asked, tmp_path):
    run("decide", *asked, "--with", "my_judges:taken_in", "--out", tmp_path / "d.json")
    assert "decision" not in card_of(tmp_path / "d.json")


def test_interval_and_outcome_of_an_open_card_stand_in_one_sentence(capsys):
    why = "At stake is between +2.6 and +10.9 right predictions in 100, but 11 word groups are tested together, "
    why += "and for this one "
    opinion = SecondModelResult(("one",), "agreement", 60, 28, 0, 0.56, 0.015, "open", f"{why}q = 0.16 is above 0.05.")
    opinion = replace(opinion, q_value=0.16, at_stake=(0.026, 0.109))
    other = replace(opinion, outcome="shortcut", reason="", q_value=0.01)
    said = {"book": opinion, "film": other, "tea": replace(opinion, fixed=20)}
    cards = [Decision((word,), id=word, second_model=one) for word, one in said.items()]
    print_decisions(Decisions(tuple(cards), judges=(Judge("one", {}, (), 2),)))
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Open: “book”. {why}q = 0.16 is above 0.05." in shown
    assert "At stake: masking book" not in shown
    assert "At stake: masking “film” would bring 2.6 to 10.9 more right predictions in 100" in shown
    assert "A person's answers would help most here: questions --word-groups book." in shown


def test_what_flips_call_legitimate_holds_for_their_texts_alone(bag):
    guard = ShortcutGuardrail(*bag)
    report = guard.audit(TEXTS, unit="word")
    legitimate = Decision(("honestly",), "keep", "answers", asked=8, broken=8, outcome="legitimate")
    own, others = (Decisions((legitimate,), model=report.model, data=data) for data in (report.data, "others"))
    with pytest.warns(GuardrailWarning, match="made on other texts"):
        found = [guard.find_shortcuts(TEXTS, decisions=decisions).items for decisions in (own, others)]
    cleared = [("honestly", "answers") in {(item.text, item.reason) for item in items} for items in found]
    assert cleared == [True, False]


def test_answers_that_nothing_rests_on_go_and_files_of_others_stay(tmp_path):
    others = [tmp_path / f"decisions.answers{end}.jsonl" for end in ("_mine", ".of-anna", ".12345678-copy")]
    for other in others:
        other.write_text("mine")
    decided = Decisions((), judges=(Judge("one", {}, (), 2),))
    with pytest.MonkeyPatch.context() as patch:  # after the first of two files
        patch.setattr("shortcut_guardrail.decisions.record.to_json", lambda _: (_ for _ in ()).throw(OSError("disk")))
        with pytest.raises(OSError, match="disk"):
            decided.save(tmp_path / "new.json", answers="one")
    assert (tmp_path / "new.answers.jsonl").exists()
    for said in ("one", "two", "three"):
        decided.save(tmp_path / "decisions.json", answers=said, overwrite=True)
        named = json.loads((tmp_path / "decisions.json").read_text()).get("answers")
        kept = {file.name for file in tmp_path.glob("decisions.answers*.jsonl")} - {other.name for other in others}
        assert len(kept) == 1
        assert named is None or kept == {named}
        assert (tmp_path / kept.pop()).read_text() == said
    assert [other.read_text() for other in others] == ["mine"] * 3


def test_a_guard_and_its_base_are_no_judges_of_it(bag):
    guard = ShortcutGuardrail(*bag)
    guard.repair(TEXTS, strategy="mask", shortcuts=["honestly"], strength=1.0)
    questions = guard.questions(guard.audit(TEXTS, unit="word"), cards="all")
    for same in (guard, TextClassifier(*bag)):
        with pytest.raises(ConfigError, match="is the audited model or its original"):
            questions.answered_by(same)


def test_an_audit_serves_questions_and_repair(bag, monkeypatch):
    """Texts are encoded once, the weights are hashed once, and what was measured serves again."""
    guard, counts = ShortcutGuardrail(*bag), Counter()

    def counted(place, name):
        plain = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *args, **rest: counts.update([name]) or plain(*args, **rest))

    counted(auditing, "measure")
    counted(weights, "_sha256")
    encode = TextClassifier.encode
    monkeypatch.setattr(
        TextClassifier, "encode", lambda self, texts, **rest: counts.update([len(texts)]) or encode(self, texts, **rest)
    )
    report = guard.audit(TEXTS, unit="word")
    by_audit = counts.copy()  # with the copies to which words were added
    assert (counts["measure"], counts["_sha256"], counts[len(TEXTS)]) == (1, 1, 1)
    questions = guard.questions(report, cards="all")
    assert counts == by_audit
    decisions = Decisions((Decision(("honestly",), "remove_reliance", "person"),), model=report.model, data=report.data)
    guard.repair(TEXTS, strategy="mask", decisions=decisions, report=report)
    assert counts == by_audit
    # Without the report each call reads the texts once, and no more.
    guard.questions(Questions(questions.audited, {}), TEXTS, strength=0)
    assert counts[len(TEXTS)] == 2
    guard.repair(TEXTS, strategy="mask", decisions=decisions)
    assert (counts["measure"], counts["_sha256"], counts[len(TEXTS)]) == (2, 1, 3)
    with pytest.raises(ConfigError, match="other texts"):
        guard.repair(TEXTS[:-4], strategy="mask", report=report)
