"""Two processes against one: the same adapter, from the command line and in the gradient's own terms."""

import json
import shutil

import pytest
import torch

from in_processes import fit
from shortcut_guardrail.models import distributed as processes
from tiny_models import SHORTCUT_TEXTS

DISTILL = ("--strategy", "distill", "--shortcut", "honestly", "--set", "adapter.batch_size=8")
VARIANTS = {"uneven": (), "distill": DISTILL}


def test_two_processes_train_the_adapter_that_one_trains(model_folder, write_csv, tmp_path):
    data = write_csv("texts.csv", *((text,) for text in SHORTCUT_TEXTS), header=("text",))
    outs = [tmp_path / str(n) for n in (1, 2)]
    one, two = (fit(model_folder, data, out, processes=int(out.name), variants=VARIANTS) for out in outs)
    for variant, adapter in one.items():
        assert adapter.keys() == two[variant].keys()
        for name, tensor in adapter.items():
            torch.testing.assert_close(tensor, two[variant][name], rtol=1e-3, atol=1e-6)
        assert any(tensor.abs().max() > 1e-4 for name, tensor in adapter.items() if "lora_B" in name)
        losses = [json.loads((out / variant / "guardrail.json").read_text())["training"]["losses"] for out in outs]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    shutil.rmtree(tmp_path)


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


@pytest.mark.parametrize("command", ["audit", "predict", "evaluate"])
def test_other_commands_do_not_do_the_same_work_in_several_processes(
    command, refused, monkeypatch, write_csv, tmp_path
):
    monkeypatch.setenv("WORLD_SIZE", "2")
    data, out = write_csv("texts.csv", ("good", "a")), () if command == "evaluate" else ("--out", tmp_path / "out.csv")
    said = refused(command, "model", data, *out)
    assert f"'{command}' is done by one process, but this is one of several" in said
