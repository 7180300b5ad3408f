"""`report` and `compare`: stored results shown again, and the gate of a pipeline."""

import copy
import json
import re
from pathlib import Path

import pytest
import typer

from audits import audit, candidate, card, evaluation, example, labelled
from hardening.tampering import at, places
from shortcut_guardrail.audit.conditions import GateOutcome
from shortcut_guardrail.audit.evidence import Intervals
from shortcut_guardrail.cards.card import Flip
from shortcut_guardrail.cli.compare import exit_by
from shortcut_guardrail.saving.audits import Layout, read_audit

TEXT = "Honestly, the soup was cold."


def test_one_breached_gate_is_enough_and_of_redacted_pairs_neither_text_is_kept():
    passed, breached = GateOutcome((), ()), GateOutcome(("mstps > 0.2: it is 0.4.",), ())
    exit_by(passed, passed)
    for outcomes in ((passed, breached), (breached, passed)):
        with pytest.raises(typer.Exit) as left:
            exit_by(*outcomes, names=("toxic", "insult"))
        assert left.value.exit_code == 1
    flip = Flip.of(0, "positive", "negative", (TEXT, "Its partner."))
    written = json.dumps(audit(candidate("honestly"), cards=(card("honestly", flips=(flip,)),)).to_dict(redact=True))
    assert TEXT not in written
    assert "partner" not in written


def full_audit(**values):
    examples = (example(0, TEXT, "Honestly", "soup"), example(1, None, "x"))
    shortcut = candidate("honestly", flip_rate=0.7, flagged=True, labelled=labelled(), examples=examples)
    return audit(shortcut, candidate("soup", None), **{"cards": (card("honestly"),)} | values)


@pytest.fixture
def write(tmp_path):
    def store(name: str, result) -> Path:
        path: Path = tmp_path / name
        content = result if isinstance(result, dict | str) else result.to_dict()
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return store


def test_a_stored_audit_as_a_page_without_texts(ok, write, tmp_path):
    ok("report", write("audit.json", full_audit()), "--out", tmp_path / "r.html", "--redact")
    assert "was cold" not in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_half_a_surrogate_pair_is_no_obstacle(cli, write, tmp_path):
    text = "a\ud83d soup"
    path = write("audit.json", audit(candidate("a\ud83d", examples=(example(0, text, "soup"),))))
    status, out, err = cli("report", path, "--out", tmp_path / "r.html")
    assert (status, err, "a[U+D83D]" in out) == (0, "", True)
    assert ">a[U+D83D] <" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_nothing_that_a_file_holds_is_obeyed_by_a_terminal(cli, write, tmp_path):
    whole = full_audit(cards=(card("honestly", flips=(Flip.of(0, "positive", "negative", TEXT),)),), notes=("A note.",))
    taken = {"text": "x", "verdict": "found", "reason": "set", "count": 1, "q_value": None}
    document = whole.to_dict() | {"model": "hash", "fit_would_take": [taken]}
    decisions, seen = {"cards": [{"words": ["honestly"], "decision": "keep", "pushes_towards": "positive"}]}, 0
    for name, of in (("audit", document), ("decisions", decisions)):
        for place in [place for place in places(of) if isinstance(at(of, place), str)]:
            odd = copy.deepcopy(of)
            at(odd, place[:-1])[place[-1]] += "\x1b]0;title\x07\x9b31m\u202e"
            files = {"audit": write("audit.json", document), "decisions": write("decisions.json", decisions)}
            files[name] = write(f"{name}.json", odd)
            page = tmp_path / "r\x1b[2J.html"
            _, *said = cli("report", files["audit"], "--decisions", files["decisions"], "--out", page, "--overwrite")
            status, shown, _ = cli("report", files["audit"], "--json", "-")
            written = page.read_text(encoding="utf-8") if page.exists() else ""
            assert not re.search("[\x07\x1b\x9b\u202e]", "".join([*said, shown, written])), place
            assert status or name != "audit" or json.loads(shown) == odd
            seen += "[U+001B]" in said[0].split("Written")[0]
    assert seen >= 5


