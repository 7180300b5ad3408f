"""What is asked of a classifier that an audit or a repair reads texts with, whatever its parts of texts are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..data import LabelNames, Texts
from ..typing import Array, Capability, Head, Progress, Text

if TYPE_CHECKING:  # PyTorch takes seconds to import, and results are read without it.
    from .adapters import Merged
    from .cost import Cost, Spent
    from .encoding import EncodedTexts
    from .heads import HeadReading
    from .windows import Windowing


class Reader(Protocol):
    """A classifier that takes texts apart and answers what is left of them once parts are taken out.

    `TextClassifier` takes texts apart into tokens, and `classifiers.WordReader`, which is around any classifier, into
    words. More than this only a `TextClassifier` can do; its `capabilities` say so.
    """

    label_names: tuple[str, ...]
    own_label_names: tuple[str, ...]
    heads: HeadReading
    max_length: int
    windows: Windowing | None
    merged: Merged | None
    precision: Any
    spent: Spent

    @property
    def name(self) -> str:
        """As shown."""
        ...

    @property
    def head(self) -> Head:
        """How logits are read."""
        ...

    @property
    def longest(self) -> int:
        """Tokens, or words, that are read of a text at most."""
        ...

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do beside answering; see `classifiers.require`."""
        ...

    @property
    def mask_token_id(self) -> int | None:
        """The token that stands for a masked one; `None` where nothing can be masked, and words are cut out."""
        ...

    def encode(self, texts: Texts, *, progress: Progress | None = None) -> EncodedTexts:
        """Take N texts, or N (text, pair) tuples, apart."""
        ...

    def predict_logits(self, encoded: EncodedTexts, *, progress: Progress | None = None) -> Array:
        """Class logits, shape (N, C), float32, each up to a constant of its text."""
        ...

    def predict_answers(self, encoded: EncodedTexts, *, progress: Progress | None = None) -> Array:
        """The same of all Q questions that the head answers, shape (N, Q, C)."""
        ...

    def predict_proba(
        self, texts: Sequence[Text] | EncodedTexts, *, progress: Progress | None = None, again: bool = False
    ) -> Array:
        """Class probabilities, shape (N, C), float64; see `classifiers.Classifier`."""
        ...

    def label_ids(self, labels: Sequence[str | int], **where: Any) -> Array:
        """Class ids of labels, shape (n,); see `data.label_ids`."""
        ...

    def remembering(self) -> Reader:
        """The same model, which answers the same text once; for as long as it stays as it is."""
        ...

    def named(self, names: LabelNames | None) -> Reader:
        """The same model whose classes are called otherwise."""
        ...

    def fingerprint(self) -> str:
        """SHA-256 over what answers, as hexadecimal."""
        ...

    def cost(self, texts: Sequence[Text]) -> Cost:
        """What it takes to ask about N texts."""
        ...

    def record(self) -> dict[str, Any]:
        """What answers and how it is asked, ready for JSON."""
        ...
