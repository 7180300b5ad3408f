"""What systems around a guard share: the configurations that identify its runs, and its adapter folded into weights."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from shortcut_guardrail.config import GuardrailConfig
from shortcut_guardrail.guardrail import ShortcutGuardrail

from .systems import Material, System

_NO_DISTILLATION = ("maskcl", "few-shot")
"""The strategies that, with a strength that is fixed or chosen by labels, read nothing of the section `distill`."""


def recorded_before(system: System) -> list[dict[str, Any]]:
    """A system's `config` as earlier results of the very same computation recorded it.

    A guard's whole configuration is recorded, with sections that its strategy does not read. When a default there
    changes, the computation stays what it was and its hash does not: `distill.teacher` was `both` until commit 66ab052.
    """
    guard = getattr(system, "guard_config", None)
    if not isinstance(guard, GuardrailConfig) or guard.strategy not in _NO_DISTILLATION:
        return []
    earlier = dataclasses.replace(guard, distill=dataclasses.replace(guard.distill, teacher="both"))
    return [{**system.config(), "guard": earlier.to_dict()}]


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
