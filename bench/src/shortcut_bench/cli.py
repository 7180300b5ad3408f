"""`shortcut-guardrail benchmark`: runs experiments, makes their tables and figures, lists them.

There are two kinds. An experiment of the theory is a module with `run(**options) -> dict` and `draw(result) -> Figure`,
and one more entry in `EXPERIMENTS` adds one. An experiment on data sets and systems is a TOML file in
`shortcut_bench/settings`, and the file adds it. Modules are imported only when they are used, so that the
command line starts fast.
"""

import ast
import difflib
import importlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from shortcut_guardrail.cli import Debug, Overwrite
from shortcut_guardrail.errors import ConfigError, RunError

from .experiments import ExperimentConfig, experiment_names, read_experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

app = typer.Typer(help="Run the paper's experiments; make tables and figures.", no_args_is_help=True)

CONFIGURED_OPTIONS = frozenset(
    {"data_dir", "encoder", "seeds", "scale", "systems", "settings", "precision", "changes", "cache"}
)


@dataclass(frozen=True)
class Experiment:
    """An experiment that can be run by name.

    Attributes:
        name: What the user types; also the folder of its result.
        shows: One line for `benchmark list`.
        module: Where its `run` and `draw` are; empty for an experiment that a TOML file describes.
        options: The options of `benchmark run` that its `run` takes, as Python names.
        required: Those of them that the user has to give.
        resumes: Whether its `run` takes a file `unfinished` in which it keeps what is finished.
    """

    name: str
    shows: str
    module: str = ""
    options: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    resumes: bool = False

    def load(self) -> Any:
        """The module with `run` and `draw`, or the object that stands for it."""
        return importlib.import_module(self.module) if self.module else Configured(self.name)


class Configured:
    """An experiment that a TOML file describes, with the `run` and `draw` of the others.

    Args:
        name: Its name, or the path of its file.
    """

    def __init__(self, name: str) -> None:
        self.config: ExperimentConfig = read_experiment(name)
        self.NAME = self.config.name

    def run(
        self,
        out: Path,
        *,
        data_dir: Path | None = None,
        encoder: str | None = None,
        seeds: Sequence[int] | None = None,
        scale: str = "small",
        systems: Sequence[str] = (),
        settings: Sequence[str] = (),
        precision: str | None = None,
        changes: Mapping[str, Any] | None = None,
        cache: Path | None = None,
        overwrite: bool = False,
        command: str = "",
    ) -> Any:
        """See `shortcut_bench.runner.run_experiment`."""
        from shortcut_guardrail.cli import progress_bars, stderr

        from .runner import run_experiment

        changes = dict(changes or {}) | ({} if precision is None else {"precision": precision})
        console = stderr()
        with progress_bars() as progress:
            return run_experiment(
                self.config,
                data_dir=data_dir,
                out=out,
                scale=scale,
                seeds=seeds,
                encoder=encoder,
                systems=systems,
                settings=settings,
                changes=changes,
                cache=cache,
                overwrite=overwrite,
                command=command,
                # Bars where someone watches; in a log the line of each run is enough.
                progress=progress if console.is_terminal else None,
                report=console.print,
            )

    def draw(self, collection: Any) -> "Figure":
        """See `shortcut_bench.figures.draw`."""
        from .figures import draw

        return draw(collection)


def _theory() -> tuple[Experiment, ...]:
    return (
        Experiment(
            name="theory",
            shows="The paper's information bounds beside exact values, in a world small enough to enumerate.",
            module="shortcut_bench.theory.experiment",
        ),
        Experiment(
            name="theory-bridge",
            shows="How often a planted shortcut is found from training statistics and from the trained model's audit.",
            module="shortcut_bench.theory.bridge",
            options=frozenset({"data_dir", "encoder", "seeds"}),
            required=frozenset({"data_dir"}),
            resumes=True,
        ),
    )


EXPERIMENTS = {experiment.name: experiment for experiment in _theory()} | {
    name: Experiment(name=name, shows=read_experiment(name).shows, options=CONFIGURED_OPTIONS)
    for name in experiment_names()
}

UNFINISHED_FILE = "unfinished.jsonl"
"""Where an experiment that can resume keeps what is finished, in its folder; removed when the result is written."""

ExperimentName = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="A name from `benchmark list`, or a TOML file of your own.")
]
Results = Annotated[Path, typer.Option(help="Folder of all results, as given to `benchmark run --out`.")]
OnlyScale = Annotated[str | None, typer.Option(help="Only runs of this scale.", show_default="all, if one")]
OnlyEncoder = Annotated[str | None, typer.Option(help="Only runs with this encoder.", show_default="all, if one")]


