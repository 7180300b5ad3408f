"""The folder of an audit, read back: `audit.json` for who shows it, and with the predictions for who goes on from it.

`predictions.npz` has the class probabilities of every text, in their order, and how the model read them. It holds no
text, no word and no hash of one. With it and `audit.json` nobody needs to measure again what the audit measured.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NotRequired

import numpy as np
from typing_extensions import TypedDict

from ..audit import (
    AUDIT_SCHEMA_VERSION,
    Agreement,
    AuditReport,
    Candidate,
    Defaults,
    Erasures,
    Insertions,
    Lead,
    Sampled,
    read_result,
)
from ..cards import Card
from ..config import Unit
from ..data import Count, Defined, NotEmpty, Share, Word, check_whole, checked, numbers_file, read_numbers
from ..decisions import AUDIT_FILE, AuditedCards, Decisions
from ..errors import DataError
from ..shortcuts import Reason, Shortcut, Verdict

LABELS_FILE = "labels.json"
"""In the folder of an audit of each label: what was found for them."""

PREDICTIONS_FILE = "predictions.npz"
"""In the folder of the audit."""
_SHOWN = ("about", "fit_would_take")  # beside the fields of the report
_ADVICE = "Run the audit again."


class _Taken(TypedDict):
    """A word that `fit` would take, as far as it is shown."""

    text: Word
    verdict: Verdict
    reason: Reason | None
    count: Count | None
    q_value: Share | None


class Layout(TypedDict):
    """What has to be in it, as the types of the results it is written from; null stands for NaN."""

    n: Count
    n_distinct: Count
    unit: Unit
    top_k: Count
    fdr: Annotated[Share, Defined()]
    min_relative_effect: Annotated[Share, Defined()]
    label_names: tuple[str, ...]
    predicted: dict[str, Count]
    mstps: Annotated[Share, Defined()]
    sensitivity_histogram: Annotated[tuple[Count, ...], NotEmpty()]
    candidates: tuple[Candidate, ...]
    n_candidates: Count
    n_tested: Count
    n_undecided: Count
    agreement: Agreement
    n_truncated: Count
    set_p_value: Share
    notes: tuple[str, ...]
    cards: tuple[Card, ...]
    model: str
    data: str
    erasures: NotRequired[Erasures | None]
    insertions: NotRequired[Insertions | None]
    defaults: NotRequired[Defaults | None]
    lead: NotRequired[Lead | None]
    segmenter: NotRequired[str | None]
    sample: NotRequired[Sampled | None]
    answers: NotRequired[Count | None]
    seconds: NotRequired[float | None]
    fit_would_take: NotRequired[tuple[_Taken, ...]]
    about: NotRequired[dict[str, str]]


def read_audit(path: Path) -> dict[str, Any]:
    """Read an `audit.json`, as it is shown."""
    return _read_checked(path)[0]


def _read_checked(path: Path) -> tuple[dict[str, Any], Layout]:
    """What an `audit.json` holds, and the same as the types of the results."""
    document = read_result(path)
    if "candidates" not in document:
        raise DataError(f"'{path}' holds no audit: it has no 'candidates'. Give an audit.json.")
    version = document["schema_version"]
    if version != AUDIT_SCHEMA_VERSION:
        raise DataError(
            f"'{path}' has the layout of schema_version {version}, and this version of the program shows "
            f"{AUDIT_SCHEMA_VERSION}. Run the audit again."
        )
    how: dict[str, Any] = {"advice": _ADVICE, "open_ended": True, "null_is_nan": True, "complete": True}
    return document, checked(document, Layout, f"'{path}'", **how)


def predictions_of(report: AuditReport) -> bytes:
    """The content of `predictions.npz`: numbers alone."""
    return numbers_file({"model": report.model, "data": report.data}, probs=np.asarray(report.probs, dtype=np.float32))


def open_audit(folder: Path) -> AuditReport:
    """The audit in a folder that `audit` wrote, which serves as the one in memory did; only `inputs` are not kept.

    Raises:
        DataError: There is none, a file is damaged or missing, or they do not belong together.
    """
    file, numbers = folder / AUDIT_FILE, folder / PREDICTIONS_FILE
    if not file.is_file() and (folder / LABELS_FILE).is_file():
        raise DataError(f"'{folder}' holds an audit of each label, in a folder of its own. Name the one that is meant.")
    if not file.is_file():
        raise DataError(f"'{folder}' is no folder that `audit` wrote: it has no {AUDIT_FILE}.")
    for name in (AUDIT_FILE, PREDICTIONS_FILE):
        check_whole(folder, hashes=True, only=name)
    if not numbers.is_file():
        raise DataError(f"'{folder}' has no {PREDICTIONS_FILE}, from which others go on. {_ADVICE}")
    document, stored = _read_checked(file)
    about, arrays = read_numbers(numbers.read_bytes(), f"'{numbers}'", advice=_ADVICE)
    if about != {"model": stored["model"], "data": stored["data"]}:
        raise DataError(f"'{numbers}' does not belong to the {AUDIT_FILE} beside it. {_ADVICE}")
    known: dict[str, Any] = {name: value for name, value in stored.items() if name not in _SHOWN}
    known |= {"predicted": tuple(stored["predicted"].values()), "probs": arrays["probs"]}
    if (taken := document.get("fit_would_take")) is not None:
        known["would_take"] = checked(taken, tuple[Shortcut, ...], str(file), path="fit_would_take", advice=_ADVICE)
    return AuditReport(**known)


def audit_of(decisions: Decisions | None, file: Path | None) -> Path | None:
    """The folder of the audit that decisions are about, where their file lies in it or beside it."""
    if decisions is None or file is None or decisions.audit is None:
        return None
    for found in [*file.parent.glob(AUDIT_FILE), *sorted(file.parent.glob(f"*/{AUDIT_FILE}"))]:
        with suppress(DataError):
            if AuditedCards.from_folder(found.parent).id == decisions.audit:
                return found.parent
    return None
