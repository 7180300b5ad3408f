"""Fine-tunes an ordinary sequence classifier: the one place for it, shared by the demo and every benchmark.

Nothing here knows about shortcuts. Transformers' `Trainer` does the work; this module fixes the recipe, keeps the
libraries quiet, and leaves the process (random states, loggers, warning filters, progress bars) as it was. Methods that
minimise something else than cross-entropy, draw rows unevenly or look at the model between epochs hand in an
`Objective`, `sampling_weights` or `on_epoch_end` and keep the loop.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from ..data import Texts, check_texts
from ..errors import ConfigError, DataError, ModelError, RunError
from ..models import Precision, check_alone, fast_precision, quiet_transformers, usable_length, use_plain_attention
from ..typing import Array, Progress
from .checkpoints import STATE_FILE, WEIGHTS_FILE, CheckpointKeeper, Checkpoints, Resumable, write_tensors

STAGE = "fine-tune"


class Objective:
    """What a fine-tuning minimises: cross-entropy here, something else in a subclass.

    One object serves one fine-tuning. `begin` and `loss` see the Transformers model itself or, within mixed precision,
    Accelerate's view of it.
    """

    def begin(self, model: Any, tokenizer: Any) -> None:
        """Called once before the optimizer is made: the place to freeze parameters or to keep a copy of them.

        Args:
            model: The model about to be trained, on its device.
            tokenizer: Its tokenizer.
        """

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """The loss of a batch, a scalar that gradients flow from.

        Args:
            model: The model, in training mode.
            inputs: Its arguments, `labels` of shape (B,) included.
            rows: Which of the texts the batch holds, shape (B,).
        """
        loss: Tensor = model(**inputs).loss
        return loss

    def state(self) -> dict[str, Tensor]:
        """What `loss` has changed in this object: a checkpoint keeps it. Nothing here."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave; called after `begin` where a fine-tuning goes on from a checkpoint."""


OnEpochEnd = Callable[[int, Any], None]
"""Called after each epoch with its number, from 0, and the model in evaluation mode.

One that remembers something is `checkpoints.Resumable` too: where a fine-tuning goes on from a checkpoint, it is not
called for the epochs before that.
"""


@dataclass(frozen=True)
class FinetuneConfig:
    """How a classifier is fine-tuned: by default AdamW with linear warm-up and decay, all weights trained.

    The defaults fit a small encoder (22 million parameters) on about a thousand texts: they bring the training loss
    of MiniLM on 1,124 GoEmotions texts to 0.01. Encoders of BERT-base size want a learning rate near 2e-5.

    Attributes:
        learning_rate: Highest learning rate, reached after the warm-up; above 0.
        epochs: Passes over the training texts, at least 1.
        batch_size: Texts per step, at least 1.
        weight_decay: Decoupled weight decay of all weights but biases and normalisation layers, at least 0.
        warmup_ratio: Share of all steps over which the learning rate rises from 0, in [0, 1].
        max_grad_norm: The gradient is scaled down to this norm; 0 switches that off.
        max_length: Longest input in tokens, special tokens included, at least 3; longer texts are truncated. Where
            the encoder takes less, its limit holds.
        precision: `float32`, `bfloat16` for mixed precision (weights stay float32; autocast), or `auto`, which takes
            bfloat16 where the hardware computes in it; elsewhere it is slower.
        group_by_length: Fill batches with texts of similar length: less padding, but less random batches.
        optimizer: `adamw`, or `sgd` with momentum 0.9, which decays all weights alike.
        scheduler: What follows the warm-up: `linear` decay to 0 or a `constant` rate.
    """

    learning_rate: float = 1e-4
    epochs: int = 8
    batch_size: int = 16
    weight_decay: float = 0.01
    warmup_ratio: float = 0.06
    max_grad_norm: float = 1.0
    max_length: int = 128
    precision: Precision = "float32"
    group_by_length: bool = False
    optimizer: Literal["adamw", "sgd"] = "adamw"
    scheduler: Literal["linear", "constant"] = "linear"

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be {expected}, but is {getattr(self, name)!r}."
            for name, expected, holds in (
                ("learning_rate", "above 0", self.learning_rate > 0 and math.isfinite(self.learning_rate)),
                ("epochs", "at least 1", self.epochs >= 1),
                ("batch_size", "at least 1", self.batch_size >= 1),
                ("weight_decay", "at least 0", self.weight_decay >= 0),
                ("warmup_ratio", "between 0 and 1", 0 <= self.warmup_ratio <= 1),
                ("max_grad_norm", "at least 0", self.max_grad_norm >= 0),
                ("max_length", "at least 3", self.max_length >= 3),
                ("precision", " or ".join(get_args(Precision)), self.precision in get_args(Precision)),
                ("optimizer", "adamw or sgd", self.optimizer in ("adamw", "sgd")),
                ("scheduler", "linear or constant", self.scheduler in ("linear", "constant")),
            )
            if not holds
        ]
        if problems:
            raise ConfigError(" ".join(problems))

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON types; `FinetuneConfig(**...)` reads them back."""
        return asdict(self)


@dataclass(frozen=True)
class FinetuneResult:
    """A fine-tuned classifier and how it came about.

    Attributes:
        model: The Transformers sequence classifier, in evaluation mode, float32, on the device it was trained on.
        tokenizer: Its tokenizer.
        train_loss: Mean cross-entropy over the steps of each epoch, in nats; as many as epochs.
        n_steps: Optimizer steps taken.
        seconds: Wall-clock time, loading and tokenizing included, and what it took up to the checkpoint that it went on
            from, if it did.
        config: The configuration used.
        seed: The seed used.
        seconds_before: The part of `seconds` up to that checkpoint; 0 without one.
    """

    model: Any
    tokenizer: Any
    train_loss: tuple[float, ...]
    n_steps: int
    seconds: float
    config: FinetuneConfig
    seed: int
    seconds_before: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The configuration and how it went, as JSON types."""
        return {
            "config": self.config.to_dict(),
            "seed": self.seed,
            "train_loss": list(self.train_loss),
            "n_steps": self.n_steps,
            "seconds": self.seconds,
        }


