"""Certificates: the bounds against their definitions, the order of the tests, and the promised error rate."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from checkout import ROOT
from shortcut_guardrail import CertifyConfig
from shortcut_guardrail.strength import texts_to_label
from shortcut_guardrail.strength.certificate import _gain_bound, certify_counts, upper_bound

STRENGTHS = (0.25, 0.5, 0.75, 1.0)


def certificate(differing, gained, lost, *, labelled=None, n=1000, n_labels=200, strengths=STRENGTHS, **config):
    gained, lost = np.array(gained), np.array(lost)
    counts = {"n_unlabelled": n, "n_labels": n_labels, "differing": np.array(differing), "gained": gained, "lost": lost}
    counts["labelled"] = gained + lost if labelled is None else np.array(labelled)
    return certify_counts(strengths, CertifyConfig(**config), **counts)


@pytest.mark.parametrize(("k", "n"), [(0, 40), (3, 40), (39, 40)])
def test_the_bound_is_the_largest_share_that_is_not_refuted(k, n):
    bound = float(upper_bound(np.array([k]), n, 0.05)[0])
    assert binom.cdf(k, n, bound) == pytest.approx(0.05)
    assert binom.cdf(k, n, bound - 0.01) > 0.05
    # Nothing seen, and harm alone, bound nothing.
    assert upper_bound(np.array([0, 5]), np.array([0, 5]), 0.05).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("harm", ["net", "harmed"])
@pytest.mark.parametrize(
    ("differing", "labelled", "gained", "lost"), [(500, 100, 0, 10), (200, 60, 20, 5), (40, 30, 0, 0), (90, 7, 3, 3)]
)
def test_the_bounds_are_those_of_the_formula(harm, differing, labelled, gained, lost):
    """Half of the error for each order; of that a tenth for D and the rest for the labels, literally."""

    def largest_not_refuted(k, n, error):
        return 1.0 if k >= n else brentq(lambda share: binom.cdf(k, n, share) - error, 1e-12, 1 - 1e-12)

    found = certificate([differing] * 4, [gained] * 4, [lost] * 4, labelled=[labelled] * 4, harm=harm, confidence=0.9)
    error = 0.1 / 2
    share = largest_not_refuted(differing, 1000, 0.1 * error)
    if harm == "net":
        loss = share * max(0, 2 * largest_not_refuted(lost, gained + lost, 0.9 * error) - 1)
    else:
        loss = share * largest_not_refuted(lost, labelled, 0.9 * error)
    assert found.points[0].loss_bound == pytest.approx(loss, abs=1e-9)


@pytest.mark.parametrize(("gain", "loss"), [(0.5, 0.5), (0.55, 0.4), (0.9, 0.05), (0.3, 0.0), (0.05, 0.0)])
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_the_gain_is_more_than_its_bound_as_often_as_promised(gain, loss, share):
    rng, draws, n, n_labels = np.random.default_rng(0), 4000, 500, 60
    differing, labelled = rng.binomial(n, share, draws), np.full(draws, n_labels)
    counts = rng.multinomial(n_labels, [gain, loss, 1 - gain - loss], draws)
    bounds = _gain_bound(differing, n, labelled, counts[:, 0], counts[:, 1], 0.1)
    assert np.mean(bounds > share * (gain - loss)) <= 0.1
    if share == 1.0 and gain == 0.9:
        assert np.mean(bounds > 0.5) > 0.9  # and it says something


def test_the_page_on_certificates_shows_what_is_said():
    shares = np.arange(1, 11) / 10
    labelled, lost = (100 * shares).astype(int), (44 * shares).astype(int)
    counts = (240 * shares).astype(int), labelled - lost, lost
    said = certificate(*counts, n=800, n_labels=100, strengths=shares).sentence
    assert said in " ".join((ROOT / "docs" / "howto" / "certify.md").read_text(encoding="utf-8").split())


def test_texts_to_label_are_a_random_sample_of_those_with_another_answer():
    base, guarded = np.zeros(60, dtype=int), np.zeros((2, 60), dtype=int)
    guarded[0, :30], guarded[1, 10:40] = 1, 2
    first = [texts_to_label(base, guarded, 10, seed=seed).tolist() for seed in range(400)]
    assert {len(set(chosen)) for chosen in first} == {10}
    # Each of 40 texts is among the first ten in a quarter of the samples; six standard deviations are .13.
    shares = [np.mean([i in chosen for chosen in first]) for i in range(60)]
    assert 0.12 < min(shares[:40]) < max(shares[:40]) < 0.38
    assert max(shares[40:]) == 0
    # Fewer texts of the same draw are the beginning of more of them, whatever their labels say.
    assert texts_to_label(base, guarded, 100, seed=3).tolist()[:10] == first[3]
    assert len(texts_to_label(base, guarded, 100)) == 40


@pytest.fixture
def only_certified(monkeypatch):
    """Without the search for how many texts would do, which takes nearly all of the time."""
    for name in ("_labels_needed", "_unlabelled_needed"):
        monkeypatch.setattr(f"shortcut_guardrail.strength.certificate.{name}", lambda *_: None)


def error_rate(*, theta, share, n_strengths, procedure, n=400, n_labels=120, repeats=400):
    """How often any of several equally harmful, independent strengths is called harmless."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(repeats):
        differing, labelled = rng.binomial(n, share, n_strengths), rng.binomial(n_labels, share, n_strengths)
        lost, grid = rng.binomial(labelled, theta), np.linspace(0.1, 1, n_strengths)
        counts = differing, labelled - lost, lost
        wrong += procedure(certificate(*counts, n=n, n_labels=n_labels, strengths=grid, confidence=0.9))
    return wrong / repeats


@pytest.mark.usefixtures("only_certified")
def test_the_error_rate_holds_over_the_choice_of_strength_and_a_naive_sweeps_does_not():
    truth = {"theta": 0.54, "share": 0.3, "n_strengths": 10}  # a loss of .024 at each of the strengths

    def naive(found):  # the best of the sweep shows no loss
        return any(p.lost - p.gained <= 0.02 * found.n_labels for p in found.points)

    assert error_rate(**truth, procedure=lambda found: len(found.certified) > 1) <= 0.1
    assert error_rate(**truth, procedure=naive) > 0.5


@pytest.mark.usefixtures("only_certified")
def test_going_on_until_it_passes_errs_too_often_unless_the_looks_were_planned():
    # One harmful strength (a loss of .0204), labels added at ten looks: some look passes by luck.
    looks = np.arange(1, 11) * 60

    def erring(planned, repeats=400):
        rng, wrong = np.random.default_rng(1), 0
        for _ in range(repeats):
            lost, differing = np.cumsum(rng.binomial(60, 0.53, 10)), rng.binomial(20_000, 0.34)
            options = {"n": 20_000, "strengths": (1.0,), "confidence": 0.9, "looks": planned}
            found = [certificate([differing], [n - k], [k], **options) for n, k in zip(looks, lost, strict=True)]
            wrong += any(len(one.certified) > 1 for one in found)
        return wrong / repeats

    assert erring(1) > 0.1 >= erring(10)
