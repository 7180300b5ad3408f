"""A guard goes to the Hub and comes back as it was; a stand-in on this machine is the Hub."""

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
from shortcut_guardrail.serving.hub import _licensed

# In a process of its own: huggingface_hub reads where the Hub is, and whether it may ask, once.
CLIENT = """
import json, os, sys, urllib.request
from pathlib import Path
from huggingface_hub import HfApi
from shortcut_guardrail import GuardrailError, ShortcutGuardrail
from shortcut_guardrail.cli import main
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

kind, common = kinds[-1], ["--json", "said.json", "--overwrite", "--quiet"]
rows = [{"text": text, "label": label} for text, label in zip(texts[12:], ["negative", "positive"] * 4)]
Path("rows.jsonl").write_text("\\n".join(map(json.dumps, rows)))
commands = {"to-label": ["--out", "some.csv"], "certify": ["--labelled", "rows.jsonl", "--out", "certified"]}
commands |= {"export": ["--out", "exported"], "predict": ["--out", "some.csv"], "evaluate": ["--sensitivity", "none"]}
found["commands"] = {
    name: [
        [main.call([name, source, "rows.jsonl", *more, *common]), json.loads(Path("said.json").read_text())]
        for source in (str(made / kind), f"me/{kind}")
    ]
    for name, more in commands.items()
}
found["fit"] = main.call(["fit", f"me/{kind}", "rows.jsonl", "--shortcut", "honestly", "--out", "twice"])
found["no guard"] = main.call(["export", "me/base", "--out", "none"])

plain = ShortcutGuardrail.from_pretrained("me/base")
per_input = dict(config={"per_input": True, "adapter": {"epochs": 1}}, strategy="distill", shortcuts=["honestly"])
plain.repair(texts, strength=0.5, **per_input)
plain.push_to_hub("me/again")
found["first"] = [HfApi().model_info("me/again").sha, seen(plain)]
ShortcutGuardrail.from_pretrained(made / "few-shot").export("served")
found["export"] = push_to_hub("served", "me/served")
push_to_hub("served", "me/served", revision="1")
push_to_hub(made / "few-shot", "me/again", license="mit")
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

BASE_CARD = b"---\nlicense: other\nlicense_name: ours\nlicense_link: LICENSE\ndatasets: [x]\n---\n# Base\n"


@pytest.fixture(scope="module")
def went(saved_guards, tmp_path_factory):
    """What a client of the Hub saw there, and what the Hub has afterwards."""
    folder = tmp_path_factory.mktemp("client")
    environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    with hub() as server:
        files = {f.name: f.read_bytes() for f in (saved_guards / "base").iterdir()}
        server.repos["me/base"] = [{**files, "README.md": BASE_CARD}]
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
    found = json.loads((folder / "found.json").read_text())
    return found | {"said": done.stderr, "left": sorted(file.name for file in folder.iterdir())}, server


@pytest.mark.parametrize("kind", GUARDS)
def test_a_guard_comes_back_as_it_was(went, kind):
    found, server = went
    before, after, address = found[kind]
    assert after == before
    assert address.startswith(f"{server.address}/me/{kind}/commit/")
    assert (bool(before[0]), bool(before[2])) == (kind != "few-shot", kind == "mask-kept-certified")
    assert server.private[f"me/{kind}"] is True


@pytest.mark.parametrize("command", ["to-label", "certify", "export", "predict", "evaluate"])
def test_a_command_takes_a_guard_by_its_id(went, command):
    found, _ = went
    here, there = found["commands"][command]
    assert (here, here[0]) == (there, 0)
    assert here[1]


def test_a_guard_of_the_hub_is_no_base_and_a_base_is_no_guard(went):
    found, _ = went
    assert (found["fit"], found["no guard"]) == (2, 2)
    said = " ".join(found["said"].split())
    assert "'me/distill-named-support' was written by fit, and cannot be repaired again. Give the original" in said
    assert "'me/base' is no folder that fit wrote, and the Hub has no repaired model of this name." in said
    assert not {"twice", "none", "me"} & {*found["left"]}, "nothing was written, beside the guard's id either"


def test_its_card_says_to_the_hub_what_it_is(went, saved_guards):
    _, server = went
    last = {repo.removeprefix("me/"): v[-1] for repo, v in server.repos.items() if "README.md" in v[-1]}
    cards = {repo: ModelCard(files["README.md"].decode()).data for repo, files in last.items()}
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
    assert (cards["served"].license, cards["few-shot"].license) == (None, None), "no licence is made up"
    assert (card.license, card.license_name, card.license_link, card.datasets) == ("other", "ours", "LICENSE", None)
    assert (cards["again"].license, cards["again"].license_name) == ("mit", None)


@pytest.mark.parametrize(
    ("own", "base", "given", "expected"),
    [
        *[("", "license: mit", None, "mit"), ("", "tags: [x]", None, None), ("", "license: [", None, None)],
        *[("license: bsd", "license: mit", given, given or "bsd") for given in (None, "gpl-3.0")],
    ],
)
def test_a_licence_is_the_one_given_or_of_the_card_or_of_the_card_of_the_base(tmp_path, own, base, given, expected):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "README.md").write_text(f"---\n{base}\n---\nTheirs.\n")
    (tmp_path / "README.md").write_text(f"---\ntags: [ours]\n{own}\n---\nOurs.\n")
    record = {"base_model": {"name": str(tmp_path / "base"), "revision": None}}
    (tmp_path / "guardrail.json").write_text(json.dumps(record))
    made = ModelCard(_licensed(tmp_path, given, None).decode())
    assert (made.data.license, made.data.tags, made.text.strip()) == (expected, ["ours"], "Ours.")


def test_what_is_pushed_takes_the_place_of_what_was(went):
    found, server = went
    _, per_input, plain = server.repos["me/again"]
    assert {"per_input_config.json", "per_input_model.safetensors", "mine.txt"} < set(per_input)
    assert "adapter_config.json" not in per_input
    assert {"adapter_config.json", "adapter_model.safetensors", "mine.txt"} < set(plain)
    assert not {name for name in plain if name.startswith("per_input")}
    assert found["earlier"] == found["first"][1], "the guard's revision, and not the base's"
    assert len(server.repos["me/served"]) == 4
    assert "POST /api/models/me/served/commit/1" in server.asked
    assert server.private["me/served"] is True
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
