"""`shortcut-guardrail questions`: texts whose prediction changes when a group's words are masked, to be labelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..audit import name_classes
from ..data import TextData, read_data, write_file
from . import options
from .rows import check_suffix, rendered

if TYPE_CHECKING:
    from ..guardrail import ShortcutGuardrail


@options.command
def questions(
    *,
    audit: options.AuditFolder,
    model: options.ModelOrGuard,
    data: options.Data,
    out: options.OutRows,
    cards: options.Cards = "undecided",
    n: Annotated[int, typer.Option("--n", metavar="N", help="Texts per word group, at most; 0 for all.", min=0)] = 40,
    n_total: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Texts in all, at most: sixteen per word group, largest groups first. Answer these, run decide, and "
            "spend the rest on the groups that stay open.",
            show_default="no limit",
        ),
    ] = None,
    decisions: options.DecisionsFile = None,
    shortcuts: options.Shortcuts,
    seed: options.Seed = 0,
    label_column: Annotated[
        str | None,
        typer.Option(
            help="Column with labels of a random sample of the texts, which then need no answer. Cells may be empty.",
            show_default="none",
            rich_help_panel="Columns",
        ),
    ] = None,
    redact: options.Redact = False,
    columns: options.Columns,
    loading: options.ModelOrGuardLoading,
    output: options.Output,
) -> None:
    """Write a labelling sheet: texts whose prediction changes when words are masked.

    \b
    shortcut-guardrail audit MODEL texts.csv --out audit
    shortcut-guardrail questions audit MODEL texts.csv --out questions.csv
    shortcut-guardrail decide audit questions.csv --reviewer NAME --out decisions.json

    Each row has a text and two classes: the model's prediction, and its prediction with the words masked, in random
    order. Write which one is right into the column "answer": a, b, neither or unclear. Words that already count as
    shortcuts are masked for both: those that the audit flags, that you name, and that were decided. After `decide`, run
    this again: it recounts, and asks about what is still open. A second model can answer instead: decide --with SPEC.
    """
    from ..decisions import ANSWERS_FILE, AUDIT_FILE, QUESTIONS_FILE
    from ..report import print_questions

    check_suffix(out)
    read = [data, decisions, shortcuts.shortcuts_file, *loading.read_from(model)]
    read += [audit / name for name in (AUDIT_FILE, QUESTIONS_FILE, ANSWERS_FILE)]
    output.check(options.Place(out), inputs=read)
    rows = read_data(data, **columns.given(), label_column=label_column, some_labels=True)
    guard = loading.load(model)
    if loading.label_names is not None:
        name_classes(audit, guard.label_names)
    labels = _labels(guard, rows) if label_column else None
    asks: dict[str, Any] = {"cards": cards, "n": n, "n_total": n_total, "seed": seed}
    asks |= {"decisions": decisions, "shortcuts": shortcuts.words()}
    with output.progress() as progress:
        found = guard.questions(audit, rows.texts, **asks, labels=labels, progress=progress)
    found.save(audit, redact=redact)
    if found.asked:
        write_file(out, rendered(found.rows(redact=redact), out.suffix), overwrite=output.overwrite)
    flips = {card.id: found.n_flips(card) for card in found.audited.chosen(cards)}
    if output.speaks:
        print_questions(found, flips, out, audit, n_total=n_total)
    listed = [{"id": card, "flips": count} for card, count in flips.items()]
    output.finish({"out": str(out) if found.asked else None, "n_questions": len(found.asked), "cards": listed})


def _labels(guard: ShortcutGuardrail, rows: TextData) -> list[int | None]:
    """Class ids where a label is given."""
    assert rows.labels is not None
    known = [i for i, label in enumerate(rows.labels) if label.strip()]
    where: dict[str, Any] = {"source": rows.source, "rows": [rows.rows[i] for i in known], "row_word": rows.row_word}
    of_row = dict(zip(known, map(int, guard.label_ids([rows.labels[i] for i in known], **where)), strict=True))
    return [of_row.get(i) for i in range(len(rows))]
