"""`fit` with strategies that know what they neutralise, as a stranger meets it."""

from __future__ import annotations

import csv
import html
import json
from pathlib import Path

import pytest

from shortcut_guardrail import ShortcutGuardrail
from tiny_models import SHORTCUT_TEXTS

FAST = ("--epochs", 10, "--learning-rate", 2e-2, "--train-batch-size", 4, "--top-k", 3)


@pytest.fixture
def data(write_csv) -> Path:
    return write_csv("data.csv", *((text,) for text in SHORTCUT_TEXTS), header=("text",))


@pytest.fixture
def support(write_csv) -> Path:
    return write_csv("support.csv", ("good soup", "positive"), ("bad soup", "negative"), ("honestly fine", "mixed"))


@pytest.fixture
def unlabelled(write_csv) -> Path:
    return write_csv("others.csv", *((f"{text} people",) for text in SHORTCUT_TEXTS), header=("text",))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def record_of(folder: Path) -> dict:
    return json.loads((folder / "guardrail.json").read_text())


def test_a_dry_run_shows_what_would_be_neutralised_and_writes_nothing(cli, model_folder, data, tmp_path):
    before = set(tmp_path.rglob("*"))
    options = ("--strategy", "mask", "--shortcut", "honestly", "--keep", "soup", "--dry-run")
    status, out, err = cli("fit", model_folder, data, *options)
    assert status == 0, err
    rows = [line.split()[:2] for line in out.splitlines()]
    assert ["honestly", "yes"] in rows
    assert ["soup", "no"] in rows
    assert set(tmp_path.rglob("*")) == before


