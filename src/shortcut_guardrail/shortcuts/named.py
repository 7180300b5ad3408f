"""What to neutralise: words and phrases, each with the verdict on it and its evidence, and what a person says of them.

How they are found without labels is in `target_search`, what labels say of them in `confirmation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ..config import TargetConfig
from ..errors import ConfigError, ModelError
from ..text import WordFinder, parts_of, spaced, unit_key

Verdict = Literal[
    "given",
    "kept",
    "flagged",
    "alternate",
    "collective",
    "dominant",
    "influential",
    "confirmed",
    "cleared",
    "listed",
]
UNLABELLED = ("flagged", "alternate", "collective", "dominant")
"""Verdicts that rest on the evidence of unlabelled texts; to be influential is none."""
_NEUTRALISED = ("given", *UNLABELLED, "influential", "confirmed")


@dataclass(frozen=True)
class Target:
    """A word or phrase and whether it is neutralised.

    Attributes:
        text: Its characters, lower case.
        verdict: `given` by a person as a shortcut, `kept` by a person, `flagged` by the audit, `alternate` for taking
            turns with flagged ones, `collective` for being one of a group that overrides its texts together,
            `dominant` in the corpus, `influential` where that is to be enough, `confirmed` by the support set, or
            `cleared` by it; `listed` for a person to look at if many answers hang on it and nothing tells whether they
            should. All but kept, cleared and listed ones are neutralised.
        count: Texts of the audit in which it is important; `None` where it was not audited.
        flip_rate: See `Candidate`.
        pulls_to: See `Candidate`.
        q_value: See `Candidate`.
        n_support: Texts of the support set that hold it.
        mended: Of those, texts that the base answers wrongly, and rightly with it masked.
        broken: The other way round.
        p_value: Of the test that the verdict rests on: that masking it raises the right class's probability, where it
            is confirmed, else that masking it breaks answers; `None` where the support set had no say.
    """

    text: str
    verdict: Verdict
    count: int | None = None
    flip_rate: float | None = None
    pulls_to: str | None = None
    q_value: float | None = None
    n_support: int = 0
    mended: int = 0
    broken: int = 0
    p_value: float | None = None

    @property
    def neutralised(self) -> bool:
        """Whether it is taken for a shortcut."""
        return self.verdict in _NEUTRALISED

    @property
    def answers_held(self) -> float:
        """How many answers to unlabelled texts change when it is masked."""
        return (self.count or 0) * (self.flip_rate or 0.0)


@dataclass(frozen=True)
class Targets:
    """The words and phrases that were weighed.

    Attributes:
        items: The neutralised ones first.
        rows: Hashes of the labelled texts that had a say, or trained the adapter; they can certify nothing about the
            result.
    """

    items: tuple[Target, ...] = ()
    rows: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words and phrases that are neutralised."""
        return tuple(item.text for item in self.items if item.neutralised)

    @property
    def finder(self) -> WordFinder:
        """Finds them in texts, but not inside phrases that a person keeps."""
        return WordFinder(self.words, kept=[item.text for item in self.items if item.verdict == "kept"])

    def to_dict(self) -> list[dict[str, Any]]:
        """A JSON-ready list of the items."""
        return [asdict(item) for item in self.items]

    @classmethod
    def from_dict(cls, values: Iterable[Mapping[str, Any]], rows: Iterable[str] = ()) -> Targets:
        """The targets that `to_dict` wrote, and the rows that are kept apart from them.

        Raises:
            ModelError: They are damaged.
        """
        try:
            return cls(tuple(Target(**item) for item in values), tuple(rows))
        except TypeError as error:
            raise ModelError(f"The targets of the guard are damaged: {error}. Fit and save it again.") from error


def check_said(config: TargetConfig) -> None:
    """Whether what a person said can be done: to mask a phrase is to mask each of its words.

    Raises:
        ConfigError: A shortcut is kept, or holds what is kept.
    """
    kept = {spaced(word): word for word in config.keep}
    for word in config.shortcuts:
        key = spaced(word)
        if clash := kept.keys() & {key, *parts_of(key)}:
            raise ConfigError(
                f"{word!r} cannot be a shortcut while {kept[min(clash)]!r} is kept: to neutralise a phrase is to "
                "neutralise its words. Leave out one of them."
            )


def with_said(targets: Targets, config: TargetConfig) -> Targets:
    """What a person said, over the evidence.

    Raises:
        ConfigError: It contradicts itself.
    """
    check_said(config)
    given = {spaced(word): word for word in config.shortcuts}
    kept = {spaced(word): word for word in config.keep}
    judged = []
    for item in targets.items:
        key = spaced(item.text)
        if key in given:
            item = replace(item, verdict="given")
        elif key in kept or (item.neutralised and kept.keys() & parts_of(key)):
            item = replace(item, verdict="kept")
        judged.append(item)
    known = {spaced(item.text) for item in judged}
    judged += [Target(unit_key(word), "given") for key, word in given.items() if key not in known]
    judged += [Target(unit_key(word), "kept") for key, word in kept.items() if key not in known]
    return replace(targets, items=tuple(sorted(judged, key=lambda item: not item.neutralised)))
