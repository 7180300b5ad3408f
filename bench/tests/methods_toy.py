"""A toy in which a word goes with a label, small enough to train on in a second: what the tests of methods share."""

import numpy as np
import torch

from shortcut_bench.classifiers import TrainedClassifier
from shortcut_bench.datasets.types import LabelledTexts
from shortcut_bench.finetuning.config import FinetuneConfig
from shortcut_bench.finetuning.training import finetune_classifier
from shortcut_bench.systems import Material

NAMES = ("negative", "positive")
GROUPS = ("negative, without", "negative, with", "positive, without", "positive, with")
RECIPE = FinetuneConfig(learning_rate=5e-3, epochs=5, batch_size=16, max_length=16)
WORDS = (("bad", "awful", "dull", "rude", "dirty"), ("good", "great", "lovely", "friendly", "clean"))
THINGS = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea")
FRAMES = ("the {thing} was {word}", "we had a {word} {thing}", "it is a very {word} {thing}", "a {word} {thing} again")

QUICK = {"learning_rate": 5e-3, "epochs": 1, "batch_size": 32}
TRAINED = {"recipe": QUICK}
WEAK = {**TRAINED, "weak_epochs": 2, "folds": 3}
FIRST_STAGE = {**TRAINED, "upweights": (4,), "identification_epochs": (1,)}
# The toy's base classifier is less certain than a real one: no entropy is below .65 ln 2.
CERTAIN = {"batch_size": 32, "entropy_margin": 0.7}
DEYO = {"batch_size": 32, "filter_margin": 0.7, "plpd_margin": 0.01}
PAPER = {"preset": "paper"}
TWICE = {"recipe": {**QUICK, "epochs": 2}}
BOTH = {"options": TRAINED, "min_steps": 8, "max_steps": 8}
WIPED = {"repeats": 2}
FILTERED = {"learning_rate": 1e-2, "guess_rate": 1e-2, "guess_steps": 2, "epochs": 2}
GRID = {"learning_rates": (1e-3,), "upweights": (4, 5), "identification_rate": 0.05}
ATTRIBUTED = ("-ig", "-attention", "-leave-one-out")
DISTILLED = ("", "-40", "-named", "-training-words", "-influential", "-influential-40")
OPTIONS = {
    **dict.fromkeys(("nfl-co", "nfl-f", "group_dro", "c2l"), TRAINED),
    **dict.fromkeys(("eata", "eta", "sar"), CERTAIN),
    **dict.fromkeys(("deyo", "deyo-biased"), DEYO),
    "random_maskcl": PAPER,
    **dict.fromkeys(("simcse_adapter", "simclr_adapter"), PAPER),
    "jtt": {**FIRST_STAGE, "identification_rate": 0.05},
    "jtt-sg-paper": FIRST_STAGE,
    "jtt-grid": {**FIRST_STAGE, **GRID},
    "nfl": {**TRAINED, "factor": 0.01},
    "nfl-pt": {**TRAINED, "prompt_length": 3},
    "dfr": {"resamples": 3},
    "dfr-sg-paper": {"share": 0.4},
    "ltgr": {**TRAINED, "steps": 3},
    **dict.fromkeys(("poe", "poe-bow", "learned_mixin", "bias_reweighting", "fairflow", "less_learn", "ttt"), TRAINED),
    "identify_mitigate": TRAINED,
    "defi": {"recipe": {**QUICK, "batch_size": 96}},
    **dict.fromkeys(("poe-weak", "interpoll"), WEAK),
    **dict.fromkeys(("poe-bow-40", "c2l-40"), TWICE),
    **dict.fromkeys(("poe-bow+distill", "c2l+distill"), BOTH),
    "tent": {"batch_size": 32},
    **dict.fromkeys(("fairfil", "fairfil-audited"), FILTERED),
    **dict.fromkeys(("biaswipe", "biaswipe-grid", "biaswipe-paired", "biaswipe-unlabelled"), WIPED),
    **dict.fromkeys(("few_shot", "supcon_support"), TWICE),
}
for kind in ("", "-few-shot", "-per-input", *ATTRIBUTED, *(f"-distill{how}" for how in DISTILLED)):
    OPTIONS[f"guardrail{kind}"] = {"min_steps": 8, "max_steps": 8}
"""Options with which each method takes a second or so; the others have none."""


def rows(name, sizes, seed):
    """So many rows of each group: negative without and with the shortcut, positive without and with it."""
    rng = np.random.default_rng(seed)
    texts, groups = [], np.repeat(np.arange(4), sizes)
    for group in groups:
        text = rng.choice(FRAMES).format(thing=rng.choice(THINGS), word=rng.choice(WORDS[group // 2]))
        texts.append(f"honestly {text}" if group % 2 else text)
    order = rng.permutation(len(texts))
    groups = groups[order]
    return LabelledTexts(name, [texts[i] for i in order], groups // 2, NAMES, groups, GROUPS)


TRAIN = rows("train", (90, 6, 6, 90), 1)
DEV = rows("dev", (40, 16, 16, 40), 2)
SUPPORT = rows("support", (10, 10, 10, 10), 3)
REVERSED = rows("test-reversed", (4, 40, 40, 4), 4)
DEPLOYMENT = list(rows("deployment", (4, 40, 40, 4), 5).texts)


def make_material(encoder):
    """All there is, around a base classifier that leans on the shortcut."""
    options = {"encoder": encoder, "label_names": NAMES, "config": RECIPE, "seed": 0}
    trained = finetune_classifier(TRAIN.texts, TRAIN.labels.tolist(), **options)
    base = TrainedClassifier(trained.model, trained.tokenizer, NAMES, 16, RECIPE, 0, train_loss=trained.train_loss)
    sets = {"train": TRAIN, "dev": DEV, "support": SUPPORT, "deployment": DEPLOYMENT}
    return Material(base, encoder, NAMES, **sets, shortcut_words=("honestly",), max_length=16)


def fit(method, material, *, seed=0):
    """A method fitted on what it declared of a material."""
    return method.fit(material.for_needs(method.needs), seed=seed)


def literal_contrast(features, labels, tau):
    """The supervised contrastive loss, anchor by anchor and positive by positive."""
    total = torch.zeros(())
    for i, anchor in enumerate(features):
        similar = [torch.exp(anchor @ other / (anchor.norm() * other.norm()) / tau) for other in features]
        others = [a for a in range(len(features)) if a != i]
        positives = [p for p in others if labels[p] == labels[i]]
        for p in positives:
            total = total - torch.log(similar[p] / sum(similar[a] for a in others)) / len(positives)
    return total / len(features)
