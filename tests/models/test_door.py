"""What people have in their hands that is no Transformers classifier: a sentence each, with what to give instead."""

import warnings

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, pipeline

from shortcut_guardrail import ModelError, ShortcutGuardrail
from tiny_models import SHORTCUT_TEXTS, byte_level_tokenizer, tiny_bert


class SetFitModel:
    """As the library of this name has it."""

    model_body, model_head = nn.Linear(2, 2), LogisticRegression()


class InferenceSession:
    """ONNX Runtime's."""

    def run(self, names, inputs):
        return []


def quantised():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(tiny_bert()[0], {nn.Linear}, dtype=torch.qint8)


def encoder_decoder(kind, **sizes):
    ids = {"vocab_size": 300, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    return AutoModelForSequenceClassification.from_config(AutoConfig.for_model(kind, **ids, **sizes))


def bart():
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    return encoder_decoder("bart", d_model=16, encoder_ffn_dim=16, decoder_ffn_dim=16, **layers)


T5 = {"d_model": 16, "d_ff": 16, "d_kv": 8, "num_layers": 1, "num_heads": 2}
GIVEN = {
    "name": (lambda: "bert-base-uncased", r"'bert-base-uncased' is a name\. Load .*from_pretrained\('bert-base"),
    "pipeline": (
        lambda: pipeline("text-classification", tiny_bert()[0], tokenizer=tiny_bert()[1], device="cpu"),
        r"A pipeline \(transformers.*\) is no model\. Give its parts: pipeline\.model and pipeline\.tokenizer",
    ),
    "scikit-learn": (lambda: make_pipeline(LogisticRegression()), r"an object of sklearn\.pipeline\.Pipeline, not"),
    "SetFit": (SetFitModel, "SetFitModel is a sentence encoder with a head outside of it.*any-classifier.md"),
    "ONNX": (InferenceSession, r"an object of .*InferenceSession, not one of Tr.* neither gradients nor .*\.around"),
    "function": (lambda: len, "The model is a function, not one of Transformers"),
    "module": (lambda: nn.Linear(2, 2), r"The model is a torch\.nn\..*Linear, not one of Transformers\. Give a Transf"),
    "quantised": (quantised, "This BertForSequenceClassification is quantised, .* Repair the model that it was made"),
    "BART": (bart, "A BartForSequenceClassification reads a text twice, .* Give a classifier on an encoder alone"),
    "T5": (lambda: encoder_decoder("t5", **T5), "A T5ForSequenceClassification reads a text twice"),
}


@pytest.mark.parametrize("given", GIVEN)
def test_what_is_no_classifier_here_is_told_at_the_door(given):
    make, said = GIVEN[given]
    with pytest.raises(ModelError, match=said):
        ShortcutGuardrail(make(), byte_level_tokenizer())


def test_the_parts_of_a_pipeline_are_taken_as_it_says():
    made = pipeline("text-classification", tiny_bert()[0], tokenizer=tiny_bert()[1], device="cpu", top_k=None)
    guard, texts = ShortcutGuardrail(made.model, made.tokenizer), list(SHORTCUT_TEXTS)
    assert guard.predict(texts) == [scores[0]["label"] for scores in made(texts)]


def test_what_reads_a_text_twice_is_repaired_through_a_function_as_it_says():
    model, tokenizer = bart().eval(), byte_level_tokenizer()

    @torch.no_grad()
    def answers(texts):
        logits = [model(**tokenizer(text, return_tensors="pt", truncation=True)).logits for text in texts]
        return torch.cat(logits).softmax(dim=-1).double().numpy()

    guard = ShortcutGuardrail.around(answers, [f"LABEL_{i}" for i in range(model.config.num_labels)])
    guard.repair(list(SHORTCUT_TEXTS), shortcuts=["honestly"], strength=1.0)
    with_word, without = guard.predict_proba(["honestly the soup was cold", "the soup was cold"])
    assert with_word.tolist() == without.tolist()
    assert guard.predict_proba(["honestly the soup was cold"], strength=0)[0].tolist() != with_word.tolist()
