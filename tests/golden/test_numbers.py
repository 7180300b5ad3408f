"""Whole outputs of what takes arrays and gives numbers: intervals, tests, metrics, strengths and certificates."""

from itertools import product

import numpy as np

from shortcut_guardrail import metrics, stats, strength
from shortcut_guardrail.config import CalibrationConfig, CertifyConfig
from shortcut_guardrail.strength.certificate import certify_counts
from whole_outputs import compare, each, told

RNG = np.random.default_rng
ARRAYS = [[], [0.5], [0.2, 0.4, 0.6, 0.8], [0.0, 1.0], [1.0, 1.0, 0.9], [0.3] * 4, [0.05, -0.2, 0.1, 0.3, 0.3, -0.01]]


def test_intervals_and_tests():
    arrays = [*map(np.array, ARRAYS), *(np.round(RNG(n).normal(0.05, 0.2, n), 2) for n in (14, 15, 16, 17))]
    lines = each(stats.exact_interval, (0, 1, 3), (3, 7, 40), (0.95, 0.8)) + each(stats.exact_interval, (0,), (0, 1))
    for function in (stats.paired_p_value, stats.mcnemar_greater, stats.paired_e_value):
        lines += each(function, range(6), range(6))
    lines += each(stats.mean_interval, arrays) + each(stats.sign_flip_test, arrays)
    counts = ([0, 0], [3, 1], [1, 0, 0, 9], [20, 30, 50])
    lines += each(stats.binned_mean_interval, (0.1, 0.6), counts, (1, 2, 30))
    found = ([], [20.0], [19.9], [40.0, 40.0, 1.0], [60.0, 3.0, 29.0, 30.0], [0.5] * 3)
    lines += each(stats.e_bh, found, (0.05, 0.2))
    weights = ([1, 1, 1, 1], [2, 0, 1, 3], [0, 0, 0, 0])
    lines += each(stats.holm, ([0.01, 0.001, 0.04, 0.05], [0.0125, 1, 1, 1]), weights, (0.05, 0.1))
    lines += each(stats.fdr_q_values, ([0.001, 0.04, 0.03, 0.03], [0.9, 0.2, 0.01, 0.9]), (None, [1, 2, 3, 1]))
    lines += each(stats.fdr_q_values, ([],))
    for counts in ([10, 11, 9, 40], [0, 0, 2, 1], [5, 0, 5, 9]):
        for first in (0, 1, 2):
            lines += each(stats.rise_evidence, (counts,), ([1000] * 4, [9, 0, 9, 9]), first=first)
        lines += each(stats.rise_evidence, (counts,), ([20] * 4,))
    compare("intervals", lines)


def test_audit_tests():
    rng, lines = RNG(1), []
    for size in (0, 1, 6, 40):
        first, second = np.round(rng.random((2, size)) ** 3, 2 if size > 6 else 1)
        lines += each(stats.q_values, (first,), (second,))
        lines += each(stats.levels_needed, (first,), (second,), (rng.random(size) < 0.7,), (0.05, 0.3))
    lines += told(stats.levels(np.array([0.0, 1e-9, 0.03, 0.5, 0.53, 0.8, 1 - 1e-6, 1.0])))
    rests, others = rng.integers(0, 4, (2, 7, 5))
    rests[0], others[1], rests[2, 1:], others[2, :4] = 0, 0, 0, 0
    lines += each(stats.relative_effect, (rests,), (others,))
    lines += each(stats.p_relative_effect, (rests,), (others,), (0.0, 0.5, 0.7))
    placed = [stats.Placements(n, a * n, (a - 0.1) * n) for n, a in product((2, 9), (0.7, 0.2))]
    lines += each(stats.p_of_placements, placed, placed, (0.0, 0.5))
    n, lost = np.array([1.0, 3, 5, 8, 20, 20]), np.array([0.0, 1, 5, 2, 20, 9])
    against, without = np.array([5.0, 0, 40, 3, 90, 100]), np.array([30.0, 0, 50, 4, 100, 100])
    lines += each(stats.p_all_opposed, (n,), (against,), (without,), (0.5, 0.6))
    for least in (0.5, 0.6):
        wanted = {"min_count": 5, "min_pull": 0.05 + least / 5, "min_relative_effect": least}
        lines += told(stats.texts_needed(n, lost, against, without, np.full(6, 0.01 * least), **wanted))
    for n_texts, lean in product((6, 40), (0.3, 0.7)):
        up, scores = np.arange(n_texts) % 3 > 0, np.round(rng.random(n_texts), 1)
        says = rng.random(n_texts) < lean + 0.2 * up
        bounds = [stats.agreement_bound(says, up), stats.reference_bound(says[up])]
        bounds += [stats.mixed_bound(bounds, [0.25, 0.75]), stats.mixed_bound(bounds[:1], [1.0])]
        lines += [*told(bounds), *each(stats.p_of_bound, (0, 5, 9, 10), (10,), bounds)]
        lines += each(stats.balanced_cut, (scores,), (up,)) + each(stats.agreement_share, (says,), (up,))
        lines += each(stats.net_fixed, (8, 0), (4, 2), (12,), (says,), (up,))
    compare("audit_tests", lines)