def finetune_classifier(
    texts: Sequence[str] | Sequence[tuple[str, str]],
    labels: Sequence[int],
    *,
    encoder: str | Path,
    label_names: Sequence[str],
    config: FinetuneConfig | None = None,
    seed: int,
    device: str | None = None,
    objective: Objective | None = None,
    sampling_weights: Array | None = None,
    on_epoch_end: OnEpochEnd | None = None,
    checkpoints: Checkpoints | None = None,
    progress: Progress | None = None,
) -> FinetuneResult:
    """Fine-tune a pretrained encoder with a fresh classification head, by cross-entropy unless told otherwise.

    The result depends on the arguments, the seed and the hardware only. The caller's random states (Python, NumPy,
    PyTorch on CPU and CUDA), loggers, warning filters and progress bars are as before afterwards, also when training
    fails, and without `checkpoints` nothing stays on the disk.

    Args:
        texts: N single texts, or N pairs (text, text) such as premise and hypothesis.
        labels: N class ids, each a position in `label_names`.
        encoder: Folder or Hub id of a pretrained encoder with safetensors weights. A fitting classification head that
            it already has is trained further.
        label_names: Names of the C classes, in the order of the ids.
        config: The recipe; `FinetuneConfig()` by default.
        seed: Decides the new head's weights, the order of the texts and dropout.
        device: `cpu`, `cuda` or `mps`; by default CUDA where there is one, else the CPU. Of several GPUs the first
            visible one is used (`CUDA_VISIBLE_DEVICES`).
        objective: What is minimised; cross-entropy by default.
        sampling_weights: Draw N texts an epoch with replacement, each with a probability in proportion to its weight,
            shape (N,), rather than every text once.
        on_epoch_end: Called after each epoch, such as to score the model; it must leave the model as it is.
        checkpoints: Where a long fine-tuning keeps its state; the same call goes on from there and ends with the same
            weights, to the bit on a processor. What a training that wrote one ended with stays as well, and is loaded
            by the same call. A folder that cannot be written is warned about.
        progress: Called as `progress("fine-tune", done, total)` in optimizer steps, from 0 to the last.

    Raises:
        DataError: No texts, broken texts, texts mixed with pairs, labels that do not fit, or a single class.
        ConfigError: The device is not there, or the weights do not fit the texts.
        ModelError: The encoder cannot be loaded as a sequence classifier.
        RunError: The training loss is not finite.
    """
    texts = check_texts(texts)
    _check_labels(labels, len(texts), label_names)
    return _finetune(
        lambda: _load(str(encoder), label_names),
        texts,
        labels,
        config or FinetuneConfig(),
        seed,
        device,
        _Extras(objective, _checked_weights(sampling_weights, len(texts)), on_epoch_end, checkpoints),
        progress,
    )


