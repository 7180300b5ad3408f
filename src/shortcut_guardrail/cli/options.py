"""Options that several commands share, with one help text each."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .running import enable_debug

if TYPE_CHECKING:
    from ..data import TextData


class HeadChoice(StrEnum):
    """How logits are read."""

    softmax = "softmax"
    sigmoid = "sigmoid"


class PrecisionChoice(StrEnum):
    """Number format of matrix products."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"


class PresetChoice(StrEnum):
    """Complete configurations of `fit`."""

    default = "default"
    paper = "paper"
    paper_flat = "paper-flat"


class StrategyChoice(StrEnum):
    """How `fit` neutralises shortcuts."""

    maskcl = "maskcl"
    mask = "mask"
    distill = "distill"
    few_shot = "few-shot"


class ShortcutInChoice(StrEnum):
    """Which side of a pair is searched."""

    text = "text"
    pair = "pair"
    both = "both"


Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Folder or Hub id of a text classifier.", show_default=False)
]
ModelOrGuard = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Folder or Hub id of a text classifier, or a folder that `fit` wrote.",
        show_default=False,
    ),
]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV, JSON Lines or Parquet file, or a Hub data set (owner/name, owner/name:split).",
        show_default=False,
    ),
]
OutFolder = Annotated[Path, typer.Option("--out", help="Folder to write.", show_default=False)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that are already there; keeps others.")]
TextColumn = Annotated[str | None, typer.Option(help="Column with the texts.", show_default="guessed")]
TextPairColumn = Annotated[
    str | None, typer.Option(help="Column with the second text of a pair.", show_default="guessed")
]
LabelColumn = Annotated[str | None, typer.Option(help="Column with the labels.", show_default="guessed")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...", show_default="a GPU where there is one")]
BatchSize = Annotated[int, typer.Option(help="Sequences per forward pass outside training.", min=1)]
MaxLength = Annotated[int | None, typer.Option(help="Tokens per input.", show_default="what the model takes")]
Head = Annotated[HeadChoice | None, typer.Option(help="How logits are read.", show_default="from the model")]
Precision = Annotated[PrecisionChoice, typer.Option(help="Number format of matrix products.")]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of the model on the Hub.")]
Base = Annotated[
    str | None, typer.Option(help="For a folder that `fit` wrote: where its base model is.", show_default="as recorded")
]
AllowPickle = Annotated[bool, typer.Option("--allow-pickle", help="Also read weights that can run code when opened.")]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Run modelling code from the Hub.")]
Redact = Annotated[bool, typer.Option("--redact", help="Leave the texts out of what is written.")]
TopK = Annotated[int, typer.Option(help="Important tokens per input.")]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show tracebacks and all warnings.", is_eager=True, callback=enable_debug)
]


def check_device(device: str | None) -> None:
    """Refuse a device that PyTorch does not know or this machine does not have.

    Raises:
        ConfigError: The sentence names the devices there are.
    """
    if device is None:
        return
    import torch

    from ..errors import ConfigError

    available = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        available.append("mps")
    try:
        kind = torch.device(device)
    except RuntimeError:
        kind = None
    asked = None if kind is None else (f"cuda:{kind.index or 0}" if kind.type == "cuda" else kind.type)
    if asked not in available:
        raise ConfigError(f"--device {device!r} is not available here; there is {', '.join(available)}.")


def check_spared(out: Path, *inputs: str | Path | None) -> None:
    """Refuse to write over what the command reads, which --overwrite can hardly mean.

    Raises:
        ConfigError: `out` is one of the inputs.
    """
    from ..errors import ConfigError

    for path in inputs:
        if path is not None and out.exists() and Path(path).exists() and out.samefile(path):
            raise ConfigError(f"'{out}' is also what the command reads. Choose another place for the output.")


def check_apart(report: Path, *folders: str | Path | None) -> None:
    """Refuse a report inside the folder of a guard, which is written whole.

    Raises:
        ConfigError: `report` lies in one of the folders, or is one.
    """
    from ..errors import ConfigError

    for folder in folders:
        if folder is not None and Path(folder).resolve() in (report.resolve(), *report.resolve().parents):
            raise ConfigError(f"--report '{report}' lies in '{folder}', which is a guard's. Name a file elsewhere.")


def check_same_kind(data: TextData, other: TextData | None) -> None:
    """Refuse single texts beside pairs.

    Raises:
        DataError: The sentence names the columns.
    """
    from ..errors import DataError

    if other is None or (data.text_pair_column is None) == (other.text_pair_column is None):
        return
    pairs, singles = (data, other) if data.text_pair_column else (other, data)
    raise DataError(
        f"{pairs.source} has text pairs ('{pairs.text_column}' and '{pairs.text_pair_column}'), but {singles.source} "
        f"has single texts ('{singles.text_column}'). Name the columns with --text-column and --text-pair-column."
    )


def load_guard(
    source: str, *, device: str | None, head: HeadChoice | None, precision: PrecisionChoice, **options: Any
) -> Any:
    """The guard around a model, from a command's options."""
    from ..config import SaliencyConfig
    from ..guardrail import ShortcutGuardrail

    check_device(device)
    if (top_k := options.pop("top_k", None)) is not None:
        SaliencyConfig(top_k=top_k)
    return ShortcutGuardrail.from_pretrained(
        source, device=device, head=head.value if head else None, precision=precision.value, **options
    )
