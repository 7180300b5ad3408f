"""`shortcut-guardrail benchmark`: runs experiments, draws their figures, lists them.

An experiment is a module with `run(**options) -> dict` and `draw(result) -> Figure`; adding one is one more entry in
`EXPERIMENTS`. Modules are imported only when they are used, so that the command line starts fast.
"""

import difflib
import importlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from ..errors import ConfigError
from .options import Debug, Overwrite

app = typer.Typer(help="Run the experiments of the paper and draw their figures.", no_args_is_help=True)


@dataclass(frozen=True)
class Experiment:
    """An experiment that can be run by name.

    Attributes:
        name: What the user types; also the folder of its result.
        shows: One line for `benchmark list`.
        module: Where its `run` and `draw` are.
        options: The options of `benchmark run` that its `run` takes, as Python names.
        required: Those of them that the user has to give.
        resumes: Whether its `run` takes a file `unfinished` in which it keeps what is finished.
    """

    name: str
    shows: str
    module: str
    options: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    resumes: bool = False

    def load(self) -> ModuleType:
        """Imports the module with `run` and `draw`."""
        return importlib.import_module(self.module)


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="theory",
            shows="The paper's information bounds beside exact values, in a world small enough to enumerate.",
            module="shortcut_guardrail.benchmark.theory.experiment",
        ),
        Experiment(
            name="theory-bridge",
            shows="How often a planted shortcut is found from training statistics and from the trained model's audit.",
            module="shortcut_guardrail.benchmark.theory.bridge",
            options=frozenset({"data_dir", "encoder", "seeds"}),
            required=frozenset({"data_dir"}),
            resumes=True,
        ),
    )
}

UNFINISHED_FILE = "unfinished.jsonl"
"""Where an experiment that can resume keeps what is finished, in its folder; removed when the result is written."""

ExperimentName = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="A name from `benchmark list`.")]


@app.command()
def run(
    experiment: ExperimentName,
    out: Annotated[Path, typer.Option(help="Folder of all results; the experiment gets a folder in it.")] = Path(
        "results"
    ),
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the data sets.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder to fine-tune: a folder or a Hub name.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds of the models to train, such as 0,1,2.")] = None,
    overwrite: Overwrite = False,
    debug: Debug = False,
) -> None:
    """Runs an experiment and writes its result as JSON."""
    from ..benchmark.theory.record import record_run

    chosen = find_experiment(experiment)
    given = {"data_dir": data_dir, "encoder": encoder, "seeds": None if seeds is None else parse_seeds(seeds)}
    options = _accepted_options(chosen, {name: value for name, value in given.items() if value is not None})
    module = chosen.load()
    unfinished = out / chosen.name / UNFINISHED_FILE
    path = record_run(
        out,
        chosen.name,
        lambda: module.run(**options, **({"unfinished": unfinished} if chosen.resumes else {})),
        command=_portable_command(chosen, options),
        overwrite=overwrite,
    )
    unfinished.unlink(missing_ok=True)  # all of it is in the result now
    typer.echo(f"Wrote {path}")


@app.command()
def figure(
    experiment: ExperimentName,
    out: Annotated[Path, typer.Option(help="The file to write: .png, .svg or .pdf.")],
    results: Annotated[Path, typer.Option(help="Folder of all results, as given to `benchmark run --out`.")] = Path(
        "results"
    ),
    debug: Debug = False,
) -> None:
    """Draws the figure of a finished experiment."""
    chosen = find_experiment(experiment)
    from ..benchmark.theory.figures import check_figure_path, save_figure
    from ..benchmark.theory.record import read_result

    check_figure_path(out)
    save_figure(chosen.load().draw(read_result(results, chosen.name)), out)
    typer.echo(f"Wrote {out}")


@app.command("list")
def list_experiments() -> None:
    """Lists the experiments."""
    width = max(map(len, EXPERIMENTS))
    for experiment in EXPERIMENTS.values():
        typer.echo(f"{experiment.name:<{width}}  {experiment.shows}")


def find_experiment(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        ConfigError: There is none; the message lists the names and suggests a similar one.
    """
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
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
    words = ["shortcut-guardrail", "benchmark", "run", experiment.name]
    for name, value in options.items():
        words += [_flag(name), _portable(value)]
    return shlex.join(words)


def _portable(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    path = Path(value)
    return path.name if path.is_absolute() or path.is_dir() else str(value)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
