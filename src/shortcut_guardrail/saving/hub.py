"""Guards on the Hub: how one is found by its id, and what its card says to the Hub."""

import os
from pathlib import Path
from typing import Any

from ..errors import ModelError
from ..models import place_on_hub, quiet_transformers
from .record import GUARDRAIL_FILE, GuardrailRecord


def from_hub(source: str | Path, revision: str | None) -> Path | None:
    """The downloaded folder of a guard on the Hub, all of one commit.

    Returns:
        `None` where something else has this id, or nothing answers: who loads it as a model then says what is wrong.
    """
    from huggingface_hub import hf_hub_download, snapshot_download

    if os.path.exists(source):
        return None
    with quiet_transformers():
        try:
            record = hf_hub_download(str(source), GUARDRAIL_FILE, **place_on_hub(source, revision))
        except Exception:  # no such id, no such file, no connection, and what HTTP clients of several versions raise
            return None
        try:
            own = place_on_hub(source, Path(record).parent.name)
            return Path(snapshot_download(str(source), **own))
        except Exception as error:
            raise ModelError(
                f"The repaired model '{source}' could not be downloaded from the Hub: {first_line(error)}. Try again."
            ) from error


def first_line(error: Exception) -> str:
    """What an error says, as part of a sentence."""
    return str(error).strip().partition("\n")[0].rstrip(".: ") or type(error).__name__


def card_metadata(record: GuardrailRecord, *, library: str, relation: str | None, tags: list[str]) -> str:
    """The YAML at the top of a card, as the Hub reads it. A base model in a folder is not named: it is no id there."""
    from huggingface_hub import EvalResult, ModelCardData

    base, found = record.base_model["name"], record.calibration
    more: dict[str, Any] = {}
    if base is not None and not Path(base).is_absolute():
        more |= {"base_model": base, "base_model_relation": relation}
    for point in found.curve if found else ():
        if found and point.strength == record.debias_strength:
            about = f"{found.n} labelled texts that had a say in the strength"
            result = EvalResult("text-classification", "unpublished", about, "accuracy", point.accuracy)
            more |= {"model_name": "guard", "eval_results": [result]}
    tags = ["shortcut-guardrail", "text-classification", *tags]
    return str(ModelCardData(library_name=library, pipeline_tag=tags[1], tags=tags, **more).to_yaml())