def test_metrics():
    rng, lines, names = RNG(2), [], tuple(f"g{i}" for i in range(50))
    for n in (0, 1, 12, 400):
        labels, predictions, groups = rng.integers(0, 3, n), rng.integers(0, 3, n), rng.integers(0, 50, n)
        lines += each(metrics.accuracy, (predictions,), (labels,)) + each(metrics.majority_accuracy, (labels,))
        lines += each(metrics.balanced_accuracy, (predictions,), (labels,))
        found = [metrics.group_accuracy(one, labels, groups, names) for one in (predictions, labels)]
        lines += each(metrics.worst_group, found) + each(metrics.fold_groups, ([found[0][:40]], found))
        lines += each(metrics.worst_group_accuracy, (predictions,), (labels,), (groups,)) if n else []
    wide = [metrics.GroupAccuracy(f"g{i}", 20 + i, (i * 7 % 13) / 13, (0.1, 0.2)) for i in range(60)]
    lines += each(metrics.fold_groups, ([wide, wide[::-1]], [wide[10:]]))
    original, masked = rng.random(4), np.where(rng.random((4, 3)) < 0.3, np.nan, rng.random((4, 3)))
    lines += each(metrics.sensitivity, (original,), (masked, masked[:, :0]))
    important, sizes = np.array([[2, 1, -1], [0, 4, 3], [1, -1, -1]]), np.array([3, 9, 1])
    for tokens, k in product(([{1}, {3, 8}, set()], [set()] * 3, [{2}, {0, 4}, {0}]), (1, 2, 3)):
        found = metrics.token_recall(important, tokens, sizes, k)
        lines += [*told(found), f"hits = {found.hits}"]
    compare("metrics", lines)


def test_strengths():
    rng, lines = RNG(3), []
    for n, metric, start in product((4, 12, 60), ("accuracy", "balanced_accuracy"), (0.0, 0.25)):
        config = CalibrationConfig(strengths=(start, 0.5, 0.75, 1.0), metric=metric)
        grid, labels = strength.strengths_to_score(config), np.arange(n) % 3
        logits = rng.normal(size=(len(grid), n, 3)) + np.linspace(0.2, 2, len(grid))[:, None, None] * np.eye(3)[labels]
        for before in (None, 0.5, 1.0, 0.3):
            lines += each(strength.choose_strength, (logits,), (labels,), (config,), without_labels=before)
        found = strength.choose_strength(logits, labels, config)
        lines += [repr(found), found._repr_html_(), *told(found.to_dict())]
        for held in (np.zeros(n, bool), np.arange(n) % 4 == 1):
            expected = strength.Counterfactual(logits[-1 if n == 12 else 0] * (1 + held[:, None]), held)
            weights = None if n < 12 else np.arange(n) / np.arange(n).sum()
            chosen = strength.choose_without_labels(logits, grid, expected, weights=weights)
            lines += [*told(chosen), repr(chosen), *told(expected.probabilities(2.0)[:3])]
            lines += told(strength.choose_without_labels(logits[[0, 0, 0]], grid[:3], expected))
    lines += each(strength.check_support, ([1], [1, 1], [0, 1]))
    for bearing in (0, 3, 16, 40, 100):
        drawn = each(strength.draw, (np.arange(100) < bearing,), (10, 40, 99, 100), seed=bearing % 3)
        lines += [line[:400] for line in drawn]
    compare("strengths", lines)


def test_certificates():
    rng, lines, strengths = RNG(4), [], [0.25, 0.5, 0.75, 1.0]
    shapes = [[1, 2, 3, 9], [9, 4, 1, 0], [1, 8, 8, 2], [2, 2, 2, 2], [2, 9, 2, 0]]
    for n, harm, looks, margin in product((200, 3000), ("net", "harmed"), (1, 3), (0.01, 0.05)):
        config = CertifyConfig(margin=margin, confidence=0.95 if looks == 1 else 0.9, harm=harm, looks=looks)
        for labels, shares in product((0, 60, 200), shapes):
            labelled = np.array(shares) * labels // 30
            seen = {"labelled": labelled, "gained": labelled * 2 // 3, "lost": labelled // 9}
            seen |= {"differing": np.array(shares) * n // 100, "n_unlabelled": n, "n_labels": labels}
            found = certify_counts(strengths, config, **seen)
            lines += [*told(found.points), found.sentence, found.assumptions, *told(found.certified)]
            lines += [f"instead {strength.certified_instead(found)}"]
            for at in (0.5, 0.75):
                moved = strength.StrengthChoice(0.0, "agreement", certificate=found).moved(at, "certified")
                lines += [repr(moved.certificate)]
                lines += [strength.Certificate(**{**vars(found), "in_use": at, "n_fitted": labels // 30}).sentence]
    base, labels = rng.integers(0, 2, (2, 90))
    guarded = np.where(rng.random((4, 90)) < np.array([[0.01], [0.1], [0.2], [0.3]]), 1 - base, base)
    both = {"base": base, "guarded": guarded}
    answers = {f"{kind}_{model}": both[model] for kind in ("unlabelled", "labelled") for model in both}
    none = {**answers, "unlabelled_base": base[:0], "unlabelled_guarded": guarded[:, :0]}
    for given, config in product((answers, none), (CertifyConfig(), CertifyConfig(margin=0.3, harm="harmed"))):
        lines += each(strength.certify_answers, (strengths, []), (config,), **given, labels=labels)
    lines += each(strength.texts_to_label, (base,), (guarded,), (0, 7, 90))
    compare("certificates", lines)
