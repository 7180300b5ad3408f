"""Audits of a sample: at random first, and then with more texts for the words on which these do not settle.

Half of the sample is audited as it is. *Open* is a word that is not flagged, that changes predictions there, and that
its context does not clear. Open words are looked for in the whole corpus, and the texts that are added hold one of
them. If one of them is common, random texts are added instead: what it lacks are texts without it, and as long as it is
not flagged, it speaks for its class in the texts that others are compared with.

All is tested once more, a word that was looked for on all texts with it below a place, and others on random ones.
Choosing words by what the first half shows costs no validity: what is not open there could not be flagged by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..config import AuditConfig
from ..data import TextSource
from ..errors import ConfigError
from ..models import Reader
from ..typing import Array, Progress
from .auditing import audit_texts
from .context import EVEN, RARE_TEXTS
from .results import AuditReport
from .sampling import Corpus, Sample

LEAST = 100
"""Of fewer texts hardly anything can be tested."""

BASE = 0.5
"""The share of a sample that is random; the rest is added for words."""

COMMON = 0.05
"""In which share of the first half a word is common."""


@dataclass(frozen=True)
class SampledAudit:
    """What an audit of a sample found, and the sample."""

    report: AuditReport
    sample: Sample


def audit_sample(
    reader: Reader,
    source: TextSource,
    size: int,
    config: AuditConfig,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> SampledAudit:
    """Audit about `size` distinct texts of a source, which is read three times.

    Raises:
        ConfigError: `size` is below `LEAST`.
        DataError: The source holds no text, or was changed while it was read.
    """
    if size < LEAST:
        raise ConfigError(f"A sample must have at least {LEAST} texts, but {size} were asked for.")
    corpus = Corpus.read(source, seed, progress)
    if size >= corpus.distinct:
        sample = corpus.base(corpus.distinct, progress)
        return SampledAudit(_audit(reader, sample, config, progress), sample)
    base = corpus.base(int(BASE * size), progress)
    first = _audit(reader, base, replace(config, budget=config.budget // 2), progress, with_cards=False)
    words = {
        one.text: one.n_present / first.n_distinct
        for one in first.candidates
        if not one.flagged
        and is_open(one.n_present, round(one.flip_rate * one.n_distinct), one.relative_effect, config)
    }
    if any(share >= COMMON for share in words.values()):
        sample = corpus.base(size, progress)
    else:
        sample = corpus.with_words(base, list(words), size - len(base.rows), progress) if words else base
    left = config.budget and max(1, config.budget - (first.answers or 0))
    report = _audit(reader, sample, replace(config, budget=left), progress)
    answers, seconds = (first.answers or 0) + (report.answers or 0), (first.seconds or 0) + (report.seconds or 0)
    return SampledAudit(replace(report, answers=answers, seconds=round(seconds, 3)), sample)


def _audit(
    reader: Reader, sample: Sample, config: AuditConfig, progress: Progress | None, *, with_cards: bool = True
) -> AuditReport:
    labels: Array | None = None if sample.labels is None else reader.label_ids(sample.labels)
    encoded = reader.encode(sample.texts)
    return audit_texts(reader, encoded, config, labels=labels, sample=sample, with_cards=with_cards, progress=progress)


def is_open(n_present: int, changed: int, relative_effect: float, config: AuditConfig) -> bool:
    """Whether a word that is not flagged changes predictions, and more texts may show that it overrides them.

    Args:
        n_present: Texts of the base that hold it.
        changed: Of these, texts whose prediction changes without it.
        relative_effect: As in `Candidate`; NaN where it was not tested.
    """
    from scipy.stats import binom

    if n_present < RARE_TEXTS or relative_effect < EVEN:
        return False
    return bool(binom.sf(changed - 1, n_present, config.min_pull) <= config.fdr)
