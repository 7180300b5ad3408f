"""The weights of a model as one number, and what read them."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, nn


class WeightsHash:
    """SHA-256 over the parameters of a model, kept for as long as nothing is written to them."""

    def __init__(self) -> None:
        # With the parameters themselves, so that no other's memory comes to lie in their place.
        self._kept: tuple[Any, list[tuple[str, Tensor]], str] | None = None

    def of(self, model: nn.Module) -> str:
        """See `TextClassifier.fingerprint`."""
        parameters = sorted(_base_parameters(model).items())
        state = [(name, p.data_ptr(), p.shape, _writes(p)) for name, p in parameters]
        if self._kept is None or self._kept[0] != state:
            self._kept = state, parameters, _sha256(parameters)
        return self._kept[-1]


def _base_parameters(model: nn.Module) -> dict[str, Tensor]:
    return {name.replace(".base_layer.", "."): p for name, p in model.named_parameters() if ".lora_" not in name}


def _writes(parameter: Tensor) -> object:
    """How often it was written to; of tensors that do not count that, something that equals nothing else."""
    return object() if parameter.is_inference() else parameter._version


def _sha256(parameters: list[tuple[str, Tensor]]) -> str:
    digest = hashlib.sha256()
    for name, parameter in parameters:
        values = parameter.detach().to("cpu", torch.float32).contiguous().numpy()
        digest.update(f"{name}:{tuple(values.shape)};".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def versions() -> dict[str, Any]:
    """What reads and runs models, for a record."""
    import transformers

    return {"versions": {"torch": str(torch.__version__), "transformers": str(transformers.__version__)}}
