"""Important units over a corpus, ranked as candidates for being shortcuts, each with its evidence."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from ..cards import Pieces, PullingWord, make_cards
from ..classifiers import require
from ..config import AuditConfig
from ..data import counted
from ..errors import ConfigError, DataError, GuardrailWarning
from ..models import BudgetSpentError, EncodedTexts, Reader, TextClassifier, said_of_controls
from ..stats import exact_interval
from ..text import Repeats, WordFinder, evidence_key, find_repeats, segmenter_name, text_key
from ..typing import Array, Erasure, Progress, Text
from .asking import Plan, ask_words, unsteady
from .context import Outcomes, Shards, Tally, judge, tally
from .defaults import MOST_CUES, find_defaults
from .erasures import Erasures, sampled_texts, try_erasures
from .evidence import Agreement, Candidate, Intervals
from .examples import TextsOf, find_details
from .insertions import COST as ADDED
from .insertions import POOL, Wanted, sides, try_insertions
from .leads import find_lead
from .measurements import Attributed, Measured, Shard, attribute, make_shard, measure
from .phrases import acting_together, with_phrases
from .results import AuditReport
from .sampling import Drawing, Sample
from .sets import with_set

MAX_CANDIDATES = 1000
"""Candidates kept in a report; a large corpus has as many as it has words."""

DETAILED = 50
"""Candidates of the ranking that come with examples and labelled evidence."""

ROOM = 16
"""Tokens that a text has to be below the most that the model reads for candidates to be added to it."""

LOW_AGREEMENT = 0.2
"""Below this mean rank correlation the report says that attribution is not to be trusted."""


def audit_texts(
    classifier: Reader,
    encoded: EncodedTexts,
    config: AuditConfig | None = None,
    *,
    labels: Array | None = None,
    sample: Sample | None = None,
    with_cards: bool = True,
    progress: Progress | None = None,
) -> AuditReport:
    """Attribute, mask, test and rank, all in memory: 2 + k forward passes for each distinct text, and what cards and
    the choice of the erasure cost. A classifier without gradients is asked about texts without each of their words
    instead; see `asking`.

    Args:
        labels: True class ids, shape (N,), where they are known.
        sample: How the texts were drawn, if they are a sample of a larger corpus.
        with_cards: Whether to make cards, which nothing but a person's eye needs.

    Raises:
        DataError: A text has no ordinary token.
        ConfigError: The unit or the budget is not for this classifier.
    """
    config = config or AuditConfig()
    check_ordinary(encoded)
    texts, rows, repeats = _distinct(encoded, sample)
    with classifier.spent.within(config.budget) as spent:
        how = _by_gradients if "gradients" in classifier.capabilities else _by_asking
        measured, erasures, said = how(classifier, texts, config, progress)
        told: dict[str, Any] = {"rows": rows, "repeats": repeats, "labels": labels, "progress": progress}
        told["drawing"] = texts.drawing
        shard = _shard(classifier, config, measured, erasures.chosen, **told)
        everywhere = np.searchsorted(rows, repeats.same_as)
        everything = measured.select(everywhere)
        report = make_report(
            lambda: [shard],
            config,
            classifier.label_names,
            texts_of=lambda indices: {i: encoded.texts[i] for i in indices},
            erasures=erasures,
            inputs=everything,
            drawing=texts.drawing,
        )
        about = () if sample is None else (sample.about.note,)
        report = replace(report, probs=everything.saliency.probs, notes=(*about, *said, *report.notes))
        report = replace(report, sample=None if sample is None else sample.about)
        if with_cards:
            distinct = np.flatnonzero(shard.evidence & shard.compared)
            pieces = [(rows[distinct], measured.encoded.select(distinct), shard.probs[distinct])]
            report = complete(report, classifier, lambda: pieces, texts.keys[everywhere], config, progress)
    return replace(report, answers=spent.answers, seconds=round(spent.seconds, 3))


def answers_needed(encoded: EncodedTexts, config: AuditConfig) -> tuple[int, int]:
    """How many answers it takes to audit what only answers; see `ShortcutGuardrail.answers_needed`."""
    texts, rows, _ = _distinct(encoded, None)
    least, most = Plan.of(*texts, config).answers()
    most += int(ADDED * (2 + config.top_k) * len(rows))
    return (min(least, config.budget), min(most, config.budget)) if config.budget else (least, most)


class _Texts(NamedTuple):
    """D distinct texts, which of them are evidence, and their `text_key`s, both of shape (D,), and how they were drawn
    from a larger corpus."""

    encoded: EncodedTexts
    evidence: Array
    keys: Array
    drawing: Drawing | None = None

    def tried(self, top_k: int) -> Array:
        """Which of them erasures are tried in."""
        of_all = self.evidence if self.drawing is None else self.evidence & self.drawing.compared
        return sampled_texts(self.keys, of_all, top_k)


def _distinct(encoded: EncodedTexts, sample: Sample | None) -> tuple[_Texts, Array, Repeats]:
    """The distinct ones of N texts, which rows these are, and which repeat another."""
    keys = np.array([text_key(text) for text in encoded.texts], dtype=np.uint64)
    if sample is not None:
        return _Texts(encoded, sample.repeats.evidence, keys, sample.drawing), sample.repeats.same_as, sample.repeats
    repeats = find_repeats(keys, [evidence_key(text) for text in encoded.texts])
    rows = np.flatnonzero(repeats.weights > 0)
    return _Texts(encoded.select(rows), repeats.evidence[rows], keys[rows]), rows, repeats


_Found = tuple[Measured, Erasures, tuple[str, ...]]


def _by_gradients(reader: Reader, texts: _Texts, config: AuditConfig, progress: Progress | None) -> _Found:
    """What erasing the units changes that the gradients find important."""
    classifier = cast(TextClassifier, reader)
    if classifier.mask_token_id is None and (config.unit == "token" or config.erasure not in ("auto", "cut")):
        require(classifier, "masks", "an audit of tokens, or by another erasure than cutting")
    found = attribute(classifier, texts.encoded, config, progress=progress)
    erasures = try_erasures(classifier, found, texts.tried(config.top_k), texts.keys, config)
    return measure(classifier, found, config, erasures.chosen, progress=progress), erasures, ()


def _by_asking(reader: Reader, texts: _Texts, config: AuditConfig, progress: Progress | None) -> _Found:
    """What cutting changes of the words that stand in enough texts."""
    if config.unit == "token":
        raise ConfigError(f"The unit token is for encoders, and '{reader.name}' only answers. Audit words or phrases.")
    if config.erasure not in ("auto", "cut"):
        raise ConfigError(f"'{reader.name}' only answers, so that words are cut out. Leave erasure out.")
    plan = Plan.of(*texts, config)
    measured, said = ask_words(reader, texts.encoded, plan, config, progress=progress)
    assert measured.ends is not None
    found = Attributed(measured.encoded, measured.units, replace(measured.saliency, positions=measured.ends))
    erasures = try_erasures(reader, found, texts.tried(config.top_k), texts.keys, config)
    return measured, erasures, (*said, *unsteady(reader, cast("Sequence[Text]", texts.encoded.texts)))


def _shard(reader: Reader, config: AuditConfig, measured: Measured, erasure: Erasure, **told: Any) -> Shard:
    """The shard; without phrases where the budget leaves no answers for them."""
    try:
        return make_shard(reader, config, measured, erasure, **told)
    except BudgetSpentError:
        return make_shard(reader, replace(config, unit="word"), measured, erasure, **told)


def complete(
    report: AuditReport,
    classifier: Reader,
    pieces: Pieces,
    exact: Sequence[int] | Array,
    config: AuditConfig,
    progress: Progress | None,
) -> AuditReport:
    """The report with its cards, with what adding candidates does, and with what tells its model and its texts again,
    from the `text_key` of each."""
    words = [
        PullingWord(
            c.text,
            c.pushes_towards,
            changes=round(c.flip_rate * c.n_distinct) if c.n_distinct else 0,
            found=c.found,
            status=c.status,
            q_value=c.q_value,
        )
        for c in report.candidates
        if c.pushes_towards is not None
    ]
    cards = make_cards(classifier, words, pieces, erasure=report.erasure, progress=progress)
    with suppress(BudgetSpentError):
        report = _with_additions(report, classifier, pieces, np.asarray(exact, dtype=np.uint64), config)
    notes = (*report.notes, *_behind_the_cut(report, pieces, classifier.max_length))
    return replace(report, cards=cards, notes=notes, model=model_digest(classifier), data=texts_fingerprint(exact))


def _behind_the_cut(report: AuditReport, pieces: Pieces, most: int) -> list[str]:
    """How many flagged words stand where texts are cut off, if any, in a sentence."""
    finder, found = WordFinder(candidate.text for candidate in report.flagged), []
    if finder and report.n_truncated:
        for _, encoded, _ in pieces():
            for i in np.flatnonzero(encoded.truncated).tolist():
                sides = (
                    (encoded.text_of(i, side), encoded.visible_text(i, side)) for side in {*encoded.segments[i]} - {-1}
                )
                found.append(sum(o.start >= len(seen) for text, seen in sides for o in finder.find(text)))
    if not sum(found):
        return []
    return [
        f"Flagged words stand {counted(sum(found), 'time')} behind the {most} tokens that the model reads, in "
        f"{counted(sum(n > 0 for n in found), 'text')}. With windows (--windows) they are read too."
    ]


def _with_additions(
    report: AuditReport, classifier: Reader, pieces: Pieces, keys: Array, config: AuditConfig
) -> AuditReport:
    """The report with what adding candidates to texts does, and what is predicted without cues; none of tokens."""
    pool: list[tuple[int, Any, Array]] = []
    for rows, encoded, probs in pieces() if config.unit != "token" else ():
        # What is put behind the end of what the model sees would not be seen.
        room = [len(ids) + ROOM <= classifier.longest for ids in encoded.input_ids]
        pool += [(int(keys[row]), encoded.texts[i], probs[i]) for i, row in enumerate(rows) if room[i]]
        pool = sorted(pool, key=lambda one: one[0])[:POOL]
    if not pool:
        return report
    texts, probs = [text for _, text, _ in pool], np.array([of for *_, of in pool])
    wanted = [
        Wanted(c.text, report.label_names.index(c.pushes_towards), _side(c, texts), c.found)
        for c in report.candidates
        if c.pushes_towards is not None and c.n_present >= config.min_count
    ]

    def answer(copies: Sequence[Text]) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuardrailWarning)  # of a copy that is cut; few are, see `ROOM`
            return classifier.predict_proba(copies)

    found, tried, raising = try_insertions(answer, texts, probs, wanted, config, n_texts=report.n_distinct)
    candidates = tuple(replace(c, insertion=found.get(c.text)) for c in report.candidates)
    defaults = find_defaults(answer, texts, probs, _cues(report), report.label_names)
    report = replace(report, candidates=candidates, insertions=tried, defaults=defaults)
    with suppress(BudgetSpentError):
        of_class = {number: [one for one in raising if one.target == number] for number in range(probs.shape[1])}
        lead = find_lead(answer, texts, probs, of_class, defaults.probes, report.label_names)
        report = replace(report, lead=lead)
    return report


def _cues(report: AuditReport) -> dict[str, list[str]]:
    """By class the candidates that hold most of its predictions up, the strongest first."""
    ordered = sorted(report.candidates, key=lambda c: -c.flip_rate * c.n_distinct if c.n_distinct else 0.0)
    return {name: [c.text for c in ordered if c.pushes_towards == name][:MOST_CUES] for name in report.label_names}


def _side(candidate: Candidate, texts: Sequence[Text]) -> int:
    """On which side of a pair it stands more often."""
    if isinstance(texts[0], str):
        return 0
    finder = WordFinder([candidate.text])
    held = [sum(finder.present(sides(text)[side]) for text in texts) for side in (0, 1)]
    return int(held[1] >= held[0])


def texts_fingerprint(exact: Sequence[int] | Array) -> str:
    """One hash for texts in their order, from the `text_key` of each, shape (N,)."""
    return hashlib.sha256(np.asarray(exact, dtype=np.uint64).tobytes()).hexdigest()


def model_digest(reader: Reader) -> str:
    """All that decides the answers: weights, those of an adapter and its scale included, and how texts are read."""
    words = "" if segmenter_name() is None else f":{segmenter_name()}"
    if "adapts" not in reader.capabilities:
        own = reader.fingerprint()
        return hashlib.sha256(f"{own}{words}".encode()).hexdigest() if words else own
    classifier = cast(TextClassifier, reader)
    length = classifier.max_length if classifier.windows is None else f"{classifier.max_length} {classifier.windows}"
    read = f"{classifier.fingerprint()}:{length}:{classifier.heads.digest}{words}"
    probe = hashlib.sha256(read.encode())
    for name, parameter in sorted(classifier.model.named_parameters()):
        if ".lora_" in name:
            probe.update(name.encode() + parameter.detach().float().cpu().numpy().tobytes())
    for name, module in sorted(classifier.model.named_modules()):
        if isinstance(scaling := getattr(module, "scaling", None), dict):
            active = not getattr(module, "disable_adapters", False)
            probe.update(f"{name}:{sorted(scaling.items())}:{active}".encode())
    return probe.hexdigest()


def check_ordinary(encoded: EncodedTexts, numbers: Array | None = None) -> None:
    """Refuse texts in which nothing can be masked, with a `DataError` that names the first few by their `numbers`, 1 to
    N without."""
    numbers = np.arange(1, len(encoded) + 1) if numbers is None else numbers
    empty = [int(numbers[i]) for i, ordinary in enumerate(encoded.ordinary) if not ordinary.any()]
    if empty:
        some = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
        raise DataError(
            f"{len(empty)} of {len(encoded)} texts hold no token, so there is nothing to attribute "
            f"(text {some}). Remove them."
        )


# From shards to a report


def make_report(
    shards: Shards,
    config: AuditConfig,
    label_names: tuple[str, ...],
    *,
    texts_of: TextsOf,
    erasures: Erasures | None = None,
    inputs: Measured | None = None,
    drawing: Drawing | None = None,
) -> AuditReport:
    """Everything that an audit says, but for its cards, from shards that were made with this configuration."""
    totals = _totals(lambda: map(_at_random, shards()), len(label_names))
    controls = totals.pop("n_controls")
    phrases = acting_together(shards) if config.unit == "phrase" else {}
    if config.unit == "phrase":
        shards = with_phrases(shards, phrases)
    sums = tally(shards, config)
    outcomes = with_set(shards, sums, judge(shards, sums, config), config)
    order = _ranking(sums, outcomes)[:MAX_CANDIDATES]
    details = find_details(shards, [sums.names[i] for i in order[:DETAILED]], config.n_examples, label_names, texts_of)
    candidates = tuple(_candidate(sums, outcomes, i, config, label_names, details) for i in order)
    if drawing is not None:
        candidates = tuple(replace(c, n_texts=drawing.of(c.text).n) for c in candidates)
    return AuditReport(
        unit=config.unit,
        top_k=config.top_k,
        fdr=config.fdr,
        min_relative_effect=config.min_relative_effect,
        label_names=label_names,
        candidates=candidates,
        n_candidates=int((sums.count > 0).sum()),
        n_tested=int(sums.tested.sum()),
        n_undecided=int(outcomes.undecided.sum()),
        set_p_value=outcomes.set_p_value,
        notes=(*(erasures.notes if erasures else ()), *_notes(totals, controls, sums, label_names, config)),
        erasures=erasures,
        inputs=inputs,
        segmenter=segmenter_name(),
        **totals,
    )


def _at_random(shard: Shard) -> Shard:
    """The shard without the texts that were drawn for their words."""
    counts = shard.compared
    return replace(shard, weights=np.where(counts, shard.weights, 0), evidence=shard.evidence & counts)


def _totals(shards: Shards, n_classes: int) -> dict[str, Any]:
    """The fields of a report that are sums over texts, and `n_controls`, which a note says."""
    n = n_evidence = cut = controls = n_agreement = n_top = untrusted = n_distinct = 0
    predicted = np.zeros(n_classes, dtype=np.int64)
    bins, agreement_bins = np.zeros(20), np.zeros(20)
    sensitive = agreement = 0.0
    for shard in shards():
        n += int(shard.weights.sum())
        computed = shard.weights > 0
        n_distinct += int(computed.sum())
        n_evidence += int(shard.evidence.sum())
        cut += int(shard.weights[shard.truncated].sum())
        controls += int(shard.weights[shard.controls].sum())
        np.add.at(predicted, shard.predictions, shard.weights)
        sensitive += float((shard.sensitivity * shard.weights).sum())
        bins += np.histogram(shard.sensitivity, bins=20, range=(0, 1), weights=shard.weights)[0]
        defined = shard.agreement[computed & ~np.isnan(shard.agreement)]
        n_agreement += len(defined)
        agreement += float(defined.sum())
        untrusted += int((defined <= 0).sum())
        n_top += int(shard.top_agrees[computed].sum())
        agreement_bins += np.histogram(np.clip(defined, -1, 1), bins=20, range=(-1, 1))[0]
    return {
        "n": n,
        "n_distinct": n_evidence,
        "n_truncated": cut,
        "n_controls": controls,
        "predicted": tuple(int(x) for x in predicted),
        "mstps": sensitive / n,
        "sensitivity_histogram": tuple(int(x) for x in bins),
        "agreement": Agreement(
            mean=agreement / n_agreement if n_agreement else float("nan"),
            n=n_agreement,
            top_agrees=n_top / n_distinct,
            untrusted=untrusted / n_agreement if n_agreement else float("nan"),
            histogram=tuple(int(x) for x in agreement_bins),
        ),
    }


def _ranking(sums: Tally, outcomes: Outcomes) -> list[int]:
    """Flagged candidates as they were flagged, what goes with others and is undecided by their flips, and the rest; see
    `AuditReport`."""
    place = {candidate: i for i, candidate in enumerate(outcomes.flagged)}
    # What is known of several together is more than what is known of the other undecided ones.
    standings = len(place) + 2 - outcomes.undecided.astype(int) - (outcomes.alternative_wording | outcomes.collective)
    important = [i for i in range(len(sums.names)) if sums.count[i] > 0]

    def key(i: int) -> tuple[int, float, float, float, str]:
        surely_flips = 0.0
        if outcomes.undecided[i]:
            surely_flips = exact_interval(int(sums.flips[i]), int(sums.important[i]))[0]
        standing = place.get(i, int(standings[i]))
        return (standing, -surely_flips, round(float(outcomes.q[i]), 6), float(sums.change[i, 0]), sums.names[i])

    return sorted(important, key=key)


def _candidate(
    sums: Tally,
    outcomes: Outcomes,
    i: int,
    config: AuditConfig,
    label_names: tuple[str, ...],
    details: Mapping[str, Mapping[str, Any]],
) -> Candidate:
    n = int(sums.important[i])
    target, n_present = int(sums.target[i]), int(sums.present[i])
    return Candidate(
        text=sums.names[i],
        unit="phrase" if sums.n_words[i] > 1 else ("token" if config.unit == "token" else "word"),
        count=int(sums.count[i]),
        flip_rate=_share(sums.flips[i], n),
        mean_change=_share(sums.change[i, 0], n),
        pushes_towards=label_names[target] if target >= 0 else None,
        override_rate=_share(sums.contradicted[i], n),
        interval=Intervals(
            flip_rate=exact_interval(int(sums.flips[i]), n),
            mean_change=_mean_interval(float(sums.change[i, 0]), float(sums.change[i, 1]), n),
            override_rate=exact_interval(int(sums.contradicted[i]), n),
        ),
        q_value=float(outcomes.q[i]),
        flagged=i in outcomes.flagged,
        status="flagged" if i in outcomes.flagged else "undecided" if outcomes.undecided[i] else "not_flagged",
        reason=_reason(sums, outcomes, i, label_names[target]) if outcomes.undecided[i] else None,
        n_distinct=n,
        n_present=n_present,
        opposed_rate=_share(sums.opposed[i], n_present) if target >= 0 else float("nan"),
        expected_rate=float(outcomes.expected[i]) if target >= 0 else float("nan"),
        relative_effect=float(outcomes.relative_effect[i]),
        p_value=float(outcomes.p[i]),
        alternative_wording=bool(outcomes.alternative_wording[i]),
        collective=bool(outcomes.collective[i]),
        **details.get(sums.names[i], {}),
    )


def _reason(sums: Tally, outcomes: Outcomes, i: int, label: str) -> str:
    """Why the test could not tell of an undecided candidate."""
    n_present, without, needed = int(sums.present[i]), int(sums.without[i]), outcomes.needed[i]
    if outcomes.alternative_wording[i]:
        return (
            "its rest speaks less for the class, but not beyond doubt once the flagged words are masked: it seems "
            "to be an alternative wording of them"
        )
    if outcomes.collective[i]:
        return (
            f"it is one of {int(outcomes.collective.sum())} that override the rest of their texts together, as the "
            "words of one shortcut do; for none of them is it proven alone"
        )
    if not without:
        return "every text holds it, so there are none without it to compare with"
    if not outcomes.too_few[i]:
        return (
            f"it decides most of its texts, and whether their rest speaks less for '{label}' than other texts do is "
            "not settled: it may be the only evidence, or a shortcut"
        )
    if without < n_present:
        few = f"too few texts: only {without:,} distinct ones are without it"
        return few if math.isnan(needed) else f"{few}; at least {needed / n_present:.1f} times as many texts are needed"
    few = f"too few texts: it stands in {n_present:,} distinct ones"
    return few if math.isnan(needed) else f"{few}; at least {int(needed):,} are needed"


def _share(total: float, n: int) -> float:
    return float(total) / n if n else float("nan")


def _mean_interval(total: float, squares: float, n: int) -> tuple[float, float]:
    """95 % interval of a mean of changes, by Student's t, within [-1, 1]; NaNs for fewer than two."""
    if n < 2:
        return (float("nan"), float("nan"))
    from scipy.stats import t

    mean = total / n
    error = math.sqrt(max(squares / n - mean * mean, 0.0) / (n - 1))
    half = float(t.ppf(0.975, n - 1)) * error
    return (max(-1.0, mean - half), min(1.0, mean + half))


def _notes(
    totals: Mapping[str, Any], controls: int, sums: Tally, label_names: tuple[str, ...], config: AuditConfig
) -> tuple[str, ...]:
    notes = []
    never = [name for name, count in zip(label_names, totals["predicted"], strict=True) if not count]
    if never:
        notes.append(f"The model never predicts {', '.join(map(repr, never))} on these texts.")
    if controls:
        notes.append(said_of_controls(controls, totals["n"]))
    if totals["n_distinct"] < totals["n"]:
        notes.append(
            f"{totals['n'] - totals['n_distinct']} of {totals['n']} texts repeat another one, or nearly so, and add no "
            "evidence."
        )
    if not sums.tested.any():
        notes.append(
            f"Nothing occurs in {config.min_count} or more distinct texts, so no candidate was tested. More of them, "
            "not repeated ones, are needed."
        )
    if totals["agreement"].mean < LOW_AGREEMENT:  # NaN is not
        notes.append(
            f"Attribution agrees with the true effect of masking only weakly (mean rank correlation "
            f"{totals['agreement'].mean:.2f}): a large top_k misses less."
        )
    return tuple(notes)