def finetune_model(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str] | Sequence[tuple[str, str]],
    labels: Sequence[int],
    *,
    config: FinetuneConfig | None = None,
    seed: int,
    device: str | None = None,
    objective: Objective | None = None,
    sampling_weights: Array | None = None,
    on_epoch_end: OnEpochEnd | None = None,
    checkpoints: Checkpoints | None = None,
    progress: Progress | None = None,
) -> FinetuneResult:
    """Train a copy of a classifier further; the one handed in is left as it is.

    Args:
        model: A Transformers sequence classifier with as many logits as classes.
        tokenizer: Its tokenizer.
        texts: N single texts, or N pairs (text, text).
        labels: N class ids, each a position in the model's label names.
        config: The recipe; `FinetuneConfig()` by default.
        seed: Decides the order of the texts and dropout.
        device: See `finetune_classifier`, as for all that follows.
        objective: What is minimised.
        sampling_weights: How often each text is drawn.
        on_epoch_end: Called after each epoch.
        checkpoints: Where it keeps its state.
        progress: Told how many steps are done.

    Raises:
        DataError: No texts, broken texts, labels that do not fit, or a single class.
        ConfigError: The device is not there, or the weights do not fit the texts.
        RunError: The training loss is not finite.
    """
    texts = check_texts(texts)
    _check_labels(labels, len(texts), [str(model.config.id2label[i]) for i in range(model.config.num_labels)])
    return _finetune(
        lambda: (copy.deepcopy(model).requires_grad_(True), tokenizer),
        texts,
        labels,
        config or FinetuneConfig(),
        seed,
        device,
        _Extras(objective, _checked_weights(sampling_weights, len(texts)), on_epoch_end, checkpoints),
        progress,
    )


@dataclass(frozen=True)
class _Extras:
    """What methods may change about the loop."""

    objective: Objective | None = None
    sampling_weights: Array | None = None
    on_epoch_end: OnEpochEnd | None = None
    checkpoints: Checkpoints | None = None


def _finetune(
    load: Callable[[], tuple[Any, Any]],
    texts: Texts,
    labels: Sequence[int],
    config: FinetuneConfig,
    seed: int,
    device: str | None,
    extras: _Extras,
    progress: Progress | None,
) -> FinetuneResult:
    started = time.perf_counter()
    use_cpu = _use_cpu(device)
    with seeded(seed), _quiet():
        model, tokenizer = load()
        rows = _tokenized(texts, labels, tokenizer, min(config.max_length, usable_length(model, tokenizer, None)))
        attention = model.config._attn_implementation
        if use_cpu and _precision(config, use_cpu) == "bfloat16":
            use_plain_attention(model)
        done = _train(model, tokenizer, rows, config, extras, seed, use_cpu, progress)
        model.set_attn_implementation(attention)
    return FinetuneResult(
        model=model.eval(),
        tokenizer=tokenizer,
        train_loss=done.losses,
        n_steps=done.n_steps,
        seconds=done.seconds_before + time.perf_counter() - started,
        config=config,
        seed=seed,
        seconds_before=done.seconds_before,
    )


def load_encoder(encoder: str | Path, label_names: Sequence[str], *, seed: int) -> tuple[Any, Any]:
    """A pretrained encoder with a fresh head, and its tokenizer, as `finetune_classifier` starts from.

    Args:
        encoder: Folder or Hub id.
        label_names: Names of the C classes.
        seed: Decides the head's weights.

    Raises:
        ModelError: The encoder cannot be loaded as a sequence classifier.
    """
    with seeded(seed), _quiet():
        return _load(str(encoder), label_names)


