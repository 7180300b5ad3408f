"""`shortcut-guardrail flips`: the texts whose answer changes when a card's words are masked, as blind questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .rows import check_suffix, rendered

if TYPE_CHECKING:
    from ..data import TextData
    from ..decisions import AuditedCards, Flip, Question
    from ..guardrail import ShortcutGuardrail


@options.command
def flips(
    *,
    audit: options.AuditFolder,
    model: options.ModelOrGuard,
    data: options.Data,
    out: options.OutRows,
    cards: Annotated[
        str,
        typer.Option(
            metavar="undecided|all|WORD,...", help="Which cards, by a word or id; undecided: those not flagged."
        ),
    ] = "undecided",
    n: Annotated[int, typer.Option("--n", help="Texts for each card, at most; 0 for all.", min=0)] = 40,
    seed: options.Seed = 0,
    label_column: Annotated[
        str | None,
        typer.Option(
            help="Column with labels, where some are known: these texts need no answer. Empty means not known.",
            show_default="none",
            rich_help_panel="Columns",
        ),
    ] = None,
    reference: Annotated[
        bool,
        typer.Option(
            "--reference",
            help="Ask also about texts without the cards' words, ten on each side of its boundary, for a second "
            "opinion on all cards.",
        ),
    ] = False,
    redact: options.Redact = False,
    columns: options.Columns,
    loading: options.ModelOrGuardLoading,
    output: options.Output,
) -> None:
    """Write blind questions about the answers that hang on a card's words.

    \b
    shortcut-guardrail audit MODEL texts.csv --out audit
    shortcut-guardrail flips audit MODEL texts.csv --out flips.csv
    shortcut-guardrail judge audit flips.csv --reviewer NAME --out decisions.json

    A second model can answer instead: --n 0 for all flips, then judge --with SPEC.

    Each row has a text and two answers to it, one by the model and one with the words masked; nothing tells which.
    Somebody, or a program, fills in the column "answer": a, b, neither or unclear. Which card a row is about stands in
    AUDIT/questions.jsonl. Called again, it asks about other texts first.
    """
    from ..data import read_data, write_file
    from ..decisions import (
        AUDIT_FILE,
        QUESTIONS_FILE,
        SHEET_FILE,
        AuditedCards,
        check_audited,
        draw_questions,
        mixed,
        near_boundary,
        read_keys,
        reference_questions,
        written_keys,
    )

    check_suffix(out)
    beside = [audit / name for name in (AUDIT_FILE, QUESTIONS_FILE, SHEET_FILE)]
    output.check(options.Place(out), inputs=[data, *beside, *loading.read_from(model)])
    audited = AuditedCards.from_folder(audit)
    chosen = audited.chosen(cards)
    asked = read_keys(audit)
    rows = read_data(data, **columns.given(), label_column=label_column, some_labels=True)
    guard = loading.load(model)
    check_audited(audited, model=guard.fingerprint(), data=guard.data_fingerprint(rows.texts))
    labels = _labels(guard, rows) if label_column else None
    with output.progress() as progress:
        found = guard.find_flips(rows.texts, chosen, progress=progress)
        sheet = guard.draw_sheet(rows.texts, audited, found, seed=seed)
    questions, keys = draw_questions(
        found, rows.texts, guard.label_names, audit=audited.id, n=n, seed=seed, asked=asked, labels=labels
    )
    if reference:
        near = near_boundary(sheet, rows.texts, seed=seed)
        more = reference_questions(near, rows.texts, guard.label_names, audit=audited.id, asked=asked, labels=labels)
        questions, keys = mixed(questions, more[0], seed), [*keys, *more[1]]
    if not redact:
        write_file(audit / SHEET_FILE, sheet.to_lines(), overwrite=True)
    if keys:
        write_file(audit / QUESTIONS_FILE, written_keys(asked, keys), overwrite=True)
    if questions:
        table = rendered([_row(question, rows, redact) for question in questions], out.suffix)
        write_file(out, table, overwrite=output.overwrite)
    if output.speaks:
        _show(audited, found, questions, out)
    output.finish(_document(found, questions, out))


def _labels(guard: ShortcutGuardrail, rows: TextData) -> list[int | None]:
    """Class ids where a label is given."""
    from ..data import label_ids

    assert rows.labels is not None
    known = [i for i, label in enumerate(rows.labels) if label.strip()]
    if not known:
        return [None] * len(rows)
    ids = label_ids(
        [rows.labels[i] for i in known],
        guard.label_names,
        source=rows.source,
        rows=[rows.rows[i] for i in known],
        row_word=rows.row_word,
    )
    of_row = dict(zip(known, ids, strict=True))
    return [of_row.get(i) for i in range(len(rows))]


def _row(question: Question, rows: TextData, redact: bool) -> dict[str, Any]:
    text = rows.texts[question.row]
    shown: dict[str, Any] = {}
    if not redact:
        shown = {"text": text} if isinstance(text, str) else {"text": text[0], "text_pair": text[1]}
    options_ = {"option_a": question.option_a, "option_b": question.option_b}
    return {"id": question.id, "row": question.row, **shown, **options_, "answer": ""}


def _show(audited: AuditedCards, found: Mapping[str, Sequence[Flip]], questions: Sequence[Question], out: Path) -> None:
    from ..decisions import LEAST_FLIPS
    from ..report import print_flips

    print_flips([(card, len(found[card.id])) for card in audited.cards if card.id in found], least=LEAST_FLIPS)
    if questions:
        print(f"Written: {out} ({len(questions)} questions)")
        print("Fill in the column 'answer' (a, b, neither, unclear), then: shortcut-guardrail judge")
    else:
        print("No question is left: no answer changes, or labels answer them all.")


def _document(found: Mapping[str, Sequence[Flip]], questions: Sequence[Question], out: Path) -> dict[str, Any]:
    return {
        "out": str(out) if questions else None,
        "n_questions": len(questions),
        "cards": [{"id": card, "flips": len(of_card)} for card, of_card in found.items()],
    }
