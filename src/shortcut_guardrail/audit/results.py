"""The result of an audit: totals, candidates and, for an audit in memory, every input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..cards import Card
from ..data import counted
from ..display import (
    LEGEND_ABOVE,
    MOST_ROWS,
    WIDTH,
    Shown,
    Summary,
    asked_for,
    chart,
    cut,
    number,
    p_value,
    some,
    whiskers,
)
from ..errors import ConfigError
from ..text import visible_name
from ..typing import Array, Erasure
from .defaults import Defaults
from .erasures import Erasures
from .evidence import Agreement, Candidate, ImportantToken
from .insertions import Insertions
from .leads import Lead
from .sampling import Sampled

if TYPE_CHECKING:  # PyTorch takes seconds to import, and results are read without it.
    from ..attribution import Saliency
    from ..models import EncodedTexts
    from .measurements import Measured

AUDIT_SCHEMA_VERSION = 1
"""The layout of `audit.json` that is written and rendered."""


@dataclass(frozen=True, repr=False)
class AuditReport(Shown):
    """What a model depends on, over N texts.

    Attributes:
        n: Number of texts, repeats included.
        n_distinct: Number of distinct texts; near-identical repeats (case, digits, punctuation) count once.
        unit: What is scored and masked: `token`, `word` or `phrase` (words, and phrases of them).
        fdr: The false-discovery rate of `flagged`.
        min_relative_effect: The share of pairs up to which a candidate's context is taken to explain its effect.
        predicted: How many texts each class is predicted for, in the order of `label_names`.
        mstps: Maximum single-token prediction sensitivity over all texts, in [0, 1]; of words for other units than
            `token`.
        sensitivity_histogram: Texts by their term in MSTPS, 20 equal bins over [0, 1].
        candidates: Units that are important in any text, at most 1,000. First the flagged ones, in the order in which
            they were found; then their alternative wordings and sets that override their texts; then other undecided
            ones, both by the lower end of the flip rate's interval; then the rest, by q-value and effect.
        n_candidates: Number of all candidates.
        n_tested: Number of candidates that occur often enough to be tested; the false-discovery rate is over them.
        n_undecided: Number of candidates whose masking changes predictions and that the test cannot flag or clear.
        set_p_value: Of the null hypothesis that no set of candidates overrides its texts together, apart from the
            flagged ones and their alternative wordings.
        agreement: How far attribution agrees with the true effect of masking.
        n_truncated: Texts longer than the model reads.
        notes: Sentences on what limits this audit, such as a class that is never predicted.
        cards: Word groups, the one that most predictions depend on first; see `cards.make_cards`.
        model: Hash of the audited weights.
        data: Hash of the texts in their order.
        erasures: What each way of erasing words does by itself, and which one was used. In an audit, masking means that
            one. `None` in the audit of an earlier version, which used the mask token.
        insertions: How many candidates were added to texts without them; `None` if none was.
        defaults: What is predicted without content and without cues; `None` if it was not measured.
        lead: What the words of a class do as a group, where texts without content are given another one.
        inputs: What is kept of every text; `None` for an audit in shards, and for one that is read from its folder.
        probs: Class probabilities of each text, shape (N, C), float32.
        answers: How many texts, whole or without words, were predicted for this audit; `None` if that was not counted.
        would_take: The `shortcuts.Shortcut`s that `fit` would treat as shortcuts by default, if that was computed.
        segmenter: What split words in scripts without spaces.
        sample: How the texts were sampled from a larger corpus; `None` if they are all. In a sample, `n` and all totals
            are of its random part.
    """

    n: int
    n_distinct: int
    unit: str
    top_k: int
    fdr: float
    min_relative_effect: float
    label_names: tuple[str, ...]
    predicted: tuple[int, ...]
    mstps: float
    sensitivity_histogram: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    n_candidates: int
    n_tested: int
    n_undecided: int
    agreement: Agreement
    n_truncated: int
    set_p_value: float = float("nan")
    notes: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    model: str = ""
    data: str = ""
    erasures: Erasures | None = None
    insertions: Insertions | None = None
    defaults: Defaults | None = None
    lead: Lead | None = None
    inputs: Measured | None = None
    probs: Array | None = field(default=None, compare=False)
    would_take: tuple[Any, ...] | None = None
    segmenter: str | None = None
    sample: Sampled | None = None
    answers: int | None = field(default=None, compare=False)
    seconds: float | None = field(default=None, compare=False)

    @property
    def flagged(self) -> tuple[Candidate, ...]:
        """The candidates that pass the false-discovery rate, strongest first."""
        return tuple(candidate for candidate in self.candidates if candidate.flagged)

    @property
    def undecided(self) -> tuple[Candidate, ...]:
        """The candidates that the test could not decide, those with the highest certain flip rate first."""
        return tuple(candidate for candidate in self.candidates if candidate.status == "undecided")

    @property
    def erasure(self) -> Erasure:
        """How words were erased."""
        return self.erasures.chosen if self.erasures else "mask"

    @property
    def encoded(self) -> EncodedTexts:
        """The texts as the model saw them; see `inputs`."""
        return self.measured.encoded

    @property
    def saliency(self) -> Saliency:
        """Important units and predictions of each text; see `inputs`."""
        return self.measured.saliency

    @property
    def measured(self) -> Measured:
        """What is kept of every text.

        Raises:
            ConfigError: The audit ran in shards, or was read from its folder.
        """
        if self.inputs is None:
            raise ConfigError(
                "This audit ran in shards, or was read from its folder, and keeps nothing of single texts. Audit them "
                "in one piece (without shard_size) to look at them one by one."
            )
        return self.inputs

    def important_tokens(self, index: int) -> tuple[ImportantToken, ...]:
        """The important units of one text, the most important first."""
        saliency, units = self.saliency, self.measured.units
        predicted = int(saliency.predictions[index])
        before = float(saliency.probs[index, predicted])
        found = zip(saliency.positions[index], saliency.scores[index], self.measured.effects.probs[index], strict=True)
        return tuple(
            ImportantToken.of(
                units.keys[index][unit],
                units.spans[index][unit],
                score,
                float(after[predicted]) - before,
                int(after.argmax()) != predicted,
            )
            for unit, score, after in found
            if unit >= 0
        )

    def input_to_dict(self, index: int, *, redact: bool = False) -> dict[str, Any]:
        """One text's prediction and its important units, JSON-ready; with `redact` without the units."""
        probs, tokens = self.saliency.probs[index], self.important_tokens(index)
        return input_line(index, self.label_names, probs, tokens, redact=redact)

    def _summary(self) -> Summary:
        shown, unit = self.candidates[:MOST_ROWS], "word or phrase" if self.unit == "phrase" else self.unit
        cut_ones = f", {self.n_truncated:,} cut" if self.n_truncated else ""
        answers = zip(self.label_names, self.predicted, strict=True)
        return Summary(
            f"AuditReport: {counted(self.n, 'text')} ({self.n_distinct:,} distinct{cut_ones})",
            {
                "MSTPS": number(self.mstps),
                "predicted": some([f"{cut(name, 20)} {count:,}" for name, count in answers]),
                "candidates": f"{self.n_tested:,} of {self.n_candidates:,} tested: {len(self.flagged):,} flagged at "
                f"FDR {self.fdr:.0%}, {self.n_undecided:,} undecided",
                **({} if self.answers is None else {"asked": asked_for(self.answers, self.seconds, self.n)}),
            },
            (unit, ">texts", ">flip rate", ">95 %", "pushes towards", ">q-value", "status"),
            [
                (
                    candidate.text,
                    candidate.count,
                    candidate.flip_rate,
                    candidate.interval.flip_rate,
                    candidate.pushes_towards,
                    None if math.isnan(candidate.p_value) else p_value(candidate.q_value),
                    candidate.status.replace("not_flagged", ""),
                )
                for candidate in shown
            ],
            more=self.n_candidates - len(shown),
            notes=(*(cut(note, 2 * WIDTH) for note in self.notes[:1]), "A candidate is a question, not a verdict."),
        )

    def plot(self, ax: Any = None, *, most: int = 10) -> Any:
        """A bar for each of the first candidates: how often masking it changes the prediction. Needs Matplotlib.

        A bar has the colour of the class that its candidate pushes towards, and its 95 % interval; it is pale where the
        candidate is not flagged.

        Args:
            ax: The Matplotlib axes; `None` makes new ones.
            most: How many candidates to show.
        """
        shown = self.candidates[:most]
        ax = chart(ax, height=1.2 + 0.3 * max(4, len(shown)))
        rates = [candidate.flip_rate for candidate in shown]
        of_class = {name: f"C{i % 10}" for i, name in enumerate(self.label_names)}
        colours = [(of_class.get(c.pushes_towards or "", "0.5"), 1.0 if c.flagged else 0.4) for c in shown]
        bars = ax.barh(range(len(shown)), rates, color=colours)
        sides = whiskers(rates, [candidate.interval.flip_rate for candidate in shown])
        ax.errorbar(rates, range(len(shown)), xerr=sides, fmt="none", ecolor="0.4", capsize=2)
        ax.set_yticks(range(len(shown)), [cut(visible_name(c.text), 30) for c in shown])
        ax.invert_yaxis()
        ax.set(xlim=(0, 1), xlabel="flip rate (95 % interval); pale: not flagged")
        first: dict[str, Any] = {}
        for candidate, bar in zip(shown, bars, strict=True):
            first.setdefault(cut(visible_name(candidate.pushes_towards or "no class"), 30), bar)
        legend = ax.legend(first.values(), first, title="pushes towards", **LEGEND_ABOVE)
        for text in [*ax.get_yticklabels(), *legend.get_texts()]:
            text.set_parse_math(False)  # a word with dollar signs is no formula
        return ax

    def without_text_hashes(self) -> AuditReport:
        """The same without hashes of texts, from which short texts can be guessed (docs/reference/privacy.md)."""
        cards = [replace(card, flips=tuple(replace(flip, text_hash="") for flip in card.flips)) for card in self.cards]
        return replace(self, cards=tuple(cards))

    def to_dict(self, *, redact: bool = False) -> dict[str, Any]:
        """A JSON-ready dictionary, documented in docs/explanation/audit.md; what is undefined is `None`.

        Args:
            redact: Leave out the texts and their important units. Candidates are still spelled out.
        """
        values = {"schema_version": AUDIT_SCHEMA_VERSION, **asdict(replace(self, inputs=None, probs=None))}
        del values["inputs"], values["probs"]
        if (taken := values.pop("would_take")) is not None:
            values["fit_would_take"] = taken
        values["predicted"] = dict(zip(self.label_names, self.predicted, strict=True))
        if redact:
            for example in (example for candidate in values["candidates"] for example in candidate["examples"]):
                example.update(text=None, text_pair=None, important=())
            for flip in (flip for card in values["cards"] for flip in card["flips"]):
                flip.update(text=None, text_pair=None)
        plain: dict[str, Any] = _defined(values)
        return plain


def _defined(value: Any) -> Any:
    """Lists for tuples, and `None` for numbers that are not finite, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _defined(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_defined(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def input_line(
    index: int, label_names: Sequence[str], probs: Array, tokens: Sequence[ImportantToken], *, redact: bool
) -> dict[str, Any]:
    """One input, JSON-ready; see `AuditReport.input_to_dict`."""
    answer = int(probs.argmax())
    return {
        "index": index,
        "label": label_names[answer],
        "probability": round(float(probs[answer]), 6),
        "sensitivity": max((abs(token.change) for token in tokens), default=0.0),
        "important_tokens": [] if redact else [asdict(token) for token in tokens],
    }
