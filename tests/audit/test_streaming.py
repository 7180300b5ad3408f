"""Audits in shards: the same numbers as in one piece, resumed where they stopped, damaged parts noticed."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from shortcut_guardrail import AuditConfig, ConfigError, DataError, GuardrailWarning, RunError, ShortcutGuardrail
from shortcut_guardrail.audit.measurements import Shard
from shortcut_guardrail.audit.streaming import MANIFEST
from shortcut_guardrail.data.sources import FileTexts, MemoryTexts
from shortcut_guardrail.models.classifier import TextClassifier
from tiny_models import SHORTCUT_TEXTS

CONFIG = AuditConfig(unit="word", top_k=4, min_count=5, shard_size=10)
WORDS = ("good", "bad", "soup", "room", "awful", "tea", "great")
TEXTS = [f"{'honestly ' * (i % 3 == 0)}the {WORDS[i % 7]} {WORDS[i % 5]} was {WORDS[i % 4]}" for i in range(35)]


@pytest.fixture
def guard(bag):
    return ShortcutGuardrail(*bag, batch_size=8)


def plain(report):
    """The report's numbers, rounded where the order of a sum shows."""

    def rounded(value):
        if isinstance(value, dict):
            return {key: rounded(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [rounded(inner) for inner in value]
        return round(value, 5) if isinstance(value, float) else value

    return rounded(report.to_dict())


@pytest.mark.parametrize("unit", ["token", "word", "phrase"])
def test_shards_give_what_one_piece_gives(guard, tmp_path, unit):
    config = AuditConfig(unit=unit, top_k=4, min_count=5, shard_size=10)
    texts = [*TEXTS, TEXTS[0], TEXTS[3], TEXTS[3]]
    audited = guard.audit_in_shards(MemoryTexts(texts), tmp_path / "partial", config=config)
    assert audited.n_shards == 4
    assert plain(audited.report) == plain(guard.audit(texts, config=config))


def test_labels_come_along(guard, tmp_path):
    labels = ["positive" if i % 2 else "negative" for i in range(len(TEXTS))]
    audited = guard.audit_in_shards(MemoryTexts(TEXTS, labels), tmp_path / "partial", config=CONFIG)
    assert plain(audited.report) == plain(guard.audit(TEXTS, labels=labels, config=CONFIG))
    assert audited.report.candidates[0].labelled is not None


def test_a_text_that_repeats_across_shards_is_computed_once(guard, tmp_path, monkeypatch):
    seen = []
    encode = TextClassifier.encode
    monkeypatch.setattr(
        TextClassifier, "encode", lambda self, texts, **o: (seen.extend(texts), encode(self, texts, **o))[1]
    )
    texts = [TEXTS[0]] * 25 + TEXTS[:7]
    audited = guard.audit_in_shards(MemoryTexts(texts), tmp_path / "partial", config=CONFIG)
    # Of the second shard, which holds nothing but repeats, the first text is computed once more, with weight 0.
    # Cards read the distinct texts once more.
    assert len(seen) == 7 + 1 + 7
    assert audited.report.n == 32
    assert audited.report.n_distinct == 7
    honestly = next(c for c in audited.report.candidates if c.text == "honestly")
    assert (honestly.count, honestly.n_distinct) == (26 + 2, 3)


def test_every_input_has_its_line(guard, tmp_path):
    texts = [*TEXTS[:12], TEXTS[1], *TEXTS[12:14], TEXTS[0]]
    audited = guard.audit_in_shards(MemoryTexts(texts), tmp_path / "partial", config=CONFIG)
    lines = list(audited.inputs())
    assert [line["index"] for line in lines] == list(range(16))
    assert lines[12] == {"index": 12, "same_as": 1}
    assert lines[15] == {"index": 15, "same_as": 0}
    in_memory = guard.audit(texts, config=CONFIG)
    assert lines[5]["label"] == in_memory.input_to_dict(5)["label"]
    tokens = [token["text"] for token in lines[5]["important_tokens"]]
    assert tokens == [token.text for token in in_memory.important_tokens(5)]


def test_an_interrupted_audit_goes_on_where_it_stopped(guard, tmp_path, monkeypatch):
    folder = tmp_path / "partial"

    def stop_after_two(stage, done, n):
        if stage == "Auditing" and done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, progress=stop_after_two)
    assert sorted(path.name for path in folder.glob("shard-*")) == ["shard-000000.npz", "shard-000001.npz"]
    with pytest.raises(ConfigError) as error:
        guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG)
    assert str(error.value) == (
        f"'{folder}' holds an unfinished audit. Go on with it with resume=True, or remove the folder."
    )
    seen = []
    encode = TextClassifier.encode
    monkeypatch.setattr(
        TextClassifier, "encode", lambda self, texts, **o: (seen.extend(texts), encode(self, texts, **o))[1]
    )
    resumed = guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, resume=True)
    assert seen[: len(TEXTS) - 20] == TEXTS[20:]
    assert sorted(seen[len(TEXTS) - 20 :]) == sorted(set(TEXTS))
    assert plain(resumed.report) == plain(guard.audit(TEXTS, config=CONFIG))


