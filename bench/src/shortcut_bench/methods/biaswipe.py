"""BiasWipe: zero the weights that matter more with the word than without it (Mamta et al., EMNLP 2024)."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import GuardrailWarning
from shortcut_guardrail.models import Batch, TextClassifier
from shortcut_guardrail.text import WordFinder
from shortcut_guardrail.typing import Progress, Text

from ..datasets.insertion import remove_words
from ..systems import Material, ModelSystem, Need
from .selection import best_index
from .training import TRAIN_PASS, Stopwatch, as_config, require

Array = np.ndarray[Any, np.dtype[Any]]

WIPED = 150
REPEATS = 10
DROPPED = 0.25
MOST_TEMPLATES = 70
BATCH_SIZE = 16
GRID = (0, 50, 150, 500, 1500, 5000, 15000)


@dataclass(frozen=True)
class Frame:
    """A text with a place for a word: the text is `head` + word + `tail`, and `without` is the text without any.

    Of a pair the place is in the second text, and `first` is the first.
    """

    head: str
    tail: str
    without: str
    first: str | None = None

    def text(self, word: str | None) -> Text:
        """The text with a word in its place, or without one."""
        written = self.without if word is None else f"{self.head}{word}{self.tail}"
        return written if self.first is None else (self.first, written)


def frames_of(texts: Texts, words: Sequence[str]) -> tuple[list[Frame], Array]:
    """The texts with a place for a word, and which of the texts they are.

    The place is that of the first named word, and further ones are cut. A text without a named word gives a frame only
    if no text has one; its place is at the start. What would be empty without its words gives none.

    Args:
        texts: N texts or pairs.
        words: The named words and phrases.
    """
    finder = WordFinder(words)
    sides = [(None, text) if isinstance(text, str) else text for text in texts]
    anywhere = not any(finder.present(text) for _, text in sides)
    frames, rows = [], []
    for row, (first, text) in enumerate(sides):
        without = remove_words(text, finder)
        if not without.strip() or not (anywhere or finder.present(text)):
            continue
        head, tail = "", f", {text}"
        if not anywhere:
            place = min(finder.find(text), key=lambda found: (found.start, -found.end))
            head, tail = text[: place.start], remove_words(text[place.end :], finder)
        frames.append(Frame(head, tail, without, first))
        rows.append(row)
    return frames, np.array(rows, dtype=np.int64)


def importance(
    classifier: TextClassifier,
    sets: Sequence[Texts],
    labels: Array,
    *,
    repeats: int,
    dropped: float,
    batch_size: int,
    generator: torch.Generator,
) -> list[Tensor]:
    """How much each weight v matters for each set of texts: the sum over batches and repeats of |dL/dv v|, shape (W,).

    L is the mean cross-entropy of the batch for a model of which every weight is zeroed with the probability `dropped`,
    and v is the weight as it is, zeroed or not. Word vectors of no token of the batch make no difference to L, so that
    nothing is drawn for them. Sets that are given together share what is zeroed.

    Args:
        classifier: Around a model whose parameters ask for gradients; they are as before afterwards.
        sets: Sets of N texts or pairs.
        labels: The class ids of each set's rows, shape (N,).
        repeats: How often weights are zeroed for each batch.
        dropped: The probability in [0, 1).
        batch_size: Texts a batch, in their order.
        generator: Draws what is zeroed.
    """
    parameters = list(classifier.plain_model.parameters())
    weights = [parameter.detach().clone() for parameter in parameters]
    totals = [[torch.zeros_like(weight) for weight in weights] for _ in sets]
    encoded, targets = [classifier.encode(texts) for texts in sets], torch.from_numpy(labels).to(classifier.device)
    try:
        for rows in np.split(np.arange(len(labels)), np.arange(batch_size, len(labels), batch_size)):
            batches = [classifier.collate(one, rows) for one in encoded]
            for _ in range(repeats):
                _thin(classifier, weights, batches, dropped, generator)
                for total, batch in zip(totals, batches, strict=True):
                    with torch.enable_grad():
                        loss = F.cross_entropy(classifier.logits(batch), targets[rows])
                    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
                    for value, gradient in zip(total, gradients, strict=True):
                        if gradient is not None:
                            value += gradient.abs_()
    finally:
        for parameter, weight in zip(parameters, weights, strict=True):
            parameter.data.copy_(weight)
    sizes = [weight.abs() for weight in weights]
    return [torch.cat([(one * size).flatten() for one, size in zip(total, sizes, strict=True)]) for total in totals]


def _thin(
    classifier: TextClassifier,
    weights: Sequence[Tensor],
    batches: Sequence[Batch],
    dropped: float,
    generator: torch.Generator,
) -> None:
    """Set the parameters to these weights, with some of those that the batches read zeroed."""
    table = classifier.plain_model.get_input_embeddings().weight
    tokens = np.unique(np.concatenate([batch.input_ids.cpu().numpy().ravel() for batch in batches]))
    read = torch.from_numpy(tokens).to(classifier.device)
    for parameter, weight in zip(classifier.plain_model.parameters(), weights, strict=True):
        part = read if parameter is table else slice(None)
        kept = torch.rand(weight[part].shape, generator=generator) >= dropped
        parameter.data[part] = weight[part] * kept.to(weight.device)


def wipe(model: Any, places: Tensor) -> None:
    """Zero weights of a model in place.

    Args:
        model: Its parameters are counted through in their order.
        places: Numbers of weights, shape (n,).
    """
    start = 0
    for parameter in model.parameters():
        inside = places[(places >= start) & (places < start + parameter.numel())] - start
        parameter.data.view(-1)[inside.to(parameter.device)] = 0.0
        start += parameter.numel()


@dataclass(frozen=True)
class BiasWipe:
    """The base classifier with those weights zeroed that matter more for templates with a named word than without it.

    Attributes:
        name: The name in tables.
        weights: How many weights are zeroed for each word. Of several numbers the one with the best accuracy on the
            support rows is taken, the first of equals.
        templates: `support` makes templates of the support rows, with their labels. `deployment` makes them of the
            deployment texts, with the base classifier's answers to the texts without the word in place of labels.
        paired: Zero the same weights at random for templates with the word and without it, so that the difference is
            not that of two draws.
        in_turn: Zero the weights of a word before the next word's are looked for; else all are looked for in the base
            classifier. Several numbers are compared only in the latter way.
        repeats: How often weights are zeroed at random for each batch of templates.
        dropped: The share of weights that is zeroed then.
        most_templates: Templates of a word: the first so many that the classifier answers wrongly.
        batch_size: Templates a batch.

    Raises:
        ConfigError: An option is out of range.
    """

    name: str = "biaswipe"
    weights: tuple[int, ...] = (WIPED,)
    templates: Literal["support", "deployment"] = "support"
    paired: bool = False
    in_turn: bool = True
    repeats: int = REPEATS
    dropped: float = DROPPED
    most_templates: int = MOST_TEMPLATES
    batch_size: int = BATCH_SIZE

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(self.weights))
        require(bool(self.weights) and min(self.weights) >= 0, f"weights must be at least 0, but are {self.weights}.")
        several = len(self.weights) > 1
        require(
            self.templates in ("support", "deployment"),
            f"templates must be support or deployment, not {self.templates!r}.",
        )
        require(
            not several or (self.templates == "support" and not self.in_turn),
            "Several numbers of weights are compared on support rows, with templates='support' and in_turn=False.",
        )
        for name in ("repeats", "most_templates", "batch_size"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, but is {getattr(self, name)}.")
        require(0 <= self.dropped < 1, f"dropped must be at least 0 and below 1, but is {self.dropped}.")

    @property
    def needs(self) -> frozenset[Need]:
        """The weights, the words, and what templates are made of."""
        return frozenset({Need.GRADIENTS, Need.SHORTCUT_WORDS, Need(self.templates)})

    def config(self) -> dict[str, Any]:
        """Every option; runs from before `paired` was one went by its default."""
        return {name: value for name, value in as_config(self).items() if name != "paired" or value}

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Find the weights of each word and zero them in a copy.

        A word of which no template is answered wrongly is left alone, and a warning says so if that is all of them.
        """
        watch = Stopwatch()
        with watch.time("wipe"):
            wiper = _Wiper(self, material, seed)
            chosen, scores = self._choose(wiper, material) if len(self.weights) > 1 else (self.weights[0], [])
            if not self.in_turn:
                wiper.wipe_all(chosen)
            else:
                for word in wiper.words:
                    wiper.wipe_one(word, chosen)
        if not wiper.found:
            warnings.warn(
                f"No template with a named word is answered wrongly, so '{self.name}' leaves the model as it is.",
                GuardrailWarning,
                stacklevel=2,
            )
        rule = {"rule": "support-accuracy" if scores else "none", "oracle": False}
        return ModelSystem(
            material.scorer(wiper.classifier.plain_model),
            info={
                "labels_spent": 0 if material.support is None else len(material.support),
                "selection": rule,
                "weights": chosen,
                "trials": [
                    {"point": {"weights": n}, "score": score, "diverged": None}
                    for n, score in zip(self.weights, scores, strict=False)
                ],
                "words": wiper.record(chosen),
                "seconds": watch.seconds,
            },
            forward_equivalents=wiper.cost,
        )

    def _choose(self, wiper: _Wiper, material: Material) -> tuple[int, list[float]]:
        """The number of weights, and the support accuracy of each."""
        support = material.support
        assert support is not None
        whole = copy.deepcopy(wiper.classifier.plain_model.state_dict())
        encoded, scores = wiper.classifier.encode(support.texts), []
        for n in self.weights:
            wiper.wipe_all(n)
            answers = wiper.classifier.predict_logits(encoded).argmax(axis=1)
            scores.append(float((answers == support.labels).mean()))
            wiper.classifier.plain_model.load_state_dict(whole)
        wiper.cost += len(self.weights) * len(support)
        return self.weights[best_index(scores)], scores


