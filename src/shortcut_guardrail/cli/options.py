"""Options that commands share: each is declared once here, alone or in a group that `command` spreads out.

The fields of a group are the options that typer sees; a command receives the group as one object.
"""

from __future__ import annotations

import inspect
import os
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..data import TextData, check_output, read_shortcuts_file, to_json, write_file
from ..display import say
from ..errors import ConfigError, DataError
from ..typing import Head
from .help import HelpAll
from .running import collect_as_usual, enable_debug, progress_bars

if TYPE_CHECKING:
    from ..guardrail import ShortcutGuardrail
    from ..typing import Progress


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Folder or Hub id of a text classifier. Any other classifier: module:function, or a TOML file.",
        show_default=False,
    ),
]
ModelOrGuard = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Folder or Hub id of a text classifier, or a folder that fit wrote; module:function, or a TOML file.",
        show_default=False,
    ),
]
Guarded = Annotated[
    str, typer.Argument(metavar="GUARD", help="Folder that fit wrote, or the Hub id of one.", show_default=False)
]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Texts: file or URL (CSV, TSV, JSON, JSON Lines, Parquet; .gz, .zst) or Hub data set (owner/name:split).",
        show_default=False,
    ),
]
AuditFolder = Annotated[Path, typer.Argument(metavar="AUDIT", help="Folder that audit wrote.", show_default=False)]
OutFolder = Annotated[Path, typer.Option("--out", help="Folder to write.", show_default=False)]
OutRows = Annotated[
    Path, typer.Option("--out", help="File to write. Its ending decides: .csv, .tsv or .jsonl.", show_default=False)
]
Html = Annotated[Path | None, typer.Option("--html", help="HTML page to write.", show_default=False)]
Seed = Annotated[
    int, typer.Option(metavar="N", help="The same seed gives the same result.", min=0, rich_help_panel="Settings")
]
Redact = Annotated[bool, typer.Option("--redact", help="Write no texts.", rich_help_panel="Privacy")]
NoTextHashes = Annotated[
    bool,
    typer.Option(
        "--no-text-hashes",
        help="Store no hashes of texts, from which short texts can be guessed. Then no text is recognised again.",
        rich_help_panel="Privacy",
    ),
]


def check_hashes(no_text_hashes: bool, second_model: Any) -> None:
    """Refuse to leave out the hashes by which the answers of second models are kept."""
    if no_text_hashes and second_model:
        raise ConfigError(
            "--no-text-hashes excludes a second model, whose predictions are stored by hashes. Leave one of them out."
        )


TopK = Annotated[int, typer.Option(metavar="K", help="Words looked at in each text.", rich_help_panel="Settings")]
Cards = Annotated[
    str,
    typer.Option(
        "--word-groups",
        metavar="undecided|all|WORD,...",
        help="Which word groups to ask about: a word or id of each; undecided means those that are not flagged.",
    ),
]
DecisionsFile = Annotated[
    Path | None, typer.Option(help="Decisions about the word groups of an audit (decisions.json).", show_default=False)
]
_output = partial(typer.Option, rich_help_panel="Output")
Overwrite = Annotated[bool, _output("--overwrite", help="Replace files of an earlier run. Other files stay.")]
Debug = Annotated[
    bool, _output("--debug", help="Show tracebacks and all warnings.", is_eager=True, callback=enable_debug)
]

LabelNames = Annotated[
    str | None,
    typer.Option(
        metavar="0=NAME,1=NAME",
        help="Names for classes called 0 or LABEL_0: by class id or the model's own name, or a JSON, TOML or CSV file.",
        show_default="the model's names",
        rich_help_panel="Model and machine",
    ),
]

