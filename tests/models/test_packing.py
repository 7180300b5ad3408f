"""Packed sequences against padded ones: same numbers for every family, and padded where a family cannot pack."""

import copy
from contextlib import ExitStack

import pytest
import torch

from shortcut_guardrail.models import TextClassifier, packing
from shortcut_guardrail.models.packing import can_pack, pack, packed_attention
from tiny_models import FAMILIES, SHORTCUT_TEXTS

pytestmark = pytest.mark.filterwarnings("ignore:.*ELECTRA discriminator")
PACKED = ("bert", "roberta", "xlm-roberta", "electra", "distilbert")
TEXTS = ["bad", *SHORTCUT_TEXTS, "soup bread", "bad"]


def both(model, **options):
    """The same classifier, packed and padded."""
    return TextClassifier(*model, **options), TextClassifier(*model, packing=False, **options)


def test_the_listed_families_pack_and_no_other(family, bag, bert):
    assert {name for name in FAMILIES if can_pack(family(name)[0])} == set(PACKED)
    assert not TextClassifier(*bag).packs  # a class of the user's own
    for setting, plain in (("chunk_size_feed_forward", 4), ("is_decoder", True)):
        was = getattr(bert[0].config, setting)
        setattr(bert[0].config, setting, plain)
        assert not can_pack(bert[0])
        setattr(bert[0].config, setting, was)


@pytest.mark.parametrize("name", PACKED)
def test_logits_and_embeddings_are_those_of_the_padded_pass(family, name):
    packed, padded = both(family(name))
    assert (packed.packs, padded.packs) == (True, False)
    batch, seen = packed.collate(packed.encode(TEXTS), range(len(TEXTS))), []
    block = packed.encoder.get_submodule("transformer.layer" if name == "distilbert" else "encoder.layer")[-1]
    handle = block.register_forward_hook(lambda _module, _inputs, out: seen.append(out.shape))
    with torch.inference_mode():
        torch.testing.assert_close(packed.logits(batch), padded.logits(batch))
        handle.remove()
        assert seen[0][:2] == (len(TEXTS), 1)  # the first token of each alone
        for how in ("cls", "mean"):
            torch.testing.assert_close(packed.embed(batch, how), padded.embed(batch, how), rtol=1e-4, atol=1e-4)
        assert not torch.allclose(packed.embed(batch, "cls"), padded.embed(batch, "mean"))


@pytest.mark.parametrize("name", PACKED)
def test_a_padding_token_that_a_text_spells_is_read_as_the_model_reads_it_alone(family, name):
    model, tokenizer = family(name)
    text = f"the soup {tokenizer.pad_token} was cold"
    inputs = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        expected = model(**inputs).logits.softmax(dim=-1).double()
    found = TextClassifier(model, tokenizer).predict_proba(["bad", text])
    torch.testing.assert_close(torch.from_numpy(found[1:]), expected, rtol=1e-4, atol=1e-6)


def test_pairs_keep_their_segments(bert):
    pairs = [("the soup was cold", "good"), ("bad", "the staff was rude and slow"), ("bad", "good")]
    packed, padded = both(bert)
    batch = packed.collate(packed.encode(pairs), range(3))
    with torch.inference_mode():
        expected = padded.logits(batch)
        torch.testing.assert_close(packed.logits(batch), expected)
        swapped = batch._replace(token_type_ids=torch.zeros_like(batch.token_type_ids))
        assert not torch.allclose(packed.logits(swapped), expected)


@pytest.mark.parametrize(
    ("most_pairs", "runs"),
    [
        (1.0, [(1, 6, 6), (1, 5, 5), (2, 3, 6)]),
        (1.2, [(2, 6, 11), (2, 3, 6)]),  # 72 pairs for 61; 144 for 79 would be 1.82
        *[(1.83, [(4, 6, 17)]), (9.0, [(4, 6, 17)])],
    ],
)
def test_a_row_has_every_token_once_longest_first_and_like_lengths_together(bert, monkeypatch, most_pairs, runs):
    monkeypatch.setitem(packing._MOST_PAIRS, "cpu", most_pairs)
    classifier = TextClassifier(*bert)
    batch = classifier.collate(classifier.encode(["bad", "soup bread tea", "good", "cold soup and tea"]), range(4))
    row = classifier.pack(batch)
    assert (row.starts.tolist(), row.order[row.places].tolist()) == ([0, 6, 11, 14], [0, 1, 2, 3])
    assert row.position_ids[0].tolist() == [*range(6), *range(5), *range(3), *range(3)]
    assert torch.equal(row.pad(row.input_ids), batch.input_ids)  # the padding id is 0 here
    assert [run[:3] for run in row.runs] == runs
    for run in row.runs:
        if run.mask is None:
            assert (run.tokens, run.at) == (run.n * run.length, None)
        else:
            assert run.mask.shape == (run.n, run.length)
            assert (run.mask.flatten().nonzero()[:, 0].tolist(), len(run.at)) == (run.at.tolist(), run.tokens)


WAYS = [(name, "float32", most) for name in ("bert", "roberta", "distilbert") for most in (1.0, 1.3, 99.0)]


@pytest.mark.parametrize(("name", "precision", "most_pairs"), [*WAYS, ("bert", "bfloat16", 1.0)])
def test_a_pass_and_its_gradients_do_not_depend_on_what_goes_together(family, monkeypatch, name, precision, most_pairs):
    monkeypatch.setitem(packing._MOST_PAIRS, "cpu", most_pairs)  # as on a GPU, with other limits as well
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


@pytest.mark.parametrize("most_pairs", [1.0, 99.0])
def test_dropout_drops_within_a_grid_too(bert, monkeypatch, most_pairs):
    monkeypatch.setitem(packing._MOST_PAIRS, "cpu", most_pairs)
    classifier = TextClassifier(*bert)
    packed = classifier.pack(classifier.collate(classifier.encode(TEXTS), range(len(TEXTS))))
    states = torch.randn(3, 1, 2, packed.input_ids.shape[1], 8, generator=torch.Generator().manual_seed(0))
    how = bert[0], *states.requires_grad_(), None
    whole, dropped = (packing._attend(*how, packed_runs=packed.runs, dropout=p)[0] for p in (0, 0.5))
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


def test_cudnns_attention_is_off_until_the_last_of_several_is_done():
    before, found = torch.backends.cuda.cudnn_sdp_enabled(), []
    with ExitStack() as opened:
        for device in ("cpu", "cuda", "cuda"):
            opened.enter_context(packing._without_cudnn_attention(torch.device(device)))
            opened.callback(lambda: found.append(torch.backends.cuda.cudnn_sdp_enabled()))
    assert (found, torch.backends.cuda.cudnn_sdp_enabled()) == ([False, False, before], before)
