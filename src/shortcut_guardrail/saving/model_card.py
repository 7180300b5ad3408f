"""The README of a guarded folder, with the numbers a reader needs before using it."""

from ..display import template
from ..mitigation import STRATEGIES
from ..strength import Calibration
from .hub import card_metadata
from .record import GuardrailRecord


def model_card(record: GuardrailRecord) -> str:
    """The README of a guarded folder."""
    certificate, calibration = record.certificate, record.calibration
    strategy = STRATEGIES[record.strategy]
    metadata = card_metadata(
        record,
        library="peft" if record.plain_peft_equivalent else "shortcut-guardrail",
        relation="adapter" if strategy.trains else None,
        tags=["lora"] if strategy.trains else [],
    )
    card: str = template("saving/model_card.md.j2").render(
        metadata=metadata,
        record=record,
        name=record.base_model["name"] or "(an in-memory model)",
        strategy=strategy,
        training=record.training,
        config=record.config,
        by_opinion=[item for item in record.shortcuts if item.reason == "second model"],
        certificate=certificate,
        calibration=calibration,
        labels_said=what_labels_said(calibration) if calibration else "",
        unlabelled=record.unlabelled_calibration,
        labelled=certificate is not None and certificate.n_labels > 0,
    )
    return card


def what_labels_said(calibration: Calibration) -> str:
    """Whether the labels overruled the strength that unlabelled texts chose, in a sentence; empty where labels alone
    chose.
    """
    before, p_value = calibration.without_labels, calibration.p_value
    if before is None or p_value is None:
        return ""
    scores = {point.strength: point.score for point in calibration.curve}
    best = max(scores, key=lambda strength: scores[strength])
    if calibration.strength != before:
        base = ", or the original model," if best else ""  # the p-value is the smaller of two comparisons
        return (
            f"Unlabelled texts chose {before:g}, which the labels overrule: strength {best:g}{base} predicts more "
            f"of them rightly (p = {p_value:.2g})."
        )
    if scores[best] == scores[before]:
        return "Unlabelled texts chose it, and no strength predicts more of the labelled ones rightly."
    return (
        f"Unlabelled texts chose it. Strength {best:g} predicts more of the labelled ones rightly, but the "
        f"difference is too small to overrule it (p = {p_value:.2g})."
    )
