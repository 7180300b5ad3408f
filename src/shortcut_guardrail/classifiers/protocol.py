"""What every classifier offers, and how what only some can do is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..data import enumerated
from ..errors import ModelError
from ..models import Cost as Cost
from ..typing import Array, Capability, Progress, Text


class Classifier(Protocol):
    """Whatever gives each text a probability for each label; `models.TextClassifier` is one.

    More than this is asked for by name, see `require`.
    """

    @property
    def name(self) -> str:
        """As shown."""
        ...

    @property
    def label_names(self) -> tuple[str, ...]:
        """The C labels, in the order of the columns of `predict_proba`."""
        ...

    def fingerprint(self) -> str:
        """SHA-256 over what answers, as hexadecimal.

        Of a classifier with weights it is that of its weights alone, so that the same model is recognised elsewhere.
        """
        ...

    def predict_proba(self, texts: Sequence[Text], *, progress: Progress | None = None, again: bool = False) -> Array:
        """How probable each label is for each of N texts or pairs, shape (N, C), float64; rows sum to 1.

        A row of NaN where there was no answer.

        Args:
            again: Ask once more, whatever is kept of answers before: who changes an answer cannot be relied on.

        Raises:
            RunError: What came back is no answer, or nothing came back.
        """
        ...

    def cost(self, texts: Sequence[Text]) -> Cost:
        """What `predict_proba` would take; an endpoint is not asked for it."""
        ...

    def record(self) -> dict[str, Any]:
        """What answers and how it is asked, ready for JSON: kind, name, fingerprint, prompts, settings, versions."""
        ...


_CANNOT: dict[Capability, str] = {
    "gradients": "gives no gradients",
    "masks": "has no mask token",
    "adapts": "takes no adapter",
}


def require(classifier: Any, capability: Capability, what: str, *, otherwise: str = "") -> None:
    """Refuse a `Classifier` whose `capabilities` lack is needed; `what` says for what, as in "which an audit needs".

    `otherwise` says what can be done without it.
    """
    can = sorted(getattr(classifier, "capabilities", ()))
    if capability not in can:
        instead = f"Its capabilities are {enumerated(can)}." if can else "It can do nothing but answer."
        raise ModelError(
            f"'{classifier.name}' {_CANNOT[capability]}, which {what} needs. {instead} {otherwise}Give an encoder "
            "that is fine-tuned for sequence classification, such as one of the BERT family."
        )
