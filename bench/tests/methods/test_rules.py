"""Whole methods and the rules that choose for them, each beside the same thing done by hand."""

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from methods_toy import FRAMES, THINGS, WORDS, rows
from shortcut_bench.classifiers import TrainedClassifier
from shortcut_bench.datasets.types import LabelledTexts
from shortcut_bench.finetuning.config import FinetuneConfig, Objective
from shortcut_bench.finetuning.training import finetune_classifier
from shortcut_bench.methods import DFR, JTT, RULES, LastLayer, training
from shortcut_bench.methods.same_budget import cross_validated
from shortcut_bench.methods.selection import missing_groups
from shortcut_bench.systems import Material
from tiny_models import tiny_bert

Array = np.ndarray[Any, np.dtype[Any]]
MAX_LENGTH = 30
COLD = ("cold", "bland", "slow", "warm", "tasty")
"""Words of a third class."""


CELLS = {(0, 0): 9, (0, 1): 3, (1, 2): 2, (1, 3): 4, (2, 4): 3}
"""Rows of each class and group: classes of 12, 6, 3 and no rows, groups of 9, 3, 2, 4, 3 and none."""


def unbalanced():
    cells = [cell for cell, size in CELLS.items() for _ in range(size)]
    order = np.random.default_rng(0).permutation(len(cells))
    labels, groups = np.array(cells)[order].T
    names = tuple(f"{label}, {how}" for label in "abc" for how in ("without", "with"))
    return LabelledTexts("dev", [f"text {i}" for i in order], labels, ("a", "b", "c", "nobody's"), groups, names)


def test_rules_are_their_formulas():
    data = unbalanced()
    guesses = (data.labels + 1) % 4
    for group, count in enumerate((4, 2, 2, 4, 3)):
        right = np.flatnonzero(data.groups == group)[:count]
        guesses[right] = data.labels[right]

    def scores_of(guesses):
        return {name: rule.score(guesses, data) for name, rule in RULES.items() if rule.score is not None}

    # No two are the same: 6 of 12 rows of a, all of b and of c; 4 of 9 of the worst group.
    scores = scores_of(guesses)
    balanced = (6 / 12 + 6 / 6 + 3 / 3) / 3
    expected = {"dev-accuracy": 15 / 21, "dev-balanced-accuracy": balanced, "support-balanced-accuracy": balanced}
    assert scores == pytest.approx(expected | {"dev-worst-class": 6 / 12, "dev-worst-group": 4 / 9})
    # A group without rows is not the worst one, and a class without any does not count as one answered wrongly.
    assert missing_groups(data) == ["c, with"]
    assert missing_groups(data.without_groups()) == []
    assert scores_of(data.labels) == dict.fromkeys(scores, 1.0)


def legible(n_classes):
    """A random classifier whose word vectors tell the words of the classes apart."""
    model, tokenizer = tiny_bert(n_classes=n_classes, seed=3, initializer_range=0.2)
    with torch.no_grad():
        for axis, words in enumerate((*WORDS, COLD)):
            model.get_input_embeddings().weight[tokenizer.convert_tokens_to_ids(list(words)), axis] += 4.0
    return model, tokenizer


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    model, tokenizer = legible(2)
    model.bert.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def different(name, sizes, seed):
    """Rows of which no two have the same text, so that a text says which row it is."""
    data = rows(name, sizes, seed)
    return data.select(sorted(data.texts.index(text) for text in set(data.texts)))


JTT_TRAIN = different("train", (30, 4, 4, 30), 1)
LOOP = {"learning_rate": 1.0, "epochs": 1, "batch_size": 8, "weight_decay": 0.5, "warmup_ratio": 0.3}
LOOP["max_grad_norm"] = 0.7
"""What the second stage is told, but for the rate, which is the grid's; the first has to take it over or leave it."""

RATE = 1.5e-3
SECOND = FinetuneConfig(**{**LOOP, "learning_rate": RATE, "max_length": MAX_LENGTH})


def untrained(encoder, n_classes=2, **given):
    """Material around a base classifier that nobody has trained."""
    names = ("negative", "positive", "cold")[:n_classes]
    model, tokenizer = legible(n_classes)
    base = TrainedClassifier(model, tokenizer, names, MAX_LENGTH, FinetuneConfig(epochs=3, warmup_ratio=0.2), seed=0)
    return Material(base=base, encoder=encoder, label_names=names, max_length=MAX_LENGTH, **given)


@pytest.fixture
def trainings(monkeypatch):
    """What every fine-tuning of a pretrained encoder is handed, in order; it goes on as it would."""
    seen = []

    def look(texts, labels, **options):
        seen.append({"texts": list(texts), "labels": list(labels), **options})
        return finetune_classifier(texts, labels, **options)

    monkeypatch.setattr(training, "finetune_classifier", look)
    return seen


