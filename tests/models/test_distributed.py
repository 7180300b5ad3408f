"""Two processes against one: the same adapter, from the command line and in the gradient's own terms."""

import json
import shutil
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from in_processes import fits, run
from shortcut_guardrail import AuditConfig, ConfigError, RunError, ShortcutGuardrail
from shortcut_guardrail.data import MemoryTexts
from shortcut_guardrail.models import distributed as processes
from tiny_models import SHORTCUT_TEXTS

DISTILL = ("--strategy", "distill", "--shortcut", "honestly", "--set", "adapter.batch_size=8")
VARIANTS = {"uneven": (), "distill": DISTILL}


@pytest.fixture(scope="module")
def outs(model_folder, tmp_path_factory):
    """What one process and what two write, from the same command lines: a folder each."""
    place = tmp_path_factory.mktemp("processes")
    labelled = [{"text": f"{text} {i}", "label": i % 2} for i in range(150) for text in SHORTCUT_TEXTS[:8]]
    rows = {"few": [{"text": text} for text in SHORTCUT_TEXTS], "some": labelled[:40], "every": labelled}
    for name, of in rows.items():
        (place / f"{name}.jsonl").write_text("\n".join(map(json.dumps, of)), encoding="utf-8")
    few, some, every = (str(place / f"{name}.jsonl") for name in rows)
    for n in (1, 2):
        (out := place / str(n)).mkdir()
        audit = ["audit", str(model_folder), some, "--shard-size", "10", "--out"]
        audits = [[*audit, str(out / unit), "--unit", unit] for unit in ("word", "token")]
        scored = ["evaluate", str(model_folder), every, "--sensitivity", "150", "--json", str(out / "scores.json")]
        predict = ["predict", str(model_folder), every, "--out", str(out / "predictions.csv")]
        run(n, [*fits(model_folder, few, out, VARIANTS), scored, *audits, predict])
    yield [place / "1", place / "2"]
    shutil.rmtree(place)


def test_two_processes_train_the_adapter_that_one_trains(outs):
    for variant in VARIANTS:
        one, two = (load_file(out / variant / "adapter_model.safetensors") for out in outs)
        assert one.keys() == two.keys()
        for name, tensor in one.items():
            torch.testing.assert_close(tensor, two[name], rtol=1e-3, atol=1e-6)
        assert any(tensor.abs().max() > 1e-4 for name, tensor in one.items() if "lora_B" in name)
        losses = [json.loads((out / variant / "guardrail.json").read_text())["training"]["losses"] for out in outs]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize(
    ("gpus", "rank", "world", "local", "taken", "backend"),
    [
        *[(0, 1, 2, None, [], "gloo"), (1, 1, 2, None, [0], "gloo"), (2, 2, 3, None, [0], "gloo")],
        *[(2, 1, 2, None, [1], "cpu:gloo,cuda:nccl"), (2, 3, 4, (1, 2), [1], "cpu:gloo,cuda:nccl")],
    ],
)
def test_processes_that_have_to_share_a_gpu_talk_without_nccl(monkeypatch, gpus, rank, world, local, taken, backend):
    names, values = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"), (rank, world, *(local or ()))
    for name in names:
        monkeypatch.delenv(name, raising=False)
    for name, value in zip(names, values, strict=False):
        monkeypatch.setenv(name, str(value))
    chosen = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert (processes._backend(), chosen) == (backend, taken)


SECONDS = '"seconds": '


def test_two_processes_audit_predict_and_score_as_one_does(outs):
    """To the last bit, in more texts than are predicted at once."""
    found = []
    for out in outs:
        files = [*sorted(out.glob("*/*.jsonl")), *sorted(out.glob("*/*.npz")), out / "predictions.csv"]
        texts = [out / "scores.json", *sorted(out.glob("*/audit.json"))]
        said = [line for file in texts for line in file.read_text().splitlines() if SECONDS not in line]
        found.append(([file.read_bytes() for file in files], [line.replace(str(out), "") for line in said]))
        assert not list(out.glob("*.partial"))
    assert len(found[0][0]) > 3
    assert found[0] == found[1]


def test_what_other_processes_do_not_do_is_said(bert, monkeypatch, tmp_path):
    guard, source = ShortcutGuardrail(*bert), MemoryTexts([f"{SHORTCUT_TEXTS[0]} {i}" for i in range(40)], name="t")
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    monkeypatch.setattr(dist, "barrier", lambda: None)
    monkeypatch.setattr(dist, "all_gather_object", lambda parts, done: parts.__setitem__(slice(None), [done, []]))
    with pytest.raises(ConfigError, match=r"several processes cannot share them\. Set unit='word'"):
        guard.audit_in_shards(source, tmp_path / "phrases")
    words = AuditConfig(unit="word", shard_size=10)
    with pytest.raises(RunError, match=r"2 shards of another process cannot be found in .*shard-000001"):
        guard.audit_in_shards(source, tmp_path / "words", config=words)
    assert sorted(file.name for file in (tmp_path / "words").glob("*.npz")) == ["shard-000000.npz", "shard-000002.npz"]

    monkeypatch.setattr(dist, "all_gather_object", lambda parts, own: parts.__setitem__(slice(None), [own, ["other"]]))
    for answer in (guard.predict, lambda texts: guard.evaluate(texts, [0, 1])):
        with pytest.raises(RunError, match=r"The processes do not have the same model\. Give all the same"):
            answer(SHORTCUT_TEXTS[:2])
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    first = [SimpleNamespace(chosen="mask")]
    monkeypatch.setattr(dist, "all_gather_object", lambda parts, _: parts.__setitem__(slice(None), [first, []]))
    with pytest.raises(RunError, match=r"elsewhere' of the first process is not there for another\. All processes"):
        guard.audit_in_shards(source, tmp_path / "elsewhere", config=words)

    def closed(*_):
        raise RuntimeError("Connection closed by peer")

    for broken in ("barrier", "all_gather_object"):
        monkeypatch.setattr(dist, broken, closed)
        with pytest.raises(RunError, match="Another of the processes ended too early"):
            guard.audit_in_shards(source, tmp_path / "words", config=words, resume=True)


def test_a_process_that_never_comes_is_waited_for_a_while_only(monkeypatch):
    monkeypatch.setattr(processes, "_LONGEST_START", timedelta(seconds=1))
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RunError, match="The 2 processes that are to work together did not find each other"):
        processes.joined().__enter__()


COMMANDS = {
    "audit": ("--out", "audit"),
    "compare": (),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_other_commands_do_not_do_the_same_work_in_several_processes(command, refused, monkeypatch, write_csv):
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = refused(command, "model", write_csv("texts.csv", ("good", "a")), *COMMANDS[command])
    what = "An audit in one piece" if command == "audit" else f"'{command}'"
    assert f"{what} is done by one process, but this is one of several" in said
    assert said.rstrip().endswith("--unit word." if command == "audit" else "Start it by itself.")
