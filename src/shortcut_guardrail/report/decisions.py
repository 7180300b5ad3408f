"""Flips and decisions on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from ..data import counted
from ..decisions import LEAST_FLIPS
from ..display import Screen, say
from ..text import visible_name
from .terminal import new_table, words_of

if TYPE_CHECKING:
    from ..classifiers import Cost
    from ..decisions import Decision, Decisions, Questions


def print_questions(questions: Questions, flips: Mapping[str, int], out: Path, *, n_total: int | None = None) -> None:
    """How many texts of each card can be asked about, and what to do next."""
    shown = new_table("card", "words", "pulls to", "flips", texts=(0, 1, 2))
    for card in questions.audited.cards:
        if card.id in flips:
            pulls_to = Text(visible_name(card.pulls_to))
            shown.add_row(card.id, words_of(card.words), pulls_to, str(flips[card.id]))
    console = Screen()
    console.print(shown)
    if few := sum(count < LEAST_FLIPS for count in flips.values()):
        console.print(
            f"{few} with fewer than {LEAST_FLIPS} flips cannot be decided: audit more texts, or say what you know."
        )
    if not questions.asked:
        say("No question is left: cards are decided, no answer changes, or labels answer them all.")
        return
    say(f"Written: {out} ({len(questions.asked)} questions)")
    if n_total is not None and (left := n_total - len(questions.asked)):
        say(f"{counted(left, 'question')} of {n_total} are left, for cards that stay open: judge these first.")
    say("Fill in the column 'answer' (a, b, neither, unclear), then: shortcut-guardrail judge")


def print_costs(flips: int, word_free: int, costs: Mapping[str, Cost]) -> None:
    """What second models will be sent, and what that costs."""
    console = Screen()
    console.print(f"A second opinion is asked about {flips} flips and {word_free} texts without the cards' words.")
    shown = new_table("second opinion", "texts", "tokens", "calls", "seconds, about")
    for name, cost in costs.items():
        values = (cost.texts, cost.tokens, cost.calls, None if cost.seconds is None else round(cost.seconds))
        shown.add_row(Text(visible_name(name)), *("?" if value is None else f"{value:,}" for value in values))
    console.print(shown)


def _print_opinions(decisions: Decisions) -> None:
    """What second models say, apart from what people say."""
    console = Screen()
    for judge in decisions.judges:
        for one in judge.qualifications:
            agrees = (
                "" if one.agreement is None else f", agrees with the model on {one.agreement:.2f} of word-free texts"
            )
            said = f"qualified{agrees}" if one.qualified else f"not qualified: {one.reason}"
            pair = " / ".join(map(visible_name, one.pair))
            console.print(Text(f"Second opinion {visible_name(judge.name)} ({pair}): {said}"))
    opinions = [(card, card.second_opinion) for card in decisions.cards if card.second_opinion is not None]
    if not opinions:
        return
    shown = new_table("words", "second opinion", "mended", "broken", "bound", "q", "says", texts=(0, 1))
    sentences = []
    near = []
    for card, opinion in opinions:
        words = words_of(card.words)
        shown.add_row(
            words,
            Text(", ".join(map(visible_name, opinion.judges)) or "-"),
            str(opinion.mended),
            str(opinion.broken),
            "-" if opinion.bound is None else f"{opinion.bound:.2f} ({opinion.rule})",
            "-" if opinion.q_value is None else f"{opinion.q_value:.2g}",
            opinion.outcome,
        )
        mends = opinion.mended > opinion.broken
        if opinion.at_stake is not None and mends and not opinion.reason.startswith("At stake"):
            low, high = (f"{100 * share:.1f}" for share in opinion.at_stake)
            gain = f" would bring {low} to {high} more right answers in 100, as far as the second opinion can tell."
            sentences.append(f"At stake: masking {words.plain}{gain}")
        if opinion.reason:
            sentences.append(f"Open: {words.plain}. {opinion.reason}")
        if opinion.outcome == "open" and opinion.q_value is not None and mends:
            near.append(card.id)
    console.print(shown)
    for sentence in sentences:
        console.print(sentence)
    console.print(
        "Mended: the second opinion gives the masked answer, with the words and without. Clearly more than the bound "
        "decides (q at most .05, all cards taken together); a machine says shortcut or nothing, and people overrule it."
    )
    if near:
        console.print(f"Answers of a person that would tell most: flips --cards {','.join(near)}.")


def print_decided(decisions: Decisions, file: Path, *, undecidable: int = 0) -> None:
    """What was decided, where it is written, and what to do next; of so many cards too few predictions change."""
    print_decisions(decisions)
    if undecidable:
        few = f"fewer than {LEAST_FLIPS} prediction changes"
        say(f"{counted(undecidable, 'card')} with {few} cannot be decided by answers: audit more texts.")
    if waiting := sum(card.waiting for card in decisions.cards):
        say(
            f"{counted(waiting, 'answer')} to texts that also hold a word of a shortcut decided here do not count yet. "
            "Run `flips` again: it counts anew without these words, and asks about what is open."
        )
    say(f"Written: {file}")
    if any(card.decision for card in decisions.cards):
        say(f"Next: shortcut-guardrail fit MODEL DATA --decisions {file} --out guarded")


def print_decisions(decisions: Decisions) -> None:
    """What was decided about each card, and on which answers."""
    if decisions.judges:
        _print_opinions(decisions)
    judged = [card for card in decisions.cards if card.source != "machine" or card.asked]
    if judged or not decisions.judges:
        _print_judged(decisions, judged)


def _print_judged(decisions: Decisions, judged: Sequence[Decision]) -> None:
    shown = new_table("words", "mended", "broken", "answered", "evidence", "decision", texts=(0, 5))
    for card in judged:
        shown.add_row(
            words_of(card.words),
            str(card.mended),
            str(card.broken),
            str(card.mended + card.broken + card.neither + card.unclear),
            "-" if card.e_value is None else f"{card.e_value:.3g}",
            _said(card),
        )
    console = Screen()
    console.print(shown)
    console.print(
        "Mended: the answer with the words masked is right. Evidence of 20 decides a card; neutralise takes effect "
        "with `fit --decisions`. Genuine holds for these texts only."
    )
    several = [card for card in decisions.cards if card.outcome in ("shortcut", "genuine")]
    if len(decisions.cards) > 1 and several:
        survive = sum(bool(card.survives_e_bh) for card in several)
        more = "" if survive == len(several) else " `--keep-asking` counts all answers for that, also those beyond 20."
        console.print(
            f"`fit` obeys every decision. {survive} of {len(several)} also stand when all cards are taken together "
            f"(e-BH, 5 %).{more}"
        )


def _said(card: Decision) -> str:
    if card.source == "machine":
        return "open; by the second opinion neutralise" if card.decision else "open"
    if card.outcome in ("shortcut", "genuine"):
        return f"{card.decision} ({card.outcome} here)"
    return "open"
