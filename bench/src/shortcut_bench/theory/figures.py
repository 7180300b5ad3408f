"""Draws the results of `theory` and `theory-bridge`; the only module here that needs matplotlib.

Colours are those of Okabe and Ito, which people with any colour vision tell apart; every line also has its own marker,
so that a grey print can be read.
"""

import io
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shortcut_guardrail.data import write_file
from shortcut_guardrail.errors import ConfigError, DataError

from .world import FLOAT_STEP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_FORMATS = ("png", "svg", "pdf")
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY = "#CC79A7", "#56B4E9", "#555555"
_STYLE = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "lines.markersize": 4,
    "lines.linewidth": 1.3,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "svg.hashsalt": "shortcut-guardrail",
}
_OBSERVERS = (
    ("training set", BLUE, "o"),
    ("parameters", RED, "s"),
    ("answers", GREEN, "^"),
    ("one-token audit", PURPLE, "D"),
)
_SIDES = (("train", "training set", BLUE, "o"), ("deploy", "parameters", RED, "s"))
_STRENGTH_LOOKS = ((GREY, "x"), (SKY, "o"), (ORANGE, "s"), (RED, "^"))
_NOT_RANKED = 1000
_RANKINGS: tuple[tuple[str, str, str, Callable[[dict[str, Any]], int | None]], ...] = (
    ("training statistics", BLUE, "o", lambda row: row["statistics_rank"]),
    ("audit, word in half of the texts", RED, "s", lambda row: row["audits"]["random"]["rank"]),
    ("audit, reversed texts", ORANGE, "^", lambda row: row["audits"]["reversed"]["rank"]),
)
_SERIES = ("by_train_size", "by_step", "by_strength", "by_deployment_texts")


