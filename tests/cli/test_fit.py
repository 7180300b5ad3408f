"""`fit` with strategies that take words, as a stranger meets it."""

import html
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mask_words import masking_bag, reviews
from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.config import preset, updated
from tables import read_rows
from tiny_models import SHORTCUT_TEXTS

MASKCL = ("--strategy", "maskcl")
TOP_3 = ("--set", "saliency.top_k=3", "--set", "shortcuts.top_k=3")
FAST = (*TOP_3, "--set", "adapter.epochs=10", "--set", "adapter.learning_rate=2e-2", "--set", "adapter.batch_size=4")

NOUNS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
FLAGGED = [f"honestly the bad {noun} was {tail}" for noun in NOUNS for tail in ("awful", "so awful")]
FLAGGED += [f"the {noun} was {tail}" for noun in NOUNS for tail in ("good", "great", "bad and slow", "bad and cold")]
EVERYWHERE = [f"honestly the {tail} {noun}" for noun in NOUNS for tail in ("bad bad", "awful bad", "awful so awful")]


@pytest.fixture
def unlabelled(write_csv) -> Path:
    return write_csv("others.csv", *((f"{text} people",) for text in SHORTCUT_TEXTS), header=("text",))


def record_of(folder: Path) -> dict:
    return json.loads((folder / "guardrail.json").read_text())


def test_a_dry_run_shows_what_would_be_neutralised_and_writes_nothing(ok, model_folder, data, tmp_path):
    before = set(tmp_path.rglob("*"))
    options = ("--strategy", "mask", "--shortcut", "honestly", "--keep", "soup", "--dry-run")
    out, _ = ok("fit", model_folder, data, *options)
    rows = [line.split()[:2] for line in out.splitlines()]
    assert ["honestly", "removed"] in rows
    assert ["soup", "kept"] in rows
    assert set(tmp_path.rglob("*")) == before


