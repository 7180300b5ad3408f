"""An `audit.json` read back for rendering, checked so that what is missing in it is said in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict

from ..audit import AUDIT_SCHEMA_VERSION, Agreement, Candidate, read_result
from ..cards import Card
from ..config import Unit
from ..data import Count, Defined, NotEmpty, Share, Word, checked
from ..errors import DataError
from ..shortcuts import Reason, Verdict


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
    fit_would_take: NotRequired[tuple[_Taken, ...]]


def read_audit(path: Path) -> dict[str, Any]:
    """Read an `audit.json`.

    Raises:
        DataError: It is missing or damaged, no audit, or of another version's layout.
    """
    document = read_result(path)
    if "candidates" not in document:
        raise DataError(f"'{path}' holds no audit: it has no 'candidates'. Give an audit.json.")
    version = document["schema_version"]
    if version != AUDIT_SCHEMA_VERSION:
        raise DataError(
            f"'{path}' has the layout of schema_version {version}, and this version of the program shows "
            f"{AUDIT_SCHEMA_VERSION}. Run the audit again."
        )
    checked(
        document, Layout, f"'{path}'", advice="Run the audit again.", open_ended=True, null_is_nan=True, complete=True
    )
    return document
