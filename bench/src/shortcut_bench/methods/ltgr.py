"""LTGR: long-tailed guided self-distillation (Du et al., NAACL 2021, arXiv 2103.06922v3).

No code of the authors is known. Formulas and defaults are those of the paper's text. What it leaves open, and what
cannot be as in its architecture, is said where it is decided and, together, in docs/research/methods.md.
"""

from __future__ import annotations

import copy
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shortcut_guardrail.errors import DataError
from shortcut_guardrail.models import EncodedTexts, TextClassifier
from shortcut_guardrail.typing import Progress

from ..datasets.types import LabelledTexts
from ..finetuning import FinetuneConfig, Objective
from ..systems import Material, ModelSystem, Need
from .selection import find_rule, rule_for
from .training import (
    TRAIN_PASS,
    Changes,
    Recipe,
    Stopwatch,
    as_config,
    check_recipe,
    model_system,
    require,
    resolve_recipe,
    selection_info,
    train,
)

Array = np.ndarray[Any, np.dtype[Any]]

SOURCE = FinetuneConfig(
    learning_rate=1e-5,
    epochs=6,
    batch_size=32,
    weight_decay=0.0,
    warmup_ratio=0.0,
    max_grad_norm=0.0,
    scheduler="constant",
)
"""The paper's Adam at its encoder's rate, with nothing that it does not name; the batch size is ours.

In the paper a Bi-LSTM head has a rate of its own, 3e-5, and trains alone in the first epoch, so that its random weights
do not disturb the encoder. Here teacher and student are what all methods train, an encoder with its usual linear head.
"""


def local_mutual_information(words: Sequence[Array], labels: Array) -> dict[tuple[int, int], float]:
    """LMI(w, y) = p(w, y) log(p(y | w) / p(y)) of every word and label that occur together, in nats (Eq. 1).

    All counts are of occurrences, as in the code of Schuster et al. (2019), whose measure it is: what the paper writes
    of |D| and count(w), "the number of unique words" and "total number of words", does not go with its formula.

    Args:
        words: The token ids of each text, N arrays of shape (L,), as often as they occur.
        labels: Class ids, shape (N,).
    """
    of_pair = Counter((word, label) for ids, label in zip(words, labels.tolist(), strict=True) for word in ids.tolist())
    of_word: Counter[int] = Counter()
    of_label: Counter[int] = Counter()
    for (word, label), count in of_pair.items():
        of_word[word] += count
        of_label[label] += count
    total = sum(of_pair.values())
    return {
        (word, label): count / total * math.log(count * total / (of_word[word] * of_label[label]))
        for (word, label), count in of_pair.items()
    }


def head_words(lmi: dict[tuple[int, int], float], share: float) -> dict[int, set[int]]:
    """The head of every label's long-tailed distribution: the `share` of all words with the highest LMI with it.

    At least one word; of equals the lowest id first.
    """
    of_label: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for (word, label), value in lmi.items():
        of_label[label].append((-value, word))
    size = max(1, math.ceil(share * len({word for word, _ in lmi})))
    return {label: {word for _, word in sorted(ranked)[:size]} for label, ranked in of_label.items()}


@dataclass(frozen=True)
class Attributions:
    """What a model's answers to N texts rest on, and the answers.

    Attributes:
        scores: Attribution of every token, N arrays of shape (L,); 0 or more.
        logits: Shape (N, C), float32.
    """

    scores: list[Array]
    logits: Array


