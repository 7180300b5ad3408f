"""What is said of a model's default class, of the cues that are missing then, and of the shape of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..display import interval, percent, some
from ..stats import exact_interval
from ..text import visible_name

Document = Mapping[str, Any]


def defaults_said(document: Document) -> list[str]:
    """The default class in a sentence, and the cues that hold the others up; wrappers that decide. A paragraph each."""
    found = document.get("defaults")
    if not found:
        return []
    labels, default = list(document["label_names"]), found["default"]
    said = []
    if default is not None:
        number = labels.index(default)
        for one in found["held_up"]:
            if one["label"] != default:
                said.append(_without_cues(one, default, number))
        asked = [p for p in found["probes"] if p["change"] in _SAID and p["n"]]
        probes = [f"{percent(p['given'][number] / p['n'], 0)} of {_SAID[p['change']]}" for p in asked]
        said.append(
            f"Texts without content are predicted as '{default}': {' and '.join(probes)}. So a text may get this "
            "class for what it does not say. Deleting words does not fix that. A higher threshold, or labelled "
            "texts without the cues, may."
        )
    return [*said, *(_wrapper(one) for one in found["wrappers"] if _decides(one))]


_SAID = {"function words": "texts of function words alone", "drawn words": "words drawn from other texts"}


def _without_cues(one: Document, default: str, number: int) -> str:
    gone, chance, n = one["given"][number], one["by_chance"][number], one["n"]
    cues = some([f"“{visible_name(cue)}”" for cue in one["cues"]])
    return (
        f"Without a cue for '{one['label']}' this model predicts '{default}': in {percent(gone / n, 0)} of {n} "
        f"texts ({interval(*exact_interval(gone, n))}) when {cues} are missing, and in {percent(chance / n, 0)} "
        "when as many random words are."
    )


def _decides(one: Document) -> bool:
    """Whether it keeps the class with nothing in it, and most texts lose the class without it or are nothing else."""
    return bool(one["without"] <= one["n_without"] / 2 and one["alone"] == one["label"])


def _wrapper(one: Document) -> str:
    if not one["n_without"]:
        return (
            f"{one['n']} texts are nothing but “{visible_name(one['text'])}”. What it decides cannot be told from them."
        )
    kept, text = percent(one["without"] / one["n_without"], 0), visible_name(one["text"])
    where = "open" if one["place"] == "start" else "end"
    said = (
        f"{one['n']} texts {where} with “{text}”. With nothing in it, it is given '{one['alone']}', and without it "
        f"{kept} of them keep '{one['label']}': the wrapper decides, not what it holds."
    )
    n = one["n_added"]
    return f"{said} Put around {n} other texts, it changes {percent(one['added'] / n, 0)} to it." if n else said
