"""C2L: contrast a text with copies that lost a causal and a non-causal token (Choi et al., AAAI 2022)."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shortcut_guardrail.errors import GuardrailWarning, ModelError
from shortcut_guardrail.models import Batch, EncodedTexts, TextClassifier, quiet_transformers
from shortcut_guardrail.typing import Progress

from ..finetuning import FinetuneConfig, Objective, seeded
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
    pooled_output,
    require,
    resolve_recipe,
    selection_info,
    train,
)

Array = np.ndarray[Any, np.dtype[Any]]
Proposals = Literal["auto", "mlm", "mask"]

SOURCE = FinetuneConfig(
    learning_rate=5e-5, epochs=20, batch_size=8, weight_decay=0.0, warmup_ratio=0.0, max_grad_norm=0.0
)
"""The repository's, which clips no gradient; `with_warmup` adds its warm-up, which is a number of steps, and
`C2L.select` is its choice of the epoch."""
WARMUP_STEPS = 50

TOP_REPLACEMENTS = 4
EMBEDDING_DROPOUT = 0.5


def with_warmup(recipe: FinetuneConfig, n_rows: int) -> FinetuneConfig:
    """The recipe with the repository's 50 steps of warm-up, as the share that they are of the training on N rows."""
    n_steps = recipe.epochs * math.ceil(n_rows / recipe.batch_size)
    # Half a step less, since the share is rounded up to whole steps again.
    return replace(recipe, warmup_ratio=min(1.0, (WARMUP_STEPS - 0.5) / n_steps))


def gradient_norms(classifier: TextClassifier, encoded: EncodedTexts, labels: Array) -> list[Array]:
    """|| dCE(f(x), y) / de_t ||_2 of every token by the true label, N arrays of shape (L,).

    The official code reads it at the position embeddings with a batch of one text; word and position vectors are
    summed, so the gradient at the word vectors is the same, and texts of a batch do not influence each other.

    Args:
        classifier: The model, whose weights ask for no gradient.
        encoded: N texts.
        labels: Class ids, shape (N,).
    """
    found: dict[int, Array] = {}
    for batch in classifier.batches(encoded):
        target = torch.from_numpy(labels[batch.indices]).to(classifier.device)
        with torch.enable_grad(), classifier.word_embedding_leaf() as leaves:
            loss = F.cross_entropy(classifier.logits(batch), target, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, leaves)
        norms = classifier.per_token(gradient.float().norm(dim=-1), batch).cpu().numpy()
        for row, index in enumerate(batch.indices.tolist()):
            found[index] = norms[row, : len(encoded.input_ids[index])]
    return [found[index] for index in range(len(encoded))]


def importance_by_type(norms: list[Array], encoded: EncodedTexts) -> list[Array]:
    """Every token's norm replaced by the mean over all occurrences of its type, N arrays of shape (L,)."""
    occurrences: dict[int, list[float]] = defaultdict(list)
    for ids, values in zip(encoded.input_ids, norms, strict=True):
        for token, value in zip(ids.tolist(), values.tolist(), strict=True):
            occurrences[token].append(value)
    means = {token: float(np.mean(values)) for token, values in occurrences.items()}
    return [np.array([means[token] for token in ids.tolist()]) for ids in encoded.input_ids]


@dataclass(frozen=True)
class CausalTokens:
    """The causal token of every text.

    Attributes:
        positions: Its position, shape (N,); -1 for a text without ordinary tokens.
        found: Whether a test singled it out, rather than its importance alone, shape (N,), bool.
        n_forward: Forward passes of one text that the search took.
    """

    positions: Array
    found: Array
    n_forward: int


def find_causal_tokens(
    classifier: TextClassifier, encoded: EncodedTexts, importance: list[Array], replacer: Replacer
) -> CausalTokens:
    """The most important token of each text whose replacement matters to the answer.

    Tokens are tried from the most important on. With replacements of a language model the test is the official one:
    the answers to the replaced texts are not all the same. With the mask token as the one replacement (the repository's
    propensity variant) it is that the answer changes. If no token passes, the most important one is taken.

    Args:
        classifier: Answers.
        encoded: N texts.
        importance: Of every token, N arrays of shape (L,).
        replacer: Proposes what to put in a token's place.
    """
    orders = [_by_importance(*pair) for pair in zip(encoded.ordinary, importance, strict=True)]
    positions = np.array([order[0] if len(order) else -1 for order in orders], dtype=np.int64)
    found = np.zeros(len(encoded), dtype=bool)
    answers, n_forward = None, 0
    if replacer.n_proposals == 1:
        answers, n_forward = classifier.predict_logits(encoded).argmax(axis=1), len(encoded)
    # All texts that are still open try one token each before any tries its next: no text is asked about a token beyond
    # its causal one, and forward passes are full of texts of similar length.
    for rank in range(max(map(len, orders), default=0)):
        texts = np.array([i for i, order in enumerate(orders) if rank < len(order) and not found[i]], dtype=np.int64)
        tried = np.array([orders[i][rank] for i in texts], dtype=np.int64)
        matters = _matters(classifier, encoded, texts, tried, replacer, answers)
        positions[texts[matters]] = tried[matters]
        found[texts[matters]] = True
        n_forward += len(texts) * replacer.cost
    return CausalTokens(positions, found, n_forward)