def test_what_many_answers_hang_on_is_listed_and_taken_on_request(cli, model_folder, bag, write_csv, monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.cli.options.load_guard", lambda *_, **__: ShortcutGuardrail(*bag))
    nouns = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
    texts = [f"honestly the bad {noun} was {tail}" for noun in nouns for tail in ("awful", "so awful")]
    texts += [f"the {noun} was {tail}" for noun in nouns for tail in ("good", "great", "bad and slow", "bad and cold")]
    data = write_csv("data.csv", *((text,) for text in texts), header=("text",))

    def shown(*more):
        status, out, err = cli("fit", model_folder, data, "--strategy", "mask", "--top-k", 3, "--dry-run", *more)
        assert status == 0, err
        cells = [line.split() for line in out.splitlines()]
        rows = {row[0]: row[1:4] for row in cells if row[1:2] in (["yes"], ["no"])}
        many = [row for row in rows.values() if row[1:] == ["many", "answers"]]
        assert ("no test says whether they should" in " ".join(out.split())) == bool(many)
        return rows

    rows = shown()
    assert rows.pop("honestly")[:2] == ["yes", "audit"]
    assert rows == {"good": ["no", "many", "answers"], "great": ["no", "many", "answers"]}
    taken = shown("--take-influential", "--keep", "great")
    assert taken["good"] == ["yes", "many", "answers"]
    assert taken["great"] == ["no", "you", "said"]
    assert "many" not in str(shown("--shortcut", "great", "--keep", "good"))  # a person's word comes before that


def test_only_what_looks_for_shortcuts_can_take_influential_words(cli, model_folder, data, tmp_path):
    status, _, err = cli("fit", model_folder, data, "--take-influential", "--out", tmp_path / "out")
    assert status == 2
    assert "--take-influential is for strategies that know what they neutralise" in " ".join(err.split())


@pytest.mark.parametrize("strategy", ["mask", "distill"])
def test_a_targeted_guard_is_fitted_dialled_and_written(cli, model_folder, data, tmp_path, strategy):
    training = FAST if strategy == "distill" else ("--top-k", 3)
    options = ("--strategy", strategy, "--shortcut", "honestly", *training, "--out", tmp_path / "out")
    status, out, err = cli("fit", model_folder, data, *options)
    assert status == 0, err
    assert "warning" not in err
    assert "chosen without labels" in out
    assert ("Adapted on" in out) == (strategy == "distill")
    record = record_of(tmp_path / "out")
    assert (record["strategy"], record["strength_source"]) == (strategy, "agreement")
    assert [item["text"] for item in record["targets"] if item["verdict"] == "given"] == ["honestly"]
    status, out, err = cli("predict", tmp_path / "out", data, "--out", tmp_path / "labels.csv")
    assert status == 0, err


def test_options_of_training_reach_the_strategy_that_trains(cli, model_folder, data, tmp_path):
    options = ("--shortcut", "honestly", *FAST, "--out", tmp_path / "out")
    status, _, err = cli("fit", model_folder, data, "--strategy", "distill", "--temperature", 3, *options)
    assert status == 0, err
    config = record_of(tmp_path / "out")["config"]
    assert (config["distill"]["temperature"], config["adapter"]["epochs"]) == (3.0, 10)
    assert config["adapter"]["temperature"] == 0.1  # that of the contrastive loss
    status, _, err = cli("fit", model_folder, data, "--strategy", "mask", *options)
    assert status == 2
    assert "is about training, and --strategy mask trains nothing." in " ".join(err.split())


def test_the_papers_strategy_can_choose_its_strength_without_labels(cli, model_folder, data, tmp_path):
    options = ("--per-input", "--shortcut", "honestly", "--auto-strength", *FAST, "--out", tmp_path / "out")
    status, _, err = cli("fit", model_folder, data, *options)
    assert status == 0, err
    record = record_of(tmp_path / "out")
    assert (record["strategy"], record["strength_source"], record["plain_peft_equivalent"]) == (
        "maskcl",
        "agreement",
        False,
    )


def test_a_certificate_on_the_command_line(cli, model_folder, data, support, unlabelled, tmp_path):
    options = ("--strategy", "mask", "--shortcut", "honestly", "--support", support)
    certify = ("--certify", 0.1, "--confidence", 0.9, "--unlabelled", unlabelled)
    report = tmp_path / "report.html"
    status, out, err = cli("fit", model_folder, data, *options, *certify, "--report", report, "--out", tmp_path / "out")
    assert status == 0, err
    record = record_of(tmp_path / "out")
    certificate = record["certificate"]
    assert (certificate["margin"], certificate["confidence"], certificate["n_unlabelled"]) == (0.1, 0.9, 8)
    assert certificate["sentence"].split(".")[0] in " ".join(out.split())
    assert record["debias_strength"] == certificate["strength"]
    assert record["target_rows"] == []
    assert certificate["sentence"].split(".")[0] in report.read_text()
    assert '<section id="certificate"' in report.read_text()


def test_a_strength_that_is_not_certified_makes_way_and_it_is_said(cli, model_folder, data, unlabelled, tmp_path):
    options = ("--strategy", "mask", "--shortcut", "honestly", "--strength", 1, "--out", tmp_path / "out")
    status, out, err = cli("fit", model_folder, data, *options, "--certify", 0.01, "--unlabelled", unlabelled)
    assert status == 0, err
    assert "Strength 1 is not certified; 0 takes its place." in out
    assert record_of(tmp_path / "out")["debias_strength"] == 0
    options = (*options[:-1], tmp_path / "other", "--strength", 0.85)
    status, _, err = cli("fit", model_folder, data, *options, "--certify", 0.01, "--unlabelled", unlabelled)
    assert status == 2
    assert "--strength 0.85 is none of them" in " ".join(err.split())


def test_a_guard_learns_from_a_few_labels(cli, model_folder, data, write_csv, tmp_path):
    rows = [(text, ("positive", "negative", "mixed")[i % 3]) for i, text in enumerate(SHORTCUT_TEXTS)]
    support = write_csv("support.csv", *rows)
    options = ("--strategy", "few-shot", "--support", support, *FAST, "--out", tmp_path / "out")
    report = tmp_path / "report.html"
    status, out, err = cli("fit", model_folder, data, *options, "--report", report)
    assert status == 0, err
    assert "warning" not in err
    said = " ".join(out.split())
    assert f"Adapted on {len(rows)} of {len(rows)} texts" in said
    assert f"chosen on {len(rows)} labelled rows by accuracy, each answered by an adapter that was not trained" in said
    assert f"trained on {len(rows)} labelled rows in" in report.read_text()
    record = record_of(tmp_path / "out")
    assert (record["strategy"], record["strength_source"]) == ("few-shot", "cross-validated")
    assert record["calibration"]["n"] == len(rows)
    # Its own labels certify nothing; others do.
    certify = ("certify", tmp_path / "out", data, "--out", tmp_path / "certified")
    status, _, err = cli(*certify, "--labelled", support)
    assert status == 2
    assert "trained the adapter" in " ".join(err.split())
    others = write_csv("others.csv", *((f"{text} people", label) for text, label in rows))
    status, _, err = cli(*certify, "--labelled", others)
    assert status == 0, err


@pytest.mark.parametrize("rows", [[("honestly fine", "mixed")], [("honestly fine", "mixed"), ("so fine", "mixed")]])
def test_however_few_labels_have_a_say_in_what_is_neutralised(cli, model_folder, data, write_csv, tmp_path, rows):
    few = write_csv("few.csv", *rows)
    options = ("--strategy", "mask", "--shortcut", "honestly", "--support", few)
    status, _, err = cli("fit", model_folder, data, *options, "--dry-run")
    assert status == 0, err
    status, _, err = cli("fit", model_folder, data, *options, "--out", tmp_path / "out")
    assert status == 0, err
    assert "cannot tell strengths apart: the strength is the one chosen without labels" in " ".join(err.split())
    record = record_of(tmp_path / "out")
    assert record["strength_source"] == "agreement"
    assert record["calibration"] is None
    assert len(record["target_rows"]) == len(rows)
    status, _, err = cli("fit", model_folder, data, "--support", few, "--out", tmp_path / "paper")
    assert status == 2  # there they choose the strength


def test_labels_weigh_what_is_neutralised_beside_a_stated_strength(cli, model_folder, data, support, tmp_path):
    options = ("--shortcut", "honestly", "--support", support, "--strength", 0.7)
    status, _, err = cli("fit", model_folder, data, "--strategy", "mask", *options, "--out", tmp_path / "out")
    assert status == 0, err
    record = record_of(tmp_path / "out")
    assert (record["debias_strength"], record["strength_source"]) == (0.7, "fixed")
    assert len(record["target_rows"]) == 3
    status, _, err = cli("fit", model_folder, data, *options[2:], "--out", tmp_path / "paper")
    assert status == 2
    assert "--support chooses the strength and --strength states it" in " ".join(err.split())


def test_labels_have_a_say_in_what_is_neutralised(cli, model_folder, data, support, tmp_path):
    options = ("--strategy", "mask", "--shortcut", "honestly", "--support", support, "--out", tmp_path / "out")
    status, out, err = cli("fit", model_folder, data, *options)
    assert status == 0, err
    record = record_of(tmp_path / "out")
    assert len(record["target_rows"]) == 3
    assert record["strength_source"] == "calibrated"
    # The strength was chosen without labels first, and these few do not overrule it.
    chosen = record["unlabelled_calibration"]["strength"]
    assert record["calibration"]["without_labels"] == chosen == record["debias_strength"]
    assert "chosen on unlabelled texts and 3 labelled ones." in " ".join(out.split())


def test_the_papers_strategy_chooses_on_labels_alone_unless_asked(cli, model_folder, data, support, tmp_path):
    options = ("--per-input", "--shortcut", "honestly", "--support", support, *FAST, "--overwrite")
    for asked in ((), ("--auto-strength",)):
        status, _, err = cli("fit", model_folder, data, *options, *asked, "--out", tmp_path / "out")
        assert status == 0, err
        record = record_of(tmp_path / "out")
        assert (record["calibration"]["without_labels"] is not None) == bool(asked)
        assert (record["unlabelled_calibration"] is not None) == bool(asked)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ("--strategy", "few-shot"),
            "--support is missing: --strategy few-shot learns from a file with labelled rows, and from nothing else.",
        ),
        (
            ("--strategy", "few-shot", "--support", "s.csv", "--certify", 0.1, "--unlabelled", "u.csv"),
            "--certify is for labels that the adapter has not learned from, and --strategy few-shot learns from all of "
            "--support. Fit first, then run `shortcut-guardrail certify` with other labelled rows.",
        ),
        (
            ("--strategy", "few-shot", "--support", "s.csv", "--strength", 1),
            "--strength and --auto-strength are for other strategies: --strategy few-shot chooses the strength by "
            "cross-validation on --support. Leave them out.",
        ),
        (
            ("--strategy", "few-shot", "--support", "s.csv", "--per-input"),
            "--per-input is for strategies that look for shortcuts, and 'few-shot' looks for none.",
        ),
        (
            ("--strategy", "few-shot", "--support", "s.csv", "--temperature", 2),
            "--temperature is for the losses of maskcl and distill; leave it out for few-shot.",
        ),
        (
            ("--strategy", "few-shot", "--dry-run"),
            "--dry-run is for strategies that know what they neutralise, and 'few-shot' does not. Choose --strategy "
            "mask or --strategy distill.",
        ),
        (
            ("--shortcut", "so", "--out", "x"),
            "--shortcut is for strategies that know what they neutralise, and 'maskcl' does not. Choose --strategy "
            "mask or --strategy distill, or --per-input.",
        ),
        (
            ("--dry-run",),
            "--dry-run is for strategies that know what they neutralise, and 'maskcl' does not. Choose --strategy mask "
            "or --strategy distill, or --per-input.",
        ),
        (
            ("--strategy", "mask", "--preset", "paper", "--out", "x"),
            "--preset paper is for --strategy maskcl; leave it out for mask.",
        ),
        (
            ("--strategy", "mask", "--dry-run", "--report", "page.html"),
            "--report is for a guard, and --dry-run makes none. Leave one of them out.",
        ),
        (
            ("--strategy", "mask", "--dry-run", "--out", "x"),
            "--out is for a guard, and --dry-run makes none. Leave one of them out.",
        ),
        (
            ("--strategy", "mask", "--confidence", 0.9, "--out", "x"),
            "--confidence is that of a certificate; give --certify MARGIN as well.",
        ),
        (("--strategy", "mask"), "--out is missing: name the folder to write, or give --dry-run to write none."),
        (
            ("--strategy", "mask", "--certify", 0.02, "--unlabelled", "x.csv", "--confidence", 0, "--out", "x"),
            "confidence must lie between 0.5 and 1, but is 0.0.",
        ),
        (
            ("--auto-strength", "--strength", 1, "--out", "x"),
            "--auto-strength and --strength both say how the strength is chosen; give one of them.",
        ),
        (
            ("--strategy", "mask", "--certify", 0.1, "--out", "x"),
            "--unlabelled is missing: a certificate needs a margin (--certify) and a file with deployment texts that "
            "are not in DATA (--unlabelled).",
        ),
        (
            ("--strategy", "mask", "--certify", 2, "--unlabelled", "y", "--out", "x"),
            "margin must lie between 0 and 1, but is 2.0.",
        ),
        (
            ("--strategy", "mask", "--shortcut", "so", "--keep", "So", "--out", "x"),
            "'so' cannot be both a shortcut and kept. Name it once.",
        ),
    ],
)
def test_options_that_cannot_be_meant(cli, data, options, sentence):
    status, out, err = cli("fit", "model", data, *options)
    assert (status, out) == (2, "")
    assert " ".join(err.split()) == f"error: {sentence}"


