"""What can be had without fine-tuning an encoder: what a method falls short of has not been worth its trouble."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.special import softmax

from shortcut_guardrail.data import Texts, to_json, write_folder
from shortcut_guardrail.errors import ConfigError, DataError
from shortcut_guardrail.models import TextClassifier
from shortcut_guardrail.typing import Progress

from ..datasets.types import LabelledTexts
from ..finetuning.training import load_encoder
from ..systems import SYSTEM_FILE, Material, ModelSystem, Need
from .heads import features, head_system, with_head
from .same_budget import NEVER
from .training import as_config, require

Array = np.ndarray[Any, np.dtype[Any]]

WORDS_FILE = "words.safetensors"
_FREE = {"forward_equivalents_per_text": 0.0}
SHARPNESS = 20.0
"""How much the likeness to a label's name counts."""


def joined(text: Any) -> str:
    """A text, or the two of a pair as one."""
    return text if isinstance(text, str) else " ".join(text)


def vectorizer(**options: Any) -> Any:
    """TF-IDF of words and pairs of words that at least two texts hold, with logarithms of counts."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(**{"ngram_range": (1, 2), "min_df": 2, "sublinear_tf": True, **options})


def logistic(values: Any, labels: Array, n_classes: int, inverse_strength: float) -> tuple[Array, Array]:
    """Multinomial logistic regression as a weight (C, H) and a bias (C,), with an L2 penalty.

    It minimises inverse_strength * sum_i CE_i + |weight|^2 / 2; with two classes the weight is that between them. A
    class without rows is never answered.

    Args:
        values: Features, shape (N, H), sparse or not.
        labels: Class ids in [0, C), shape (N,).
        n_classes: C.
        inverse_strength: scikit-learn's C.
    """
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=inverse_strength, max_iter=1000).fit(values, labels)
    weight, bias = fitted.coef_, fitted.intercept_
    if len(fitted.classes_) == 2:
        weight, bias = np.vstack([np.zeros_like(weight), weight]), np.append(0.0, bias)
    full = np.zeros((n_classes, weight.shape[1])), np.full(n_classes, NEVER)
    full[0][fitted.classes_], full[1][fitted.classes_] = weight, bias
    return full


def of_two_classes(rows: LabelledTexts | None, name: str) -> LabelledTexts:
    """The rows, which have to be of two classes or more, or there is a `DataError`."""
    assert rows is not None
    require(
        len(set(rows.labels.tolist())) > 1,
        f"'{name}' needs rows of at least two classes, but all {len(rows)} of '{rows.name}' are of one.",
        DataError,
    )
    return rows


class _WithoutModel:
    """A fitted system that asks no Transformers model, so that nothing of it can be attributed to tokens."""

    def __init__(self, info: Mapping[str, Any]) -> None:
        self._info = dict(info)

    @property
    def classifier(self) -> TextClassifier | None:
        """`None`: there is no such model."""
        return None

    @property
    def forward_equivalents(self) -> float:
        """0: nothing passes through a Transformers model."""
        return 0.0

    def info(self) -> dict[str, Any]:
        """Labels spent and seconds; an answer costs no forward pass."""
        return copy.deepcopy(self._info)


class Shares(_WithoutModel):
    """Gives every text the same class probabilities.

    Args:
        shares: Those, shape (C,).
        info: See `FittedSystem.info`.
    """

    def __init__(self, shares: Sequence[float], info: Mapping[str, Any]) -> None:
        super().__init__(info)
        self.shares = list(shares)

    def predict_proba(self, texts: Texts, *, progress: Progress | None = None) -> Array:
        """The shares, once a text, shape (N, C), float32."""
        return np.tile(np.array(self.shares, dtype=np.float32), (len(texts), 1))

    def save(self, folder: Path) -> None:
        """Writes `system.json`; `loading.load_fitted` reads it.

        Raises:
            ConfigError: The folder exists.
            RunError: The disk is full, or the like.
        """

        def fill(target: Path) -> None:
            record = {"shares": self.shares, "info": self._info}
            (target / SYSTEM_FILE).write_text(to_json(record), encoding="utf-8")

        write_folder(Path(folder), fill, key=SYSTEM_FILE)


@dataclass(frozen=True)
class MostFrequent:
    """The class that most training rows have, for every text.

    Attributes:
        name: The name in tables.
    """

    name: str = "most_frequent"
    needs: frozenset[Need] = frozenset({Need.TRAIN_CLASS_COUNTS})

    def config(self) -> dict[str, Any]:
        """Nothing decides."""
        return {}

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> Shares:
        """The shares of the classes in the training rows."""
        counts = material.train_class_counts
        assert counts is not None
        return Shares((counts / counts.sum()).tolist(), {"labels_spent": 0, "seconds": {}, **_FREE})


class Words(_WithoutModel):
    """A linear classifier of weighted words and pairs of words.

    Args:
        vocabulary: V words and pairs of words.
        arrays: `idf` of shape (V,), `weight` of shape (C, V), `bias` of shape (C,).
        info: See `FittedSystem.info`.
    """

    def __init__(self, vocabulary: Sequence[str], arrays: Mapping[str, Array], info: Mapping[str, Any]) -> None:
        super().__init__(info)
        self.vocabulary, self.arrays = list(vocabulary), dict(arrays)
        self._vectorizer = vectorizer(vocabulary=self.vocabulary)
        self._vectorizer.idf_ = arrays["idf"]

    def predict_proba(self, texts: Texts, *, progress: Progress | None = None) -> Array:
        """Class probabilities, shape (N, C), float32."""
        if not len(texts):
            return np.empty((0, len(self.arrays["bias"])), dtype=np.float32)
        values = self._vectorizer.transform([joined(text) for text in texts])
        logits = values @ self.arrays["weight"].T + self.arrays["bias"]
        return np.asarray(softmax(logits, axis=1), dtype=np.float32)

    def save(self, folder: Path) -> None:
        """Writes the words, their numbers and `system.json`; `load` reads them.

        Raises:
            ConfigError: The folder exists.
            RunError: The disk is full, or the like.
        """
        from safetensors.numpy import save_file

        def fill(target: Path) -> None:
            save_file({name: np.ascontiguousarray(values) for name, values in self.arrays.items()}, target / WORDS_FILE)
            record = {"vocabulary": self.vocabulary, "info": self._info}
            (target / SYSTEM_FILE).write_text(to_json(record), encoding="utf-8")

        write_folder(Path(folder), fill, key=SYSTEM_FILE)

    @classmethod
    def load(cls, folder: Path) -> Words:
        """What `save` wrote.

        Raises:
            ConfigError: It was not written by `save`.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            record = json.loads((Path(folder) / SYSTEM_FILE).read_text(encoding="utf-8"))
            return cls(record["vocabulary"], load_file(Path(folder) / WORDS_FILE), record["info"])
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise ConfigError(f"'{folder}' was not written by save ({error}).") from error


