"""The Transformers trainer that fine-tuning runs on: its arguments, and what ours does differently."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from shortcut_guardrail.errors import RunError
from shortcut_guardrail.models import Precision, fast_precision
from shortcut_guardrail.typing import Array, Progress

from .checkpoints import STATE_FILE, WEIGHTS_FILE, CheckpointKeeper, write_tensors
from .config import STAGE, FinetuneConfig, Objective, OnEpochEnd


def precision_of(config: FinetuneConfig, use_cpu: bool) -> Precision:
    """The number format to train in; `auto` takes what the hardware computes fast in."""
    if config.precision != "auto":
        return config.precision
    return fast_precision(torch.device("cpu" if use_cpu or not torch.cuda.is_available() else "cuda"))


ROW_COLUMN = "row"
"""The column that says which text a row is; no model takes it."""


def count_steps(config: FinetuneConfig, n_rows: int) -> int:
    """Optimiser steps of a whole training."""
    return config.epochs * math.ceil(n_rows / config.batch_size)


def training_arguments(output_folder: str, config: FinetuneConfig, n_rows: int, seed: int, use_cpu: bool) -> Any:
    """`TrainingArguments` for a recipe."""
    from transformers import TrainingArguments

    arguments = TrainingArguments(
        output_dir=output_folder,
        learning_rate=config.learning_rate,
        num_train_epochs=config.epochs,
        per_device_train_batch_size=config.batch_size,
        weight_decay=config.weight_decay,
        warmup_steps=math.ceil(config.warmup_ratio * count_steps(config, n_rows)),
        lr_scheduler_type="linear" if config.scheduler == "linear" else "constant_with_warmup",
        max_grad_norm=config.max_grad_norm,
        bf16=precision_of(config, use_cpu) == "bfloat16",
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


def sgd(model: Any, config: FinetuneConfig) -> torch.optim.Optimizer:
    """Stochastic gradient descent with momentum 0.9, as some of the baselines' authors use it."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.SGD(parameters, lr=config.learning_rate, momentum=0.9, weight_decay=config.weight_decay)


def unwrap(model: Any) -> dict[str, Any]:
    """Take off the autocast wrapper and the mark that Accelerate puts on a model; what was taken off."""
    names = ("forward", "_original_forward", "_is_accelerate_prepared")
    return {name: vars(model).pop(name) for name in names if name in vars(model)}


@contextmanager
def _bare(model: Any) -> Iterator[None]:
    """Within the block a model in training is an ordinary one, and nothing drawn changes what the next epoch draws."""
    wrapper = unwrap(model)
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count())), device_type="cuda"):
        try:
            yield
        finally:
            vars(model).update(wrapper)


@cache
def trainer_class() -> Any:
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
            rows = inputs.pop(ROW_COLUMN)
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


def make_recorder(progress: Progress | None, on_epoch_end: OnEpochEnd | None, keeper: CheckpointKeeper) -> Any:
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
