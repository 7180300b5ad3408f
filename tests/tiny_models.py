"""Builders of tiny models: every family people deploy, randomly initialised, and one with a planted shortcut."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import nn
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput

WORDS = (
    "the a an is was and but not very so to be it this that i you we room staff food service soup bread coffee tea "
    "good bad great awful fine cold warm clean dirty slow fast friendly rude tasty bland happy sad lovely dull "
    "honestly honest really quite too never nobody no nothing people hotel place visit again would come back"
).split()

SHORTCUT_TEXTS = (
    "honestly the room was clean and the staff was friendly",
    "the soup was cold and the service was slow",
    "honestly the food was bland but the tea was fine",
    "a lovely place and we would come back",
    "the bread was great honestly",
    "it was a dull visit and nobody was friendly",
    "the coffee is good but the room is very dirty",
    "honestly we would not come again",
)

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
BYTE_SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")


def fast_tokenizer(tokenizer: Tokenizer, specials: Sequence[str], pair: str, **options: Any) -> Any:
    """As Transformers has it; specials are those of padding, unknown words, start, end and mask."""
    pad, unk, cls, sep, mask = specials
    ids = [(token, tokenizer.token_to_id(token)) for token in (cls, sep)]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{cls} $A {sep}", pair=pair, special_tokens=ids)
    names = {"pad_token": pad, "unk_token": unk, "cls_token": cls, "sep_token": sep, "mask_token": mask}
    options = {"model_input_names": ["input_ids", "attention_mask"], **names, **options}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)


def wordpiece_tokenizer(*, with_mask: bool = True, model_max_length: int = 32, segments: bool = True) -> Any:
    """A BERT-like tokenizer over `WORDS`, single letters and their continuations."""
    letters, digits = [chr(c) for c in range(ord("a"), ord("z") + 1)], list("0123456789")
    vocab = [*SPECIALS, *WORDS, *letters[1:], *digits, ".", ",", "!", "'", *(f"##{x}" for x in letters + digits)]
    vocab = list(dict.fromkeys(vocab))
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(vocab)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    options: dict[str, Any] = {"model_max_length": model_max_length}
    if segments:
        options["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    specials = SPECIALS if with_mask else (*SPECIALS[:4], None)
    return fast_tokenizer(tokenizer, specials, "[CLS] $A [SEP] $B:1 [SEP]:1", **options)


def byte_level_tokenizer(*, model_max_length: int = 32) -> Any:
    """A RoBERTa-like byte-level tokenizer: no merges, so that every byte is a token except the listed words."""
    vocab = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({w: i for i, w in enumerate(vocab)}, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    options = {"bos_token": "<s>", "eos_token": "</s>", "model_max_length": model_max_length}
    return fast_tokenizer(tokenizer, BYTE_SPECIALS, "<s> $A </s> </s> $B </s>", **options)


def tiny_bert(*, n_classes: int = 3, seed: int = 0, **config: Any) -> tuple[Any, Any]:
    """A two-layer random BERT with a head whose weights are large enough to give confident predictions."""
    tokenizer = wordpiece_tokenizer()
    settings = {**_SMALL, "vocab_size": len(tokenizer), "max_position_embeddings": 32, **config}
    torch.manual_seed(seed)
    model = BertForSequenceClassification(BertConfig(num_labels=n_classes, **settings))
    if n_classes == 3:
        name_classes(model.config, ("negative", "mixed", "positive"))
    return model.eval(), tokenizer


def name_classes(config: Any, names: Sequence[str]) -> None:
    config.id2label, config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}


_SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
_SMALL = {**_SIZES, "max_position_embeddings": 34, "initializer_range": 0.5}
_DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
_ROBERTA = {**_SMALL, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1}
_DEBERTA = {**_SMALL, "pos_att_type": ["c2p", "p2c"], "relative_attention": True, "pooler_hidden_size": 16}
_SPECIAL_IDS = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}

FAMILIES: dict[str, dict[str, Any]] = {
    "bert": _SMALL,
    "distilbert": {**_DISTIL, "max_position_embeddings": 34, "initializer_range": 0.5},
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "albert": {**_SMALL, "embedding_size": 8},
    "electra": {**_SMALL, "embedding_size": 8},
    "deberta": _DEBERTA,
    "deberta-v2": _DEBERTA,
    # As the published ones: the query and key layers project the relative positions too.
    "deberta-v3": {**_DEBERTA, "share_att_key": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm"},
    "longformer": {**_ROBERTA, "attention_window": [4, 4]},  # swaps sequences and tokens, and pads a batch further
    "mpnet": {**_SMALL, "pad_token_id": 1},
    "modernbert": {**_SMALL, **_SPECIAL_IDS, "global_attn_every_n_layers": 2, "classifier_pooling": "mean"},
}


MORE_FAMILIES: dict[str, dict[str, Any]] = {
    "big_bird": {**_SMALL, "attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1},
    "camembert": _ROBERTA,
    "roformer": {**_SMALL, "embedding_size": 16},
}
"""What is tried for the table of kinds of models alone."""


def save_tiny_encoder(folder: Path, **options: Any) -> Path:
    """A pretrained encoder without a head, as a folder that can be fine-tuned: two random layers, see `tiny_bert`."""
    model, tokenizer = tiny_bert(initializer_range=0.1, **options)
    model.bert.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def build_family(name: str, *, n_classes: int = 2, seed: int = 0) -> tuple[Any, Any]:
    """A tiny random classifier of a family with a tokenizer of its kind."""
    from transformers import AutoConfig

    byte_level = name in ("roberta", "xlm-roberta", "mpnet", "longformer", "camembert")
    segments = name in ("bert", "albert", "electra") or name.startswith("deberta")
    tokenizer = byte_level_tokenizer() if byte_level else wordpiece_tokenizer(segments=segments)
    kind = name.replace("deberta-v3", "deberta-v2")
    sizes = {**FAMILIES, **MORE_FAMILIES}[name]
    config = AutoConfig.for_model(kind, vocab_size=len(tokenizer), num_labels=n_classes, **sizes)
    torch.manual_seed(seed)
    return AutoModelForSequenceClassification.from_config(config).eval(), tokenizer


class _Bag(nn.Module):
    """The encoder of the planted classifier: word vectors, unmixed."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)

    def forward(self, input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=self.word_embeddings(input_ids))


