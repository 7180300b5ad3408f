"""The same questions in a terminal of 80 columns: a line is read for each answer."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping

from ..data import counted
from ..text import printable, visible_name
from .deck import DeckCard, Piece, ShownText
from .effects import DONE
from .session import Session

WIDTH = 80

CARD_KEYS = {"k": "keep", "n": "neutralise", "a": "not_alone", "s": "unsure"}
CARD_KEYS |= dict(zip("1234", CARD_KEYS.values(), strict=True))
CARD_CHOICES = "[k] yes, keep   [n] no, neutralise   [a] may count, not alone   [s] not sure"
TEXT_KEYS = {"a": "a", "b": "b", "n": "neither", "u": "unclear"}
HINT = "“Count” means: may influence the answer."

Ask = Callable[[str], str]
Say = Callable[[str], None]


def review_in_terminal(session: Session, *, ask: Ask = input, say: Say = print) -> None:
    """Ask until everything is answered, or the person leaves with q; every answer is saved as it is given.

    Args:
        session: The review.
        ask: Shows a prompt and reads a line; its EOFError ends the review too.
        say: Prints a line.
    """
    tell = _Teller(say)
    tell("Type a key and Enter; 1 to 4 answer cards too. z undoes the last answer. q stops: every answer is saved.")
    while True:
        state = session.state()
        card = next((card for card in session.rules.deck.cards if card.id not in state["said"]), None)
        if card is None and state["question"] is None:
            _show_end(session, tell)
        else:
            _show_card(session, card, tell) if card else _show_text(state, tell)
        keys = CARD_KEYS if card else TEXT_KEYS if state["question"] else {}
        try:
            key = _read(ask, tell, {*keys, "q", *("z" * state["can_undo"])})
        except EOFError:
            key = "q"
        if key == "q":
            return _say_what_is_left(session, tell)
        if key == "z":
            session.undo(state["revision"])
            tell("The last answer is undone.")
        elif card:
            session.save({"card": card.id, "decision": keys[key]}, state["revision"])
            _show_consequence(session, card, tell)
        else:
            session.save({"question": state["question"]["id"], "answer": keys[key]}, state["revision"])


class _Teller:
    """Prints paragraphs; what comes from anybody's files cannot control the terminal."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def __call__(self, text: str = "", *, indent: str = "") -> None:
        lines = [line for part in text.splitlines() or [""] for line in _wrapped(part, indent)]
        for line in lines:
            self._say(printable(line))


def _wrapped(text: str, indent: str) -> list[str]:
    below = indent + "  " * text.startswith("- ")
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=below) or [""]


def _read(ask: Ask, tell: _Teller, allowed: set[str]) -> str:
    """A key that is allowed. An empty line answers nothing: a card is not kept by accident."""
    shown = sorted((key for key in allowed if key.isalpha()), key="knasbuzq".index)
    while True:
        try:
            key = ask(f"{'/'.join(shown)}> ").strip().lower()
        except UnicodeDecodeError:
            key = ""
        if key in allowed:
            return key
        tell(f"Type one of {', '.join(shown)} and Enter.")


def _show_card(session: Session, card: DeckCard, tell: _Teller) -> None:
    cards = session.rules.deck.cards
    number = next(i for i, one in enumerate(cards, start=1) if one.id == card.id)
    tell("=" * WIDTH)
    tell(f"Card {number} of {len(cards)}: {_names(card)}")
    tell(
        f"Pulls to “{visible_name(card.pulls_to)}”. In {counted(card.texts, 'text')}; masking changes "
        f"{counted(card.changes, 'answer')} ({card.share:.1%} of all texts)."
    )
    if card.patterns:
        often = [f"“{one.text}” ({counted(one.texts, 'text')})" for one in card.patterns]
        tell(f"Often: {', '.join(often)}.")
    for example in card.examples:
        tell()
        for side in example.excerpt:
            tell(_marked(side), indent="  ")
        tell(_outcome(example), indent="  ")
    tell()
    for sentence in card.evidence:
        tell(f"- {sentence}")
    tell()
    tell(f"Should a system that decides this count the {'words' if len(card.words) > 1 else 'word'}?")
    tell(HINT)
    tell(CARD_CHOICES)


def _names(card: DeckCard) -> str:
    more = len(card.words) - len(card.names)
    return ", ".join(card.names) + (f" and {more} more" if more else "")


def _marked(side: tuple[Piece, ...]) -> str:
    return " ".join("".join(f"[{text}]" if marked else text for text, marked in side).split())


def _outcome(example: ShownText) -> str:
    before, after = visible_name(example.before), visible_name(example.after)
    return f"Answer: {before}" + (f" -> masked: {after}" if before != after else ", masked the same")


def _show_text(state: Mapping[str, object], tell: _Teller) -> None:
    question, progress = state["question"], state["progress"]
    assert isinstance(question, dict)
    assert isinstance(progress, dict)
    tell("=" * WIDTH)
    tell(
        f"Text {progress['answered'] + 1}. {counted(progress['open'], 'card')} open. Deciding takes at least "
        f"{counted(progress['least'], 'more answer')}; at most {progress['most']} are asked."
    )
    if progress["lost"]:
        tell(
            f"{counted(progress['lost'], 'card')} cannot be decided by the texts left. "
            f"Nothing more is asked about {'it' if progress['lost'] == 1 else 'them'}."
        )
    tell()
    for side in question["sides"]:
        tell(side, indent="  ")
    tell()
    a, b = visible_name(question["a"]), visible_name(question["b"])
    tell("Which answer is right?")
    tell(f"[a] {a}   [b] {b}   [n] neither   [u] cannot tell")


def _show_consequence(session: Session, card: DeckCard, tell: _Teller) -> None:
    state = session.state()
    tell(f"{_names(card)}: {state['follows'][card.id]['line']}")
    if opinion := state["opinions"].get(card.id):
        tell(f"Second opinion: {opinion}.")
    if state["notice"]:
        tell(state["notice"])


def _show_end(session: Session, tell: _Teller) -> None:
    state = session.state()
    end, names = state["end"], {card.id: _names(card) for card in session.rules.deck.cards}
    tell("=" * WIDTH)
    tell("All cards are answered.")
    for row in end["cards"]:
        follows = state["follows"][row["id"]]
        tell(f"- {names[row['id']]}: {follows['how']}. Answers changed: {follows['changes']}.{_said_of(row['people'])}")
    for decoy in end["decoys"]:
        tell(f"A check: {names[decoy['id']]} was mixed in, because {decoy['why']}. You said: {DONE[decoy['said']]}.")
    if end["both"]:
        tell(f"{end['agree']} of {counted(end['both'], 'card')} that several people answered are answered alike.")
    if end["differ"]:
        tell(f"On {counted(end['differ'], 'card')} they contradict each other: there the audit decides.")
    if end["both"] > end["agree"] + end["differ"]:
        tell("Where one is only not sure, the other answer decides.")


def _said_of(people: Mapping[str, str]) -> str:
    return f" {'; '.join(f'{by}: {DONE[said]}' for by, said in people.items())}." if len(people) > 1 else ""


def _say_what_is_left(session: Session, tell: _Teller) -> None:
    state = session.state()
    left = len(session.rules.deck.cards) - len(state["said"])
    if left:
        tell(f"{counted(left, 'card')} {'is' if left == 1 else 'are'} not answered. The same command goes on.")
    elif state["question"]:
        tell(f"{counted(state['progress']['open'], 'card')} can still be decided by texts. The same command goes on.")