# A finished guard is certified


@pytest.fixture
def guarded(cli, model_folder, data, tmp_path) -> Path:
    options = ("--strength", 1, *FAST, "--epochs", 40, "--out", tmp_path / "guarded")
    status, _, err = cli("fit", model_folder, data, *options)
    assert status == 0, err
    return tmp_path / "guarded"


def test_what_to_label_is_what_is_answered_differently(cli, guarded, unlabelled, tmp_path):
    status, out, err = cli("to-label", guarded, unlabelled, "--out", tmp_path / "sample.csv")
    assert status == 0, err
    rows = rows_of(tmp_path / "sample.csv")
    assert f"({len(rows)} of {len(SHORTCUT_TEXTS)} texts to label)" in out
    lines = unlabelled.read_text(encoding="utf-8").splitlines()
    assert all(row["text"] == lines[int(row["line"]) - 1].strip('"') and row["label"] == "" for row in rows)
    _, answers = ShortcutGuardrail.from_pretrained(guarded).answers_by_strength(lines[1:])
    differing = (answers != answers[0]).any(axis=0)
    assert differing.any()
    assert sorted(int(row["line"]) - 2 for row in rows) == differing.nonzero()[0].tolist()
    status, _, err = cli("to-label", guarded, unlabelled, "--n", 1, "--out", tmp_path / "one.jsonl")
    assert status == 0, err
    assert len((tmp_path / "one.jsonl").read_text().splitlines()) == 1


