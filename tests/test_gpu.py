"""A GPU against the CPU. Run with `pytest --gpu`, which alone lets the tests see one (see `conftest.py`)."""

import copy
import gc
import os

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from in_processes import fits, run
from shortcut_guardrail import ShortcutGuardrail, preset
from shortcut_guardrail.attribution.occlusion import masking_effects
from shortcut_guardrail.attribution.saliency import find_important_tokens, token_scores
from shortcut_guardrail.config import AdapterConfig, GuardrailConfig, ShortcutConfig
from shortcut_guardrail.models import packing
from shortcut_guardrail.models.classifier import TextClassifier
from tiny_models import FAMILIES, SHORTCUT_TEXTS

GPU = "cuda"
CONFIG = preset("paper").with_adapter(batch_size=4, epochs=3, learning_rate=5e-3)
NAMED = ShortcutConfig(named=("honestly",), top_k=3)
DISTILL = AdapterConfig(learning_rate=2e-2, batch_size=4, epochs=20)
STRATEGIES = {"maskcl": CONFIG, "distill": GuardrailConfig(strategy="distill", shortcuts=NAMED, adapter=DISTILL)}

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::shortcut_guardrail.errors.GuardrailWarning")]


@pytest.mark.parametrize("name", list(FAMILIES))
@pytest.mark.filterwarnings("ignore:.*ELECTRA discriminator")
def test_scores_and_effects_of_every_family_are_the_cpus(family, name, texts):
    here, there = (TextClassifier(*family(name), device=device, batch_size=4) for device in (GPU, "cpu"))
    batches = [c.collate(c.encode(texts), range(len(texts))) for c in (here, there)]
    scores = [token_scores(c, batch).scores.cpu() for c, batch in zip((here, there), batches, strict=True)]
    torch.testing.assert_close(*scores, rtol=1e-3, atol=1e-5)
    found = find_important_tokens(there, there.encode(texts))
    effects = [masking_effects(c, c.encode(texts), found.positions) for c in (here, there)]
    own = [np.nan_to_num(e.probability_of(found.predictions), nan=-1.0) for e in effects]
    np.testing.assert_allclose(*own, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_logits_and_gradients_do_not_depend_on_what_goes_together(bert, texts, precision, monkeypatch):
    plain = TextClassifier(*bert, device=GPU, precision=precision, packing=False)
    fast = TextClassifier(*bert, device=GPU, precision=precision)
    batch = plain.collate(plain.encode(texts), range(len(texts)))
    if precision == "float32":
        with torch.inference_mode():
            torch.testing.assert_close(fast.logits(batch), plain.logits(batch), rtol=1e-4, atol=1e-4)
    found = []
    for classifier, most in ((plain, 1.0), (fast, 1.0), (fast, 1.3), (fast, 99.0)):
        monkeypatch.setitem(packing._MOST_PAIRS, "cuda", most)
        with classifier.word_embedding_leaf() as leaves:
            (gradient,) = torch.autograd.grad(classifier.logits(batch).square().sum(), leaves)
        found.append(classifier.per_token(gradient.norm(dim=-1), batch) * batch.attention_mask)
    assert len(fast.pack(batch).runs) == 1
    for other in found[1:]:
        close = {"rtol": 1e-3, "atol": 1e-4} if precision == "float32" else {"rtol": 0.2, "atol": 0.1}
        torch.testing.assert_close(other, found[0], **close)


def test_the_fast_number_format_is_bfloat16_and_close(bert, texts):
    exact = TextClassifier(*bert, device=GPU)
    fast = TextClassifier(*bert, device=GPU, precision="auto")
    if fast.precision != "bfloat16":
        pytest.skip("this GPU does not multiply in bfloat16")
    batch = exact.collate(exact.encode(texts), range(len(texts)))
    with torch.inference_mode():
        a, b = (c.logits(batch).softmax(-1) for c in (exact, fast))
    assert b.dtype == torch.float32
    assert 0 < (a - b).abs().max() < 0.1


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_guard_is_fitted_the_same_twice_and_saved_for_the_cpu(bert, texts, tmp_path, strategy, precision):
    guards = [ShortcutGuardrail(*bert, device=GPU, precision=precision) for _ in range(2)]
    losses = [guard.fit(texts, config=STRATEGIES[strategy]).training.losses for guard in guards]
    answers = [guard.predict_proba(texts, strength=1.0) for guard in guards]
    assert losses[0] == losses[1]
    assert np.array_equal(*answers)
    base = TextClassifier(*bert, device=GPU, precision=precision)
    before = ShortcutGuardrail(*bert, device=GPU, precision=precision).predict_proba(texts)
    assert np.array_equal(guards[0].predict_proba(texts, strength=0.0), before)
    assert np.abs(answers[0] - before).max() > 1e-3
    assert guards[0]._base.fingerprint() == base.fingerprint()
    for part in bert:
        part.save_pretrained(tmp_path / "base")
    guards[0].save_pretrained(tmp_path / "guard")
    read = ShortcutGuardrail.from_pretrained(tmp_path / "guard", base=tmp_path / "base", device="cpu")
    tolerance = 1e-4 if precision == "float32" else 0.1
    np.testing.assert_allclose(read.predict_proba(texts, strength=1.0), answers[0], atol=tolerance)


def test_a_fit_follows_the_cpus(bert, texts):
    losses = [ShortcutGuardrail(*bert, device=d).fit(texts, config=CONFIG).training.losses for d in (GPU, "cpu")]
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-4)
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)


