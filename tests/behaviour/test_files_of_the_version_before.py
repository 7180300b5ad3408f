"""Folders and audits that the version before the packages wrote still load, predict, score and look the same.

`tests/golden/before_the_house/make.py` says what they are; nothing here knows where a module is.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from shortcut_guardrail import ShortcutGuardrail

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "before_the_house"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
COMMANDS: dict[str, dict[str, str]] = EXPECTED["commands"]
GUARDS = tuple(EXPECTED["guards"])
ROUNDING = 1e-5  # between processors; probabilities are stored to 6 digits


@pytest.fixture
def house(tmp_path, monkeypatch) -> Path:
    """A copy of the files, audits unpacked, as the folder one is in: the commands name files from there."""
    folder = tmp_path / "house"
    folder.mkdir()
    for name in ("base", "guards", "audits"):
        shutil.copytree(GOLDEN / name, folder / name)
    for packed in folder.glob("audits/*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    for file in GOLDEN.glob("*.csv"):
        shutil.copy(file, folder)
    (folder / "shown").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    return folder


def stored(name: str) -> str:
    """A file that is kept, packed or as it is."""
    packed = GOLDEN / f"{name}.gz"
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else (GOLDEN / name).read_bytes()
    return content.decode("utf-8")


def differences(old: Any, new: Any, at: str = "") -> Iterator[str]:
    """Where two JSON documents differ by more than what processors round differently."""
    if isinstance(old, dict) and isinstance(new, dict):
        if old.keys() != new.keys():
            yield f"{at}: {sorted(old.keys() ^ new.keys())} in one of them"
        for key in old.keys() & new.keys():
            yield from differences(old[key], new[key], f"{at}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{at}: {len(old)} and {len(new)} entries"
        for i, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from differences(one, other, f"{at}[{i}]")
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=1e-3, abs_tol=1e-4):
            yield f"{at}: {old} and {new}"
    elif type(old) is not type(new) or old != new:
        yield f"{at}: {old!r} and {new!r}"


def without_design(page: str) -> str:
    """A page without styles and scripts, which may change; what it says may not."""
    return re.sub(r"(<(style|script)\b[^>]*>).*?(</\2>)", r"\1\3", page, flags=re.DOTALL)


def test_the_base_answers_as_before():
    found = ShortcutGuardrail.from_pretrained(GOLDEN / "base").predict_proba(EXPECTED["texts"])
    np.testing.assert_allclose(found, EXPECTED["base"], atol=ROUNDING)


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_answers_as_before(name):
    texts, expected = EXPECTED["texts"], EXPECTED["guards"][name]
    guard = ShortcutGuardrail.from_pretrained(GOLDEN / "guards" / name, base=GOLDEN / "base")
    assert guard.debias_strength == expected["debias_strength"]
    assert list(guard.record().words) == expected["words"]
    assert (guard.certificate or {}).get("certified") == expected["certified"]
    guarded = guard.predict_proba(texts)
    np.testing.assert_allclose(guarded, expected["guarded"], atol=ROUNDING)
    np.testing.assert_allclose(guard.predict_proba(texts, strength=0.3), expected["at_strength_0.3"], atol=ROUNDING)
    np.testing.assert_allclose(guard.predict_proba(texts, strength=0), EXPECTED["base"], atol=ROUNDING)
    assert np.abs(guarded - EXPECTED["base"]).max() > 0.05


def test_no_two_guards_answer_alike():
    answers = [np.array(EXPECTED["guards"][name]["guarded"]) for name in GUARDS]
    apart = [np.abs(one - other).max() for i, one in enumerate(answers) for other in answers[:i]]
    assert min(apart) > 0.01


@pytest.mark.parametrize("name", GUARDS)
def test_saved_again_a_folder_is_the_same(house, tmp_path, name):
    old, new = house / "guards" / name, tmp_path / "again"
    ShortcutGuardrail.from_pretrained(f"guards/{name}").save_pretrained(new)  # which finds the base by its name
    assert {file.name for file in new.iterdir()} == {file.name for file in old.iterdir()} | {"guardrail-manifest.json"}
    records = [json.loads((folder / "guardrail.json").read_text(encoding="utf-8")) for folder in (old, new)]
    versions = [record.pop("versions") for record in records]
    # The base was named from where the guards were made; now it is named so that it is found from everywhere.
    base, place = records[1]["base_model"], str(house / "base")
    assert (base["name"], base.pop("from_folder")) == (place, str(Path("..", "house", "base")))
    base["name"] = "base"
    assert records[0] == records[1]
    assert versions[0].keys() == versions[1].keys()
    cards = [(folder / "README.md").read_text(encoding="utf-8") for folder in (old, new)]
    assert cards[0].replace(versions[0]["shortcut-guardrail"], versions[1]["shortcut-guardrail"]) == cards[1].replace(
        place, "base"
    )
    assert (old / "fitted_texts.npy").read_bytes() == (new / "fitted_texts.npy").read_bytes()
    if not name.startswith("mask-"):
        np.testing.assert_equal(*(load_file(folder / "adapter_model.safetensors") for folder in (old, new)))
        configs = [json.loads((folder / "adapter_config.json").read_text(encoding="utf-8")) for folder in (old, new)]
        assert configs[1].pop("base_model_name_or_path") == place
        for key in configs[0].keys() & configs[1].keys() - {"peft_version"}:
            assert configs[0][key] == configs[1][key], key
        assert configs[1]["lora_alpha"] == records[1]["config"]["adapter"]["lora_alpha"] * records[1]["debias_strength"]


@pytest.mark.parametrize("name", COMMANDS["shown"])
def test_what_is_shown_of_stored_results_is_the_same(house, cli, name):
    for scores in ("base.json", "guarded.json"):
        shutil.copy(GOLDEN / "shown" / scores, house / "shown")
    words = COMMANDS["shown"][name].split()
    status, printed, _ = cli(*words)
    assert status == 0
    assert printed == stored(f"shown/{name}.txt")
    for option in ("--out", "--html"):
        if option in words:
            page = words[words.index(option) + 1]
            assert without_design((house / page).read_text(encoding="utf-8")) == without_design(stored(page))


def test_each_of_them_shows_something_else():
    shown = [stored(f"shown/{name}.txt") for name in COMMANDS["shown"]]
    assert len(set(shown)) == len(shown)
    assert sum("honestly" in printed for printed in shown) == 4
    pages = [without_design(stored(f"shown/{name}.html")) for name in ("phrase", "change")]
    assert all("honestly" in page for page in pages)
    assert len(pages[0]) > 50_000  # and not the head of one alone


@pytest.mark.parametrize("name", COMMANDS["audits"])
def test_an_audit_finds_the_same(house, cli, name):
    words = COMMANDS["audits"][name].split()
    unit = () if "--unit" in words else ("--unit", "token")  # the default then
    status, _, err = cli(*words, *unit, "--out", "again")
    assert status == 0, err
    new = json.loads((house / "again" / "audit.json").read_text(encoding="utf-8"))
    # New since then, see docs/explanation/audit.md.
    assert all(new.pop(key) is not None for key in ("cards", "model", "data"))
    assert new.pop("schema_version") == 8
    assert not list(
        differences({k: v for k, v in json.loads(stored(f"audits/{name}.json")).items() if k != "schema_version"}, new)
    )


@pytest.mark.parametrize("name", COMMANDS["evaluations"])
def test_scores_are_the_same(house, cli, name):
    status, _, err = cli(*COMMANDS["evaluations"][name].split(), "--sensitivity", "all")
    assert status == 0, err
    file = f"shown/{name}.json"
    new = json.loads((house / file).read_text(encoding="utf-8"))
    # New since then.
    assert (new.pop("base", None) is not None) == ("guards/" in COMMANDS["evaluations"][name])
    assert (len(new.pop("mstps_interval")), new.pop("sensitivity_n")) == (2, new["n"])
    assert all(len(one.pop("interval")) == 2 for one in new["shortcut_token_recall"].values())
    assert not list(differences(json.loads(stored(file)), new))


def test_a_difference_would_be_seen():
    old = json.loads(stored("audits/token.json"))
    assert not list(differences(old, old))
    new = json.loads(stored("audits/token.json"))
    new["candidates"][0]["flip_rate"] += 0.01
    new["candidates"][1]["labelled"].pop("groups")
    new["n"] += 1
    assert [found.partition(":")[0] for found in sorted(differences(old, new))] == [
        ".candidates[0].flip_rate",
        ".candidates[1].labelled",
        ".n",
    ]
