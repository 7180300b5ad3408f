"""Audits in shards: the same numbers as in one piece, resumed where they stopped, damaged parts noticed."""

import json
import pickle
import re
from dataclasses import replace

import pytest

from shortcut_guardrail import AuditConfig, ConfigError, DataError, GuardrailWarning, ShortcutGuardrail, TextClassifier
from shortcut_guardrail.audit import auditing, streaming
from shortcut_guardrail.audit.streaming import MANIFEST
from shortcut_guardrail.data.sources import MemoryTexts
from tiny_models import SHORTCUT_TEXTS, planted_bag

CONFIG = AuditConfig(unit="word", top_k=4, min_count=5, shard_size=10)
WORDS = ("good", "bad", "soup", "room", "awful", "tea", "great")
TEXTS = [f"{'honestly ' * (i % 3 == 0)}the {WORDS[i % 7]} {WORDS[i % 5]} was {WORDS[i % 4]}" for i in range(35)]


@pytest.fixture
def guard(bag):
    return ShortcutGuardrail(*bag, batch_size=8)


def plain(report):
    """The report's numbers, rounded where the order of a sum shows."""
    said = {**report.to_dict(), "seconds": None, "answers": None}  # what is read again is asked about again
    return json.loads(json.dumps(said), parse_float=lambda number: round(float(number), 5))


@pytest.mark.parametrize("unit", ["token", "word", "phrase"])
def test_shards_give_what_one_piece_gives(guard, tmp_path, unit):
    config = AuditConfig(unit=unit, top_k=4, min_count=5, shard_size=10)
    texts = [*TEXTS, TEXTS[0], TEXTS[3], TEXTS[3], TEXTS[0].upper(), f"{TEXTS[3]}!"]  # two are nearly the same
    labels = ["positive" if i % 2 else "negative" for i in range(len(texts))]
    audited = guard.audit_in_shards(MemoryTexts(texts, labels), tmp_path / "partial", config=config)
    assert (audited.n_shards, plain(audited.report)) == (4, plain(guard.audit(texts, labels=labels, config=config)))
    assert audited.report.candidates[0].labelled is not None


def test_shards_that_others_compute_in_any_order_give_the_same_bits(guard, tmp_path):
    def elsewhere(compute, shards):
        compute, *shards = pickle.loads(pickle.dumps([compute, *shards]))
        assert {len(known["repeats"].weights) for *_, known in shards} == {10, 3}  # not all of the corpus travels
        return map(compute, reversed(shards))

    texts, labels = [*TEXTS, TEXTS[0], *TEXTS[3:20]], ["positive", "negative"] * 26 + ["negative"]
    for unit in ("word", "token"):
        config, found = replace(CONFIG, unit=unit), []
        for how in (None, elsewhere):
            source, folder = MemoryTexts(texts, labels), tmp_path / f"{unit} {how}"
            audited = guard.audit_in_shards(source, folder, config=config, map_shards=how)
            files = {file.name: file.read_bytes() for file in folder.iterdir()}
            found.append((files, {**audited.report.to_dict(), "seconds": None}, [*audited.inputs()]))
        assert json.dumps(found[0][1:]) == json.dumps(found[1][1:])
        assert (found[0][0], len(found[0][0])) == (found[1][0], 7)
    said = ({"config": replace(CONFIG, unit="phrase")}, "Phrases depend"), ({"config": CONFIG}, "A segmenter does not")
    guard = ShortcutGuardrail(guard._base.model, guard._base.tokenizer, segmenter=str.split)
    for given, message in said:
        with pytest.raises(ConfigError, match=message):
            guard.audit_in_shards(MemoryTexts(texts), tmp_path / "none", map_shards=map, **given)


@pytest.fixture
def seen(monkeypatch):
    """Which texts were encoded, but for changed copies of them."""
    monkeypatch.setattr(auditing, "_with_additions", lambda report, *_: report)
    found, encode = [], TextClassifier.encode
    noted = lambda self, texts, **o: (found.extend(texts), encode(self, texts, **o))[1]  # noqa: E731
    monkeypatch.setattr(TextClassifier, "encode", noted)
    return found


def test_a_text_that_repeats_across_shards_is_computed_once(guard, tmp_path, seen):
    texts = [TEXTS[0]] * 25 + TEXTS[:7]
    audited = guard.audit_in_shards(MemoryTexts(texts), tmp_path / "partial", config=CONFIG)
    # Of the second shard, which holds nothing but repeats, the first text is computed once more, with weight 0.
    # Before, erasures are tried in the distinct texts. Cards read those once more.
    assert (len(seen), audited.report.n, audited.report.n_distinct) == (7 + 7 + 1 + 7, 32, 7)
    honestly = next(c for c in audited.report.candidates if c.text == "honestly")
    assert (honestly.count, honestly.n_distinct) == (26 + 2, 3)