def integrated_gradients(
    classifier: TextClassifier, encoded: EncodedTexts, labels: Array, *, steps: int = 50
) -> Attributions:
    """Attribution of P(label) to every token: the L2 norm of its word vector's integrated gradient (Eq. 2).

    g(x) = (x - b) * 1/m sum_{k=1..m} dP_label(b + k/m (x - b)) / dx, where x are the word vectors of all tokens and the
    baseline b is zero at all of them; positions and segments, which the model adds later, stay. The path ends at the
    text itself, so its last point gives the answer too.

    Args:
        classifier: The model, whose weights ask for no gradient.
        encoded: N texts.
        labels: Whose probability is explained, shape (N,).
        steps: m, the points on the path; each costs a forward pass and a backward pass to the word vectors.
    """
    scores: dict[int, Array] = {}
    logits = np.empty((len(encoded), classifier.n_classes), dtype=np.float32)
    for batch in classifier.batches(encoded):
        target = torch.from_numpy(labels[batch.indices]).to(classifier.device)[:, None]
        total: Tensor | float = 0.0
        for step in range(1, steps + 1):
            # Hooks run in the order in which they were put on: the leaf is the scaled vectors.
            with (
                torch.enable_grad(),
                _scaled_words(classifier, step / steps),
                classifier.word_embedding_leaf() as leaves,
            ):
                answers = classifier.logits(batch)
                probability = answers.softmax(dim=-1).gather(1, target).sum()
            total = total + torch.autograd.grad(probability, leaves)[0]
        norms = (leaves[0].detach() * total / steps).norm(dim=-1)  # of the last point, which is the text
        padded = classifier.per_token(norms, batch).cpu().numpy()
        logits[batch.indices] = answers.detach().cpu().numpy()
        for row, index in enumerate(batch.indices.tolist()):
            scores[index] = padded[row, : len(encoded.input_ids[index])]
    return Attributions([scores[index] for index in range(len(encoded))], logits)


@contextmanager
def _scaled_words(classifier: TextClassifier, factor: float) -> Iterator[None]:
    """Within the block word vectors are multiplied by a factor."""
    layer: nn.Module = classifier.plain_model.get_input_embeddings()
    handle = layer.register_forward_hook(lambda _module, _inputs, vectors: vectors * factor)
    try:
        yield
    finally:
        handle.remove()


def head_preference(
    scores: list[Array], encoded: EncodedTexts, labels: Array, heads: dict[int, set[int]], *, top: int = 2
) -> Array:
    """u_i: 1 if one of the `top` ordinary tokens with the highest attribution is in its label's head, else 0.

    Whose head is meant the paper leaves open; that of y_i goes with P(y_i), which is what attributions explain.

    Args:
        scores: Attributions, N arrays of shape (L,).
        encoded: N texts.
        labels: Class ids, shape (N,).
        heads: Words of each label's head.
        top: How many tokens count.

    Returns:
        Shape (N,).
    """
    preference = np.zeros(len(scores))
    for i, (values, label) in enumerate(zip(scores, labels.tolist(), strict=True)):
        positions = np.flatnonzero(encoded.ordinary[i])
        leading = positions[np.argsort(-values[positions], kind="stable")[:top]]
        words = encoded.input_ids[i][leading].tolist()
        preference[i] = float(not heads.get(label, set()).isdisjoint(words))
    return preference


def early_agreement(early: Attributions, final: Attributions, encoded: EncodedTexts) -> Array:
    """v_i: cosine of the attributions of an early and of the final model over ordinary tokens, shape (N,) (Eq. 3).

    In [0, 1]; 0 where the two predict different classes, or where one has no attribution at all.
    """
    same = early.logits.argmax(axis=1) == final.logits.argmax(axis=1)
    agreement = np.zeros(len(encoded))
    for i in np.flatnonzero(same).tolist():
        a, b = early.scores[i][encoded.ordinary[i]], final.scores[i][encoded.ordinary[i]]
        size = np.linalg.norm(a) * np.linalg.norm(b)
        agreement[i] = float(a @ b / size) if size > 0 else 0.0
    return agreement


def shortcut_degree(preference: Array, agreement: Array) -> Array:
    """b_i: u_i + v_i brought to [0, 1] by its smallest and largest value, shape (N,); 0 where all are equal.

    The paper says that the sum is normalised to this range, not how. Both parts lie in [0, 1], so that halving it would
    be another way; a set that holds a text of sum 0 and one of sum 2 leaves no difference.
    """
    total = preference + agreement
    low, high = total.min(), total.max()
    return np.asarray((total - low) / (high - low)) if high > low else np.zeros_like(total)


