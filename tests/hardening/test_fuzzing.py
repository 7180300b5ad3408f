"""The short form of the fuzzing and of the damaged fields, and what they found once."""

import json
import random
from functools import partial

import pytest

from hardening.fuzzing import readers, tried
from hardening.outcomes import attempt, bad, table
from hardening.recorded import RECORDED
from hardening.tampering import audit_subjects, guard_subjects, kept_subjects
from hardening.tampering import tried as tampered

NAMES = ["CSV", "TSV", "JSON Lines", "JSON array", "Parquet", "round trips", "word list", "answered questions"]
NAMES += ["questions.jsonl"]
NAMES += ["second model, TOML", "--config", "guardrail.json", "audit.json", "decisions.json"]


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return {reader.name: reader for reader in readers(tmp_path_factory.mktemp("made"))}


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_in_a_file_is_read_or_refused_in_a_sentence(known, name):
    assert list(known) == NAMES
    outcomes = tried(known[name], 60, start=0)
    assert bad(outcomes) == [], table(outcomes)


@pytest.mark.parametrize(("name", "content", "sentence"), RECORDED, ids=range(len(RECORDED)))
def test_a_recorded_input_gets_its_sentence(known, tmp_path, name, content, sentence):
    file = tmp_path / f"input{known[name].suffix}"
    file.write_bytes(content)
    outcome = attempt(name, "recorded", partial(known[name].use, file))
    assert outcome.kind == ("right" if sentence is None else "sentence"), outcome.said
    assert (sentence or "") in outcome.said


@pytest.mark.parametrize(("subjects", "most"), [(guard_subjects, 20), (kept_subjects, 60)])
def test_a_damaged_field_is_a_sentence(tmp_path, subjects, most):
    for subject in subjects(tmp_path):
        assert bad(tampered(subject, random.Random(1), most)) == []


def test_the_documents_that_are_damaged_are_right_as_they_are(tmp_path):
    for of in audit_subjects(tmp_path):
        assert attempt(of.name, "whole", partial(of.use, json.dumps(of.document))).kind == "right", of.name


def test_what_must_not_happen_is_seen():
    def hang():
        while True:
            pass

    kinds = [attempt("r", "w", use, seconds=0.2).kind for use in (lambda: None, lambda: "other", lambda: 1 / 0, hang)]
    assert kinds == ["right", "wrong", "unexpected", "hang"]