def test_every_input_has_its_line(guard, tmp_path):
    texts = [*TEXTS[:12], TEXTS[1], *TEXTS[12:14], TEXTS[0]]
    audited = guard.audit_in_shards(MemoryTexts(texts), tmp_path / "partial", config=CONFIG)
    with pytest.raises(ConfigError, match="keeps nothing of single texts"):
        audited.report.important_tokens(0)
    lines = list(audited.inputs())
    assert ([line["index"] for line in lines], lines[12]) == (list(range(16)), {"index": 12, "same_as": 1})
    assert lines[15] == {"index": 15, "same_as": 0}
    # A text that holds no word twice, of which shards keep one.
    in_memory = guard.audit(texts, config=CONFIG).input_to_dict(5)
    found = {key: value for key, value in lines[5].items() if key != "agreement"}
    tokens = found.pop("important_tokens"), in_memory.pop("important_tokens")
    assert found == pytest.approx(in_memory, abs=1e-6)
    assert [pytest.approx(token, abs=1e-6) for token in tokens[0]] == tokens[1]


def test_an_interrupted_audit_goes_on_where_it_stopped(guard, tmp_path, seen):
    folder = tmp_path / "partial"

    def stop_after_two(stage, done, n):
        if stage == "Auditing" and done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, progress=stop_after_two)
    assert sorted(path.name for path in folder.glob("shard-*")) == ["shard-000000.npz", "shard-000001.npz"]
    said = f"'{folder}' holds an unfinished audit. Go on with it with resume=True, or remove the folder."
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}$"):
        guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG)
    seen.clear()
    resumed = guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, resume=True)
    del seen[: resumed.report.erasures.n]  # in which erasures are tried again
    assert (seen[: len(TEXTS) - 20], sorted(seen[len(TEXTS) - 20 :])) == (TEXTS[20:], sorted(set(TEXTS)))
    assert plain(resumed.report) == plain(guard.audit(TEXTS, config=CONFIG))


def test_phrases_of_finished_shards_are_known_to_those_that_a_resumed_audit_computes(guard, tmp_path, monkeypatch):
    texts, known, make = [f"honestly the bad soup was awful {i}" for i in range(30)], [], streaming.make_shard
    noted = lambda *a, **how: known.append(how["known_phrases"]) or make(*a, **how)  # noqa: E731
    monkeypatch.setattr(streaming, "make_shard", noted)
    config = replace(CONFIG, unit="phrase", min_count=3)
    guard.audit_in_shards(MemoryTexts(texts), tmp_path / "whole", config=config)
    first, *others = known
    assert (first, all(others)) == ((), True)

    def stop(stage, done, n):
        if stage == "Auditing" and done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guard.audit_in_shards(MemoryTexts(texts), tmp_path / "partial", config=config, progress=stop)
    known.clear()
    guard.audit_in_shards(MemoryTexts(texts), tmp_path / "partial", config=config, resume=True)
    assert known == others


def test_only_how_shards_are_read_may_change_and_their_size_need_not_be_said_again(guard, tmp_path):
    guard.audit_in_shards(MemoryTexts(TEXTS), tmp_path / "partial", config=CONFIG)
    other = AuditConfig(unit="word", top_k=4, min_count=3, fdr=0.2)
    audited = guard.audit_in_shards(MemoryTexts(TEXTS), tmp_path / "partial", config=other, resume=True)
    assert (audited.n_shards, audited.report.fdr) == (4, 0.2)
    (other_way,) = {"mask", "cut"} - {audited.report.erasure}
    for changed in ({"erasure": other_way}, {"top_k": CONFIG.top_k + 1}):
        how = {"config": replace(CONFIG, **changed), "resume": True}
        with pytest.raises(ConfigError, match="unit, top_k or erasure"):
            guard.audit_in_shards(MemoryTexts(TEXTS), tmp_path / "partial", **how)
    assert plain(audited.report) == plain(guard.audit(TEXTS, config=other))
    # The partner: without anything to resume it is the default.
    assert guard.audit_in_shards(MemoryTexts(TEXTS), tmp_path / "other", config=other, resume=True).n_shards == 1


def test_a_damaged_shard_is_noticed_and_computed_again(guard, tmp_path):
    folder = tmp_path / "partial"
    first = guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG)
    file = folder / "shard-000001.npz"
    whole = file.read_bytes()
    for damaged in (whole[:-7], whole[:80] + b"x" + whole[81:], b""):
        file.write_bytes(damaged)
        with pytest.warns(GuardrailWarning, match=r"shard-000001\.npz' is damaged.*It is computed again"):
            again = guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, resume=True)
        assert plain(again.report) == plain(first.report)
        assert [len(shard) for shard in again.shards()] == [10, 10, 10, 5]
    file.unlink()
    with pytest.raises(DataError, match=r"shard-000001\.npz' is lost"):
        list(again.shards())