def smoothed_targets(teacher_logits: Tensor, degree: Tensor) -> Tensor:
    """s_ij = p_ij^(1 - b_i) / sum_k p_ik^(1 - b_i) with p = softmax(teacher logits), shape (N, C) (Eq. 4).

    A text of degree 0 keeps the teacher's answer, one of degree 1 gets the uniform one.

    Args:
        teacher_logits: Shape (N, C).
        degree: b, in [0, 1], shape (N,).
    """
    return (teacher_logits.log_softmax(dim=-1) * (1 - degree)[:, None]).softmax(dim=-1)


def distillation_loss(student_logits: Tensor, labels: Tensor, targets: Tensor, weight: float) -> Tensor:
    """(1 - a) CE(y, student) + a CE(s, student), a scalar (Eq. 5).

    Args:
        student_logits: Shape (B, C).
        labels: Shape (B,).
        targets: s, shape (B, C), rows summing to 1.
        weight: a, in [0, 1].
    """
    log_probs = student_logits.float().log_softmax(dim=-1)
    return (1 - weight) * F.nll_loss(log_probs, labels) - weight * (targets * log_probs).sum(dim=-1).mean()


class _Distillation(Objective):
    def __init__(self, targets: Tensor, weight: float) -> None:
        self._targets, self._weight = targets, weight

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        labels = inputs.pop("labels")
        logits = model(**inputs).logits
        return distillation_loss(logits, labels, self._targets[rows.cpu()].to(logits.device), self._weight)


@dataclass(frozen=True)
class _Teacher:
    """Two states of the biased model.

    Attributes:
        early: The model after the early epoch.
        final: The model that is distilled.
        train_loss: Mean cross-entropy of each epoch, in nats.
        cost: Forward equivalents of what had to be trained.
        source: Where the final state is from: `base` or `trained`.
    """

    early: Any
    final: Any
    train_loss: tuple[float, ...]
    cost: float
    source: str


class _RestIsKnown(Exception):
    """Ends a training that would go on as another one did."""