def _by_importance(ordinary: Array, importance: Array) -> Array:
    """Positions of the ordinary tokens, the most important first, of equals the first."""
    places = np.flatnonzero(ordinary)
    return places[np.argsort(-importance[places], kind="stable")]


@torch.inference_mode()
def _matters(
    classifier: TextClassifier,
    encoded: EncodedTexts,
    texts: Array,
    tried: Array,
    replacer: Replacer,
    answers: Array | None,
) -> Array:
    """Whether replacing one token of each of T texts matters to the answer, shape (T,), bool.

    Args:
        classifier: Answers.
        encoded: N texts.
        texts: Which of them, shape (T,).
        tried: The token's position in each, shape (T,).
        replacer: Proposes P tokens for it.
        answers: Predicted classes of the texts as they are, shape (N,), which those with the token replaced are
            compared with; `None` compares these with each other.
    """
    matters = np.zeros(len(texts), dtype=bool)
    for batch in classifier.batches(encoded.select(texts), sequences_per_text=replacer.n_proposals):
        rows, device = batch.indices, batch.input_ids.device  # rows of `texts`
        places = torch.from_numpy(tried[rows]).to(device)
        proposals = replacer.propose(batch, places, texts[rows])  # (B, P)
        sources = torch.arange(len(rows), device=device).repeat_interleave(proposals.shape[1])
        copies = batch.input_ids[sources]  # (B * P, L)
        copies[torch.arange(len(copies), device=device), places[sources]] = proposals.reshape(-1)
        replaced = classifier.logits(batch.copies(copies, sources)).argmax(dim=-1).view(proposals.shape).cpu().numpy()
        compared = replaced[:, :1] if answers is None else answers[texts[rows], None]
        matters[rows] = (replaced != compared).any(axis=1)
    return matters


class Replacer:
    """Proposes the mask token, and nothing else."""

    name = "mask"
    n_proposals = 1
    cost = 1
    """Forward passes that trying one token takes, those that answer the replaced texts included."""

    def __init__(self, mask_token_id: int) -> None:
        self._mask_token_id = mask_token_id

    def propose(self, batch: Batch, places: Tensor, texts: Array) -> Tensor:
        """What to put in the place of one token of each text.

        Args:
            batch: B texts.
            places: Where the token is in each, shape (B,).
            texts: Numbers that tell the texts apart in whatever batches they come, shape (B,).

        Returns:
            Token ids, shape (B, P).
        """
        return torch.full((len(places), 1), self._mask_token_id, device=batch.input_ids.device)


class LanguageModelReplacer(Replacer):
    """Proposes what a masked language model finds most likely in a token's place, half of whose vector is dropped.

    What is dropped depends on the seed, the text and the place, and not on which texts share a batch.

    Args:
        model: A Transformers masked language model over the same vocabulary.
        device: Where it runs.
        seed: Chooses what is dropped.
    """

    name = "mlm"
    n_proposals = TOP_REPLACEMENTS
    cost = 1 + TOP_REPLACEMENTS

    def __init__(self, model: Any, device: torch.device, *, seed: int) -> None:
        self._model = model.to(device).eval()
        self._seed = seed

    @torch.inference_mode()
    def propose(self, batch: Batch, places: Tensor, texts: Array) -> Tensor:
        """The four most likely tokens, shape (B, 4), from one forward pass of each text."""
        rows = torch.arange(len(places), device=places.device)
        vectors = self._model.get_input_embeddings()(batch.input_ids)  # (B, L, E)
        vectors[rows, places] = vectors[rows, places] * self._dropout(texts, places, vectors)
        inputs = {name: value for name, value in batch.model_inputs().items() if name != "input_ids"}
        logits = self._model(inputs_embeds=vectors, **inputs).logits
        return cast(Tensor, logits[rows, places].topk(TOP_REPLACEMENTS, dim=-1).indices)

    def _dropout(self, texts: Array, places: Tensor, like: Tensor) -> Tensor:
        """0 where an element is dropped, else 1 / (1 - p), shape (B, E)."""
        keys = zip(texts.tolist(), places.tolist(), strict=True)
        drawn = [np.random.default_rng([self._seed, *key]).random(like.shape[-1]) for key in keys]
        kept = torch.from_numpy(np.stack(drawn) >= EMBEDDING_DROPOUT).to(like)
        return kept / (1 - EMBEDDING_DROPOUT)