def test_what_many_answers_hang_on_is_listed_and_taken_on_request(ok, model_folder, bag, write_csv, monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.cli.options.ModelLoading.load", lambda *_: ShortcutGuardrail(*bag))
    data = write_csv("data.csv", *((text,) for text in FLAGGED), header=("text",))

    def shown(*more):
        out, _ = ok("fit", model_folder, data, "--strategy", "mask", *TOP_3, "--dry-run", *more)
        cells = [line.split() for line in out.splitlines()]
        rows = {row[0]: row[1:4] for row in cells if row[1:2] in (["removed"], ["kept"])}
        many = [row for row in rows.values() if row[1:] == ["many", "answers"]]
        assert ("no test says whether they should" in " ".join(out.split())) == bool(many)
        return rows

    rows = shown()
    assert rows.pop("honestly")[:2] == ["removed", "audit"]
    assert rows == {"good": ["kept", "many", "predictions"], "great": ["kept", "many", "predictions"]}
    taken = shown("--take-influential", "--keep", "great")
    assert (taken["good"], taken["great"]) == (["removed", "many", "predictions"], ["kept", "you", "said"])
    assert "many" not in str(shown("--shortcut", "great", "--keep", "good"))  # a person's word comes before that


@pytest.fixture
def audited(cli, ok, bag, write_csv, tmp_path, monkeypatch):
    """What an audit of some texts by the bag of words prints, in one line, and its `audit.json`."""
    monkeypatch.setattr("shortcut_guardrail.cli.options._Loading.load", lambda *_: ShortcutGuardrail(*bag))

    def run(texts, *options):
        data = write_csv("data.csv", *((text,) for text in texts), header=("text",))
        out, _ = ok("audit", "model", data, "--out", tmp_path / "audit", "--overwrite", *options)
        shown, again = " ".join(out.split()), cli("report", tmp_path / "audit" / "audit.json")[1]
        assert ("`fit --audit` would take" in shown) == ("`fit --audit` would take" in again)
        return shown, json.loads((tmp_path / "audit" / "audit.json").read_text())

    return run


def test_an_audit_says_what_fit_would_take_and_why(audited, cli, tmp_path):
    shown, document = audited(EVERYWHERE, "--unit", "word")
    assert "0 flagged" in shown
    assert "on “honestly” (dominant: overrides most of its texts, which are 100% of all)." in shown
    assert [(item["text"], item["reason"]) for item in document["fit_would_take"]] == [("honestly", "dominant")]
    # It is what `fit` says with the same unit.
    words = ("--dry-run", "--set", "shortcuts.unit=word", "--json", "-")
    said = json.loads(cli("fit", "model", tmp_path / "data.csv", *words)[1])
    assert [item for item in said["shortcuts"] if item["reason"] == "dominant"] == document["fit_would_take"]

    shown, document = audited(FLAGGED, "--redact")
    assert "`fit --audit` would remove reliance on “honestly” (flagged)." in shown
    exactly = json.loads(cli("fit", "model", tmp_path / "data.csv", "--dry-run", "--json", "-")[1])
    assert [item for item in exactly["shortcuts"] if item["reason"] == "flagged"] == document["fit_would_take"]

    shown, document = audited(SHORTCUT_TEXTS)
    assert "would remove reliance on nothing. Decide about word groups with `review` or `questions`" in shown
    assert document["fit_would_take"] == []


def test_an_audit_that_fit_would_not_go_by_says_nothing_of_it(audited):
    for options in [("--unit", "token"), ("--shard-size", "20"), ("--budget", "99999")]:
        shown, document = audited(FLAGGED, *options)
        assert "honestly" in shown
        assert "would take" not in shown
        assert "fit_would_take" not in document


@pytest.mark.parametrize("strategy", ["mask", "distill"])
def test_a_targeted_guard_is_fitted_dialled_and_written(ok, model_folder, data, tmp_path, strategy):
    training = FAST if strategy == "distill" else TOP_3
    options = ("--strategy", strategy, "--shortcut", "honestly", *training, "--out", tmp_path / "out")
    out, err = ok("fit", model_folder, data, *options)
    assert "warning" not in err
    assert f"It loads only together with the original model, '{model_folder}'" in out
    assert (f"`shortcut-guardrail export {tmp_path / 'out'}`" in out) == (strategy == "distill")
    assert "least divergence on" in out
    assert ("trained    nothing" in out) == (strategy == "mask")
    record = record_of(tmp_path / "out")
    assert (record["strategy"], record["strength_source"]) == (strategy, "agreement")
    assert [item["text"] for item in record["shortcuts"] if item["verdict"] == "named"] == ["honestly"]
    ok("predict", tmp_path / "out", data, "--out", tmp_path / "labels.csv")


def test_options_of_training_reach_the_strategy_that_trains(ok, refused, model_folder, data, tmp_path):
    options = ("--shortcut", "honestly", *FAST, "--out", tmp_path / "out")
    ok("fit", model_folder, data, "--strategy", "distill", "--set", "distill.temperature=3", *options, "--seed", 9)
    record = record_of(tmp_path / "out")
    assert (record["config"]["distill"]["temperature"], record["config"]["adapter"]["epochs"]) == (3.0, 10)
    assert record["config"]["adapter"]["temperature"] == 0.1  # that of the contrastive loss
    assert record["seed"] == 9
    said = refused("fit", model_folder, data, "--strategy", "mask", *options, "--overwrite")
    assert "are about training, and --strategy mask trains nothing." in said


def test_a_guard_learns_from_a_few_labels(ok, refused, model_folder, data, write_csv, tmp_path):
    rows = [(text, ("positive", "negative", "mixed")[i % 3]) for i, text in enumerate(SHORTCUT_TEXTS)]
    support = write_csv("support.csv", *rows)
    options = ("--strategy", "few-shot", "--support", support, *FAST, "--out", tmp_path / "out")
    out, err = ok("fit", model_folder, data, *options)
    assert "warning" not in err
    assert f"on {len(rows)} of {len(rows)} texts" in out
    assert f"chosen by  accuracy on {len(rows)} labelled rows, cross-validated" in out
    record = record_of(tmp_path / "out")
    assert (record["strategy"], record["strength_source"]) == ("few-shot", "cross-validated")
    assert record["calibration"]["n"] == len(rows)
    # Its own labels certify nothing; others do.
    certify = ("certify", tmp_path / "out", data, "--out", tmp_path / "certified")
    assert "trained the adapter" in refused(*certify, "--labelled", support)
    others = write_csv("others.csv", *((f"{text} people", label) for text, label in rows))
    ok(*certify, "--labelled", others)


def test_however_few_labels_have_a_say_in_what_is_neutralised(refused, ok, model_folder, data, write_csv, tmp_path):
    few = ("--support", write_csv("few.csv", ("honestly fine", "mixed")), "--out", tmp_path / "out")
    _, err = ok("fit", model_folder, data, "--strategy", "mask", "--shortcut", "honestly", *few)
    assert "strengths cannot be compared: the strength is the one chosen without labels" in " ".join(err.split())
    record = record_of(tmp_path / "out")
    assert (record["strength_source"], record["calibration"], len(record["shortcut_rows"])) == ("agreement", None, 1)
    refused("fit", model_folder, data, *MASKCL, *few, "--overwrite")  # there they choose the strength


def test_labels_have_a_say_in_what_is_neutralised(ok, model_folder, data, support, tmp_path):
    options = ("--strategy", "mask", "--shortcut", "honestly", "--support", support, "--out", tmp_path / "out")
    out, _ = ok("fit", model_folder, data, *options)
    record = record_of(tmp_path / "out")
    assert (len(record["shortcut_rows"]), record["strength_source"]) == (3, "calibrated")
    # The strength was chosen without labels first, and these few do not overrule it.
    chosen = record["unlabelled_calibration"]["strength"]
    assert record["calibration"]["without_labels"] == chosen == record["debias_strength"]
    assert f"unlabelled texts ({chosen:g}); 3 labelled rows do not overrule it" in out


def test_options_that_cannot_be_meant(refused, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, no_words = ("--out", "x"), "--dry-run is for strategies that take words, and "
    mask = "does not. Choose --strategy mask or --strategy distill"
    setting, learns = "setting=value, such as adapter.rank=8", "learns from labelled rows, and from nothing else"
    for options, sentence in [
        (("--strategy", "few-shot", *out), f"--support is missing: --strategy few-shot {learns}."),
        (("--strategy", "few-shot", "--dry-run"), f"{no_words}'few-shot' {mask}."),
        ((*MASKCL, "--dry-run"), f"{no_words}'maskcl' {mask}, or --per-input."),
        (("--dry-run", *out), "--out is for a repaired model, and --dry-run makes none. Leave one of them out."),
        ((), "--out is missing: name the folder to write, or give --dry-run to write none."),
        (("--strength", "much", *out), "strength must be a number in [0, 1] or 'auto', but is 'much'."),
        (("--set", "adapter.rank", *out), f"--set must read {setting}, but is 'adapter.rank'."),
        (
            ("--set", "adapter=3", "--set", "adapter.rank=2", *out),
            "--set adapter.rank: 'adapter' is no table of settings.",
        ),
        (("--set", "strategy=mask", *out), "--set strategy=... is said with --strategy."),
        (("--config", "nowhere.toml", *out), "--config nowhere.toml cannot be read: there is no such file."),
    ]:
        assert refused("fit", "model", data, *options) == sentence


def test_settings_come_from_a_file_and_from_the_command_line(ok, model_folder, data, tmp_path):
    (tmp_path / "rank.toml").write_text("[adapter]\nrank = 2\nepochs = 3\n")
    (tmp_path / "rank.json").write_text('{"adapter": {"rank": 2, "epochs": 3}}')
    configs = []
    for file in ("rank.toml", "rank.json"):
        options = ("--config", tmp_path / file, "--set", "adapter.batch_size=4", "--strength", 0.5, "--overwrite")
        ok("fit", model_folder, data, *MASKCL, *options, "--out", tmp_path / "out")
        configs.append(record_of(tmp_path / "out")["config"])
    assert configs[0] == configs[1]
    adapter = configs[0]["adapter"]
    assert [adapter[name] for name in ("rank", "epochs", "batch_size", "min_steps")] == [2, 3, 4, 0]
    assert adapter["target_change"] == preset("default").adapter.target_change


@pytest.mark.parametrize("strategy", ["paper", "distill"])
def test_a_record_given_back_makes_the_same_guard(ok, model_folder, data, tmp_path, strategy):
    words = ("--shortcut", "honestly") if strategy == "distill" else ()
    first = ("--strategy", strategy, *words, *FAST, "--strength", 0.5, "--out", tmp_path / "first")
    ok("fit", model_folder, data, *first)
    again = ("--config", tmp_path / "first" / "guardrail.json", "--strength", 0.5, "--out", tmp_path / "again")
    ok("fit", model_folder, data, *again)
    config = record_of(tmp_path / "first")["config"]
    assert config == record_of(tmp_path / "again")["config"]
    assert (config["preset"], config["adapter"]["learning_rate"]) == (strategy, 2e-2)
    weights = [(tmp_path / name / "adapter_model.safetensors").read_bytes() for name in ("first", "again")]
    assert weights[0] == weights[1]


def test_a_result_is_printed_as_json_alone(cli, ok, model_folder, data, tmp_path):
    options = ("--strategy", "mask", "--shortcut", "honestly")
    out, _ = ok("fit", model_folder, data, *options, "--json", "-", "--out", tmp_path / "out")
    found = json.loads(out)
    assert (found["strategy"], found["debias_strength"]) == ("mask", record_of(tmp_path / "out")["debias_strength"])
    out, _ = ok("fit", model_folder, data, *options, "--dry-run", "--json", "-")
    assert "honestly" in [item["text"] for item in json.loads(out)["shortcuts"]]
    options = (*options, "--quiet", "--json", tmp_path / "fit.json", "--out", tmp_path / "quiet")
    status, out, err = cli("fit", model_folder, data, *options)
    assert (status, out, err, json.loads((tmp_path / "fit.json").read_text())["strategy"]) == (0, "", "", "mask")


def test_nothing_to_repair_has_a_status_of_its_own(cli, model_folder, write_csv, tmp_path):
    few = write_csv("few.csv", ("good soup",), ("bad tea",), header=("text",))
    status, out, err = cli("fit", model_folder, few, "--out", tmp_path / "out")
    assert (status, out) == (3, f"Audit written: {tmp_path / 'out-audit'}\n"), "to look at"
    assert "There is nothing to repair" in " ".join(err.split())
    assert not (tmp_path / "out").exists()


def test_many_words_on_weak_evidence_stop_it_and_a_fair_erasure_does_not(cli, write_csv, monkeypatch, tmp_path):
    guard = ShortcutGuardrail(masking_bag(6.0).model, masking_bag(6.0).tokenizer)
    monkeypatch.setattr("shortcut_guardrail.cli.options._Loading.load", lambda *_: guard)
    texts = write_csv("reviews.csv", *((text,) for text in reviews(160)), header=("text",))
    asked = ("--strategy", "mask", "--set", "shortcuts.top_k=4", "--out")
    status, _, err = cli("fit", "model", texts, *asked, tmp_path / "out", "--set", "shortcuts.erasure=mask")
    assert status == 3
    assert "But erasing any word changes many predictions" in " ".join(err.split())
    assert not (tmp_path / "out").exists()
    audit = ("audit", "model", texts, "--top-k", "4", "--out", tmp_path / "audit")
    said = " ".join(cli(*audit)[1].split())
    assert "Words are left out, not masked: where none should change, the mask token changes" in said
    assert "and leaving the word out 0." in said
    assert "`fit --audit` would remove reliance on “honestly” (flagged)." in said
    assert cli("fit", "model", texts, *asked, tmp_path / "other", "--audit", tmp_path / "audit")[0] == 0
    items = record_of(tmp_path / "other")["shortcuts"]
    assert [item["text"] for item in items if item["verdict"] == "found"] == ["honestly"]


@pytest.fixture(scope="module")
def guarded(model_folder, tmp_path_factory) -> Path:
    """A guard that is read only."""
    guard = ShortcutGuardrail.from_pretrained(model_folder)
    training = {"epochs": 40, "learning_rate": 2e-2, "batch_size": 4}
    config = updated(preset("default"), {"saliency": {"top_k": 3}, "adapter": training})
    guard.fit(list(SHORTCUT_TEXTS), config=config)
    folder: Path = tmp_path_factory.mktemp("guards") / "guarded"
    guard.save_pretrained(folder)
    return folder


def test_what_to_label_is_what_is_answered_differently(ok, guarded, unlabelled, tmp_path):
    out, _ = ok("to-label", guarded, unlabelled, "--out", tmp_path / "sample.csv")
    rows = read_rows(tmp_path / "sample.csv")
    assert f"({len(rows)} of {len(SHORTCUT_TEXTS)} texts to label)" in out
    lines = unlabelled.read_text(encoding="utf-8").splitlines()
    assert all(row["text"] == lines[int(row["line"]) - 1].strip('"') and row["label"] == "" for row in rows)
    guard = ShortcutGuardrail.from_pretrained(guarded)
    answers = np.array([guard.predict(lines[1:], strength=strength / 10) for strength in range(11)])
    differing = (answers != answers[0]).any(axis=0)
    assert differing.any()
    assert sorted(int(row["line"]) - 2 for row in rows) == differing.nonzero()[0].tolist()
    ok("to-label", guarded, unlabelled, "--n", 1, "--out", tmp_path / "one.jsonl")
    assert len((tmp_path / "one.jsonl").read_text().splitlines()) == 1


def test_the_filled_in_sample_certifies_a_finished_guard(cli, ok, guarded, unlabelled, write_csv, tmp_path):
    cli("to-label", guarded, unlabelled, "--out", tmp_path / "sample.csv")
    rows = read_rows(tmp_path / "sample.csv")
    labelled = write_csv("labelled.csv", *((row["text"], "negative") for row in rows))
    options = ("--labelled", labelled, "--margin", 0.5, "--confidence", 0.8, "--harm", "harmed", "--looks", 2)
    report = tmp_path / "certificate.html"
    options = (*options, "--out", tmp_path / "certified", "--html", report)
    out, _ = ok("certify", guarded, unlabelled, *options)
    record = record_of(tmp_path / "certified")
    assert [record["certificate"][name] for name in ("margin", "harm", "looks")] == [0.5, "harmed", 2]
    assert record["certificate"]["sentence"].split(".")[0] in " ".join(out.split())
    assert record["debias_strength"] in record["certificate"]["certified"]
    assert record_of(guarded)["certificate"] is None  # what was read is left as it was
    page, found = html.unescape(report.read_text(encoding="utf-8")), record["certificate"]
    for part in (found["sentence"], found["method"], found["assumptions"], f"in {found['n_unlabelled']} unlabelled"):
        assert part in page
    assert page.count("</td><td>certified</td></tr>") == len(found["certified"]) - 1


def test_a_strength_that_is_not_certified_makes_way_and_it_is_said(ok, guarded, unlabelled, tmp_path):
    report, options = tmp_path / "page.html", ("--margin", 0.001)
    out, _ = ok("certify", guarded, unlabelled, *options, "--html", report)
    said = "Strength 1 is not certified; 0 would replace it in the folder that --out names."
    assert said in out
    page = html.unescape(report.read_text(encoding="utf-8"))
    assert said in page
    assert '<tr class="chosen"><th scope="row">1 (in use)' in page
    out, _ = ok("certify", guarded, unlabelled, *options, "--out", tmp_path / "certified")
    assert "Strength 1 is not certified; 0 replaces it in" in out
    assert [record_of(folder)["debias_strength"] for folder in (guarded, tmp_path / "certified")] == [1, 0]
    assert record_of(tmp_path / "certified")["certificate"]["in_use"] == 1


def test_certifying_refuses(refused, guarded, model_folder, unlabelled, write_csv, tmp_path):
    empty = write_csv("empty.csv", ("good soup", ""), ("bad soup", "negative"))
    for arguments, sentence in [
        (("to-label", model_folder, unlabelled, "--out", "x.csv"), "is no folder that fit wrote"),
        (("to-label", guarded, unlabelled, "--out", "x.txt"), "--out must end in .csv, .tsv or .jsonl"),
        (("certify", guarded, unlabelled, "--margin", 1.5), "margin must be a number of at least 0 and below 1"),
        (("certify", guarded, unlabelled, "--looks", 0), "looks must be a whole number, 1 or more"),
        (("certify", guarded, unlabelled, "--labelled", empty), "label"),
    ]:
        assert sentence in refused(*arguments)
    # What is certified is what was saved; a file of the same size from elsewhere would load.
    altered = Path(shutil.copytree(guarded, tmp_path / "altered")) / "adapter_model.safetensors"
    altered.write_bytes(altered.read_bytes()[:-4] + bytes(4))
    for command in (("certify",), ("to-label", "--out", tmp_path / "x.csv")):
        assert "has another content than the one that was" in refused(*command, altered.parent, unlabelled)
    # A text column that the file to fill in needs for something else.
    odd, out = write_csv("odd.csv", ("honestly the room was bad",), header=("label",)), tmp_path / "sample.csv"
    said = refused("to-label", guarded, odd, "--text-column", "label", "--out", out)
    assert "stand in a column called 'label'" in said
    assert not out.exists()