def test_a_text_column_that_the_file_to_fill_in_needs_is_refused(cli, guarded, tmp_path):
    (tmp_path / "odd.csv").write_text("label\nhonestly the room was bad\n", encoding="utf-8")
    out = tmp_path / "sample.csv"
    status, _, err = cli("to-label", guarded, tmp_path / "odd.csv", "--text-column", "label", "--out", out)
    assert status == 2
    assert "stand in a column called 'label'" in " ".join(err.split())
    assert not out.exists()


def test_the_filled_in_sample_certifies_a_finished_guard(cli, guarded, unlabelled, write_csv, tmp_path):
    cli("to-label", guarded, unlabelled, "--out", tmp_path / "sample.csv")
    rows = rows_of(tmp_path / "sample.csv")
    labelled = write_csv("labelled.csv", *((row["text"], "negative") for row in rows))
    options = ("--labelled", labelled, "--margin", 0.5, "--confidence", 0.8, "--harm", "harmed", "--looks", 2)
    report = tmp_path / "certificate.html"
    options = (*options, "--out", tmp_path / "certified", "--report", report)
    status, out, err = cli("certify", guarded, unlabelled, *options)
    assert status == 0, err
    record = record_of(tmp_path / "certified")
    assert [record["certificate"][name] for name in ("margin", "harm", "looks")] == [0.5, "harmed", 2]
    assert record["certificate"]["sentence"].split(".")[0] in " ".join(out.split())
    assert record["debias_strength"] in record["certificate"]["certified"]
    assert record_of(guarded)["certificate"] is None  # what was read is left as it was
    page = html.unescape(report.read_text(encoding="utf-8"))
    found = record["certificate"]
    for part in (found["sentence"], found["method"], found["assumptions"], f"in {found['n_unlabelled']} unlabelled"):
        assert part in page
    assert page.count("</td><td>certified</td></tr>") == len(found["certified"]) - 1


