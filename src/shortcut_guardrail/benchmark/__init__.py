"""Experiments on the method: what the paper reports, and what its theory promises.

The outermost sub-package: it uses the library's public names, and the library does not know that it exists. Each
experiment is a module with a `run` that returns a JSON-able result and a `draw` that turns such a result into a figure;
`shortcut_guardrail.cli.benchmark` lists them by name. Drawing needs the extra `benchmark`
(`pip install shortcut-guardrail[benchmark]`).
"""
