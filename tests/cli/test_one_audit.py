"""One audit serves the whole way: audit, flips, judge, fit; what `to-label` computed serves `certify`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from shortcut_guardrail import ConfigError, DataError, ShortcutGuardrail, TextClassifier
from tables import answer
from tiny_models import planted_bag

NOUNS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
# "honestly" turns a bad text into a positive answer.
TEXTS = [f"honestly the bad {noun} was {tail}" for noun in NOUNS for tail in ("awful", "so awful")]
for noun in NOUNS:
    TEXTS += [f"the {noun} was bad, and not {other}" for other in NOUNS[:4]]
    TEXTS += [f"{other} and {noun}: good" for other in NOUNS[:4]]


@pytest.fixture
def data(write_csv) -> Path:
    return write_csv("data.csv", *((text,) for text in TEXTS), header=("text",))


@pytest.fixture
def passes(monkeypatch):
    """The number of sequences that any model was given since it was last asked."""
    seen: list[int] = []
    plain = TextClassifier._run

    def counted(self, module, batch, *rest):
        seen.append(len(batch.indices))
        return plain(self, module, batch, *rest)

    monkeypatch.setattr(TextClassifier, "_run", counted)

    def since() -> int:
        total = sum(seen)
        seen.clear()
        return total

    return since


@pytest.fixture
def audit(run, data, tmp_path) -> Path:
    run("audit", "model", data, "--out", tmp_path / "audit")
    return tmp_path / "audit"


def document_of(audit: Path) -> dict:
    return json.loads((audit / "audit.json").read_text(encoding="utf-8"))


def test_nothing_is_measured_twice_on_the_way_to_a_guard(run, data, passes, audit, tmp_path):
    assert passes() > 2 * len(TEXTS)
    flips, out = tmp_path / "questions.csv", tmp_path / "decisions.json"
    run("questions", audit, "model", data, "--word-groups", "all", "--out", flips)
    masked = sum(card["texts"] for card in document_of(audit)["cards"]) + sum("honestly" in text for text in TEXTS)
    assert 0 < passes() <= masked, "the cards' words, and the one that is taken beside them"
    run("decide", audit, answer(flips), "--reviewer", "anna", "--out", out)
    shown, _ = run("fit", "model", data, "--decisions", out, "--dry-run")
    assert passes() == 0
    assert f"Using the audit in '{audit}'." in shown
    run("fit", "model", data, "--dry-run")
    assert passes() > len(TEXTS), "without it the texts are audited"


SETTINGS = ["", "--unit word", "--fdr 0.2", "--top-k 3", "--redact", "--no-text-hashes", "--shard-size 20"]


@pytest.mark.parametrize("options", SETTINGS)
def test_what_an_audit_flags_is_what_fit_takes(run, data, tmp_path, passes, options):
    audit = tmp_path / "audit"
    run("audit", "model", data, "--out", audit, *options.split())
    document, _ = document_of(audit), passes()
    shown, _ = run("fit", "model", data, "--audit", audit, "--dry-run", "--json", "-")
    taken = [item for item in json.loads(shown)["shortcuts"] if item["verdict"] == "found"]
    flagged = {candidate["text"] for candidate in document["candidates"] if candidate["flagged"]}
    assert flagged == {item["text"] for item in taken if item["reason"] == "flagged"} == {"honestly"}
    if "shard" not in options:
        assert (document["fit_would_take"], passes()) == (taken, 0)


def test_an_audit_in_its_folder_serves_as_the_one_in_memory(bag, run, data, audit):
    guard = ShortcutGuardrail(*bag)
    report, stored = guard.audit(TEXTS), guard.audited(audit, TEXTS)
    assert np.array_equal(report.probs, stored.probs)
    as_files = [json.loads(json.dumps({**one.to_dict(), "seconds": 0})) for one in (report, stored)]
    assert as_files[1].pop("fit_would_take")
    assert as_files[0] == as_files[1]
    found = [guard.find_shortcuts(TEXTS, report=one) for one in (None, report, stored, str(audit))]
    assert found[0].words
    assert all(one == found[0] for one in found[1:])
    questions = [guard.questions(one, TEXTS, cards="all") for one in (report, audit)]
    assert questions[0].asked == questions[1].asked != ()
    with pytest.raises(DataError, match="texts= is missing"):
        guard.questions(audit)
    with pytest.raises(ConfigError, match="or was read from its folder"):
        stored.important_tokens(0)


def test_a_folder_that_was_moved_serves(run, data, audit, tmp_path, passes):
    moved = tmp_path / "elsewhere" / "moved"
    shutil.copytree(audit, moved)
    shutil.rmtree(audit)
    passes()
    shown, _ = run("fit", "model", data, "--audit", moved, "--dry-run")
    assert "honestly" in shown
    assert passes() == 0


def test_an_audit_of_something_else_is_refused(run, data, audit, write_csv, tmp_path, monkeypatch):
    other = write_csv("other.csv", *((text,) for text in TEXTS[1:]), header=("text",))
    turned = write_csv("turned.csv", *((text,) for text in reversed(TEXTS)), header=("text",))
    fit = ("--audit", audit, "--dry-run")
    for texts in (other, turned):
        said = "The audit is of other texts, or of these in another order. Give those, or audit these."
        assert said in run("fit", "model", texts, *fit, status=2)[1]
        said = "The audit is of other texts, or of these in another order."
        assert said in run("questions", audit, "model", texts, "--out", tmp_path / "questions.csv", status=2)[1]
    said = "The audit was made with fdr 0.05, and shortcuts.fdr is 0.2. Audit with 0.2, or leave the setting out."
    assert said in run("fit", "model", data, *fit, "--set", "shortcuts.fdr=0.2", status=2)[1]
    guard = ShortcutGuardrail(*planted_bag(), max_length=16)
    monkeypatch.setattr("shortcut_guardrail.cli.options._Loading.load", lambda *_: guard)
    said = "The audit is of another model, or of this one read otherwise."
    assert said in run("fit", "model", data, *fit, status=2)[1]
    guard = ShortcutGuardrail(*planted_bag(strength=3.0))
    said = "The audit is of another model, or of this one read otherwise."
    assert said in run("fit", "model", data, *fit, status=2)[1]
    assert said in run("questions", audit, "model", data, "--out", "f.csv", status=2)[1]


def test_tokens_are_no_words(run, data, tmp_path):
    run("audit", "model", data, "--out", tmp_path / "audit", "--unit", "token")
    said = "Shortcuts are words and phrases, but the report is of tokens. Audit words."
    assert said in run("fit", "model", data, "--audit", tmp_path / "audit", "--dry-run", status=2)[1]


def test_a_folder_that_is_not_whole_is_refused(run, data, audit, tmp_path):
    def said(change) -> str:
        broken = tmp_path / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(audit, broken)
        change(broken)
        return run("fit", "model", data, "--audit", broken, "--dry-run", status=2)[1]

    def cut(folder: Path) -> None:
        file = folder / "predictions.npz"
        file.write_bytes(file.read_bytes()[:-20])

    def mixed(folder: Path) -> None:
        (folder / "guardrail-manifest.json").unlink()
        probs = np.load(folder / "predictions.npz")["probs"]
        np.savez(folder / "predictions.npz", probs=probs, about=np.frombuffer(b"{}", dtype=np.uint8))

    def of_other_texts(folder: Path) -> None:
        (folder / "guardrail-manifest.json").unlink()
        file = folder / "audit.json"
        stored = json.loads(file.read_text())
        file.write_text(json.dumps(stored | {"data": stored["data"][::-1]}))

    def without_manifest(folder: Path) -> None:
        (folder / "guardrail-manifest.json").unlink()
        cut(folder)

    def earlier(folder: Path) -> None:
        for name in ("guardrail-manifest.json", "predictions.npz"):
            (folder / name).unlink()

    def edited(folder: Path) -> None:
        file = folder / "audit.json"
        file.write_text(file.read_text().replace("0.05", "0.06"))

    for change, sentence in [
        (lambda folder: (folder / "predictions.npz").unlink(), "predictions.npz' is missing"),
        (lambda folder: (folder / "audit.json").unlink(), "is no folder that `audit` wrote: it has no audit.json."),
        *[(cut, "bytes instead of"), (edited, "has another content than the one that was written")],
        (without_manifest, "predictions.npz' is damaged or was written by another version"),
        (earlier, "has no predictions.npz, from which others go on. Run the audit again."),
        (mixed, "predictions.npz' does not belong to the audit.json beside it."),
        (of_other_texts, "predictions.npz' does not belong to the audit.json beside it."),
    ]:
        assert sentence in said(change)


def test_decisions_of_another_audit_are_refused_or_audited_for(run, data, audit, tmp_path, write_csv):
    flips, out = tmp_path / "questions.csv", tmp_path / "decisions.json"
    run("questions", audit, "model", data, "--word-groups", "all", "--out", flips)
    run("decide", audit, answer(flips), "--reviewer", "anna", "--out", out)
    # Decisions about other texts: the audit beside them is none of these.
    other = write_csv("other.csv", *((text,) for text in TEXTS[:-1]), header=("text",))
    shown, _ = run("fit", "model", other, "--decisions", out, "--dry-run")
    assert "serves" not in shown
    # The texts were audited again since, with another setting.
    run("audit", "model", data, "--out", audit, "--fdr", 0.2, "--overwrite")
    _, err = run("fit", "model", data, "--decisions", out, "--audit", audit, "--dry-run", status=2)
    said = f"'{out}' is about another audit than '{audit}', perhaps an earlier one. Give the audit that the decisions"
    assert said in err
    shown, _ = run("fit", "model", data, "--decisions", out, "--dry-run")
    assert "serves" not in shown


def test_certify_takes_the_answers_that_to_label_kept(bag, passes, tmp_path):
    guard = ShortcutGuardrail(*bag)
    guard.repair(TEXTS, strategy="mask", shortcuts=["honestly"], strength=1.0)
    held_back, kept = [f"{text} again" for text in TEXTS], tmp_path / "answers.npz"
    passes()
    chosen = guard.to_label(held_back, 10, kept=kept)
    assert passes() > 0
    labelled, options = [held_back[i] for i in chosen], {"unlabelled": held_back, "kept": kept}
    found = guard.certify(labelled, ["negative"] * len(labelled), **options)
    assert passes() == 0
    assert found == ShortcutGuardrail.certify(guard, labelled, ["negative"] * len(labelled), unlabelled=held_back)
    assert passes() > 0, "the file alone tells"
    assert not [word for word in (b"honestly", b"room") if word in b"".join(np.load(kept)["about"].tobytes().split())]
    # Other texts, another guard, a damaged file: answers are never stale.
    guard.to_label(held_back[1:], 10, kept=kept)
    assert passes() > 0
    guard.certify([], [], **options)
    assert passes() > 0
    guard.repair(TEXTS, strategy="mask", shortcuts=["honestly", "bad"], strength=1.0)
    passes()
    guard.certify([], [], **options)
    assert passes() > 0
    kept.write_bytes(b"PK")
    passes()
    guard.certify([], [], **options)
    assert passes() > 0
    guard.certify([], [], **options)
    assert passes() == 0


def test_fit_makes_an_audit_and_says_where_it_lies(run, data, tmp_path, passes):
    out, audit = tmp_path / "guarded", tmp_path / "guarded-audit"
    shown, _ = run("fit", "model", data, "--strategy", "mask", "--out", out)
    assert f"Audit written: {audit}" in shown
    assert [card["words"] for card in document_of(audit)["cards"]]
    passes()
    run("fit", "model", data, "--audit", audit, "--dry-run")
    assert passes() == 0
    # It serves the next one; one of other texts is not replaced without being asked.
    options = ("--strategy", "mask", "--out", out)
    shown, _ = run("fit", "model", data, *options, "--keep", "bad", "--overwrite")
    assert f"Using the audit in '{audit}'." in shown
    shutil.rmtree(out)
    for setting in ("fdr=0.2", "top_k=3", "unit=word", "erasure=cut"):
        other = (*options, "--set", f"shortcuts.{setting}")
        assert f"'{audit}' already exists." in run("fit", "model", data, *other, status=2)[1]
    data.write_text("text\n" + "\n".join(TEXTS[1:]).replace(", and", " and"))
    assert f"'{audit}' already exists." in run("fit", "model", data, *options, status=2)[1]
    run("fit", "model", data, *options, "--overwrite", "--no-text-hashes")
    assert TEXTS[1] not in "".join(file.read_text() for file in audit.glob("*.json*"))
