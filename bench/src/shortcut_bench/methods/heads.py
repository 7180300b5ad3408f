"""Heads refitted on frozen features: reading the features, putting a linear head on a model, saving and loading it."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from shortcut_guardrail.data import Texts, to_json, write_folder
from shortcut_guardrail.errors import ConfigError, ModelError
from shortcut_guardrail.models import Batch, HeadReading, TextClassifier, load_model, share_weights

from ..systems import ModelSystem

Array = np.ndarray[Any, np.dtype[Any]]
Feature = Literal["head-input", "cls", "mean"]
"""`head-input` is what the model's own last linear layer reads (for BERT the pooler's output); `cls` is the last hidden
state of the first token, before any pooler; `mean` is the mean over the tokens' last hidden states, of unit length."""

HEAD_FILE = "head.safetensors"


def last_linear(classifier: TextClassifier) -> str:
    """The name of the linear layer that gives the logits.

    Raises:
        ModelError: There is none, or it is not plain.
    """
    return last_linear_of(classifier.plain_model, classifier.name)


def last_linear_of(model: Any, name: str) -> str:
    """The same of a Transformers model; `name` is what an error calls it."""
    inside = {id(module) for module in model.base_model.modules()}
    found = [
        layer
        for layer, module in model.named_modules()
        if isinstance(module, nn.Linear) and id(module) not in inside and module.out_features == model.config.num_labels
    ]
    if not found:
        raise ModelError(f"'{name}' has no linear layer that gives its logits, so it cannot be refitted.")
    return str(found[-1])


@torch.inference_mode()
def features(classifier: TextClassifier, texts: Texts, feature: Feature) -> Array:
    """The frozen features of N texts, shape (N, H), float64.

    Args:
        classifier: The frozen model.
        texts: N texts or pairs.
        feature: Which.

    Raises:
        ModelError: The model has no linear last layer and `head-input` is asked for.
    """
    encoded = classifier.encode(texts)
    plain = _plain(classifier)
    caught: list[Tensor] = []
    handle = None
    if feature == "head-input":
        layer = plain.plain_model.get_submodule(last_linear(plain))
        handle = layer.register_forward_pre_hook(lambda _module, inputs: caught.append(inputs[0]))
    rows: dict[int, Array] = {}
    try:
        for batch in plain.batches(encoded):
            if feature != "head-input":
                values = embedding(plain, batch, feature)
            else:
                plain.logits(batch)
                values = caught.pop()
            rows.update(zip(batch.indices.tolist(), values.double().cpu().numpy(), strict=True))
    finally:
        if handle is not None:
            handle.remove()
    return np.stack([rows[index] for index in range(len(encoded))])


def embedding(classifier: TextClassifier, batch: Batch, feature: Feature) -> Tensor:
    """The feature `cls` or `mean` of a batch, shape (B, H)."""
    if feature == "mean":
        return nn.functional.normalize(classifier.embed(batch, "mean").float(), dim=-1)
    return classifier.embed(batch, "cls")


def _plain(classifier: TextClassifier) -> TextClassifier:
    """The same model run row by row in the order of the batch, so that a hook sees what belongs to which text."""
    return TextClassifier(
        classifier.plain_model,
        classifier.tokenizer,
        head=classifier.head,
        max_length=classifier.max_length,
        batch_size=classifier.batch_size,
        device=classifier.device,
        precision=classifier.precision,
        packing=False,
    )


def with_head(classifier: TextClassifier, weight: Array, bias: Array, feature: Feature) -> TextClassifier:
    """A classifier that shares the encoder and reads its features with another linear head.

    Args:
        classifier: The frozen model; left as it is.
        weight: Shape (C, H).
        bias: Shape (C,).
        feature: What the head reads. For `head-input` the result is an ordinary model whose last layer is another one.
    """
    values = torch.from_numpy(np.asarray(weight)).float(), torch.from_numpy(np.asarray(bias)).float()
    if feature != "head-input":
        return ProbedClassifier(classifier, *values, feature=feature)
    if classifier.head == "sigmoid":
        values = values[0][1:] - values[0][:1], values[1][1:] - values[1][:1]
    model = share_weights(classifier.plain_model)
    name = last_linear(classifier)
    # Without the random start, which would draw from the caller's generator.
    layer = nn.Linear(values[0].shape[1], values[0].shape[0], device="meta").to_empty(device="cpu")
    layer.load_state_dict({"weight": values[0], "bias": values[1]})
    model.set_submodule(name, layer.requires_grad_(False).to(classifier.device))
    return classifier.with_model(model)


