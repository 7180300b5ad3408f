"""`shortcut-guardrail to-label` and `certify`: bound the harm of a finished repair with few labels."""

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
    n: Annotated[int, typer.Option("--n", metavar="N", help="How many texts, at most.", min=1)] = 100,
    seed: options.Seed = 0,
    columns: options.Columns,
    loading: options.GuardLoading,
    output: options.Output,
) -> None:
    """Choose the texts to label for a certificate.

    \b
    shortcut-guardrail to-label guarded texts.csv --out to-label.csv
    shortcut-guardrail certify guarded texts.csv --labelled to-label.csv --out certified

    The repaired and the original model differ in accuracy only where their predictions differ, so only such texts need
    a label. Fill in the column "label" and give the file to certify. Predictions are left out, so that they do not
    influence you. Rows are in random order. You may label only the first N: fix N before you start, skip none, and
    delete the rest.
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
        output.say(f"Nothing to label: both models agree on all {len(texts)} texts. `certify` needs no labels then.")
    output.finish({"out": str(out) if chosen else None, "n": len(texts), "n_to_label": len(chosen)})


@options.command
def certify(
    *,
    guard: options.Guarded,
    data: options.Data,
    labelled: Annotated[
        str | None,
        typer.Option(help="File with labelled texts: what `to-label` chose, or a random sample.", show_default="none"),
    ] = None,
    margin: Annotated[float, typer.Option(help="Accuracy that the repair may cost at most.")] = 0.02,
    confidence: Annotated[float, typer.Option(help="Confidence level of the certificate.")] = 0.95,
    harm: Annotated[
        Literal["net", "harmed"],
        typer.Option(help="net: loss of accuracy. harmed: right predictions lost, whatever is gained elsewhere."),
    ] = "net",
    looks: Annotated[
        int, typer.Option(metavar="N", help="How many certificates you plan. Each needs more evidence.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the repaired model with its certificate.", show_default="only print"),
    ] = None,
    html: options.Html = None,
    columns: options.LabelledColumns,
    loading: options.GuardLoading,
    output: options.Output,
) -> None:
    """Certify that a repair costs no more accuracy than a margin.

    \b
    shortcut-guardrail certify guarded texts.csv --labelled to-label.csv --out certified

    The certificate covers every strength that it lists. If none can be certified, it says how many labels would be
    enough, and which margin. If the strength in use is not certified, the best certified one replaces it in OUT. Every
    row of --labelled needs a label.
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
    texts, labels = ([], []) if rows is None else (rows.texts, options.class_ids(rows, loaded))
    before = loaded.debias_strength
    with output.progress() as progress:
        kept = _kept_in(guard)
        found = loaded.certify(texts, labels, unlabelled=around.texts, config=config, kept=kept, progress=progress)
    if output.speaks:
        print_certificate(found)
    used = f"The repair is used at strength {before:g}."
    if found.strength != before:
        where = f"replaces it in {out}" if out is not None else "would replace it in the folder that --out names"
        used = f"Strength {before:g} is not certified; {found.strength:g} {where}."
        output.say(used)
    if out is not None:
        loaded.save_pretrained(out, overwrite=output.overwrite)
        output.say(f"Written: {out}")
    if html is not None:
        page = render_comparison(
            title="Certificate of a repair",
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
            f"'{source}' is no folder that fit wrote, and the Hub has no repaired model of this name. Run fit first."
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