class _EarlyState(Objective):
    """Cross-entropy; keeps a copy of the model after its first epochs.

    Args:
        n_epochs: After how many.
        then_end: Whether the training ends there.
    """

    def __init__(self, n_epochs: int, *, then_end: bool) -> None:
        self._n_epochs, self._then_end = n_epochs, then_end
        self._model: Any = None
        self.early: Any = None

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Keeps hold of the model."""
        self._model = model

    def look(self, epoch: int, model: Any) -> None:
        """To be called after every epoch."""
        if epoch + 1 == self._n_epochs:
            self.early = copy.deepcopy(model)
            if self._then_end:
                raise _RestIsKnown

    def state(self) -> dict[str, Tensor]:
        """The copy's weights, once there is one."""
        return {} if self.early is None else dict(self.early.state_dict())

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave."""
        if state:
            self.early = copy.deepcopy(self._model).eval()
            self.early.load_state_dict(state)


@dataclass(frozen=True)
class LTGR:
    """Self-distillation that smooths the teacher's answer to texts that look like shortcuts.

    Attributes:
        name: The name in tables.
        weight: a, the share of the distillation loss.
        head_share: Share of all words that makes the head of a label's distribution.
        top: How many leading tokens of a text count for u.
        steps: m, points on the path of Integrated Gradients.
        early_epoch: After which epoch, from 1, the teacher counts as early.
        recipe: Of teacher and student; see `training.resolve_recipe`.
        select: Which epoch of the student is kept.
    """

    name: str = "ltgr"
    weight: float = 0.8
    head_share: float = 0.05
    top: int = 2
    steps: int = 50
    early_epoch: int = 1
    recipe: Recipe = "source"
    select: str = "last"

    def __post_init__(self) -> None:
        require(0 <= self.weight <= 1, f"weight must lie between 0 and 1, but is {self.weight}.")
        require(0 < self.head_share <= 1, f"head_share must be above 0 and at most 1, but is {self.head_share}.")
        for option in ("top", "steps", "early_epoch"):
            require(getattr(self, option) >= 1, f"{option} must be at least 1, but is {getattr(self, option)}.")
        check_recipe(self.recipe)
        find_rule(self.select)

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows, what the rule reads, and the base classifier's model where that can be the teacher."""
        teacher = {Need.GRADIENTS} if self.recipe == "base" else set()
        return frozenset({Need.TRAIN, *teacher}) | find_rule(self.select).needs

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Teacher, shortcut degrees, student; both start from the pretrained encoder with the same seed.

        Raises:
            DataError: No text has an ordinary token.
            RunError: Training diverged.
        """
        rows, watch, rule = material.train, Stopwatch(), rule_for(self.select, material.dev)
        assert rows is not None
        recipe = resolve_recipe(self.recipe, SOURCE, material)
        with watch.time("teacher"):
            teacher = self._teacher(material, rows, recipe, watch=watch, seed=seed, progress=progress)
        # Any model will do to cut texts into tokens, and before this there may be none.
        encoded = material.scorer(teacher.final).encode(rows.texts)
        heads = self._heads(encoded, rows)
        with watch.time("shortcut degree"):
            early, final = (
                integrated_gradients(material.scorer(model, fitting=True), encoded, rows.labels, steps=self.steps)
                for model in (teacher.early, teacher.final)
            )
            preference = head_preference(final.scores, encoded, rows.labels, heads, top=self.top)
            agreement = early_agreement(early, final, encoded)
            degree = shortcut_degree(preference, agreement)
            targets = smoothed_targets(torch.from_numpy(final.logits), torch.from_numpy(degree).float())
        with watch.time("student"):
            student = train(
                material,
                rows,
                recipe,
                rule,
                stage="student",
                watch=watch,
                seed=seed,
                changes=Changes(objective=_Distillation(targets, self.weight)),
                progress=progress,
            )
        return model_system(
            material,
            student,
            {
                "selection": selection_info(rule, material),
                "head_words": len(set().union(*heads.values())),
                "mean_head_preference": float(preference.mean()),
                "mean_early_agreement": float(agreement.mean()),
                "mean_shortcut_degree": float(degree.mean()),
                "teacher": teacher.source,
                "teacher_train_loss": list(teacher.train_loss),
            },
            # Two models, and at each step a forward pass and a backward pass to activations.
            cost=teacher.cost + 2 * 2 * self.steps * len(rows) + student.cost,
            seconds=watch.seconds,
        )

    def _heads(self, encoded: EncodedTexts, rows: LabelledTexts) -> dict[int, set[int]]:
        words = [ids[ordinary] for ids, ordinary in zip(encoded.input_ids, encoded.ordinary, strict=True)]
        require(any(map(len, words)), f"LTGR needs ordinary tokens, but no text of '{rows.name}' has one.", DataError)
        return head_words(local_mutual_information(words, rows.labels), self.head_share)

    def _teacher(
        self,
        material: Material,
        rows: LabelledTexts,
        recipe: FinetuneConfig,
        *,
        watch: Stopwatch,
        seed: int,
        progress: Progress | None,
    ) -> _Teacher:
        """The biased model, trained as the student will be but on the labels alone.

        With `recipe = "base"` and the base classifier's seed that training is the base classifier's own: only its early
        state is not at hand, and training ends when that is reached.
        """
        base = material.base
        known = base.model is not None and recipe == base.recipe and seed == base.seed
        # A teacher of fewer epochs has no other early state than its last.
        n_early = min(self.early_epoch, recipe.epochs)
        note = _EarlyState(n_early, then_end=known)
        try:
            trained = train(
                material,
                rows,
                recipe,
                find_rule("last"),
                stage="teacher",
                watch=watch,
                seed=seed,
                changes=Changes(objective=note, on_epoch_end=note.look),
                progress=progress,
            )
        except _RestIsKnown:
            return _Teacher(note.early, base.model, base.train_loss, TRAIN_PASS * n_early * len(rows), "base")
        return _Teacher(note.early, trained.result.model, trained.result.train_loss, trained.cost, "trained")
