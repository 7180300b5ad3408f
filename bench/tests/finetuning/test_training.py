import copy
import logging
import math
import random
import shutil
import tempfile
import warnings

import numpy as np
import pytest
import torch
from huggingface_hub.utils import are_progress_bars_disabled
from safetensors.torch import load_file, save_file
from transformers.utils import logging as transformers_logging

from methods_toy import FRAMES, THINGS
from shortcut_bench.finetuning.config import FinetuneConfig, Objective
from shortcut_bench.finetuning.training import finetune_classifier, finetune_model, load_encoder, train_in_place
from shortcut_guardrail.errors import ConfigError, DataError, RunError

NAMES = ("bad", "good")
CONFIG = FinetuneConfig(learning_rate=1e-2, epochs=15, batch_size=8, max_length=16)

TEXTS = [frame.format(thing=thing, word=word) for thing in THINGS for frame in FRAMES for word in NAMES]
LABELS = [label for _ in THINGS for _ in FRAMES for label in (0, 1)]


@pytest.fixture
def finetune(encoder):
    def run(texts=TEXTS, labels=LABELS, **options):
        settings = {"encoder": encoder, "label_names": NAMES, "config": CONFIG, "seed": 0, **options}
        return finetune_classifier(texts, labels, **settings)

    return run


def logits(result, texts):
    columns = [texts] if isinstance(texts[0], str) else [list(side) for side in zip(*texts, strict=True)]
    with torch.no_grad():
        return result.model(**result.tokenizer(*columns, padding=True, return_tensors="pt")).logits


