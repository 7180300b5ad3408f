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
    """The debiasing strength in use, with its evidence; replaced as a whole when another is chosen.

    Attributes:
        strength: In [0, 1]; 0 is the original model.
        source: `none`: there is no repair yet. `fixed`: by the configuration. `set`: by hand. `calibrated`: on labels.
            `cross-validated`: on the labels that it learned from. `agreement`: with the predictions without the
            shortcuts, no label. `certified`: in place of one that was not.
        calibration: The curve on the support set, if labels were used.
        unlabelled: The curve without labels, if unlabelled texts were used.
        certificate: What was certified, as long as it covers this strength.
        rows: Hashes of the labelled texts that were used; scores on them are biased.
    """

    strength: float = 0.0
    source: StrengthSource = "none"
    calibration: Calibration | None = None
    unlabelled: UnlabelledCalibration | None = None
    certificate: Certificate | None = None
    rows: tuple[str, ...] = ()

    def moved(self, strength: float, source: StrengthSource) -> StrengthChoice:
        """The same evidence at another strength; the certificate stays if it covers it."""
        certificate = self.certificate
        if certificate is not None:
            certificate = replace(certificate, strength=strength) if strength in certificate.certified else None
        return replace(self, strength=strength, source=source, certificate=certificate)
