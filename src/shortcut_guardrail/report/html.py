"""Results as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .terminal import (
    CANDIDATE_COLUMNS,
    METRIC_ROWS,
    SHOWN_CANDIDATES,
    accuracy_and_interval,
    candidate_row,
    interval,
    number,
)

if TYPE_CHECKING:
    from ..audit import AuditReport
    from ..calibration import Calibration
    from ..evaluation import Evaluation


def render_comparison(
    *,
    title: str,
    introduction: Sequence[str],
    evaluations: Mapping[str, Evaluation],
    audits: Mapping[str, AuditReport],
    calibration: Calibration | None,
    notes: Sequence[str] = (),
) -> str:
    """A page that sets models side by side: scores, groups, the tokens they lean on, the calibration curve.

    Everything that came from data is escaped; the page makes no network request.

    Args:
        title: Heading of the page.
        introduction: Paragraphs before the tables.
        evaluations: Scores on the same rows, by the name of the model.
        audits: Audits of the same texts, by the name of the model.
        calibration: How the strength was chosen.
        notes: Paragraphs after the tables.
    """
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("shortcut_guardrail", "report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    first = next(iter(evaluations.values()))
    return environment.get_template("comparison.html.j2").render(
        title=title,
        introduction=introduction,
        models=list(evaluations),
        n=first.n,
        scores=_score_rows(evaluations),
        groups=_group_rows(evaluations),
        candidate_columns=CANDIDATE_COLUMNS,
        audits={
            name: {
                "mstps": number(audit.mstps),
                "rows": [candidate_row(c) for c in audit.candidates[:SHOWN_CANDIDATES]],
            }
            for name, audit in audits.items()
        },
        calibration=calibration,
        curve=[] if calibration is None else [_curve_row(p) for p in calibration.curve],
        notes=notes,
    )


def _score_rows(evaluations: Mapping[str, Evaluation]) -> list[tuple[str, list[str]]]:
    rows = [(label, [number(getattr(e, key)) for e in evaluations.values()]) for label, key in METRIC_ROWS]
    for k in next(iter(evaluations.values())).shortcut_token_recall:
        cells = []
        for evaluation in evaluations.values():
            recall = evaluation.shortcut_token_recall[k]
            cells.append(f"{number(recall.recall)} (chance {number(recall.chance)})")
        rows.append((f"shortcut token recall at {k}", cells))
    return rows


def _group_rows(evaluations: Mapping[str, Evaluation]) -> list[tuple[str, int, list[str]]]:
    first = next(iter(evaluations.values()))
    rows = []
    for i, group in enumerate(first.groups):
        of_models = [evaluation.groups[i] for evaluation in evaluations.values()]
        rows.append((group.name, group.n, [accuracy_and_interval(g) for g in of_models]))
    return rows


def _curve_row(point: Any) -> dict[str, Any]:
    return {
        "strength": f"{point.strength:g}",
        "accuracy": number(point.accuracy),
        "interval": interval(*point.interval),
        "gained": point.gained,
        "lost": point.lost,
        "width": f"{100 * point.accuracy:.1f}",
    }
