"""What is said of a model's default class, of words that lead to another one, and of the shape of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..display import cut, interval, percent, some
from ..stats import exact_interval
from ..text import visible_name

Document = Mapping[str, Any]


def defaults_said(document: Document) -> list[str]:
    """The default class, the cues that hold the others up or the words that lead to them, and wrappers that decide.

    A paragraph each.
    """
    found = document.get("defaults")
    if not found:
        return []
    labels, default = list(document["label_names"]), found["default"]
    lead, said = document.get("lead"), []
    words = {}
    # Where the cues are few, what is said of them is said of the words as well.
    if lead and lead["found"] and default in (None, lead["left"]) and "cues" not in found["reasons"]:
        words[lead["label"]] = _led(lead, document)
    if default is not None:
        number = labels.index(default)
        asked = [p for p in found["probes"] if p["change"] in _SAID and p["n"]]
        probes = [f"{percent(p['given'][number] / p['n'], 0)} of {_SAID[p['change']]}" for p in asked]
        others = [f"'{label}'" for label in labels if label != default]
        needs = f"{others[0]} needs a cue" if len(others) == 1 else "the other classes need a cue"
        said.append(
            f"Texts without content are predicted as '{default}': {' and '.join(probes)}. So {needs}, and a text may "
            f"get '{default}' for what it does not say. Deleting words does not fix that. Another threshold, or "
            "labelled texts without the cues, may."
        )
        held_up = [one for one in found["held_up"] if one["label"] != default]
        cues = {one["label"]: _without_cues(one, default, number, found["reasons"]) for one in held_up}
        said += (cues | words).values()
        if "halves" in found["reasons"]:
            said.append(_halves([p for p in found["probes"] if p["change"].endswith("half")], default, number))
    else:
        said += words.values()
    # Those that keep the class with nothing in them, where most texts lose the class without them or are nothing else.
    alone = (one for one in found["wrappers"] if one["alone"] == one["label"])
    return [*said, *(_wrapper(one) for one in alone if one["without"] <= one["n_without"] / 2)]


_SAID = {"function words": "texts of function words alone", "sampled words": "words sampled from other texts"}


def _without_cues(one: Document, default: str, number: int, reasons: Sequence[str]) -> str:
    gone, chance, n = one["given"][number], one["by_chance"][number], one["n"]
    # `some` cuts at 30 characters, and its quotation marks are to stay.
    cues = some([f"“{cut(visible_name(cue), 28)}”" for cue in one["cues"]])
    are = "is" if len(one["cues"]) == 1 else "are"
    said = (
        f"Without a cue for '{one['label']}' this model predicts '{default}': in {percent(gone / n, 0)} of {n} texts "
        f"({interval(*exact_interval(gone, n))}) when {cues} {are} missing, and in {percent(chance / n, 0)} when as "
        "many random words are."
    )
    return said if "cues" in reasons else f"{said} So these are not all of its cues."


def _led(one: Document, document: Document) -> str:
    """What leads to a class: its words as a group, taken from texts and put into others."""
    left, number = one["left"], list(document["label_names"]).index(one["left"])
    empty = next(p for p in document["defaults"]["probes"] if p["change"] == "function words")
    words = some([f"“{cut(visible_name(word), 28)}”" for word in one["words"]])
    n, n_added = one["n"], one["n_added"]
    gone, chance = percent(one["gone"] / n, 0), percent(one["by_chance"] / n, 0)
    added, added_chance = percent(one["added"] / n_added, 0), percent(one["added_by_chance"] / n_added, 0)
    said = (
        f"A text gets '{one['label']}' for words that it holds: {words}. Put into {n_added} other texts together, "
        f"{one['put_in']} of the strongest change {added} to '{one['label']}', and as many random words "
        f"{added_chance}. Without all of these words {gone} of {n} texts with some "
        f"({interval(*exact_interval(one['gone'], n))}) are given '{left}', and {chance} without as many random words. "
        f"Of texts of function words alone {percent(empty['given'][number] / empty['n'], 0)} are given '{left}'."
    )
    return f"{said} One of these words alone may change little, and the list need not be complete."


def _halves(probes: Sequence[Document], default: str, number: int) -> str:
    """What becomes of texts of which a half is left, and where what decides stands, if it stands in one of them."""
    gone = [(p["given"][number] - p["kept"][number]) / (p["n"] - p["before"][number]) for p in probes]
    first, second = (percent(share, 0) for share in gone)
    said = (
        f"Of the texts of other classes {first} are given '{default}' when only their first half is left, and {second} "
        "when only their second half is."
    )
    place = "start" if gone[1] >= 2 * gone[0] else "end" if gone[0] >= 2 * gone[1] else None
    return f"{said} So what keeps them from it stands at the {place}." if place else said


def _wrapper(one: Document) -> str:
    if not one["n_without"]:
        return f"{one['n']} texts are nothing but “{visible_name(one['text'])}”. They do not show what it decides."
    kept, text = percent(one["without"] / one["n_without"], 0), visible_name(one["text"])
    where = "open" if one["place"] == "start" else "end"
    said = (
        f"{one['n']} texts {where} with “{text}”. With nothing in it, it is given '{one['alone']}', and without it "
        f"{kept} of them keep '{one['label']}': the wrapper decides, not what it holds."
    )
    n = one["n_added"]
    return f"{said} Put around {n} other texts, it changes {percent(one['added'] / n, 0)} to it." if n else said
