"""Figures of finished experiments. Only this module and the theory's need matplotlib.

Colours are those of Okabe and Ito, which people with any colour vision tell apart; every series also has its own marker
or hatching, so that a grey print can be read. Error bars are the standard deviation over seeds.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shortcut_guardrail.errors import ConfigError, DataError

from .collect import Cell, Collection
from .columns import group_values, recall_values, worst_groups
from .statistics import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = Callable[[Cell], list[float]]

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#555555"
_LOOKS = ((BLUE, "o"), (RED, "s"), (GREEN, "^"), (ORANGE, "D"), (PURPLE, "v"), (SKY, "P"), (BLACK, "X"), (GREY, "*"))
_KNOWN = {
    "erm": (GREY, "o"),
    "oracle": (BLACK, "_"),
    "clean": (GREEN, "^"),
    "guardrail": (BLUE, "s"),
    "guardrail-paper": (SKY, "D"),
}
_FREE_COLOURS, _FREE_MARKERS = (RED, ORANGE, PURPLE), "vPX*<>hp"
_STYLE = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "lines.markersize": 4.5,
    "lines.linewidth": 1.2,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "errorbar.capsize": 2,
    "hatch.linewidth": 0.6,
}
_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "worst_group_accuracy": "worst-group accuracy",
    "mstps": "MSTPS, own tokens (lower: less reliance)",
    "mstps_base_tokens": "MSTPS, base model's tokens",
}
_WIDTH = 7.0
"""Inches: a page's text in two columns."""
_CAPTION_PER_INCH = 19
"""Characters of the caption's size that fit in an inch."""


def draw(collection: Collection) -> Figure:
    """The figure of an experiment.

    Raises:
        ConfigError: matplotlib is not installed, or the experiment's file asks for a figure that there is not.
        DataError: The runs have nothing that could be drawn.
    """
    settings = collection.experiment.figure
    kind = settings.get("kind")
    if kind not in _KINDS:
        raise ConfigError(
            f"The experiment '{collection.experiment.name}' has no figure of a known kind "
            f"(it has {kind!r}; there are: {', '.join(_KINDS)})."
        )
    mpl = _matplotlib()
    with mpl.rc_context(_STYLE):
        figure = cast("Figure", _KINDS[kind](mpl, collection, settings))
        caption = _caption(collection) + (_letter_key(collection) if kind == "scatter" else "")
        width = int(_CAPTION_PER_INCH * figure.get_figwidth())
        lines = [textwrap.fill(line, width) for line in caption.splitlines()]
        figure.suptitle("\n".join(lines), fontsize=7, color=GREY, x=0.01, ha="left")
    return figure


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl
        import matplotlib.figure
    except ImportError as error:
        raise ConfigError("Drawing needs matplotlib, which is not installed. Run: pip install matplotlib") from error
    return mpl


def _caption(collection: Collection) -> str:
    seeds = collection.seeds
    most = "at most " if collection.short_of_seeds else ""
    bars = f"mean and standard deviation over {most}{len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    hardware = collection.runs[0].result["hardware"]
    threads = hardware["threads"]
    cores = f"{hardware['processor']}, {threads} thread{'s' if threads != 1 else ''}"
    machine = hardware.get("gpu") or cores
    where = f", {machine}" if collection.experiment.figure["kind"] == "cost" else ""
    return f"{collection.experiment.name}: {collection.encoder}, scale {collection.scale}, {bars}{where}"


def _letters(collection: Collection) -> dict[tuple[str, str], str]:
    return {place: "abcdefghijklmnopqrstuvwxyz"[at % 26] for at, place in enumerate(collection.places)}


def _letter_key(collection: Collection) -> str:
    return "\n" + ", ".join(f"{letter}: {setting}" for (setting, _), letter in _letters(collection).items())


# What is drawn


def _values(metric: str) -> Values:
    """A metric of each seed; the worst group as tables have it."""
    if metric == "worst_group_accuracy":
        return lambda cell: [float(group["accuracy"]) for group in worst_groups(cell)]
    return lambda cell: cell.values(metric)


def _point(cell: Cell, values: Values) -> tuple[float, float]:
    """Mean and half the length of the error bar; NaN where there is nothing."""
    mean, sd = spread(values(cell))
    return mean, 0.0 if np.isnan(sd) else sd


