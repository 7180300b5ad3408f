"""LoRA layers around a shared, frozen model, and how much they change it."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from ..config import AdapterConfig
from ..errors import ConfigError
from ..models import TextClassifier, share_weights


def attach_adapter(classifier: TextClassifier, config: AdapterConfig) -> Any:
    """A PEFT model: the classifier's weights, shared and frozen, with fresh LoRA layers on query and value.

    No PEFT task type is set: the one for sequence classification would make the head trainable. LoRA starts at zero
    change, and draws its other factor from PyTorch's global generator.

    Raises:
        ConfigError: `target_modules` names no layer of this model.
    """
    from peft import LoraConfig

    lora = LoraConfig(
        r=config.rank,
        lora_alpha=cast(int, config.lora_alpha),
        target_modules=list(config.target_modules or classifier.lora_targets()),
        lora_dropout=0.0,
        bias="none",
    )
    try:
        model = wrap_with_lora(classifier, lora)
    except ValueError as error:
        raise ConfigError(f"target_modules {list(lora.target_modules)} cannot be adapted: {error}") from error
    outside = [name for name, p in model.named_parameters() if p.requires_grad and ".lora_" not in name]
    assert not outside, f"only LoRA weights may be trained, but these ask for gradients: {outside}"
    return model.eval()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within the block PyTorch draws by a seed; the random state of the process is left as it was."""
    # An explicit list, because PyTorch warns about an implicit one on machines with many GPUs.
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
        torch.manual_seed(seed)
        yield


def wrap_with_lora(classifier: TextClassifier, lora: Any) -> Any:
    """PEFT's wrapper around a weight-sharing copy of the classifier's model."""
    from peft import get_peft_model

    with warnings.catch_warnings():
        # PEFT asks Transformers for an attribute that Transformers is renaming; nothing the user could do about it.
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        warnings.filterwarnings("ignore", message="fan_in_fan_out is set to False")  # it sets that by itself
        return get_peft_model(share_weights(classifier.plain_model), lora)


def adapted_layers(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Every layer that carries LoRA factors, with its name."""
    for name, module in model.named_modules():
        if hasattr(module, "lora_A") and hasattr(module, "base_layer"):
            yield name, module


def predicted_change(model: nn.Module, learning_rate: float, effective_steps: float) -> float:
    """Upper estimate of `|scale * BA| / |W|` after some steps of Adam, averaged over adapted layers.

    Adam moves an entry by about the learning rate a step, at most. B starts at zero, so after T steps its entries are
    within lr * T; with independent signs, |BA| is at most lr * T * sqrt(d_out) * |A|.
    """
    ratios = []
    for _, layer in adapted_layers(model):
        (name,) = layer.active_adapters
        factor_a, factor_b = layer.lora_A[name].weight.detach(), layer.lora_B[name].weight
        moved = learning_rate * effective_steps * math.sqrt(factor_b.shape[0])
        ratios.append(layer.scaling[name] * moved * float(factor_a.norm()) / float(layer.base_layer.weight.norm()))
    return float(np.mean(ratios))


def relative_change(model: nn.Module) -> float:
    """`|scale * BA| / |W|` averaged over adapted layers, at full strength."""
    with torch.no_grad():
        ratios = [
            float(layer.get_delta_weight(name).norm() / layer.base_layer.weight.norm())
            for _, layer in adapted_layers(model)
            for name in layer.active_adapters
        ]
    return float(np.mean(ratios))
