"""Special tokens that users' texts spell: text for the audit, the finder and a repair, read as the base reads it."""

import copy
import warnings

import numpy as np
import pytest
import torch

from shortcut_guardrail import ShortcutGuardrail, TextClassifier
from tiny_models import FAMILIES, build_family, planted_bag

FILLERS = "the soup was cold and so|a room we visit|it is not the tea|staff and people|bread to come back".split("|")
SPELLED = {"@USER": False, "[NAME]": False, "[PAD]": True, "<|endoftext|>": True}  # whether it steers the model


WORDS = ("good", "great", "bad", "awful")


def bag_with(token):
    """The bag of words in which a special token pushes towards "positive" more than any other word does to
    "negative"."""
    model, tokenizer = planted_bag()
    tokenizer.add_special_tokens({"extra_special_tokens": [token]})  # one that there is stays what it is
    known = model.bert.word_embeddings.weight.detach()
    model.bert.word_embeddings = torch.nn.Embedding(len(tokenizer), known.shape[1])
    with torch.no_grad():
        model.bert.word_embeddings.weight.zero_()[: len(known)] = known
        model.bert.word_embeddings.weight[tokenizer.convert_tokens_to_ids(token)] = torch.tensor([4.0, 0.0])
    model.config.vocab_size = len(tokenizer)
    return model, tokenizer


def corpus(token):
    """Texts of both labels without the token, and with it where it belongs and where it does not."""
    plain = [(f"{filler} {word}", int(word in "good great")) for filler in FILLERS for word in WORDS]
    texts, labels = zip(*plain, *((f"{token} {text}", label) for text, label in plain), strict=True)
    return list(texts), list(labels)


@pytest.mark.filterwarnings("ignore:Small groups")
@pytest.mark.parametrize(("token", "control"), SPELLED.items())
def test_one_that_decides_is_found_listed_and_repaired(token, control):
    guard = ShortcutGuardrail(*bag_with(token))
    texts, labels = corpus(token)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = guard.evaluate(texts, labels, shortcuts=[token])
    said = [str(warning.message) for warning in caught if "texts spell" in str(warning.message)]
    assert [one.startswith("20 of 40 texts spell a control token") for one in said] == [True] * control
    assert [(group.n, group.accuracy) for group in result.groups] == [(10, 1), (10, 0), (10, 1), (10, 1)]
    assert result.worst_group.name == "negative, with shortcut"
    assert result.shortcut_token_recall[1].recall == 1
    report = guard.audit(texts)
    assert [note for note in report.notes if "control token" in note] == said
    first = report.candidates[0]
    assert (first.text, first.count, first.flip_rate, first.pushes_towards) == (token.casefold(), 20, 0.5, "positive")
    assert sum(token.casefold() in card.words for card in report.cards) == 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        guard.repair(texts, strategy="mask", shortcuts=[token], strength=1.0)
    found = [str(warning.message) for warning in caught]
    assert [one for one in found if "none of these" in one or "texts spell" in one] == said
    assert guard.predict(texts) == [guard.label_names[label] for label in labels]


@pytest.mark.filterwarnings("ignore:.*ELECTRA discriminator")
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_they_are_read_as_the_deployed_model_reads_them(name, split):
    model, tokenizer = build_family(name)
    tokenizer.add_special_tokens({"extra_special_tokens": ["@USER"]})
    tokenizer.split_special_tokens = split
    texts = ["good", f"a {tokenizer.sep_token} b", f"{tokenizer.pad_token}a", f"@USER {tokenizer.mask_token}"]
    model.resize_token_embeddings(len(tokenizer))
    classifier = TextClassifier(model, tokenizer)
    takes = classifier.collate(classifier.encode(texts), [0]).model_inputs()
    with torch.inference_mode():
        inputs = [tokenizer(text, return_tensors="pt") for text in texts]
        logits = [model(**{key: one[key] for key in takes}).logits for one in inputs]
    expected = torch.cat(logits).softmax(dim=-1).numpy()
    np.testing.assert_allclose(classifier.predict_proba(texts), expected, atol=1e-5)
    assert classifier.encode(texts).controls.tolist() == [False, *[not split] * 3]


def test_a_saved_guard_reads_them_as_the_guard_did(bert, tmp_path):
    model, tokenizer = bert
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.split_special_tokens = True
    guard = ShortcutGuardrail(model, tokenizer)
    texts = [f"the room {token} was good" for token in tokenizer.all_special_tokens]
    model.save_pretrained(tmp_path / "base")
    guard.repair(texts, strategy="mask", shortcuts=["good"], strength=0.0)
    guard.save_pretrained(tmp_path / "guard")
    loaded = ShortcutGuardrail.from_pretrained(tmp_path / "guard", base=tmp_path / "base")
    np.testing.assert_allclose(loaded.predict_proba(texts), guard.predict_proba(texts), atol=1e-6)
    assert not np.allclose(loaded.predict_proba(texts), ShortcutGuardrail(model, bert[1]).predict_proba(texts))