def load_language_model(encoder: str) -> Any | None:
    """The masked language model that an encoder was pretrained as; `None` if its folder has no such head."""
    from safetensors import SafetensorError
    from transformers import AutoModelForMaskedLM

    try:
        with quiet_transformers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, report = AutoModelForMaskedLM.from_pretrained(
                encoder, dtype=torch.float32, use_safetensors=True, output_loading_info=True
            )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError):
        return None
    return None if report["missing_keys"] else model


class TripletLoss(Objective):
    """CE + weight * triplet margin loss (margin 1, Euclidean) between anchor, positive and negative.

    The positive lost a random token other than the causal one, the negative lost the causal one. A text whose causal
    token no test found has no triplet, as in the official code.

    Args:
        encoded: The N training texts.
        causal: Their causal tokens.
        weight: lambda.
        seed: Chooses the token of each positive, once.
        mask_token_id: What is put in.
        pad_token_id: What texts are filled up with.
    """

    def __init__(
        self,
        encoded: EncodedTexts,
        causal: CausalTokens,
        weight: float,
        *,
        seed: int,
        mask_token_id: int,
        pad_token_id: int,
    ) -> None:
        self._weight = weight
        self._pad = pad_token_id
        self._segments = encoded.token_type_ids
        self._ids: dict[int, tuple[Array, Array]] = {}
        rng = np.random.default_rng(seed)
        for index in np.flatnonzero(causal.found).tolist():
            place = int(causal.positions[index])
            others = [t for t in np.flatnonzero(encoded.ordinary[index]).tolist() if t != place]
            if not others:
                continue  # without another token there is nothing that could be lost harmlessly
            positive, negative = encoded.input_ids[index].copy(), encoded.input_ids[index].copy()
            positive[rng.choice(others)] = mask_token_id
            negative[place] = mask_token_id
            self._ids[index] = positive, negative
        self._model: Any = None

    @property
    def n_triplets(self) -> int:
        """Texts with a triplet."""
        return len(self._ids)

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Keeps hold of the model for its encoder."""
        self._model = model

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The loss of a batch; its triplet part is the mean over the texts that have one, 0 without any."""
        chosen = [(place, row) for place, row in enumerate(rows.tolist()) if row in self._ids]
        # The anchor's embedding is the one that its logits come from, under the same dropout.
        output, anchors = pooled_output(model, self._model.base_model, inputs)
        loss: Tensor = output.loss
        if not chosen or self._weight == 0:
            return loss
        keep = torch.tensor([place for place, _ in chosen], device=loss.device)
        copies = [(row, self._ids[row][side]) for side in (0, 1) for _, row in chosen]
        _, embeddings = pooled_output(model, self._model.base_model, self._padded(copies, loss.device))
        positives, negatives = embeddings.chunk(2)
        return loss + self._weight * triplet_loss(anchors[keep], positives, negatives)

    def _padded(self, texts: list[tuple[int, Array]], device: torch.device) -> dict[str, Tensor]:
        length = max(len(ids) for _, ids in texts)

        def pad(arrays: list[Array], value: int) -> Tensor:
            padded = [np.pad(array, (0, length - len(array)), constant_values=value) for array in arrays]
            return torch.from_numpy(np.stack(padded).astype(np.int64)).to(device)

        inputs = {
            "input_ids": pad([ids for _, ids in texts], self._pad),
            "attention_mask": pad([np.ones(len(ids), dtype=np.int64) for _, ids in texts], 0),
        }
        if self._segments is not None:
            inputs["token_type_ids"] = pad([self._segments[row] for row, _ in texts], 0)
        return inputs


