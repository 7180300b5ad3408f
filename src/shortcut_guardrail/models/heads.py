"""How logits are read: a head asks one question with C answers, or one question with two answers for each label."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..data import Thresholds, did_you_mean, enumerated, read_thresholds
from ..errors import ConfigError, ModelError
from ..typing import Head


class LabelNeededError(ConfigError):
    """A head with several labels was given, and none was named: `labels` are its names."""

    def __init__(self, said: str, labels: tuple[str, ...]) -> None:
        super().__init__(said)
        self.labels = labels


@dataclass(frozen=True)
class HeadReading:
    """A head, and which of its questions is asked.

    Attributes:
        labels: The model's own names of its logits.
        place: Which label of a sigmoid head is asked about; 0 for a softmax head, whose only question has C answers.
        thresholds: Of a sigmoid head the probability of each label from which on the text has it, shape (K,).
    """

    kind: Head
    labels: tuple[str, ...]
    place: int = 0
    thresholds: tuple[float, ...] = ()

    @property
    def label(self) -> str | None:
        """The label that is asked about, where there are others beside it."""
        return self.labels[self.place] if self.kind == "sigmoid" and len(self.labels) > 1 else None

    @property
    def n_questions(self) -> int:
        """Q: 1 for a softmax head, the number of labels for a sigmoid head."""
        return 1 if self.kind == "softmax" else max(1, len(self.thresholds))

    @property
    def threshold(self) -> float:
        """Of the label that is asked about."""
        return self.thresholds[self.place] if self.thresholds else 0.5

    @property
    def own_thresholds(self) -> dict[str, float]:
        """Those that are not one half, by label."""
        return {
            name: t for name, t in zip(self.labels[-len(self.thresholds) :], self.thresholds, strict=False) if t != 0.5
        }

    @property
    def digest(self) -> str:
        """What tells two readings of the same logits apart, as far as the question asked goes."""
        apart = [self.label or "", "" if self.threshold == 0.5 else str(self.threshold)]
        return ":".join([self.kind, *apart]) if any(apart) else self.kind

    @property
    def answers(self) -> tuple[str, ...]:
        """Names of the answers to the question asked."""
        if self.kind == "softmax" or (len(self.labels) == 2 and self.n_questions == 1):
            return self.labels
        # One logit, one name: the other class is its negation.
        name = self.labels[self.place]
        return ("0", "1") if self.labels == ("LABEL_0",) else (f"not {name}", name)

    def about(self, label: str) -> HeadReading:
        """The same head, asked about another label."""
        return replace(self, place=_place(self.labels, label))

    def read(self, logits: Tensor) -> Tensor:
        """The answers' logits to all questions, shape (B, Q, C), from the model's, shape (B, C) or (B, K).

        A label with logit z and threshold t has (logit(t), z): the larger one decides, at one half (0, z).
        """
        if self.kind == "softmax":
            return logits[:, None]
        bounds = torch.tensor([math.log(t / (1 - t)) for t in self.thresholds], device=logits.device)
        return torch.stack([bounds.expand_as(logits), logits], dim=-1)

    def probabilities(self, answers: Tensor) -> Tensor:
        """Probabilities from what `read` gave, shape (N, Q, C), whatever the thresholds."""
        if self.kind == "sigmoid":
            answers = torch.stack([torch.zeros_like(answers[..., 1]), answers[..., 1]], dim=-1)
        return answers.softmax(dim=-1)


def read_head(model: Any, kind: Head | None, label: str | None, thresholds: Thresholds | None) -> HeadReading:
    """How a model's logits are to be read; refuses what is no classifier, and a label that is missing or unknown.

    Args:
        kind: `None` reads it from the configuration.
    """
    config, name = model.config, str(getattr(model, "name_or_path", "") or type(model).__name__)
    kind = _kind(model, name, kind)
    names = tuple(str(config.id2label[i]) for i in range(len(config.id2label)))
    if twice := sorted({one for one in names if names.count(one) > 1}):
        raise ModelError(
            f"Several classes of the model are called {', '.join(map(repr, twice))}, so that answers could not be told "
            "apart. Give each a name of its own in id2label of its config.json."
        )
    many = kind == "sigmoid" and config.num_labels > 1
    if not many and label is not None:
        raise ConfigError(
            f"label= is for heads that can give a text several labels, but '{name}' gives each exactly one of "
            f"{enumerated(list(HeadReading(kind, names).answers))}. Leave it out."
        )
    if many and label is None:
        raise LabelNeededError(
            f"'{name}' has a multi-label head, so that {enumerated(list(names))} are questions of their own. "
            f"Say which one is meant, as in label='{names[0]}'.",
            names,
        )
    given = read_thresholds(thresholds)
    known = names if many else names[-1:]
    if unknown := [one for one in given if kind == "softmax" or one not in known]:
        has = "a softmax head, which has none" if kind == "softmax" else f"the labels {enumerated(list(known))}"
        raise ConfigError(f"thresholds= names '{unknown[0]}', but '{name}' has {has}.")
    bounds = () if kind == "softmax" else tuple(given.get(one, 0.5) for one in known)
    return HeadReading(kind, names, 0 if label is None else _place(names, label), bounds)


def _place(labels: tuple[str, ...], label: str) -> int:
    if label not in labels:
        near = did_you_mean(label, labels)
        raise ConfigError(f"label= is '{label}', but the model has {enumerated(list(labels))}.{near}")
    return labels.index(label)


def _kind(model: Any, name: str, head: Head | None) -> Head:
    """Which kind of head it is; refuses what is no classifier."""
    config = model.config
    if head not in (None, "softmax", "sigmoid"):
        raise ConfigError(f"head must be softmax or sigmoid, but is {head!r}.")
    if "SequenceClassification" not in type(model).__name__:
        raise ModelError(
            f"'{name}' is a {type(model).__name__}, which has no text-classification head. "
            "Give a model fine-tuned for sequence classification."
        )
    problem, one = config.problem_type, config.num_labels == 1
    if problem == "regression":
        raise ModelError(f"'{name}' has a regression head (problem_type is 'regression'); a classifier is needed.")
    known: dict[str | None, Head] = {"multi_label_classification": "sigmoid"}
    if not one:
        known |= {"single_label_classification": "softmax"}
    expected = known.get(problem, "sigmoid" if one else head or "softmax")
    if head not in (None, expected):
        needed = "at least two logits" if one else f"another one than {problem} as its problem_type"
        raise ConfigError(f"head '{head}' needs a model with {needed}, but '{name}' has {config.num_labels} logits.")
    if one and problem is None and head is None:
        raise ModelError(
            f"'{name}' has a single logit and its configuration does not say whether that is a binary classifier or a "
            "regression (problem_type is not set). If it is a binary classifier, say so with head='sigmoid'."
        )
    return expected