def _look(system: str, systems: Sequence[str]) -> tuple[str, str]:
    """Colour and marker: the same for the same system in every figure."""
    if system in _KNOWN:
        return _KNOWN[system]
    at = [name for name in systems if name not in _KNOWN].index(system)
    return _FREE_COLOURS[at % len(_FREE_COLOURS)], _FREE_MARKERS[at % len(_FREE_MARKERS)]


def _along(collection: Collection, axis: str) -> list[Cell]:
    """The cells that stand on an axis, in its order."""
    cells = [cell for cell in collection.cells if getattr(cell, axis) is not None]
    if not cells:
        raise DataError(f"No run of '{collection.experiment.name}' stands on an axis that could be drawn.")
    return sorted(cells, key=lambda cell: getattr(cell, axis))


def _x(cell: Cell, settings: Any) -> float:
    assert cell.setting_x is not None
    return cell.setting_x * float(settings.get("factor", 1))


def _number(value: float) -> str:
    return f"{value:g}"


def _share_axis(axes: Axes, label: str) -> None:
    axes.set_ylabel(label)
    axes.set_ylim(-0.02, 1.02)


def _even_ticks(axes: Axes, xs: Sequence[float]) -> np.ndarray[Any, Any]:
    """Unevenly spaced settings at even distances: what matters is their order, and .995 would hide behind 1."""
    places = np.arange(len(xs), dtype=float)
    axes.set_xticks(places, [_number(x) for x in xs])
    return places


def _groups_figure(mpl: Any, collection: Collection, settings: Any) -> Figure:
    """Accuracy of each group, one line a group, along the settings."""
    cells = _along(collection, "setting_x")
    names = list(dict.fromkeys(group["name"] for run in collection.runs for group in run.result["groups"]))
    figure = mpl.figure.Figure(figsize=(_WIDTH * 0.75, 3.2), layout="constrained")
    axes = figure.subplots()
    places = _even_ticks(axes, [_x(cell, settings) for cell in cells])
    shift = 0.06
    for at, name in enumerate(names):
        points = [_point(cell, lambda cell, name=name: group_values(cell, name)) for cell in cells]  # type: ignore[misc]
        colour, marker = _LOOKS[at % len(_LOOKS)]
        offset = (at - (len(names) - 1) / 2) * shift  # else error bars of equal groups hide each other
        _errorbar(axes, places + offset, points, colour, marker, f"({_paper_group(at, len(names))}) {name}")
    axes.set_xlabel(settings["x"])
    _share_axis(axes, "test accuracy")
    figure.legend(loc="outside lower center", ncols=2)
    return cast("Figure", figure)


def _paper_group(at: int, n_groups: int) -> int:
    """The paper numbers the groups of its testbed from the positive ones on; elsewhere groups are in order."""
    return (at + 2) % 4 + 1 if n_groups == 4 else at + 1


def _errorbar(axes: Axes, x: Any, points: Sequence[tuple[float, float]], colour: str, marker: str, label: str) -> None:
    means, errors = zip(*points, strict=True)
    axes.errorbar(x, means, yerr=errors, color=colour, marker=marker, label=label)


