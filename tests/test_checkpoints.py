"""A fine-tuning that is cut short goes on from its last checkpoint and ends as if nothing had happened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from shortcut_guardrail.checkpoints import MARK_FILE, MEMORY_FILE, Checkpoints
from shortcut_guardrail.errors import RunError
from shortcut_guardrail.finetune import FinetuneConfig, FinetuneResult, Objective, finetune_classifier, finetune_model
from tiny_models import tiny_bert

NAMES = ("bad", "good")
THINGS = ("room", "staff", "food", "service", "soup")
FRAMES = ("the {thing} was {word}", "we had a {word} {thing}", "{word} {thing} again", "it is a very {word} {thing}")
TEXTS = [frame.format(thing=thing, word=word) for thing in THINGS for frame in FRAMES for word in NAMES]
LABELS = [label for _ in THINGS for _ in FRAMES for label in (0, 1)]
CONFIG = FinetuneConfig(learning_rate=1e-2, epochs=5, batch_size=8, max_length=16)
EPOCH = 5
"""Steps of an epoch."""


class Interrupted(Exception):
    """Somebody pulled the plug."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    model, tokenizer = tiny_bert(initializer_range=0.1)
    model.bert.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def finetune(encoder):
    def run(texts: Any = TEXTS, **options: Any) -> FinetuneResult:
        settings: dict[str, Any] = {"encoder": encoder, "label_names": NAMES, "config": CONFIG, "seed": 0, **options}
        return finetune_classifier(texts, LABELS[: len(texts)], **settings)

    return run


@pytest.fixture
def checkpoints(tmp_path) -> Checkpoints:
    """One at the end of every epoch."""
    return Checkpoints(tmp_path / "states", every=0)


def stop_at(step: int):
    def progress(stage: str, done: int, total: int) -> None:
        if done == step:
            raise Interrupted

    return progress


def weights(result: FinetuneResult) -> dict[str, Tensor]:
    return dict(result.model.state_dict())


def same(first: FinetuneResult, second: FinetuneResult) -> bool:
    a, b = weights(first), weights(second)
    return first.train_loss == second.train_loss and all(torch.equal(a[name], b[name]) for name in a)


def steps_of(run: Any, **options: Any) -> list[int]:
    seen: list[int] = []
    run(progress=lambda stage, done, total: seen.append(done), **options)
    return seen


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer": "sgd", "scheduler": "constant", "max_grad_norm": 0.0},
        {"precision": "bfloat16"},
        {"group_by_length": True},
    ],
    ids=["adamw", "sgd", "bfloat16", "by length"],
)
def test_a_resumed_fine_tuning_ends_with_the_same_weights(finetune, checkpoints, changes):
    options = {"config": FinetuneConfig(**{**CONFIG.to_dict(), **changes})}
    whole = finetune(**options)
    for step in (2 * EPOCH + 2, 4 * EPOCH + 1):  # cut short twice
        with pytest.raises(Interrupted):
            finetune(**options, checkpoints=checkpoints, progress=stop_at(step))
    resumed = finetune(**options, checkpoints=checkpoints)
    assert same(resumed, whole)
    assert (resumed.n_steps, len(resumed.train_loss)) == (5 * EPOCH, 5)
    assert not resumed.model.training


def test_rows_are_drawn_on_as_they_would_have_been(finetune, checkpoints):
    options = {"sampling_weights": np.arange(1.0, len(TEXTS) + 1)}
    whole = finetune(**options)
    with pytest.raises(Interrupted):
        finetune(**options, checkpoints=checkpoints, progress=stop_at(3 * EPOCH + 2))
    assert same(finetune(**options, checkpoints=checkpoints), whole)


def test_only_what_is_missing_is_done(finetune, checkpoints):
    with pytest.raises(Interrupted):
        finetune(checkpoints=checkpoints, progress=stop_at(3 * EPOCH + 2))
    assert steps_of(finetune, checkpoints=checkpoints) == list(range(3 * EPOCH, 5 * EPOCH + 1))
    # What was finished is loaded.
    assert steps_of(finetune, checkpoints=checkpoints) == [5 * EPOCH]
    assert same(finetune(checkpoints=checkpoints), finetune())


def test_a_model_that_is_trained_further_resumes_too(finetune, checkpoints):
    start = finetune(config=FinetuneConfig(epochs=1))
    options = {"config": CONFIG, "seed": 1}
    whole = finetune_model(start.model, start.tokenizer, TEXTS, LABELS, **options)
    with pytest.raises(Interrupted):
        finetune_model(
            *(start.model, start.tokenizer, TEXTS, LABELS), **options, checkpoints=checkpoints, progress=stop_at(12)
        )
    assert same(finetune_model(start.model, start.tokenizer, TEXTS, LABELS, **options, checkpoints=checkpoints), whole)


