"""Audits of one classifier over time: which words predictions depend on more than before."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

from .data import counted, enumerated
from .decisions import AUDIT_FILE, AuditedCards, Decisions
from .display import Shown, Summary, number, percent, some
from .errors import ConfigError, DataError
from .saving import read_audit
from .stats import binned_mean_interval, exact_interval, rise_evidence

_SAME_GROUP = 0.5
"""The share of common words, among all of both, from which groups of two audits are shown as one."""


@dataclass(frozen=True)
class Rate:
    """A count among distinct texts."""

    count: int
    n: int

    @property
    def value(self) -> float:
        """The share, in [0, 1]; NaN if there are no texts."""
        return self.count / self.n if self.n else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Its exact 95 % interval."""
        return exact_interval(self.count, self.n)


@dataclass(frozen=True)
class Seen:
    """A word or word group in one audit; `None` if the audit does not list it.

    Attributes:
        exposure: Distinct texts that contain it, among all.
        flip_rate: Prediction changes among the texts in which it was erased: for a word those in which it is important,
            for a group those that contain it.
        affected: Prediction changes among all distinct texts: the predictions that depend on it.
        status: Its status in the audit; empty if it is not listed.
        decision: The decision on it after this audit.
        evidence: The e-value for a rise of the affected share so far; see `stats.rise_evidence`.
    """

    exposure: Rate | None = None
    flip_rate: Rate | None = None
    affected: Rate | None = None
    status: str = ""
    decision: str = ""
    evidence: float | None = None


@dataclass(frozen=True)
class Trend:
    """A known word, or a word group, over all audits.

    Attributes:
        words: One word or phrase, or those of the group in the last audit that has it.
        is_group: Groups are shown, and raise no alarm, since their words differ from audit to audit.
        known: The audit, from 0, since which it is known: found or decided there, or named from the start.
        level: The probability that it ever raises a false alarm is at most this.
        alarm: The first audit at which a rise is shown.
    """

    words: tuple[str, ...]
    pushes_towards: str | None
    is_group: bool
    known: int
    seen: tuple[Seen, ...]
    level: float = 0.0
    alarm: int | None = None