def triplet_loss(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """mean_i max(0, ||a_i - p_i|| - ||a_i - n_i|| + 1), a scalar; PyTorch's, with its defaults.

    Args:
        anchors: Shape (B, H).
        positives: Shape (B, H).
        negatives: Shape (B, H).
    """
    return nn.TripletMarginLoss(margin=1.0, p=2.0)(anchors.float(), positives.float(), negatives.float())  # type: ignore[no-any-return]


@dataclass(frozen=True)
class C2L:
    """Causally contrastive learning.

    Attributes:
        name: The name in tables.
        weight: lambda of the triplet loss; the public code's 1.0 (its class default is 0.1).
        proposals: What replaces a token in the causal test: `mlm`, the pretrained masked language model, as in the
            paper; `mask`, the mask token, the repository's propensity variant; `auto`, the first where the encoder
            comes with that head.
        recipe: See `training.resolve_recipe`.
        select: Which epoch is kept: as the repository evaluates, that of the best accuracy on the dev set.
    """

    name: str = "c2l"
    weight: float = 1.0
    proposals: Proposals = "auto"
    recipe: Recipe = "source"
    select: str = "dev-accuracy"

    def __post_init__(self) -> None:
        require(self.weight >= 0, f"weight must be at least 0, but is {self.weight}.")
        require(
            self.proposals in ("auto", "mlm", "mask"), f"proposals must be auto, mlm or mask, not {self.proposals}."
        )
        check_recipe(self.recipe)
        find_rule(self.select)

    @property
    def needs(self) -> frozenset[Need]:
        """Training rows, the base classifier's gradients, and what the rule reads."""
        return frozenset({Need.TRAIN, Need.GRADIENTS}) | find_rule(self.select).needs

    def config(self) -> dict[str, Any]:
        """Every option."""
        return as_config(self)

    def fit(self, material: Material, *, seed: int, progress: Progress | None = None) -> ModelSystem:
        """Find causal tokens with the base classifier, then train the encoder anew with triplets.

        A warning says when no causal token was found at all: training is then ordinary.

        Raises:
            ModelError: A language model is asked for and the encoder has none.
            RunError: Training diverged.
        """
        rows, watch, rule = material.train, Stopwatch(), rule_for(self.select, material.dev)
        assert rows is not None
        base = material.scorer(material.base.model, fitting=True)
        encoded = base.encode(rows.texts)
        with watch.time("causal tokens"), seeded(seed):  # loading an encoder without the head draws random weights
            replacer = self._replacer(material, base, seed)
            importance = importance_by_type(gradient_norms(base, encoded, rows.labels), encoded)
            causal = find_causal_tokens(base, encoded, importance, replacer)
        triplets = TripletLoss(
            encoded,
            causal,
            self.weight,
            seed=seed,
            mask_token_id=base.tokenizer.mask_token_id,
            pad_token_id=base.tokenizer.pad_token_id,
        )
        if not triplets.n_triplets:
            warnings.warn(
                f"No replaced token changes the base classifier's answer to any of {len(rows)} training texts, so C2L "
                "has no triplet and is ordinary training.",
                GuardrailWarning,
                stacklevel=2,
            )
        recipe = resolve_recipe(self.recipe, SOURCE, material)
        if self.recipe == "source" or (isinstance(self.recipe, Mapping) and "warmup_ratio" not in self.recipe):
            recipe = with_warmup(recipe, len(rows))
        with watch.time("train"):
            trained = train(
                material,
                rows,
                recipe,
                rule,
                stage="encoder",
                watch=watch,
                seed=seed,
                changes=Changes(objective=triplets),
                progress=progress,
            )
        more_passes = TRAIN_PASS * 2 * recipe.epochs * triplets.n_triplets
        return model_system(
            material,
            trained,
            {
                "selection": selection_info(rule, material),
                "proposals": replacer.name,
                "n_triplets": triplets.n_triplets,
                "search_forward_passes": causal.n_forward,
            },
            cost=2 * len(rows) + causal.n_forward + trained.cost + more_passes,
            seconds=watch.seconds,
        )

    def _replacer(self, material: Material, base: TextClassifier, seed: int) -> Replacer:
        if self.proposals == "mask":
            return Replacer(base.tokenizer.mask_token_id)
        model = load_language_model(material.encoder)
        if model is not None:
            return LanguageModelReplacer(model, base.device, seed=seed)
        if self.proposals == "mlm":
            raise ModelError(
                f"'{material.encoder}' comes without the masked language model that C2L's replacements are drawn from. "
                "Take an encoder that has one, or proposals 'mask'."
            )
        return Replacer(base.tokenizer.mask_token_id)
