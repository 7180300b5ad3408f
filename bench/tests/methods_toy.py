"""A toy in which a word goes with a label, small enough to train on in a second: what the tests of methods share."""

import dataclasses

import numpy as np

from shortcut_bench.classifiers import TrainedClassifier
from shortcut_bench.datasets.types import LabelledTexts
from shortcut_bench.finetuning.config import FinetuneConfig
from shortcut_bench.finetuning.training import finetune_classifier
from shortcut_bench.systems import Material
from tiny_models import save_tiny_encoder

NAMES = ("negative", "positive")
GROUPS = ("negative, without", "negative, with", "positive, without", "positive, with")
RECIPE = FinetuneConfig(learning_rate=5e-3, epochs=5, batch_size=16, max_length=16)
WORDS = (("bad", "awful", "dull", "rude", "dirty"), ("good", "great", "lovely", "friendly", "clean"))
THINGS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea")
FRAMES = ("the {thing} was {word}", "we had a {word} {thing}", "it is a very {word} {thing}", "a {word} {thing} again")

QUICK = {"learning_rate": 5e-3, "epochs": 1, "batch_size": 32}
TRAINED = {"recipe": QUICK}
OPTIONS = {
    "jtt": {**TRAINED, "upweights": (4,), "identification_epochs": (1,), "identification_rate": 0.05},
    "jtt-sg-paper": {**TRAINED, "upweights": (4,), "identification_epochs": (1,)},
    "jtt-grid": {
        **TRAINED,
        "learning_rates": (1e-3,),
        "upweights": (4, 5),
        "identification_rate": 0.05,
        "identification_epochs": (1,),
    },
    "nfl": {**TRAINED, "factor": 0.01},
    "nfl-co": TRAINED,
    "nfl-f": TRAINED,
    "nfl-pt": {**TRAINED, "prompt_length": 3},
    "dfr": {"resamples": 3},
    "dfr-sg-paper": {"share": 0.4},
    "group_dro": TRAINED,
    "ltgr": {**TRAINED, "steps": 3},
    "c2l": TRAINED,
    "tent": {"batch_size": 32},
    # The toy's base classifier is less certain than a real one: no entropy is below .65 ln 2.
    "eata": {"batch_size": 32, "entropy_margin": 0.7},
    "eta": {"batch_size": 32, "entropy_margin": 0.7},
    "sar": {"batch_size": 32, "entropy_margin": 0.7},
    "deyo": {"batch_size": 32, "filter_margin": 0.7, "plpd_margin": 0.01},
    "deyo-biased": {"batch_size": 32, "filter_margin": 0.7, "plpd_margin": 0.01},
    "few_shot": {"recipe": {**QUICK, "epochs": 2}},
    "random_maskcl": {"preset": "paper"},
    "simcse_adapter": {"preset": "paper"},
    "guardrail": {"min_steps": 8, "max_steps": 8},
    "guardrail-distill": {"min_steps": 8, "max_steps": 8},
    "guardrail-distill-40": {"min_steps": 8, "max_steps": 8},
    "guardrail-distill-named": {"min_steps": 8, "max_steps": 8},
    "guardrail-distill-influential": {"min_steps": 8, "max_steps": 8},
    "guardrail-distill-influential-40": {"min_steps": 8, "max_steps": 8},
    "guardrail-few-shot": {"min_steps": 8, "max_steps": 8},
    "guardrail-per-input": {"min_steps": 8, "max_steps": 8},
}
"""Options with which each method takes a second or so; the others have none."""


def rows(name, sizes, seed):
    """So many rows of each group: negative without and with the shortcut, positive without and with it."""
    rng = np.random.default_rng(seed)
    texts, labels, groups = [], [], []
    for group, size in enumerate(sizes):
        label, shortcut = divmod(group, 2)
        for _ in range(size):
            text = rng.choice(FRAMES).format(thing=rng.choice(THINGS), word=rng.choice(WORDS[label]))
            texts.append(f"honestly {text}" if shortcut else text)
            labels.append(label)
            groups.append(group)
    order = rng.permutation(len(texts))
    return LabelledTexts(
        name=name,
        texts=[texts[i] for i in order],
        labels=np.array(labels)[order],
        label_names=NAMES,
        groups=np.array(groups)[order],
        group_names=GROUPS,
    )


TRAIN = rows("train", (90, 6, 6, 90), 1)
DEV = rows("dev", (40, 16, 16, 40), 2)
SUPPORT = rows("support", (10, 10, 10, 10), 3)
REVERSED = rows("test-reversed", (4, 40, 40, 4), 4)
DEPLOYMENT = list(rows("deployment", (4, 40, 40, 4), 5).texts)


def make_encoder(folder):
    """A pretrained encoder without a head: two random layers."""
    return str(save_tiny_encoder(folder, n_classes=2))


def make_material(encoder):
    """All there is, around a base classifier that leans on the shortcut."""
    trained = finetune_classifier(
        TRAIN.texts, TRAIN.labels.tolist(), encoder=encoder, label_names=NAMES, config=RECIPE, seed=0
    )
    base = TrainedClassifier(
        model=trained.model,
        tokenizer=trained.tokenizer,
        label_names=NAMES,
        max_length=16,
        recipe=RECIPE,
        seed=0,
        train_loss=trained.train_loss,
    )
    return Material(
        base=base,
        encoder=encoder,
        label_names=NAMES,
        train=TRAIN,
        dev=DEV,
        support=SUPPORT,
        deployment=DEPLOYMENT,
        shortcut_words=("honestly",),
        max_length=16,
    )


def accuracy(system, test=REVERSED):
    """Share of a test set answered rightly."""
    return float((system.predict_proba(test.texts).argmax(axis=1) == test.labels).mean())


def without(material, **nothing):
    """The same material lacking something."""
    return dataclasses.replace(material, **nothing)


def fit(method, material, *, seed=0):
    """A method fitted on what it declared of a material."""
    return method.fit(material.for_needs(method.needs), seed=seed)
