"""The performance benchmarks' own arithmetic, and their plain implementation as a reference for the library's."""

import copy
import json
import re

import pytest
import torch

pytest.importorskip("captum", reason="needs the extra 'dev'")

from perf import attribution, machine, memory, plain, scaling, timing
from perf.table import table

from checkout import ROOT
from shortcut_guardrail import ShortcutGuardrail, TextClassifier, preset
from shortcut_guardrail.config import updated

RESULTS = sorted((ROOT / "results/speed").glob("*.json"))


def test_contestants_take_turns_and_a_ratio_compares_within_rounds():
    calls = []
    times = timing.in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2)
    assert "".join(calls) == "ab" + "ab" + "ba"
    assert len(times["a"]["seconds"]) == 2
    times = {"slow": {"seconds": [2.0, 8.0, 3.0]}, "fast": {"seconds": [1.0, 2.0, 1.0]}}
    assert timing.ratio(times, "slow", "fast") == {"median": 3.0, "lowest": 2.0, "highest": 4.0}


def test_operations_are_those_of_the_layers():
    """85.05 million encoder weights are used twice a token; attention adds 4 L^2 H a layer (field convention)."""
    for times in (1, 2):
        found = machine.forward_operations([32] * times, hidden=768, layers=12, intermediate=3072)
        assert found == times * (2 * 84_934_656 * 32 + 4 * 32**2 * 768 * 12)


def test_the_plain_implementation_has_the_librarys_losses(bert, texts):
    """Written without the library: another loop over slots, another attribution, padded batches."""
    losses = plain.adapt(copy.deepcopy(bert[0]), bert[1], texts, batch_size=8, k=4)
    config = updated(preset("paper"), {"adapter": {"batch_size": 8}, "saliency": {"top_k": 4}})
    with pytest.warns(match="change next to nothing"):
        report = ShortcutGuardrail(*bert).fit(texts, config=config)
    assert losses == pytest.approx(report.training.losses, rel=1e-4)
    careless = plain.adapt(copy.deepcopy(bert[0]), bert[1], texts, batch_size=8, k=4, pad_to=24, all_weights=True)
    assert careless == pytest.approx(losses, rel=1e-4)
    assert plain.adapt(copy.deepcopy(bert[0]), bert[1], texts, batch_size=8, k=3) != pytest.approx(losses, rel=1e-4)


def test_scores_and_audit_are_captums(bert, texts):
    classifier = TextClassifier(*bert)
    expected = plain.captum_scores(*bert, texts)
    for found in (attribution.scores_of(classifier, texts), plain.gradient_times_input(*bert, texts)):
        assert attribution._difference(found, expected) < 1e-4
    assert attribution.audit(classifier, texts) == pytest.approx(plain.captum_audit(*bert, texts), rel=1e-4)


def test_texts_have_the_lengths_that_are_asked_for():
    from perf import material

    from shortcut_guardrail.demo import find_minilm

    assert material.spread(["x" * n for n in (5, 1, 3, 2, 4)], 3) == ["xxxxx", "x", "xxx"]
    try:
        find_minilm()
    except Exception as missing:
        pytest.skip(str(missing))
    tokenizer = material.tokenizer()
    assert {len(tokenizer(text).input_ids) for text in scaling.texts_of_length(5, 16)} == {16}
    assert len(set(memory.made_up_texts(50))) == 50


def test_peak_memory_sees_what_was_held():
    with memory.peak_memory() as peak:
        held = torch.zeros(64 << 18)  # 64 MB
        held.add_(1)
    assert peak() > 64


def test_a_committed_table_is_that_of_its_results_and_a_gpu_has_no_goals_of_a_processor():
    assert [path.stem for path in RESULTS] == ["epyc-2-cores", "h100"]
    for path in RESULTS:
        assert path.with_suffix(".md").read_text(encoding="utf-8") == table(json.loads(path.read_text("utf-8")))
    processor, gpu = (table(json.loads(path.read_text("utf-8"))) for path in RESULTS)
    assert "| 160 s | missed |" in processor
    assert "Goal" in processor
    for word in ("Goal", "met", "missed", "160 s"):
        assert not re.search(rf"\b{word}\b", gpu), word
    assert "| Share of that step in which the GPU computes | 26% of 0.053 s |" in gpu
