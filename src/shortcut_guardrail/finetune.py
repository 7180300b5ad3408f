"""Fine-tunes an ordinary sequence classifier: the one place for it, shared by the demo and every benchmark.

Nothing here knows about shortcuts. Transformers' `Trainer` does the work; this module fixes the recipe, keeps the
libraries quiet, and leaves the process (random states, loggers, warning filters, progress bars) as it was.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from .data import Texts, check_texts
from .encoder import Precision, Progress, fast_precision, quiet_transformers, usable_length, use_plain_attention
from .errors import ConfigError, DataError, ModelError, RunError

STAGE = "fine-tune"


@dataclass(frozen=True)
class FinetuneConfig:
    """How a classifier is fine-tuned: AdamW with linear warm-up and decay, all weights trained.

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
        seconds: Wall-clock time, loading and tokenizing included.
        config: The configuration used.
        seed: The seed used.
    """

    model: Any
    tokenizer: Any
    train_loss: tuple[float, ...]
    n_steps: int
    seconds: float
    config: FinetuneConfig
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Everything but model and tokenizer, as JSON types."""
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
    progress: Progress | None = None,
) -> FinetuneResult:
    """Fine-tune a pretrained encoder with a fresh classification head by cross-entropy.

    The result depends on the arguments, the seed and the hardware only. The caller's random states (Python, NumPy,
    PyTorch on CPU and CUDA), loggers, warning filters and progress bars are as before afterwards, also when training
    fails, and nothing stays on the disk.

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
        progress: Called as `progress("fine-tune", done, total)` in optimizer steps, from 0 to the last.

    Raises:
        DataError: No texts, broken texts, texts mixed with pairs, labels that do not fit, or a single class.
        ConfigError: The device is not there.
        ModelError: The encoder cannot be loaded as a sequence classifier.
        RunError: The training loss is not finite.
    """
    started = time.perf_counter()
    config = config or FinetuneConfig()
    texts = check_texts(texts)
    _check_labels(labels, len(texts), label_names)
    use_cpu = _use_cpu(device)
    with _seeded(seed), _quiet():
        model, tokenizer = _load(str(encoder), label_names)
        rows = _tokenized(texts, labels, tokenizer, min(config.max_length, usable_length(model, tokenizer, None)))
        attention = model.config._attn_implementation
        if use_cpu and _precision(config, use_cpu) == "bfloat16":
            use_plain_attention(model)
        train_loss, n_steps = _train(model, tokenizer, rows, config, seed=seed, use_cpu=use_cpu, progress=progress)
        model.set_attn_implementation(attention)
    return FinetuneResult(
        model=model.eval(),
        tokenizer=tokenizer,
        train_loss=train_loss,
        n_steps=n_steps,
        seconds=time.perf_counter() - started,
        config=config,
        seed=seed,
    )


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
def _seeded(seed: int) -> Iterator[None]:
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
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise ModelError(
            f"'{encoder}' cannot be fine-tuned as a classifier of {len(label_names)} labels: {reason}. Give a "
            "pretrained encoder with safetensors weights, as a folder or as an id on the Hub that this machine reaches."
        ) from error
    return model, tokenizer


def _tokenized(texts: Texts, labels: Sequence[int], tokenizer: Any, max_length: int) -> list[dict[str, Any]]:
    columns = [texts] if isinstance(texts[0], str) else [list(side) for side in zip(*texts, strict=True)]
    encoded = tokenizer(*columns, truncation=True, max_length=max_length)
    return [
        {**{name: encoded[name][row] for name in encoded}, "labels": int(label)} for row, label in enumerate(labels)
    ]


def _train(
    model: Any,
    tokenizer: Any,
    rows: list[dict[str, Any]],
    config: FinetuneConfig,
    *,
    seed: int,
    use_cpu: bool,
    progress: Progress | None,
) -> tuple[tuple[float, ...], int]:
    """Train `model` in place; the loss of each epoch, and the number of steps."""
    from transformers import DataCollatorWithPadding, PrinterCallback, Trainer, TrainingArguments

    n_steps = config.epochs * math.ceil(len(rows) / config.batch_size)
    recorder = _recorder(progress)
    with tempfile.TemporaryDirectory() as output_dir:  # Trainer makes the folder even when there is nothing to write
        arguments = TrainingArguments(
            output_dir=output_dir,
            learning_rate=config.learning_rate,
            num_train_epochs=config.epochs,
            per_device_train_batch_size=config.batch_size,
            weight_decay=config.weight_decay,
            warmup_steps=math.ceil(config.warmup_ratio * n_steps),
            lr_scheduler_type="linear",
            max_grad_norm=config.max_grad_norm,
            bf16=_precision(config, use_cpu) == "bfloat16",
            train_sampling_strategy="group_by_length" if config.group_by_length else "random",
            seed=seed,
            use_cpu=use_cpu,
            logging_strategy="epoch",
            logging_nan_inf_filter=False,  # which would hide a loss that is not finite
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        arguments._n_gpu = min(arguments.n_gpu, 1)  # several GPUs would change the batch size behind our back
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            data_collator=DataCollatorWithPadding(tokenizer),
            processing_class=tokenizer,
            callbacks=[recorder],
        )
        trainer.remove_callback(PrinterCallback)
        try:
            trainer.train()
        finally:
            # Accelerate leaves its autocast wrapper and a mark on the model, which would outlive the training.
            for name in ("forward", "_original_forward", "_is_accelerate_prepared"):
                vars(model).pop(name, None)
    return tuple(recorder.losses), n_steps


def _recorder(progress: Progress | None) -> Any:
    """A Trainer callback that collects the loss of each epoch and reports progress."""
    from transformers import TrainerCallback

    class Recorder(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.losses: list[float] = []

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._report(state)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._report(state)

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
