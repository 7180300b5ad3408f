"""The weights of a model as one number, and what read them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class WeightsHash:
    """SHA-256 over the parameters of a model, kept for as long as nothing is written to them."""

    def __init__(self) -> None:
        # With the parameters themselves, so that no other's memory comes to lie in their place.
        self._kept: tuple[Any, Sequence[tuple[str, Tensor]], str] | None = None

    def of(self, model: nn.Module) -> str:
        """See `TextClassifier.fingerprint`."""
        found = ((name.replace(".base_layer.", "."), p) for name, p in model.named_parameters() if ".lora_" not in name)
        parameters = sorted(found, key=lambda one: one[0])
        # Of tensors that do not count how often they were written to, something that equals nothing else.
        writes = [object() if p.is_inference() else p._version for _, p in parameters]
        state = [(name, p.data_ptr(), p.shape, n) for (name, p), n in zip(parameters, writes, strict=True)]
        if self._kept is None or self._kept[0] != state:
            self._kept = state, parameters, _sha256(parameters)
        return self._kept[-1]


def fingerprint_of(model: nn.Module, *, leave_out: Sequence[str] = ()) -> str:
    """SHA-256 over the parameters of a model, see `TextClassifier.fingerprint`; without those with a part of a name."""
    return _sha256(
        sorted(
            (one for one in model.named_parameters() if not any(part in one[0] for part in leave_out)),
            key=lambda one: one[0],
        )
    )


def _sha256(parameters: Sequence[tuple[str, Tensor]]) -> str:
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
