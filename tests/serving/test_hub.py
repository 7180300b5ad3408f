"""A guard goes to the Hub and comes back as it was; a stand-in on this machine is the Hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from huggingface_hub import ModelCard

from made_guards import GUARDS, TEXTS
from serving.hub_server import hub
from shortcut_guardrail import ConfigError
from shortcut_guardrail.serving import push_to_hub

# In a process of its own: huggingface_hub reads where the Hub is, and whether it may ask, once.
CLIENT = """
import json, os, sys, urllib.request
from pathlib import Path
from huggingface_hub import HfApi
from shortcut_guardrail import GuardrailError, ShortcutGuardrail
from shortcut_guardrail.serving import push_to_hub

made, kinds, texts = Path(sys.argv[1]), sys.argv[2].split(), json.load(sys.stdin)
def seen(guard):
    return [list(guard.shortcuts.words), guard.debias_strength, guard.certificate, guard.predict_proba(texts).tolist()]
def refused(call, *args):
    try:
        call(*args)
    except GuardrailError as error:
        return f"{type(error).__name__}: {error}"
found = {kind: [] for kind in kinds}
for kind in kinds:
    guard = ShortcutGuardrail.from_pretrained(made / kind)
    address = guard.push_to_hub(f"me/{kind}", text_hashes=kind != "few-shot")
    found[kind] = [seen(guard), seen(ShortcutGuardrail.from_pretrained(f"me/{kind}")), address]

plain = ShortcutGuardrail.from_pretrained("me/base")
per_input = dict(config={"per_input": True, "adapter": {"epochs": 1}}, strategy="distill", shortcuts=["honestly"])
plain.repair(texts, strength=0.5, **per_input)
plain.push_to_hub("me/again")
found["first"] = [HfApi().model_info("me/again").sha, seen(plain)]
ShortcutGuardrail.from_pretrained(made / "few-shot").export("served")
found["export"] = push_to_hub("served", "me/served")
push_to_hub(made / "few-shot", "me/again")
earlier = ShortcutGuardrail.from_pretrained("me/again", revision=found["first"][0])
found["earlier"] = seen(earlier)
again = refused(push_to_hub, "served", "me/served")
found["refused"] = [again, refused(lambda: push_to_hub("served", "me/no", token="yours"))]
urllib.request.urlopen(urllib.request.Request(os.environ["HF_ENDPOINT"] + "/stop", method="POST"))
found["down"] = [
    refused(push_to_hub, "served", "me/served"),
    refused(ShortcutGuardrail.from_pretrained, "me/unknown"),
    seen(ShortcutGuardrail.from_pretrained("me/few-shot")),
]
Path("found.json").write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def went(saved_guards, tmp_path_factory):
    """What a client of the Hub saw there, and what the Hub has afterwards."""
    folder = tmp_path_factory.mktemp("client")
    environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    with hub() as server:
        server.repos["me/base"] = [{f.name: f.read_bytes() for f in (saved_guards / "base").iterdir()}]
        server.repos["me/again"] = [{"mine.txt": b"mine"}]
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, saved_guards, " ".join(GUARDS)],
            input=json.dumps(TEXTS[:20]),
            cwd=folder,
            env=environment | {"HF_ENDPOINT": server.address, "HF_HOME": str(folder), "HF_TOKEN": "mine"},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text()), server


@pytest.mark.parametrize("kind", GUARDS)
def test_a_guard_comes_back_as_it_was(went, kind):
    found, server = went
    before, after, address = found[kind]
    assert after == before
    assert address.startswith(f"{server.address}/me/{kind}/commit/")
    assert bool(before[0]) == (kind != "few-shot")
    assert bool(before[2]) == (kind == "mask-kept-certified")
    assert server.private[f"me/{kind}"] is True


def test_its_card_says_to_the_hub_what_it_is(went, saved_guards):
    _, server = went
    cards = {
        repo.removeprefix("me/"): ModelCard(v[-1]["README.md"].decode()).data
        for repo, v in server.repos.items()
        if "README.md" in v[-1]
    }
    assert cards["few-shot"].library_name == "peft"
    assert cards["few-shot"].tags == ["shortcut-guardrail", "text-classification", "lora"]
    assert cards["few-shot"].base_model is None, "a folder of this machine is no id"
    calibration = json.loads((saved_guards / "few-shot" / "guardrail.json").read_text())["calibration"]
    expected = [point["accuracy"] for point in calibration["curve"] if point["strength"] == 0.7]
    assert [r.metric_value for r in cards["few-shot"].eval_results or []] == expected
    assert cards["mask-kept-certified"].library_name == "shortcut-guardrail"
    card = ModelCard(server.repos["me/again"][1]["README.md"].decode()).data
    assert (card.base_model, card.base_model_relation) == ("me/base", "adapter")
    assert cards["served"].library_name == "transformers"


def test_what_is_pushed_takes_the_place_of_what_was(went):
    found, server = went
    _, per_input, plain = server.repos["me/again"]
    assert {"per_input_config.json", "per_input_model.safetensors", "mine.txt"} < set(per_input)
    assert "adapter_config.json" not in per_input
    assert {"adapter_config.json", "adapter_model.safetensors", "mine.txt"} < set(plain)
    assert not {name for name in plain if name.startswith("per_input")}
    assert found["earlier"] == found["first"][1], "the guard's revision, and not the base's"
    assert len(server.repos["me/served"]) == 3
    assert found["refused"][0] is None
    assert b'"text_hashes": false' in server.repos["me/few-shot"][-1]["guardrail.json"]


def test_a_hub_that_refuses_or_does_not_answer_is_a_sentence(went, tmp_path, saved_guards):
    found, _ = went
    assert found["refused"][1].startswith("RunError: 'served' could not be put on the Hub as 'me/no': ")
    pushed, loaded, cached = found["down"]
    assert pushed.startswith("RunError: 'served' could not be put on the Hub as 'me/served': ")
    assert pushed.endswith("See whether it answers, and whether `hf auth whoami` may write there.")
    assert loaded.startswith("ModelError: There is no folder 'me/unknown' here")
    assert cached == found["few-shot"][0]
    assert "\n" not in "".join([*found["refused"][1:], pushed, loaded])
    with pytest.raises(ConfigError, match="is no folder that fit or export wrote"):
        push_to_hub(saved_guards / "base", "me/base")