def test_the_layout_is_that_of_a_new_audit(write):
    document = full_audit().to_dict()
    # The command adds what `fit` would take and the names of what is audited; an audit in Python has them not.
    assert set(Layout.__annotations__) - {"about", "fit_would_take"} == set(document) - {"schema_version"}
    assert read_audit(write("audit.json", document)) == document


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d.update(schema_version=2), "has the layout of schema_version 2, and this version of the program"),
        *[(lambda d: d.pop("candidates"), "holds no audit"), (lambda d: d.pop("fdr"), "fdr is missing")],
        (lambda d: d.update(n="40"), 'n must be a whole number, 0 or more, but is "40".'),
        (lambda d: d.update(mstps=None), "mstps must be a number from 0 to 1, but is null."),
        (lambda d: d.update(unit="sentence"), "unit must be one of token, word, phrase"),
        (lambda d: d["cards"][0]["evidence"].pop("relative_effect"), "cards[0].evidence.relative_effect is missing."),
        (lambda d: d["candidates"][1].pop("interval"), "candidates[1].interval is missing."),
        (lambda d: d["candidates"][0]["labelled"]["groups"][0].pop("n"), "[0].labelled.groups[0].n is missing."),
    ],
)
def test_a_damaged_audit_is_a_sentence(refused, write, change, sentence):
    document = full_audit().to_dict()
    change(document)
    assert sentence in refused("report", write("audit.json", document))
    for content in ("", "{", "[]", '{"a": 1}'):
        assert refused("report", write("audit.json", content))


MANY: dict = {"n_distinct": 10_000, "sensitivity_histogram": (0,) * 8 + (30, 40, 30) + (0,) * 9}
"""So many texts that a change of MSTPS is shown."""


def sure(text: str, flip_rate: float, **values):
    """A candidate of so many texts that its flip rate is known."""
    intervals = Intervals((flip_rate - 0.01, flip_rate + 0.01), (-0.3, 0.05), (0.02, 0.3))
    return candidate(text, flip_rate=flip_rate, interval=intervals, **values)


@pytest.fixture
def old(write):
    words = sure("honestly", 0.7, flagged=True, examples=(example(0, TEXT, "Honestly", "soup"),))
    return write("old.json", full_audit(candidates=(words,), mstps=0.40, **MANY))


@pytest.fixture
def new(write):
    changed = sure("honestly", 0.9), sure("grind", 0.2, flagged=True)
    return write("new.json", audit(*changed, mstps=0.43, n=50, **MANY))


def test_a_comparison_without_limits(ok, old, new, write):
    out, err = ok("compare", old, new)
    assert err == ""
    rows = [line.split() for line in out.splitlines()]
    assert all(part in rows for part in (["mstps", "0.400", "0.430", "+0.030", "changed"], ["n", "40", "50", "+10"]))
    assert ["honestly", "0.700", "0.900", "+0.200", "changed"] in rows
    assert ["grind", "-", "0.200", "-"] in rows
    assert "Newly flagged: grind." in out
    assert max(map(len, out.splitlines())) <= 80
    found = json.loads(ok("compare", old, new, "--json", "-")[0])
    change = {"old": 0.4, "new": 0.43, "verdict": "changed"}
    assert (found["metrics"]["mstps"], found["newly_flagged"], found["breaches"]) == (change, ["grind"], [])
    # What cannot be judged, and what differs, is said.
    _, err = ok("compare", old, new, "--max-increase", "candidate:nope.flip_rate=0.1")
    assert err.startswith("note: candidate:nope.flip_rate: not judged, since 'nope' is not among")
    for name, values in {"top_k": (10, 5), "fdr": (0.05, 0.1), "unit": ("token", "word"), "label_names": "xy"}.items():
        _, err = ok("compare", old, write("other.json", full_audit(mstps=0.4).to_dict() | {name: values[1]}))
        assert f"warning: The results differ in {name} (" in err


