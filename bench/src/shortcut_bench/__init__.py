"""Experiments on the method: what the paper reports, and what its theory promises.

The library does not know that this package exists. `datasets` builds the data; `experiments` reads what is to
be run from `settings/`; `bases` opens a setting: its data and its fine-tuned base classifier (`classifiers`); `runner`
fits what is compared (`systems`, and the methods of `methods`), has it scored (`scoring`) and written (`results`).
`collect` reads runs back, and `statistics`, `tables` and `figures` say what they show. `theory` is of its own: each of
its experiments is a module with a `run` that returns a JSON-able result and a `draw` that turns such a result into a
figure. What fits none of this is in `bench/experiments/`, beside the package; `standalone` is what those share.
`own_systems` finds what other distributions bring. `cli` lists all experiments by name.
"""
