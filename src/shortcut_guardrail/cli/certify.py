"""`shortcut-guardrail to-label` and `certify`: show that a finished guard does no harm, for few labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..config import CertifyConfig
from ..data import TextData, read_data, write_file
from ..errors import ConfigError, DataError
from . import options
from .rows import check_suffix, rendered

if TYPE_CHECKING:
    from ..guardrail import ShortcutGuardrail


@options.command
def to_label(
    *,
    guard: options.Guarded,
    data: options.Data,
    out: options.OutRows,
    n: Annotated[int, typer.Option("--n", help="How many texts, at most.", min=1)] = 100,
    seed: options.Seed = 0,
    columns: options.Columns,
    loading: options.GuardLoading,
    output: options.Output,
) -> None:
    """Choose the texts whose labels tell whether the guard harms.

    Guarded and base accuracy differ only where their answers do, so only such texts need a label. A random sample of
    them is written with an empty column "label", to be filled in and given to `certify`. The answers of the models are
    left out, so that they sway nobody. The rows are in random order, so the first so many do as well: decide how many
    before you see what the labels say, skip none, and delete the rest.
    """

    check_suffix(out)
    output.check(options.Place(out), inputs=[data, *loading.read_from(guard)])
    texts = read_data(data, **columns.given())
    _check_columns(texts)
    loaded = load_guard(guard, loading)
    with output.progress() as progress:
        chosen = loaded.to_label(texts.texts, n, seed=seed, kept=_kept_in(guard), progress=progress)
    if chosen:
        write_file(out, rendered(_to_fill_in(texts, chosen), out.suffix), overwrite=output.overwrite)
        output.say(f"Written: {out} ({len(chosen)} of {len(texts)} texts to label)")
    else:
        output.say(
            f"Nothing to label: at every strength the guard answers all {len(texts)} texts as the base does. "
            "`certify` needs no labels then."
        )
    output.finish({"out": str(out) if chosen else None, "n": len(texts), "n_to_label": len(chosen)})


@options.command
def certify(
    *,
    guard: options.Guarded,
    data: options.Data,
    labelled: Annotated[
        str | None,
        typer.Option(help="File with labelled texts: a random sample, or what `to-label` chose.", show_default="none"),
    ] = None,
    margin: Annotated[float, typer.Option(help="Accuracy that the guard may lose against the base.")] = 0.02,
    confidence: Annotated[float, typer.Option(help="Of the statement.")] = 0.95,
    harm: Annotated[
        Literal["net", "harmed"],
        typer.Option(help="`net`: accuracy lost; `harmed`: right answers lost, whatever is gained."),
    ] = "net",
    looks: Annotated[
        int,
        typer.Option(help="Certificates planned in all, with more labels or other margins; each takes more evidence."),
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder to write the guard to, with certificate.", show_default="only print"),
    ] = None,
    html: options.Html = None,
    columns: options.LabelledColumns,
    loading: options.GuardLoading,
    output: options.Output,
) -> None:
    """Certify that a guard loses no more accuracy than a margin.

    Holds for all strengths at once, and says so if none can be certified and how many labels would do. If the strength
    in use is not among the certified ones, the best of those replaces it in the folder that --out names. Every row of
    --labelled needs a label.
    """
    from ..report import print_certificate, render_comparison
    from ..saving import GUARDRAIL_FILE

    config = CertifyConfig(margin=margin, confidence=confidence, harm=harm, looks=looks)
    places = (options.Place(out, key=GUARDRAIL_FILE), options.Place(html, options.HTML_ENDINGS))
    output.check(*places, inputs=[data, labelled, *loading.read_from(guard)])
    around = read_data(data, **columns.of_texts())
    rows = None
    if labelled is not None:
        rows = read_data(labelled, **columns.given(), label=loading.label_of(guard), require_labels=True)
        options.check_same_kind(around, rows)
    loaded = load_guard(guard, loading)
    texts: Any = []
    labels: list[int] = []
    if rows is not None:
        texts, labels = list(rows.texts), options.class_ids(rows, loaded)
    before = loaded.debias_strength
    with output.progress() as progress:
        kept = _kept_in(guard)
        found = loaded.certify(texts, labels, unlabelled=around.texts, config=config, kept=kept, progress=progress)
    if output.speaks:
        print_certificate(found)
    used = f"The guard is applied at strength {before:g}."
    if found.strength != before:
        where = (
            f"takes its place in {out}" if out is not None else "would take its place in the folder that --out names"
        )
        used = f"Strength {before:g} is not certified; {found.strength:g} {where}."
        output.say(used)
    if out is not None:
        loaded.save_pretrained(out, overwrite=output.overwrite)
        output.say(f"Written: {out}")
    if html is not None:
        page = render_comparison(
            title="Certificate of a guard",
            subtitle=f"{guard}, {around.source}",
            introduction=[used],
            certificate={**found.to_dict(), "strength": before if out is None else found.strength},
        )
        write_file(html, page, overwrite=output.overwrite)
        output.say(f"Written: {html}")
    output.finish(found.to_dict())


def load_guard(source: str, loading: options.GuardLoading) -> ShortcutGuardrail:
    """The guard in a folder that `fit` wrote or on the Hub, whose files are compared with their hashes.

    Raises:
        ConfigError: There is no guard.
    """
    from ..saving import from_hub, is_guarded_folder

    if not is_guarded_folder(source) and from_hub(source, loading.revision) is None:
        raise ConfigError(
            f"'{source}' is no folder that fit wrote, and no guard of this name answers on the Hub. Fit a guard first."
        )
    return loading.load(source, verify=True)  # what is certified is what was saved


def _kept_in(source: str) -> Path | None:
    """Where `to-label` keeps answers for `certify`; of a guard on the Hub it keeps none."""
    return Path(source) / "answers.npz" if Path(source).is_dir() else None


LABEL = "label"


def _check_columns(texts: TextData) -> None:
    """Refuse texts in a column of the name that the file to fill in needs for something else."""

    for taken in (LABEL, texts.row_word):
        if taken in (texts.text_column, texts.text_pair_column):
            raise DataError(
                f"The texts stand in a column called '{taken}', which the file to fill in needs for something else. "
                "Rename that column."
            )


def _to_fill_in(texts: TextData, chosen: list[int]) -> list[dict[str, Any]]:
    """Rows with the columns of the source, so that `certify` reads them without being told."""
    columns = (texts.text_column, texts.text_pair_column or "")
    rows: list[dict[str, Any]] = []
    for i in chosen:
        text = texts.texts[i]
        sides = (text,) if isinstance(text, str) else text
        rows.append({texts.row_word: texts.rows[i], **dict(zip(columns, sides, strict=False)), LABEL: ""})
    return rows
