"""Names in the code and keys in files: what was written before names changed is still read, and written the same."""

from __future__ import annotations

import dataclasses

import pytest

import shortcut_guardrail
from audits import audit, candidate
from shortcut_guardrail import ConfigError, Shortcut
from shortcut_guardrail.audit import AuditReport, Candidate
from shortcut_guardrail.audit.cards import CardEvidence
from shortcut_guardrail.config import AuditConfig, GuardrailConfig, ShortcutConfig, preset, updated
from shortcut_guardrail.keys import KEYS, VERDICTS, key_of, stored, stored_verdict, with_names
from shortcut_guardrail.mitigation import FitReport
from shortcut_guardrail.saving.record import GuardrailRecord

KINDS = (AuditConfig, AuditReport, Candidate, CardEvidence, FitReport, GuardrailConfig, GuardrailRecord, ShortcutConfig)


def test_every_key_belongs_to_a_field():
    assert {kind.__name__ for kind in KINDS} == set(KEYS)
    for kind in KINDS:
        names = {field.name for field in dataclasses.fields(kind)}
        for name, key in KEYS[kind.__name__].items():
            assert name in names
            # A key that is a field's own name as well would be read as both.
            assert key not in names


def test_a_configuration_is_written_as_before():
    config = preset("distill").with_shortcuts(named=("book",), keep=("good",), fdr=0.1)
    values = config.to_dict()
    assert (values["targets"]["shortcuts"], values["targets"]["alpha"]) == (("book",), 0.1)
    assert "shortcuts" not in values
    assert "named" not in values["targets"]
    assert GuardrailConfig.from_dict(values) == config
    assert GuardrailConfig.from_dict(values) != preset("distill")


def test_settings_are_taken_by_name_and_by_key():
    by_name = updated(preset("mask"), {"shortcuts": {"named": ["book"], "fdr": 0.2}})
    by_key = updated(preset("mask"), {"targets": {"shortcuts": ["book"], "alpha": 0.2}})
    assert by_name == by_key
    assert by_name.shortcuts.named == ("book",)


def test_settings_by_name_and_by_key_are_taken_together_but_not_twice():
    """As where a file of an earlier version is given beside an option."""
    both = updated(preset("mask"), {"targets": {"keep": ["good"]}, "shortcuts": {"take_influential": True}})
    assert (both.shortcuts.keep, both.shortcuts.take_influential) == (("good",), True)
    with pytest.raises(
        ConfigError, match=r"^'fdr' is given twice, also by its name in files\. Leave out one of them\.$"
    ):
        updated(preset("mask"), {"targets": {"alpha": 0.1}, "shortcuts": {"fdr": 0.2}})


def test_an_audit_is_written_as_before():
    values = audit(candidate("book"), set_p_value=0.25).to_dict()
    assert (values["alpha"], values["min_opposition"], values["group_p_value"]) == (0.05, 0.6, 0.25)
    assert values["candidates"][0]["opposition"] == 0.62
    assert not {"fdr", "min_relative_effect", "set_p_value"} & values.keys()
    assert "relative_effect" not in values["candidates"][0]


def test_what_is_nested_is_stored_by_keys_too():
    assert stored({"one": [AuditConfig(fdr=0.1)]})["one"][0]["alpha"] == 0.1
    assert with_names(AuditConfig, stored(AuditConfig())).keys() == {f.name for f in dataclasses.fields(AuditConfig)}
    assert key_of(AuditConfig, "top_k") == "top_k"


@pytest.mark.parametrize(("key", "verdict"), VERDICTS.items())
def test_a_verdict_has_one_word_in_files(key, verdict):
    assert stored_verdict(*verdict) == key


@pytest.mark.parametrize(
    ("old", "new"), [("Target", "Shortcut"), ("Targets", "Shortcuts"), ("TargetConfig", "ShortcutConfig")]
)
def test_old_public_names_are_found_and_warn(old, new):
    with pytest.warns(DeprecationWarning, match=f"^shortcut_guardrail.{old} is called {new} now"):
        found = getattr(shortcut_guardrail, old)
    assert found is getattr(shortcut_guardrail, new)
    assert old not in shortcut_guardrail.__all__


def test_a_verdict_of_before_is_refused_where_a_shortcut_is_made():
    with pytest.raises(ConfigError, match=r"^The verdict on 'book' must be one of named, kept, .*'given'"):
        Shortcut("book", "given")
    assert Shortcut("book", "named").neutralised