_column = partial(typer.Option, show_default="guessed", rich_help_panel="Columns")
_of_model = partial(typer.Option, rich_help_panel="Model and machine")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Where the texts are in the files."""

    text_column: Annotated[str | None, _column(help="Column with the texts.")] = None
    text_pair_column: Annotated[str | None, _column(help="Column with the second text of a pair.")] = None

    def given(self) -> dict[str, Any]:
        """As `read_data` takes them."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class LabelledColumns(Columns):
    """Where the texts and their labels are in the files."""

    label_column: Annotated[str | None, _column(help="Column with the labels.")] = None

    def of_texts(self) -> dict[str, Any]:
        """Those of the texts alone."""
        return {"text_column": self.text_column, "text_pair_column": self.text_pair_column}


@dataclass(frozen=True, kw_only=True)
class _Loading:
    """How any model is loaded."""

    revision: Annotated[
        str | None, _of_model(help="Branch, tag or commit of the model on the Hub.", show_default="main")
    ] = None
    device: Annotated[str | None, _of_model(help="cpu, cuda, cuda:1, ...", show_default="a GPU where there is one")] = (
        None
    )
    batch_size: Annotated[int, _of_model(metavar="N", help="Sequences per forward pass outside training.", min=1)] = 32
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"], _of_model(help="Number format of matrix products.")
    ] = "float32"
    allow_pickle: Annotated[
        bool, _of_model("--allow-pickle", help="Also read weights in a format that can run code when it is opened.")
    ] = False
    trust_remote_code: Annotated[bool, _of_model("--trust-remote-code", help="Run modelling code from the Hub.")] = (
        False
    )
    label_names: LabelNames = None
    segmenter: Annotated[
        str | None,
        _of_model(
            metavar="jieba|fugashi|pythainlp|icu|MODULE:FUNCTION",
            help="Splits text into words in scripts without spaces.",
            show_default="each character is a word",
        ),
    ] = None
    kept_answers: Annotated[
        Path | None,
        _of_model(help="Folder for an endpoint's predictions; an interrupted run resumes.", show_default="none"),
    ] = None

    def load(self, source: str, **more: Any) -> ShortcutGuardrail:
        """The guard around a model; `more` are arguments of `from_pretrained`."""
        from ..classifiers import is_spec
        from ..guardrail import ShortcutGuardrail

        check_device(self.device)
        given = {**asdict(self), **more}
        cache, labels = given.pop("kept_answers"), given.pop("labels", None)
        if is_spec(source):
            _refuse_reading(source, given)
            names = None if labels is None else [name.strip() for name in labels.split(",")]
            guard = ShortcutGuardrail.around(source, names, segmenter=self.segmenter, cache=cache)
        elif labels is None:
            guard = ShortcutGuardrail.from_pretrained(source, **given, cache=cache)
        else:
            said = f"'{source}' has labels: see --label-names."
            raise ConfigError(f"--labels is for module:function and TOML files. {said}")
        collect_as_usual()
        return guard

    def label_of(self, source: str) -> str | None:
        """The label that is asked about, of a model with several; as far as options or the record of a guard say."""
        from ..saving import label_of

        return getattr(self, "label", None) or label_of(source)

    def read_from(self, source: str) -> list[str | None]:
        """What is read to load a model: its folder, and for a guard the base model's."""
        from ..saving import base_of

        return [source, getattr(self, "base", None), base_of(source)]


def _refuse_reading(source: str, given: dict[str, Any]) -> None:
    for name in ("head", "label", "thresholds", "max_length", "windows", "label_names", "base"):
        if given.get(name) is not None:
            said = name.replace("_", "-")
            raise ConfigError(f"--{said} is for models of Transformers, but '{source}' only answers. Leave it out.")