def _recall_figure(mpl: Any, collection: Collection, settings: Any) -> Figure:
    """Left: recall at 10 by strength beside chance; right: recall by k, one line a strength."""
    cells = [cell for cell in _along(collection, "setting_x") if recall_values(cell, 1, "recall")]
    if not cells:
        raise DataError("No run has a Shortcut Token Recall.")
    top_k = max(int(k) for run in collection.runs for k in run.metrics["shortcut_token_recall"])
    figure = mpl.figure.Figure(figsize=(_WIDTH, 3.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    places = _even_ticks(left, [_x(cell, settings) for cell in cells])
    points = [_point(cell, lambda cell: recall_values(cell, top_k, "recall")) for cell in cells]
    left.bar(places, [p[0] for p in points], yerr=[p[1] for p in points], width=0.65, color=SKY, edgecolor=BLUE)
    chance = [_point(cell, lambda cell: recall_values(cell, top_k, "chance"))[0] for cell in cells]
    left.hlines(chance, places - 0.4, places + 0.4, color=RED, linestyle="--", linewidth=1.2)
    left.set(title=f"(a) Among the {top_k} most important tokens", xlabel=settings["x"])
    _share_axis(left, "Shortcut Token Recall")
    ks = np.arange(1, top_k + 1)
    shades = mpl.colormaps["viridis"](np.linspace(0.9, 0.05, len(cells)))
    for at, cell in enumerate(cells):
        by_k = [_point(cell, lambda cell, k=k: recall_values(cell, int(k), "recall")) for k in ks]  # type: ignore[misc]
        marker = _LOOKS[at % len(_LOOKS)][1]
        right.errorbar(
            ks,
            [p[0] for p in by_k],
            yerr=[p[1] for p in by_k],
            color=shades[at],
            marker=marker,
            label=f"p = {_number(_x(cell, settings))}",
        )
    by_chance = [_point(cells[-1], lambda cell, k=k: recall_values(cell, int(k), "chance"))[0] for k in ks]  # type: ignore[misc]
    right.plot(ks, by_chance, color=RED, linestyle="--", label="chance")
    right.set(title="(b) Among the k most important tokens", xlabel="k (tokens)")
    right.set_xticks(ks)
    _share_axis(right, "Shortcut Token Recall")
    figure.legend(loc="outside lower center", ncols=5)
    return cast("Figure", figure)


def _misclassification_figure(mpl: Any, collection: Collection, settings: Any) -> Figure:
    """Stacked bars: misclassified texts with and without the shortcut among the important tokens."""
    cells = [cell for cell in _along(collection, "setting_x") if cell.values("misclassified")]
    if not cells:
        raise DataError("No run says which misclassified texts had the shortcut among their important tokens.")
    figure = mpl.figure.Figure(figsize=(_WIDTH * 0.75, 3.0), layout="constrained")
    axes = figure.subplots()
    places = _even_ticks(axes, [_x(cell, settings) for cell in cells])
    total = [_point(cell, _values("misclassified")) for cell in cells]
    with_it = [_point(cell, _values("misclassified_with_important_shortcut"))[0] for cell in cells]
    without = [whole[0] - part for whole, part in zip(total, with_it, strict=True)]
    axes.bar(places, without, width=0.7, color=BLUE, label="shortcut not among the 10 important tokens, or not there")
    axes.bar(
        places, with_it, bottom=without, width=0.7, color=ORANGE, hatch="///", edgecolor="white", label="shortcut among"
    )
    axes.errorbar(places, [t[0] for t in total], yerr=[t[1] for t in total], color=BLACK, linestyle="none")
    for place, (rate, error), part, rest in zip(places, total, with_it, without, strict=True):
        axes.text(place, rate + error + 0.008, f"{rate:.3f}", ha="center", fontsize=7)
        if part > 0.02:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
            axes.text(place, rest + part / 2, f"{part:.3f}", ha="center", va="center", fontsize=6.5, bbox=box)
    axes.set(xlabel=settings["x"], ylabel="misclassification rate")
    axes.set_ylim(0, max(rate + error for rate, error in total) * 1.15)
    figure.legend(loc="outside lower center", ncols=2)
    return cast("Figure", figure)


def _metrics_there(collection: Collection, settings: Any) -> list[str]:
    """The metrics asked for that some run has."""
    metrics = [m for m in settings["metrics"] if any(_values(m)(cell) for cell in collection.cells)]
    if not metrics:
        raise DataError(f"No run of '{collection.experiment.name}' has any of {', '.join(settings['metrics'])}.")
    return metrics


def _comparison_figure(mpl: Any, collection: Collection, settings: Any) -> Figure:
    """One panel a metric: settings along the axis, one mark a system, and the majority class beside accuracy."""
    metrics = _metrics_there(collection, settings)
    places, systems = collection.places, collection.systems
    figure = mpl.figure.Figure(figsize=(_WIDTH, 2.1 * len(metrics) + 0.5), layout="constrained")
    panels = figure.subplots(len(metrics), 1, squeeze=False)[:, 0]
    for at, (axes, metric) in enumerate(zip(panels, metrics, strict=True)):
        for system in systems:
            colour, marker = _look(system, systems)
            offset = (systems.index(system) - (len(systems) - 1) / 2) * 0.8 / max(len(systems), 3)
            found = [
                (x + offset, *_point(cell, _values(metric)))
                for x, place in enumerate(places)
                for cell in collection.at(*place)
                if cell.system == system and _values(metric)(cell)
            ]
            if found:
                xs, means, errors = zip(*found, strict=True)
                wide = {"markersize": 9, "markeredgewidth": 2} if marker == "_" else {}
                axes.errorbar(
                    xs,
                    means,
                    yerr=errors,
                    color=colour,
                    marker=marker,
                    linestyle="none",
                    label=system if at == 0 else None,
                    **wide,
                )
        if metric == "accuracy":
            _majority(axes, collection)
        several = len({test for _, test in places}) > 1
        axes.set_xticks(range(len(places)), [f"{s}\n{t}" if several else s for s, t in places])
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.grid(visible=False, axis="x")
        for edge in range(1, len(places)):
            axes.axvline(edge - 0.5, color="#dddddd", linewidth=0.5)
        axes.set_title(f"({'abcdefgh'[at]}) {_NAMES.get(metric, metric)}")
        axes.set_ylim(-0.03, 1.03 if "accuracy" in metric else max(0.3, axes.get_ylim()[1]))
    figure.legend(loc="outside lower center", ncols=_legend_columns([*systems, "majority class"]))
    return cast("Figure", figure)


def _legend_columns(labels: Sequence[str]) -> int:
    """As many columns as a page's width holds; a legend that is wider is cut off at both sides."""
    inches = 0.55 + 0.06 * max(map(len, labels))  # the mark, and characters of the legend's size
    return max(1, min(6, len(labels), int(_WIDTH / inches)))


def _majority(axes: Axes, collection: Collection) -> None:
    for x, place in enumerate(collection.places):
        values = [value for cell in collection.at(*place) for value in cell.values("majority_accuracy")]
        if values:
            # A label with an underscore in front is left out of the legend.
            label = "majority class" if x == 0 else "_majority class"
            mean = float(np.mean(values))
            axes.hlines(mean, x - 0.45, x + 0.45, color=RED, linestyle=":", linewidth=1.1, label=label)


def _systems_figure(mpl: Any, collection: Collection, settings: Any) -> Figure:
    """One column a setting, one row a system, one mark a metric; lines where the base and the majority class are."""
    metrics = _metrics_there(collection, settings)
    places, systems = collection.places, collection.systems
    figure = mpl.figure.Figure(figsize=(_WIDTH, 0.18 * len(systems) + 1.2), layout="constrained")
    panels = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for at, (axes, place) in enumerate(zip(panels, places, strict=True)):
        for metric, (colour, marker) in zip(metrics, _LOOKS, strict=False):
            found = {
                cell.system: _point(cell, _values(metric)) for cell in collection.at(*place) if _values(metric)(cell)
            }
            means, errors = zip(*found.values(), strict=True) if found else ((), ())
            axes.errorbar(
                means,
                [systems.index(system) for system in found],
                xerr=errors,
                color=colour,
                marker=marker,
                linestyle="none",
                elinewidth=0.8,
                label=_NAMES.get(metric, metric) if at == 0 else None,
            )
            if "erm" in found:
                label = f"erm, {_NAMES.get(metric, metric)}" if at == 0 else None
                axes.axvline(found["erm"][0], color=colour, linestyle=":", linewidth=0.9, label=label)
        majority = [value for cell in collection.at(*place) for value in cell.values("majority_accuracy")]
        if majority and "accuracy" in metrics:
            label = "majority class" if at == 0 else None
            axes.axvline(float(np.mean(majority)), color=GREY, linestyle="-.", linewidth=0.9, label=label)
        for row in range(0, len(systems), 2):
            axes.axhspan(row - 0.5, row + 0.5, color="#f2f2f2", linewidth=0, zorder=0)
        several = len({test for _, test in places}) > 1
        axes.set_title(", ".join(place) if several else place[0])
        axes.set_yticks(range(len(systems)), systems)
        axes.set_ylim(len(systems) - 0.5, -0.5)
        axes.set_xlim(-0.03, 1.03)
        axes.grid(visible=False, axis="y")
    figure.legend(loc="outside lower center", ncols=len(metrics))
    return cast("Figure", figure)


def _scatter_figure(mpl: Any, collection: Collection, settings: Any) -> Figure:
    """Accuracy beside MSTPS: colour and marker are the system, the letter the data set."""
    metric, ys = settings["x_metric"], list(settings["y_metrics"])
    cells = [cell for cell in collection.cells if cell.values(metric)]
    if not cells:
        raise DataError(f"No run of '{collection.experiment.name}' has {metric}.")
    letters = _letters(collection)
    figure = mpl.figure.Figure(figsize=(_WIDTH, 3.6), layout="constrained")
    panels = figure.subplots(1, len(ys), squeeze=False)[0]
    for panel, (axes, y) in enumerate(zip(panels, ys, strict=True)):
        labelled = set()
        for cell in cells:
            (x_mean, x_sd), (y_mean, y_sd) = _point(cell, _values(metric)), _point(cell, _values(y))
            colour, marker = _look(cell.system, collection.systems)
            label = cell.system if panel == 0 and cell.system not in labelled else None
            labelled.add(cell.system)
            axes.errorbar(
                x_mean,
                y_mean,
                xerr=x_sd,
                yerr=y_sd,
                color=colour,
                marker=marker,
                linestyle="none",
                label=label,
                elinewidth=0.6,
            )
            axes.annotate(
                letters[cell.setting, cell.test],
                (x_mean, y_mean),
                xytext=(4, 3),
                textcoords="offset points",
                fontsize=7,
                color=colour,
            )
        axes.set(xlabel=_NAMES.get(metric, metric), ylabel=_NAMES.get(y, y))
        axes.set_ylim(0, 1)
        axes.set_xlim(left=0)
    figure.legend(loc="outside lower center", ncols=6)
    return cast("Figure", figure)


def _sweep_figure(mpl: Any, collection: Collection, settings: Any) -> Figure:
    """One column a family of settings, one row a metric, one line a system along the settings."""
    cells = _along(collection, "setting_x")
    families = list(dict.fromkeys(cell.family for cell in collection.cells if cell.setting_x is not None))

    def lines(family: str) -> list[tuple[str, list[tuple[float, Cell]]]]:
        return [
            (
                system,
                [(_x(cell, settings), cell) for cell in cells if (cell.family, cell.system) == (family, system)],
            )
            for system in collection.systems
        ]

    return _panels(mpl, collection, settings, [(family, lines(family), []) for family in families])


def _system_sweep_figure(mpl: Any, collection: Collection, settings: Any) -> Figure:
    """One column a setting, one row a metric: systems along the axis, those without a place on it as level lines."""
    _along(collection, "system_x")
    columns = []
    for place in collection.places:
        on_axis = [cell for cell in collection.at(*place) if cell.system_x is not None]
        series: dict[str, list[tuple[float, Cell]]] = {}
        for cell in sorted(on_axis, key=lambda cell: cast(float, cell.system_x)):
            series.setdefault(_series(cell), []).append((cast(float, cell.system_x), cell))
        levels = [cell for cell in collection.at(*place) if cell.system_x is None]
        columns.append((place[0], list(series.items()), levels))
    return _panels(mpl, collection, settings, columns)


def _series(cell: Cell) -> str:
    """What a label says beside its number: "rank 8, scale 2" belongs to the series "scale 2"."""
    _, comma, rest = cell.system.partition(", ")
    return rest if comma else cell.kind


Column = tuple[str, list[tuple[str, list[tuple[float, Cell]]]], list[Cell]]


def _panels(mpl: Any, collection: Collection, settings: Any, columns: Sequence[Column]) -> Figure:
    """Panels with lines and levels; see the two above."""
    metrics = list(settings["metrics"])
    names = list(dict.fromkeys([s for _, lines, _ in columns for s, _ in lines] + collection.systems))
    figure = mpl.figure.Figure(figsize=(_WIDTH, 2.2 * len(metrics) + 0.6), layout="constrained")
    panels = figure.subplots(len(metrics), len(columns), squeeze=False, sharex="col")
    labelled: set[str] = set()
    for column, (title, lines, levels) in enumerate(columns):
        for row, metric in enumerate(metrics):
            axes = panels[row, column]
            for at, (name, points) in enumerate(lines):
                # A little apart, else equal points hide each other's error bars.
                apart = at - (len(lines) - 1) / 2
                drawn = [
                    (x * 1.03**apart if settings.get("log") else x + 0.005 * apart, *_point(cell, _values(metric)))
                    for x, cell in points
                    if _values(metric)(cell)
                ]
                if drawn:
                    xs, means, errors = zip(*drawn, strict=True)
                    colour, marker = _look(name, names)
                    label = None if name in labelled else name
                    axes.errorbar(xs, means, yerr=errors, color=colour, marker=marker, label=label)
                    labelled.add(name)
            for cell in levels:
                if _values(metric)(cell):
                    mean, error = _point(cell, _values(metric))
                    colour, _ = _look(cell.system, names)
                    label = None if cell.system in labelled else cell.system
                    axes.axhline(mean, color=colour, linestyle=":" if cell.system == "erm" else "--", label=label)
                    axes.axhspan(mean - error, mean + error, color=colour, alpha=0.12, linewidth=0)
                    labelled.add(cell.system)
            if settings.get("log"):
                axes.set_xscale("log", base=2)
            xs_all = sorted({x for _, points in lines for x, _ in points})
            axes.set_xticks(xs_all, [_number(x) for x in xs_all])
            axes.minorticks_off()
            axes.set_ylim(-0.03, 1.03)
            if column == 0:
                axes.set_ylabel(_NAMES.get(metric, metric))
            if row == 0:
                axes.set_title(title)
            if row == len(metrics) - 1:
                axes.set_xlabel(settings["x"])
    figure.legend(loc="outside lower center", ncols=5)
    return cast("Figure", figure)


def _cost_figure(mpl: Any, collection: Collection, settings: Any) -> Figure:
    """Seconds by stage, and forward-equivalents per text."""
    stages = (("attribute", SKY, ""), ("adapt", BLUE, "///"), ("calibrate", ORANGE, "..."))

    def stage_seconds(stage: str) -> Values:
        return lambda cell: [
            float(run.result["seconds"].get("fit_stages", {}).get(stage, 0.0)) for run in cell.runs.values()
        ]

    cells = [cell for cell in collection.cells if sum(stage_seconds("adapt")(cell)) > 0]
    if not cells:
        raise DataError(f"No run of '{collection.experiment.name}' adapted anything.")
    figure = mpl.figure.Figure(figsize=(_WIDTH, 0.5 * len(cells) + 1.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(cells))
    start = np.zeros(len(cells))
    for stage, colour, hatch in stages:
        means = np.array([_point(cell, stage_seconds(stage))[0] for cell in cells])
        left.barh(places, means, left=start, height=0.6, color=colour, hatch=hatch, edgecolor="white", label=stage)
        start += means
    totals = [
        spread([sum(parts) for parts in zip(*(stage_seconds(s)(cell) for s, _, _ in stages), strict=True)])
        for cell in cells
    ]
    left.errorbar(start, places, xerr=[0.0 if np.isnan(sd) else sd for _, sd in totals], color=BLACK, linestyle="none")
    for place, (total, sd) in zip(places, totals, strict=True):
        left.text(total + (0 if np.isnan(sd) else sd), place, f"  {total:.1f} s", fontsize=7, va="center")
    left.margins(x=0.2)
    left.set_yticks(places, [cell.system for cell in cells])
    left.invert_yaxis()
    left.set(xlabel="seconds", title="(a) Wall-clock time by stage")
    costs = [
        float(np.mean([run.result["cost"]["per_deployment_text"] for run in cell.runs.values()])) for cell in cells
    ]
    right.barh(places, costs, height=0.6, color=GREEN)
    for place, cost in zip(places, costs, strict=True):
        right.text(cost, place, f"  {cost:.1f}", fontsize=7, va="center")
    right.margins(x=0.2)
    right.set(xlabel="forward passes per deployment text", title="(b) Cost, whatever the machine")
    figure.legend(loc="outside lower center", ncols=3)
    return cast("Figure", figure)


_KINDS: dict[str, Callable[[Any, Collection, Any], Any]] = {
    "groups": _groups_figure,
    "recall": _recall_figure,
    "misclassification": _misclassification_figure,
    "comparison": _comparison_figure,
    "systems": _systems_figure,
    "scatter": _scatter_figure,
    "sweep": _sweep_figure,
    "system-sweep": _system_sweep_figure,
    "cost": _cost_figure,
}
