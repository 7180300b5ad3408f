"""Packed sequences against padded ones: same numbers for every family, and padded where a family cannot pack."""

from __future__ import annotations

import copy

import pytest
import torch

from shortcut_guardrail import ShortcutGuardrail, preset
from shortcut_guardrail.models import classifier as encoder
from shortcut_guardrail.models import packing
from shortcut_guardrail.models.classifier import TextClassifier
from shortcut_guardrail.models.packing import Run, can_pack, pack, packed_attention
from tiny_models import FAMILIES, SHORTCUT_TEXTS

pytestmark = pytest.mark.filterwarnings("ignore:.*ELECTRA discriminator")
PACKED = ("bert", "roberta", "xlm-roberta", "electra", "distilbert")
TEXTS = ["bad", *SHORTCUT_TEXTS, "soup bread", "bad"]


def both(model, **options):
    """The same classifier, packed and padded."""
    return (
        TextClassifier(*model, **options),
        TextClassifier(*model, packing=False, **options),
    )


def test_the_listed_families_pack_and_no_other(family, bag, bert):
    assert {name for name in FAMILIES if can_pack(family(name)[0])} == set(PACKED)
    assert not TextClassifier(*bag).packs  # a class of the user's own
    bert[0].config.chunk_size_feed_forward = 4
    assert not can_pack(bert[0])


@pytest.mark.parametrize("name", PACKED)
def test_logits_and_embeddings_are_those_of_the_padded_pass(family, name):
    packed, padded = both(family(name))
    assert packed.packs
    assert not padded.packs
    batch = packed.collate(packed.encode(TEXTS), range(len(TEXTS)))
    with torch.inference_mode():
        torch.testing.assert_close(packed.logits(batch), padded.logits(batch))
        for how in ("cls", "mean", "pooler") if name == "bert" else ("cls", "mean"):
            torch.testing.assert_close(packed.embed(batch, how), padded.embed(batch, how), rtol=1e-4, atol=1e-4)
        assert not torch.allclose(packed.embed(batch, "cls"), padded.embed(batch, "mean"))


@pytest.mark.parametrize("name", PACKED)
def test_the_first_token_alone_is_enough_for_the_last_block(family, name):
    model = family(name)
    early = TextClassifier(*model)
    batch = early.collate(early.encode(TEXTS), range(len(TEXTS)))
    seen = []
    block = early.encoder.get_submodule("transformer.layer" if name == "distilbert" else "encoder.layer")[-1]
    block.register_forward_hook(lambda _m, _i, out: seen.append(out.shape))
    with torch.inference_mode():
        early.logits(batch)
    assert seen[0][:2] == (len(TEXTS), 1)


def test_pairs_keep_their_segments(bert):
    pairs = [("the soup was cold", "good"), ("bad", "the staff was rude and slow"), ("bad", "good")]
    packed, padded = both(bert)
    batch = packed.collate(packed.encode(pairs), range(3))
    with torch.inference_mode():
        expected = padded.logits(batch)
        torch.testing.assert_close(packed.logits(batch), expected)
        swapped = batch._replace(token_type_ids=torch.zeros_like(batch.token_type_ids))
        assert not torch.allclose(packed.logits(swapped), expected)


def test_a_row_holds_every_token_once_longest_sequence_first(bert):
    classifier = TextClassifier(*bert)
    batch = classifier.collate(classifier.encode(["bad", "soup bread tea", "good", "cold soup and tea"]), range(4))
    row = pack(classifier.plain_model, batch.input_ids, batch.attention_mask)
    assert row.runs == (Run(1, 6, 6), Run(1, 5, 5), Run(2, 3, 6))
    assert row.starts.tolist() == [0, 6, 11, 14]
    assert row.order[row.places].tolist() == [0, 1, 2, 3]
    assert row.position_ids[0].tolist() == [*range(6), *range(5), *range(3), *range(3)]
    assert torch.equal(row.pad(row.input_ids), batch.input_ids)  # the padding id is 0 here


@pytest.mark.parametrize(
    ("most_pairs", "runs"),
    [
        (1.0, [(1, 6, 6), (1, 5, 5), (2, 3, 6)]),
        (1.2, [(2, 6, 11), (2, 3, 6)]),  # 72 pairs for 61; 144 for 79 would be 1.82
        (1.83, [(4, 6, 17)]),
        (9.0, [(4, 6, 17)]),
    ],
)
def test_sequences_of_similar_length_go_together_up_to_some_padding(bert, most_pairs, runs):
    classifier = TextClassifier(*bert)
    batch = classifier.collate(classifier.encode(["bad", "soup bread tea", "good", "cold soup and tea"]), range(4))
    row = pack(classifier.plain_model, batch.input_ids, batch.attention_mask, most_pairs=most_pairs)
    assert [run[:3] for run in row.runs] == runs
    for run in row.runs:
        if run.mask is None:
            assert run.tokens == run.n * run.length
            assert run.at is None
        else:
            assert run.mask.shape == (run.n, run.length)
            assert run.mask.flatten()[run.at].all()
            assert int(run.mask.sum()) == len(run.at) == run.tokens


