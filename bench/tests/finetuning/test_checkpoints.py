"""A fine-tuning that is cut short goes on from its last checkpoint and ends as if nothing had happened."""

import shutil

import numpy as np
import pytest
import torch

from methods_toy import FRAMES, THINGS
from shortcut_bench.finetuning import checkpoints as files
from shortcut_bench.finetuning import trainer as trainer_module
from shortcut_bench.finetuning.checkpoints import Checkpoints
from shortcut_bench.finetuning.config import FinetuneConfig, Objective
from shortcut_bench.finetuning.training import finetune_classifier
from shortcut_guardrail.errors import GuardrailWarning
from tiny_models import save_tiny_encoder

NAMES = ("bad", "good")
TEXTS = [frame.format(thing=thing, word=word) for thing in THINGS[:5] for frame in FRAMES for word in NAMES]
LABELS = [label for _ in THINGS[:5] for _ in FRAMES for label in (0, 1)]
CONFIG = FinetuneConfig(learning_rate=1e-2, epochs=5, batch_size=8, max_length=16)
EPOCH = 5
"""Steps of an epoch."""
LASTING = (files.MARK_FILE, files.MEMORY_FILE, files.WEIGHTS_FILE, files.STATE_FILE)


@pytest.fixture(scope="module")
def another_encoder(tmp_path_factory):
    return save_tiny_encoder(tmp_path_factory.mktemp("another"), seed=7)


@pytest.fixture(scope="module")
def finetune(encoder):
    def run(texts=TEXTS, **options):
        settings = {"encoder": encoder, "label_names": NAMES, "config": CONFIG, "seed": 0, **options}
        return finetune_classifier(texts, LABELS[: len(texts)], **settings)

    return run


@pytest.fixture
def checkpoints(tmp_path):
    """One at the end of every epoch."""
    return Checkpoints(tmp_path / "states", every=0)


@pytest.fixture(scope="module")
def uninterrupted(finetune):
    """What it gives without any options, trained once."""
    return finetune()


@pytest.fixture(scope="module")
def cut_short(finetune, tmp_path_factory):
    """The states of that one, stopped after its third checkpoint; copied, and never trained on."""
    states = tmp_path_factory.mktemp("cut-short") / "states"
    with pytest.raises(KeyboardInterrupt):
        finetune(checkpoints=Checkpoints(states, every=0), progress=stop_at(3 * EPOCH + 2))
    return states


def stop_at(step):
    def progress(stage, done, total):
        if done == step:
            raise KeyboardInterrupt

    return progress


def same(first, second):
    a, b = first.model.state_dict(), second.model.state_dict()
    return first.train_loss == second.train_loss and all(torch.equal(a[name], b[name]) for name in a)


def steps_of(run, **options):
    seen = []
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
)
def test_a_resumed_fine_tuning_ends_with_the_same_weights(finetune, checkpoints, changes):
    options = {"config": FinetuneConfig(**{**CONFIG.to_dict(), **changes})}
    whole = finetune(**options)
    for step in (2 * EPOCH + 2, 4 * EPOCH + 1):  # cut short twice
        with pytest.raises(KeyboardInterrupt):
            finetune(**options, checkpoints=checkpoints, progress=stop_at(step))
    resumed = finetune(**options, checkpoints=checkpoints)
    assert same(resumed, whole)
    assert (resumed.n_steps, len(resumed.train_loss)) == (5 * EPOCH, 5)
    assert not resumed.model.training


def test_only_what_is_missing_is_done(finetune, checkpoints, cut_short, uninterrupted):
    shutil.copytree(cut_short, checkpoints.folder)
    assert [path.name for path in checkpoints.folder.glob("checkpoint-*")] == [f"checkpoint-{3 * EPOCH}"]
    assert steps_of(finetune, checkpoints=checkpoints) == list(range(3 * EPOCH, 5 * EPOCH + 1))
    # All that is kept of what was finished are its weights, and they are loaded.
    kept = {str(path.relative_to(checkpoints.folder)) for path in checkpoints.folder.rglob("*.*")} - {files.LOCK_FILE}
    assert kept == {f"checkpoint-{5 * EPOCH}/{name}" for name in LASTING}
    assert steps_of(finetune, checkpoints=checkpoints) == [5 * EPOCH]
    assert same(finetune(checkpoints=checkpoints), uninterrupted)


