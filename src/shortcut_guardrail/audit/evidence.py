"""What an audit says about units (tokens, words, phrases) and texts: plain frozen results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from ..cards import Status
from ..data import Count, Defined, NotEmpty, Share, Within
from ..metrics import GroupAccuracy
from ..typing import Array
from .insertions import Insertion

Segment = Annotated[int, Within(0, 1)]


@dataclass(frozen=True)
class ImportantToken:
    """One important unit (token, word or phrase) of one text.

    Attributes:
        text: Its characters, lower case; for the unit `token`, `##` marks a piece from inside a word.
        start: First character in the text (or in the pair, if `segment` is 1).
        end: One past the last character.
        segment: 0 for the text, 1 for its pair.
        score: Saliency s_i, 0 or more.
        change: P(predicted class) with the unit masked minus without; negative if the unit supports the prediction.
        flips: Whether masking it changes the predicted class.
    """

    text: str
    start: Count
    end: Count
    segment: Segment
    score: Annotated[float, Defined()]
    change: Annotated[float, Defined()]
    flips: bool

    @classmethod
    def of(cls, text: str, span: Array, score: float, change: float, flips: bool) -> ImportantToken:
        """From a span as arrays have it: start, end and segment, shape (3,)."""
        start, end, segment = (int(x) for x in span)
        return cls(text, start, end, segment, float(score), change, flips)


@dataclass(frozen=True)
class Example:
    """One text before and after a candidate is masked in it.

    Attributes:
        index: Which of the audited texts it is, from 0.
        text: The text; `None` if texts are left out.
        segment: 0 if the candidate is in the text, 1 if in its pair.
        start: First character of the candidate.
        end: One past its last character.
        label: The prediction for the whole text.
        masked_label: The prediction with the candidate masked.
        masked_probability: The probability of that prediction.
        change: Change of the first prediction's probability.
        important: The important units of this text, most important first, for heat-maps; none if texts are left out.
        true_label: The text's label, if labels were given.
    """

    index: Count
    text: str | None
    text_pair: str | None
    segment: Segment
    start: Count
    end: Count
    label: str
    probability: Annotated[Share, Defined()]
    masked_label: str
    masked_probability: Annotated[Share, Defined()]
    change: Annotated[float, Defined()]
    important: tuple[ImportantToken, ...]
    true_label: str | None = None


@dataclass(frozen=True)
class Intervals:
    """95 % intervals of a candidate's rates, each (low, high); NaNs where undefined."""

    flip_rate: tuple[Share, Share]
    mean_change: tuple[float, float]
    override_rate: tuple[Share, Share]


@dataclass(frozen=True)
class LabelledEvidence:
    """What labels say about a candidate, over the distinct texts in which it is important.

    Attributes:
        accuracy_masked: The same with the candidate masked.
        flips_to_right: Texts predicted wrongly, and rightly with the candidate masked.
        flips_to_wrong: Texts predicted rightly, and wrongly with the candidate masked.
        flips_between_wrong: Texts predicted wrongly both times, differently.
        p_value: Exact two-sided McNemar test of the first two counts.
        groups: Accuracy by label and whether the text contains the candidate.
    """

    n: Count
    accuracy: Share
    accuracy_masked: Share
    flips_to_right: Count
    flips_to_wrong: Count
    flips_between_wrong: Count
    p_value: Share
    groups: tuple[GroupAccuracy, ...]


@dataclass(frozen=True)
class Candidate:
    """A token, word or phrase that is important in some texts: a question to a person, not a verdict.

    The rates are over the distinct texts in which it is important, so that repeated texts count once. The test is over
    all distinct texts that contain it, important or not; see `context`.

    Attributes:
        text: Its characters, lower case.
        unit: `token`, `word` or `phrase`.
        count: Number of inputs in which it is among the important units, repeats included.
        flip_rate: Share of texts whose prediction changes when it is masked.
        mean_change: Mean of P(predicted class) with it masked minus without, in [-1, 1].
        pushes_towards: The class whose probability it raises most in texts that contain it; `None` if it raises none.
        override_rate: Share of texts whose rest, with it masked, is confidently predicted to be another class.
        interval: 95 % intervals of the three.
        q_value: Smallest false-discovery rate at which it would be flagged; 1 if it was not tested.
        flagged: Whether it overrides the rest of its texts, at the audit's false-discovery rate.
        status: `flagged`; `undecided` if masking it changes predictions and the test is not decisive; else
            `not_flagged`.
        reason: Why an undecided one is undecided, in words; `None` for the others.
        alternative_wording: Whether it is undecided because it seems to be one shortcut with flagged ones; see
            `context`.
        collective: Whether it is undecided because it is one of a set that overrides its texts together; see `sets`.
        n_distinct: Number of distinct texts behind the rates.
        n_present: Number of distinct texts that contain it, important or not.
        opposed_rate: Share of those whose rest, with it masked, is predicted to be another class than `pushes_towards`.
        expected_rate: The same share among the texts without it, which the null hypothesis allows; NaN if too few
            texts.
        relative_effect: Take a text with it and one without: the share of such pairs in which the rest of the first
            supports `pushes_towards` less. A half is chance; NaN if it was not tested.
        p_value: Of the test against the null hypothesis; NaN if it occurs too seldom to be tested.
        examples: The texts with the largest effect; for the first candidates of the ranking.
        labelled: What labels say, if there are any; for the first candidates of the ranking.
        insertion: The effect of adding it to texts without it, if that was measured.
        n_texts: In a sample: how many distinct texts of the corpus were searched for it; `n_present` contain it.
            `None` if the audit has all texts.
    """

    text: str
    unit: str
    count: Count
    flip_rate: Share
    mean_change: float
    pushes_towards: str | None
    override_rate: Share
    interval: Intervals
    q_value: Share
    flagged: bool
    status: Status
    reason: str | None
    n_distinct: Count
    n_present: Count
    opposed_rate: Share
    expected_rate: Share
    relative_effect: Share
    p_value: Share
    examples: tuple[Example, ...] = field(default=(), repr=False)
    labelled: LabelledEvidence | None = None
    alternative_wording: bool = False
    collective: bool = False
    insertion: Insertion | None = None
    n_texts: Count | None = None

    @property
    def found(self) -> bool:
        """Whether the audit treats it as a shortcut: flagged, an alternative wording of that, or one of a set."""
        return self.flagged or self.alternative_wording or self.collective


@dataclass(frozen=True)
class Agreement:
    """How far attribution agrees with the true effect of masking, input by input.

    Attributes:
        mean: Mean over texts of the rank correlation between the scores and the absolute effects of the important
            units, in [-1, 1]; NaN where no text has three of them.
        n: Number of texts that have one.
        top_agrees: Share of texts whose highest-scored unit is also the one with the largest effect.
        untrusted: Share of texts whose correlation is not above 0, so that attribution cannot be trusted there.
        histogram: Texts by correlation, 20 equal bins over [-1, 1].
    """

    mean: float
    n: Count
    top_agrees: Share
    untrusted: Share
    histogram: Annotated[tuple[Count, ...], NotEmpty()]
