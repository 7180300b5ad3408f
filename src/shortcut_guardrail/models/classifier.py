"""A sequence classifier: tokenisation, batches, the embedding layer, the [CLS] vector, the head."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from typing import Any, TypeVar, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from ..config import Embedding
from ..data import LabelNames, Texts, Thresholds, class_names, label_ids, of_one_label
from ..errors import ConfigError, GuardrailWarning, ModelError, RunError
from ..threads import Lock, compute_in_this_process, one_at_a_time
from ..typing import Array, Capability, Head, Progress, Text
from .adapters import merged_copy
from .cost import Cost, Spent, measured_seconds
from .door import check_model
from .encoding import Batch, EncodedTexts, warn_of_cut
from .heads import read_head
from .packing import Keep, PackedSequences, can_pack, pack, packed_attention
from .precision import Precision, fast_precision, use_plain_attention
from .remembering import Remembered
from .weights import WeightsHash, versions
from .windows import WindowCutter, Windowing, Windows

Module = TypeVar("Module", bound=nn.Module)

_NO_LIMIT = 1_000_000  # tokenizers without a limit report 1e30
_FEWEST_TOKENS = 5  # two special ones, and a word whose masking leaves something to read
_TOKENIZER_CHUNK = 1024
_BATCHES_AHEAD = 8

# Tried in turn, by the names of the linear layers, for families of which PEFT has no default. A fused projection (q, k
# and v in one matrix) can only be adapted whole; the adapter's record names it.
_LORA_TARGETS = [
    ["query", "value"],
    ["q_lin", "v_lin"],
    ["q_proj", "v_proj"],
    ["query_proj", "value_proj"],
    ["q", "v"],
    ["Wqkv"],
    ["in_proj"],
]


def share_weights(model: Module) -> Module:
    """A copy of the module tree whose parameters are frozen views of the same memory.

    Adding adapters to the copy, freezing it or changing its mode leaves the original as it is, and costs no memory.
    """
    memo: dict[int, Any] = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in model.parameters()}
    memo.update({id(b): b.detach() for b in model.buffers()})
    # Half of the time went to copying empty dictionaries, of hooks that nobody has set.
    held = (kept for module in model.modules() for kept in vars(module).values())
    memo.update({id(kept): type(kept)() for kept in held if type(kept) in (dict, OrderedDict) and not kept})
    return copy.deepcopy(model, memo).eval()


class TextClassifier:
    """A sequence classifier on an encoder or a decoder, and its tokenizer, ready for attribution and adaptation.

    It works on a private copy of the module tree, frozen and in evaluation mode, that shares the caller's weights. An
    adapter of PEFT is merged into the copy of the layers that it adapts.

    Args:
        model: A Transformers sequence classifier. It is not changed.
        tokenizer: Its fast tokenizer. Without a mask token words are cut out in place of being masked.
        head: `softmax`, or `sigmoid` if each logit belongs to a label of its own; `None` reads the model's
            configuration.
        label: For a head with several labels: which one is predicted, as "not LABEL" or "LABEL".
        thresholds: See `data.Thresholds`; a label's own threshold decides between its two classes.
        max_length: Tokens per input, special tokens included; `None` takes the model's maximum.
        windows: How longer texts are read; `None` truncates them. For single texts.
        device: `None` takes a GPU if there is one.
        precision: Number format of the matrix products: `float32`, `bfloat16` (autocast), or `auto`, which takes
            bfloat16 if the hardware supports it. Scores, losses and probabilities are always 32 bit.
        packing: Whether sequences are put one after another without padding, if the model's family allows it.
        masks: Whether words are to be masked; `False` for a model that only predicts, which needs no mask token.

    Raises:
        ModelError: The model or tokenizer lacks something; the sentence names all that is missing.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        head: Head | None = None,
        label: str | None = None,
        thresholds: Thresholds | None = None,
        max_length: int | None = None,
        windows: Windowing | None = None,
        batch_size: int = 32,
        device: str | torch.device | None = None,
        precision: Precision = "float32",
        packing: bool = True,
        masks: bool = True,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, but is {batch_size}.")
        if precision not in get_args(Precision):
            raise ConfigError(f"precision must be auto, float32 or bfloat16, but is {precision!r}.")
        compute_in_this_process()
        check_model(model, masks=masks)
        self.name = str(getattr(model, "name_or_path", "") or "")
        model, self.merged = merged_copy(model, share_weights)
        self.heads = read_head(model, head, label, thresholds)
        masks = masks and tokenizer.mask_token_id is not None
        _check_tokenizer(model, tokenizer, self.name, masks)
        self.tokenizer = tokenizer
        self.max_length = usable_length(model, tokenizer, max_length)
        self.windows = windows
        self._cutter = None if windows is None else WindowCutter(windows, tokenizer, self.max_length)
        self.batch_size = self.at_once = batch_size
        self.device = torch.device(device) if device is not None else default_device()
        self.precision: Precision = fast_precision(self.device) if precision == "auto" else precision
        self.model = model.to(self.device)
        if self.model.config.pad_token_id is None:  # by which the head of a decoder finds the last token of a text
            self.model.config.pad_token_id = tokenizer.pad_token_id
        self.packs = packing and can_pack(model)
        if self.precision == "bfloat16" and self.device.type == "cpu":
            use_plain_attention(self.model)
        self.label_names = self.own_label_names = self.heads.answers
        self._masks, self._hash, self._lock, self.spent = masks, WeightsHash(), Lock(), Spent()
        self._takes_segments = "token_type_ids" in tokenizer.model_input_names and accepts(model, "token_type_ids")

    def with_model(self, model: nn.Module) -> TextClassifier:
        """The same settings around another module, such as the model with an adapter; no copy is made."""
        twin = copy.copy(self)
        twin.model = cast(Any, model)
        return twin

    def remembering(self) -> TextClassifier:
        """The same model, which answers the same tokens once; for as long as its weights stay as they are."""
        twin = copy.copy(self)
        twin.answers = Remembered(self.answers, self.batch_size)  # type: ignore[method-assign]
        if self._cutter is None:  # what is new among many fills a batch; among a batch it may be a few
            twin.at_once = _BATCHES_AHEAD * self.batch_size
        return twin

    def named(self, names: LabelNames | None) -> TextClassifier:
        """The same model, with the same fingerprint, with other names for its classes; see `data.class_names`."""
        twin = copy.copy(self)
        twin.label_names = self.label_names if names is None else class_names(names, self.own_label_names)
        return twin

    def about(self, label: str) -> TextClassifier:
        """The same model for another label of a head with several."""
        twin = copy.copy(self)
        twin.heads = self.heads.about(label)
        twin.label_names = twin.own_label_names = twin.heads.answers
        return twin

    @property
    def head(self) -> Head:
        """How the logits are read."""
        return self.heads.kind

    def label_ids(self, labels: Sequence[Any], **where: Any) -> Array:
        """Class ids of labels by these names, by the model's own or as ids, shape (n,); see `data.label_ids`.

        Of a head with several labels also from lists of them, see `data.of_one_label`.
        """
        if self.heads.label is not None:
            labels = of_one_label(labels, self.heads.label, self.heads.labels, **where)
        ids = label_ids(labels, self.label_names, own_names=self.own_label_names, **where)
        return np.array(ids, dtype=np.int64)

    @property
    def n_classes(self) -> int:
        """Number of classes C; 2 for a sigmoid head."""
        return len(self.label_names)

    @property
    def mask_token_id(self) -> int | None:
        """The id of the mask token; `None` for a model that masks nothing."""
        return int(self.tokenizer.mask_token_id) if self._masks else None

    @property
    def plain_model(self) -> Any:
        """The Transformers model, without PEFT's wrapper around it."""
        return self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model

    @property
    def encoder(self) -> Any:
        """The encoder below the head."""
        return self.plain_model.base_model

    # Tokens and batches

    @one_at_a_time
    def encode(self, texts: Texts, *, progress: Progress | None = None) -> EncodedTexts:
        """Tokenise N texts, or N (text, pair) tuples, once; everything after this works on ids."""
        (cut, held), controls = np.zeros((2, len(texts)), dtype=bool), set(_control_ids(self.tokenizer))
        encoded = EncodedTexts(texts, [], [] if self._takes_segments else None, [], [], [], cut, held)
        for start in range(0, len(texts), _TOKENIZER_CHUNK):
            chunk = texts[start : start + _TOKENIZER_CHUNK]
            columns = [list(chunk)] if isinstance(chunk[0], str) else [list(side) for side in zip(*chunk, strict=True)]
            if self.windows is not None and len(columns) > 1:
                raise ConfigError("windows= are for single texts, but these are pairs. Leave it out.")
            most = {"truncation": self.windows is None, "max_length": None if self.windows else self.max_length}
            found = self.tokenizer(*columns, **most, padding=False, verbose=False).encodings
            for i, encoding in enumerate(found, start=start):
                ids = np.array(encoding.ids, dtype=np.int32)
                segments = np.array([-1 if s is None else s for s in encoding.sequence_ids], dtype=np.int8)
                encoded.input_ids.append(ids)
                if encoded.token_type_ids is not None:
                    encoded.token_type_ids.append(np.array(encoding.type_ids, dtype=np.int32))
                encoded.ordinary.append(segments >= 0)
                encoded.offsets.append(np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2))
                encoded.segments.append(segments)
                cut[i], held[i] = bool(encoding.overflowing), not controls.isdisjoint(ids[segments >= 0].tolist())
            if progress is not None:
                progress("Tokenising", start + len(chunk), len(texts))
        return encoded

    def collate(self, encoded: EncodedTexts, indices: Sequence[int] | Array) -> Batch:
        """Pad some texts to the longest of them, on the right, so that position 0 stays the first token."""
        rows, lengths = np.array(indices, dtype=np.int64), np.array([len(encoded.input_ids[i]) for i in indices])
        there = np.arange(lengths.max()) < lengths[:, None]

        def padded(arrays: list[Array], value: int) -> Tensor:
            filled = np.full(there.shape, value, dtype=np.int64)
            filled[there] = np.concatenate([arrays[i] for i in rows])
            return torch.from_numpy(filled).to(self.device)

        types = encoded.token_type_ids
        return Batch(
            indices=rows,
            input_ids=padded(encoded.input_ids, self.tokenizer.pad_token_id),
            attention_mask=torch.from_numpy(there.astype(np.int64)).to(self.device),
            token_type_ids=None if types is None else padded(types, self.tokenizer.pad_token_type_id),
            ordinary=padded(encoded.ordinary, 0).bool(),
        )

    def batches(
        self, encoded: EncodedTexts, *, sequences_per_text: int = 1, at_once: int | None = None
    ) -> Iterator[Batch]:
        """All texts in batches of similar length, longest first, so that little is spent on padding.

        A batch holds fewer texts where the caller makes several sequences of each.

        Args:
            at_once: Sequences of a batch; `self.at_once` where nothing but `answers` is asked about it.
        """
        order, start = np.argsort(-encoded.lengths, kind="stable"), 0
        while start < len(order):
            n = 1 if self._cutter is None else self._cutter.count(int(encoded.lengths[order[start]]))
            size = max(1, (at_once or self.batch_size) // (sequences_per_text * n))
            yield self.collate(encoded, order[start : start + size])
            start += size

    @property
    def longest(self) -> int:
        """Most tokens that are read of a text."""
        return self.max_length if self.windows is None else _NO_LIMIT

    def _cut(self, batch: Batch) -> Windows | None:
        return None if self._cutter is None else self._cutter.cut(batch)

    # Forward passes

    def autocast(self) -> AbstractContextManager[Any]:
        """The number format of the matrix products, as a context."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    @one_at_a_time
    def _run(self, module: Any, batch: Batch, keep: Keep = "first") -> tuple[Any, PackedSequences | None]:
        """What the model or its encoder gives, and how the batch was packed, if it was."""
        if not self.packs:
            with self.autocast():
                return module(**batch.model_inputs()), None
        packed = self.pack(batch)
        with self.autocast(), packed_attention(self.plain_model, packed, keep=keep):
            return module(**packed.model_inputs()), packed

    def logits(self, batch: Batch) -> Tensor:
        """Class logits, shape (B, C), 32 bit; see `HeadReading.read`."""
        return self.answers(batch)[:, self.heads.place]

    def answers(self, batch: Batch) -> Tensor:
        """The same for all labels of the head, shape (B, Q, C).

        Raises:
            RunError: A logit is not a number.
        """
        cut = self._cut(batch)
        output, packed = self._run(self.model, batch if cut is None else cut.batch)
        self.spent.answers += len(batch.indices)
        logits: Tensor = output.logits.float() if packed is None else output.logits.float()[packed.places]
        logits = logits if cut is None else cut.joined(logits, len(batch.indices))
        finite = torch.isfinite(logits).all(dim=-1)
        if not bool(finite.all()):
            first = int(batch.indices[int((~finite).nonzero()[0, 0])])
            raise RunError(
                f"The model's logits for text {first + 1} are not finite numbers. "
                "Check the model's weights, or use precision float32 if a smaller number format is in use."
            )
        return self.heads.read(logits)

    def embed(self, batch: Batch, how: Embedding = "auto") -> Tensor:
        """The text embedding, shape (B, H): position 0 of the last hidden state, or the mean over tokens."""
        pooling = getattr(self.plain_model.config, "classifier_pooling", "cls") if how == "auto" else how
        by_mean = pooling == "mean"
        if self._cut(batch) is not None:
            raise ConfigError("Texts in windows have no embedding of their own. Choose strategy='distill' or 'mask'.")
        output, packed = self._run(self.encoder, batch, "all" if by_mean else "first")
        hidden: Tensor = output.last_hidden_state
        if by_mean and packed is not None:
            return packed.mean(hidden)
        if by_mean:
            mask = batch.attention_mask[..., None].to(hidden.dtype)  # (B, L, 1)
            return (hidden * mask).sum(dim=1) / mask.sum(dim=1)
        return hidden[:, 0] if packed is None else hidden[packed.places, 0]

    def pack(self, batch: Batch) -> PackedSequences:
        """The batch's sequences in one row."""
        return pack(self.plain_model, batch.input_ids, batch.attention_mask, batch.token_type_ids)

    def per_token(self, values: Tensor, batch: Batch) -> Tensor:
        """Values of tokens as a forward pass saw them, in the places of the batch, shape (B, L)."""
        if (cut := self._cut(batch)) is not None:
            return cut.spread(self._unpacked(values, cut.batch), batch)
        return self._unpacked(values, batch)

    def _unpacked(self, values: Tensor, batch: Batch) -> Tensor:
        # Longformer and BigBird pad a batch further by themselves.
        return self.pack(batch).pad(values) if self.packs else values[:, : batch.input_ids.shape[1]]

    def per_sequence(self, values: Tensor, batch: Batch) -> Tensor:
        """One value of each sequence, shape (B,), as a factor for its tokens within a forward pass."""
        if (cut := self._cut(batch)) is not None:
            values, batch = values[cut.rows], cut.batch
        if not self.packs:
            return values[:, None, None]  # (B, 1, 1) beside (B, L, H)
        packed = self.pack(batch)
        return values[packed.order].repeat_interleave(packed.mask.sum(dim=1))[None, :, None]  # (1, T, 1)

    def predict_logits(self, encoded: EncodedTexts, *, progress: Progress | None = None) -> Array:
        """Class logits of all texts in their order, shape (N, C), float32."""
        return self.predict_answers(encoded, progress=progress)[:, self.heads.place]

    @torch.inference_mode()
    def predict_answers(self, encoded: EncodedTexts, *, progress: Progress | None = None) -> Array:
        """The same for all labels of the head, shape (N, Q, C)."""
        out = np.empty((len(encoded), self.heads.n_questions, self.n_classes), dtype=np.float32)
        done = 0
        for batch in self.batches(encoded, at_once=self.at_once):
            out[batch.indices] = self.answers(batch).cpu().numpy()
            done += len(batch.indices)
            if progress is not None:
                progress("Predicting", done, len(encoded))
        return out

    def predict_proba(
        self, texts: Sequence[Text] | EncodedTexts, *, progress: Progress | None = None, again: bool = False
    ) -> Array:
        """Class probabilities of all texts in their order, shape (N, C), float64; see `classifiers.Classifier`.

        For texts that were not encoded before, a warning counts those that are longer than the model reads.
        """
        encoded = texts if isinstance(texts, EncodedTexts) else self.encode(cast(Texts, texts))
        if encoded is not texts:
            warn_of_cut(self.name, int(encoded.truncated.sum()), self.max_length)
        logits = torch.from_numpy(self.predict_logits(encoded, progress=progress))
        return np.asarray(logits.double().softmax(dim=-1).numpy())

    @contextmanager
    def word_embedding_leaf(self) -> Iterator[list[Tensor]]:
        """Within the block, the word-embedding output is a leaf that asks for a gradient; positions are added after it.

        Yields:
            A list that receives the leaf at each forward pass: shape (B, L, E), or (1, T, E) if sequences are packed.
        """
        leaves: list[Tensor] = []

        def detach(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
            leaves.append(output.detach().requires_grad_())
            return leaves[-1]

        handle = self.plain_model.get_input_embeddings().register_forward_hook(detach)
        try:
            yield leaves
        finally:
            handle.remove()

    # Facts about the model

    def lora_targets(self) -> list[str]:
        """Names of the linear layers that LoRA adapts by default: query and value, or the fused projection.

        Raises:
            ModelError: None are known for this family; the sentence says how to name them.
        """
        from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as peft_defaults

        linear = (nn.Linear, Conv1D)  # GPT-2's
        names = {name.rpartition(".")[2] for name, module in self.encoder.named_modules() if isinstance(module, linear)}
        family = self.plain_model.config.model_type
        for targets in (peft_defaults.get(family), *_LORA_TARGETS):
            if targets and names.issuperset(targets):
                return list(targets)
        raise ModelError(
            f"The query and value layers of a '{family}' model are not known. Name them with target_modules; "
            f"its linear layers are {', '.join(sorted(names))}."
        )

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do besides predicting; see `classifiers.require`."""
        return frozenset(get_args(Capability)) - (set() if self._masks else {"masks"})

    def fingerprint(self) -> str:
        """SHA-256 over names, shapes and 32-bit values of the original model's parameters, as hexadecimal.

        It is the same for the same weights in any file format, number of shards or 16-bit file. Adapter weights are
        left out. It is kept until PyTorch writes to a parameter (other than through `.data`).
        """
        return self._hash.of(self.plain_model)

    def cost(self, texts: Sequence[Text]) -> Cost:
        """What `predict_proba` costs for N texts."""
        tokens = int(self.encode(cast(Texts, texts)).lengths.sum())
        return Cost(len(texts), tokens, len(texts), measured_seconds(self.predict_proba, texts))

    def record(self) -> dict[str, Any]:
        """Kind, name, fingerprint and versions, ready for JSON."""
        merged = {} if self.merged is None else {"merged": asdict(self.merged)}
        return {"kind": "classifier", "name": self.name, "fingerprint": self.fingerprint(), **merged, **versions()}


def default_device() -> torch.device:
    """A GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def accepts(model: Any, argument: str) -> bool:
    """Whether a model's forward pass takes an argument of this name."""
    return argument in inspect.signature(model.forward).parameters


def _check_tokenizer(model: Any, tokenizer: Any, name: str, masks: bool) -> None:
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"The tokenizer of '{name}' is not a fast tokenizer, which is needed to trace tokens back to the text. "
            "Load it with AutoTokenizer and the 'tokenizers' library."
        )
    if tokenizer.pad_token_id is None:
        raise ModelError(f"The tokenizer of '{name}' has no padding token. Set tokenizer.pad_token and try again.")
    if masks and model.config.model_type == "electra":
        warnings.warn(
            f"'{name}' is an ELECTRA discriminator, which never saw the mask token in pretraining: "
            "masking effects and the adapter rest on an untrained embedding; read them with care.",
            GuardrailWarning,
            stacklevel=4,
        )


def _control_ids(tokenizer: Any) -> list[int]:
    """The special tokens that steer a model, by their role or by their look; others, such as "@USER", are of texts."""
    roles = (getattr(tokenizer, f"{role}_token") for role in ("bos", "eos", "sep", "cls", "pad", "mask"))
    shaped = (token for token in tokenizer.all_special_tokens if token.startswith("<|"))
    found = {token for token in (*roles, *shaped) if token} - {tokenizer.unk_token}
    return [int(tokenizer.convert_tokens_to_ids(token)) for token in sorted(found)]


def usable_length(model: Any, tokenizer: Any, asked: int | None) -> int:
    """The longest input both tokenizer and model can take, or what was asked for if that is shorter."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", _NO_LIMIT)]
    for module_name, module in model.named_modules():
        if module_name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa and its kin count positions from padding_idx + 1: two rows of the table are never reached.
            reserved = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - reserved)
    limit = min(x for x in limits if x is not None and x > 0)
    if limit >= _NO_LIMIT:
        limit = 512
    fewest = max(_FEWEST_TOKENS, tokenizer.num_special_tokens_to_add(pair=True) + 2)
    if limit < fewest:
        raise ModelError(
            f"The model and its tokenizer take {int(limit)} tokens at most, special tokens included, but at least "
            f"{fewest} are needed. Look at model_max_length in tokenizer_config.json."
        )
    if asked is None:
        return int(limit)
    if not fewest <= asked <= limit:
        raise ConfigError(f"max_length must lie between {fewest} and {limit} for this model, but is {asked}.")
    return asked