class Momentary(Objective):
    """Cross-entropy times a factor that grows with every batch, and a note of every epoch."""

    def __init__(self) -> None:
        self.batches = 0

    def loss(self, model: Any, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        self.batches += 1
        return super().loss(model, inputs, rows) * (1 + self.batches / 10)

    def state(self) -> dict[str, Tensor]:
        return {"batches": torch.tensor(self.batches)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.batches = int(state["batches"])


class Note:
    """Called after epochs; remembers which."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, epoch: int, model: Any) -> None:
        assert not model.training
        self.seen.append(epoch)

    def state(self) -> dict[str, Tensor]:
        return {"seen": torch.tensor(self.seen)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.seen = state["seen"].tolist()


def test_what_an_objective_and_a_looker_remember_comes_back(finetune, checkpoints):
    whole = finetune(objective=Momentary())
    first = Note()
    with pytest.raises(Interrupted):
        finetune(objective=Momentary(), on_epoch_end=first, checkpoints=checkpoints, progress=stop_at(3 * EPOCH + 2))
    objective, second = Momentary(), Note()
    resumed = finetune(objective=objective, on_epoch_end=second, checkpoints=checkpoints)
    assert same(resumed, whole)
    assert objective.batches == 5 * EPOCH
    assert (first.seen, second.seen) == ([0, 1, 2], [0, 1, 2, 3, 4])


@pytest.mark.parametrize("damage", ["no mark", "broken mark", "no memory", "broken memory"])
def test_a_checkpoint_that_was_cut_short_gives_way_to_the_one_before(finetune, checkpoints, damage):
    with pytest.raises(Interrupted):
        finetune(checkpoints=checkpoints, progress=stop_at(3 * EPOCH + 2))
    newest = checkpoints.folder / f"checkpoint-{3 * EPOCH}"
    file = newest / (MARK_FILE if "mark" in damage else MEMORY_FILE)
    file.unlink() if "no" in damage.split() else file.write_bytes(b"{")
    assert steps_of(finetune, checkpoints=checkpoints)[0] == 2 * EPOCH
    assert same(finetune(checkpoints=checkpoints), finetune())


@pytest.mark.parametrize("other", ["recipe", "seed", "texts"])
def test_a_checkpoint_of_another_fine_tuning_is_not_used(finetune, checkpoints, other):
    with pytest.raises(Interrupted):
        finetune(checkpoints=checkpoints, progress=stop_at(3 * EPOCH + 2))
    options: dict[str, Any] = {
        "recipe": {"config": FinetuneConfig(**{**CONFIG.to_dict(), "learning_rate": 2e-2})},
        "seed": {"seed": 1},
        "texts": {"texts": [*TEXTS[1:], TEXTS[0]]},
    }[other]
    assert steps_of(finetune, **options, checkpoints=checkpoints)[0] == 0
    assert same(finetune(**options, checkpoints=checkpoints), finetune(**options))


def test_a_short_fine_tuning_writes_nothing(finetune, tmp_path):
    finetune(checkpoints=Checkpoints(tmp_path / "states"))
    assert not list(tmp_path.glob("states/*"))


def test_the_last_two_are_kept(finetune, checkpoints):
    finetune(checkpoints=checkpoints)
    kept = {folder.name for folder in checkpoints.folder.iterdir()}
    assert kept == {f"checkpoint-{4 * EPOCH}", f"checkpoint-{5 * EPOCH}"}


def test_seconds_are_those_of_all_processes(finetune, checkpoints):
    with pytest.raises(Interrupted):
        finetune(checkpoints=checkpoints, progress=stop_at(3 * EPOCH + 2))
    mark = checkpoints.folder / f"checkpoint-{3 * EPOCH}" / MARK_FILE
    record = json.loads(mark.read_text(encoding="utf-8"))
    assert 0 < record["seconds"] < 600
    mark.write_text(json.dumps({**record, "seconds": 1000.0}), encoding="utf-8")
    resumed = finetune(checkpoints=checkpoints)
    assert resumed.seconds_before == 1000
    assert 1000 < resumed.seconds < 1600
    # The next one that goes on counts both.
    assert 1000 < finetune(checkpoints=checkpoints).seconds_before < 1600


def test_a_folder_that_cannot_be_written_is_named(finetune, tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(RunError, match=r"A checkpoint could not be kept in '.*file.states': .* Make room"):
        finetune(checkpoints=Checkpoints(tmp_path / "file" / "states", every=0))
