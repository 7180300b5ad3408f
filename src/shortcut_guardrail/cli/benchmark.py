"""`shortcut-guardrail benchmark`: hands over to the distribution shortcut-bench, which the library does not import."""

from __future__ import annotations

from importlib.metadata import entry_points

import typer

from ..errors import ConfigError


def benchmark(context: typer.Context) -> int:
    """Run the paper's experiments; make tables and figures."""
    from .running import collect_as_usual

    found = entry_points(group="shortcut_guardrail.commands", name="benchmark")
    if not found:
        raise ConfigError(
            "The benchmark is a distribution of its own, shortcut-bench, which is not installed here. "
            "In a checkout of the project: pip install -e ./bench"
        )
    app = next(iter(found)).load()
    collect_as_usual()
    return int(app(context.args, prog_name=context.command_path, standalone_mode=False) or 0)