def test_the_size_of_shards_need_not_be_said_again(guard, tmp_path):
    guard.audit_in_shards(MemoryTexts(TEXTS), tmp_path / "partial", config=CONFIG)
    config = AuditConfig(unit="word", top_k=4, min_count=5)
    assert guard.audit_in_shards(MemoryTexts(TEXTS), tmp_path / "partial", config=config, resume=True).n_shards == 4
    # The partner: without anything to resume it is the default.
    assert guard.audit_in_shards(MemoryTexts(TEXTS), tmp_path / "other", config=config, resume=True).n_shards == 1


def test_a_full_disk_keeps_what_is_finished(guard, tmp_path, monkeypatch):
    import errno

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    folder = tmp_path / "partial"
    guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG)
    (folder / "shard-000002.npz").unlink()
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RunError, match=r"shard-000002\.npz' could not be written: the disk is full\..*resume=True"):
        guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, resume=True)
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, *(f"shard-00000{i}.npz" for i in (0, 1, 3))]


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-7], lambda content: content[:80] + b"x" + content[81:], lambda _: b""]
)
def test_a_damaged_shard_is_noticed_and_computed_again(guard, tmp_path, damage):
    folder = tmp_path / "partial"
    first = guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG)
    file = folder / "shard-000001.npz"
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    with pytest.raises(DataError, match=r"shard-000001\.npz' is damaged"):
        Shard.from_file(file)
    with pytest.warns(GuardrailWarning, match=r"shard-000001\.npz' is damaged.*It is computed again"):
        again = guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, resume=True)
    assert plain(again.report) == plain(first.report)
    assert len(Shard.from_file(file)) == 10


def test_a_damaged_manifest_and_leftovers_of_no_audit(guard, tmp_path):
    folder = tmp_path / "partial"
    guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG)
    (folder / MANIFEST).write_text("{")
    with pytest.raises(ConfigError, match=r"partial-audit\.json.*and start again"):
        guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, resume=True)
    (folder / MANIFEST).unlink()
    (folder / "shard-000000.npz").write_bytes(b"of another audit")
    guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, resume=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"texts": TEXTS[:-1]}, "the texts, the number of texts"),
        ({"texts": [*TEXTS[:-1], "other"]}, "the texts"),
        ({"config": AuditConfig(unit="token", top_k=4, min_count=5, shard_size=10)}, "unit, top_k or gradient"),
        ({"config": AuditConfig(unit="word", top_k=4, min_count=5, shard_size=11)}, "shard_size"),
        ({"strength": 1.0}, "the model"),
    ],
)
def test_shards_of_something_else_are_refused(guard, tmp_path, change, said):
    from tiny_models import planted_bag

    folder = tmp_path / "partial"
    guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG)
    if "strength" in change:
        guard = ShortcutGuardrail(*planted_bag(strength=3.0), batch_size=8)
    source = MemoryTexts(change.get("texts", TEXTS))
    with pytest.raises(ConfigError, match=f"differs in {said}. Start it again with what it was started with"):
        guard.audit_in_shards(source, folder, config=change.get("config", CONFIG), resume=True)


def test_only_how_shards_are_read_may_change(guard, tmp_path):
    guard.audit_in_shards(MemoryTexts(TEXTS), tmp_path / "partial", config=CONFIG)
    other = AuditConfig(unit="word", top_k=4, min_count=3, fdr=0.2, shard_size=10)
    read = guard.audit_in_shards(MemoryTexts(TEXTS), tmp_path / "partial", config=other, resume=True).report
    assert (read.fdr, plain(read)) == (0.2, plain(guard.audit(TEXTS, config=other)))


def test_a_text_of_special_tokens_is_named_by_its_number(guard, tmp_path):
    texts = [*TEXTS[:12], "[MASK]", *TEXTS[12:]]
    with pytest.raises(DataError, match=r"\(text 13\)"):
        guard.audit_in_shards(MemoryTexts(texts), tmp_path / "partial", config=CONFIG)


# Files


