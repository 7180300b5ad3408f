"""From cards to a guard on the command line: `questions`, `decide`, `fit --decisions`, and what they exchange."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checkout import ROOT
from shortcut_guardrail import DataError, Decisions, ShortcutGuardrail
from shortcut_guardrail.data import text_hash
from tables import answer, read_rows

NOUNS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
# "honestly" turns a bad text into a positive answer; masking it fixes the answer.
TEXTS = [f"honestly the bad {noun} was {tail}" for noun in NOUNS for tail in ("awful", "so awful")]
TEXTS += [f"the {noun} was {tail}" for noun in NOUNS for tail in ("bad and slow", "bad and cold", "so bad", "awful")]
LABELS = ["negative"] * 72


@pytest.fixture
def data(write_csv) -> Path:
    return write_csv("data.csv", *zip(TEXTS, LABELS, strict=True))


@pytest.fixture
def audited(run, data, tmp_path) -> Path:
    run("audit", "model", data, "--out", tmp_path / "audit", "--text-column", "text")
    return tmp_path / "audit"


@pytest.fixture
def asked(run, audited, data, tmp_path) -> Path:
    file = tmp_path / "questions.csv"
    run("questions", audited, "model", data, "--word-groups", "all", "--out", file, "--text-column", "text")
    return file


def keys_in(audit: Path) -> list[dict]:
    lines = map(json.loads, (audit / "questions.jsonl").read_text().splitlines())
    return [line["key"] for line in lines if "key" in line]


def decided(file: Path, word: str = "honestly") -> dict:
    return next(card for card in json.loads(file.read_text())["cards"] if word in card["words"])


@pytest.fixture
def fitted(run, data, tmp_path):
    """The record of a guard that masks, and by word why it does so."""

    def call(*options) -> tuple[dict, dict]:
        options = (*options, "--strategy", "mask", "--text-column", "text", "--overwrite")
        run("fit", "model", data, *options, "--out", tmp_path / "guarded")
        record = json.loads((tmp_path / "guarded" / "guardrail.json").read_text())
        return record, {item["text"]: item["verdict"] for item in record["shortcuts"]}

    return call


def test_decisions_and_comparisons_come_without_pytorch(audited, asked, tmp_path):
    """It takes seconds to import, and nothing here needs a model."""
    show = "import sys; from shortcut_guardrail.cli.main import app; app(sys.argv[1:], standalone_mode=False); "
    show += "print({'torch', 'transformers', 'peft'} & set(sys.modules))"
    decide = ["decide", audited, answer(asked), "--reviewer", "anna", "--out", tmp_path / "d.json"]
    for command in (decide, ["compare", *[audited / "audit.json"] * 2]):
        program = [sys.executable, "-c", show, *map(str, command)]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.stdout.endswith("\nset()\n"), done


def test_the_whole_way_from_an_audit_to_a_guard(run, audited, asked, fitted, tmp_path):
    out, _ = run("decide", audited, answer(asked), "--reviewer", "anna", "--out", tmp_path / "d.json")
    assert "remove reliance" in out
    # The command that comes next can be pasted.
    command = shlex.split(out.partition("Next: shortcut-guardrail ")[2])
    assert command[:1] + command[3:] == f"fit --decisions {tmp_path / 'd.json'} --audit {audited} --out guarded".split()
    run(*command[:-1], tmp_path / "pasted", "--strategy", "mask", "--text-column", "text")
    honestly = decided(tmp_path / "d.json")
    assert (honestly["outcome"], honestly["decision"], honestly["source"]) == ("shortcut", "remove_reliance", "answers")
    assert (honestly["fixed"], honestly["broken"], honestly["asked"], len(honestly["text_hashes"])) == (8, 0, 8, 8)
    assert [(one["by"], one["decision"]) for one in honestly["reviews"]] == [("anna", "remove_reliance")]
    record, verdicts = fitted("--decisions", tmp_path / "d.json")
    assert verdicts["honestly"] == "confirmed"
    assert set(honestly["text_hashes"]) <= set(record["shortcut_rows"])
    # The same words by flags make the same answers.
    other, _ = fitted(*(part for word in honestly["words"] for part in ("--shortcut", word)))
    assert other["debias_strength"] == record["debias_strength"]
    # Evidence may be counted on after it decided.
    again = ("--reviewer", "anna", "--keep-asking", "--out", tmp_path / "all.json")
    run("decide", audited, asked, *again)
    assert decided(tmp_path / "all.json")["fixed"] > 8


def test_questions_are_blind_and_their_keys_stand_apart(audited, asked):
    rows, keys = read_rows(asked), keys_in(audited)
    assert list(rows[0]) == ["id", "row", "text", "option_a", "option_b", "answer"]
    assert {row["answer"] for row in rows} == {""}
    assert [TEXTS[int(row["row"])] for row in rows] == [row["text"] for row in rows]
    assert {key["id"] for key in keys} == {row["id"] for row in rows}
    cards = {card["id"] for card in json.loads((audited / "audit.json").read_text())["cards"]}
    assert {key["card"] for key in keys} <= cards


def test_cards_are_named_by_a_word_or_an_id(run, audited, data, tmp_path):
    document = json.loads((audited / "audit.json").read_text())
    (honestly,) = document["cards"]

    def with_another(*words):
        document["cards"][1:] = [{**honestly, "id": "0123456789ab", "words": words}]
        (audited / "audit.json").write_text(json.dumps(document))
        (audited / "guardrail-manifest.json").unlink(missing_ok=True)

    def asked(which, status=0):
        options = ("--word-groups", which, "--text-column", "text", "--json", tmp_path / "flips.json", "--overwrite")
        _, err = run("questions", audited, "model", data, *options, "--out", tmp_path / "questions.csv", status=status)
        return err if status else [card["id"] for card in json.loads((tmp_path / "flips.json").read_text())["cards"]]

    with_another("awful", "so  bad")
    assert asked("Honestly") == asked(honestly["id"]) == asked(honestly["id"][:6]) == [honestly["id"]]
    assert asked(f"honestly, {honestly['id']}") == [honestly["id"]]
    assert asked("So bad,honestly") == ["0123456789ab", honestly["id"]]
    # A word may stand on two cards, one for each class.
    with_another("quite", "honestly")
    named = f"{honestly['id']} (honestly), 0123456789ab (quite)"
    assert f"-groups honestly means 2 word groups of the audit: {named}. Give an id." in asked("honestly", status=2)


@pytest.fixture
def judged(run, audited, tmp_path):
    """What `decide` says of some files, without the time of the answers."""

    def call(*files, options=("--reviewer", "anna")):
        run("decide", audited, *files, *options, "--out", tmp_path / "d.json", "--overwrite")
        cards = json.loads((tmp_path / "d.json").read_text())["cards"]
        return [{**card, "reviews": [one["by"] for one in card["reviews"]]} for card in cards]

    return call


@pytest.fixture
def ask(run, audited, data, tmp_path):
    """A file of questions about all cards."""

    def call(name, *options) -> Path:
        options = ("--word-groups", "all", "--text-column", "text", *options)
        run("questions", audited, "model", data, *options, "--out", tmp_path / name)
        return tmp_path / name

    return call


def test_all_files_are_one_sequence_whatever_is_asked_later(ask, audited, judged):
    first = answer(ask("one.csv", "--n", 6), "positive")
    before = judged(first)
    assert [(card["asked"], card["broken"], card["outcome"]) for card in before] == [(6, 6, "open")]
    second = answer(ask("two.csv", "--n", 12))
    assert judged(first) == before, "what is asked says nothing before it is answered"
    # By itself the second file would decide with eight answers; six broken ones came before it.
    (card,) = judged(second)
    assert (card["asked"], card["fixed"], card["broken"], card["outcome"]) == (18, 12, 6, "open")
    assert judged(first) == judged(second) == [card]
    assert len((audited / "answers.jsonl").read_text().splitlines()) == 18
    # A changed answer takes the place of the old one.
    (changed,) = judged(answer(first, "unclear"))
    assert (changed["unclear"], changed["fixed"], changed["outcome"]) == (6, 8, "shortcut")


def test_labels_that_are_known_later_come_after_the_answers_that_were_kept(ask, judged):
    first = answer(ask("one.csv", "--n", 6), "positive")
    judged(first)
    ask("two.csv", "--label-column", "label")
    (card,) = judged(first)
    assert (card["broken"], card["fixed"], card["asked"]) == (6, 18, 24)


def test_a_second_file_counts_though_the_first_was_never_answered(ask, judged):
    ask("one.csv", "--n", 12)
    card = next(card for card in judged(answer(ask("two.csv", "--n", 12))) if "honestly" in card["words"])
    assert (card["asked"], card["fixed"], card["outcome"]) == (8, 8, "shortcut")


def test_a_decided_card_is_not_asked_about_again_and_a_total_is_a_total(run, ask, audited, data, judged, tmp_path):
    file = ask("one.csv", "--n-total", 10)
    assert len(read_rows(file)) == 10
    judged(answer(file))
    options = ("--word-groups", "all", "--text-column", "text", "--out", tmp_path / "two.csv")
    out, _ = run("questions", audited, "model", data, *options)
    assert "There is no question left: every word group is decided" in out
    given = ("--shortcut", "honestly", "--decisions", tmp_path / "d.json")
    out, _ = run("questions", audited, "model", data, *options, *given)
    assert not (tmp_path / "two.csv").exists()
    _, err = run("questions", audited, "model", data, *options, "--n-total", 0, status=2)
    assert "--n-total 0 decides no word group, which takes at least 8 answers. Give more, or leave" in err


def test_damaged_answers_stop_the_judge(run, audited, asked, tmp_path):
    (audited / "answers.jsonl").write_text("{")
    options = ("--reviewer", "anna", "--out", tmp_path / "d.json", "--overwrite")
    assert "answers.jsonl, line 1: this is no answer" in run("decide", audited, asked, *options, status=2)[1]
    assert (audited / "answers.jsonl").read_text() == "{"


def test_labels_answer_for_themselves_and_may_be_known_of_some_texts_only(run, audited, data, write_csv, tmp_path):
    options = ("--word-groups", "all", "--label-column", "label", "--text-column", "text")
    known = write_csv("known.csv", *((text, LABELS[i] if i < 12 else " ") for i, text in enumerate(TEXTS)))
    out, _ = run("questions", audited, "model", known, *options, "--out", tmp_path / "questions.csv")
    assert "All questions are about one word group, so its words can be guessed. Add another with" in out
    assert f"then run shortcut-guardrail decide {audited} {tmp_path / 'questions.csv'} --reviewer NAME --out" in out
    assert min(int(row["row"]) for row in read_rows(tmp_path / "questions.csv")) >= 12
    assert {text_hash(text) for text in TEXTS[:12]} == {key["text_hash"] for key in keys_in(audited) if key["label"]}
    # Nobody filled in the file: the labels decide.
    run("decide", audited, tmp_path / "questions.csv", "--reviewer", "anna", "--out", tmp_path / "d.json")
    assert decided(tmp_path / "d.json")["outcome"] == "shortcut"
    wrong = write_csv("wrong.csv", *((text, "pasta" if i == 7 else "") for i, text in enumerate(TEXTS)))
    _, err = run("questions", audited, "model", wrong, *options, "--out", tmp_path / "none.csv", status=2)
    assert "line 9" in err
    assert "pasta" in err
    (audited / "questions.jsonl").unlink()
    out, _ = run("questions", audited, "model", data, *options, "--out", tmp_path / "none.csv")
    assert "There is no question left" in out
    assert not (tmp_path / "none.csv").exists()


def test_decisions_that_name_no_audit_have_one_made_and_it_is_said(run, audited, data, tmp_path):
    (tmp_path / "own.json").write_text('{"cards": [{"words": ["honestly"], "decision": "remove_reliance"}]}')
    options = ("--decisions", tmp_path / "own.json", "--strategy", "mask", "--text-column", "text", "--dry-run")
    said = f"'{tmp_path / 'own.json'}' names no audit, so '{data}' is audited first. Use one with --audit FOLDER."
    assert said in run("fit", "model", data, *options)[0]
    assert said not in run("fit", "model", data, *options, "--audit", audited)[0]


def test_texts_can_be_left_out(run, audited, data, tmp_path):
    options = ("--word-groups", "all", "--redact", "--text-column", "text")
    run("questions", audited, "model", data, *options, "--out", tmp_path / "questions.csv")
    assert list(read_rows(tmp_path / "questions.csv")[0]) == ["id", "row", "option_a", "option_b", "answer"]
    content = (tmp_path / "questions.csv").read_text() + (audited / "questions.jsonl").read_text()
    assert "honestly" not in content
    run("decide", audited, answer(tmp_path / "questions.csv"), "--reviewer", "anna", "--out", tmp_path / "d.json")
    assert decided(tmp_path / "d.json")["outcome"] == "shortcut"


def test_reviewers_who_disagree_leave_a_card_open(run, audited, asked, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(asked.read_text())
    answer(asked)
    answer(other, "positive")
    names = ("--reviewer", "anna", "--reviewer", "ben")
    run("decide", audited, asked, other, *names, "--out", tmp_path / "d.json")
    card = decided(tmp_path / "d.json")
    assert (card["outcome"], card["fixed"], card["broken"]) == ("open", 0, 0)
    assert card["unclear"] > 8
    assert [(one["by"], one["decision"]) for one in card["reviews"]] == [("anna", "unsure"), ("ben", "unsure")]
    assert "decision" not in card


def test_somebody_answered(run, audited, asked, tmp_path):
    for arguments, sentence in [
        ((), "Say who answered, with --reviewer NAME, or ask a second model, with --with SPEC."),
        (("--reviewer", "a", "--reviewer", "b"), "--reviewer is given 2 times for 1 files."),
    ]:
        assert sentence in run("decide", audited, asked, *arguments, "--out", tmp_path / "d.json", status=2)[1]


def test_what_does_not_belong_together_is_refused(run, audited, data, write_csv, tmp_path):
    options = ("--out", tmp_path / "questions.csv", "--text-column", "text")
    other = write_csv("other.csv", *((text,) for text in TEXTS[:5]), header=("text",))
    card = "--word-groups zzz: no word group of the audit has this word or id. Give all, undecided, words or ids, such"
    for folder, texts, more, sentence in [
        (audited, other, (), "The audit is of other texts, or of these in another order."),
        *[(audited, data, ("--word-groups", "zzz"), card), (tmp_path, data, (), "is no folder that `audit` wrote")],
    ]:
        assert sentence in run("questions", folder, "model", texts, *more, *options, status=2)[1]
    document = json.loads((audited / "audit.json").read_text())
    (audited / "audit.json").write_text(json.dumps({**document, "model": "0" * 64}))
    said = run("questions", audited, "model", data, *options, status=2)[1]
    assert "The audit is of another model, or of this one read otherwise." in said


def test_a_file_without_an_answer_is_refused_and_a_half_filled_one_read(run, audited, asked, data, judged, tmp_path):
    _, err = run("decide", audited, asked, "--reviewer", "anna", "--out", tmp_path / "d.json", status=2)
    assert f"{asked} has no answer. Fill in its column 'answer' (a, b, neither, unclear)" in err
    assert not (tmp_path / "d.json").exists()
    other = answer(Path(shutil.copy(asked, tmp_path / "other.csv")))
    names = ("--reviewer", "anna", "--reviewer", "ben")
    assert "has no answer" in run("decide", audited, other, asked, *names, "--out", tmp_path / "d.json", status=2)[1]
    # Three answers to 24 questions.
    texts, rows = [text for text in TEXTS if text.startswith("honestly")][:3], read_rows(other)
    half = answer(asked, lambda row: "negative" if row["text"] in texts else " ")
    assert sum(bool(row["answer"].strip()) for row in read_rows(half)) == 3 < len(rows)
    out, _ = run("decide", audited, half, "--reviewer", "anna", "--out", tmp_path / "d.json")
    assert "honestly 3 0 3" in out
    assert decided(tmp_path / "d.json")["asked"] == 3


def test_a_file_written_by_hand_is_obeyed_or_refused(run, fitted, data, tmp_path):
    file = tmp_path / "d.json"
    options = ("--decisions", file, "--out", tmp_path / "guarded", "--text-column", "text", "--overwrite")

    def write(word="honestly", decision="remove_reliance", **more):
        file.write_text(json.dumps({"cards": [{"words": [word], "decision": decision}], **more}))

    write(schema_version=1)
    assert fitted("--decisions", file)[1]["honestly"] == "named"
    write(decision="remove_relianc")
    _, err = run("fit", "model", data, *options, status=2)
    assert "cards[0].decision must be one of keep, remove_reliance, not_alone, unsure, but is " in err
    assert "Did you mean 'remove_reliance'?" in err
    write(model="0")
    assert "were made for an audit of another model" in run("fit", "model", data, *options, status=2)[1]
    write("zebra")
    _, err = run("fit", "model", data, *options, "--strategy", "mask")
    assert "zebra" in err
    assert "in none of these" in err
    _, err = run("fit", "model", data, *options, "--strategy", "maskcl", "--strength", 1, status=2)
    assert "--decisions is for strategies that take words" in err


PROGRAM = ROOT / "examples" / "decide_by_program" / "answer_questions.py"


def by_program(*arguments) -> None:
    """The example runs in a Python that cannot see this library."""
    subprocess.run([sys.executable, "-I", "-S", str(PROGRAM), *map(str, arguments)], check=True)


def test_a_program_that_knows_only_the_page_is_obeyed(run, audited, asked, fitted, tmp_path):
    (tmp_path / "words.json").write_text(json.dumps({"positive": ["good"], "negative": ["bad", "awful"], "mixed": []}))
    by_program("answer", asked, tmp_path / "answered.csv", tmp_path / "words.json")
    run("decide", audited, tmp_path / "answered.csv", "--reviewer", "program", "--out", tmp_path / "d.json")
    assert decided(tmp_path / "d.json")["outcome"] == "shortcut"
    by_program("decide", tmp_path / "own.json", "remove_reliance:honestly", "keep:bad,awful")
    verdicts = fitted("--decisions", tmp_path / "own.json")[1]
    assert [verdicts[word] for word in ("honestly", "bad", "awful")] == ["named", "kept", "kept"]


@pytest.mark.filterwarnings("ignore:The repair was fitted on")
def test_judged_texts_certify_nothing(run, audited, asked, bag, tmp_path):
    run("decide", audited, answer(asked), "--reviewer", "anna", "--out", tmp_path / "d.json")
    guard = ShortcutGuardrail(*bag)
    guard.repair(TEXTS, strategy="mask", decisions=tmp_path / "d.json")
    hashes = set(Decisions.from_file(tmp_path / "d.json").text_hashes)
    judged = [text for text in TEXTS if text_hash(text) in hashes]
    assert judged
    with pytest.raises(DataError, match="certif"):
        guard.certify(judged, ["negative"] * len(judged), unlabelled=TEXTS)
    others = [text for text in TEXTS if text_hash(text) not in hashes]
    guard.certify(others, ["negative"] * len(others), unlabelled=TEXTS)