@dataclass(frozen=True, kw_only=True)
class ModelLoading(_Loading):
    """How a model is loaded, of which no record says how."""

    labels: Annotated[
        str | None,
        _of_model(metavar="A,B,C", help="Class names, for module:function and TOML files.", show_default=False),
    ] = None

    head: Annotated[Head | None, _of_model(help="How logits become probabilities.", show_default="from the model")] = (
        None
    )
    label: Annotated[
        str | None, _of_model(help="For a multi-label model: the label to look at.", show_default="as recorded")
    ] = None
    thresholds: Annotated[
        str | None,
        _of_model(metavar="LABEL=SHARE,...", help="From which probability a text has a label.", show_default="0.5"),
    ] = None
    max_length: Annotated[
        int | None, _of_model(metavar="N", help="Tokens per text; the rest is cut.", show_default="the model's limit")
    ] = None
    windows: Annotated[
        Literal["mean", "max"] | None,
        _of_model(help="Read longer texts in windows, and take the mean or max of their logits.", show_default="cut"),
    ] = None
    overlap: Annotated[int, _of_model(metavar="N", help="Tokens that neighbouring windows share.", min=0)] = 64


@dataclass(frozen=True, kw_only=True)
class GuardLoading(_Loading):
    """How a folder that `fit` wrote is loaded."""

    base: Annotated[
        str | None,
        _of_model(help="Folder or Hub id of the original model, if it has moved.", show_default="as recorded"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ModelOrGuardLoading(GuardLoading, ModelLoading):
    """How a model, or a folder that `fit` wrote, is loaded."""

    verify: Annotated[
        bool, _of_model("--verify", help="Compare all files of a folder that fit wrote with their hashes.")
    ] = False


_word = partial(typer.Option, metavar="WORD", show_default=False)
_words_file = partial(typer.Option, show_default=False)


@dataclass(frozen=True, kw_only=True)
class Shortcuts:
    """Words that somebody calls shortcuts."""

    shortcut: Annotated[list[str] | None, _word(help="A word or phrase that is a shortcut. Repeatable.")] = None
    shortcuts_file: Annotated[Path | None, _words_file(help="File with shortcuts, one per line.")] = None

    def words(self) -> list[str]:
        """All of them, in the order in which they were given."""
        return _words(self.shortcut, self.shortcuts_file)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Words that are legitimate, or legitimate together with others."""

    keep: Annotated[
        list[str] | None, _word(help="A legitimate word or phrase, which fit leaves alone. Repeatable.")
    ] = None
    keep_file: Annotated[Path | None, _words_file(help="File with legitimate words, one per line.")] = None
    not_alone: Annotated[
        list[str] | None,
        _word(help="A word or phrase that may count together with others, but must not decide alone. Repeatable."),
    ] = None

    def words(self) -> list[str]:
        """All of them, in the order in which they were given."""
        return _words(self.keep, self.keep_file)


def _words(given: list[str] | None, file: Path | None) -> list[str]:
    return [*(given or ()), *(read_shortcuts_file(file) if file is not None else ())]


_STANDARD_OUTPUT = Path("-")
JSON_ENDINGS = (".json",)
HTML_ENDINGS = (".html", ".htm")


@dataclass(frozen=True)
class Place:
    """Where a command writes, if anywhere.

    Attributes:
        endings: Of the names of such files; a file with another one is not replaced.
        key: For a folder the file that every such folder has.
    """

    path: Path | None
    endings: tuple[str, ...] = ()
    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a command says, and to whom."""

    json_file: Annotated[
        Path | None,
        _output("--json", help="Also write the result as JSON. A dash (-) prints it instead.", show_default=False),
    ] = None
    quiet: Annotated[bool, _output("--quiet", help="Print only warnings and errors.")] = False
    overwrite: Overwrite = False
    debug: Debug = False

    @property
    def speaks(self) -> bool:
        """Whether the result is printed for people."""
        return not self.quiet and self.json_file != _STANDARD_OUTPUT

    def check(self, *places: Place, inputs: Iterable[str | Path | None]) -> None:
        """Refuse the places of all that the command writes, the JSON file too, before anything is computed.

        Args:
            inputs: What the command reads: files, and folders of models; see `check_output`.
        """
        read, written = [*inputs], [place for place in places if place.path is not None]
        if self.json_file is not None and self.json_file != _STANDARD_OUTPUT:
            written.append(Place(self.json_file, JSON_ENDINGS))
        for i, place in enumerate(written):
            assert place.path is not None
            others = [other.path for other in written[:i]]
            check_output(
                place.path,
                overwrite=self.overwrite,
                folder=place.key,
                endings=place.endings,
                inputs=read,
                others=others,
            )

    def progress(self, *, quiet: bool = False) -> AbstractContextManager[Progress]:
        """A callback that draws a bar for each stage; none with --quiet."""
        return progress_bars(quiet=quiet or self.quiet)

    def say(self, sentence: str) -> None:
        """Print a sentence for people."""
        if self.speaks:
            say(sentence)

    def finish(self, document: Any) -> None:
        """Write or print the result as JSON, where that was asked for."""
        if self.json_file == _STANDARD_OUTPUT:
            print(to_json(document), end="")
        elif self.json_file is not None:
            write_file(self.json_file, to_json(document), overwrite=self.overwrite)
            self.say(f"Written: {self.json_file}")


SHARED = ("audit", "evaluate", "fit", "predict")
"""Commands whose work several processes share; the first of them writes and prints."""


def command(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose groups of options, such as `Output`, are spread out: each field is an option of its own."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {p.name: p.annotation for p in signature.parameters.values() if is_dataclass(p.annotation)}
    parameters = [spread for p in signature.parameters.values() for spread in _spread(p)]
    help_all = inspect.Parameter("help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=HelpAll)

    @wraps(function)
    def call(*, help_all: bool = False, **given: Any) -> Any:  # its callback has answered
        name = function.__name__.replace("_", "-")
        if name not in SHARED and os.environ.get("WORLD_SIZE", "1") != "1":  # before PyTorch is loaded to ask
            from ..models import check_alone

            check_alone(f"'{name}'")
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return function(**given)

    parameters.append(help_all)
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__doc__ = _unwrapped(function)
    return call


def _unwrapped(function: Callable[..., Any]) -> str:
    """The docstring with a line a paragraph, for whoever wraps it to the terminal; \b keeps the lines, as in Click."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(p if p.startswith("\b") else " ".join(p.split()) for p in paragraphs)


def _spread(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    if not is_dataclass(parameter.annotation):
        yield parameter.replace(kind=kind)
        return
    hints = typing.get_type_hints(parameter.annotation, include_extras=True)
    for field in fields(parameter.annotation):
        yield inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])


def check_out(out: Path | None, *, dry_run: bool, what: str, name: str) -> None:
    """Refuse a place for what a dry run does not make, and none for what another run does."""
    if dry_run and out is not None:
        raise ConfigError(f"--out is for {what}, and --dry-run makes none. Leave one of them out.")
    if out is None and not dry_run:
        raise ConfigError(f"--out is missing: name the {name}, or give --dry-run to write none.")


def check_device(device: str | None) -> None:
    """Refuse a device that PyTorch does not know or this machine does not have."""
    if device is None:
        return
    import torch

    available = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        available.append("mps")
    if {"cuda": "cuda:0"}.get(device, device) not in available:
        raise ConfigError(f"--device {device!r} is not available here; there is {', '.join(available)}.")


def class_ids(data: TextData, guard: ShortcutGuardrail) -> list[int]:
    """Class ids of labels that were read; one that the model does not have is named with its line."""
    assert data.labels is not None
    where: dict[str, Any] = {"source": data.source, "rows": data.rows, "row_word": data.row_word}
    return [int(i) for i in guard.label_ids(data.labels, **where)]


def check_same_kind(data: TextData, other: TextData | None) -> None:
    """Refuse single texts beside pairs."""
    if other is None or (data.text_pair_column is None) == (other.text_pair_column is None):
        return
    pairs, singles = (data, other) if data.text_pair_column else (other, data)
    raise DataError(
        f"{pairs.source} has text pairs ('{pairs.text_column}' and '{pairs.text_pair_column}'), but {singles.source} "
        f"has single texts ('{singles.text_column}'). Name the columns with --text-column and --text-pair-column."
    )
