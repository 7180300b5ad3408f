"""Without hashes of texts no file holds any, and whoever cannot notice reused texts for that says so."""

import json
import re
import warnings

import pytest

from audits import to_review
from shortcut_guardrail import AdapterConfig, GuardrailConfig, GuardrailWarning, SaliencyConfig, ShortcutGuardrail
from shortcut_guardrail.cli import options
from shortcut_guardrail.decisions import Decision, Decisions
from shortcut_guardrail.errors import ConfigError
from shortcut_guardrail.review import make_deck
from shortcut_guardrail.saving import read_audit

HASH = re.compile(r'"[0-9a-f]{32}"')
STEPS = AdapterConfig(learning_rate=2e-2, batch_size=4)
CONFIG = GuardrailConfig(preset="test", saliency=SaliencyConfig(top_k=3), adapter=STEPS)


def test_a_guard_without_text_hashes_says_so_when_it_is_certified(bert, texts, tmp_path):
    guard = ShortcutGuardrail(*bert, batch_size=4)
    guard.fit(texts, config=CONFIG)
    guard.calibrate(texts, [i % 3 for i in range(len(texts))])
    guard.save_pretrained(tmp_path / "with")
    guard.save_pretrained(tmp_path / "without", text_hashes=False)
    loaded = {}
    for name, said in (("with", "fitted on"), ("without", "saved without hashes of texts, so nothing can tell")):
        written = (tmp_path / name / "guardrail.json").read_text()
        assert bool(HASH.search(written)) == json.loads(written)["text_hashes"] == (name == "with")
        loaded[name] = ShortcutGuardrail.from_pretrained(tmp_path / name, base=bert[0])
        with pytest.warns(GuardrailWarning, match=said):
            loaded[name].certify([], [], unlabelled=texts)
    without = loaded["without"]
    without.save_pretrained(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "guardrail.json").read_text())["text_hashes"] is False
    assert "stores no hashes of texts" in (tmp_path / "again" / "README.md").read_text()
    # A new fit knows its texts again.
    without.fit(texts, config=CONFIG)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        without.certify([], [], unlabelled=texts)
    assert not [one for one in found if "without hashes" in str(one.message)]


def test_an_audit_and_decisions_without_text_hashes(tmp_path):
    report = to_review(2, 3)
    plain = report.without_text_hashes()
    file = tmp_path / "audit.json"
    file.write_text(json.dumps(plain.to_dict()))
    assert len(make_deck(read_audit(file)).cards) == 2
    decisions = Decisions((Decision(("w0",), "keep", "person", text_hashes=("a" * 32,)),))
    for result in (report, decisions):
        assert HASH.search(json.dumps(result.to_dict()))
        assert not HASH.search(json.dumps(result.without_text_hashes().to_dict()))


def test_the_options_reach_the_files_unless_answers_are_kept_by_hashes(ok, model_folder, write_csv, tmp_path, texts):
    data = write_csv("data.csv", *((text, "") for text in texts))
    ok("audit", model_folder, data, "--out", tmp_path / "a", "--no-text-hashes")
    kept = json.loads((tmp_path / "a" / "audit.json").read_text())
    assert {flip["text_hash"] for card in kept["cards"] for flip in card["flips"]} <= {""}
    fit = ("fit", model_folder, data, "--shortcut", "honestly", "--strategy", "mask", "--strength", "1")
    ok(*fit, "--out", tmp_path / "g", "--no-text-hashes")
    assert json.loads((tmp_path / "g" / "guardrail.json").read_text())["text_hashes"] is False
    with pytest.raises(
        ConfigError, match=r"^--no-text-hashes excludes a second model, whose predictions are stored by"
    ):
        options.check_hashes(True, ["model"])
    options.check_hashes(False, ["model"])
    options.check_hashes(True, None)
