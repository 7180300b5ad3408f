"""What `decide --with` and `fit --second-model` share: their options, the cost, and where predictions are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..data import to_json
from ..errors import ConfigError
from . import options

if TYPE_CHECKING:
    from ..decisions import Answers, Decisions, Questions

_of_opinion = partial(typer.Option, rich_help_panel="Second model")
specs = partial(_of_opinion, metavar="SPEC", show_default=False)
HOW_TO_NAME = "a folder, a Hub id, a TOML file or module:function. Repeatable; qualified models are averaged."


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How second models are asked."""

    describe: Annotated[
        list[str] | None,
        _of_opinion(
            metavar="LABEL=TEXT", help="What a label means, for language models. Repeatable.", show_default=False
        ),
    ] = None
    rule: Annotated[
        Literal["agreement", "reference"],
        _of_opinion(help="The test. reference also holds where both models make the same mistakes."),
    ] = "agreement"
    answer_cache: Annotated[
        Path | None,
        _of_opinion(help="Folder for predictions of models and endpoints; a run resumes.", show_default=False),
    ] = None

    def descriptions(self) -> dict[str, str]:
        """By label, what it means."""
        found: dict[str, str] = {}
        for one in self.describe or ():
            label, sign, text = one.partition("=")
            if not sign or not label.strip() or not text.strip():
                raise ConfigError(f'--describe must be LABEL=TEXT, such as positive="a glad review", but is {one!r}.')
            found[label.strip()] = text.strip()
        return found

    def read(self, specs: Sequence[str] | None) -> list[str | Path | None]:
        """What is read: models, descriptions of them, and answers that are kept."""
        return [*(specs or ()), self.answer_cache]

    def ask(self, questions: Questions, specs: Sequence[str], *, dry_run: bool, output: options.Output) -> Answers:
        """Say what asking costs, then ask second models."""
        from ..classifiers import open_classifiers
        from ..report import print_costs

        asked = questions.for_judges
        judges = open_classifiers(specs, asked.labels, descriptions=self.descriptions(), cache=self.answer_cache)
        costs = {judge.name: judge.cost(asked.texts) for judge in judges}
        if output.speaks:
            print_costs(len(asked.cases), len({one.text for one in asked.reference}), costs)
        if dry_run:
            output.finish({"texts": len(asked.texts), "costs": {name: asdict(cost) for name, cost in costs.items()}})
            raise typer.Exit
        with output.progress() as progress:
            return questions.answered_by(judges, progress=progress)


def with_answers(decisions: Decisions, answers: Answers) -> dict[str, str]:
    """Decisions and every answer that they rest on, as the content of files by their names."""
    from ..decisions import answers_file

    name = "decisions.json"
    beside = answers_file(Path(name)).name
    return {beside: answers.to_lines(), name: to_json(replace(decisions, answers=beside).to_dict())}
