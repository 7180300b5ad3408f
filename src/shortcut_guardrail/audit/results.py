"""What an audit found: totals, candidates and, for an audit in memory, every input."""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from ..attribution import MaskingEffects, Saliency
from ..errors import ConfigError
from ..keys import key_of, stored
from ..metrics import sensitivity
from ..models import EncodedTexts
from ..text import Units
from ..typing import Array
from .cards import Card
from .evidence import Agreement
from .evidence import Candidate as Candidate
from .evidence import ImportantToken as ImportantToken

AUDIT_SCHEMA_VERSION = 7


@dataclass(frozen=True)
class AuditedInputs:
    """What an audit keeps of every text, where all of them fit into memory.

    Attributes:
        encoded: The texts as the model saw them.
        saliency: Important tokens and predictions of each text.
        effects: Predictions with each important token masked.
        units: The units of each text; `saliency.positions` names them (for the unit `token` they are positions).
    """

    encoded: EncodedTexts
    saliency: Saliency
    effects: MaskingEffects
    units: Units


@dataclass(frozen=True)
class AuditReport:
    """What a model leans on, over N texts.

    Attributes:
        n: Number of texts, repeats included.
        n_distinct: Number of distinct texts; near-identical repeats (case, digits, punctuation) count once.
        unit: What is scored and masked: `token`, `word` or `phrase` (words, and phrases of them).
        top_k: Important units per text.
        fdr: The false-discovery rate that `flagged` promises.
        min_relative_effect: The share of pairs up to which a candidate's context is taken to warrant what it does.
        label_names: Names of the classes.
        predicted: How many texts were given each class, in the order of `label_names`.
        mstps: Maximum single-token prediction sensitivity, in [0, 1], over all texts; for another unit than `token` the
            same of words.
        sensitivity_histogram: Texts by their term in MSTPS, 20 equal bins over [0, 1].
        candidates: What is important anywhere: first what is flagged, in the order in which it was found; then what
            takes turns with it, or overrides its texts together; then what else is undecided, both by the lower end of
            the flip rate's interval; then the rest by q-value and by the probability it holds up. At most the first
            1,000.
        n_candidates: How many there are in all.
        n_tested: Number of candidates that occur often enough to be tested; the false-discovery rate is over them.
        n_undecided: Number of candidates that take answers away and that the test can neither flag nor clear.
        set_p_value: Of the null hypothesis that no set of candidates overrides its texts together, beside those
            that are flagged and those that take turns with them.
        agreement: How far attribution agrees with the true effect of masking.
        n_truncated: Texts longer than the model takes.
        notes: Sentences on what limits this audit, such as a class that is never predicted.
        cards: Sets of words taken together, that on which most answers hang first; see `masked_sets.make_cards`.
        inputs: What is kept of every text; `None` for an audit in shards.
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
    inputs: AuditedInputs | None = field(default=None, repr=False)

    @property
    def flagged(self) -> tuple[Candidate, ...]:
        """The candidates that pass the false-discovery rate, strongest first."""
        return tuple(candidate for candidate in self.candidates if candidate.flagged)

    @property
    def undecided(self) -> tuple[Candidate, ...]:
        """The candidates on which the test could not tell, those with the surest flips first."""
        return tuple(candidate for candidate in self.candidates if candidate.status == "undecided")

    @property
    def encoded(self) -> EncodedTexts:
        """The texts as the model saw them; see `inputs`."""
        return self._kept.encoded

    @property
    def saliency(self) -> Saliency:
        """Important units and predictions of each text; see `inputs`."""
        return self._kept.saliency

    @property
    def effects(self) -> MaskingEffects:
        """Predictions with each important unit masked; see `inputs`."""
        return self._kept.effects

    @property
    def _kept(self) -> AuditedInputs:
        if self.inputs is None:
            raise ConfigError(
                "This audit ran in shards and keeps nothing of single texts. Audit them in one piece (without "
                "shard_size) to look at them one by one."
            )
        return self.inputs

    def important_tokens(self, index: int) -> tuple[ImportantToken, ...]:
        """The important units of one text, the most important first."""
        kept = self._kept
        predicted = int(kept.saliency.predictions[index])
        before = float(kept.saliency.probs[index, predicted])
        tokens = []
        for slot, unit in enumerate(kept.saliency.positions[index]):
            if unit < 0:
                break
            after = kept.effects.probs[index, slot]
            start, end, segment = (int(x) for x in kept.units.spans[index][unit])
            tokens.append(
                ImportantToken(
                    text=kept.units.keys[index][unit],
                    position=int((kept.units.of_token[index] == unit).argmax()),
                    start=start,
                    end=end,
                    segment=segment,
                    score=float(kept.saliency.scores[index, slot]),
                    change=float(after[predicted]) - before,
                    flips=int(after.argmax()) != predicted,
                )
            )
        return tuple(tokens)

    def input_to_dict(self, index: int, *, redact: bool = False) -> dict[str, Any]:
        """One text's answer and its important units, JSON-ready.

        Args:
            index: Which text.
            redact: Leave the units out, which are words of the text.
        """
        predicted = int(self.saliency.predictions[index])
        tokens = self.important_tokens(index)
        return {
            "index": index,
            "label": self.label_names[predicted],
            "probability": round(float(self.saliency.probs[index, predicted]), 6),
            "sensitivity": max((abs(token.change) for token in tokens), default=0.0),
            "important_tokens": [] if redact else [asdict(token) for token in tokens],
        }

    @property
    def sensitivity(self) -> Array:
        """Each text's term in MSTPS, shape (N,), in [0, 1]."""
        original, masked = self._predicted_probabilities()
        return sensitivity(original, masked)

    def _predicted_probabilities(self) -> tuple[Array, Array]:
        return predicted_probabilities(self.saliency, self.effects)

    def to_pandas(self) -> Any:
        """One row for each candidate, in the order of the ranking; intervals are two columns each. Needs pandas.

        Raises:
            ConfigError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ConfigError(
                "to_pandas needs pandas. Install it with: pip install 'shortcut-guardrail[pandas]'"
            ) from error
        rows = []
        for candidate in self.candidates:
            names = [f.name for f in fields(Candidate) if f.name not in _NESTED]
            row = {key_of(Candidate, name): getattr(candidate, name) for name in names}
            for name, (low, high) in asdict(candidate.interval).items():
                row |= {f"{name}_low": low, f"{name}_high": high}
            rows.append(row)
        return pandas.DataFrame(rows)

    def _repr_html_(self) -> str:
        """What a notebook shows: one line and the first candidates. Everything that came from data is escaped."""
        head = "".join(f"<th>{name}</th>" for name in _SHOWN)
        rows = "".join(
            "<tr>" + "".join(f"<td>{_cell(getattr(candidate, name))}</td>" for name in _SHOWN) + "</tr>"
            for candidate in self.candidates[:10]
        )
        return (
            f"<p>{self.n} texts, MSTPS {self.mstps:.3f}; {len(self.flagged)} of {self.n_tested} tested candidates "
            f"flagged at a false-discovery rate of {self.fdr:.0%}, {self.n_undecided} undecided. A candidate is a "
            "question, not a verdict.</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )

    def to_dict(self, *, max_candidates: int | None = None, redact: bool = False) -> dict[str, Any]:
        """A JSON-ready dictionary, documented in docs/audit.md; what is undefined is `None`.

        Args:
            max_candidates: Only the first so many; `None` for all.
            redact: Leave the texts and their important units out. Candidates are still spelled out, since they are the
                finding.
        """
        names = [name for name in self.__dataclass_fields__ if name != "inputs"]
        values = {key_of(AuditReport, name): getattr(self, name) for name in names}
        values["predicted"] = dict(zip(self.label_names, self.predicted, strict=True))
        values["agreement"] = asdict(self.agreement)
        values["candidates"] = [_candidate_dict(candidate, redact) for candidate in self.candidates[:max_candidates]]
        values["cards"] = [stored(card) for card in self.cards]
        plain: dict[str, Any] = _defined({"schema_version": AUDIT_SCHEMA_VERSION, **values})
        return plain


_NESTED = ("interval", "examples", "labelled")
_SHOWN = ("text", "unit", "count", "flip_rate", "mean_change", "contradiction_rate", "pulls_to", "q_value", "status")


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else html.escape(str(value))


def _candidate_dict(candidate: Candidate, redact: bool) -> dict[str, Any]:
    values: dict[str, Any] = stored(candidate)
    if redact:
        for example in values["examples"]:
            example.update(text=None, text_pair=None, important=())
    return values


def _defined(value: Any) -> Any:
    """Lists for tuples, and `None` for numbers that are not finite, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _defined(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_defined(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def predicted_probabilities(saliency: Saliency, effects: MaskingEffects) -> tuple[Array, Array]:
    """P(y_hat | x), shape (N,), and P(y_hat | x with one token masked), shape (N, K)."""
    rows = np.arange(len(saliency.predictions))
    return saliency.probs[rows, saliency.predictions], effects.probability_of(saliency.predictions)