class _Wiper:
    """A private copy of the base classifier, the templates, and what was found for each word."""

    def __init__(self, method: BiasWipe, material: Material, seed: int) -> None:
        assert material.shortcut_words is not None
        base = material.scorer(material.base.model)
        model = copy.deepcopy(base.plain_model).requires_grad_(True)
        self.classifier, self.method, self.words = base.with_model(model), method, material.shortcut_words
        self.generator = torch.Generator().manual_seed(seed)
        self.cost, self.looked, self.found = 0.0, False, dict[str, tuple[int, Tensor]]()
        texts = material.deployment if material.support is None else material.support.texts
        assert texts is not None
        self.frames, rows = frames_of(texts, self.words)
        self.labels = self._answers(None) if material.support is None else material.support.labels[rows]

    def _answers(self, word: str | None) -> Array:
        """What the classifier answers to all frames with a word, or without one."""
        self.cost += len(self.frames)
        encoded = self.classifier.encode(self._texts(range(len(self.frames)), word))
        return np.asarray(self.classifier.predict_logits(encoded).argmax(axis=1))

    def _texts(self, rows: Sequence[int] | Array | range, word: str | None) -> Texts:
        return cast(Texts, [self.frames[row].text(word) for row in rows])

    def _places(self, word: str, n: int) -> Tensor | None:
        """The n weights that matter most with the word in comparison with without it; `None` without templates."""
        rows = np.flatnonzero(self._answers(word) != self.labels) if self.frames else np.array([], dtype=int)
        rows = rows[: self.method.most_templates]
        if not len(rows):
            return None
        how = {name: getattr(self.method, name) for name in ("repeats", "dropped", "batch_size")}
        sets = [self._texts(rows, one) for one in (word, None)]
        with_word, without = (
            found
            for together in ([sets] if self.method.paired else [[one] for one in sets])
            for found in importance(self.classifier, together, self.labels[rows], generator=self.generator, **how)
        )
        self.cost += 2 * TRAIN_PASS * self.method.repeats * len(rows)
        difference = with_word - without
        places = difference.topk(min(n, len(difference))).indices.cpu()
        self.found[word] = len(rows), places
        return places

    def wipe_one(self, word: str, n: int) -> None:
        """Look for the weights of a word in the classifier as it is now, and zero them."""
        places = self._places(word, n)
        if places is not None:
            wipe(self.classifier.plain_model, places)

    def wipe_all(self, n: int) -> None:
        """Zero the weights of all words, looked for once in the base classifier."""
        if not self.looked:
            self.looked = True
            for word in self.words:
                self._places(word, max(self.method.weights))
        for _, places in self.found.values():
            wipe(self.classifier.plain_model, places[:n])

    def record(self, n: int) -> list[dict[str, Any]]:
        """For each word its templates, and how many of its n weights are in word vectors, its own or others."""
        return [
            {"word": word, "templates": n_templates, **dict(self._where(word, places[:n]))}
            for word, (n_templates, places) in self.found.items()
        ]

    def _where(self, word: str, places: Tensor) -> Iterator[tuple[str, int]]:
        table, start = self.classifier.plain_model.get_input_embeddings().weight, 0
        for parameter in self.classifier.plain_model.parameters():
            if parameter is table:
                break
            start += parameter.numel()
        inside = places[(places >= start) & (places < start + table.numel())] - start
        own = self.classifier.tokenizer(word, add_special_tokens=False).input_ids
        yield "weights", len(places)
        yield "in_word_vectors", len(inside)
        yield "in_its_own_word_vectors", int(torch.isin(inside // table.shape[1], torch.tensor(own)).sum())