def save_figure(figure: "Figure", path: Path) -> None:
    """Writes a figure as PNG (200 dots per inch), SVG or PDF, with nothing in it that changes from run to run.

    Raises:
        ConfigError: The file name ends in something else, or nothing can be written there.
        RunError: The file cannot be written.
    """
    kind = check_figure_path(path)
    import matplotlib as mpl

    date_free: dict[str, dict[str, str | None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    drawn = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": _STYLE["svg.hashsalt"]}):
        figure.savefig(drawn, format=kind, dpi=200, metadata=date_free[kind])
    write_file(path, drawn.getvalue(), overwrite=True)


def check_figure_path(path: Path) -> str:
    """The format that the file name asks for.

    Raises:
        ConfigError: It is not one of `FIGURE_FORMATS`.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FIGURE_FORMATS:
        raise ConfigError(f"--out must end in .png, .svg or .pdf, but is '{path.name}'.")
    return kind


def theory_page(result: dict[str, Any]) -> "Figure":
    """Six panels on the enumerable world; see `shortcut_bench.theory.experiment.run` for the result.

    Raises:
        ConfigError: matplotlib is not installed.
        DataError: A series is missing from `result`.
    """
    if missing := [name for name in _SERIES if name not in result]:
        raise DataError(f"The result has no {', '.join(missing)}. Run the experiment 'theory' again with --overwrite.")
    mpl = _matplotlib()
    with mpl.rc_context(_STYLE):
        figure = mpl.figure.Figure(figsize=(7.2, 8.8), layout="constrained")
        axes = figure.subplots(3, 2)
        _draw_information(axes[0, 0], result["by_train_size"])
        _draw_coarseness(axes[0, 1], result["by_step"])
        _draw_errors(axes[1, 0], result["by_train_size"], "train_size", "training size N (texts)")
        _draw_errors(axes[1, 1], result["by_strength"], "shortcut_strength", "shortcut strength λ")
        _draw_ceilings(axes[2, 0], result["by_train_size"])
        _draw_deployment(axes[2, 1], result["by_deployment_texts"])
        figure.suptitle(_world_line(result["config"]), fontsize=7.5, color=GREY)
    return cast("Figure", figure)


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl
        import matplotlib.figure
    except ImportError as error:
        raise ConfigError("Drawing needs matplotlib, which is not installed. Run: pip install matplotlib") from error
    return mpl


def _world_line(config: dict[str, Any]) -> str:
    return (
        f"{config['num_tokens']} tokens, {3 ** config['num_tokens']} structures; where not varied:"
        f" N = {config['train_size']}, λ = {config['shortcut_strength']}, weight step δ = {config['step']:g}"
    )


def _draw_information(axes: "Axes", rows: Sequence[dict[str, Any]]) -> None:
    sizes = _settings(rows, "train_size")
    axes.axhline(rows[0]["bounds"]["train"]["entropy"], color=GREY, linestyle=":", label="H(S*)")
    for name, colour, marker in _OBSERVERS:
        axes.plot(sizes, [row["information"][name] for row in rows], color=colour, marker=marker, label=name)
    axes.set(title="(a) Information on S*", xlabel="training size N (texts)", ylabel="I(S*; ·)  (bits)")
    axes.set_ylim(bottom=0)
    axes.set_xticks(sizes)
    axes.legend(loc="upper left", bbox_to_anchor=(0, 0.93))


def _draw_coarseness(axes: "Axes", rows: Sequence[dict[str, Any]]) -> None:
    sizes = sorted({row["world"]["train_size"] for row in rows})
    steps = sorted({row["world"]["step"] for row in rows})
    for size, colour, marker in zip(sizes, (SKY, BLUE, ORANGE), ("o", "s", "^"), strict=True):
        lost = {r["world"]["step"]: r["bounds"]["information_lost"] for r in rows if r["world"]["train_size"] == size}
        axes.plot(range(len(steps)), [lost[s] for s in steps], color=colour, marker=marker, label=f"N = {size}")
    axes.set_xticks(range(len(steps)), ["floats" if s == FLOAT_STEP else f"{s:g}" for s in steps])
    axes.set(
        title="(b) Information lost in training",
        xlabel="step δ between the values a weight can take",
        ylabel="ΔI = I(S*; D) − I(S*; θ)  (bits)",
    )
    axes.legend(loc="upper left")


def _draw_errors(axes: "Axes", rows: Sequence[dict[str, Any]], setting: str, label: str) -> None:
    x = _settings(rows, setting)
    axes.axhspan(-0.2, 0, color="#eeeeee", zorder=0)
    for side, observer, colour, marker in _SIDES:
        errors = [row["bayes_error"][observer] for row in rows]
        axes.plot(x, errors, color=colour, marker=marker, label=f"true best error, {observer}")
        sharp = [row["sharp_bounds"][side] for row in rows]
        axes.plot(x, sharp, color=colour, linestyle=":", label=f"Fano, sharp, {observer}")
        bounds = [row["bounds"][side]["value"] for row in rows]
        axes.plot(x, bounds, color=colour, linestyle="--", marker=marker, markerfacecolor="white", label=f"L_{side}")
    panel, by = ("(c)", "training size") if setting == "train_size" else ("(d)", "strength")
    axes.set(title=f"{panel} Errors and Fano's bounds, by {by}", xlabel=label, ylabel="P(Ŝ ≠ S*)")
    axes.set_ylim(-0.2, 1.0)
    if setting == "train_size":
        axes.set_xticks(x)
    axes.text(x[0], -0.17, "negative: vacuous", color=GREY, fontsize=6.5)
    if panel == "(c)":
        axes.legend(loc="upper right", fontsize=6.5, labelspacing=0.25)


def _draw_ceilings(axes: "Axes", rows: Sequence[dict[str, Any]]) -> None:
    sizes = _settings(rows, "train_size")
    for side, observer, colour, marker in _SIDES:
        # A ceiling from a vacuous bound is None in the result and a gap in the line.
        ceilings = [_or_nan(row["ceilings"][f"{side}_ceiling"]) for row in rows]
        label = f"ceiling ρ(1 − L_{side})"
        axes.plot(sizes, ceilings, color=colour, marker=marker, linestyle="--", markerfacecolor="white", label=label)
        best = [row["best_performance"][observer] for row in rows]
        axes.plot(sizes, best, color=colour, marker=marker, label=f"best possible, {observer}")
    axes.set(
        title="(e) Performance ceilings", xlabel="training size N (texts)", ylabel="expected performance ρ (accuracy)"
    )
    axes.set_xticks(sizes)
    axes.text(sizes[0], 0.87, "no ceiling where the bound is vacuous", color=GREY, fontsize=6.5)
    axes.legend(loc="lower right", fontsize=6.5, labelspacing=0.25)
    axes.set_ylim(0.25, 0.9)


def _draw_deployment(axes: "Axes", rows: Sequence[dict[str, Any]]) -> None:
    looks: Iterable[tuple[str, str]] = ((GREY, "x"), (SKY, "+"), (GREEN, "^"), (ORANGE, "v"), (PURPLE, "D"))
    names = list(dict.fromkeys(row["deployment"] for row in rows))
    axes.axhline(rows[0]["train_information"], color=BLUE, linestyle="--", label="I(S*; D), the paper's upper bound")
    for name, (colour, marker) in zip(names, looks, strict=True):
        mine = [row for row in rows if row["deployment"] == name]
        sizes, information = [row["num_texts"] for row in mine], [row["information"] for row in mine]
        axes.plot(sizes, information, color=colour, marker=marker, label=name, markersize=5)
    axes.set(
        title=f"(f) Parameters with deployment texts (N = {rows[0]['world']['train_size']})",
        xlabel="deployment texts M",
        ylabel="I(S*; θ, texts)  (bits)",
    )
    axes.set_xticks(sorted({row["num_texts"] for row in rows}))
    axes.set_ylim(top=max(row["information"] for row in rows) + 1.05)
    axes.legend(loc="upper left", fontsize=6.5, labelspacing=0.25)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _settings(rows: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [row["world"][name] for row in rows]


def bridge_page(result: dict[str, Any]) -> "Figure":
    """Four panels on GoEmotions with a planted word, the first alone if there are no models; see `bridge.run`.

    Raises:
        ConfigError: matplotlib is not installed.
        DataError: A series is missing from `result`.
    """
    if missing := [name for name in ("config", "statistics", "models") if name not in result]:
        raise DataError(f"The result has no {', '.join(missing)}. Run 'theory-bridge' again with --overwrite.")
    mpl = _matplotlib()
    models = result["models"]
    with mpl.rc_context(_STYLE):
        if not models:
            figure = mpl.figure.Figure(figsize=(4.4, 3.2), layout="constrained")
            _draw_statistics(figure.subplots(), result["statistics"], result["config"])
            return cast("Figure", figure)
        figure = mpl.figure.Figure(figsize=(7.2, 5.8), layout="constrained")
        axes = figure.subplots(2, 2)
        _draw_statistics(axes[0, 0], result["statistics"], result["config"])
        sizes = _extremes(row["train_size"] for row in models)
        for panel, size, place in zip("bc", sizes, axes.flat[1:3], strict=False):
            mine = [row for row in models if row["train_size"] == size]
            _draw_ranks(place, mine, f"({panel}) Rank of the word, N = {size}")
        if len(sizes) == 1:
            axes[1, 0].set_axis_off()
        _draw_mean_change(axes[1, 1], models)
    return cast("Figure", figure)


def _draw_statistics(axes: "Axes", rows: Sequence[dict[str, Any]], config: dict[str, Any]) -> None:
    strengths = sorted({row["shortcut_strength"] for row in rows})
    for strength, (colour, marker) in zip(strengths, _STRENGTH_LOOKS, strict=False):
        mine = [row for row in rows if row["shortcut_strength"] == strength]
        sizes = [row["train_size"] for row in mine]
        axes.plot(sizes, [row["listed"] for row in mine], color=colour, marker=marker, label=_strength_label(strength))
        low, high = zip(*(row["listed_interval"] for row in mine), strict=True)
        axes.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set(
        title=f"(a) Found from training statistics ({config['statistics_draws']} draws)",
        xlabel="training size N (texts, logarithmic)",
        ylabel=f"share of draws with the word\nin the first {config['list_length']}",
        ylim=(-0.03, 1.03),
    )
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.42))


def _draw_ranks(axes: "Axes", models: Sequence[dict[str, Any]], title: str) -> None:
    """One point per model and method; the rank axis is logarithmic and a word that is not ranked sits on its edge."""
    strengths = sorted({row["shortcut_strength"] for row in models})
    for shift, (name, colour, marker, rank_of) in zip((-0.22, 0, 0.22), _RANKINGS, strict=True):
        points = [
            (strengths.index(row["shortcut_strength"]) + shift + _spread(row["seed"]), rank_of(row) or _NOT_RANKED)
            for row in models
        ]
        axes.plot(*zip(*points, strict=True), color=colour, marker=marker, linestyle="", alpha=0.8, label=name)
    axes.axhline(10.5, color=GREY, linestyle=":", linewidth=1)
    axes.set_yscale("log")
    axes.set_ylim(_NOT_RANKED * 1.3, 0.8)
    axes.set_yticks([1, 3, 10, 30, 100, _NOT_RANKED], ["1", "3", "10", "30", "100", "not\nranked"])
    axes.minorticks_off()
    axes.set_xticks(range(len(strengths)), [_strength_label(strength) for strength in strengths])
    axes.set(title=title, xlabel="shortcut strength λ of the training texts", ylabel="rank (1 is at the top)")
    axes.legend(loc="lower right")


def _draw_mean_change(axes: "Axes", models: Sequence[dict[str, Any]]) -> None:
    strengths = sorted({row["shortcut_strength"] for row in models})
    looks = zip(_extremes(row["train_size"] for row in models), ((SKY, "o", -0.1), (RED, "s", 0.1)), strict=False)
    for size, (colour, marker, shift) in looks:
        mine = [row for row in models if row["train_size"] == size]
        falls = [_or_nan(row["audits"]["random"]["mean_change"]) for row in mine]
        axes.plot(
            [strengths.index(row["shortcut_strength"]) + shift + _spread(row["seed"]) for row in mine],
            [-change for change in falls],
            color=colour,
            marker=marker,
            linestyle="",
            alpha=0.8,
            label=f"N = {size}",
        )
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks(range(len(strengths)), [_strength_label(strength) for strength in strengths])
    axes.set(
        title="(d) What masking the word takes away",
        xlabel="shortcut strength λ of the training texts",
        ylabel="mean fall of P(predicted class)",
    )
    axes.legend(loc="upper left")


def _strength_label(strength: float) -> str:
    return f"λ = {strength:g}" + (" (control)" if strength == 0 else "")


def _spread(seed: int) -> float:
    """A small shift to the side, so that equal points of different seeds can be told apart."""
    return 0.03 * (seed % 5 - 2)


def _extremes(sizes: Iterable[int]) -> list[int]:
    """The smallest and the largest size; one entry if there is only one."""
    known = set(sizes)
    return sorted({min(known), max(known)})