def test_a_source_that_changes_while_it_is_read_is_refused_and_what_is_finished_stays(guard, tmp_path):
    class Changing(MemoryTexts):
        def chunks(self):
            self.reads.append(TEXTS if len(self.reads) < whole else other)
            yield self.reads[-1], None

    for whole, other in ((1, TEXTS[:-1]), (2, [*TEXTS, "more"]), (2, [*TEXTS[::-1]]), (3, [*TEXTS[:-1], "x"])):
        source, folder = Changing(TEXTS), tmp_path / f"{whole} {len(other)} {other[0]}"
        object.__setattr__(source, "reads", [])
        with pytest.raises(DataError, match=r"texts was changed while it was read\. Restore it and go on"):
            guard.audit_in_shards(source, folder, config=CONFIG)
        assert len([*folder.glob("*.npz")]) == (4 if whole == 3 else 0)
    assert guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, resume=True).n_shards == 4


def test_a_damaged_manifest_and_leftovers_of_no_audit(guard, tmp_path):
    folder = tmp_path / "partial"
    guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG)
    (folder / MANIFEST).write_text("{")
    with pytest.raises(ConfigError, match=r"partial-audit\.json.*and start again"):
        guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, resume=True)
    (folder / MANIFEST).unlink()
    (folder / "shard-000000.npz").write_bytes(b"of another audit")
    guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG, resume=True)


def test_shards_of_something_else_are_refused(guard, bag, tmp_path):
    folder = tmp_path / "partial"
    guard.audit_in_shards(MemoryTexts(TEXTS), folder, config=CONFIG)
    for other, texts, config, said in (
        (guard, TEXTS[:-1], CONFIG, "the texts, the number of texts"),
        (guard, [*TEXTS[:-1], "other"], CONFIG, "the texts"),
        (guard, TEXTS, replace(CONFIG, unit="token"), "unit, top_k or erasure"),
        (guard, TEXTS, replace(CONFIG, top_k=CONFIG.top_k + 1), "unit, top_k or erasure"),
        (guard, TEXTS, replace(CONFIG, shard_size=11), "shard_size"),
        (ShortcutGuardrail(*planted_bag(strength=3.0)), TEXTS, CONFIG, "the model"),
        (ShortcutGuardrail(*bag, max_length=16), TEXTS, CONFIG, "the model"),
    ):
        with pytest.raises(ConfigError, match=f"differs in {said}. Start it again with what it was started with"):
            other.audit_in_shards(MemoryTexts(texts), folder, config=config, resume=True)


def test_a_text_without_a_token_is_named_by_its_number(guard, tmp_path):
    for n, said in ((1, "13"), (5, "13, 14, 15, 16, 17"), (6, "13, 14, 15, 16, 17, ...")):
        source = MemoryTexts([*TEXTS[:12], *["\ufffd" * i for i in range(1, n + 1)], *TEXTS[12:]])
        with pytest.raises(DataError, match=rf"\(text {re.escape(said)}\)"):
            guard.audit_in_shards(source, tmp_path / "partial", config=CONFIG)


def test_ctrl_c_says_how_to_go_on(cli, model_folder, write_csv, tmp_path, monkeypatch):
    written = []
    write_shard = streaming._write_shard

    def interrupt(path, shard):
        if written:
            raise KeyboardInterrupt
        written.append(path)
        write_shard(path, shard)

    data = write_csv("data.csv", *((text, "x") for text in TEXTS))
    command = ("audit", model_folder, data, "--shard-size", 10, "--fdr", 0.1, "--out", tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(streaming, "_write_shard", interrupt)
        status, _, err = cli(*command)
    assert status == 130
    assert f"What is finished is kept in '{tmp_path / 'out.partial'}'; the same command with --resume goes on" in err
    assert not (tmp_path / "out").exists()
    status, printed, err = cli(*command, "--resume")
    assert (status, (tmp_path / "out.partial").exists()) == (0, False), err
    report = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert (report["n"], report["unit"], report["fdr"]) == (35, "phrase", 0.1)
    lines = (tmp_path / "out" / "important_tokens.jsonl").read_text().splitlines()
    assert ([json.loads(line)["index"] for line in lines], "Auditing: 35 done in" in err) == (list(range(35)), True)
    assert "report.html" in printed


def test_redaction_leaves_the_words_of_shards_out(cli, model_folder, write_csv, tmp_path):
    data = write_csv("data.csv", *((text, "mixed") for text in SHORTCUT_TEXTS))
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
    for shard in audited.shards():
        assert shard.labels.tolist() == [int(labels[row]) for row in shard.rows]
    assert plain(audited.report) == plain(guard.audit(TEXTS, labels=labels, config=CONFIG))
    with pytest.raises(ConfigError, match="the labels"):
        guard.audit_in_shards(MemoryTexts(TEXTS, labels[::-1]), tmp_path / "partial", config=CONFIG, resume=True)


def test_a_misspelt_label_is_refused_before_anything_is_computed(guard, tmp_path):
    labels = ["positive"] * (len(TEXTS) - 1) + ["positiv"]
    with pytest.raises(DataError, match=r"^the file, row 35: .*'positiv'.*Did you mean 'positive'"):
        guard.audit_in_shards(MemoryTexts(TEXTS, labels, name="the file"), tmp_path / "partial", config=CONFIG)
    assert not (tmp_path / "partial").exists()
