"""FairFil: a filter on frozen sentence vectors that keeps a text's content and drops its words (Cheng et al., 2021).

docs/research/methods/fairfil.md says what was read in a public version, what is recalled and what is ours.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shortcut_guardrail.data import Texts
from shortcut_guardrail.errors import GuardrailWarning, RunError
from shortcut_guardrail.models import TextClassifier
from shortcut_guardrail.text import WordFinder
from shortcut_guardrail.typing import Progress

from ..datasets.insertion import remove_words
from ..finetuning import seeded
from ..systems import Material, ModelSystem, Need
from .audited import told_or_audited
from .heads import ProbedClassifier, ProbedSystem, features
from .last_resort import logistic, of_two_classes
from .training import Stopwatch, as_config, require

Array = np.ndarray[Any, np.dtype[Any]]

SCORE_WIDTH = 500
"""Hidden units of the score that the contrast learns."""
GUESS_WIDTH = 250
"""Hidden units of the guess of a filtered vector from a word's state."""


class Score(nn.Module):
    """g(d, d') = softplus(v relu(A d + B d' + c) + e), for every d with every d'.

    Args:
        size: D.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.both, self.out = nn.Linear(2 * size, SCORE_WIDTH), nn.Linear(SCORE_WIDTH, 1)

    def forward(self, filtered: Tensor, others: Tensor) -> Tensor:
        """Scores, shape (B, B), for vectors and those of their counterparts, shape (B, D) each."""
        size = filtered.shape[1]
        one = F.linear(filtered, self.both.weight[:, :size])
        other = F.linear(others, self.both.weight[:, size:], self.both.bias)
        return F.softplus(self.out((one[:, None] + other[None]).relu()).squeeze(-1))


class Guess(nn.Module):
    """q(d | w) = N(mu(w), diag exp s(w)), each of two layers; s ends in tanh, so that it lies in [-1, 1].

    Args:
        given: Size of a word's state.
        size: D.
    """

    def __init__(self, given: int, size: int) -> None:
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(given, GUESS_WIDTH), nn.ReLU(), nn.Linear(GUESS_WIDTH, size))
        self.spread = nn.Sequential(nn.Linear(given, GUESS_WIDTH), nn.ReLU(), nn.Linear(GUESS_WIDTH, size), nn.Tanh())

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """mu and s, shape (B, D) each."""
        return self.mean(states), self.spread(states)


def contrast(scores: Tensor) -> Tensor:
    """InfoNCE, a lower bound of I(d; d'): mean_i [g_ii - log(1/B sum_j exp g_ij)], at most log B.

    Args:
        scores: g, shape (B, B).
    """
    return (scores.diagonal() - scores.logsumexp(dim=1)).mean() + math.log(len(scores))


def word_information(guessed: tuple[Tensor, Tensor], filtered: Tensor) -> Tensor:
    """CLUB, an upper bound of I(w; d) where q is right: mean_i [log q(d_i | w_i) - mean_j log q(d_j | w_i)].

    Args:
        guessed: mu and s of each word, shape (B, D) each.
        filtered: d, shape (B, D).
    """
    mean, spread = guessed
    own = (filtered - mean).square()
    others = (filtered[None] - mean[:, None]).square().mean(dim=1)
    return ((others - own) / (2 * spread.exp())).sum(dim=1).mean()


def unlikelihood(guessed: tuple[Tensor, Tensor], filtered: Tensor) -> Tensor:
    """-2 mean_i log q(d_i | w_i) but for a constant; arguments as in `word_information`."""
    mean, spread = guessed
    return ((filtered - mean).square() / spread.exp() + spread).sum(dim=1).mean()


def without_words(texts: Texts, finder: WordFinder) -> tuple[Array, Texts]:
    """Which of N texts hold a word, and these without any; what has nothing left, or nothing on a side, is left out."""
    rows, cut = [], []
    for row, text in enumerate(texts):
        sides = (text,) if isinstance(text, str) else text
        bare = tuple(remove_words(side, finder) for side in sides)
        if bare != tuple(sides) and all(side.strip() for side in bare):
            rows.append(row)
            cut.append(bare[0] if isinstance(text, str) else bare)
    return np.array(rows, dtype=np.int64), cast(Texts, cut)


@torch.inference_mode()
def word_states(classifier: TextClassifier, texts: Texts, finder: WordFinder) -> Array:
    """The mean of the last hidden states of the words' tokens, shape (N, H); zeros where a text has none, or was cut
    before the first."""
    encoded, states = classifier.encode(texts), dict[int, Array]()
    for batch in classifier.batches(encoded):
        with classifier.autocast():
            hidden = classifier.encoder(**batch.model_inputs()).last_hidden_state.double().cpu().numpy()
        for values, index in zip(hidden, batch.indices.tolist(), strict=True):
            of_words = np.flatnonzero(finder.tokens(encoded, index))
            states[index] = values[of_words].sum(axis=0) / max(len(of_words), 1)
    return np.stack([states[index] for index in range(len(encoded))])


@dataclass(frozen=True)
class FairFil:
    """A filter on the base classifier's sentence vectors, and a head fitted anew on what it lets through.

    Attributes:
        name: The name in tables.
        words: `named` takes the words that somebody names, `audited` those that the audit of the deployment texts
            takes for shortcuts.
        debias: Weight of the information on the words; with 0 the filter only contrasts.
        learning_rate: Adam's, of the filter and of the score.
        guess_rate: Adam's, of the guess.
        guess_steps: Steps of the guess before each step of the filter.
        epochs: Passes over the texts that hold a word.
        batch_size: Texts a step. InfoNCE is at most its logarithm.
        inverse_strength: C of the head's penalty.

    Raises:
        ConfigError: An option is out of range.
    """

    name: str = "fairfil"
    words: Literal["named", "audited"] = "named"
    debias: float = 1.0
    learning_rate: float = 1e-5
    guess_rate: float = 1e-4
    guess_steps: int = 50
    epochs: int = 10
    batch_size: int = 128
    inverse_strength: float = 1.0

    def __post_init__(self) -> None:
        require(self.words in ("named", "audited"), f"words must be named or audited, but is {self.words!r}.")
        require(self.debias >= 0, f"debias must be at least 0, but is {self.debias}.")
        for name in ("learning_rate", "guess_rate", "inverse_strength"):
            require(getattr(self, name) > 0, f"{name} must be above 0, but is {getattr(self, name)}.")
        for name in ("guess_steps", "epochs"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, but is {getattr(self, name)}.")
        require(self.batch_size >= 2, f"batch_size must be at least 2, but is {self.batch_size}.")

    @property
    def needs(self) -> frozenset[Need]:
        """The encoder as it was fine-tuned, training rows for pairs and head, and what gives the words."""
        source = Need.SHORTCUT_WORDS if self.words == "named" else Need.DEPLOYMENT
        return frozenset({Need.GRADIENTS, Need.TRAIN, source})

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Train the filter on training texts that hold a word, then a head on all filtered training rows.

        Without such a text the base classifier is left as it is, and a warning says so.

        Raises:
            DataError: The training rows are of a single class.
            RunError: The filter's training diverged.
        """
        rows, watch = of_two_classes(material.train, self.name), Stopwatch()
        base = material.scorer(material.base.model, fitting=True)
        with watch.time("words"):
            words, cost = told_or_audited(material, told=self.words == "named", progress=progress)
            finder = WordFinder(words)
            held, bare = without_words(rows.texts, finder) if words else (np.empty(0, dtype=np.int64), [])
        info: dict[str, Any] = {
            "labels_spent": 0,
            "selection": {"rule": "none", "oracle": False},
            "words": list(words),
            "pairs": len(held),
            "seconds": watch.seconds,
        }
        if not len(held):
            warnings.warn(
                f"No text of '{rows.name}' holds a word that '{self.name}' was given or found, so it leaves the model "
                "as it is.",
                GuardrailWarning,
                stacklevel=2,
            )
            return ModelSystem(material.scorer(material.base.model), info=info, forward_equivalents=cost)
        with watch.time("features"):
            values = features(base, rows.texts, "cls")
            states = word_states(base, cast(Texts, [rows.texts[row] for row in held]), finder)
            views = [torch.from_numpy(one).float() for one in (values[held], features(base, bare, "cls"), states)]
        with watch.time("filter"):
            layer, record = self.train([view.to(base.device) for view in views], seed=seed, progress=progress)
        with watch.time("head"):
            filtered = np.maximum(values @ layer[0].double().numpy().T + layer[1].double().numpy(), 0.0)
            head = logistic(filtered, rows.labels, len(material.label_names), self.inverse_strength)
        weight, bias = (torch.from_numpy(one).float() for one in head)
        scorer = material.scorer(material.base.model)
        return ProbedSystem(
            ProbedClassifier(scorer, weight, bias, feature="cls", layer=layer),
            info={**info, **record},
            forward_equivalents=cost + len(rows) + 2 * len(held),
        )

    def train(
        self, views: Sequence[Tensor], *, seed: int, progress: Progress | None = None
    ) -> tuple[tuple[Tensor, Tensor], dict[str, float]]:
        """The filter's weight, shape (H, H), and bias, shape (H,), on the CPU, and the terms, means of the last pass.

        Each step minimises -InfoNCE(d, d') + debias CLUB(w; d), with d = relu(W h + b). Which of a text's two versions
        is d's is drawn anew each time; w is zeros for the one without words.

        Args:
            views: Vectors of texts with a word and without it, and the words' states, of shape (N, H) each.
            seed: Decides starts, order and which version is which.

        Raises:
            RunError: A weight is not finite.
        """
        device, n = views[0].device, len(views[0])
        with seeded(seed):  # on the CPU, so that every device starts from the same
            size, given = views[0].shape[1], views[2].shape[1]
            layer, score, guess = nn.Linear(size, size), Score(size), Guess(given, size)
        for module in (layer, score, guess):
            module.to(device)
        optimizer = torch.optim.Adam([*layer.parameters(), *score.parameters()], lr=self.learning_rate)
        guesser = torch.optim.Adam(guess.parameters(), lr=self.guess_rate)
        generator = torch.Generator().manual_seed(seed)
        terms: list[Tensor] = []
        with torch.enable_grad():
            for epoch in range(self.epochs):
                terms, order = [], torch.randperm(n, generator=generator)
                for rows in torch.split(order, self.batch_size):
                    kept = (torch.rand(len(rows), 1, generator=generator) < 0.5).to(device)
                    held, bare, states = (view[rows.to(device)] for view in views)
                    words = torch.where(kept, states, torch.zeros_like(states))
                    sides = torch.where(kept, held, bare), torch.where(kept, bare, held)
                    filtered, others = (layer(side).relu() for side in sides)
                    for _ in range(self.guess_steps if self.debias else 0):
                        _step(guesser, unlikelihood(guess(words), filtered.detach()))
                    both = [contrast(score(filtered, others))]
                    if self.debias:
                        both.append(word_information(guess(words), filtered))
                    _step(optimizer, self.debias * sum(both[1:]) - both[0])
                    terms.append(torch.stack(both).detach() * len(rows) / n)
                if progress is not None:
                    progress("Filtering", epoch + 1, self.epochs)
        last = torch.stack(terms).sum(dim=0).tolist()
        weights = layer.weight.detach().cpu(), layer.bias.detach().cpu()
        finite = all(bool(one.isfinite().all()) for one in weights)
        require(finite, f"The filter of '{self.name}' is not finite. Lower learning_rate or debias.", RunError)
        return weights, dict(zip(("contrast", "word_information"), last, strict=False))


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