def train_in_place(
    model: Any,
    tokenizer: Any,
    texts: Texts,
    objective: Objective,
    *,
    config: FinetuneConfig,
    seed: int,
    device: str | None = None,
    progress: Progress | None = None,
) -> tuple[float, ...]:
    """Train those parameters of a model that ask for gradients on unlabelled texts; the mean loss of each epoch.

    For parts of a model, such as an adapter, that the caller has put on and wants to keep. The process is left as by
    `finetune_classifier`.

    Args:
        model: What `objective.loss` takes; changed in place, and in evaluation mode afterwards.
        tokenizer: Its tokenizer.
        texts: N single texts or N pairs.
        objective: What is minimised; every label it sees is 0.
        config: The recipe.
        seed: Decides the order of the texts and dropout.
        device: See `finetune_classifier`.
        progress: Told how many steps are done.

    Raises:
        DataError: No texts, or broken texts.
        RunError: The training loss is not finite.
    """
    texts = check_texts(texts)
    use_cpu = _use_cpu(device)
    with seeded(seed), _quiet():
        rows = _tokenized(texts, [0] * len(texts), tokenizer, config.max_length)
        done = _train(model, tokenizer, rows, config, _Extras(objective), seed, use_cpu, progress)
    model.eval()
    return done.losses


# ---------------------------------------------------------------------------------------------------------------------
# Checks, before a model is loaded
# ---------------------------------------------------------------------------------------------------------------------


def _check_labels(labels: Sequence[int], n_texts: int, label_names: Sequence[str]) -> None:
    if len(label_names) < 2 or len(set(label_names)) < len(label_names):
        raise DataError(f"label_names must be two or more different names, but are {list(label_names)}.")
    if len(labels) != n_texts:
        raise DataError(f"Every text needs a label, but there are {n_texts} texts and {len(labels)} labels.")
    strangers = [row for row, label in enumerate(labels) if label not in range(len(label_names))]
    if strangers:
        raise DataError(
            f"labels must be class ids between 0 and {len(label_names) - 1}, but {len(strangers)} are not; "
            f"the first is {labels[strangers[0]]!r} at position {strangers[0]}."
        )
    if len(set(labels)) < 2:
        raise DataError(f"Fine-tuning needs examples of two classes or more, but all are '{label_names[labels[0]]}'.")


def _checked_weights(weights: Array | None, n_texts: int) -> Array | None:
    if weights is None:
        return None
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n_texts,) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ConfigError(
            f"sampling_weights must be {n_texts} numbers, one for each text, at least 0 and not all 0, but "
            f"{'are ' + str(len(weights)) if weights.shape != (n_texts,) else 'hold others'}."
        )
    return weights


def _use_cpu(device: str | None) -> bool:
    """Whether to train on the CPU; any other device must be the one that `Trainer` takes by itself."""
    found = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else None
    if device is None:
        return found != "cuda"
    if device == "cpu":
        return True
    if found is None or device not in (found, f"{found}:0"):
        offer = "cpu" if found is None else f"cpu or {found}"
        raise ConfigError(f"device must be {offer} on this machine, but is '{device}'.")
    return False


def _precision(config: FinetuneConfig, use_cpu: bool) -> Precision:
    if config.precision != "auto":
        return config.precision
    return fast_precision(torch.device("cpu" if use_cpu or not torch.cuda.is_available() else "cuda"))


