"""The strength in use, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from .calibration import Calibration
from .certificate import Certificate
from .unsupervised import UnlabelledCalibration

StrengthSource = Literal["none", "fixed", "set", "calibrated", "cross-validated", "agreement", "certified"]


@dataclass(frozen=True)
class StrengthChoice:
    """The debiasing strength in use, with all that speaks for it; replaced as a whole when another is chosen.

    Attributes:
        strength: In [0, 1]; 0 is the base model.
        source: `none`: there is no guard yet. `fixed`: by the configuration. `set`: by hand. `calibrated`: on labels.
            `cross-validated`: on the labels that it learned from. `agreement`: with the predictions without the
            shortcuts, no label. `certified`: in place of one that was not.
        calibration: The support-set curve, where labels had a say.
        unlabelled: The curve without labels, where unlabelled texts had one.
        certificate: What was certified, while this strength is among it.
        rows: Hashes of the labelled texts that had a say; scores on them are biased.
    """

    strength: float = 0.0
    source: StrengthSource = "none"
    calibration: Calibration | None = None
    unlabelled: UnlabelledCalibration | None = None
    certificate: Certificate | None = None
    rows: tuple[str, ...] = ()

    def moved(self, strength: float, source: StrengthSource) -> StrengthChoice:
        """The same evidence at another strength; what was certified holds on if the strength is among it."""
        certificate = self.certificate
        if certificate is not None:
            certificate = replace(certificate, strength=strength) if strength in certificate.certified else None
        return replace(self, strength=strength, source=source, certificate=certificate)