def test_a_page_without_a_folder_says_what_is_used_and_what_would_be(cli, guarded, unlabelled, tmp_path):
    report = tmp_path / "page.html"
    status, out, err = cli("certify", guarded, unlabelled, "--margin", 0.001, "--report", report)
    assert status == 0, err
    assert "0 would take its place" in out
    page = html.unescape(report.read_text(encoding="utf-8"))
    said = "is applied at strength 1, which is not certified; 0, the base model itself, would take its place."
    assert said in page
    assert '<tr class="chosen"><th scope="row">1 (in use)' in page
    assert record_of(guarded)["debias_strength"] == 1


def test_a_page_is_not_written_into_a_guard(cli, guarded, unlabelled, tmp_path):
    before = (guarded / "guardrail.json").read_text(encoding="utf-8")
    for place in (guarded / "guardrail.json", tmp_path / "new" / "page.html"):
        options = ("--report", place, "--out", tmp_path / "new", "--overwrite")
        status, _, err = cli("certify", guarded, unlabelled, *options)
        assert status == 2
        assert "which is a guard's. Name a file elsewhere." in " ".join(err.split())
    assert (guarded / "guardrail.json").read_text(encoding="utf-8") == before


def test_a_certificate_can_only_be_looked_at(cli, guarded, unlabelled, tmp_path):
    before = set(tmp_path.rglob("*"))
    status, out, err = cli("certify", guarded, unlabelled)
    assert status == 0, err
    assert "strength" in out
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("to-label", "MODEL", "DATA", "--out", "x.csv"), "is no folder that fit wrote"),
        (("to-label", "GUARD", "DATA", "--out", "x.txt"), "--out must end in .csv, .tsv or .jsonl"),
        (("certify", "GUARD", "DATA", "--margin", 1.5), "margin must lie between 0 and 1"),
        (("certify", "GUARD", "DATA", "--looks", 0), "looks must be at least 1"),
        (("certify", "GUARD", "DATA", "--labelled", "EMPTY"), "label"),
        (("certify", "GUARD", "DATA", "--out", "GUARD", "--overwrite"), "is also what the command reads"),
    ],
)
def test_certifying_refuses(cli, guarded, model_folder, unlabelled, write_csv, arguments, sentence):
    empty = write_csv("empty.csv", ("good soup", ""), ("bad soup", "negative"))
    places = {"MODEL": model_folder, "GUARD": guarded, "DATA": unlabelled, "EMPTY": empty}
    status, _, err = cli(*(places.get(argument, argument) for argument in arguments))
    assert status == 2
    assert sentence in " ".join(err.split())
