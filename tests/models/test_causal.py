import numpy as np
import pytest
import torch

from shortcut_guardrail.errors import ModelError, RunError
from shortcut_guardrail.models import CausalModel, architecture_of, load_causal
from tiny_models import tiny_bert, tiny_causal

PROMPTS = ["Text: a good soup\nLabel:", "Text: it was cold\nLabel:", "b", "the room was clean and so was the staff:"]


def one_by_one(model, tokenizer, prompt: str, continuation: str) -> float:
    """Every token after the prompt, one sequence at a time, without padding."""
    before, ids = len(tokenizer(prompt)["input_ids"]), torch.tensor([tokenizer(prompt + continuation)["input_ids"]])
    with torch.inference_mode():
        logs = model(input_ids=ids).logits.double().log_softmax(dim=-1)
    return float(sum(logs[0, at - 1, ids[0, at]] for at in range(before, ids.shape[1])))


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma3_text"])
def test_all_tokens_of_a_continuation_count(family):
    model, tokenizer = tiny_causal(family)
    continuations = [" positive", " negative", " so-so, or neither of the two"]
    expected = [[one_by_one(model, tokenizer, prompt, end) for end in continuations] for prompt in PROMPTS]
    found = CausalModel(model, tokenizer, batch_size=3).continuation_logprobs(PROMPTS, continuations)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert found.dtype == np.float64
    first_alone = [[one_by_one(model, tokenizer, prompt, end[:1]) for end in continuations] for prompt in PROMPTS]
    assert np.abs(found - first_alone).min() > 1


@pytest.mark.parametrize(("ends", "passes"), [([" a", " b"], 1), ([" ax", " bx"], 2), ([" abc", " a"], 1)])
def test_no_more_passes_than_needed(ends, passes):
    model, tokenizer = tiny_causal()
    seen = []
    model.register_forward_hook(lambda _m, _i, out: seen.append(len(out.logits)))
    CausalModel(model, tokenizer).continuation_logprobs(PROMPTS[:2], ends)
    assert sum(seen) == 2 * passes


def test_progress_beginnings_and_fingerprints():
    model, tokenizer = tiny_causal(model_max_length=64)
    asked, told = CausalModel(model, tokenizer, batch_size=3), []
    asked.continuation_logprobs(PROMPTS, [" a", " b"], progress=lambda *now: told.append(now))
    assert told == [("Asking", 3, 4), ("Asking", 4, 4)]
    assert (asked.max_length, CausalModel(*tiny_causal(model_max_length=2000)).max_length) == (64, 1024)
    assert [asked.beginning("abcdef", most) for most in (0, 3, 6, 9)] == ["", "abc", "abcdef", "abcdef"]
    assert asked.fingerprint() == CausalModel(*tiny_causal(model_max_length=64)).fingerprint()
    assert asked.fingerprint() != CausalModel(*tiny_causal(model_max_length=64, seed=1)).fingerprint()
    with torch.no_grad():
        model.transformer.wpe.weight.fill_(float("nan"))
    with pytest.raises(RunError, match="not finite numbers"):
        asked.continuation_logprobs(["a"], [" b"])


def test_loading(tmp_path):
    for part in tiny_causal("llama"):
        part.save_pretrained(tmp_path / "lm")
    loaded, _ = load_causal(tmp_path / "lm")
    assert loaded.dtype == torch.bfloat16
    assert load_causal(tmp_path / "lm", precision="float32")[0].dtype == torch.float32
    assert architecture_of(tmp_path / "lm") == "LlamaForCausalLM"
    (tmp_path / "lm" / "model.safetensors").rename(tmp_path / "lm" / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"holds no \.safetensors file"):
        load_causal(tmp_path / "lm")
    for part in tiny_bert():
        part.save_pretrained(tmp_path / "bert")
    with pytest.raises(ModelError, match="causal language model"):
        load_causal(tmp_path / "bert")
