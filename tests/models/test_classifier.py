"""Every family people deploy, tokens and batches, and what is refused."""

import json
import re
import shutil
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers.utils import logging

from shortcut_guardrail import AdapterConfig, ConfigError, GuardrailWarning, ModelError, RunError
from shortcut_guardrail.attribution.saliency import find_important_tokens
from shortcut_guardrail.mitigation import attach_adapter, train_adapter
from shortcut_guardrail.models import load_model, measured_seconds, weights
from shortcut_guardrail.models.classifier import TextClassifier, _control_ids, usable_length
from shortcut_guardrail.models.encoding import said_of_controls
from tiny_models import FAMILIES, tiny_bert, wordpiece_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:.*ELECTRA discriminator")
PAIRS = [("clean room", "was bad"), ("good food", "very slow")]
TARGETS = {
    **{name: {"query", "value"} for name in ("bert", "roberta", "xlm-roberta", "albert", "electra", "longformer")},
    "distilbert": {"q_lin", "v_lin"},
    "deberta": {"in_proj"},
    **{name: {"query_proj", "value_proj"} for name in ("deberta-v2", "deberta-v3")},
    "mpnet": {"q", "v"},
    "modernbert": {"Wqkv"},
}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_attributed_adapted_and_predicted(family, name, texts):
    classifier = TextClassifier(*family(name), batch_size=4)
    encoded = classifier.encode(texts)
    saliency = find_important_tokens(classifier, encoded)
    assert (saliency.positions >= 0).any(axis=1).all()
    assert np.nanmax(saliency.margin_scores) > 0
    config = AdapterConfig(learning_rate=1e-2, batch_size=4)
    model, training = train_adapter(classifier, encoded, saliency.positions, config, seed=0)
    assert set(training.target_modules) == TARGETS[name]
    assert training.relative_change > 0
    adapted = classifier.with_model(model).predict_logits(encoded)
    assert np.abs(adapted - classifier.predict_logits(encoded)).max() > 0


@pytest.mark.parametrize("name", FAMILIES)
def test_padding_and_batches_change_no_prediction_and_pairs_get_the_tokenizers_segments(family, name, texts):
    classifier, texts = TextClassifier(*family(name), batch_size=4), [*texts, "good " * 200]
    encoded = classifier.encode(texts)
    assert encoded.truncated[-1]
    assert not encoded.truncated.all()
    assert encoded.lengths[-1] == classifier.max_length <= 34
    alone = np.concatenate([classifier.predict_logits(classifier.encode([text])) for text in texts])
    np.testing.assert_allclose(classifier.predict_logits(encoded), alone, atol=2e-4)
    encoded, reference = classifier.encode(PAIRS), classifier.tokenizer([a for a, _ in PAIRS], [b for _, b in PAIRS])
    assert [ids.tolist() for ids in encoded.input_ids] == reference["input_ids"]
    types = encoded.token_type_ids
    assert (None if types is None else [ids.tolist() for ids in types]) == reference.get("token_type_ids")
    assert encoded.offsets[0][np.flatnonzero(encoded.segments[0] == 1)[-1]][1] == len(PAIRS[0][1])
    part, own = classifier.collate(encoded, [0, 1]).select(torch.tensor([1])), classifier.collate(encoded, [1])
    assert all(one is other or torch.equal(one, other) for one, other in zip(part[1:], own[1:], strict=True))


# Of 34 rows of RoBERTa's, two are never reached; it puts four special tokens around a pair, and BERT three.
@pytest.mark.parametrize(("name", "fewest", "most"), [("bert", 5, 34), ("roberta", 6, 32)])
def test_a_tokenizer_without_a_limit_takes_the_models(family, name, fewest, most):
    model, tokenizer = family(name)
    tokenizer.model_max_length = int(1e30)
    assert TextClassifier(model, tokenizer).max_length == most
    assert TextClassifier(model, tokenizer, max_length=fewest).max_length == fewest
    with pytest.raises(ConfigError, match=f"between {fewest} and {most} for this model"):
        TextClassifier(model, tokenizer, max_length=fewest - 1)
    assert usable_length(SimpleNamespace(config=SimpleNamespace(), named_modules=list), tokenizer, None) == 512


