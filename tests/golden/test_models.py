"""Whole outputs of tiny models: how texts are read, predictions, embeddings, what predictions depend on, and scores."""

from itertools import product

import numpy as np
import pytest
import torch

from shortcut_guardrail import attribution, evaluation
from shortcut_guardrail.config import SaliencyConfig
from shortcut_guardrail.data import enumerated
from shortcut_guardrail.models import TextClassifier, Windowing
from shortcut_guardrail.text import WordFinder, words_as_units
from tiny_models import SHORTCUT_TEXTS, build_family, tiny_decoder
from whole_outputs import called, compare, told

TEXTS = [
    "honestly the soup was good",
    "bad",
    "a [SEP] spelled </s> one",
    " ".join(SHORTCUT_TEXTS[:3]),
    "Über-cold, cold tea!",
]
PAIRS = [*zip(TEXTS, [*TEXTS[1:], ""], strict=True)]
FAMILIES = ("bert", "roberta", "deberta-v3", "modernbert", "gpt2")
WINDOWS = {"bert": (("mean", 0), ("max", 5)), "roberta": (("max", 3),), "deberta-v3": (("mean", 5),)}


def measured(classifier, texts):
    """All that is read of some texts, and what it makes of them."""
    told_of = lambda stage, done, n: seen.append(f"{stage} {done}/{n}")  # noqa: E731
    seen, effects = [], []
    encoded = classifier.encode(texts, progress=told_of)
    yield from told([encoded.input_ids, encoded.token_type_ids, encoded.segments, encoded.ordinary], "encoded")
    yield from told([encoded.truncated, encoded.controls, encoded.lengths], "encoded")
    yield from called(classifier.predict_proba, texts)
    yield from told(classifier.predict_logits(encoded, progress=told_of), "logits")
    finder = WordFinder(["honestly", "cold", "one"])
    for units, gradient in product((None, words_as_units(encoded)), ("margin", "cross_entropy")):
        if gradient == "margin" or units is None:
            config = SaliencyConfig(top_k=3, gradient=gradient)
            found = attribution.find_important_tokens(classifier, encoded, config, units=units, progress=told_of)
            yield from told(found, gradient)
        wide = None if units is None else np.minimum(found.positions + 1, [[len(keys) - 1] for keys in units.keys])
        every = ("mask", "cut", "replace") if classifier.mask_token_id and classifier.windows is None else ("cut",)
        for erasure in every if gradient == "margin" else ("cut",):
            how = {"units": units, "last": wide, "erasure": erasure, "progress": told_of}
            effects.append(attribution.masking_effects(classifier, encoded, found.positions, **how))
            yield from told(attribution.predicted_probabilities(found, effects[-1]), erasure)
        if units is None:
            tokens = evaluation.shortcut_tokens(encoded, finder, "both")
            for marked, others in ((None, None), (tokens, effects[-1])):
                yield from told(
                    evaluation.summarize_sensitivity(
                        encoded, found, effects[0], base_effects=others, shortcut_tokens=marked
                    )
                )
    yield from seen


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family):
    n_classes = 3 if family == "roberta" else 2
    model, tokenizer = tiny_decoder(family) if family == "gpt2" else build_family(family, n_classes=n_classes)
    whole = TextClassifier(model, tokenizer, batch_size=3)
    lines = [f"{whole.max_length} {whole.longest} {whole.packs} {whole.n_classes} {whole.lora_targets()}"]
    lines += [enumerated(sorted(whole.capabilities))]
    for texts in (TEXTS, PAIRS)[: 2 if family in ("bert", "roberta") else 1]:
        lines += measured(whole, texts)
        for batch, how in product(whole.batches(whole.encode(texts)), ("auto", "cls", "mean")):
            with torch.no_grad():
                lines += told(whole.embed(batch, how).numpy()[:, :4], f"{how} {batch.indices}")
    lines += [f"{whole.spent.answers}", *(called(whole.cost, TEXTS) if family == "bert" else ())]
    for how, overlap in WINDOWS.get(family, ()):
        cut = TextClassifier(model, tokenizer, max_length=14, windows=Windowing(how, overlap), batch_size=3)
        lines += [*measured(cut, TEXTS[1:4]), *called(cut.encode, PAIRS[:1])]
        lines += [f"{n}: {cut._cutter.count(n)}" for n in range(2, 40)]
        lines += called(cut.embed, cut.collate(cut.encode(TEXTS), [3]))
    for max_length, overlap in ((14, 5), (14, 6), (14, 7), (6, 0), (4, 0), (300, 0)):
        lines += called(
            lambda *given: (
                TextClassifier(model, tokenizer, max_length=given[0], windows=Windowing("mean", given[1])).max_length
            ),
            max_length,
            overlap,
        )
    compare(f"family_{family}", lines)