@dataclass(frozen=True)
class AuditSeen:
    """One audit of the history.

    Attributes:
        name: The path that was given.
        date: ISO 8601, from the path; empty if it has none.
        mstps_interval: At 95 %.
        new_model: Whether the weights, those of a repair included, differ from the audit before.
        new_words: Words that are found here and were not known before; none in the first audit.
    """

    name: str
    date: str
    n: int
    n_distinct: int
    mstps: float
    mstps_interval: tuple[float, float]
    model: str
    new_model: bool
    new_words: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class History(Shown):
    """Several audits over time.

    Attributes:
        audits: In the order of their dates, or as they were given.
        trends: Those with an alarm first, then those that most predictions of the last audit depend on.
        false_alarms: If nothing changes, at most this share of histories ever raises an alarm.
        notes: Sentences on what limits the comparison.
    """

    audits: tuple[AuditSeen, ...]
    trends: tuple[Trend, ...]
    false_alarms: float
    notes: tuple[str, ...] = field(default=())

    @property
    def alarms(self) -> tuple[Trend, ...]:
        """Words for which a rise is shown."""
        return tuple(trend for trend in self.trends if trend.alarm is not None)

    @property
    def new_alarms(self) -> tuple[Trend, ...]:
        """Those for which the last audit shows it."""
        return tuple(trend for trend in self.alarms if trend.alarm == len(self.audits) - 1)

    def label(self, index: int) -> str:
        """The name of an audit: its date, or else its place."""
        return self.audits[index].date or f"audit {index + 1}"

    def said(self, trend: Trend) -> str:
        """An alarm in a sentence."""
        assert trend.alarm is not None
        seen = [one.affected for one in trend.seen[: trend.alarm + 1] if one.affected is not None]
        before = Rate(sum(one.count for one in seen[:-1]), sum(one.n for one in seen[:-1]))
        cause = " The model changed in that audit." if self.audits[trend.alarm].new_model else ""
        return (
            f"More predictions depend on '{trend.words[0]}' since {self.label(trend.alarm)}: "
            f"{percent(seen[-1].value)} of the texts, and {percent(before.value)} before.{cause}"
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each audit and word or group, and one for each audit alone, for tables and dashboards."""
        for i, audit in enumerate(self.audits):
            head = {"audit": audit.name, "date": audit.date, "model": audit.model, "texts": audit.n_distinct}
            low, high = audit.mstps_interval
            mstps = {"mstps": audit.mstps, "mstps_low": low, "mstps_high": high}
            alone = {"kind": "audit", **_row(Trend((), "", False, 0, ()), Seen()), **mstps}
            yield head | alone | {"evidence": None, "alarm": int(any(trend.alarm == i for trend in self.trends))}
            for trend in self.trends:
                of_it = {"kind": "group" if trend.is_group else "word", **_row(trend, trend.seen[i])}
                alarm = int(trend.alarm is not None and i >= trend.alarm)
                yield head | of_it | dict.fromkeys(mstps) | {"evidence": trend.seen[i].evidence, "alarm": alarm}

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        alarms = [{"word": one.words[0], "audit": one.alarm, "said": self.said(one)} for one in self.alarms]
        audits = [asdict(audit) for audit in self.audits]
        head = {"false_alarms": self.false_alarms, "notes": list(self.notes)}
        return {**head, "audits": audits, "alarms": alarms, "rows": list(self.rows())}

    def _summary(self) -> Summary:
        first, last = self.audits[0], self.audits[-1]
        words = [trend for trend in self.trends if not trend.is_group]
        shown = words[: max(8, len(self.alarms))]
        changed = [self.label(i) for i, audit in enumerate(self.audits) if audit.new_model]
        return Summary(
            f"History: {counted(len(self.audits), 'audit')}, {self.label(0)} to {self.label(len(self.audits) - 1)}",
            {
                "MSTPS": f"{number(first.mstps)} to {number(last.mstps)}",
                "new words": some([word for audit in self.audits for word in audit.new_words]),
                "model changed": some(changed),
                "alarms": some([trend.words[0] for trend in self.alarms]),
            },
            ("word", ">known since", ">affected, first", ">last", ">95 %", "alarm"),
            [
                (
                    trend.words[0],
                    self.label(trend.known),
                    *(percent(one.affected.value) if one.affected else "-" for one in (trend.seen[0], trend.seen[-1])),
                    " to ".join(map(percent, trend.seen[-1].affected.interval)) if trend.seen[-1].affected else "-",
                    "" if trend.alarm is None else self.label(trend.alarm),
                )
                for trend in shown
            ],
            more=len(words) - len(shown),
            notes=(
                *self.notes,
                *map(self.said, self.alarms),
                f"If nothing changes, at most {self.false_alarms:.0%} of histories ever raise an alarm.",
            ),
        )


def _row(trend: Trend, seen: Seen) -> dict[str, Any]:
    """What a row says of a word or group, but for its evidence."""
    row: dict[str, Any] = {"name": ", ".join(trend.words), "pushes_towards": trend.pushes_towards or ""}
    row |= {"status": seen.status, "decision": seen.decision}
    for key in ("exposure", "flip_rate", "affected"):
        rate = getattr(seen, key)
        values = (rate.value, *rate.interval) if rate is not None and rate.n else (None,) * 3
        row |= zip((key, f"{key}_low", f"{key}_high"), values, strict=True)
    return row


@dataclass(frozen=True)
class _Read:
    """An audit as it was read."""

    name: str
    date: str
    document: Mapping[str, Any]
    decided: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def words(self) -> dict[str, Mapping[str, Any]]:
        """Its candidates by their text; the higher-ranked of equal ones."""
        return {_plain(one["text"]): one for one in reversed(self.document["candidates"])}

    def seen(self, word: str, words: Mapping[str, Mapping[str, Any]]) -> Seen:
        """What it says of one word."""
        n, decision = self.document["n_distinct"], self.decided.get(word, "")
        found = words.get(word)
        if found is None:
            # What is important in no text changes no prediction. Of a list that was cut that is not known.
            complete = len(self.document["candidates"]) >= self.document["n_candidates"]
            return Seen(affected=Rate(0, n) if complete else None, decision=decision)
        erased = found["n_distinct"]
        changes = round((found["flip_rate"] or 0) * erased)
        looked_through = found["n_texts"] or n
        rates = Rate(found["n_present"], looked_through), Rate(changes, erased), Rate(changes, looked_through)
        return Seen(*rates, status="found" if _is_found(found) else found["status"], decision=decision)


def read_history(audits: Sequence[str | Path], *, words: Iterable[str] = (), false_alarms: float = 0.05) -> History:
    """Read audits of one classifier, and say what changed over time.

    A word is known from the audit on that finds it, or after which it was decided (`decisions.json` in its folder);
    the `words` are known from the start. From the next audit on each known word is tested for a rise of its affected
    share, by a test that may be looked at every week (`stats.rise_evidence`). The first audit's words share half of the
    false-alarm rate, those of the t-th audit share 1 / (2 t (t - 1)) of it.

    Args:
        audits: Folders that `audit` wrote, or their `audit.json`, in the order of the dates (2026-01-31) in their
            paths; if one has none, in the order given.
        words: Words that are known to be shortcuts.
        false_alarms: If nothing changes, at most this share of histories ever raises an alarm.

    Raises:
        DataError: One is no audit or damaged, there are fewer than two, one is there twice, or they cannot be
            compared: their units, important words a text or classes differ.
        ConfigError: `false_alarms` does not lie between 0 and 1.
    """
    if not 0 < false_alarms < 1:
        raise ConfigError(f"false_alarms must lie between 0 and 1, but is {false_alarms:g}.")
    if len(audits) < 2:
        raise DataError(f"A history needs two audits or more, but {len(audits)} was given. Give earlier ones too.")
    read, notes = _ordered([_read(Path(audit)) for audit in audits])
    notes += [note for one in read for note in one.notes] + _check_alike(read)
    named = {_plain(word) for word in words}
    known = _known(read, named)
    levels = {i: false_alarms / (2 * max(1, i * (i + 1)) * n) for i, n in Counter(known.values()).items()}
    every = [one.words for one in read]
    trends = [_word_trend(word, since, levels[since], read, every) for word, since in known.items()]
    shown = sorted([*trends, *_group_trends(read)], key=_standing)
    return History(tuple(_audits_seen(read, known, named)), tuple(shown), false_alarms, tuple(notes))


def _plain(word: str) -> str:
    return word.strip().casefold()


def _is_found(candidate: Mapping[str, Any]) -> bool:
    return bool(candidate["flagged"] or candidate.get("alternative_wording") or candidate.get("collective"))


def _read(path: Path) -> _Read:
    file = path / AUDIT_FILE if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"'{path}' is no folder that `audit` wrote: it has no {AUDIT_FILE}.")
    document = read_audit(file)
    given = str(path.parent if path.name == AUDIT_FILE else path)
    beside = file.with_name("decisions.json")
    decided: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    if beside.is_file():
        decisions = Decisions.from_file(beside)
        if decisions.audit in (None, AuditedCards.from_dict(document, source=f"'{file}'").id):
            said = [card for card in decisions.cards if card.decision is not None]
            decided = {_plain(word): str(card.decision) for card in said for word in card.words}
        else:
            notes = (f"'{beside}' is about another audit than the one beside it, and is left out.",)
    return _Read(given, _date_of(given), document, decided, notes)


def _date_of(path: str) -> str:
    """The last date in a path, as in 2026-01-31 or 20260131."""
    for year, month, day in reversed(re.findall(r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)(?!\d)", path)):
        try:
            return date(int(year), int(month), int(day)).isoformat()
        except ValueError:
            continue
    return ""


def _ordered(read: list[_Read]) -> tuple[list[_Read], list[str]]:
    """By date, where all have one."""
    undated = [one.name for one in read if not one.date]
    if undated:
        which = "No path of an audit has a" if len(undated) == len(read) else f"'{undated[0]}' has no"
        return read, [f"{which} date (2026-01-31), so the audits stand in the order given."]
    notes = []
    ordered = sorted(read, key=lambda one: one.date)
    if ordered != read:
        notes.append("The audits were not given in the order of the dates in their paths; the dates count.")
    for one, after in pairwise(ordered):
        if one.date == after.date:
            notes.append(f"'{one.name}' and '{after.name}' have one date, {one.date}, and stand in the order given.")
    return ordered, notes


def _check_alike(read: Sequence[_Read]) -> list[str]:
    """Refuse audits whose numbers cannot be compared, and say what may change them."""
    first = read[0]
    notes: list[str] = []
    by_content: dict[tuple[str, str], str] = {}
    for one in read:
        for key, what in (("unit", "units"), ("top_k", "important words a text"), ("label_names", "classes")):
            old, new = (sorted(x) if isinstance(x, list) else x for x in (first.document[key], one.document[key]))
            if old != new:
                raise DataError(
                    f"'{first.name}' and '{one.name}' cannot be compared: their {what} differ ({old} and {new}). Give "
                    "audits that were made in one way."
                )
        content = one.document["model"], one.document["data"]
        if all(content) and content in by_content:
            raise DataError(
                f"'{by_content[content]}' and '{one.name}' are of the same model and the same texts. Give one of them."
            )
        by_content[content] = one.name
    for key, what in (("fdr", "false-discovery rates"), ("min_relative_effect", "least effects")):
        if len({one.document[key] for one in read}) > 1:
            notes.append(f"The {what} of the audits differ, so a word may be found in one and not in another.")
    ways = [(one.document.get("erasures") or {}).get("chosen", "mask") for one in read]
    if len(set(ways)) > 1:
        notes.append(
            f"Words were not taken out in one way ({enumerated(sorted(set(ways)))}), which changes flip rates."
        )
    models = len({one.document["model"] for one in read})
    if models > 1:
        notes.append(f"The audits are of {models} models. Where the model changes, a rise may come from it.")
    return notes


def _known(read: Sequence[_Read], named: Iterable[str]) -> dict[str, int]:
    """Since which audit each word is known."""
    known = dict.fromkeys(sorted(named), 0)
    for i, one in enumerate(read):
        for word in [*(_plain(c["text"]) for c in one.document["candidates"] if _is_found(c)), *one.decided]:
            known.setdefault(word, i)
    return known


def _word_trend(
    word: str, since: int, level: float, read: Sequence[_Read], every: Sequence[Mapping[str, Mapping[str, Any]]]
) -> Trend:
    seen = [one.seen(word, words) for one, words in zip(read, every, strict=True)]
    said = [i for i, one in enumerate(seen) if one.affected is not None]
    counts = [(seen[i].affected.count, seen[i].affected.n) for i in said]  # type: ignore[union-attr]
    first = sum(i <= since for i in said)
    evidence = rise_evidence(*zip(*counts, strict=True), first=first) if counts else []
    for i, found in zip(said, evidence, strict=True):
        seen[i] = Seen(**{**vars(seen[i]), "evidence": found})
    alarm = next((i for i, found in zip(said, evidence, strict=True) if found >= 1 / level), None)
    pulls = next((words[word]["pushes_towards"] for words in reversed(every) if word in words), None)
    return Trend((word,), pulls, False, since, tuple(seen), level, alarm)


def _group_trends(read: Sequence[_Read]) -> list[Trend]:
    """Groups of later audits as those of earlier ones that they share most words with; known ones alone."""
    lines: list[dict[int, tuple[Mapping[str, Any], str]]] = []
    for i, one in enumerate(read):
        for card in one.document["cards"]:
            decision = next(filter(None, (one.decided.get(_plain(word), "") for word in card["words"])), "")
            free = [line for line in lines if i not in line]
            best = max(free, key=lambda line: _common(line, card), default=None)
            if best is None or _common(best, card) < _SAME_GROUP:
                lines.append(best := {})
            best[i] = card, decision
    trends = []
    for line in lines:
        known = [i for i, (card, said) in line.items() if said or card["evidence"]["status"] == "flagged"]
        last = line[max(line)][0]
        if known and len(last["words"]) > 1:
            seen = tuple(_group_seen(one, line.get(i)) for i, one in enumerate(read))
            trends.append(Trend(tuple(last["words"]), last["pushes_towards"], True, min(known), seen))
    return trends


def _common(line: Mapping[int, tuple[Mapping[str, Any], str]], card: Mapping[str, Any]) -> float:
    last = line[max(line)][0]
    if last["pushes_towards"] != card["pushes_towards"]:
        return 0.0
    old, new = set(last["words"]), set(card["words"])
    return len(old & new) / len(old | new)


def _group_seen(one: _Read, found: tuple[Mapping[str, Any], str] | None) -> Seen:
    if found is None:
        return Seen()
    card, decision = found
    n = one.document["n_distinct"]
    rates = Rate(card["texts"], n), Rate(card["changes"], card["texts"]), Rate(card["changes"], n)
    return Seen(*rates, status=card["evidence"]["status"], decision=decision)


def _standing(trend: Trend) -> tuple[Any, ...]:
    last = trend.seen[-1].affected
    return (trend.alarm is None, -(last.value if last else 0.0), trend.is_group, trend.words)


def _audits_seen(read: Sequence[_Read], known: Mapping[str, int], named: Iterable[str]) -> Iterator[AuditSeen]:
    for i, one in enumerate(read):
        document = one.document
        histogram = document["sensitivity_histogram"]
        found = [_plain(c["text"]) for c in document["candidates"] if _is_found(c)]
        yield AuditSeen(
            name=one.name,
            date=one.date,
            n=document["n"],
            n_distinct=document["n_distinct"],
            mstps=document["mstps"],
            mstps_interval=binned_mean_interval(document["mstps"], histogram, document["n_distinct"]),
            model=document["model"],
            new_model=i > 0 and document["model"] != read[i - 1].document["model"],
            new_words=tuple(word for word in dict.fromkeys(found) if i and known[word] == i and word not in named),
        )
