"""Words and phrases that a repair removes reliance on, each with its verdict, evidence and what people say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ..config import ShortcutConfig
from ..data import Count, Share, Word, counted
from ..decisions import Decision, Decisions
from ..display import MOST_ROWS, Shown, Summary
from ..errors import ConfigError
from ..text import WordFinder, content_spans, parts_of, spaced, unit_key

Verdict = Literal["named", "kept", "found", "confirmed", "cleared"]
Reason = Literal[
    "flagged", "alternative wording", "set", "similar", "dominant", "many predictions", "answers", "second model",
    "weak evidence", "not alone",
]  # fmt: skip

REASONS: dict[Verdict, tuple[Reason | None, ...]] = {
    "named": (None, "not alone"),
    "kept": (None,),
    "found": ("flagged", "alternative wording", "set", "similar", "dominant", "many predictions"),
    "confirmed": (None, "answers", "second model"),
    "cleared": (None, "answers", "many predictions", "weak evidence"),
}
"""The reasons that each verdict may have; `None` where it needs none."""

NEUTRALISED: tuple[Verdict, ...] = ("named", "found", "confirmed")
"""Verdicts of words that count as shortcuts."""


@dataclass(frozen=True)
class Shortcut:
    """A word or phrase that was considered, and whether it is treated as a shortcut.

    Attributes:
        text: Its characters, lower case.
        verdict: `named` or `kept` by a person; `found` in unlabelled texts; `confirmed` by the support set, by answers
            or by a second model; `cleared` by labels or answers, or because there is no evidence against it. Words that
            are named, found or confirmed are treated as shortcuts.
        reason: Why. `flagged`: by the audit. `alternative wording`: of flagged ones. `set`: it overrides its texts
            together with others. `similar`: it does so too, and is similar to flagged ones. `dominant`: in the corpus.
            `many predictions`: many predictions depend on it; a cleared one with this reason is listed for a person to
            look at. `answers`: people's answers about its word group confirmed or cleared it. `second model`: other
            models did. `weak evidence`: it is one of many that were found, by an erasure that changes much by itself.
            `not alone`: a person says that it may count together with the rest of a text, and must not decide alone.
        count: Texts of the audit in which it is important; `None` if it was not audited.
        flip_rate: See `Candidate`, as for `pushes_towards` and `q_value`.
        n_support: Texts of the support set that contain it; for the reasons `answers` and `second model` the answered
            texts of its word group.
        fixed: Of those, texts that the original model predicts wrongly, and rightly with it masked.
        broken: The other way round.
        p_value: Of the test behind the verdict: if it is confirmed, that masking it raises the right class's
            probability; else that masking it breaks predictions. `None` if the support set decided nothing.
    """

    text: Word
    verdict: Verdict
    reason: Reason | None = None
    count: Count | None = None
    flip_rate: Share | None = None
    pushes_towards: str | None = None
    q_value: Share | None = None
    n_support: Count = 0
    fixed: Count = 0
    broken: Count = 0
    p_value: Share | None = None

    def __post_init__(self) -> None:
        if self.reason not in REASONS.get(self.verdict, ()):
            raise ConfigError(f"{self.text!r} cannot be {self.verdict!r} with the reason {self.reason!r}.")

    @property
    def reliance_removed(self) -> bool:
        """Whether it is treated as a shortcut."""
        return self.verdict in NEUTRALISED

    @property
    def evident(self) -> bool:
        """Whether unlabelled texts are evidence against it; that many predictions depend on it is none."""
        return self.verdict == "found" and self.reason != "many predictions"

    @property
    def listed(self) -> bool:
        """Whether many predictions depend on it and nothing shows whether they should."""
        return self.verdict == "cleared" and self.reason == "many predictions"

    @property
    def answers_held(self) -> float:
        """How many predictions for unlabelled texts change when it is masked."""
        return (self.count or 0) * (self.flip_rate or 0.0)


@dataclass(frozen=True, repr=False)
class Shortcuts(Shown):
    """The words and phrases that were considered.

    Attributes:
        items: The shortcuts first.
        rows: Hashes of the labelled texts that decided something or trained the adapter; they cannot certify.
    """

    items: tuple[Shortcut, ...] = ()
    rows: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words and phrases that are treated as shortcuts."""
        return tuple(item.text for item in self.items if item.reliance_removed)

    @property
    def listed(self) -> tuple[str, ...]:
        """The words and phrases that are listed for a person to look at."""
        return tuple(item.text for item in self.items if item.listed)

    @property
    def doubted(self) -> tuple[str, ...]:
        """The words and phrases that were found on weak evidence, and are not treated as shortcuts."""
        return tuple(item.text for item in self.items if item.reason == "weak evidence")

    @property
    def said(self) -> tuple[str, ...]:
        """The words and phrases that a person named or keeps."""
        return tuple(item.text for item in self.items if item.verdict in ("named", "kept"))

    @property
    def finder(self) -> WordFinder:
        """Finds them in texts, but not inside phrases that a person keeps."""
        return WordFinder(self.words, kept=[item.text for item in self.items if item.verdict == "kept"])

    @property
    def alone(self) -> WordFinder:
        """Finds those that must not decide alone, and may count otherwise."""
        kept = [item.text for item in self.items if item.verdict == "kept"]
        return WordFinder([item.text for item in self.items if item.reason == "not alone"], kept=kept)

    def _summary(self) -> Summary:
        shown = self.items[:MOST_ROWS]
        labels = any(item.n_support for item in shown)
        return Summary(
            f"Shortcuts: {len(self.words):,} of {counted(len(self.items), 'word')} considered",
            columns=("word", "verdict", "reason", ">texts", ">flip rate", "pushes towards")
            + ((">fixed", ">broken") if labels else ()),
            rows=[
                (item.text, item.verdict, item.reason, item.count, item.flip_rate, item.pushes_towards)
                + ((item.fixed, item.broken) if labels else ())
                for item in shown
            ],
            more=len(self.items) - len(shown),
        )

    def to_dict(self) -> list[dict[str, Any]]:
        """A JSON-ready list of the items."""
        return [asdict(item) for item in self.items]


