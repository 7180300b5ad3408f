"""The performance benchmarks' own arithmetic, and their plain implementation as a reference for the library's."""

import copy
import json
import re

import pytest
import torch

pytest.importorskip("captum", reason="needs the extra 'dev'")

from perf import adaptation, attribution, families, machine, memory, plain, scaling, timing
from perf.table import table

from checkout import ROOT
from shortcut_guardrail import ShortcutGuardrail, TextClassifier, preset
from shortcut_guardrail.config import updated
from tiny_models import build_family

RESULTS = sorted((ROOT / "results/speed").glob("*.json"))


def test_contestants_take_turns_and_a_ratio_compares_within_rounds():
    calls = []
    times = timing.in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2)
    assert "".join(calls) == "ab" + "ab" + "ba"
    assert len(times["a"]["seconds"]) == 2
    times = {"slow": {"seconds": [2.0, 8.0, 3.0]}, "fast": {"seconds": [1.0, 2.0, 1.0]}}
    assert timing.ratio(times, "slow", "fast") == {"median": 3.0, "lowest": 2.0, "highest": 4.0}
    given = {"slow": {"processor_s": [3.0]}, "fast": {"processor_s": [2.0]}}
    assert timing.ratio(given, "slow", "fast", of="processor_s")["median"] == 1.5


def test_operations_are_those_of_the_layers():
    """85.05 million encoder weights are used twice a token; attention adds 4 L^2 H a layer (field convention)."""
    for times in (1, 2):
        found = machine.forward_operations([32] * times, hidden=768, layers=12, intermediate=3072)
        assert found == times * (2 * 84_934_656 * 32 + 4 * 32**2 * 768 * 12)


def test_operations_of_an_epoch_are_those_of_its_texts():
    """A text of 4 tokens, H = 2, I = 8, 3 layers: it has two tokens to mask, so three sequences are trained on."""
    shape = {"hidden_size": 2, "num_hidden_layers": 3, "intermediate_size": 8}
    forward = 2 * 3 * (4 * 4 + 2 * 16) * 4 + 4 * 16 * 2 * 3
    behind_attention, projections = 2 * (4 + 32) * 3, 2 * 3 * 4 * 4
    found = adaptation.operations([4], shape)
    assert found["floor"] == 8 * forward
    assert found["done"] == 8 * (forward - behind_attention) - 3 * projections
    assert found["weights"] == found["done"] - 8 * 4 * 16 * 2 * 3
    assert adaptation.operations([4], shape, first_only=False)["done"] == 8 * forward - 3 * projections
    assert adaptation.operations([4, 4], shape, k=1, attribution=False)["floor"] == 2 * 4 * forward


def test_families_have_equally_many_weights_at_one_shape():
    h, i = families.SHAPE["hidden_size"], families.SHAPE["intermediate_size"]
    for family in families.FAMILIES:
        model = families.random_model(family, num_hidden_layers=1, vocab_size=200)
        (block,) = (part[0] for _, part in model.base_model.named_modules() if isinstance(part, torch.nn.ModuleList))
        linear = [part.weight.numel() for part in block.modules() if isinstance(part, torch.nn.Linear)]
        assert sum(linear) == 4 * h * h + 2 * h * i, family


@pytest.mark.filterwarnings("ignore:This run is predicted to change next to nothing")
def test_a_plain_loop_pads_what_the_library_groups_and_learns_the_same(texts):
    """Texts of unlike lengths: as they come, a DeBERTa-v3 reads more padding, and its losses stay."""
    model, tokenizer = build_family("deberta-v3")
    seen = []
    model.get_input_embeddings().register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0].numel()))
    runs = families.ways("DeBERTa-v3", model, tokenizer, texts, texts, max_length=24, size=4)
    assert set(runs) == {"ours", "padded", "predict", "predict padded", "narrow"}
    tokens, results = {}, {}
    for name in ("ours", "padded", "predict", "predict padded"):
        seen.clear()
        results[name] = runs[name]()
        tokens[name] = sum(seen)
    assert tokens["ours"] < tokens["padded"]
    assert tokens["predict"] < tokens["predict padded"]
    assert results["padded"].training.losses == pytest.approx(results["ours"].training.losses, rel=1e-4)
    assert results["predict padded"] == pytest.approx(results["predict"], rel=1e-4)


def test_relative_positions_that_no_text_reaches_change_nothing():
    """What `narrow` is the price of: a text of L tokens reads the L positions to each side of the middle, no other."""
    model, length = build_family("deberta-v3")[0], 5
    encoder, ids = model.base_model.encoder, torch.arange(5, 5 + length)[None]
    before, blocks, usual = model(ids).logits, encoder.layer, encoder.get_rel_embedding
    middle = blocks[0].attention.self.pos_ebd_size
    assert length < middle
    for reach, same in ((length, True), (length - 2, False)):
        encoder.get_rel_embedding = lambda reach=reach: usual()[middle - reach : middle + reach]
        for block in blocks:
            block.attention.self.pos_ebd_size = reach
        assert torch.allclose(model(ids).logits, before, atol=1e-5) == same


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
    assert [path.stem for path in RESULTS] == ["epyc-2-cores", "families-again", "families", "h100"]
    for path in RESULTS:
        assert path.with_suffix(".md").read_text(encoding="utf-8") == table(json.loads(path.read_text("utf-8")))
    processor, *_, gpu = (table(json.loads(path.read_text("utf-8"))) for path in RESULTS)
    assert "| 160 s | missed |" in processor
    assert "Goal" in processor
    for word in ("Goal", "met", "missed", "160 s"):
        assert not re.search(rf"\b{word}\b", gpu), word
    assert "| Share of that step in which the GPU computes | 26% of 0.053 s |" in gpu