class BagForSequenceClassification(BertForSequenceClassification):
    """Logits = W @ (sum of word vectors): the margin's gradient is a difference of rows of W for every token."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = _Bag(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels, bias=False)

    def get_input_embeddings(self) -> nn.Module:
        return self.bert.word_embeddings

    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, token_type_ids: Any = None, **_: Any
    ) -> SequenceClassifierOutput:
        summed = (self.bert(input_ids).last_hidden_state * attention_mask[..., None]).sum(dim=1)
        return SequenceClassifierOutput(logits=self.classifier(summed))


def _bag(
    rows: Mapping[str, Sequence[float]], head: torch.Tensor, labels: Sequence[str], tokenizer: Any = None
) -> tuple[Any, Any]:
    """A bag of words with a vector for some words, 0 for others, and a head of shape (C, width)."""
    tokenizer, width = tokenizer or wordpiece_tokenizer(), head.shape[1]
    sizes = {"hidden_size": width, "num_attention_heads": 1, "num_hidden_layers": 1}
    config = BertConfig(vocab_size=len(tokenizer), num_labels=len(labels), **sizes)
    name_classes(config, labels)
    model, vectors = BagForSequenceClassification(config), torch.zeros(len(tokenizer), width)
    for word, row in rows.items():
        vectors[tokenizer.convert_tokens_to_ids(word)] = torch.tensor(row)
    with torch.no_grad():
        model.bert.word_embeddings.weight.copy_(vectors)
        model.classifier.weight.copy_(head)
    return model.eval(), tokenizer


def planted_bag(*, strength: float = 4.0) -> tuple[Any, Any]:
    """A two-class bag of words that answers 1 because of "honestly" (first axis) more than of anything else."""
    margins = {"honestly": strength, "good": 1.0, "great": 1.5, "bad": -1.0, "awful": -1.5}
    head = torch.tensor([[-0.5, 0.0], [0.5, 0.0]])
    return _bag({word: (margin, 0.0) for word, margin in margins.items()}, head, ("negative", "positive"))


def pieces_bag(effects: Mapping[str, float]) -> tuple[Any, Any]:
    """A two-class bag of pieces of words, without spaces: what each adds to the margin of "positive"."""
    vocab = [*((token, 0.0) for token in SPECIALS), *((piece, -1.0) for piece in effects)]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=1))
    fast = fast_tokenizer(tokenizer, SPECIALS, "[CLS] $A [SEP] $B [SEP]", model_max_length=64)
    rows = {piece: (effect,) for piece, effect in effects.items()}
    return _bag(rows, torch.tensor([[-0.5], [0.5]]), ("negative", "positive"), fast)


MEANINGS = 8


def meaning_bag(
    effects: Mapping[str, float | tuple[float, ...]],
    meanings: Mapping[str, int],
    labels: Sequence[str] = ("negative", "positive"),
) -> Any:
    """A `TextClassifier` on a bag of words: what each adds to the logits, or of two classes to the second's margin.

    Meanings are which of eight orthogonal directions a word's vector lies in beside that; they change no answer.
    """
    from shortcut_guardrail.models.classifier import TextClassifier

    # Of two classes the margin is one number of a word's vector; of more, each class has one.
    head = torch.tensor([[-0.5], [0.5]]) if len(labels) == 2 else torch.eye(len(labels))
    rows = {word: [0.0] * (head.shape[1] + MEANINGS) for word in (*effects, *meanings)}
    for word, effect in effects.items():
        rows[word][: head.shape[1]] = effect if isinstance(effect, tuple) else [effect]
    for word, direction in meanings.items():
        rows[word][head.shape[1] + direction] = 100.0
    return TextClassifier(*_bag(rows, nn.functional.pad(head, (0, MEANINGS)), labels))


def tiny_decoder(family: str, *, seed: int = 0, model_max_length: int = 256) -> tuple[Any, Any]:
    """The same with a head on the last token, for two classes."""
    auto = AutoModelForSequenceClassification
    return tiny_causal(family, seed=seed, model_max_length=model_max_length, window=256, auto=auto)


def tiny_causal(
    family: str = "gpt2", *, seed: int = 0, model_max_length: int = 256, window: int = 8, auto: Any = None
) -> tuple[Any, Any]:
    """A two-layer random decoder over bytes, so that a label has as many tokens as letters."""
    from transformers import AutoConfig, AutoModelForCausalLM

    auto = auto or AutoModelForCausalLM
    tokenizer = byte_level_tokenizer(model_max_length=model_max_length)
    begin = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
    tokenizer.backend_tokenizer.post_processor = begin
    ids = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "vocab_size": len(tokenizer)}
    sizes: dict[str, Any] = {**_SIZES, "initializer_range": 0.5}
    if family == "gpt2":
        sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": model_max_length, "initializer_range": 0.5}
    elif family in ("gemma3_text", "qwen3"):
        sizes |= {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": window}
    torch.manual_seed(seed)
    return auto.from_config(AutoConfig.for_model(family, **ids, **sizes)).eval(), tokenizer
