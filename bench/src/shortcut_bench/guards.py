"""What systems around a guard share: its adapter folded into weights."""

from __future__ import annotations

import copy
from typing import Any

from shortcut_guardrail.guardrail import ShortcutGuardrail

from .systems import Material


def folded(guard: ShortcutGuardrail, material: Material) -> Any:
    """A Transformers model with the adapter merged at the guard's strength; at strength 0 the base model itself."""
    if guard.debias_strength == 0:
        return material.base.model
    from peft.helpers import rescale_adapter_scale

    # `merge_and_unload` writes into the weights, which the guard shares with the base model.
    model = copy.deepcopy(guard.peft_model)
    with rescale_adapter_scale(model, guard.debias_strength):
        model.merge_adapter()
    merged = model.unload()
    return merged.eval()
