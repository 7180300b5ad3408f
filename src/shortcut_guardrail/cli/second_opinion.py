"""What `judge --with` and `fit --second-opinion` share: their options, what asking costs, and where answers go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options

if TYPE_CHECKING:
    from ..classifiers import Classifier, Cost
    from ..data import Texts
    from ..decisions import Asked, Consultation, Decisions, Sheet
    from ..guardrail import ShortcutGuardrail

_PANEL = "Second opinion"


class RuleChoice(StrEnum):
    """How a second opinion is tested."""

    agreement = "agreement"
    reference = "reference"


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How second models are asked."""

    describe: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL=TEXT",
            help="What a label means, for models that read. Repeat for more.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    rule: Annotated[
        RuleChoice,
        typer.Option(
            help="What second opinions are tested against: reference also holds where judge and model err together.",
            rich_help_panel=_PANEL,
        ),
    ] = RuleChoice.agreement
    answer_cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the answers of models and endpoints, so that a run goes on where it stopped.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None

    def descriptions(self) -> dict[str, str]:
        """By label, what it means.

        Raises:
            ConfigError: One is not of the form LABEL=TEXT, or a label has two.
        """
        from ..errors import ConfigError

        found: dict[str, str] = {}
        for one in self.describe or ():
            label, sign, text = one.partition("=")
            if not sign or not label.strip() or not text.strip():
                raise ConfigError(f'--describe must be LABEL=TEXT, such as positive="a glad review", but is {one!r}.')
            if label.strip() in found:
                raise ConfigError(f"--describe says twice what {label.strip()!r} means. Leave one of them out.")
            found[label.strip()] = text.strip()
        return found

    def read(self, specs: Sequence[str] | None) -> list[str | Path | None]:
        """What is read: models, descriptions of them, and answers that are kept."""
        return [*(specs or ()), self.answer_cache]

    def sources(self, specs: Sequence[str], labels: Sequence[str]) -> list[Classifier]:
        """The second models."""
        from ..classifiers import open_classifiers

        return open_classifiers(specs, labels, descriptions=self.descriptions(), cache=self.answer_cache)


def show_cost(sheet: Sheet, costs: Mapping[str, Cost]) -> None:
    """What is asked, and what it costs, before anything is."""
    from ..report import print_costs

    print_costs(len(sheet.flips), len({one.text for one in sheet.free}), costs)


def consult(
    guard: ShortcutGuardrail,
    texts: Texts,
    specs: Sequence[str],
    asking: Asking,
    people: Decisions | None,
    *,
    dry_run: bool,
    output: options.Output,
    seed: int,
) -> Consultation:
    """Audit, ask second models, and show what they say, what people decided over it.

    Raises:
        typer.Exit: It is a dry run, and what it costs was said.
    """
    from ..models import check_alone
    from ..report import print_decisions

    check_alone("--second-opinion")

    def told(sheet: Sheet, costs: Mapping[str, Cost]) -> None:
        if output.speaks:
            show_cost(sheet, costs)
        if dry_run:
            output.finish({"texts": len(sheet.texts), "costs": {name: asdict(cost) for name, cost in costs.items()}})
            raise typer.Exit

    with output.progress() as progress:
        found = guard.consult(
            texts,
            specs,
            people=people,
            descriptions=asking.descriptions(),
            cache=asking.answer_cache,
            rule=asking.rule.value,
            seed=seed,
            told=told,
            progress=progress,
        )
    if output.speaks:
        print_decisions(found.decisions)
    return found


def answers_file(decisions: Path) -> Path:
    """Where every answer goes that decisions rest on."""
    return decisions.with_name(f"{decisions.stem}.answers.jsonl")


def with_answers(name: str, decisions: Decisions, asked: Asked) -> dict[str, str]:
    """Decisions and every answer that they rest on, as the content of files by their names."""
    from ..data import to_json

    beside = answers_file(Path(name)).name
    return {beside: asked.to_lines(), name: to_json(replace(decisions, answers=beside).to_dict())}


def write_with_answers(out: Path, decisions: Decisions, asked: Asked, *, overwrite: bool) -> Decisions:
    """Write decisions, and beside them every answer that they rest on.

    At every instant the decisions that are there name the answers that they rest on: while others are there, new ones
    get a name of their own, and the old ones go last.
    """
    from ..data import to_json, write_file

    plain, content = answers_file(out), asked.to_lines()
    beside = plain
    if plain.exists() and plain.read_text(encoding="utf-8") != content:
        beside = plain.with_suffix(f".{sha256(content.encode()).hexdigest()[:8]}.jsonl")
    write_file(beside, content, overwrite=overwrite or beside != plain)
    found = replace(decisions, answers=beside.name)
    write_file(out, to_json(found.to_dict()), overwrite=overwrite)
    hashed = f"{escape(out.stem)}.answers.{'[0-9a-f]' * 8}.jsonl"  # no other file that is named alike is ours
    for old in (plain, *out.parent.glob(hashed)):
        if old != beside:
            old.unlink(missing_ok=True)
    return found