def test_strengths_together_are_strengths_apart(bert, texts):
    guard, labels = ShortcutGuardrail(*bert, device=GPU), np.arange(len(texts)) % 3
    guard.fit(texts, config=CONFIG)
    for point in guard.calibrate(texts, labels.tolist()).curve:
        alone = guard.predict_proba(texts, strength=point.strength).argmax(axis=-1)
        assert point.accuracy == (alone == labels).mean()


def test_an_audit_finds_what_the_cpu_finds(bert, texts):
    found = [ShortcutGuardrail(*bert, device=d).audit(texts * 3).candidates for d in (GPU, "cpu")]
    assert [one.text for one in found[0]] == [one.text for one in found[1]]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_processes_share_one_gpu(model_folder, write_csv, tmp_path, device, strategy, monkeypatch):
    data = write_csv("texts.csv", *((text,) for text in SHORTCUT_TEXTS), header=("text",))
    more = ("--device", device, *(("--strategy", "distill", "--shortcut", "honestly") if strategy == "distill" else ()))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0])
    for n in (1, 2):
        run(n, fits(model_folder, data, tmp_path, {str(n): more}))
    one, two = (load_file(tmp_path / str(n) / "adapter_model.safetensors") for n in (1, 2))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, two[name], rtol=5e-3, atol=1e-5)


def test_the_command_line_works_on_either_device(model_folder, write_csv, tmp_path, ok):
    data = write_csv("texts.csv", *((text,) for text in SHORTCUT_TEXTS), header=("text",))
    weights = {}
    for device in ("cuda", "cuda:0", "cpu"):
        out = tmp_path / device.replace(":", "-")
        arguments = ["--set", "adapter.epochs=2", "--set", "adapter.batch_size=3", "--strength", 1, "--device", device]
        ok("fit", model_folder, data, "--strategy", "maskcl", "--out", out, *arguments)
        ok("predict", out, data, "--out", tmp_path / f"{out.name}.csv", "--device", device)
        weights[device] = load_file(out / "adapter_model.safetensors")
    for name, tensor in weights["cuda"].items():
        assert torch.equal(tensor, weights["cuda:0"][name])
        torch.testing.assert_close(tensor, weights["cpu"][name], rtol=5e-2, atol=1e-4)


def test_memory_is_given_back(bert, texts):
    copies = copy.deepcopy(bert[0]), bert[1]
    weights = sum(p.numel() * p.element_size() for p in copies[0].parameters())

    def fit() -> int:
        ShortcutGuardrail(*copies, device=GPU).fit(texts, config=CONFIG)
        gc.collect()
        return torch.cuda.memory_allocated()

    before = fit()
    assert max(fit() for _ in range(3)) < before + weights / 2
