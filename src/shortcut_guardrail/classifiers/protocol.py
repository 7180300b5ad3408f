"""What every classifier has, and how capabilities are required that only some have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..data import enumerated
from ..errors import ModelError
from ..models import Cost as Cost
from ..typing import Array, Capability, Progress, Text


class Classifier(Protocol):
    """Anything that gives each text a probability for each label; `models.TextClassifier` is one.

    Further capabilities are required by name, see `require`.
    """

    @property
    def name(self) -> str:
        """Its name, as shown."""
        ...

    @property
    def label_names(self) -> tuple[str, ...]:
        """The C labels, in the order of the columns of `predict_proba`."""
        ...

    def fingerprint(self) -> str:
        """SHA-256 over everything that predictions depend on, as hexadecimal.

        For a classifier with weights it is over its weights alone, so that the same model is recognised elsewhere.
        """
        ...

    def predict_proba(self, texts: Sequence[Text], *, progress: Progress | None = None, again: bool = False) -> Array:
        """How probable each label is for each of N texts or pairs, shape (N, C), float64; rows sum to 1.

        A row of NaN means that there is no prediction.

        Args:
            again: Predict again, whatever is cached. A classifier whose predictions then change cannot be relied on.

        Raises:
            RunError: The response is no prediction, or there is none.
        """
        ...

    def cost(self, texts: Sequence[Text]) -> Cost:
        """What `predict_proba` would cost; no endpoint is called."""
        ...

    def record(self) -> dict[str, Any]:
        """The classifier and how it is asked, ready for JSON: kind, name, fingerprint, prompts, settings, versions."""
        ...


_CANNOT: dict[Capability, str] = {
    "gradients": "gives no gradients",
    "masks": "has no mask token",
    "adapts": "takes no adapter",
}


def require(classifier: Any, capability: Capability, what: str, *, otherwise: str = "") -> None:
    """Refuse a `Classifier` without a capability; `what` says what needs it, as in "which an audit needs".

    `otherwise` says what can be done without it.
    """
    can = sorted(getattr(classifier, "capabilities", ()))
    if capability not in can:
        instead = f"Its capabilities are {enumerated(can)}." if can else "It can do nothing but answer."
        raise ModelError(
            f"'{classifier.name}' {_CANNOT[capability]}, which {what} needs. {instead} {otherwise}Give an encoder "
            "that is fine-tuned for sequence classification, such as one of the BERT family."
        )