class Momentary(Objective):
    """Cross-entropy times a factor that grows with every batch, and a note of every epoch."""

    def __init__(self):
        self.batches = 0

    def loss(self, model, inputs, rows):
        self.batches += 1
        return super().loss(model, inputs, rows) * (1 + self.batches / 10)

    def state(self):
        return {"batches": torch.tensor(self.batches)}

    def restore(self, state):
        self.batches = int(state["batches"])


class Note:
    """Called after epochs; remembers which."""

    def __init__(self):
        self.seen = []

    def __call__(self, epoch, model):
        assert not model.training
        self.seen.append(epoch)

    def state(self):
        return {"seen": torch.tensor(self.seen)}

    def restore(self, state):
        self.seen = state["seen"].tolist()


def test_what_an_objective_and_a_looker_remember_comes_back(finetune, checkpoints):
    whole = finetune(objective=Momentary())
    first = Note()
    with pytest.raises(KeyboardInterrupt):
        finetune(objective=Momentary(), on_epoch_end=first, checkpoints=checkpoints, progress=stop_at(3 * EPOCH + 2))
    objective, second = Momentary(), Note()
    resumed = finetune(objective=objective, on_epoch_end=second, checkpoints=checkpoints)
    assert same(resumed, whole)
    assert objective.batches == 5 * EPOCH
    assert (first.seen, second.seen) == ([0, 1, 2], [0, 1, 2, 3, 4])


@pytest.mark.parametrize("damage", ["absent", "broken"])
@pytest.mark.parametrize("name", [*LASTING, "optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_checkpoint_that_is_not_whole_is_not_used(finetune, checkpoints, cut_short, uninterrupted, name, damage):
    shutil.copytree(cut_short, checkpoints.folder)
    file = checkpoints.folder / f"checkpoint-{3 * EPOCH}" / name
    file.unlink() if damage == "absent" else file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert steps_of(finetune, checkpoints=checkpoints)[0] == 0
    assert same(finetune(checkpoints=checkpoints), uninterrupted)


def test_a_checkpoint_that_was_being_written_gives_way_to_the_one_before(
    finetune, checkpoints, monkeypatch, uninterrupted
):
    write, memories = files.write_tensors, []

    def killed_at_the_third(tensors, file):
        write(tensors, file)
        memories.extend([file] if file.name == files.MEMORY_FILE else [])
        if len(memories) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_tensors", killed_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            finetune(checkpoints=checkpoints)
    assert (checkpoints.folder / f"checkpoint-{3 * EPOCH}" / files.WEIGHTS_FILE).exists()
    assert steps_of(finetune, checkpoints=checkpoints)[0] == 2 * EPOCH
    assert same(finetune(checkpoints=checkpoints), uninterrupted)


@pytest.mark.parametrize("failing", [files.WEIGHTS_FILE, files.MEMORY_FILE])
def test_a_full_disk_ends_no_training(finetune, checkpoints, monkeypatch, failing, uninterrupted):
    write, written, warned = files.write_tensors, [], []

    def full(tensors, file):
        write(tensors, file)
        written.extend([file] if file.name == failing else [])
        if len(written) == 2:
            raise RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0")

    with monkeypatch.context() as patched:
        for module in (files, trainer_module):
            patched.setattr(module, "write_tensors", full)
        with pytest.warns(GuardrailWarning, match=r"No checkpoint could be kept in '.*states' \(.*unexpect") as said:
            result = finetune(checkpoints=checkpoints, on_epoch_end=lambda epoch, model: warned.append(len(said.list)))
    assert warned == [0, 0, 1, 1, 1], "at once, and once"
    assert same(result, uninterrupted)
    assert [path.name for path in checkpoints.folder.glob("checkpoint-*")] == [f"checkpoint-{EPOCH}"]
    assert steps_of(finetune, checkpoints=checkpoints)[0] == EPOCH


@pytest.mark.parametrize("other", ["recipe", "seed", "texts", "weights", "objective", "encoder"])
def test_a_checkpoint_of_another_fine_tuning_is_not_used(finetune, checkpoints, cut_short, another_encoder, other):
    shutil.copytree(cut_short, checkpoints.folder)
    options = {
        "recipe": {"config": FinetuneConfig(**{**CONFIG.to_dict(), "learning_rate": 2e-2})},
        "seed": {"seed": 1},
        "texts": {"texts": [*TEXTS[1:], TEXTS[0]]},
        "weights": {"sampling_weights": np.ones(len(TEXTS))},
        "objective": {"objective": Momentary()},
        "encoder": {"encoder": another_encoder},
    }[other]
    assert steps_of(finetune, **options, checkpoints=checkpoints)[0] == 0