@app.command()
def run(
    experiment: ExperimentName,
    *,
    out: Annotated[Path, typer.Option(help="Folder of all results.")] = Path("results"),
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the data sets.", show_default="read from the Hub")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder to fine-tune: a folder or a Hub name.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds, such as 0,1,2.")] = None,
    scale: Annotated[str | None, typer.Option(help="tiny, small or paper.", show_default="small")] = None,
    systems: Annotated[
        str | None, typer.Option("--systems", "--methods", help="Only these systems, such as erm,guardrail.")
    ] = None,
    settings: Annotated[str | None, typer.Option(help="Only these settings, such as GoEmo-ST,Civil.")] = None,
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"] | None, typer.Option(help="Number format of fitting.")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Change the scale: NAME=VALUE, as epochs=5.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder for classifiers that runs share.", show_default="OUT/.cache")
    ] = None,
    overwrite: Overwrite = False,
    debug: Debug = False,
) -> None:
    """Runs an experiment and writes its results as JSON; what is finished is not run again."""
    chosen = find_experiment(experiment)
    given = {
        "data_dir": data_dir,
        "encoder": encoder,
        "seeds": None if seeds is None else parse_seeds(seeds),
        "scale": scale,
        "systems": None if systems is None else parse_names("systems", systems),
        "settings": None if settings is None else parse_names("settings", settings),
        "precision": precision,
        "changes": parse_changes(set_) if set_ else None,
        "cache": cache,
    }
    options = _accepted_options(chosen, {name: value for name, value in given.items() if value is not None})
    command = _portable_command(chosen, options)
    if not chosen.module:
        _run_configured(chosen, out, options, command, overwrite)
        return
    from .theory.record import record_run

    module = chosen.load()
    unfinished = out / chosen.name / UNFINISHED_FILE
    path = record_run(
        out,
        chosen.name,
        lambda: module.run(**options, **({"unfinished": unfinished} if chosen.resumes else {})),
        command=command,
        overwrite=overwrite,
    )
    unfinished.unlink(missing_ok=True)  # all of it is in the result now
    typer.echo(f"Wrote {path}")


def _run_configured(chosen: Experiment, out: Path, options: dict[str, Any], command: str, overwrite: bool) -> None:
    from .results import index_path

    experiment = chosen.load()
    outcome = experiment.run(out=out, overwrite=overwrite, command=command, **options)
    for left_out in outcome.left_out:
        typer.echo(f"Left out: {left_out}.", err=True)
    typer.echo(
        f"{len(outcome.finished)} runs finished, {len(outcome.skipped)} were there. "
        f"Listed in {index_path(out, experiment.NAME)}"
    )
    if outcome.failed:
        raise RunError(
            f"{len(outcome.failed)} runs failed; run the command again to retry them. {' '.join(outcome.failed)}"
        )


@app.command()
def table(
    experiment: ExperimentName,
    *,
    results: Results = Path("results"),
    format_: Annotated[str, typer.Option("--format", help="markdown, latex or csv.")] = "markdown",
    out: Annotated[Path | None, typer.Option(help="File to write.", show_default="print it")] = None,
    min_group_size: Annotated[int, typer.Option(help="Smallest group that can be the worst one.")] = 1,
    scale: OnlyScale = None,
    encoder: OnlyEncoder = None,
    overwrite: Overwrite = False,
    debug: Debug = False,
) -> None:
    """Makes the table of a finished experiment."""
    chosen = find_experiment(experiment)
    if chosen.module:
        raise ConfigError(f"The experiment '{chosen.name}' has no table; its result is a JSON file and a figure.")
    from shortcut_guardrail.data import check_output, write_file

    from .collect import collect
    from .tables import FORMATS, make_table, render

    if format_ not in FORMATS:
        raise ConfigError(f"--format must be one of {', '.join(FORMATS)}, but is '{format_}'.")
    if out is not None:
        check_output(out, overwrite=overwrite, endings=(FORMATS[format_],))
    collection = collect(results, chosen.load().config, scale=scale, encoder=encoder)
    rendered = render(make_table(collection, min_group_size=min_group_size), format_)
    if out is None:
        sys.stdout.write(rendered)
        return
    write_file(out, rendered, overwrite=overwrite)
    typer.echo(f"Wrote {out}")


