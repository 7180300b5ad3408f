"""Made-up data sets, encoders and results for the tests of the benchmark's harness."""

import zlib
from dataclasses import replace
from unittest import mock

import numpy as np

from shortcut_bench.classifiers import Encoder
from shortcut_bench.datasets import BenchmarkData, DataCard, LabelledTexts
from shortcut_bench.results import Rows, add_to_index, write_result
from shortcut_bench.runner import plan_runs
from shortcut_bench.scoring import merged_metrics
from shortcut_guardrail.data import writing
from shortcut_guardrail.evaluation import by_shortcut

LABEL_NAMES = ("negative", "positive")
SHORTCUT = "honestly"
FAKE_ENCODER = Encoder("unused", "an-encoder", "0" * 64)


def _texts(name, n, with_shortcut, rng):
    """Rows of two classes told apart by a word, and the same with the shortcut put in front at a rate a class."""
    words = (("awful", "bad", "dull", "cold"), ("great", "good", "lovely", "fine"))
    fillers = ("the", "room", "was", "and", "staff", "food", "very", "soup", "it", "place")
    labels = np.arange(n) % 2
    plain = [
        " ".join([*rng.choice(fillers, 4), str(rng.choice(words[label])), *rng.choice(fillers, 2)]) for label in labels
    ]
    present = np.array([rng.random() < with_shortcut[label] for label in labels])
    texts = [f"{SHORTCUT} {text}" if has else text for text, has in zip(plain, present, strict=True)]
    groups, names = by_shortcut(labels, present, LABEL_NAMES)

    def labelled(what, given):
        return LabelledTexts(what, given, labels.astype(np.int64), LABEL_NAMES, groups, names)

    return labelled(name, texts), labelled(f"{name}, clean", plain)


def fake_build(name, *, data_dir, seed=0, n_train=None, n_test=None, strength=1.0, inserted=True, fold=0, **_):
    """What `datasets.build` has as its interface, with the word "honestly" going with the positive class."""
    rng = np.random.default_rng([seed, fold])
    low, high = (1 - strength) / 2, (1 + strength) / 2
    train, clean = _texts("train", n_train or 64, (low, high), rng)
    dev, _ = _texts("dev", 16, (low, high), rng)
    tests = {
        "in_distribution": _texts("test", n_test or 40, (low, high), rng),
        "reversed": _texts("test-reversed", n_test or 40, (high, low), rng),
    }
    return BenchmarkData(
        name=name,
        train=train,
        dev=dev,
        tests={key: rows for key, (rows, _) in tests.items()},
        oracle_tests={key: plain for key, (_, plain) in tests.items()} if inserted else {},
        clean_train=clean if inserted else None,
        shortcuts=(SHORTCUT,),
        card=DataCard("Made up", "Made-up reviews.", "none", "none", "none"),
        settings={"seed": seed, "strength": strength},
    )


def fake_results(
    results, experiment, *, scale="small", seeds=(0, 1, 2), n=120, changes=None, alter=lambda run, record: None
):
    """Writes a made-up result for every run of an experiment, as a run would; `alter` may change what it says."""
    runs = plan_runs(experiment, scale=scale, encoder=FAKE_ENCODER, seeds=seeds, changes=changes)
    # Made-up results need not outlive a power cut: three thousand of them waited longer for the disk than for all else.
    with mock.patch.object(writing, "flush"):
        for run in runs:
            record = fake_record(run, n)
            alter(run, record)
            write_result(results, run.hash, record)
    add_to_index(results, experiment.name, [run.entry() for run in runs], command="made up")
    return runs


def fake_record(run, n=120):
    """A result whose labels and groups depend on setting and seed, and whose answers depend on the system too."""
    place = np.random.default_rng([zlib.crc32(f"{run.setting.name} {run.test}".encode()), run.seed, run.fold])
    labels, present = place.integers(0, 2, n), place.integers(0, 2, n)
    groups, group_names = by_shortcut(labels, present, LABEL_NAMES)
    rng = np.random.default_rng([zlib.crc32(run.spec.label.encode()), zlib.crc32(run.setting.name.encode()), run.seed])
    skill = {"erm": 0.55, "oracle": 0.85, "clean": 0.83}.get(run.spec.kind, 0.68) + 0.04 * float(rng.random())
    right = rng.random(n) < skill - 0.25 * (present != labels) + 0.1
    predictions = np.where(right, labels, 1 - labels).astype(np.int64)
    probs = np.where(np.eye(2)[predictions] == 1, 0.9, 0.1)
    ranks = np.where(present == 1, rng.integers(0, 11, n), -1)
    sensitivity = rng.random(30) * (1.1 - skill)
    rows = Rows(np.arange(n), np.arange(n), labels, groups, predictions, probs, ranks, sensitivity, sensitivity * 0.8)
    size = int((present == 1).sum())
    recalls = {k: float(np.mean((ranks > 0) & (ranks <= k))) for k in range(1, 11)}
    recall = {str(k): {"recall": share, "chance": k / 30, "n": size} for k, share in recalls.items()}
    # Groups are named as the builders name them: the testbed's by its word.
    names = [name.replace("shortcut", "book") if "testbed" in run.setting.data else name for name in group_names]
    shell = {"groups": [{"name": name} for name in names], "metrics": {"shortcut_token_recall": recall, "n": n}}
    metrics, per_group = merged_metrics(rows, [shell])
    guard = run.spec.kind.startswith("guardrail")
    stages = {"tokenise": 0.1, "attribute": 1.5, "adapt": 20.0 + rng.random(), "calibrate": 2.0} if guard else {}
    info = {"labels_spent": 40, "debias_strength": 0.5} if guard else {"labels_spent": 0}
    needs = sorted(need.value for need in run.system.needs)
    cost = {"forward_equivalents": 24.0 * n, "per_deployment_text": 24.0 if guard else 0.0, "per_answer": 1.0}
    counts = {"train": {"a": 50, "b": 50}, "dev": {"a": 12, "b": 8}}
    drawn = f"{run.setting.name} {run.seed} {run.fold}"
    return {
        "config": run.config(),
        "scale": run.scale.name,
        "system": {"name": run.spec.kind, "needs": needs, "info": info},
        "metrics": metrics,
        "groups": per_group,
        "cost": {**cost, "n_deployment": n},
        "seconds": {"fit": sum(stages.values()), "predict": 1.0, "fit_stages": stages},
        "base": {"train_loss": [0.7, 0.5]},
        "data": {"counts": counts, "fingerprint": drawn, "fingerprints": {run.test: drawn}},
        "command": "made up",
        "versions": {},
        "commit": None,
        "hardware": {"processor": "an abacus", "threads": 1, "gpu": None},
        "rows": rows.to_dict(),
    }


def with_systems(experiment, *labels):
    """The experiment with some of its systems."""
    return replace(experiment, systems=tuple(spec for spec in experiment.systems if spec.label in labels))
