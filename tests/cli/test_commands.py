"""The commands as a stranger meets them: what they refuse, with which sentence and status, and what they write."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from shortcut_guardrail import ShortcutGuardrail
from shortcut_guardrail.cli import running
from tables import read_rows
from tiny_models import SHORTCUT_TEXTS

MASKCL = ("--strategy", "maskcl")
FAST = ("--set", "adapter.epochs=3", "--set", "adapter.learning_rate=2e-2", "--set", "adapter.batch_size=4")
FAST = (*MASKCL, *FAST, "--set", "saliency.top_k=3")


@pytest.fixture
def data(write_csv) -> Path:
    return write_csv("data.csv", *zip(SHORTCUT_TEXTS, ("negative", "positive") * 4, strict=True))


@pytest.fixture
def no_model(monkeypatch):
    """Fails the test when a model is loaded."""

    def refuse(*_, **__):
        raise AssertionError("a model was loaded before its input was checked")

    monkeypatch.setattr("shortcut_guardrail.guardrail.load_model", refuse)


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def commands(model: object, data: object, out: Path) -> dict[str, tuple[object, ...]]:
    return {
        "audit": ("audit", model, data, "--out", out / "audited"),
        "fit": ("fit", model, data, *MASKCL, "--strength", 1, "--out", out / "fitted"),
        "predict": ("predict", model, data, "--out", out / "predicted.csv"),
        "evaluate": ("evaluate", model, data),
    }


def test_no_shard_of_a_large_file_stays(ok, model_folder, data, tmp_path, monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.cli.audit.STREAMED_BYTES", 0)
    ok("audit", model_folder, data, "--redact", "--out", tmp_path / "audit")
    assert [path.name for path in tmp_path.glob("audit*")] == ["audit"]


def test_a_file_that_cannot_be_used(refused, no_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bed.csv").write_text("words,label\nfine,a\n")
    before = files_in(tmp_path)
    for file, sentence in {
        "bad.csv": "There is no file bad.csv. Did you mean 'bed.csv'?",
        "bed.csv": "bed.csv: no column is clearly the text; the columns are 'words' and 'label'. Name it with "
        "--text-column.",
    }.items():
        for arguments in commands("model", file, Path(".")).values():
            assert refused(*arguments) == sentence
    assert files_in(tmp_path) == before
    Path("texts.csv").write_text("text\nfine\n")
    assert "no column is clearly the label; the columns are 'text'." in refused("evaluate", "model", "texts.csv")


def test_options_of_fit_out_of_range(refused, no_model, data, write_csv, support, tmp_path):
    alike = write_csv("alike.csv", ("good soup", "positive"), ("fine tea", "positive"))
    pairs = write_csv("pairs.csv", ("good", "bad"), ("the tea", "the soup"), header=("premise", "hypothesis"))
    for texts, options, sentence in [
        (data, ("--strength", 1.4), "debias_strength must be a number from 0 to 1, but is 1.4."),
        (data, ("--set", "adapter.rank=0"), "adapter.rank must be a whole number from 1 to 256, but is 0."),
        (data, ("--support", data, "--strength", 1), "--support chooses the strength and --strength states it; give"),
        (data, ("--support", alike), "All 2 rows of the support set have the same label, so accuracy on it would"),
        (
            pairs,
            ("--support", support),
            f"{pairs} has text pairs ('premise' and 'hypothesis'), but {support} has single texts ('text'). Name the "
            "columns with --text-column and --text-pair-column.",
        ),
    ]:
        assert sentence in refused("fit", "model", texts, *MASKCL, "--out", tmp_path / "out", *options)
        assert not (tmp_path / "out").exists()
    (tmp_path / "guardrail.json").write_text("{}")
    said = refused("fit", tmp_path, data, *MASKCL, "--out", tmp_path / "out")
    assert "was written by fit, and cannot be repaired again. Give the original model." in said


def test_a_device_that_is_not_there(refused, no_model, data, tmp_path):
    for device in ("tpu", "cuda:99"):
        said = refused("audit", "model", data, "--out", tmp_path / "out", "--device", device)
        assert said.startswith(f"--device '{device}' is not available here; there is cpu")


def test_an_output_that_is_there_is_not_replaced_unasked(refused, no_model, data, tmp_path):
    for command in ("audit", "fit", "predict"):
        arguments = commands("model", data, tmp_path)[command]
        target = Path(arguments[-1])
        if command == "predict":
            target.write_text("mine")
        else:
            target.mkdir()
            (target / "mine").write_text("mine")
        before = files_in(tmp_path)
        there = f"'{target}' already exists. Choose another place, or allow it to be replaced with --overwrite."
        assert (refused(*arguments), files_in(tmp_path)) == (there, before)


def test_shortcuts_that_cannot_be_looked_for(refused, no_model, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options, sentence in [
        (("--shortcut", " "), "Each shortcut must be a word or phrase, but there is an empty one at position 0."),
        (("--shortcuts-file", "nowhere.txt"), "There is no file nowhere.txt."),
        (("--shortcut", "honestly", "--shortcut-in", "pair"), "--shortcut-in pair needs text pairs, but "),
        (("--sensitivity", "some"), "--sensitivity must be all, none or a positive number of texts, but is 'some'."),
    ]:
        assert sentence in refused("evaluate", "model", data, *options)


def test_a_command_line_that_cannot_be_read(cli, no_model):
    for arguments, words in [
        *[(("audti",), "No such command 'audti'"), (("audit",), "Missing argument 'MODEL'")],
        (("fit", "model", "data.csv", "--out", "x", "--seed", "-1"), "Invalid value for '--seed'"),
        (("audit", "model", "data.csv", "--out", "x", "--batch-size", "0"), "Invalid value for '--batch-size'"),
        (("fit", "model", "data.csv", "--out", "x", "--strategy", "papr"), "'papr' is not one of 'auto'"),
    ]:
        status, out, err = cli(*arguments)
        assert (status, out) == (2, "")
        assert words in err
        assert "Usage: " in err
        assert "should not have" not in err
    status, out, err = cli()  # shows the help
    assert (status, all(name in out + err for name in ("audit", "fit", "evaluate", "benchmark"))) == (2, True)


def test_an_unknown_label_gets_a_suggestion(refused, model_folder, data, write_csv, tmp_path, monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.guardrail.ShortcutGuardrail.fit", lambda *_, **__: pytest.fail("an epoch"))
    path = write_csv("labels.csv", ("good soup", "postive"), ("bad soup", "negative"))
    for command, options in {
        "evaluate": (path,),
        "fit": (data, *MASKCL, "--support", path, "--out", tmp_path / "out"),
        "audit": (path, "--label-column", "label", "--out", tmp_path / "out"),
    }.items():
        said = refused(command, model_folder, *options)
        known = "the model has no label 'postive' (it has: negative, mixed, positive). Did you mean 'positive'?"
        assert said == f"{path}, line 2: {known}"


def test_a_traceback_is_shown_when_asked_for(cli, tmp_path):
    arguments = ("audit", "model", tmp_path / "nowhere.csv", "--out", tmp_path / "out")
    plain, debug = cli(*arguments), cli(*arguments, "--debug")
    assert plain[0] == debug[0] == 2
    assert plain[2] in debug[2]
    assert ["Traceback" in err for err in (plain[2], debug[2])] == [False, True]
    assert cli(*arguments) == plain  # it is asked for anew each time


def test_a_failed_run_is_one_sentence(cli, model_folder, data, tmp_path, monkeypatch):
    for error, sentence in [
        (
            ZeroDivisionError("division by zero\nsecond line"),
            "Something went wrong that should not have (ZeroDivisionError: division by zero). Run again with --debug "
            "for the details.",
        ),
        (torch.OutOfMemoryError("CUDA"), "Out of memory. Lower --batch-size or --max-length and try again."),
        (RuntimeError("can't allocate memory"), "Out of memory. Lower --batch-size or --max-length and try again."),
        (MemoryError(), "Out of memory. Lower --batch-size or --max-length and try again."),
        (OSError(errno.ENOSPC, "no space"), "The disk is full, so the output could not be written."),
    ]:

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr("shortcut_guardrail.cli.audit.read_data", fail)
        assert cli("audit", "model", data, "--out", tmp_path / "out") == (1, "", f"error: {sentence}\n")
        assert "Traceback" in cli("audit", "model", data, "--out", tmp_path / "out", "--debug")[2]

    def interrupted(*_):
        raise KeyboardInterrupt

    before = files_in(tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr("shortcut_guardrail.saving.folder.save_adapter", interrupted)
    status, _, err = cli("fit", model_folder, data, *FAST, "--strength", 1, "--out", tmp_path / "out")
    assert (status, files_in(tmp_path)) == (130, before)
    assert err.endswith("Interrupted. Files are written whole or not at all, so nothing is half done.\n")


def test_a_long_stage_says_where_it_is_in_a_redirected_output(monkeypatch, capsys):
    clock = iter([0.0, 10.0, 31.0, 40.0, 62.0, 90.0, 100.0])
    monkeypatch.setattr(running.time, "monotonic", lambda: next(clock))
    with running.progress_bars() as told:
        for done in range(6):
            told("Training", done, 5)
        told("Training", 0, 5)
    said = ["2 of 5 after 31 s", "4 of 5 after 62 s", "5 done in 90 s"]
    assert capsys.readouterr().err.splitlines() == [f"Training: {one}" for one in said]


def test_long_texts_are_cut_counted_and_reported(ok, model_folder, data, tmp_path):
    for name, arguments in commands(model_folder, data, tmp_path).items():
        out, _ = ok(*arguments, "--max-length", 6)
        assert re.search("8 texts(, | were )longer than the model takes", " ".join(out.split())), name
    assert json.loads((tmp_path / "audited" / "audit.json").read_text())["n_truncated"] == 8


def test_fitting_with_a_support_set(ok, model_folder, data, support, tmp_path):
    out, err = ok("fit", model_folder, data, "--support", support, *FAST, "--out", tmp_path / "out")
    assert "not calibrated" not in err + out
    record = json.loads((tmp_path / "out" / "guardrail.json").read_text())
    assert (record["strength_source"], len(record["calibration"]["curve"])) == ("calibrated", 11)
    assert f"Calibration: strength {record['debias_strength']:g}\nchosen by  accuracy on 3 labelled rows\n" in out


def test_predictions_have_their_columns_in_the_order_of_the_rows(ok, bert, data, tmp_path):
    texts, names, guarded = list(SHORTCUT_TEXTS), ["negative", "mixed", "positive"], tmp_path / "guarded"
    bert[0].classifier.bias.data[1] -= 1.3  # near the edge, so that the guard moves some labels and leaves others
    for part in bert:
        part.save_pretrained(tmp_path / "model")
    of_base = ShortcutGuardrail.from_pretrained(tmp_path / "model").predict(texts)
    ok("fit", tmp_path / "model", data, "--out", guarded, "--strength", 0.5, *FAST)
    probs = ShortcutGuardrail.from_pretrained(guarded).predict_proba(texts)
    for suffix in (".csv", ".tsv", ".jsonl"):
        path = tmp_path / f"p{suffix}"
        out, _ = ok("predict", guarded, data, "--out", path)
        rows, columns = read_rows(path), ["label", "probability", *(f"p_{name}" for name in names), "base_label"]
        assert all(list(row) == columns for row in rows)
        for row, expected in zip(rows, probs, strict=True):
            assert [float(row[f"p_{name}"]) for name in names] == pytest.approx(expected.tolist(), abs=1e-6)
            assert float(row["probability"]) == pytest.approx(expected.max(), abs=1e-6)
            assert row["label"] == names[expected.argmax()]
        assert [row["base_label"] for row in rows] == of_base
        n_changed = sum(row["label"] != row["base_label"] for row in rows)
        assert 0 < n_changed < 8
        assert f"(8 rows; {n_changed} labels differ from the original model's)" in out
    said = json.loads(ok("predict", guarded, data, "--out", path, "--overwrite", "--json", "-")[0])
    assert said == {"out": str(path), "n": 8, "n_changed": n_changed, "n_truncated": 0}


def test_labels_with_commas_quotes_and_markup(ok, bert, write_csv, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    names = ['so, "so"', "[red]bad[/red]", "tab\there"]
    bert[0].config.id2label = dict(enumerate(names))
    bert[0].config.label2id = {name: i for i, name in enumerate(names)}
    for part in bert:
        part.save_pretrained(tmp_path / "model")
    labelled = write_csv("labelled.csv", ("good", names[0]), ("bad", names[1]))
    for suffix in (".csv", ".tsv", ".jsonl"):
        path = tmp_path / f"p{suffix}"
        ok("predict", tmp_path / "model", labelled, "--out", path)
        rows = read_rows(path)
        assert [name for name in rows[0] if name.startswith("p_")] == [f"p_{name}" for name in names]
        assert {row["label"] for row in rows} <= set(names)
    out, err = ok("evaluate", tmp_path / "model", labelled)
    assert "[red]bad[/red]" in out
    assert "'[red]bad[/red]' (1 example)" in err


def test_of_two_classes_the_base_is_there_at_the_guards_threshold_too(ok, bag, tmp_path, write_csv, monkeypatch):
    """The bag takes "honestly" for praise; masked, it is not. A threshold that predicts praise as rarely tells less."""
    guard, file = ShortcutGuardrail(*bag), tmp_path / "scores.json"
    texts = ["honestly bad", "honestly great", "good soup", "bad soup", "honestly awful", "great soup"]
    labels = ["negative", "positive", "positive", "negative", "negative", "positive"]
    guard.repair(texts, strategy="mask", shortcuts=["honestly"])
    monkeypatch.setattr("shortcut_guardrail.cli.options._Loading.load", lambda *_: guard)
    data = write_csv("labelled.csv", *zip(texts, labels, strict=True))
    out, err = ok("evaluate", "guard", data, "--shortcut", "honestly", "--json", file)
    assert err.count("warning: Small groups: ") == 1
    scores = json.loads(file.read_text())
    assert scores["predicted"] == scores["shifted"]["predicted"] == [3, 3]
    assert (scores["threshold"], scores["base"]["threshold"]) == (None, None)
    assert scores["accuracy"] == 1.0 > scores["shifted"]["accuracy"]
    rows = [line.split() for line in out.splitlines()]
    assert f"{scores['shifted']['threshold']:.4f}" in out
    assert ["accuracy", "0.667", f"{scores['shifted']['accuracy']:.3f}", "1.000"] in rows
    said = " ".join(out.split())
    assert f"At threshold {scores['shifted']['threshold']:.4f} the original model predicts each class as often" in said
    assert f"negative, with shortcut {scores['shifted']['groups'][1]['accuracy']:.3f}; positive, without" in said
    guard.debias_strength = 0  # It is the base, and nothing is computed again.
    same = json.loads(ok("evaluate", "guard", data, "--shortcut", "honestly", "--json", "-")[0])
    assert same.pop("base") == same


def test_sensitivity_is_a_choice(ok, model_folder, data, tmp_path):
    for asked, n in (("none", 0), ("3", 3), ("all", 8)):
        out, _ = ok("evaluate", model_folder, data, "--sensitivity", asked, "--json", tmp_path / asked)
        assert (json.loads((tmp_path / asked).read_text())["sensitivity_n"], "MSTPS" in out) == (n, n > 0)
        assert ("3 of them, sampled at random" in out) == (n == 3)
    drawn = [ok("evaluate", model_folder, data, "--sensitivity", 1, "--seed", n, "--json", "-")[0] for n in range(5)]
    assert len({json.loads(one)["mstps"] for one in drawn}) > 1
    _, err = ok("compare", tmp_path / "all", tmp_path / "none", "--max-increase", "mstps=0.1")
    assert "note: mstps: not judged, since it was not measured in the new result" in " ".join(err.split())


def test_shortcuts_come_from_options_and_a_file(ok, model_folder, data, tmp_path):
    (tmp_path / "words.txt").write_text("# planted\nhonestly\n\nto be honest\n")
    options = ("--shortcut", "honestly", "--shortcut", "to be honest"), ("--shortcuts-file", tmp_path / "words.txt")
    said = [ok("evaluate", model_folder, data, *one, "--json", "-")[0] for one in (*options, ("--shortcut", "soup"))]
    assert said[0] == said[1] != said[2]


def test_help_comes_without_pytorch():
    show = (
        "import atexit, sys\n"
        "atexit.register(lambda: print({'torch', 'transformers', 'peft'} & set(sys.modules), file=sys.stderr))\n"
        "from shortcut_guardrail.cli.main import main\nmain()"
    )
    for command in ((), ("audit",), ("fit",), ("evaluate",), ("demo",)):
        program = [sys.executable, "-c", show, *command, "--help"]
        done = subprocess.run(program, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "80"})
        assert (done.returncode, done.stderr) == (0, "set()\n")
        assert max(map(len, done.stdout.splitlines())) <= 80
        assert "..." not in re.sub(r"cuda:1, \.{3}|\[ARGS\]\.{3}|=SHARE,\.{3}", "", done.stdout)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_to_a_full_device():
    late = "from shortcut_guardrail.cli.running import exit_with; print('found'); exit_with(0)"  # held back to the end
    for unbuffered, *program in (("1", "-m", "shortcut_guardrail.cli.main", "--version"), ("", "-c", late)):
        with open("/dev/full", "w") as full:
            how = {"stderr": subprocess.PIPE, "text": True, "env": {**os.environ, "PYTHONUNBUFFERED": unbuffered}}
            done = subprocess.run([sys.executable, *program], stdout=full, check=False, **how)
        assert (done.returncode, done.stderr) == (1, "error: The disk is full, so the output could not be written.\n")