@dataclass(frozen=True)
class BagOfWords:
    """TF-IDF and logistic regression on the training rows, with no encoder at all.

    Attributes:
        name: The name in tables.
        inverse_strength: C of the penalty.
    """

    name: str = "bag_of_words"
    inverse_strength: float = 4.0

    def __post_init__(self) -> None:
        require(self.inverse_strength > 0, f"inverse_strength must be above 0, but is {self.inverse_strength}.")

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows."""
        return frozenset({Need.TRAIN})

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> Words:
        """Count and fit.

        Raises:
            DataError: The rows are of a single class, or no word is in two of them.
        """
        started, rows = time.perf_counter(), of_two_classes(material.train, self.name)
        words = vectorizer()
        try:
            values = words.fit_transform([joined(text) for text in rows.texts])
        except ValueError as error:
            raise DataError(f"'{self.name}' needs words that two rows of '{rows.name}' hold ({error}).") from error
        weight, bias = logistic(values, rows.labels, len(material.label_names), self.inverse_strength)
        info = {"labels_spent": 0, "seconds": {"fit": time.perf_counter() - started}, **_FREE}
        names = words.get_feature_names_out().tolist()
        return Words(names, {"idf": words.idf_, "weight": weight, "bias": bias}, info)


def pretrained(material: Material) -> TextClassifier:
    """The pretrained encoder as it was before any fine-tuning; the head on it is not read."""
    return material.scorer(*load_encoder(material.encoder, material.label_names, seed=0))


@dataclass(frozen=True)
class FrozenHead:
    """Logistic regression on the pretrained encoder's sentence vectors: nothing of the encoder is trained.

    Attributes:
        name: The name in tables.
        rows: What it is fitted on: `train`, the training rows, or `support`, the few labelled rows of the target.
        inverse_strength: C of the penalty.
    """

    name: str = "frozen_head"
    rows: Literal["train", "support"] = "train"
    inverse_strength: float = 10.0

    def __post_init__(self) -> None:
        require(self.rows in ("train", "support"), f"rows must be train or support, but is {self.rows!r}.")
        require(self.inverse_strength > 0, f"inverse_strength must be above 0, but is {self.inverse_strength}.")

    @property
    def needs(self) -> frozenset[Need]:
        """The rows."""
        return frozenset({Need(self.rows)})

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Read the sentence vectors and fit the head.

        Raises:
            DataError: The rows are of a single class.
        """
        started = time.perf_counter()
        rows = of_two_classes(material.train if self.rows == "train" else material.support, self.name)
        encoder = pretrained(material)
        values = features(encoder, rows.texts, "mean")
        head = logistic(values, rows.labels, len(material.label_names), self.inverse_strength)
        info = {
            "labels_spent": len(rows) if self.rows == "support" else 0,
            "seconds": {"fit": time.perf_counter() - started},
        }
        return head_system(with_head(encoder, *head, "mean"), "mean", info=info, forward_equivalents=float(len(rows)))


@dataclass(frozen=True)
class ZeroShot:
    """The class whose name is most like the text, by the pretrained encoder's sentence vectors: p ~ exp(s cos).

    Attributes:
        name: The name in tables.
        sharpness: s.
    """

    name: str = "zero_shot"
    sharpness: float = SHARPNESS

    def __post_init__(self) -> None:
        require(self.sharpness > 0, f"sharpness must be above 0, but is {self.sharpness}.")

    @property
    def needs(self) -> frozenset[Need]:
        """Nothing but the names of the classes, which everybody has."""
        return frozenset()

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Read the vectors of the names, which become a head without a bias."""
        started, encoder = time.perf_counter(), pretrained(material)
        names = features(encoder, list(material.label_names), "mean")
        info = {"labels_spent": 0, "seconds": {"fit": time.perf_counter() - started}}
        head = with_head(encoder, self.sharpness * names, np.zeros(len(names)), "mean")
        return head_system(head, "mean", info=info, forward_equivalents=float(len(names)))
