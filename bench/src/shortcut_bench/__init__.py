"""Experiments on the method: what the paper reports, and what its theory promises.

The library does not know that this package exists. `datasets` builds the data; `experiments` reads what is to
be run from `settings/`; `bases` opens a setting: its data and its fine-tuned base classifier (`classifiers`); `runner`
fits what is compared, has it scored (`scoring`) and written (`results`). `systems` says what can be compared,
`references` (around `guards`) and `methods` are what is, `own_systems` finds what other distributions bring, and
`registry` knows all of it by name. Imports go down only: what knows more names stands above what it names.
`collect` reads runs back, and `statistics`, `tables` (of `columns`) and `figures` say what they show. `theory` is of
its own: each of its experiments is a module with a `run` that returns a JSON-able result and a `draw` that turns such a
result into a figure. What fits none of this is in `bench/experiments/`, beside the package; `standalone` is what those
share. `cli` lists all experiments by name.
"""
