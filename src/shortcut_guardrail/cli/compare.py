"""`shortcut-guardrail compare`: from one result to the next, with limits that stop a pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer

from ..audit import GateOutcome, Metric, check_limits, common_metrics, newly_flagged, parse_limit, read_result
from ..data import write_file
from ..errors import DataError, GuardrailWarning
from ..text import visible_name
from . import options
from .running import FAILED_RUN, stderr

_limit = partial(typer.Option, metavar="METRIC=NUMBER", show_default=False)


@options.command
def compare(
    *,
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The earlier audit.json.", show_default=False)],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The later audit.json.", show_default=False)],
    max_increase: Annotated[list[str] | None, _limit(help="The most a number may rise. Repeatable.")] = None,
    max_decrease: Annotated[list[str] | None, _limit(help="The most a number may fall. Repeatable.")] = None,
    html: options.Html = None,
    redact: options.Redact = False,
    output: options.Output,
) -> None:
    """Compare two audits, or two files of evaluate --json.

    \b
    shortcut-guardrail compare last/audit.json audit/audit.json --max-increase mstps=0.05

    METRIC is a number of the whole result, such as mstps or n_flagged, or of one word, such as
    candidate:honestly.flip_rate. The exit status is 1 if the 95 % interval of a change lies beyond its limit.
    """
    from ..report import print_change, render_comparison

    limits = [parse_limit(text, "increase") for text in max_increase or ()]
    limits += [parse_limit(text, "decrease") for text in max_decrease or ()]
    output.check(options.Place(html, options.HTML_ENDINGS), inputs=[old, new])
    before, after = _read_both(old, new, as_page=html is not None)
    outcome = check_limits(before, after, limits)
    appeared = newly_flagged(before, after)
    if output.speaks:
        print_change(before, after)
    if appeared:
        output.say(f"Newly flagged: {', '.join(map(visible_name, appeared))}.")
    if html is not None:
        page = render_comparison(
            {str(old): before, str(new): after},
            title="Shortcut audit: what changed",
            main=str(new),
            redact=redact,
            outcome_of_gate=outcome,
        )
        write_file(html, page, overwrite=output.overwrite)
        output.say(f"Written: {html}")
    both = {key: (Metric(key).estimate(before), Metric(key).estimate(after)) for key in common_metrics(before, after)}
    output.finish(
        {
            "metrics": {
                key: {
                    "old": then and then.value,
                    "new": now and now.value,
                    "verdict": then and now and then.verdict(now),
                }
                for key, (then, now) in both.items()
            },
            "newly_flagged": list(appeared),
            **asdict(outcome),
        }
    )
    exit_by(outcome)


def exit_by(*outcomes: GateOutcome, names: Sequence[str] = ()) -> None:
    """Say on stderr what gates found, a line for each, and leave with status 1 if anything was breached.

    Args:
        names: Of what each gate is about, where there are several.
    """
    console = stderr()
    for outcome, name in zip_longest(outcomes, names):
        of = "" if name is None else f"label {visible_name(name)}: "
        for note in outcome.notes:
            console.print(f"note: {of}{note}")
        for breach in outcome.breaches:
            console.print(f"failed: {of}{breach}")
    if not all(outcome.passed for outcome in outcomes):
        raise typer.Exit(FAILED_RUN)


def _read_both(old: Path, new: Path, *, as_page: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    from ..saving import read_audit

    read = read_audit if as_page else read_result
    before, after = read(old), read(new)
    if ("candidates" in before) != ("candidates" in after):
        audit, other = (old, new) if "candidates" in before else (new, old)
        raise DataError(f"'{audit}' is an audit and '{other}' is not. Compare two audits, or two evaluations.")
    for key in ("unit", "top_k", "fdr", "label_names"):
        if before.get(key) != after.get(key):
            warnings.warn(
                f"The results differ in {key} ({before.get(key)} and {after.get(key)}), which changes the numbers too.",
                GuardrailWarning,
                stacklevel=2,
            )
    return before, after