def test_the_embedding_is_position_0_before_the_pooler_or_the_mean_over_real_tokens(family, bert):
    texts, classifier = ["good", "the room was very clean and the staff was friendly"], TextClassifier(*bert)
    batch = classifier.collate(classifier.encode(texts), [0, 1])
    output = classifier.encoder(**batch.model_inputs())
    torch.testing.assert_close(classifier.embed(batch), output.last_hidden_state[:, 0], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(classifier.embed(batch), output.pooler_output)
    with pytest.warns(GuardrailWarning, match="never saw the mask token"):
        TextClassifier(*family("electra"))
    with warnings.catch_warnings(action="error"):
        TextClassifier(*family("electra"), masks=False)
    pools = TextClassifier(*family("modernbert"))  # its head takes the mean
    batch = pools.collate(pools.encode(texts), [0, 1])
    hidden = pools.encoder(**batch.model_inputs()).last_hidden_state
    expected = hidden[0, : int(batch.attention_mask[0].sum())].mean(dim=0)
    torch.testing.assert_close(pools.embed(batch)[0], expected)
    assert not torch.allclose(pools.embed(batch, "cls")[0], expected)


def test_parameter_counts_at_the_shape_of_bert_base():
    shape = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
    with torch.device("meta"):  # where nothing is allocated: the shape alone counts
        classifier = TextClassifier(*tiny_bert(**shape), device="meta")
    adapted = attach_adapter(classifier, AdapterConfig(rank=4))
    assert sum(p.numel() for p in adapted.parameters() if p.requires_grad) == 147_456


def test_sharing_weights_leaves_the_model_as_it_was(bert):
    model, tokenizer = bert
    model.train()
    before = {name: (p.requires_grad, p.clone()) for name, p in model.named_parameters()}
    classifier = TextClassifier(model, tokenizer)
    attach_adapter(classifier, AdapterConfig())
    assert model.training
    own = dict(classifier.model.named_parameters())
    for name, parameter in model.named_parameters():  # a name of an adapter would be no key
        assert parameter.requires_grad == before[name][0]
        assert torch.equal(parameter, before[name][1])
        assert own[name].data_ptr() == parameter.data_ptr()


def test_a_sigmoid_head_answers_with_two_probabilities_that_have_names(texts):
    model, tokenizer = tiny_bert(n_classes=1, problem_type="multi_label_classification")
    model.config.id2label = {0: "toxic"}
    classifier = TextClassifier(model, tokenizer)
    assert classifier.label_names == ("not toxic", "toxic")
    logits = torch.from_numpy(classifier.predict_logits(classifier.encode(texts)))
    with torch.no_grad():
        raw = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits[:, 0]
    torch.testing.assert_close(logits.softmax(-1)[:, 1], raw.sigmoid(), atol=1e-5, rtol=1e-4)


SEVERAL = {"problem_type": "multi_label_classification"}


def test_what_is_refused():
    for made, options, kind, message in (
        ({"id2label": dict(enumerate(("bad", "good", "bad")))}, {}, ModelError, "^Several classes .* called 'bad', so"),
        ({"n_classes": 1}, {}, ModelError, "single logit.*head=.sigmoid."),
        ({"n_classes": 1}, {"head": "softmax"}, ConfigError, "needs a model with at least two logits"),
        (SEVERAL, {"head": "softmax"}, ConfigError, "another one than multi_label_class.* has 3 logits"),
        ({"problem_type": "single_label_classification"}, {"head": "sigmoid"}, ConfigError, "needs a model with an"),
        ({}, {"head": "relu"}, ConfigError, "head must be softmax or sigmoid, but is 'relu'"),
        ({"n_classes": 1, "problem_type": "regression"}, {}, ModelError, "has a regression head"),
        (SEVERAL, {}, ConfigError, "has a multi-label head, so that negative, mixed, positive .* label='negative'"),
        ({}, {"head": "sigmoid"}, ConfigError, "has a multi-label head"),
        (SEVERAL, {"label": "Mixed"}, ConfigError, "label= is 'Mixed', but .* negative, mixed, .* mean 'mixed'"),
        ({}, {"label": "mixed"}, ConfigError, "gives each exactly one of negative, mixed, positive"),
        (SEVERAL, {"label": "mixed", "thresholds": "mixed=1"}, ConfigError, "above 0 and below 1, .* says 'mixed=1'"),
        (SEVERAL, {"label": "mixed", "thresholds": "0.5"}, ConfigError, "above 0 and below 1, .* says '0.5'"),
        (SEVERAL, {"label": "mixed", "thresholds": {"rude": 0.3}}, ConfigError, "names 'rude', but .* the labels neg"),
        ({}, {"thresholds": {"mixed": 0.3}}, ConfigError, "has a softmax head, which has none"),
        ({}, {"batch_size": 0}, ConfigError, "batch_size must be at least 1, but is 0"),
        ({}, {"max_length": 33}, ConfigError, "max_length must lie between 5 and 32 for this model, but is 33"),
        ({}, {"precision": "int8"}, ConfigError, "precision must be auto, float32 or bfloat16"),
    ):
        model, tokenizer = tiny_bert(**{name: value for name, value in made.items() if name != "id2label"})
        model.config.id2label = made.get("id2label", model.config.id2label)
        with pytest.raises(kind, match=message):
            TextClassifier(model, tokenizer, **options)


def test_models_and_tokenizers_that_lack_something_and_what_is_just_allowed(bert):
    model, tokenizer = bert
    without_padding = wordpiece_tokenizer()
    without_padding.pad_token = None
    for made, message in (
        ((model, SimpleNamespace(mask_token_id=4)), "is not a fast tokenizer, which is needed"),
        ((model, without_padding), "has no padding token. Set tokenizer.pad_token"),
        ((model.bert, tokenizer), "BertModel, which has no text-class"),
        ((model, wordpiece_tokenizer(model_max_length=4)), "take 4 tokens at most, .* at least 5 are needed"),
    ):
        with pytest.raises(ModelError, match=message):
            TextClassifier(*made)
    assert TextClassifier(*tiny_bert(n_classes=1), head="sigmoid").label_names == ("0", "1")
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[tokenizer.convert_tokens_to_ids("awful")] = float("nan")
    classifier = TextClassifier(*bert)
    with pytest.raises(RunError, match="logits for text 2 are not finite numbers"):  # which comes last in its batch
        classifier.predict_logits(classifier.encode(["the soup was cold", "awful", "the soup"]))


def test_tokens_that_steer_a_model_are_told_by_role_or_look():
    ids = {"<s>": 0, "</s>": 1, "<unk>": 2, "@USER": 3, "<|im_start|>": 4}
    roles = {f"{role}_token": None for role in ("sep", "cls", "pad")} | {"bos_token": "<s>", "eos_token": "</s>"}
    roles |= {"unk_token": "<unk>", "mask_token": "<unk>", "all_special_tokens": [*ids]}
    assert sorted(_control_ids(SimpleNamespace(**roles, convert_tokens_to_ids=ids.get))) == [0, 1, 4]


def test_what_is_known_of_tokens(bert):
    classifier = TextClassifier(*bert)
    # Special tokens of the template are not ordinary; those that a text spells are part of it.
    encoded = classifier.encode(["good [SEP] soup [MASK] ☃", "Good xyz"])
    shown = [[encoded.token_text(row, i) for i in np.flatnonzero(encoded.ordinary[row])] for row in (0, 1)]
    assert shown == [["good", "[sep]", "soup", "[mask]", "☃"], ["good", "x", "##y", "##z"]]
    assert said_of_controls(1, 2).startswith("1 of 2 texts spells a control token, such as ")
    assert encoded.controls.tolist() == [True, False] == encoded.select([1, 0]).controls.tolist()[::-1]
    # Of a span are the tokens with a character in it, and not the one that begins where it ends.
    touching = classifier.encode(["good,soup"])
    spans = [np.flatnonzero(touching.tokens_within(0, 0, *span)).tolist() for span in ((0, 4), (3, 5), (4, 5))]
    assert spans == [[1], [1, 2], [2]]
    cut = TextClassifier(*bert, max_length=6).encode(["the soup was cold and slow"])
    assert (cut.truncated.tolist(), cut.visible_text(0)) == ([True], "the soup was cold")
    pair = TextClassifier(*bert, max_length=9).encode([("the soup was cold and slow", "honestly " * 4)])
    assert [pair.visible_text(0, side) for side in (0, 1)] == ["the soup was", "honestly honestly honestly"]
    # What stands at the same characters of the other text is no part of a span.
    for span, found in (((0, 3), [[1], [5]]), ((4, 8), [[2], [5]]), ((7, 12), [[2, 3], [5, 6]]), ((12, 17), [[], [6]])):
        assert [np.flatnonzero(pair.tokens_within(0, side, *span)).tolist() for side in (0, 1)] == found


def test_a_fingerprint_is_that_of_the_weights_without_the_adapter_and_computed_once(bert, tmp_path, monkeypatch):
    for part in bert:
        part.save_pretrained(tmp_path)
    saved, hashed = TextClassifier(*load_model(tmp_path)).fingerprint(), []
    sha256 = weights._sha256
    monkeypatch.setattr(weights, "_sha256", lambda parameters: hashed.append(1) or sha256(parameters))
    classifier = TextClassifier(*bert)
    before, adapted = classifier.fingerprint(), classifier.with_model(attach_adapter(classifier, AdapterConfig()))
    assert adapted.fingerprint() == classifier.fingerprint() == before == saved
    assert len(hashed) == 1
    with torch.no_grad():
        bert[0].classifier.bias += 1e-3  # the caller's own model, whose memory it shares
    assert classifier.fingerprint() != before
    assert (adapted.fingerprint(), len(hashed)) == (classifier.fingerprint(), 2)


def test_texts_are_answered_as_their_tokens_are_and_a_cut_is_said(bert, texts, monkeypatch):
    classifier, told = TextClassifier(*bert, batch_size=3), []
    assert len(classifier.capabilities) == 3
    encoded = classifier.encode(texts, progress=lambda *now: told.append(now))
    probs = classifier.predict_proba(texts, progress=lambda *now: told.append(now))
    assert told == [("Tokenising", 8, 8), *(("Predicting", done, 8) for done in (3, 6, 8))]
    assert classifier.spent.answers == 8
    np.testing.assert_array_equal(probs, classifier.predict_proba(encoded))
    with pytest.warns(GuardrailWarning, match="sees only the beginning of 1 text: it takes at most 32 tokens"):
        found = classifier.predict_proba(["good " * 50, "bad"])
    np.testing.assert_allclose(found.sum(axis=1), 1)
    cost = classifier.cost(texts)
    assert (cost.texts, cost.calls, cost.tokens) == (len(texts), len(texts), classifier.encode(texts).lengths.sum())
    read = []
    monkeypatch.setattr("time.perf_counter", lambda: sum(map(len, read)))  # a second for each character
    assert measured_seconds(read.extend, ["good"] * 50 + ["good " * 20]) == 300
    record = classifier.record()
    assert (record["kind"], record["fingerprint"]) == ("classifier", classifier.fingerprint())


@pytest.mark.parametrize("bars", [True, False])
def test_folders_that_are_no_models_damaged_weights_and_a_missing_head(bert, family, model_folder, tmp_path, bars):
    weights_file = shutil.copytree(model_folder, tmp_path / "cut") / "model.safetensors"
    weights_file.write_bytes(weights_file.read_bytes()[:1000])
    model, tokenizer = family("roberta")
    for part in (model.roberta, tokenizer):
        part.save_pretrained(tmp_path / "bare")
    for part in (bert[0].config, bert[1]):
        part.save_pretrained(tmp_path / "pickled")
    torch.save(bert[0].state_dict(), tmp_path / "pickled" / "pytorch_model.bin")
    (logging.enable_progress_bar if bars else logging.disable_progress_bar)()
    logging.set_verbosity(before := logging.CRITICAL)
    head = [f"classifier\\.{name}" for name in (r"dense\.bias", r"dense\.weight", r"out_proj\.bias")]
    for name, message in (
        *[("", r"holds no config\.json"), ("pickled", r"holds no \.safetensors file.*allow_pickle=True")],
        ("cut", "could not be loaded as a text classifier"),
        ("cut/config.json", "is a file; give the folder that holds the model"),
        ("bare", f"has no weights for {', '.join(head)} and others: it is a bare encoder"),
    ):
        with pytest.raises(ModelError, match=message):
            load_model(tmp_path / name)
    own, loaded = (TextClassifier(*both) for both in (bert, load_model(tmp_path / "pickled", allow_pickle=True)))
    assert own.fingerprint() == loaded.fingerprint()
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (before, bars), "Transformers is as it was"
    logging.set_verbosity_warning()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"id2label": dict(enumerate("abcd"))}, "id2label names 4 classes (a, b, c, d), but the weights have 3. Name"),
        ({"id2label": {0: "a"}}, "id2label names 1 class (a), but the weights have 3. Name each class of the weights"),
        ({"hidden_size": 2}, "follows from it. Save the model again."),
        ({"id2label": dict(enumerate(map(str, range(10_001))))}, "num_labels must be a whole number from 0 to 10000"),
        ({"id2label": {"0": "a", "2": "b", "5": "c"}}, "id2label has 3 classes, but none is numbered 1"),
        ({"num_hidden_layers": 1001}, "num_hidden_layers must be a whole number from 0 to 1000, but is 1001"),
        ({"num_attention_heads": -1}, "num_attention_heads must be a whole number from 0 to 10000, but is -1."),
        ({"hidden_dropout_prob": float("nan")}, "hidden_dropout_prob must be a number from 0 to 1"),
        ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob must be a number from 0 to 1, but is 1.5."),
        ({"vocab_size": 2}, "bert.embeddings.word_embeddings.weight has the shape"),
    ],
)
def test_a_configuration_that_does_not_fit_the_weights(model_folder, tmp_path, changed, said):
    file = shutil.copytree(model_folder, tmp_path / "odd") / "config.json"
    config = {**json.loads(file.read_text()), **changed}
    file.write_text(json.dumps(config | {"label2id": {name: i for i, name in config["id2label"].items()}}))
    with pytest.raises(ModelError, match=rf"odd', config\.json: .*{re.escape(said)}"):
        load_model(tmp_path / "odd")


def test_a_name_that_is_nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-folder-of-models" / "guarded-model").mkdir(parents=True)
    (tmp_path / "guarded-model").mkdir()
    for name, message in (
        (
            "a-folder-of-models/guarded-modle",
            "here, only 'a-folder-of-models/guarded-model', and it could not be loaded",
        ),
        ("guarded-modle", "There is no folder 'guarded-modle' here, only 'guarded-model', and it could not be loaded"),
        ("xyz", "There is no folder 'xyz' here, and it could not be loaded as a text classifier"),
        ("no-such-owner/no-such-model", "could not be loaded as a text classifier"),
        *((name, "There is no folder") for name in ("./model", "../model", "~/model", "models/news/best", "/model")),
    ):
        with pytest.raises(ModelError, match=message):
            load_model(name)