def write(path: Path, rows, header=("text", "label")) -> Path:
    import csv

    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([header, *rows])
    elif path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({name: [row[i] for row in rows] for i, name in enumerate(header)}), path)
    else:
        lines = (json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False) for row in rows)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_files_are_read_in_pieces(tmp_path, suffix):
    rows = [(f'text {i}, "quoted"\nand a second line ’', "positive" if i % 2 else "negative") for i in range(2500)]
    source = FileTexts(write(tmp_path / f"data{suffix}", rows), label_column="label")
    chunks = list(source.chunks())
    assert [len(texts) for texts, _ in chunks] == [1024, 1024, 452]
    assert [text for texts, _ in chunks for text in texts] == [text for text, _ in rows]
    assert [label for _, labels in chunks for label in labels] == [label for _, label in rows]
    # The partner: labels are read only where they are asked for.
    assert all(labels is None for _, labels in FileTexts(tmp_path / f"data{suffix}").chunks())


def test_a_long_field_is_read_and_the_limit_of_the_process_is_left(tmp_path):
    before = csv.field_size_limit()
    long = "soup " * 40_000
    (source,) = FileTexts(write(tmp_path / "data.csv", [(long, "positive")])).chunks()
    assert source[0] == [long]
    assert csv.field_size_limit() == before


def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path):
    for name, content, said in (
        ("a.csv", "one,two\nx,y\n", "no column is clearly the text"),
        ("b.csv", "text,label\n" + "x,1\n" * 500 + "x\n", r"b.csv, line 502: 1 field where the header names 2 fields"),
        ("c.csv", "text,label\n" + "x,1\n" * 500 + " ,1\n", r"c.csv, line 502: the text in column 'text' is empty"),
        ("d.csv", "text,label\n" + "x,1\n" * 500 + "x,\n", r"d.csv, line 502: the label in column 'label' is empty"),
        ("e.jsonl", '{"text": "x", "label": 1}\n' * 500 + "{\n", r"e.jsonl, line 501: not a JSON object"),
        (
            "f.jsonl",
            '{"text": "x", "label": 1}\n' * 500 + "[]\n",
            r"f.jsonl, line 501: a list, but each line must be a JSON object",
        ),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=said):
            list(FileTexts(tmp_path / name, label_column="label" if "label" in content else None).chunks())
    (tmp_path / "g.csv").write_bytes(b"text,label\n" + b"x,1\n" * 5000 + b"\xff,1\n")
    with pytest.raises(DataError, match=r"g.csv, line 5002: byte 0xff is not UTF-8"):
        list(FileTexts(tmp_path / "g.csv").chunks())
    with pytest.raises(DataError, match="only files with the suffix"):
        FileTexts(tmp_path / "a.txt")
    with pytest.raises(DataError, match="There is no file"):
        FileTexts(tmp_path / "nowhere.csv")


# The command