# ---------------------------------------------------------------------------------------------------------------------
# The process stays as it was
# ---------------------------------------------------------------------------------------------------------------------


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed Python, NumPy and PyTorch; put their states back at the end. `Trainer` seeds all three by itself."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    # An explicit list, because PyTorch warns about an implicit one on machines with many GPUs.
    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices=devices, device_type="cuda"):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing printed and no warnings by the libraries; logging level, bars and filters are as before afterwards."""
    with warnings.catch_warnings(), quiet_transformers():
        warnings.simplefilter("ignore")
        yield


# ---------------------------------------------------------------------------------------------------------------------
# The work
# ---------------------------------------------------------------------------------------------------------------------


def _load(encoder: str, label_names: Sequence[str]) -> tuple[Any, Any]:
    from safetensors import SafetensorError
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(encoder)
        model = AutoModelForSequenceClassification.from_pretrained(
            encoder,
            num_labels=len(label_names),
            id2label=dict(enumerate(label_names)),
            label2id={name: i for i, name in enumerate(label_names)},
            problem_type="single_label_classification",
            dtype=torch.float32,
            use_safetensors=True,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise ModelError(
            f"'{encoder}' cannot be fine-tuned as a classifier of {len(label_names)} labels: {reason}. Give a "
            "pretrained encoder with safetensors weights, as a folder or as an id on the Hub that this machine reaches."
        ) from error
    return model, tokenizer


_ROW = "row"
"""The column that says which text a row is; no model takes it."""


def _tokenized(texts: Texts, labels: Sequence[int], tokenizer: Any, max_length: int) -> list[dict[str, Any]]:
    columns = [texts] if isinstance(texts[0], str) else [list(side) for side in zip(*texts, strict=True)]
    encoded = tokenizer(*columns, truncation=True, max_length=max_length)
    return [
        {**{name: encoded[name][row] for name in encoded}, "labels": int(label), _ROW: row}
        for row, label in enumerate(labels)
    ]


@dataclass(frozen=True)
class _Done:
    """The loss of each epoch, the number of steps, and what was taken up to a checkpoint."""

    losses: tuple[float, ...]
    n_steps: int
    seconds_before: float = 0.0


def _train(
    model: Any,
    tokenizer: Any,
    rows: list[dict[str, Any]],
    config: FinetuneConfig,
    extras: _Extras,
    seed: int,
    use_cpu: bool,
    progress: Progress | None,
) -> _Done:
    """Train `model` in place, from the last checkpoint on if there is one."""
    from transformers import DataCollatorWithPadding, PrinterCallback

    check_alone("The fine-tuning of a classifier")  # `Trainer` would join the others, and batches would grow
    objective = extras.objective or Objective()
    remembering = [one for one in (objective, extras.on_epoch_end) if isinstance(one, Resumable)]
    keeper = CheckpointKeeper(
        extras.checkpoints, lambda: _identity(model, rows, config, extras, seed, use_cpu), remembering
    )
    recorder = _recorder(progress, extras.on_epoch_end, keeper)
    n_steps = _n_steps(config, len(rows))
    with keeper, _output_folder(keeper) as output_folder:
        arguments = _arguments(output_folder, config, len(rows), seed, use_cpu)
        model.to(arguments.device)
        objective.begin(model, tokenizer)
        trainer = _trainer_class()(
            objective=objective,
            sampling_weights=extras.sampling_weights,
            keeper=keeper,
            model=model,
            args=arguments,
            train_dataset=rows,
            data_collator=DataCollatorWithPadding(tokenizer),
            processing_class=tokenizer,
            callbacks=[recorder],
            optimizers=(_sgd(model, config) if config.optimizer == "sgd" else None, None),
        )
        trainer.remove_callback(PrinterCallback)
        resumed = keeper.resume()
        try:
            trainer.train(resume_from_checkpoint=None if resumed is None else str(resumed))
        finally:
            _unwrap(model)  # or the wrapper would outlive the training
        keeper.finish(n_steps, trainer.save_finished)
    return _Done(tuple(recorder.losses), n_steps, keeper.seconds_before)


def _n_steps(config: FinetuneConfig, n_rows: int) -> int:
    return config.epochs * math.ceil(n_rows / config.batch_size)


def _identity(
    model: Any, rows: list[dict[str, Any]], config: FinetuneConfig, extras: _Extras, seed: int, use_cpu: bool
) -> str:
    """What tells a fine-tuning from another in the same folder, but for the options of its objective."""
    versions = [metadata.version(name) for name in ("shortcut-guardrail", "torch", "transformers")]
    objective = type(extras.objective or Objective()).__qualname__
    how = [versions, config.to_dict(), seed, use_cpu, _precision(config, use_cpu), objective]
    digest = hashlib.sha256(json.dumps(how, sort_keys=True).encode())
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True).encode())
    if extras.sampling_weights is not None:
        digest.update(extras.sampling_weights.tobytes())
    for name, value in model.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@contextmanager
def _output_folder(keeper: CheckpointKeeper) -> Iterator[str]:
    """The folder of `Trainer`, which makes it even when there is nothing to write."""
    if keeper.folder is not None:
        yield str(keeper.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def _arguments(output_folder: str, config: FinetuneConfig, n_rows: int, seed: int, use_cpu: bool) -> Any:
    """`TrainingArguments` for a recipe."""
    from transformers import TrainingArguments

    arguments = TrainingArguments(
        output_dir=output_folder,
        learning_rate=config.learning_rate,
        num_train_epochs=config.epochs,
        per_device_train_batch_size=config.batch_size,
        weight_decay=config.weight_decay,
        warmup_steps=math.ceil(config.warmup_ratio * _n_steps(config, n_rows)),
        lr_scheduler_type="linear" if config.scheduler == "linear" else "constant_with_warmup",
        max_grad_norm=config.max_grad_norm,
        bf16=_precision(config, use_cpu) == "bfloat16",
        train_sampling_strategy="group_by_length" if config.group_by_length else "random",
        remove_unused_columns=False,  # which would take the row numbers away
        seed=seed,
        use_cpu=use_cpu,
        logging_strategy="epoch",
        logging_nan_inf_filter=False,  # which would hide a loss that is not finite
        save_strategy="no",  # the recorder asks for checkpoints
        report_to="none",
        disable_tqdm=True,
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # several GPUs would change the batch size behind our back
    return arguments


def _sgd(model: Any, config: FinetuneConfig) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.SGD(parameters, lr=config.learning_rate, momentum=0.9, weight_decay=config.weight_decay)


def _unwrap(model: Any) -> dict[str, Any]:
    """Take off the autocast wrapper and the mark that Accelerate puts on a model; what was taken off."""
    names = ("forward", "_original_forward", "_is_accelerate_prepared")
    return {name: vars(model).pop(name) for name in names if name in vars(model)}


@contextmanager
def _bare(model: Any) -> Iterator[None]:
    """Within the block a model in training is an ordinary one, and nothing drawn changes what the next epoch draws."""
    wrapper = _unwrap(model)
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count())), device_type="cuda"):
        try:
            yield
        finally:
            vars(model).update(wrapper)


@cache
def _trainer_class() -> Any:
    """`Trainer` with an objective and, where asked for, uneven drawing; made when Transformers is needed at last."""
    from transformers import Trainer

    class ObjectiveTrainer(Trainer):  # type: ignore[misc]
        def __init__(
            self, *, objective: Objective, sampling_weights: Array | None, keeper: CheckpointKeeper, **options: Any
        ) -> None:
            super().__init__(**options)
            self._objective = objective
            self._sampling_weights = sampling_weights
            self._keeper = keeper

        def compute_loss(
            self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Tensor:
            rows = inputs.pop(_ROW)
            return self._objective.loss(model, inputs, rows)

        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            if self._sampling_weights is None:
                return super()._get_train_sampler(train_dataset)
            return torch.utils.data.WeightedRandomSampler(
                self._sampling_weights.tolist(), num_samples=len(self._sampling_weights), replacement=True
            )

        def _save_checkpoint(self, model: Any, trial: Any) -> None:
            save = super()._save_checkpoint
            self._keeper.write(self.state.global_step, lambda: save(model, trial))

        # Weights under the names that they have in the model, all of which have to be there again. `save_pretrained`
        # goes back to the names of old files, such as LayerNorm.gamma, and `Trainer` would pass over them in loading.
        def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
            assert output_dir is not None
            Path(output_dir).mkdir(parents=True, exist_ok=True)
            write_tensors(self.model.state_dict(), Path(output_dir) / WEIGHTS_FILE)

        def save_finished(self, folder: Path) -> None:
            """Weights and losses, for a training that is asked for again."""
            self.save_model(str(folder))
            self.state.save_to_json(str(folder / STATE_FILE))

        def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
            self.model.load_state_dict(load_file(Path(resume_from_checkpoint) / WEIGHTS_FILE))

    return ObjectiveTrainer


def _recorder(progress: Progress | None, on_epoch_end: OnEpochEnd | None, keeper: CheckpointKeeper) -> Any:
    """A Trainer callback that collects the loss of each epoch, reports progress, asks for checkpoints, and lets the
    caller look."""
    from transformers import TrainerCallback

    class Recorder(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.losses: list[float] = []
            self.epochs = 0

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.losses = [entry["loss"] for entry in state.log_history if "loss" in entry]  # those before a checkpoint
            self.epochs = len(self.losses)
            self._report(state)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._report(state)

        def on_epoch_end(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> None:
            if on_epoch_end is not None:
                with _bare(model.eval()):
                    on_epoch_end(self.epochs, model)
                model.train()
            self.epochs += 1
            control.should_save = keeper.due()

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
            if "loss" in logs:  # the last record sums the run up and has none
                self._add(logs["loss"], args.learning_rate)

        def _add(self, loss: float, learning_rate: float) -> None:
            if not math.isfinite(loss):
                epoch = len(self.losses) + 1
                raise RunError(
                    f"The training loss must be finite, but is {loss} in epoch {epoch}. "
                    f"Lower the learning rate, which is {learning_rate:g}, or look for broken weights in the encoder."
                )
            self.losses.append(loss)

        def _report(self, state: Any) -> None:
            if progress is not None:
                progress(STAGE, state.global_step, state.max_steps)

    return Recorder()
