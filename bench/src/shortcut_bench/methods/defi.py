"""DeFI: a student whose attributions are orthogonal to those of a teacher that relies on sensitive words.

Du, Tang, Fu and Hu (AAAI 2022). No code is public, and of the paper only the abstract was read.
docs/research/methods/defi.md says what is ours.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from shortcut_guardrail.errors import GuardrailWarning
from shortcut_guardrail.models import EncodedTexts, TextClassifier, usable_length, use_plain_attention
from shortcut_guardrail.text import WordFinder
from shortcut_guardrail.typing import Progress

from ..datasets.types import LabelledTexts
from ..finetuning import FinetuneConfig, Objective
from ..finetuning.training import load_encoder
from ..systems import Material, ModelSystem, Need
from .audited import told_or_audited
from .bias_only import SOURCE
from .selection import find_rule, rule_for
from .training import (
    TRAIN_PASS,
    Changes,
    Recipe,
    Stopwatch,
    Trained,
    as_config,
    check_recipe,
    model_system,
    require,
    resolve_recipe,
    selection_info,
    train,
)

Array = np.ndarray[Any, np.dtype[Any]]
Words = Literal["told", "audited"]
Attribution = Literal["signed", "norm"]

SECOND_PASS = 2 * TRAIN_PASS
"""Forward equivalents of a step that trains attributions: 1 forward, 1 back to the word vectors, and 2 for each of
these on the way back to the weights. An estimate; a batch without a sensitive word takes `TRAIN_PASS`."""

LEAST = 1e-12
"""Attributions of a text that sum to less count as none."""


def log_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """z_y - log sum_{c != y} exp(z_c), shape (B,); what is added to all logits of a text changes nothing.

    Args:
        logits: z, shape (B, C).
        labels: y, shape (B,).
    """
    others = logits.scatter(1, labels[:, None], float("-inf"))
    return logits.gather(1, labels[:, None])[:, 0] - others.logsumexp(dim=1)


def gradient_times_input(gradient: Tensor, vectors: Tensor, attribution: Attribution) -> Tensor:
    """g_t . e_t of every token with `signed`, or || g_t * e_t ||_2 with `norm`, as the guardrail has it, shape (B, L).

    Args:
        gradient: g, of what is explained, shape (B, L, E).
        vectors: e, shape (B, L, E).
        attribution: Which.
    """
    product = gradient.float() * vectors.float()
    return product.norm(dim=-1) if attribution == "norm" else product.sum(dim=-1)


def share_on(scores: Tensor, places: Tensor) -> Tensor:
    """sum_{t in S} |a_t| / sum_t |a_t|, in [0, 1], shape (B,); 0 where no token has an attribution.

    Args:
        scores: a, shape (B, L); 0 on what is not the text's own.
        places: 1 on the tokens of S, else 0, shape (B, L).
    """
    sizes = scores.abs()
    return (sizes * places).sum(dim=1) / sizes.sum(dim=1).clamp(min=LEAST)


def alikeness(scores: Tensor, other: Tensor) -> Tensor:
    """|cos(a, b)|, in [0, 1], shape (B,); 0 where either has no attribution.

    Args:
        scores: a, shape (B, L).
        other: b, shape (B, L).
    """
    return F.cosine_similarity(scores, other, dim=1, eps=LEAST).abs()


@dataclass(frozen=True)
class Tokens:
    """The tokens of N training texts as fine-tuning has them.

    Attributes:
        encoded: The texts.
        sensitive: Which tokens have a character in a sensitive word, N arrays of shape (L,), bool.
    """

    encoded: EncodedTexts
    sensitive: list[Array]

    @property
    def concerned(self) -> Array:
        """Which texts have such a token, shape (N,), bool."""
        return np.array([places.any() for places in self.sensitive])


def tokens_of(
    material: Material, rows: LabelledTexts, words: Sequence[str], recipe: FinetuneConfig, *, seed: int
) -> Tokens:
    """The training texts cut into tokens, with the places of the words and phrases.

    Args:
        material: Holds the encoder whose tokenizer cuts.
        rows: The texts.
        words: Which are sensitive; none is allowed.
        recipe: Says how long inputs are.
        seed: Of the head that is not used.
    """
    model, tokenizer = load_encoder(material.encoder, material.label_names, seed=seed)
    most = min(recipe.max_length, usable_length(model, tokenizer, None))
    encoded = TextClassifier(model, tokenizer, max_length=most).encode(rows.texts)
    finder = WordFinder(words)
    return Tokens(encoded, [finder.tokens(encoded, index) for index in range(len(encoded))])


def attributions(
    classifier: TextClassifier, encoded: EncodedTexts, labels: Array, attribution: Attribution
) -> list[Array]:
    """Attribution of `log_odds` to every token, N arrays of shape (L,), float32; 0 on tokens of the template.

    Args:
        classifier: A model whose weights ask for no gradient.
        encoded: N texts.
        labels: y, shape (N,).
        attribution: See `gradient_times_input`.
    """
    found: dict[int, Array] = {}
    for batch in classifier.batches(encoded):
        target = torch.from_numpy(labels[batch.indices]).to(classifier.device)
        with torch.enable_grad(), classifier.word_embedding_leaf() as leaves:
            lead = log_odds(classifier.logits(batch).float(), target).sum()
        gradient = torch.autograd.grad(lead, leaves)[0]
        scores = classifier.per_token(gradient_times_input(gradient, leaves[0].detach(), attribution), batch)
        of_batch = (scores * batch.ordinary).cpu().numpy()
        for row, index in enumerate(batch.indices.tolist()):
            found[index] = of_batch[row, : len(encoded.input_ids[index])]
    return [found[index] for index in range(len(encoded))]


def padded(arrays: Sequence[Array], rows: Tensor, attention_mask: Tensor) -> Tensor:
    """A value of each token of a batch, 0 on padding, shape (B, L), float32, on the batch's device.

    Args:
        arrays: Of all N rows, each of shape (L,).
        rows: Which of them the batch holds, shape (B,).
        attention_mask: 1 on tokens, 0 on padding, whichever side that is on, shape (B, L).
    """
    there = attention_mask.cpu().bool()
    values = torch.zeros(there.shape)
    values[there] = torch.from_numpy(np.concatenate([arrays[row] for row in rows.tolist()])).float()
    return values.to(attention_mask.device)


def described(tokens: Tokens, taught: list[Array], learned: list[Array]) -> dict[str, float]:
    """How much of the attributions lies on sensitive tokens, teacher's and student's, and how alike these two are.

    Means over the texts with such a token, of which there has to be one.

    Args:
        tokens: Of all N texts.
        taught: The teacher's attributions, N arrays of shape (L,).
        learned: The student's.
    """
    found: dict[str, list[Tensor]] = {"teacher_share": [], "student_share": [], "alikeness": []}
    for index in np.flatnonzero(tokens.concerned).tolist():
        a, b, places = (torch.from_numpy(one[index])[None].float() for one in (taught, learned, tokens.sensitive))
        found["teacher_share"].append(share_on(a, places))
        found["student_share"].append(share_on(b, places))
        found["alikeness"].append(alikeness(b, a))
    return {name: float(torch.cat(values).mean()) for name, values in found.items()}


class Reliant(Objective):
    """The teacher: CE(z, y) + weight * mean_i (1 - `share_on` of the sensitive tokens).

    The mean is over the texts of the batch that have one; the others have cross-entropy alone.

    Args:
        tokens: Of all N rows.
        weight: kappa.
        attribution: See `gradient_times_input`.
    """

    def __init__(self, tokens: Tokens, weight: float, attribution: Attribution) -> None:
        self._tokens, self._weight, self._attribution = tokens, weight, attribution
        self._words: Any = None

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Finds the word vectors; fused attention has no second derivative."""
        use_plain_attention(model)
        self._words = model.get_input_embeddings()

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The loss of a batch."""
        labels, mask = inputs.pop("labels"), inputs["attention_mask"]
        with self._vectors() as vectors:
            logits = model(**inputs).logits.float()
        loss = F.cross_entropy(logits, labels)
        sensitive = padded(self._tokens.sensitive, rows, mask)
        concerned = sensitive.any(dim=1)
        if not concerned.any():
            return loss
        gradient = torch.autograd.grad(log_odds(logits, labels).sum(), vectors[0], create_graph=True)[0]
        scores = gradient_times_input(gradient, vectors[0], self._attribution)
        scores = scores * padded(self._tokens.encoded.ordinary, rows, mask)
        asked = self.asked(scores, sensitive, rows, mask)
        return loss + self._weight * (asked * concerned).sum() / concerned.sum()

    def asked(self, scores: Tensor, sensitive: Tensor, rows: Tensor, mask: Tensor) -> Tensor:
        """What is to be small of each text, shape (B,).

        Args:
            scores: Attributions, 0 on what is not the text's own, shape (B, L).
            sensitive: 1 on sensitive tokens, shape (B, L).
            rows: Which of the texts these are, shape (B,).
            mask: 0 on padding, shape (B, L).
        """
        return 1 - share_on(scores, sensitive)

    @contextmanager
    def _vectors(self) -> Iterator[list[Tensor]]:
        """Within the block the word vectors are collected, shape (B, L, E)."""
        found: list[Tensor] = []
        handle = self._words.register_forward_hook(lambda _module, _given, output: found.append(output))
        try:
            yield found
        finally:
            handle.remove()


class Orthogonal(Reliant):
    """The student: CE(z, y) + weight * mean_i `alikeness` of its attributions and the teacher's.

    Args:
        tokens: Of all N rows.
        weight: lambda.
        attribution: See `gradient_times_input`.
        taught: The teacher's attributions, N arrays of shape (L,).
    """

    def __init__(self, tokens: Tokens, weight: float, attribution: Attribution, *, taught: list[Array]) -> None:
        super().__init__(tokens, weight, attribution)
        self._taught = taught

    def asked(self, scores: Tensor, sensitive: Tensor, rows: Tensor, mask: Tensor) -> Tensor:
        """See `Reliant.asked`."""
        return alikeness(scores, padded(self._taught, rows, mask))


@dataclass(frozen=True)
class DeFI:
    """A teacher that relies on sensitive words, and a student that is taught to explain itself by others.

    Attributes:
        name: The name in tables.
        words: Which words are sensitive: those that somebody names (`told`), or those that `distill` would take for
            shortcuts, from an audit of the original model on deployment texts (`audited`).
        teacher_weight: kappa, of the share that sensitive words have in the teacher's attributions; above 0.
        weight: lambda, of the student's alikeness; above 0.
        attribution: See `gradient_times_input`.
        recipe: Of teacher and student; see `training.resolve_recipe`.
        select: Which epoch of the student is kept; of the teacher it is the last.
    """

    name: str = "defi"
    words: Words = "told"
    teacher_weight: float = 1.0
    weight: float = 1.0
    attribution: Attribution = "signed"
    recipe: Recipe = "source"
    select: str = "last"

    def __post_init__(self) -> None:
        for choice, first, second in (("words", "told", "audited"), ("attribution", "signed", "norm")):
            value = getattr(self, choice)
            require(value in (first, second), f"{choice} must be {first} or {second}, but is {value!r}.")
        for option in ("teacher_weight", "weight"):
            require(getattr(self, option) > 0, f"{option} must be above 0, but is {getattr(self, option)}.")
        check_recipe(self.recipe)
        find_rule(self.select)

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows, what the rule reads, and the words, or the original model and the texts that it is audited
        on."""
        source = {Need.SHORTCUT_WORDS} if self.words == "told" else {Need.GRADIENTS, Need.DEPLOYMENT}
        return frozenset({Need.TRAIN} | source) | find_rule(self.select).needs

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Train the teacher, then the student; both start from the pretrained encoder.

        A warning says where no training text holds a sensitive word: the student is then trained by itself.

        Raises:
            RunError: Training diverged.
        """
        rows, watch, rule = material.train, Stopwatch(), rule_for(self.select, material.dev)
        assert rows is not None
        recipe = resolve_recipe(self.recipe, SOURCE, material)
        with watch.time("words"):
            words, cost = told_or_audited(material, told=self.words == "told", progress=progress)
            tokens = tokens_of(material, rows, words, recipe, seed=seed)
        info: dict[str, Any] = {"words": list(words), "sensitive_texts": int(tokens.concerned.sum())}
        how: dict[str, Any] = {"watch": watch, "seed": seed, "progress": progress}
        if not info["sensitive_texts"]:
            self._warn(rows, words)
            with watch.time("student"):
                student = train(material, rows, recipe, rule, stage="student", **how)
        else:
            with watch.time("teacher"):
                changes = Changes(
                    objective=Reliant(tokens, self.teacher_weight, self.attribution), pass_cost=SECOND_PASS
                )
                teacher = train(material, rows, recipe, find_rule("last"), stage="teacher", changes=changes, **how)
                taught = self._explained(material, teacher, tokens, rows)
            with watch.time("student"):
                asked = Orthogonal(tokens, self.weight, self.attribution, taught=taught)
                changes = Changes(objective=asked, pass_cost=SECOND_PASS)
                student = train(material, rows, recipe, rule, stage="student", changes=changes, **how)
                learned = self._explained(material, student, tokens, rows)
            cost += teacher.cost + 2 * 2 * len(rows)
            info |= {"teacher_train_loss": list(teacher.result.train_loss)}
            info |= described(tokens, taught, learned)
        info |= {"selection": selection_info(rule, material)}
        return model_system(material, student, info, cost=cost + student.cost, seconds=watch.seconds)

    def _explained(self, material: Material, trained: Trained, tokens: Tokens, rows: LabelledTexts) -> list[Array]:
        """What a trained model's answers rest on, see `attributions`."""
        scorer = material.scorer(trained.result.model, trained.result.tokenizer, fitting=True)
        return attributions(scorer, tokens.encoded, rows.labels, self.attribution)

    def _warn(self, rows: LabelledTexts, words: Sequence[str]) -> None:
        what = "none was found" if not words else f"no text holds one of {len(words)}"
        warnings.warn(
            f"{self.name} needs sensitive words in the texts of '{rows.name}', but {what}, so this is ordinary "
            "training.",
            GuardrailWarning,
            stacklevel=3,
        )