def same_weights(first, second):
    a, b = first.model.state_dict(), second.model.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def caller_state():
    """What a process can notice of a library call, in a comparable form."""
    return {
        "python": random.getstate(),
        "numpy": [np.asarray(part).tolist() for part in np.random.get_state()],
        "torch": torch.get_rng_state().tolist(),
        "log levels": {name: logging.getLogger(name).level for name in (None, "transformers", "accelerate")},
        "handlers": list(logging.getLogger("transformers").handlers),
        "filters": list(warnings.filters),
        "bars": (transformers_logging.is_progress_bar_enabled(), are_progress_bars_disabled()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
    }


def test_learns_a_word_and_applies_it_to_new_texts(finetune):
    result = finetune()
    assert result.train_loss[0] > 0.3 > 0.15 > result.train_loss[-1]
    assert logits(result, ["this bad hotel", "this good hotel"]).argmax(-1).tolist() == [0, 1]


def test_same_seed_same_weights_and_another_seed_others_and_nothing_stays(finetune, tmp_path, monkeypatch, capfd):
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path / "scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    config = FinetuneConfig(epochs=1)
    first, again, other = (finetune(config=config, seed=seed) for seed in (1, 1, 2))
    assert same_weights(first, again)
    assert not same_weights(first, other)
    assert capfd.readouterr() == ("", "")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_process_is_left_as_it_was_when_training_is_interrupted(finetune):
    def interrupt(stage, done, total):
        if done == 3:
            raise KeyboardInterrupt

    random.seed(11), np.random.seed(12), torch.manual_seed(13)
    before = caller_state()
    with pytest.raises(KeyboardInterrupt):
        finetune(progress=interrupt)
    assert caller_state() == before


def test_second_text_of_a_pair_is_read(finetune):
    pairs = [("the room", text) for text in TEXTS]
    result = finetune(pairs)
    assert result.train_loss[-1] < 0.15
    new = [("the room", "this bad hotel"), ("the room", "this good hotel")]
    assert logits(result, new).argmax(-1).tolist() == [0, 1]


def test_texts_are_cut_at_max_length(finetune):
    texts = [f"we would visit this hotel again {word}" for word in NAMES * 20]
    labels = [0, 1] * 20
    whole = finetune(texts, labels)
    cut = finetune(texts, labels, config=FinetuneConfig(**{**CONFIG.to_dict(), "max_length": 8}))
    assert whole.train_loss[-1] < 0.15
    # Without the last word both classes read the same, and a fair coin is the best answer.
    assert cut.train_loss[-1] > 0.9 * math.log(2)


def test_bfloat16_trains_otherwise_but_predicts_in_float32(finetune, tmp_path):
    config = FinetuneConfig(epochs=2, precision="bfloat16")
    mixed = finetune(config=config)
    assert not same_weights(mixed, finetune(config=FinetuneConfig(epochs=2)))
    assert {parameter.dtype for parameter in mixed.model.parameters()} == {torch.float32}
    mixed.model.save_pretrained(tmp_path)
    fresh = type(mixed.model).from_pretrained(tmp_path).eval()
    fresh_logits = fresh(**mixed.tokenizer(TEXTS, padding=True, return_tensors="pt")).logits
    assert torch.equal(logits(mixed, TEXTS), fresh_logits)
    with torch.autocast("cpu", torch.bfloat16):
        assert not torch.equal(logits(mixed, TEXTS).float(), fresh_logits)
    assert vars(mixed.model).keys() == vars(fresh).keys()  # no wrapper of Accelerate is left


def test_data_that_does_not_fit_is_refused_before_a_model_is_loaded(finetune):
    for texts, labels, names, message in (
        ([], [], NAMES, "texts is empty; at least one text is needed."),
        (["a"], [0, 1], NAMES, "Every text needs a label, but there are 1 texts and 2 labels."),
        (["a", "b", "c"], [0, 2, -1], NAMES, "between 0 and 1, but 2 are not; the first is 2 at position 1."),
        (["a", "b"], ["good", "bad"], NAMES, "between 0 and 1, but 2 are not; the first is 'good' at position 0."),
        (["a", "b"], [1, 1], NAMES, "Fine-tuning needs examples of two classes or more, but all are 'good'."),
        (["a", "b"], [0, 1], ("x", "x"), "label_names must be two or more different names, but are ['x', 'x']."),
    ):
        with pytest.raises(DataError) as error:
            finetune(texts, labels, label_names=names, encoder="no-such-folder")
        assert str(error.value).endswith(message)


def test_loss_that_is_not_finite_ends_the_run_with_a_sentence(finetune, encoder, tmp_path):
    shutil.copytree(encoder, tmp_path, dirs_exist_ok=True)
    weights = load_file(tmp_path / "model.safetensors")
    weights["encoder.layer.0.output.dense.bias"][0] = math.nan
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    before = caller_state()
    with pytest.raises(RunError, match=r"^The training loss must be finite, but is nan in epoch 1\. Lower the learn"):
        finetune(encoder=tmp_path)
    assert caller_state() == before


class Recorded(Objective):
    """Cross-entropy that notes what it sees."""

    def __init__(self, factor=1.0):
        self.rows = []
        self.factor = factor
        self.begun = 0

    def begin(self, model, tokenizer):
        self.begun += 1

    def loss(self, model, inputs, rows):
        assert model.training
        assert inputs["labels"].tolist() == [LABELS[row] for row in rows.tolist()]
        self.rows += rows.tolist()
        return super().loss(model, inputs, rows) * self.factor


def test_an_objective_sees_every_row_by_its_number_and_is_what_is_minimised(finetune):
    config = FinetuneConfig(epochs=2, batch_size=8)
    objective = Recorded()
    result = finetune(config=config, objective=objective)
    assert objective.begun == 1
    assert sorted(objective.rows) == sorted([*range(len(TEXTS))] * 2)
    assert same_weights(result, finetune(config=config))  # cross-entropy by another way
    assert not same_weights(result, finetune(config=config, objective=Recorded(factor=0.0)))


def test_rows_are_drawn_by_their_weights(finetune):
    weights = np.zeros(len(TEXTS))
    weights[[0, 1]] = [1.0, 3.0]
    objective = Recorded()
    finetune(config=FinetuneConfig(epochs=10), objective=objective, sampling_weights=weights)
    assert len(objective.rows) == 10 * len(TEXTS)
    assert set(objective.rows) == {0, 1}
    assert 0.65 < np.mean(objective.rows) < 0.85


@pytest.mark.parametrize(
    ("weights", "found"), [([1.0, 2.0], "are 2"), ([0.0] * 64, "hold others"), ([-1.0] * 64, "hold others")]
)
def test_weights_that_do_not_fit_are_refused_before_a_model_is_loaded(finetune, weights, found):
    with pytest.raises(ConfigError, match=f"64 numbers, one for each text, at least 0 and not all 0, but {found}"):
        finetune(sampling_weights=weights, encoder="no-such-folder")


def test_plain_sgd_is_sgd_with_momentum_at_a_constant_rate(encoder):
    """Three full-batch steps without dropout against the update written out."""
    off = dict.fromkeys(("warmup_ratio", "max_grad_norm"), 0.0)
    loop = {"learning_rate": 0.1, "epochs": 3, "batch_size": len(TEXTS), "weight_decay": 0.01, **off}
    config = FinetuneConfig(**loop, optimizer="sgd", scheduler="constant")

    class NoDropout(Objective):
        def loss(self, model, inputs, rows):
            return super().loss(model.eval(), inputs, rows)

    model, tokenizer = load_encoder(encoder, NAMES, seed=0)
    trained = finetune_model(model, tokenizer, TEXTS, LABELS, config=config, seed=0, objective=NoDropout()).model
    expected = copy.deepcopy(model)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    moved = {name: torch.zeros_like(p) for name, p in expected.named_parameters()}
    for _ in range(3):
        loss = expected(**batch, labels=torch.tensor(LABELS)).loss
        gradients = torch.autograd.grad(loss, list(expected.parameters()))
        with torch.no_grad():
            for (name, p), gradient in zip(expected.named_parameters(), gradients, strict=True):
                moved[name] = 0.9 * moved[name] + gradient + 0.01 * p
                p -= 0.1 * moved[name]
    for name, p in trained.named_parameters():
        assert torch.allclose(p, expected.get_parameter(name), atol=1e-5), name


def test_a_copy_is_trained_further_and_the_model_handed_in_is_left(finetune):
    first = finetune(config=FinetuneConfig(epochs=1))
    frozen = first.model.requires_grad_(False)
    before = {name: value.clone() for name, value in frozen.state_dict().items()}
    config = FinetuneConfig(learning_rate=1e-2, epochs=15)
    further = finetune_model(frozen, first.tokenizer, TEXTS, LABELS, config=config, seed=0)
    assert further.train_loss[-1] < 0.15
    assert not same_weights(first, further)
    assert all(torch.equal(value, before[name]) for name, value in frozen.state_dict().items())
    assert not any(p.requires_grad for p in frozen.parameters())


def test_parts_of_a_model_are_trained_in_place_on_unlabelled_texts(encoder):
    model, tokenizer = load_encoder(encoder, NAMES, seed=0)
    model.requires_grad_(False).classifier.requires_grad_(True)
    before = {name: value.clone() for name, value in model.state_dict().items()}

    class Shrink(Objective):
        def loss(self, model, inputs, rows):
            assert inputs["labels"].tolist() == [0] * len(rows)
            return (model.classifier.weight**2).sum()

    random_state = torch.get_rng_state()
    losses = train_in_place(model, tokenizer, TEXTS, Shrink(), config=FinetuneConfig(learning_rate=1e-2), seed=0)
    assert losses[-1] < losses[0]
    assert torch.equal(torch.get_rng_state(), random_state)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"classifier.weight"}
    assert not model.training