@pytest.fixture(params=[1.0, 1.3, 2.0, 99.0])
def most_pairs(request, monkeypatch):
    """As on a GPU, with other limits as well."""

    def padded(*arguments):
        return pack(*arguments, most_pairs=request.param)

    monkeypatch.setattr(encoder, "pack", padded)
    return request.param


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert"])
def test_a_pass_and_its_gradients_do_not_depend_on_what_goes_together(family, name, precision, most_pairs):
    packed, padded = both(family(name), precision=precision)
    batch = packed.collate(packed.encode(TEXTS), range(len(TEXTS)))
    assert len(packed.pack(batch).runs) < len(set(batch.attention_mask.sum(1).tolist())) or most_pairs == 1
    close = {"rtol": 1e-4, "atol": 1e-4} if precision == "float32" else {"rtol": 0.1, "atol": 0.05}
    values = []
    for classifier in (packed, padded):
        with classifier.word_embedding_leaf() as leaves:
            logits = classifier.logits(batch)
            (gradient,) = torch.autograd.grad(logits.square().sum(), leaves)
        values.append((logits.detach(), classifier.per_token(gradient.norm(dim=-1), batch) * batch.attention_mask))
    for first, second in zip(*values, strict=True):
        torch.testing.assert_close(first, second, **close)


def test_training_does_not_depend_on_what_goes_together(bert, most_pairs):
    losses = []
    for packs in (True, False):
        guard = ShortcutGuardrail(*bert, packing=packs)
        config = preset("paper").with_adapter(batch_size=4, epochs=3, learning_rate=5e-3)
        losses.append(guard.fit(list(SHORTCUT_TEXTS), config=config).training.losses)
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_dropout_drops_within_a_grid_too(bert, most_pairs):
    classifier = TextClassifier(*bert)
    batch = classifier.collate(classifier.encode(TEXTS), range(len(TEXTS)))
    packed = classifier.pack(batch)
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, packed.input_ids.shape[1], 8, requires_grad=True) for _ in range(3))
    whole, _ = packing._attend(bert[0], q, k, v, None, packed_runs=packed.runs)
    dropped, _ = packing._attend(bert[0], q, k, v, None, packed_runs=packed.runs, dropout=0.5)
    assert torch.isfinite(dropped).all()
    assert not torch.allclose(whole, dropped)


def test_the_model_is_as_before_after_a_pass_and_after_an_exception(bert):
    model, config = bert[0], copy.deepcopy(bert[0].config.to_dict())
    ids = torch.tensor([[2, 9, 9, 3], [2, 9, 3, 0]])
    mask = (ids != 0).long()
    before, usual = model(input_ids=ids, attention_mask=mask).logits, model.config._attn_implementation
    with pytest.raises(KeyError), packed_attention(model, pack(model, ids, mask), keep="first"):
        raise KeyError
    classifier = TextClassifier(*bert)
    classifier.predict_logits(classifier.encode(TEXTS))
    assert (model.config._attn_implementation, model.config.to_dict()) == (usual, config)
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())
    assert torch.equal(model(input_ids=ids, attention_mask=mask).logits, before)


def test_short_and_long_runs_in_training_give_the_same_gradients(monkeypatch):
    """Below a length attention is computed plainly, from it on by the fused kernel, whose backward pass is slower."""
    gradients = []
    for fused_from in (2, 100):
        monkeypatch.setattr(packing, "_FUSED_FROM", fused_from)
        query, key, value = (
            torch.randn(3, 2, 7, 4, generator=torch.Generator().manual_seed(i)).bfloat16().requires_grad_()
            for i in range(3)
        )
        out = packing._products(query, key, value, None, 0.0)
        out.float().square().sum().backward()
        gradients.append(torch.stack([x.grad.float() for x in (query, key, value)]))
    assert not torch.equal(*gradients)
    torch.testing.assert_close(*gradients, rtol=0.05, atol=0.05)


def switches() -> dict[str, bool]:
    cuda = torch.backends.cuda
    return {
        "flash": cuda.flash_sdp_enabled(),
        "efficient": cuda.mem_efficient_sdp_enabled(),
        "math": cuda.math_sdp_enabled(),
        "cudnn": cuda.cudnn_sdp_enabled(),
    }


@pytest.mark.parametrize("before", [True, False])
def test_cudnns_attention_is_off_until_the_last_of_several_is_done(before):
    usual = switches()
    torch.backends.cuda.enable_cudnn_sdp(before)
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        first, second = (packing._without_cudnn_attention(torch.device("cuda")) for _ in range(2))
        for context in (first, second):
            context.__enter__()
            assert switches() == {**usual, "cudnn": False, "flash": False}
        first.__exit__(None, None, None)
        assert not switches()["cudnn"]
        second.__exit__(None, None, None)
        assert switches() == {**usual, "cudnn": before, "flash": False}
        with packing._without_cudnn_attention(torch.device("cpu")):
            assert switches()["cudnn"] is before
    finally:
        torch.backends.cuda.enable_cudnn_sdp(usual["cudnn"])
        torch.backends.cuda.enable_flash_sdp(usual["flash"])
