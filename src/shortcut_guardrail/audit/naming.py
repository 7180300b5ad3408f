"""An audit in a folder whose classes are called otherwise than when it was made: the names stand beside it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..data import LabelNames, checked, class_names, json_content, to_json, write_file

NAMES_FILE = "label_names.json"

_CLASSES = frozenset(
    {"after", "alone", "before", "default", "label", "left", "masked_label", "pushes_towards", "true_label"}
)
"""Keys of an audit that say a class."""


def audit_content(file: Path, *, advice: str) -> Any:
    """What an `audit.json` holds, in the names that were given to its classes since."""
    document, named = json_content(file, advice=advice), file.with_name(NAMES_FILE)
    if not named.is_file() or not isinstance(document, dict):
        return document
    names = checked(json_content(named, advice="Remove it."), dict[str, str], f"'{named}'", advice="Remove it.")
    if list(names) != document.get("label_names"):  # of an audit that was here before
        return document
    counts = document.get("predicted")
    predicted = {names.get(name, name): n for name, n in counts.items()} if isinstance(counts, dict) else counts
    return {**renamed(document, names), "label_names": list(names.values()), "predicted": predicted}


def name_classes(audit: Path, given: LabelNames) -> None:
    """Keep names for the classes of the audit in a folder; see `data.class_names`."""
    file = audit / "audit.json"
    own = json_content(file, advice="Audit again.").get("label_names", ())
    names = dict(zip(own, class_names(given, audit_content(file, advice="")["label_names"]), strict=True))
    write_file(audit / NAMES_FILE, to_json(names), overwrite=True)


def renamed(value: Any, names: Mapping[str, str], keys: Collection[str] = _CLASSES) -> Any:
    """A value of JSON in which the classes under these keys have other names."""
    if isinstance(value, list):
        return [renamed(one, names, keys) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: names.get(one, one) if key in keys and isinstance(one, str) else renamed(one, names, keys)
        for key, one in value.items()
    }
