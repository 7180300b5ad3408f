"""What is no Transformers classifier, and what to give instead."""

from __future__ import annotations

from typing import Any

from torch import nn

from ..errors import ModelError

_GIVE = "Give a Transformers model that was fine-tuned for sequence classification, and its tokenizer."
_AROUND = (
    "It has neither gradients nor layers that an adapter could change. Give what answers for it to "
    "ShortcutGuardrail.around, which audits it and repairs it in front (docs/howto/any-classifier.md). Or give a "
    "Transformers model that was fine-tuned for sequence classification, and its tokenizer."
)


def check_model(model: Any, *, masks: bool) -> None:
    """Refuse what is no module of Transformers, or none that can be read here.

    Args:
        masks: Whether words are to be masked, and the model to be adapted.
    """
    kind = type(model)
    what = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(model, str):
        raise ModelError(f"'{model}' is a name. Load the model with ShortcutGuardrail.from_pretrained('{model}').")
    if hasattr(model, "tokenizer") and isinstance(getattr(model, "model", None), nn.Module):
        raise ModelError(f"A pipeline ({what}) is no model. Give its parts: pipeline.model and pipeline.tokenizer.")
    if kind.__name__.startswith("SetFit"):
        raise ModelError(f"{what} is a sentence encoder with a head outside of it. {_AROUND}")
    if not isinstance(model, nn.Module):
        said = "a function" if callable(model) and hasattr(model, "__name__") else f"an object of {what}"
        raise ModelError(f"The model is {said}, not one of Transformers. {_AROUND}")
    if not hasattr(model, "config") or not hasattr(model, "get_input_embeddings"):
        raise ModelError(f"The model is a {what}, not one of Transformers. {_GIVE}")
    if any("quantized" in type(module).__module__.split(".") for module in model.modules()):
        raise ModelError(
            f"This {kind.__name__} is quantised, so that its layers cannot be adapted. Repair the model that it was "
            "made from, export the repaired model (docs/howto/serve.md), and quantise that."
        )
    if masks and getattr(model.config, "is_encoder_decoder", False):
        raise ModelError(
            f"A {kind.__name__} reads a text twice, in an encoder and a decoder, and words cannot be masked in both. "
            "Give a classifier on an encoder alone, such as BERT or ModernBERT, or a function that asks this one to "
            "ShortcutGuardrail.around (docs/howto/any-classifier.md)."
        )
