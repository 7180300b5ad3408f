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
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortcut_guardrail.config import check_seed
from shortcut_guardrail.data import Texts, check_texts
from shortcut_guardrail.errors import ConfigError, DataError, ModelError
from shortcut_guardrail.models import check_alone, quiet_transformers, usable_length, use_plain_attention
from shortcut_guardrail.typing import Array, Progress

from .checkpoints import CheckpointKeeper, Checkpoints, Resumable
from .config import FinetuneConfig, FinetuneResult, Objective, OnEpochEnd
from .trainer import (
    ROW_COLUMN,
    count_steps,
    make_recorder,
    precision_of,
    sgd,
    trainer_class,
    training_arguments,
    unwrap,
)

_MOST_OF_A_SEED = 2**32 - 1  # `Trainer` seeds the older generator of NumPy


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
    check_seed(seed, _MOST_OF_A_SEED)
    texts = check_texts(texts)
    _check_labels(labels, len(texts), label_names)
    return _finetune(
        lambda: _load(str(encoder), label_names),
        texts,
        labels,
        config or FinetuneConfig(),
        seed=seed,
        device=device,
        extras=_Extras(objective, _checked_weights(sampling_weights, len(texts)), on_epoch_end, checkpoints),
        progress=progress,
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
        seed=seed,
        device=device,
        extras=_Extras(objective, _checked_weights(sampling_weights, len(texts)), on_epoch_end, checkpoints),
        progress=progress,
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
    *,
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
        if use_cpu and precision_of(config, use_cpu) == "bfloat16":
            use_plain_attention(model)
        done = _train(model, tokenizer, rows, config, extras=extras, seed=seed, use_cpu=use_cpu, progress=progress)
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
        done = _train(
            model, tokenizer, rows, config, extras=_Extras(objective), seed=seed, use_cpu=use_cpu, progress=progress
        )
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


def _tokenized(texts: Texts, labels: Sequence[int], tokenizer: Any, max_length: int) -> list[dict[str, Any]]:
    columns = [texts] if isinstance(texts[0], str) else [list(side) for side in zip(*texts, strict=True)]
    encoded = tokenizer(*columns, truncation=True, max_length=max_length)
    return [
        {**{name: encoded[name][row] for name in encoded}, "labels": int(label), ROW_COLUMN: row}
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
    *,
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
    recorder = make_recorder(progress, extras.on_epoch_end, keeper)
    n_steps = count_steps(config, len(rows))
    with keeper, _output_folder(keeper) as output_folder:
        arguments = training_arguments(output_folder, config, len(rows), seed, use_cpu)
        model.to(arguments.device)
        objective.begin(model, tokenizer)
        trainer = trainer_class()(
            objective=objective,
            sampling_weights=extras.sampling_weights,
            keeper=keeper,
            model=model,
            args=arguments,
            train_dataset=rows,
            data_collator=DataCollatorWithPadding(tokenizer),
            processing_class=tokenizer,
            callbacks=[recorder],
            optimizers=(sgd(model, config) if config.optimizer == "sgd" else None, None),
        )
        trainer.remove_callback(PrinterCallback)
        resumed = keeper.resume()
        try:
            trainer.train(resume_from_checkpoint=None if resumed is None else str(resumed))
        finally:
            unwrap(model)  # or the wrapper would outlive the training
        keeper.finish(n_steps, trainer.save_finished)
    return _Done(tuple(recorder.losses), n_steps, keeper.seconds_before)


def _identity(
    model: Any, rows: list[dict[str, Any]], config: FinetuneConfig, extras: _Extras, seed: int, use_cpu: bool
) -> str:
    """What tells a fine-tuning from another in the same folder, but for the options of its objective."""
    versions = [metadata.version(name) for name in ("shortcut-guardrail", "torch", "transformers")]
    objective = type(extras.objective or Objective()).__qualname__
    how = [versions, config.to_dict(), seed, use_cpu, precision_of(config, use_cpu), objective]
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
