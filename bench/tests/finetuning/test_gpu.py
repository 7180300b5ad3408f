"""Fine-tuning on a GPU: run with `pytest --gpu` (see `conftest.py`)."""

import pytest
import torch

from shortcut_bench.finetuning import Checkpoints, FinetuneConfig, finetune_classifier
from tiny_models import save_tiny_encoder

pytestmark = pytest.mark.gpu
NAMES = ("bad", "good")
TEXTS = [f"the {thing} was {word}" for thing in ("room", "staff", "food", "soup", "bread", "tea") for word in NAMES] * 4


def train(folder, **options):
    config = FinetuneConfig(learning_rate=1e-2, epochs=10, batch_size=8, max_length=16, precision="auto")
    settings = {"encoder": folder, "label_names": NAMES, "config": config, "seed": 0, **options}
    return finetune_classifier(TEXTS, [i % 2 for i in range(len(TEXTS))], **settings)


def same(a, b):
    first, second = a.model.state_dict(), b.model.state_dict()
    return all(torch.equal(first[name], second[name]) for name in first)


def test_fine_tuning_learns_and_repeats_itself(tmp_path):
    folder = save_tiny_encoder(tmp_path / "encoder")
    first, again, other = (train(folder, seed=seed) for seed in (0, 0, 1))
    assert first.train_loss[-1] < first.train_loss[0] / 2
    assert same(first, again)
    assert not same(first, other)
    assert next(first.model.parameters()).is_cuda


def test_a_fine_tuning_that_is_cut_short_ends_with_the_same_weights(tmp_path):
    folder = save_tiny_encoder(tmp_path / "encoder")
    whole = train(folder)

    def stop(_stage, done, _total):
        if done == 14:  # in the third epoch of 6 steps
            raise KeyboardInterrupt

    checkpoints = Checkpoints(tmp_path / "states", every=0)
    with pytest.raises(KeyboardInterrupt):
        train(folder, progress=stop, checkpoints=checkpoints)
    steps = []
    resumed = train(folder, checkpoints=checkpoints, progress=lambda _stage, done, _total: steps.append(done))
    assert steps[0] >= 6
    assert same(resumed, whole)
