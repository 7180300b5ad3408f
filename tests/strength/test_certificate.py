"""Certificates: the bounds against their definitions, the order of the tests, and the promised error rate."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from checkout import ROOT
from shortcut_guardrail import CertifyConfig, ConfigError, DataError
from shortcut_guardrail.strength import StrengthChoice, certified_instead, certify_answers, texts_to_label
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


def test_strengths_that_change_next_to_nothing_need_no_label():
    found = certificate([0, 1, 2, 300], [0] * 4, [0] * 4, margin=0.015)
    assert found.certified == (0.0, 0.25, 0.5, 0.75)
    assert found.points[-1].labels_needed > 0
    # The partner: at a tenth of the texts the same counts say nothing.
    assert certificate([0, 1, 2, 30], [0] * 4, [0] * 4, margin=0.015, n=100).certified == (0.0,)


def test_strengths_are_certified_from_either_end_up_to_the_first_failure():
    found = certificate([0, 60, 300, 400], [0, 1, 25, 30], [0, 1, 2, 2])
    assert [point.certified for point in found.points] == [True, False, True, True]
    # What fixes most takes the place of one that is not certified, of equals the smallest.
    assert certified_instead(found) == 1.0
    assert certified_instead(certificate([0, 60, 300, 400], [0, 1, 25, 25], [0, 1, 2, 2])) == 0.75
    assert found.points[1].loss_bound > 0.02
    # A small bound beyond a failure in both orders is not enough.
    found = certificate([400, 5, 300, 400], [5, 0, 30, 5], [5, 0, 2, 5])
    assert max(point.loss_bound for point in found.points[1:3]) <= 0.02
    assert (found.certified, certified_instead(found)) == ((0.0,), 0.0)


def test_harmed_texts_count_whatever_is_gained_where_that_is_asked_for():
    counts = ([300] * 4, [60] * 4, [20] * 4)
    assert certificate(*counts, margin=0.01).certified == (0.0, *STRENGTHS)
    assert certificate(*counts, margin=0.01, harm="harmed").certified == (0.0,)


def test_the_number_of_labels_that_would_do_does():
    needed = certificate([400] * 4, [6] * 4, [3] * 4).points[-1].labels_needed
    assert needed > 9
    more = [needed * 6 // 9] * 4, [-(-needed * 3 // 9)] * 4
    assert certificate([400] * 4, *more, labelled=[needed] * 4).points[-1].certified
    fewer = [needed * 6 // 18] * 4, [-(-needed * 3 // 18)] * 4
    assert not certificate([400] * 4, *fewer, labelled=[needed // 2] * 4).points[-1].certified
    # None certifies a guard that harms.
    assert {point.labels_needed for point in certificate([400] * 4, [3] * 4, [12] * 4).points} == {None}


def test_the_sentence_says_what_was_shown_and_on_what():
    found = certificate([0, 60, 300, 400], [0, 1, 25, 30], [0, 1, 2, 2])
    assert found.sentence == (
        "With 95% confidence, the accuracy lost against the original model at strengths 0.25, 0.75 and 1 is at most "
        "2%, as shown by 1000 unlabelled and 200 labelled texts. With the same confidence, the accuracy gained at "
        "strength 1 is at least 14.7%."
    )
    assert " accuracy gained at strength 0.75 is at least 8.6%." in replace(found, strength=0.75).sentence
    assert "gained" not in replace(found, n_labels=0).sentence
    assert certificate([400] * 4, [9] * 4, [8] * 4, margin=0.3).sentence.endswith("No gain in accuracy is shown.")
    assert repr(replace(found, strength=1.0)).splitlines()[1:9] == [
        *["certified  strengths 0.25, 0.75 and 1", "texts      1,000 unlabelled, 200 labelled", "chosen     1"],
        "strength  differing  labelled  gained  lost  loss max  gain min",
        "    0.25          0         0       0     0     0.006         -  certified",
        "     0.5         60         2       1     1     0.082         -",
        "    0.75        300        27      25     2     0.000     0.086  certified",
        "       1        400        32      30     2     0.000     0.147  certified",
    ]
    # It holds on where a strength is set that it is about.
    moved = [StrengthChoice(1.0, "fixed", certificate=found).moved(strength, "set") for strength in (0.75, 0.5)]
    said = [(one.strength, one.source, one.certificate) for one in moved]
    assert said == [(0.75, "set", replace(found, strength=0.75)), (0.5, "set", None)]
    # Of a strength that is not certified no gain is promised.
    last = replace(found.points[-1], certified=False)
    assert "gained at strength 0.75 is at least 8.6%" in replace(found, points=(*found.points[:-1], last)).sentence
    assert "With 99.99% confidence" in certificate([0] * 4, [0] * 4, [0] * 4, confidence=0.9999, margin=0.1).sentence
    several = certificate([0, 60, 300, 400], [0, 1, 25, 30], [0, 1, 2, 2], looks=3)
    assert "labelled texts (one of 3 planned certificates, which share the error). With" in several.sentence
    values = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert "an independent random sample of the texts that the model will see" in values["assumptions"]
    assert "The labelled texts are one too" in values["assumptions"]
    fitted = replace(found, n_fitted=7)
    assert fitted.sentence.endswith(" But the repair was fitted on 7 of these texts, so nothing is shown for others.")
    assert "The labelled texts" not in replace(found, n_labels=0).assumptions
    assert (values["margin"], values["certified"]) == (0.02, [0.0, 0.25, 0.75, 1.0])


def test_strengths_that_follow_each_other_are_named_as_a_range():
    for differing, named in (
        *[([0] * 6, "strengths 0.1 to 0.6"), ([0, 0, 0, 900, 900, 900], "strengths 0.1 to 0.3")],
        ([0, 0, 900, 900, 900, 0], "strengths 0.1, 0.2 and 0.6"),
        ([0, 0, 900, 0, 0, 0], "strengths 0.1, 0.2 and 0.4 to 0.6"),
        ([0, 900, 900, 900, 900, 900], "strength 0.1"),
    ):
        strengths = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
        found = certificate(differing, [0] * 6, [0] * 6, strengths=strengths, n_labels=0)
        assert f"at {named} is at most" in found.sentence
        assert f" {named}\n" in repr(found)


def test_the_gain_is_bounded_at_all_strengths_at_once():
    # All texts differ and all labelled ones are gained: the bounds are powers, by algebra.
    found, error = certificate([1000] * 4, [100] * 4, [0] * 4), 0.05 / 4
    share, decided = (0.1 * error) ** (1 / 1000), (0.45 * error) ** (1 / 100)
    theta = 1 - (0.45 * error) ** (1 / 100)
    assert found.points[0].gain_bound == int(1000 * share * decided * (1 - 2 * theta)) / 1000
    assert certificate([1000] * 4, [0] * 4, [100] * 4).points[0].gain_bound is None
    assert certificate([300] * 4, [0] * 4, [0] * 4).points[0].gain_bound is None
    # More certificates, and more strengths, have to share the error.
    assert certificate([1000] * 4, [100] * 4, [0] * 4, looks=2).points[0].gain_bound < found.points[0].gain_bound
    assert certificate([1000], [100], [0], strengths=[1.0]).points[0].gain_bound > found.points[0].gain_bound


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


def test_without_a_certificate_the_sentence_says_how_many_labels_would_do():
    found = certificate([400] * 4, [0] * 4, [0] * 4)
    assert found.sentence == (
        "No strength above 0 could be certified: it was not shown with 95% confidence that the accuracy lost against "
        f"the original model is at most 2%. For strength 1 it would take about {found.points[-1].labels_needed} "
        "labelled texts whose prediction at strength 1 differs, if all of those are fixed. Use a new sample: adding "
        "to this one "
        "until it passes is not valid, unless you planned that many looks."
    )
    # Of 200 labelled texts 9 get another answer, so for each that does 200 / 9 have to be labelled.
    seen = certificate([400] * 4, [6] * 4, [3] * 4)
    rows = math.ceil(seen.points[-1].labels_needed * 200 / 9)
    assert f"about {rows} labelled texts sampled like the 200 seen so far. With a margin of 18.4%, st" in seen.sentence


def test_few_texts_without_another_answer_call_for_more_texts_not_for_labels_that_cannot_be_had():
    found = certificate([0] * 4, [0] * 4, [0] * 4, n=8)
    needed = found.points[-1].unlabelled_needed
    assert certificate([0] * 4, [0] * 4, [0] * 4, n=needed).certified == (0.0, *STRENGTHS)
    assert certificate([0] * 4, [0] * 4, [0] * 4, n=needed - 1).certified == (0.0,)
    assert f"For strength 1 it would take about {needed} unlabelled texts and no label" in found.sentence
    assert "labelled texts with" not in found.sentence.replace("unlabelled", "")


def test_what_would_do_is_said_of_the_strength_in_use_and_of_all_before_it():
    found = certificate([10, 10, 400, 400], [0, 0, 40, 40], [0, 0, 60, 60])  # 3 and 4 harm: only the way up is open
    counts = [point.labels_needed for point in found.points]
    assert counts[2:] == [None, None]
    for in_use, count in ((0.25, counts[0]), (0.5, max(counts[:2]))):
        assert f"For strength {in_use:g} it would take about {count} lab" in replace(found, in_use=in_use).sentence
    # The second needs fewer than the first, which comes before it.
    found = certificate([300, 300, 400, 400], [6, 3, 40, 40], [4, 1, 60, 60])
    rows = [math.ceil(point.labels_needed * 200 / point.labelled) for point in found.points[:2]]
    assert rows[0] > rows[1]
    said = replace(found, in_use=0.5).sentence
    assert f"it would take about {rows[0]} labelled texts sampled like the 200 seen so far" in said
    assert "(so many for 0.25, which is tested before it)" in said
    # A strength that no number of labels would do for: a weaker one, and the margin that was shown for it.
    assert (
        f"More texts like those seen so far would not change that. Strength 0.5 would take about {rows[0]} labelled "
        "texts. With a margin of 17.7%, strength 0.75 would have passed. Use a new "
    ) in replace(found, in_use=0.75).sentence


def test_another_strength_or_margin_is_named_where_it_asks_for_less():
    counts = ([30, 300, 300, 300], [4, 30, 30, 30], [1, 25, 25, 25])
    found = certificate(*counts, margin=0.015)
    weak, strong = (math.ceil(p.labels_needed * 200 / p.labelled) for p in (found.points[0], found.points[-1]))
    assert weak <= strong / 2
    assert f". Strength 0.25 would take about {weak} labelled texts. With a margin" in found.sentence
    bound = math.ceil(1000 * found.points[-1].loss_bound) / 1000
    assert f" With a margin of {100 * bound:.10g}%, strength 1 would have passed. Use a new sample" in found.sentence
    # One that takes more than half of the labels is not worth a sentence: 360 for 400.
    near = certificate([30, 300, 300, 300], [4, 3, 3, 3], [1, 0, 0, 0], margin=0.015)
    assert [math.ceil(p.labels_needed * 200 / p.labelled) for p in near.points[::3]] == [360, 400]
    assert "would take about 400 labelled texts sampled like the 200 seen so far. With a margin" in near.sentence
    assert certificate(*counts, margin=bound).points[-1].certified
    assert not certificate(*counts, margin=bound - 0.002).points[-1].certified


def test_the_page_on_certificates_shows_what_is_said():
    shares = np.arange(1, 11) / 10
    labelled, lost = (100 * shares).astype(int), (44 * shares).astype(int)
    counts = (240 * shares).astype(int), labelled - lost, lost
    said = certificate(*counts, n=800, n_labels=100, strengths=shares).sentence
    assert said in " ".join((ROOT / "docs" / "howto" / "certify.md").read_text(encoding="utf-8").split())


def from_answers(strengths, base, guarded):
    """Of texts that are unlabelled and labelled at once, of class 1 all of them."""
    base = np.array(base, dtype=int)
    guarded = np.array(guarded, dtype=int).reshape(len(strengths), len(base))
    answers = {"unlabelled_base": base, "unlabelled_guarded": guarded, "labelled_base": base}
    return certify_answers(strengths, CertifyConfig(), **answers, labelled_guarded=guarded, labels=np.ones_like(base))


def test_answers_are_counted_where_they_differ_and_nothing_is_certified_without_any():
    found = from_answers((0.5, 1.0), [0, 0, 1, 1], [[0, 0, 1, 0], [1, 2, 1, 0]])
    counted = [(p.differing, p.labelled, p.gained, p.lost) for p in found.points]
    assert counted == [(1, 1, 0, 1), (3, 3, 1, 1)]  # a wrong answer for another wrong one is neither gained nor lost
    with pytest.raises(ConfigError, match=r"^A certificate is for strengths above 0, but the grid of this repair has"):
        from_answers((), [0], [])
    with pytest.raises(DataError, match=r"^A certificate needs unlabelled texts from the deployment"):
        from_answers((1.0,), [], [])


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