def test_the_command_in_shards(cli, model_folder, write_csv, tmp_path):
    data = write_csv("data.csv", *((text, "x") for text in [*SHORTCUT_TEXTS, *TEXTS]))
    out = tmp_path / "out"
    status, printed, err = cli(
        "audit", model_folder, data, "--unit", "word", "--shard-size", 10, "--fdr", 0.1, "--out", out
    )
    assert (status, not (tmp_path / "out.partial").exists()) == (0, True), err
    report = json.loads((out / "audit.json").read_text())
    assert (report["n"], report["unit"], report["fdr"]) == (43, "word", 0.1)
    lines = (out / "important_tokens.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in lines] == list(range(43))
    assert "Auditing: 43 done in" in err
    assert "report.html" in printed


@pytest.mark.slow
def test_a_killed_command_is_resumed(model_folder, write_csv, tmp_path):
    """A real process, killed without warning in the middle of its work."""
    data = write_csv("data.csv", *((f"{text} {i}", "x") for i in range(60) for text in SHORTCUT_TEXTS))
    out, partial = tmp_path / "out", tmp_path / "out.partial"
    command = [sys.executable, "-m", "shortcut_guardrail.cli.main", "audit", model_folder, data]
    command += ["--shard-size", "20", "--batch-size", "4", "--out", out]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(list(map(str, command)), env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while len(list(partial.glob("shard-*.npz"))) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finished = len(list(partial.glob("shard-??????.npz")))
    assert 2 <= finished < 24
    assert not out.exists()
    resumed = subprocess.run([*map(str, command), "--resume"], env=environment, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads((out / "audit.json").read_text())["n"] == 480
    assert not partial.exists()


def test_ctrl_c_says_how_to_go_on(cli, model_folder, write_csv, tmp_path, monkeypatch):
    from shortcut_guardrail.audit import streaming

    written = []
    write_shard = streaming._write_shard

    def interrupt(path, shard):
        if written:
            raise KeyboardInterrupt
        written.append(path)
        write_shard(path, shard)

    monkeypatch.setattr(streaming, "_write_shard", interrupt)
    data = write_csv("data.csv", *((text, "x") for text in TEXTS))
    status, _, err = cli("audit", model_folder, data, "--shard-size", 10, "--out", tmp_path / "out")
    assert status == 130
    assert f"What is finished is kept in '{tmp_path / 'out.partial'}'; the same command with --resume goes on" in err
    assert not (tmp_path / "out").exists()


def test_conditions_and_redaction(cli, model_folder, write_csv, tmp_path):
    data = write_csv("data.csv", *((text, "x") for text in SHORTCUT_TEXTS))
    status, _, err = cli("audit", model_folder, data, "--fail-if", "mstps >= 0", "--redact", "--out", tmp_path / "out")
    assert status == 1
    assert "mstps" in err
    for name in ("audit.json", "report.html", "important_tokens.jsonl"):
        assert SHORTCUT_TEXTS[0] not in (tmp_path / "out" / name).read_text()
    out = tmp_path / "shards"
    for options in ((), ("--redact", "--overwrite")):
        assert cli("audit", model_folder, data, "--shard-size", 10, "--out", out, *options)[0] == 0
        lines = [json.loads(line) for line in (out / "important_tokens.jsonl").read_text().splitlines()]
        assert [bool(line["important_tokens"]) for line in lines] == [not options] * len(SHORTCUT_TEXTS)
    status, _, err = cli("audit", model_folder, data, "--fail-if", "mstps > 1", "--out", tmp_path / "fine")
    assert (status, SHORTCUT_TEXTS[0] in (tmp_path / "fine" / "audit.json").read_text()) == (0, True), err


def test_labels_of_all_shards_are_read_in_one_way(bag, tmp_path):
    model, tokenizer = bag
    names = dict(model.config.id2label)
    model.config.id2label = {i: str(i + 1) for i in names}  # where ids and names could be mistaken for each other
    try:
        guard = ShortcutGuardrail(model, tokenizer, batch_size=8)
    finally:
        model.config.id2label = names
    labels = ["1"] * 20 + ["0"] * 15  # "0" is no name, so these are ids; the first two shards alone look like names
    audited = guard.audit_in_shards(MemoryTexts(TEXTS, labels), tmp_path / "partial", config=CONFIG)
    assert np.concatenate([shard.labels for shard in audited.shards()]).tolist() == [
        int(labels[row]) for shard in audited.shards() for row in shard.rows
    ]
    assert plain(audited.report) == plain(guard.audit(TEXTS, labels=labels, config=CONFIG))
    with pytest.raises(ConfigError, match="the labels"):
        guard.audit_in_shards(MemoryTexts(TEXTS, labels[::-1]), tmp_path / "partial", config=CONFIG, resume=True)


def test_a_misspelt_label_is_refused_before_anything_is_computed(guard, tmp_path):
    labels = ["positive"] * (len(TEXTS) - 1) + ["positiv"]
    with pytest.raises(DataError, match=r"^the file, row 35: .*'positiv'.*Did you mean 'positive'"):
        guard.audit_in_shards(MemoryTexts(TEXTS, labels, name="the file"), tmp_path / "partial", config=CONFIG)
    assert not (tmp_path / "partial").exists()


def test_labels_on_the_command_line(ok, refused, model_folder, write_csv, tmp_path):
    data = write_csv("data.csv", *((text, "mixed") for text in SHORTCUT_TEXTS))
    ok("audit", model_folder, data, "--label-column", "label", "--out", tmp_path / "out")
    candidates = json.loads((tmp_path / "out" / "audit.json").read_text())["candidates"]
    assert candidates[0]["labelled"]["n"] == candidates[0]["n_distinct"]
    bad = write_csv("bad.csv", *((text, "mixt") for text in SHORTCUT_TEXTS))
    said = refused("audit", model_folder, bad, "--label-column", "label", "--out", tmp_path / "bad")
    assert "Did you mean 'mixed'?" in said


def test_a_shard_survives_the_disk(guard, tmp_path):
    audited = guard.audit_in_shards(MemoryTexts(TEXTS), tmp_path / "partial", config=CONFIG)
    for shard in audited.shards():
        (tmp_path / "copy").write_bytes(shard.to_bytes())
        again = Shard.from_file(tmp_path / "copy")
        for name in shard.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(shard, name), getattr(again, name))