class Watch(Objective):
    """Cross-entropy, with everything that goes through the model written down by a hook."""

    def __init__(self, tokenizer):
        self.seen = []
        self._tokenizer = tokenizer

    def begin(self, model, tokenizer):
        self.hook = model.register_forward_hook(self._note, with_kwargs=True)

    def _note(self, model, _, inputs, output):
        for ids, label, logits in zip(inputs["input_ids"], inputs["labels"], output.logits, strict=True):
            text = self._tokenizer.decode(ids, skip_special_tokens=True)
            self.seen.append((text, int(label), int(logits.argmax()), model.training))


def first_stage_by_hand(encoder, config):
    """Texts answered wrongly in each pass of a training, and those that its finished model answers wrongly."""
    watch = Watch(tiny_bert()[1])
    options = {"encoder": encoder, "label_names": JTT_TRAIN.label_names, "seed": 0}
    result = finetune_classifier(JTT_TRAIN.texts, JTT_TRAIN.labels.tolist(), config=config, objective=watch, **options)
    watch.hook.remove()
    assert all(in_training for *_, in_training in watch.seen)  # dropout was on
    n = len(JTT_TRAIN)
    passes = [watch.seen[start : start + n] for start in range(0, len(watch.seen), n)]
    assert all({text for text, *_ in one} == set(JTT_TRAIN.texts) for one in passes)
    finished = set()
    for text, label in zip(JTT_TRAIN.texts, JTT_TRAIN.labels.tolist(), strict=True):
        with torch.no_grad():
            logits = result.model.eval()(**result.tokenizer(text, return_tensors="pt")).logits[0]
        if int(logits.argmax()) != label:
            finished.add(str(text))
    return [{text for text, label, guess, _ in one if guess != label} for one in passes], finished


def fit_jtt(encoder, **options):
    method = JTT(upweights=(5,), learning_rates=(RATE,), recipe=LOOP, select="last", **options)
    return method.fit(untrained(encoder, train=JTT_TRAIN), seed=0)


def assert_stages(trainings, encoder, config, n_errors, *, of_finished, times):
    """The errors are those of the finished first stage or of its last pass, and come so many times."""
    first, second = trainings
    texts, labels = list(JTT_TRAIN.texts), JTT_TRAIN.labels.tolist()
    assert (first["config"], first["seed"], first["sampling_weights"]) == (config, 0, None)
    assert (first["texts"], first["labels"]) == (texts, labels)
    passes, finished = first_stage_by_hand(encoder, config)
    assert len(passes) == config.epochs
    wrong, *others = (finished, *passes) if of_finished else (passes[-1], finished, *passes[:-1])
    assert Counter(second["texts"]) == {text: times if text in wrong else 1 for text in texts}
    assert n_errors == len(wrong)
    assert wrong not in others
    assert 0 < len(wrong) < len(texts) / 2
    # The second stage starts from the pretrained encoder, by the recipe as given, on the rows and then the copies.
    assert second["config"] == SECOND
    assert (second["encoder"], second["objective"], second["sampling_weights"]) == (encoder, None, None)
    of_text = dict(zip(texts, labels, strict=True))
    assert second["labels"] == [of_text[text] for text in second["texts"]]
    assert second["texts"][: len(texts)] == texts


def test_official_jtt_counts_the_errors_of_its_last_training_pass_one_time_more(encoder, trainings):
    system = fit_jtt(encoder, identification_epochs=(3,), identification_rate=0.03)
    # Plain SGD: momentum 0.9 is all that `sgd` has; no warm-up, schedule, decay or clipping, whatever the recipe says.
    off = dict.fromkeys(("weight_decay", "warmup_ratio", "max_grad_norm"), 0.0)
    loop = {"learning_rate": 0.03, "epochs": 3, "batch_size": 8, "max_length": MAX_LENGTH}
    plain = FinetuneConfig(**loop, **off, optimizer="sgd", scheduler="constant")
    assert_stages(trainings, encoder, plain, system.info()["n_errors"], of_finished=False, times=6)


def test_jtt_of_the_paper_counts_the_errors_of_its_finished_model_so_many_times(encoder, trainings):
    system = fit_jtt(encoder, variant="sg-paper", identification_epochs=(2,))
    same = dataclasses.replace(SECOND, epochs=2)  # the second's recipe, but for its length
    assert (same.optimizer, same.scheduler) == ("adamw", "linear")
    assert_stages(trainings, encoder, same, system.info()["n_errors"], of_finished=True, times=5)


GRID = (1.0, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01)


