"""Which words and phrases are taken for shortcuts, from unlabelled texts, with labels where there are any.

Without labels these candidates are taken:

- those that the audit flags, and their alternative wordings;
- those that override their texts together beside these;
- what these bring with them that is alike in meaning (see `alike`);
- those that dominate the corpus (see `ShortcutConfig.dominant_share`). The audit's test cannot see them: it compares
  texts with a candidate to those without, and these stand nearly everywhere.

A support set, however small, clears or confirms candidates (see `labels`). A person's word comes before all evidence.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Container
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from ..audit import AuditReport, Candidate, audit_texts
from ..config import ShortcutConfig
from ..data import text_hash
from ..decisions import Decisions
from ..errors import ConfigError
from ..models import EncodedTexts, Reader
from ..stats import exact_interval
from ..text import (
    MAX_PHRASE_WORDS,
    Units,
    WordFinder,
    distinct_rows,
    erased_texts,
    parts_of,
    units_text,
    words_as_units,
)
from ..typing import Array, Erasure, Progress
from .labels import paired_evidence, weigh
from .named import Reason, Shortcut, Shortcuts, check_said, with_decisions, with_said
from .similar import LEAST_TEXTS, similar_words

MOST_DOUBTED = 5
"""So many words are taken although erasing changes much by itself. Where there are more, somebody has to decide."""

LEAST_SHARE = 0.01
"""A fixed phrase in a smaller share of the texts than this is not asked whether it dominates."""


def find_shortcuts(
    classifier: Reader,
    encoded: EncodedTexts,
    config: ShortcutConfig,
    *,
    support: tuple[EncodedTexts, Array] | None = None,
    decisions: Decisions | None = None,
    same_data: bool = True,
    report: AuditReport | None = None,
    progress: Progress | None = None,
) -> Shortcuts:
    """Audit the texts and decide which words count as shortcuts.

    Args:
        encoded: N unlabelled deployment texts.
        support: A few labelled texts and their class ids, shape (n,), to clear and confirm candidates on.
        decisions: On the cards of an audit of the model; they come before all evidence, and after `config`.
        same_data: See `with_decisions`.
        report: An audit of these texts by this model; without it they are audited. Its unit, `top_k` and `fdr` come
            before the configuration's defaults.

    Raises:
        ConfigError: What a person said contradicts itself, or the report is of tokens, which are no words, or made
            with another unit, `top_k` or `fdr` than somebody configured.
    """
    check_said(config)
    if report is None:
        report = audit_texts(classifier, encoded, config.audit(), with_cards=False, progress=progress)
    elif report.unit == "token":
        raise ConfigError("Shortcuts are words and phrases, but the report is of tokens. Audit words.")
    config = _as_audited(config, report)
    items = ranked_shortcuts(classifier, encoded, config, report, progress)
    taken = sum(item.evident for item in items)
    considered = max(taken, 0 if support is None else config.max_considered)
    items = [item for i, item in enumerate(items) if i < considered or item.reason == "many predictions"]
    if support is not None:
        items = weigh(items, paired_evidence(classifier, items, *support, report.erasure), config)
    elif report.erasures and report.erasures.weak and taken > MOST_DOUBTED:
        items = [replace(one, verdict="cleared", reason="weak evidence") if one.evident else one for one in items]
    items.sort(key=lambda item: -item.answers_held if item.listed else -math.inf)
    rows = () if support is None else tuple(sorted({text_hash(text) for text in support[0].texts}))
    weighed = Shortcuts(tuple(items), rows)
    if decisions is not None:
        weighed = with_decisions(weighed, decisions, same_data=same_data)
    shortcuts = with_said(weighed, config)
    return shortcuts if support is None else _named_on_support(classifier, shortcuts, support, report.erasure)


def _as_audited(config: ShortcutConfig, report: AuditReport) -> ShortcutConfig:
    """The configuration with the settings of the audit that was made; a `ConfigError` where others are asked for."""
    made: dict[str, Any] = {name: getattr(report, name) for name in ("unit", "top_k", "fdr", "erasure")}
    for name, value in made.items():
        if (asked := getattr(config, name)) not in (value, getattr(ShortcutConfig, name)):
            said = f"The audit was made with {name} {value}, and shortcuts.{name} is {asked}."
            raise ConfigError(f"{said} Audit with {asked}, or leave the setting out.")
    return replace(config, **made)


def _named_on_support(
    classifier: Reader, shortcuts: Shortcuts, support: tuple[EncodedTexts, Array], erasure: Erasure
) -> Shortcuts:
    """What labels say of words that a person named and the audit did not weigh; it changes no verdict, but shows where
    a legitimate word was named."""
    named = [item for item in shortcuts.items if item.verdict == "named" and not item.n_support]
    if not named:
        return shortcuts
    seen = zip(named, paired_evidence(classifier, named, *support, erasure), strict=True)
    counted = {item: replace(item, n_support=found.n, fixed=found.fixed, broken=found.broken) for item, found in seen}
    return replace(shortcuts, items=tuple(counted.get(item, item) for item in shortcuts.items))


def ranked_shortcuts(
    classifier: Reader,
    encoded: EncodedTexts,
    config: ShortcutConfig,
    report: AuditReport,
    progress: Progress | None,
) -> list[Shortcut]:
    """All candidates of the audit, those first that are shortcuts unless labels or a person object."""
    distinct = distinct_rows(encoded.texts)
    texts, probs = encoded.select(distinct), np.asarray(report.probs)[distinct]
    brought: dict[str, Shortcut] = {}
    sure = not (report.erasures and report.erasures.weak)  # else what it would take lacks what was found
    if sure and report.would_take is not None and config.dominant_share == ShortcutConfig.dominant_share:
        brought, dominant = (
            {one.text: one for one in report.would_take if one.reason == reason} for reason in ("similar", "dominant")
        )
    else:
        dominant = _dominant(classifier, texts, probs, report, config, progress)
        if report.flagged:
            fixed = fixed_phrases(words_as_units(texts), LEAST_TEXTS) if config.unit == "phrase" else {}
            counts = {phrase: len(rows) for phrase, rows in fixed.items()}
            brought = similar_words(classifier, texts, probs, report, phrases=counts, config=config.audit())
    least = config.influential_share * report.n / max(report.n_distinct, 1)  # of each text that was looked through
    items = {
        candidate.text: _audited(candidate, dominant, brought, config, least * (candidate.n_texts or report.n_distinct))
        for candidate in report.candidates
        if candidate.text in brought or not np.isnan(candidate.p_value)
    }
    for name, item in (*brought.items(), *dominant.items()):
        items.setdefault(name, item)
    return sorted(items.values(), key=lambda item: not item.evident)


def _audited(
    candidate: Candidate, dominant: Container[str], brought: Container[str], config: ShortcutConfig, least: float
) -> Shortcut:
    """A candidate of the audit; one that nothing speaks against counts as cleared until a support set confirms it. If
    masking it changes `least` answers, it has that for a reason, and may be found or cleared."""
    reason = _reason_found(candidate, dominant, brought)
    found = Shortcut(
        text=candidate.text,
        verdict="cleared" if reason is None else "found",
        reason=reason,
        count=candidate.count,
        flip_rate=candidate.flip_rate,
        pushes_towards=candidate.pushes_towards,
        q_value=candidate.q_value,
    )
    few = found.answers_held < least - 1e-9  # a count times a rate, which rounds
    if reason is not None or config.influential_share == 1 or few:
        return found
    return replace(found, verdict="found" if config.take_influential else "cleared", reason="many predictions")


def _reason_found(candidate: Candidate, dominant: Container[str], brought: Container[str]) -> Reason | None:
    reasons: dict[Reason, bool] = {
        "flagged": candidate.flagged,
        "alternative wording": candidate.alternative_wording,
        "set": candidate.collective,
        "similar": candidate.text in brought,
        "dominant": candidate.text in dominant,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _dominant(
    classifier: Reader,
    texts: EncodedTexts,
    probs: Array,
    report: AuditReport,
    config: ShortcutConfig,
    progress: Progress | None = None,
) -> dict[str, Shortcut]:
    """What decides most of its texts against the rest, where that of its class does so in very many texts.

    The share of distinct texts is tested exactly, over all classes; a text in which several decide counts once. Of what
    stands inside a phrase that decides as well, the phrase alone is kept. What the audit's test has found already is
    left out: it would draw along the legitimate words of its class.
    """
    from scipy.stats import binom

    deciding = _deciding(classifier, texts, probs, report, config, progress)
    inside = {part for found, _ in deciding for part in parts_of(found.text)}
    known = {c.text for c in report.candidates if c.found}
    classes: dict[str | None, list[tuple[Shortcut, list[int]]]] = {}
    for found, against in deciding:
        if found.text not in inside and not known & {found.text, *parts_of(found.text)}:
            classes.setdefault(found.pushes_towards, []).append((found, against))
    chosen: dict[str, Shortcut] = {}
    for members in classes.values():
        contradicted = {i for _, against in members for i in against}
        p_value = float(binom.sf(len(contradicted) - 1, len(texts), config.dominant_share))
        if p_value <= config.fdr / len(report.label_names):
            chosen |= {found.text: found for found, _ in members}
    return chosen


_MOST = 0.5


def _deciding(
    classifier: Reader,
    texts: EncodedTexts,
    probs: Array,
    report: AuditReport,
    config: ShortcutConfig,
    progress: Progress | None,
) -> list[tuple[Shortcut, list[int]]]:
    """Words and fixed phrases that decide most of their texts when they are masked as a whole, with the texts whose
    rest is confidently given another answer; "most" is asked of the lower end of an interval.

    The audit joins words whose effects interact. The words of a fixed phrase may instead each add their share, and none
    of them decide a text; so runs of words that recur as a whole are masked as a whole.
    """
    audit = config.audit()
    candidates = {
        c.text: np.flatnonzero(WordFinder([c.text]).present_in(texts)).tolist()
        for c in report.candidates
        if not np.isnan(c.p_value) and c.interval.override_rate[0] > _MOST
    }
    if config.unit == "phrase":
        least = max(audit.min_count, math.ceil(LEAST_SHARE * len(texts)))
        candidates = fixed_phrases(words_as_units(texts), least) | candidates
    read = [_Reading.of(name, rows) for name, rows in candidates.items()]
    _read_masked(classifier, texts, probs, read, audit.confidence, progress, erasure=report.erasure)
    return [(one.result(probs, report.label_names), one.against) for one in read if one.spare >= 0]


@dataclass(eq=False)
class _Reading:
    """What the texts of one candidate are answered with it masked, as far as they were read.

    Attributes:
        spare: In how many more texts the rest may fail to contradict the answer before it cannot be most of them; once
            it is below 0, the candidate does not decide them.
        after: Class probabilities of those that were read, with it masked.
        against: Which texts have a rest that is confidently given another answer.
    """

    finder: WordFinder
    rows: list[int]
    spare: int
    after: list[Array] = field(default_factory=list)
    against: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, rows: list[int]) -> _Reading:
        return cls(WordFinder([name]), rows, len(rows) - _least_for_most(len(rows)))

    def next(self) -> list[int]:
        """The fewest texts after which it may be known that it cannot."""
        done = len(self.after)
        return self.rows[done : done + self.spare + 1]

    def take(self, after: Array, before: Array, confidence: float) -> None:
        """The answer to the next text with and without the mask, both of shape (C,)."""
        if after.argmax() != before.argmax() and after.max() >= confidence:
            self.against.append(self.rows[len(self.after)])
        else:
            self.spare -= 1
        self.after.append(after)

    def result(self, probs: Array, label_names: tuple[str, ...]) -> Shortcut:
        """What it is, once all its texts were read."""
        before, after = probs[self.rows], np.array(self.after)
        flips = float((after.argmax(axis=1) != before.argmax(axis=1)).mean())
        pushes_towards = label_names[int((before - after).sum(axis=0).argmax())]
        return Shortcut(self.finder.words[0], "found", "dominant", len(self.rows), flips, pushes_towards)


@cache
def _least_for_most(n: int) -> int:
    """Of how many texts out of n the lower end of the interval is above a half; n + 1 where not even all are enough."""
    return bisect_left(range(n + 1), True, key=lambda k: exact_interval(k, n)[0] > _MOST)


_PAIRS_AT_ONCE = 2048


def _read_masked(
    classifier: Reader,
    texts: EncodedTexts,
    probs: Array,
    candidates: list[_Reading],
    confidence: float,
    progress: Progress | None,
    *,
    erasure: Erasure = "mask",
) -> None:
    """Read the texts of each candidate with it masked, but no more of them than it takes to know that it does not
    decide most of them. Common phrases seldom do, and are known by a few texts each."""
    while pairs := [(one, i) for one in candidates for i in one.next()]:
        for first in range(0, len(pairs), _PAIRS_AT_ONCE):
            chosen = pairs[first : first + _PAIRS_AT_ONCE]
            masked = erased_texts(
                texts.select([i for _, i in chosen]),
                [np.flatnonzero(one.finder.tokens(texts, i)) for one, i in chosen],
                classifier.mask_token_id,
                erasure,
            )
            for (one, i), after in zip(chosen, classifier.predict_proba(masked), strict=True):
                one.take(after, probs[i], confidence)
            if progress is not None:
                settled = sum(not one.next() for one in candidates)
                progress("Masking candidates as a whole", settled, len(candidates))


def fixed_phrases(units: Units, min_count: int) -> dict[str, list[int]]:
    """Runs of 2 to 5 words that stand in enough texts, and in which; those that all but always stand inside a longer
    one are left to that one."""
    texts: dict[str, list[int]] = {}
    for i, keys in enumerate(units.keys):
        wordlike, segments = units.wordlike[i], units.spans[i][:, 2]
        here = set()
        for first in range(len(keys)):
            for last in range(first + 1, min(first + MAX_PHRASE_WORDS, len(keys))):
                if not wordlike[first : last + 1].all() or segments[first] != segments[last]:
                    break
                here.add(units_text(units, i, first, last))
        for phrase in here:
            texts.setdefault(phrase, []).append(i)
    recurring = {phrase: rows for phrase, rows in texts.items() if len(rows) >= min_count}
    left = {
        part
        for phrase, rows in recurring.items()
        for part in parts_of(phrase)
        if len(rows) >= 0.9 * len(recurring.get(part, rows))
    }
    return {phrase: rows for phrase, rows in recurring.items() if phrase not in left}
