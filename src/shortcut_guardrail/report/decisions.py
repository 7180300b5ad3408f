"""Questions and decisions on a terminal."""

from __future__ import annotations

import shlex
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


def print_questions(
    questions: Questions, flips: Mapping[str, int], out: Path, audit: Path, *, n_total: int | None = None
) -> None:
    """How many texts of each word group can be asked about, and what to do next."""
    shown = new_table("id", "word group", "pushes\ntowards", "prediction\nchanges", texts=(0, 1, 2))
    for card in questions.audited.cards:
        if card.id in flips:
            pushes_towards = Text(visible_name(card.pushes_towards))
            shown.add_row(card.id, words_of(card.words), pushes_towards, str(flips[card.id]))
    console = Screen()
    console.print(shown)
    if few := sum(count < LEAST_FLIPS for count in flips.values()):
        console.print(
            f"{counted(few, 'word group')} with fewer than {LEAST_FLIPS} prediction changes cannot be decided by "
            "answers. Audit more texts, or name the words yourself."
        )
    if not questions.asked:
        say("There is no question left: every word group is decided, changes no prediction, or is settled by labels.")
        return
    say(f"Written: {out} ({len(questions.asked)} questions)")
    if questions.shows_its_group:
        say("All questions are about one word group, so its words can be guessed. Add another with --word-groups.")
    if n_total is not None and (left := n_total - len(questions.asked)):
        say(f"{counted(left, 'question')} of {n_total} are left for word groups that stay open. Decide on these first.")
    command = shlex.join(["shortcut-guardrail", "decide", str(audit), str(out), "--reviewer", "NAME"])
    say(f"Next: fill in the column 'answer' (a, b, neither or unclear), then run {command} --out decisions.json")


def print_costs(flips: int, word_free: int, costs: Mapping[str, Cost]) -> None:
    """What second models will be sent, and what that costs."""
    console = Screen()
    console.print(
        f"A second model is asked about {flips} prediction changes and {word_free} texts without the words in question."
    )
    shown = new_table("second model", "texts", "tokens", "calls", "seconds, about")
    for name, cost in costs.items():
        values = (cost.texts, cost.tokens, cost.calls, None if cost.seconds is None else round(cost.seconds))
        shown.add_row(Text(visible_name(name)), *("?" if value is None else f"{value:,}" for value in values))
    console.print(shown)


def _print_opinions(decisions: Decisions) -> None:
    """What second models say, apart from what people say."""
    console = Screen()
    for judge in decisions.judges:
        for one in judge.qualifications:
            said = "qualified" if one.qualified else f"not qualified: {one.reason}"
            if one.qualified and one.agreement is not None:
                said += f", agrees with your model on {one.agreement:.2f} of texts without the words"
            pair = " / ".join(map(visible_name, one.pair))
            console.print(Text(f"Second model {visible_name(judge.name)} ({pair}): {said}"))
    opinions = [(card, card.second_model) for card in decisions.cards if card.second_model is not None]
    if not opinions:
        return
    shown = new_table("words", "second model", "fixed", "broken", "bound", "q", "says", texts=(0, 1))
    sentences = []
    near = []
    for card, opinion in opinions:
        words = words_of(card.words)
        shown.add_row(
            words,
            Text(", ".join(map(visible_name, opinion.judges)) or "-"),
            str(opinion.fixed),
            str(opinion.broken),
            "-" if opinion.bound is None else f"{opinion.bound:.2f} ({opinion.rule})",
            "-" if opinion.q_value is None else f"{opinion.q_value:.2g}",
            opinion.outcome,
        )
        fixes = opinion.fixed > opinion.broken
        if opinion.at_stake is not None and fixes and not opinion.reason.startswith("At stake"):
            low, high = (f"{100 * share:.1f}" for share in opinion.at_stake)
            gain = f" would bring {low} to {high} more right predictions in 100, by the second model's estimate."
            sentences.append(f"At stake: masking “{words.plain}”{gain}")
        if opinion.reason:
            sentences.append(f"Open: “{words.plain}”. {opinion.reason}")
        if opinion.outcome == "open" and opinion.q_value is not None and fixes:
            near.append(card.id)
    console.print(shown)
    for sentence in sentences:
        console.print(sentence)
    console.print(
        "Fixed: the second model agrees with the prediction without the words, whether it sees them or not. Clearly "
        "more of these than the bound decides (q at most .05, over all word groups). A second model can only say "
        '"shortcut", and people overrule it.'
    )
    if near:
        console.print(f"A person's answers would help most here: questions --word-groups {','.join(near)}.")


def print_decided(decisions: Decisions, file: Path, command: str, *, undecidable: int = 0) -> None:
    """What was decided, where it is written, and the next command; `undecidable` word groups have too few changes."""
    print_decisions(decisions)
    if undecidable:
        few = f"fewer than {LEAST_FLIPS} prediction changes"
        say(f"{counted(undecidable, 'word group')} with {few} cannot be decided by answers. Audit more texts.")
    if waiting := sum(card.waiting for card in decisions.cards):
        say(
            f"{counted(waiting, 'answer')} cannot count yet, because the text also contains a shortcut word decided "
            "here. Run `questions` again: it recounts without these words."
        )
    say(f"Written: {file}")
    if any(card.decision for card in decisions.cards):
        say(f"Next: {command}")


def print_decisions(decisions: Decisions) -> None:
    """What was decided about each word group, and from which answers."""
    if decisions.judges:
        _print_opinions(decisions)
    judged = [card for card in decisions.cards if card.source != "machine" or card.asked]
    if judged or not decisions.judges:
        _print_judged(decisions, judged)


def _print_judged(decisions: Decisions, judged: Sequence[Decision]) -> None:
    shown = new_table("word group", "fixed", "broken", "answered", "e-value", "decision", texts=(0, 5))
    for card in judged:
        shown.add_row(
            words_of(card.words),
            str(card.fixed),
            str(card.broken),
            str(card.fixed + card.broken + card.neither + card.unclear),
            "-" if card.e_value is None else f"{card.e_value:.3g}",
            _said(card),
        )
    console = Screen()
    console.print(shown)
    console.print(
        "Fixed: the prediction is right only with the words masked; broken: only with the words. A word group is "
        'decided at an e-value of at least 20. `fit --decisions` removes reliance on shortcuts. "Keep" holds for '
        "these texts only."
    )
    alone = [card for card in decisions.cards if card.outcome in ("shortcut", "legitimate") and not card.survives_e_bh]
    if alone:
        console.print(
            f"Each decision by itself is wrong with a probability of at most 5 %. To have at most 5 % wrong ones among "
            f"all decisions, {len(alone)} of them need more answers (`--keep-asking`). `fit` applies all."
        )


def _said(card: Decision) -> str:
    if card.source == "machine":
        return "remove reliance (second model)" if card.decision else "open"
    if card.outcome in ("shortcut", "legitimate"):
        return f"{str(card.decision).replace('_', ' ')} ({card.outcome})"
    return "open"