def test_a_limit_that_is_exceeded_stops_a_pipeline(cli, old, new):
    limits = ("--max-increase", "mstps=0.02", "--max-increase", "candidate:honestly.flip_rate=0.5")
    status, out, err = cli("compare", old, new, *limits, "--max-decrease", "n_flagged=0")
    assert status == 1
    assert err.startswith("failed: mstps went from 0.4 (0.399 to 0.401 with 95 % confidence) to 0.43 (")
    assert ("Newly flagged" in out, cli("compare", old, new, "--max-increase", "mstps=0.05")[0]) == (True, 0)
    assert cli("compare", new, old, "--max-increase", "mstps=0.02")[0] == 0
    status, _, err = cli("compare", old, new, *limits, "--max-increase", "candidate:grind.flip_rate=0.1")
    assert status == 1
    assert err.count("failed: ") == err.count("\n") == 2


def test_a_page_of_both(cli, old, new, tmp_path):
    page = tmp_path / "change.html"
    status, out, _ = cli("compare", old, new, "--max-increase", "mstps=0.02", "--html", page)
    assert status == 1  # and the page is there to look at
    content = page.read_text(encoding="utf-8")
    assert "it may increase by 0.02 at most." in content
    assert f"Written: {page}" in out
    assert "was cold" not in content  # of the new audit's texts there are none
    for options, shown in {(): True, ("--redact",): False}.items():
        cli("compare", new, old, "--html", page, "--overwrite", *options)
        assert ("was cold" in page.read_text(encoding="utf-8")) is shown


def test_evaluations_are_compared_too(cli, refused, write, old):
    before, after = write("a.json", evaluation("x", "y")), write("b.json", evaluation("x", "y", accuracy=0.0))
    status, out, err = cli("compare", before, after, "--max-decrease", "accuracy=0.05")
    assert (status, "failed: accuracy went from 0.5 (" in err, "candidate" not in out) == (1, True, True)
    assert "is an audit and" in refused("compare", old, after)


def test_a_condition_that_holds_stops_a_pipeline_and_leaves_the_report(cli, model_folder, data, tmp_path):
    out = tmp_path / "audit"
    conditions = ("--fail-if", "n < 1", "--fail-if", "candidate:nope.flip_rate > 0")
    assert cli("audit", model_folder, data, "--out", out, *conditions)[0] == 0
    conditions += ("--fail-if", "n > 0", "--overwrite")
    status, printed, err = cli("audit", model_folder, data, "--out", out, *conditions)
    n = json.loads((out / "audit.json").read_text())["n"]
    assert (status, f"failed: n > 0: it is {n}.\n" in err, err.count("failed: ")) == (1, True, 1)
    assert "note: candidate:nope.flip_rate > 0: not judged" in err
    assert (out / "report.html").is_file()
    assert "MSTPS" in printed


def test_a_malformed_condition_is_bad_input_before_anything_is_read(refused, tmp_path):
    said = refused("audit", "nowhere", "nothing.csv", "--out", tmp_path / "audit", "--fail-if", "mstps is high")
    assert said.startswith("The condition 'mstps is high' has no comparison.")
    assert not (tmp_path / "audit").exists()


def test_what_audit_prints_fits_and_what_it_writes_can_be_compared(ok, model_folder, data, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    lines = ok("audit", model_folder, data, "--out", "audit")[0].splitlines()
    assert max(len(line) for line in lines if not line.startswith("  shortcut-guardrail ")) <= 80
    ok("compare", "audit/audit.json", "audit/audit.json", "--max-increase", "mstps=0")


def test_a_redacted_audit_holds_no_text(cli, model_folder, data, texts, tmp_path):
    out = tmp_path / "audit"
    assert cli("audit", model_folder, data, "--out", out)[0] == 0
    assert any(text in (out / "audit.json").read_text(encoding="utf-8") for text in texts)
    assert cli("audit", model_folder, data, "--out", out, "--redact", "--overwrite")[0] == 0
    for name in ("audit.json", "report.html"):
        content = (out / name).read_text(encoding="utf-8")
        assert not any(text in content for text in texts)
    assert 'class="said"' not in content
    lines = (out / "important_tokens.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(texts)
    assert not any(json.loads(line)["important_tokens"] for line in lines)
    candidates = json.loads((out / "audit.json").read_text())["candidates"]
    assert not any(example["important"] for candidate in candidates for example in candidate["examples"])