def check_said(config: ShortcutConfig) -> None:
    """Refuse a shortcut that is kept. A phrase and a word of it are two things: where "this book" is a shortcut and
    "this" is kept, "this" counts wherever it does not stand in "this book"."""
    kept = {spaced(word): word for word in config.keep}
    for word in (*config.named, *config.not_alone):
        if spaced(word) in kept:
            raise ConfigError(f"{word!r} cannot be a shortcut and kept. Leave out one of them.")


def with_said(shortcuts: Shortcuts, config: ShortcutConfig) -> Shortcuts:
    """What a person said, over the evidence; a `ConfigError` where it contradicts itself."""
    check_said(config)
    words: dict[Verdict, tuple[str, ...]] = {"named": config.named, "kept": config.keep}
    said = {spaced(word): Shortcut(unit_key(word), verdict) for verdict in words for word in words[verdict]}
    said |= {spaced(word): Shortcut(unit_key(word), "named", "not alone") for word in config.not_alone}
    return replace(shortcuts, items=_overruled(shortcuts.items, said, ("verdict", "reason")))


def with_decisions(shortcuts: Shortcuts, decisions: Decisions, *, same_data: bool = True) -> Shortcuts:
    """What was decided about cards, over the evidence of unlabelled texts and of a support set.

    A person's decision comes before what the judged flips say, and these before a second model. `unsure`, and a card
    that is left open, change nothing.

    Args:
        decisions: On cards; every word of a card gets the card's decision.
        same_data: Whether the flips are of these texts; of other ones "legitimate" says nothing.
    """
    said: dict[str, Shortcut] = {}
    for card in sorted(decisions.cards, key=lambda card: (card.by_person, card.source == "answers")):
        verdict = _decided(card, same_data)
        if verdict is not None:
            said |= {spaced(word): _of_card(word, card, verdict) for word in card.words}
    fields = ("verdict", "reason", "n_support", "fixed", "broken", "p_value")
    rows = tuple(sorted({*shortcuts.rows, *decisions.text_hashes}))
    return Shortcuts(_overruled(shortcuts.items, said, fields), rows)


def _overruled(items: Iterable[Shortcut], said: Mapping[str, Shortcut], fields: Iterable[str]) -> tuple[Shortcut, ...]:
    """Items with these fields as was said, by key, and the others that were. A phrase that the evidence alone speaks
    against is spared where what it says is kept."""
    kept = {key for key, one in said.items() if one.verdict == "kept"}
    left, judged = dict(said), []
    for item in items:
        left.pop(spaced(item.text), None)
        if one := said.get(spaced(item.text)):
            item = replace(item, **{name: getattr(one, name) for name in fields})
        elif item.reliance_removed and item.reason not in ("answers", "second model") and _holds_kept(item.text, kept):
            item = replace(item, verdict="kept", reason=None)
        judged.append(item)
    return tuple(sorted([*judged, *left.values()], key=lambda item: not item.reliance_removed))


def _decided(card: Decision, same_data: bool) -> tuple[Verdict, Reason | None] | None:
    if card.by_person:
        by_person: dict[str | None, tuple[Verdict, Reason | None]] = {
            "remove_reliance": ("named", None),
            "keep": ("kept", None),
            "not_alone": ("named", "not alone"),
        }
        return by_person.get(card.decision)
    if card.source == "machine":
        return ("confirmed", "second model") if card.machine_says_shortcut else None
    if card.outcome == "shortcut":
        return "confirmed", "answers"
    return ("cleared", "answers") if card.outcome == "legitimate" and same_data else None


def _of_card(word: str, card: Decision, verdict: tuple[Verdict, Reason | None]) -> Shortcut:
    counts = card.second_model if card.source == "machine" and card.second_model else card
    fixed, broken = counts.fixed, counts.broken
    return Shortcut(
        unit_key(word),
        *verdict,
        pushes_towards=card.pushes_towards,
        n_support=fixed + broken + (card.neither if counts is card else 0),
        fixed=fixed,
        broken=broken,
    )


def _holds_kept(phrase: str, kept: Iterable[str]) -> bool:
    """Whether a word, or a shorter phrase, is kept that carries content in a phrase: to keep "book" is to keep "this
    book", to keep "this" is not. Of a phrase without content all words count."""
    key = spaced(phrase)
    spans = content_spans(key, 0, len(key))
    content = {key[start:end] for start, end in spans}
    if content == {key}:
        content = set(key.split(" "))
    return any(content & set(part.split(" ")) for part in parts_of(key) & set(kept))