def reviews(name, sizes, seed):
    """So many rows of each class without and with the shortcut, for two classes or three, in which words mislead."""
    rng = np.random.default_rng(seed)
    words, names = (*WORDS, COLD), ("negative", "positive", "cold")[: len(sizes) // 2]
    groups = np.repeat(np.arange(len(sizes)), sizes)[rng.permutation(sum(sizes))]
    texts = []
    for group in groups.tolist():
        kind = group // 2 if rng.random() < 0.8 else int(rng.integers(len(names)))
        text = rng.choice(FRAMES).format(thing=rng.choice(THINGS), word=rng.choice(words[kind]))
        texts.append(f"honestly {text}" if group % 2 else text)
    group_names = tuple(f"{label}, {how}" for label in names for how in ("without", "with"))
    return LabelledTexts(name, texts, groups // 2, names, groups, group_names)


def read(material, texts, *, pooled):
    """What BERT's last layer reads, or the first token's last hidden state."""
    model, tokenizer = material.base.model, material.base.tokenizer
    values = []
    for text in texts:
        with torch.no_grad():
            output = model.bert(**tokenizer(text, return_tensors="pt"))
        values.append((output.pooler_output if pooled else output.last_hidden_state[:, 0])[0].double().numpy())
    return np.stack(values)


def regression(c, n_classes):
    one = LogisticRegression(l1_ratio=1.0, C=c, solver="liblinear", random_state=0)
    return one if n_classes == 2 else OneVsRestClassifier(one)


def scores_against(values, model):
    """A column for each class, up to a constant a row; of two classes the first has none of its own."""
    scores = np.asarray(model.decision_function(values))
    return np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores


def centred(scores):
    return np.asarray(scores - scores.mean(axis=1, keepdims=True))


def answers_of(system, texts):
    return centred(system.classifier.predict_logits(system.classifier.encode(texts)).astype(np.float64))


def group_balanced(among, groups, rng):
    inside = [among[groups[among] == g] for g in sorted(set(groups[among].tolist()))]
    size = min(len(members) for members in inside)
    return np.concatenate([members[rng.permutation(len(members))[:size]] for members in inside])


class ByHand:
    """DFR on validation data: the scores of the grid by two measures, and the fits of which the head is the mean."""

    def __init__(self, values, dev, seed):
        rng = np.random.default_rng(seed)
        self.n_classes, self.values, self.dev = len(dev.label_names), values, dev
        order = rng.permutation(len(dev))
        held_out, half = order[: len(dev) // 2], order[len(dev) // 2 :]
        assert set(dev.groups[held_out]) == set(dev.groups[half])  # or the method draws again
        fitted = group_balanced(half, dev.groups, rng)
        self.worst, self.overall = [], []
        for c in GRID:
            model = make_pipeline(StandardScaler(), regression(c, self.n_classes))
            model.fit(values[fitted], dev.labels[fitted])
            right = model.predict(values[held_out]) == dev.labels[held_out]
            self.worst.append(min(right[dev.groups[held_out] == g].mean() for g in set(dev.groups.tolist())))
            self.overall.append(right.mean())
        self.samples = [group_balanced(np.arange(len(dev)), dev.groups, rng) for _ in range(20)]

    def fits(self, c, standard):
        values, labels = standard.transform(self.values), self.dev.labels
        return [regression(c, self.n_classes).fit(values[rows], labels[rows]) for rows in self.samples]


def mean_answers(values, fits):
    """What the mean of linear models answers, which is the mean of their scores."""
    return centred(np.mean([scores_against(values, one) for one in fits], axis=0))


def best(scores):
    """The first C of the highest score."""
    return GRID[scores.index(max(scores))]


@pytest.mark.parametrize(
    ("n_classes", "train_sizes", "dev_sizes"),
    [(2, (30, 0, 5, 15), (40, 16, 16, 40)), (3, (25, 0, 3, 15, 5, 2), (30, 14, 14, 30, 14, 30))],
)
def test_dfr_is_twenty_balanced_fits_with_the_strength_that_is_best_for_the_worst_group(
    n_classes, train_sizes, dev_sizes
):
    train_rows, dev = reviews("train", train_sizes, 1), reviews("dev", dev_sizes, 2)
    material = untrained("none", n_classes, train=train_rows, dev=dev)
    values = read(material, dev.texts, pooled=True)
    of_dev, of_train = (StandardScaler().fit(v) for v in (values, read(material, train_rows.texts, pooled=True)))
    hand = ByHand(values, dev, seed=4)
    system = DFR().fit(material.for_needs(DFR().needs), seed=4)

    info, chosen = system.info(), best(hand.worst)
    assert [trial["point"]["inverse_strength"] for trial in info["trials"]] == list(GRID)
    assert [trial["score"] for trial in info["trials"]] == pytest.approx(hand.worst)
    assert info["inverse_strength"] == chosen
    fresh = reviews("test", (5,) * 2 * n_classes, 3).texts
    texts = read(material, fresh, pooled=True)
    standard, fits = of_train.transform(texts), hand.fits(chosen, of_train)
    expected = mean_answers(standard, fits)
    assert len(fits) == 20
    assert answers_of(system, fresh) == pytest.approx(expected, abs=1e-3)

    by_dev = mean_answers(of_dev.transform(texts), hand.fits(chosen, of_dev))
    assert answers_of(DFR(standardise_on="dev").fit(material, seed=4), fresh) == pytest.approx(by_dev, abs=1e-3)

    # The partners: the best C for all rows is another one, and that C, fewer fits, a head that was not folded back or
    # the dev set's standardisation answer differently.
    other = best(hand.overall)
    assert other != chosen
    others = (
        mean_answers(standard, hand.fits(other, of_train)),
        mean_answers(standard, fits[:1]),
        mean_answers(standard, fits[:19]),
        mean_answers(texts, fits),
        by_dev,
    )
    assert min(np.abs(answers - expected).max() for answers in others) > 0.01


@pytest.mark.parametrize(("n_classes", "sizes"), [(2, (500, 105, 105, 500)), (3, (300, 100, 110, 300, 100, 300))])
def test_dfr_of_the_paper_is_one_fit_on_a_twentieth_of_the_training_set(n_classes, sizes):
    train_rows = reviews("train", sizes, 2)
    material = untrained("none", n_classes, train=train_rows.without_groups())
    drawn = np.random.default_rng(0).permutation(1210)[:61]  # 5 % of 1210 are 60.5
    drawn = np.concatenate([drawn[30:], drawn[:30]])
    values = read(material, [train_rows.texts[i] for i in drawn], pooled=False)
    labels = train_rows.labels[drawn]
    accuracies = []
    for c in GRID:
        model = make_pipeline(StandardScaler(), regression(c, n_classes)).fit(values[:31], labels[:31])
        accuracies.append(sum(model.predict(values[31:]) == labels[31:]) / 30)

    system = DFR(variant="sg-paper").fit(material, seed=0)
    info, chosen = system.info(), best(accuracies)
    assert info["probe_rows"] == 61
    assert [trial["score"] for trial in info["trials"]] == pytest.approx(accuracies)
    assert info["inverse_strength"] == chosen
    fresh = reviews("test", (5,) * 2 * n_classes, 3).texts
    texts = read(material, fresh, pooled=False)
    fits = {c: make_pipeline(StandardScaler(), regression(c, n_classes)).fit(values, labels) for c in GRID}
    expected = centred(scores_against(texts, fits[chosen]))
    assert answers_of(system, fresh) == pytest.approx(expected, abs=1e-3)

    # The partners: another C, or the half that C was chosen on.
    half = make_pipeline(StandardScaler(), regression(chosen, n_classes)).fit(values[:31], labels[:31])
    others = [scores_against(texts, fit) for fit in (half, *(fits[c] for c in GRID if c != chosen))]
    assert min(np.abs(centred(other) - expected).max() for other in others) > 0.01


def test_the_last_layer_takes_the_strength_that_answers_left_out_folds_best():
    """31 rows of three classes, so that folds differ in size and the share of all rows is no mean over folds."""
    support = reviews("support", (6, 5, 6, 5, 5, 4), 10)
    material = untrained("none", 3, support=support.without_groups())
    values = read(material, support.texts, pooled=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=2)
    accuracies = []
    for c in GRID:
        guesses = cross_val_predict(make_pipeline(StandardScaler(), regression(c, 3)), values, support.labels, cv=folds)
        accuracies.append(sum(guesses == support.labels) / 31)
        assert cross_validated(values, support.labels, c, 2) == pytest.approx(accuracies[-1])

    system = LastLayer().fit(material, seed=2)
    info, chosen = system.info(), best(accuracies)
    assert [trial["score"] for trial in info["trials"]] == pytest.approx(accuracies)
    assert (info["inverse_strength"], info["selection"]["folds"]) == (chosen, 5)
    fresh = reviews("test", (5,) * 6, 3).texts
    texts = read(material, fresh, pooled=True)
    fits = {c: make_pipeline(StandardScaler(), regression(c, 3)).fit(values, support.labels) for c in GRID}
    expected = centred(scores_against(texts, fits[chosen]))
    assert answers_of(system, fresh) == pytest.approx(expected, abs=1e-3)
    # The partners: the rows that are fitted on are answered best without much of a penalty.
    assert max(accuracies) > max(np.bincount(support.labels)) / 31 + 0.2
    assert best([fits[c].score(values, support.labels) for c in GRID]) != chosen
    assert min(np.abs(centred(scores_against(texts, fits[c])) - expected).max() for c in GRID if c != chosen) > 0.01