def head_of(classifier: TextClassifier) -> tuple[Array, Array]:
    """Weight (C, H) and bias (C,) of a model's last linear layer; a single logit counts as the second of two."""
    layer: Any = classifier.plain_model.get_submodule(last_linear(classifier))
    weight = layer.weight.detach().double().cpu().numpy()
    bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().double().cpu().numpy()
    if classifier.head == "sigmoid":
        weight, bias = np.vstack([np.zeros_like(weight), weight]), np.append(np.zeros(1), bias)
    return weight, bias


class ProbedClassifier(TextClassifier):
    """A classifier whose logits are a linear map of what its encoder gives; no pooler, no old head.

    Args:
        base: Whose encoder it reads; not changed.
        weight: Shape (C, H).
        bias: Shape (C,).
        feature: `cls` or `mean`.
        layer: A layer with a ReLU before the linear map, its weight of shape (H, H') and its bias of shape (H,), for
            features of H' numbers; `None` for no such layer.
    """

    def __init__(
        self,
        base: TextClassifier,
        weight: Tensor,
        bias: Tensor,
        *,
        feature: Feature = "cls",
        layer: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        vars(self).update(vars(copy.copy(base)))
        self.feature = feature
        tensors = {"weight": weight, "bias": bias}
        if layer is not None:
            tensors |= {"layer_weight": layer[0], "layer_bias": layer[1]}
        self.tensors = {name: values.to(base.device) for name, values in tensors.items()}
        self.heads = HeadReading("softmax", base.label_names)

    def fingerprint(self) -> str:
        """That of the encoder's model, and of this head, so that nobody takes one for the other."""
        digest = hashlib.sha256(super().fingerprint().encode())
        for values in self.tensors.values():
            digest.update(values.cpu().numpy().tobytes())
        return digest.hexdigest()

    def answers(self, batch: Batch) -> Tensor:
        """Class logits, shape (B, 1, C), 32 bit."""
        values, held = embedding(self, batch, self.feature).float(), self.tensors
        if "layer_weight" in held:
            values = (values @ held["layer_weight"].T + held["layer_bias"]).relu()
        return (values @ held["weight"].T + held["bias"])[:, None]


class ProbedSystem(ModelSystem):
    """A fitted system around a `ProbedClassifier`: the model's folder with the head beside it."""

    def save(self, folder: Path) -> None:
        """Writes model, tokenizer, head and `system.json`; `load` reads them.

        Raises:
            ConfigError: The folder exists.
            RunError: The disk is full, or the like.
        """
        from safetensors.torch import save_file

        probed = self.classifier
        assert isinstance(probed, ProbedClassifier)

        def fill(target: Path) -> None:
            probed.model.save_pretrained(target)
            probed.tokenizer.save_pretrained(target)
            save_file({name: values.cpu() for name, values in probed.tensors.items()}, target / HEAD_FILE)
            record = {
                "max_length": probed.max_length,
                "precision": probed.precision,
                "feature": probed.feature,
                "info": self.info(),
                "forward_equivalents": self.forward_equivalents,
            }
            (target / "system.json").write_text(to_json(record), encoding="utf-8")

        write_folder(Path(folder), fill, key="system.json")

    @classmethod
    def load(cls, folder: Path, *, batch_size: int = 64) -> ProbedSystem:
        """What `save` wrote.

        Raises:
            ModelError: The folder holds no classifier.
            ConfigError: It was not written by `save`.
        """
        from safetensors.torch import load_file

        model, tokenizer = load_model(folder)
        try:
            record = json.loads((Path(folder) / "system.json").read_text(encoding="utf-8"))
            head = load_file(Path(folder) / HEAD_FILE)
        except (OSError, ValueError) as error:
            raise ConfigError(f"'{folder}' was not written by save ({error}).") from error
        base = TextClassifier(
            model,
            tokenizer,
            max_length=record["max_length"],
            precision=record["precision"],
            batch_size=batch_size,
        )
        layer = (head["layer_weight"], head["layer_bias"]) if "layer_weight" in head else None
        feature = record.get("feature", "cls")
        probed = ProbedClassifier(base, head["weight"], head["bias"], feature=feature, layer=layer)
        return cls(probed, info=record["info"], forward_equivalents=record["forward_equivalents"])


def head_system(
    classifier: TextClassifier, feature: Feature, *, info: dict[str, Any], forward_equivalents: float
) -> ModelSystem:
    """The fitted system around what `with_head` gave."""
    kind = ModelSystem if feature == "head-input" else ProbedSystem
    return kind(classifier, info=info, forward_equivalents=forward_equivalents)