@app.command()
def figure(
    experiment: ExperimentName,
    *,
    out: Annotated[Path, typer.Option(help="The file to write: .png, .svg or .pdf.")],
    results: Results = Path("results"),
    scale: OnlyScale = None,
    encoder: OnlyEncoder = None,
    overwrite: Overwrite = False,
    debug: Debug = False,
) -> None:
    """Draws the figure of a finished experiment."""
    from shortcut_guardrail.data import check_output

    chosen = find_experiment(experiment)
    from .theory.figures import check_figure_path, save_figure

    check_figure_path(out)
    check_output(out, overwrite=overwrite)
    result: Any
    if chosen.module:
        from .theory.record import read_result

        if refused := [name for name, value in (("--scale", scale), ("--encoder", encoder)) if value is not None]:
            raise ConfigError(f"The experiment '{chosen.name}' does not use {', '.join(refused)}.")
        result = read_result(results, chosen.name)
    else:
        from .collect import collect

        result = collect(results, chosen.load().config, scale=scale, encoder=encoder)
    save_figure(chosen.load().draw(result), out)
    typer.echo(f"Wrote {out}")


@app.command()
def pack(results: Results = Path("results"), debug: Debug = False) -> None:
    """Adds finished runs to the small files that are committed, without class probabilities."""
    from .results import pack as add_to_store

    added = add_to_store(results)
    typer.echo(f"{len(added)} run{'' if len(added) == 1 else 's'} of {results / 'runs'} packed into {results}")


@app.command("list")
def list_experiments() -> None:
    """Lists the experiments."""
    width = max(map(len, EXPERIMENTS))
    for experiment in EXPERIMENTS.values():
        typer.echo(f"{experiment.name:<{width}}  {experiment.shows}")


def find_experiment(name: str) -> Experiment:
    """The experiment of that name, or in that TOML file.

    Raises:
        ConfigError: There is none; the message lists the names and suggests a similar one.
    """
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    if name.endswith(".toml"):
        return Experiment(name=name, shows=read_experiment(name).shows, options=CONFIGURED_OPTIONS)
    similar = difflib.get_close_matches(name, EXPERIMENTS, n=1)
    hint = f" Did you mean '{similar[0]}'?" if similar else ""
    raise ConfigError(f"There is no experiment '{name}' (there are: {', '.join(EXPERIMENTS)}).{hint}")


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds from '0,1,2'.

    Raises:
        ConfigError: Something between the commas is not a whole number from 0 on, or a seed comes twice.
    """
    parts = [part.strip() for part in text.split(",")]
    if wrong := [part for part in parts if not (part.isascii() and part.isdigit())]:
        raise ConfigError(f"--seeds must be whole numbers separated by commas, such as 0,1,2, but has '{wrong[0]}'.")
    seeds = tuple(int(part) for part in parts)
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds must be different numbers, but are {text}.")
    return seeds


def parse_names(option: str, text: str) -> tuple[str, ...]:
    """Names from 'erm,guardrail'.

    Raises:
        ConfigError: There is nothing between two commas.
    """
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise ConfigError(f"--{option} must be names separated by commas, but is '{text}'.")
    return names


def parse_changes(texts: Sequence[str]) -> dict[str, Any]:
    """Fields of a scale from 'epochs=5'; a value is a number, a list of numbers, or a word.

    Raises:
        ConfigError: There is no name or no value.
    """
    changes: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise ConfigError(f"--set must be NAME=VALUE, such as epochs=5, but is '{text}'.")
        try:
            changes[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            changes[name] = value
    return changes


def _accepted_options(experiment: Experiment, given: dict[str, Any]) -> dict[str, Any]:
    if refused := [name for name in given if name not in experiment.options]:
        flags = ", ".join(_flag(name) for name in refused)
        takes = ", ".join(_flag(name) for name in sorted(experiment.options)) or "none of the kind"
        raise ConfigError(f"The experiment '{experiment.name}' does not use {flags} (it takes: {takes}).")
    if missing := sorted(experiment.required - given.keys()):
        raise ConfigError(f"The experiment '{experiment.name}' needs {', '.join(map(_flag, missing))}.")
    return given


def _portable_command(experiment: Experiment, options: dict[str, Any]) -> str:
    """The command without this machine's folders: a data folder or an encoder folder is named by its last part."""
    words = ["shortcut-guardrail", "benchmark", "run", _portable(experiment.name)]
    for name, value in options.items():
        if name == "changes":
            for field, change in value.items():
                words += [_flag(name), f"{field}={change}"]
        elif name != "cache":
            words += [_flag(name), _portable(value)]
    return shlex.join(words)


def _portable(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    path = Path(value)
    return path.name if path.is_absolute() or path.is_dir() or path.suffix == ".toml" else str(value)


def _flag(name: str) -> str:
    return "--set" if name == "changes" else "--" + name.replace("_", "-")
