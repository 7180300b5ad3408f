"""`shortcut-guardrail fit`: repair a model on unlabelled texts, and write the repaired model."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..config import AuditConfig
from ..data import TextData, Texts, read_data
from ..errors import ConfigError, DataError, GuardrailWarning, NothingToRepairError
from . import options
from .audit import Paying, make_audit
from .second_model import HOW_TO_NAME, Asking, specs, with_answers
from .settings import settings, strategy_of_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..audit import AuditReport
    from ..decisions import Answers, Decisions
    from ..guardrail import ShortcutGuardrail
    from ..mitigation import Plan, RepairStrength, Wanted
    from ..shortcuts import Shortcuts


DEFAULT = "auto"
_setting = partial(typer.Option, rich_help_panel="Settings")


@options.command
def fit(
    *,
    model: options.Model,
    data: options.Data,
    out: Annotated[Path | None, typer.Option(help="Folder to write.", show_default="none with --dry-run")] = None,
    shortcuts: options.Shortcuts,
    kept: options.Kept,
    support: Annotated[
        str | None,
        typer.Option(help="File with labelled texts, to choose the strength and check words.", show_default=False),
    ] = None,
    decisions: options.DecisionsFile = None,
    audit: Annotated[
        Path | None,
        typer.Option(
            help="Folder that audit wrote for MODEL and DATA.",
            show_default="that of --decisions, or OUT-audit",
            rich_help_panel="Audit",
        ),
    ] = None,
    second_model: Annotated[
        list[str] | None, specs(help=f"A second model that decides about word groups: {HOW_TO_NAME}")
    ] = None,
    asking: Asking,
    paying: Paying,
    strategy: Annotated[
        Literal["auto", "maskcl", "paper", "mask", "distill", "few-shot"] | None,
        typer.Option(
            metavar="STRATEGY",
            help="auto: distill if shortcuts are named or found, else few-shot with --support. distill: train the "
            "model to predict as if the shortcuts were absent. mask: mask them, train nothing. few-shot: train on "
            "--support. maskcl: the paper's method with our settings. paper: with the paper's settings.",
            show_default=DEFAULT,
        ),
    ] = None,
    strength: Annotated[
        str | None,
        typer.Option(
            metavar="auto|0..1",
            help="How strong the repair is. auto chooses on DATA, without labels.",
            show_default="by labels, or auto",
        ),
    ] = None,
    take_influential: Annotated[
        bool,
        _setting(
            "--take-influential",
            help="Also take words on which many predictions depend, with --support only those whose masking fixes more "
            "than it breaks. Without labels, legitimate words are taken as well.",
        ),
    ] = False,
    per_input: Annotated[
        bool,
        _setting("--per-input", help="Repair only texts with a shortcut. All others keep the original prediction."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which words would lose their influence. Write nothing.")
    ] = False,
    config: Annotated[
        Path | None,
        _setting(help="Settings as JSON or TOML, or the guardrail.json of an earlier run.", show_default=False),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        _setting("--set", metavar="NAME=VALUE", help="One setting. Repeatable.", show_default=False),
    ] = None,
    no_text_hashes: options.NoTextHashes = False,
    seed: options.Seed = 0,
    columns: options.LabelledColumns,
    loading: options.ModelLoading,
    output: options.Output,
) -> None:
    """Repair a model: remove its reliance on shortcut words.

    \b
    shortcut-guardrail fit MODEL texts.csv --out guarded
    shortcut-guardrail fit MODEL texts.csv --shortcut book --out guarded
    shortcut-guardrail fit MODEL texts.csv --decisions decisions.json --out guarded

    DATA needs no labels. Writes a PEFT adapter (LoRA), a record (guardrail.json) and a model card to OUT, and the audit
    to OUT-audit if there is none yet. Column options apply to DATA and to --support. Exit status 3: no
    shortcut was found or named, so nothing is written.
    """
    from ..decisions import Decisions
    from ..mitigation import Wanted, check_able, strategy_of, uses_shortcuts
    from ..models import joined, own_rank
    from ..report import print_repair
    from ..saving import GUARDRAIL_FILE, audit_of, is_guarded_folder

    options.check_hashes(no_text_hashes, second_model)
    options.check_out(out, dry_run=dry_run, what="a repaired model", name="folder to write")
    _check_base(model, is_guard=is_guarded_folder(model))
    words = (shortcuts.shortcuts_file, kept.keep_file)
    inputs = [*loading.read_from(model), data, support, decisions, audit, config, *words]
    inputs += asking.read(second_model)
    output.check(options.Place(out, key=GUARDRAIL_FILE), inputs=inputs)
    decided = None if decisions is None else Decisions.from_file(decisions)
    flags = {"shortcuts.take_influential": take_influential, "per_input": per_input}
    given = settings(config, [*(assignments or ()), *(f"{name}=true" for name, set_ in flags.items() if set_)])
    named = strategy or strategy_of_settings(given) or DEFAULT
    wanted = Wanted(named, _strength(strength), shortcuts.words(), kept.words(), kept.not_alone or (), given)
    texts = read_data(data, **columns.of_texts())
    asked: dict[str, Any] = {**columns.given(), "label": loading.label, "require_labels": True}
    rows = None if support is None else read_data(support, **asked)
    options.check_same_kind(texts, rows)
    plan = _plan(wanted, rows, dry_run=dry_run)
    with joined():
        guard = loading.load(model)
        _check_base(model, is_guard=guard.is_fitted)
        if named != DEFAULT:
            check_able(guard, strategy_of(plan.config))
        labelled = None if rows is None else (rows.texts, options.class_ids(rows, guard))
        report, answers = None, None
        if audit is not None:
            report = _given(guard, texts.texts, audit, decided, decisions)
        elif second_model or uses_shortcuts(plan.config):
            own = None if out is None else out.with_name(f"{out.resolve().name}-audit")
            places = (audit_of(decided, decisions), own)
            how: dict[str, Any] = {"hashes": not no_text_hashes, "paying": paying, "output": output}
            if decided is not None and places[0] is None:
                names = "names no audit" if decided.audit is None else "is about an audit that is not beside it"
                how["why"] = f"'{decisions}' {names}, so '{data}' is audited first. Use one with --audit FOLDER."
            report = _audited(guard, texts.texts, plan, *places, **how)
        if second_model and report is not None:
            taken = {"decisions": decided, "shortcuts": wanted.shortcuts}
            decided, answers = _consult(
                guard, report, texts.texts, second_model, asking, taken, dry_run=dry_run, output=output, seed=seed
            )
        with output.progress(quiet=own_rank() > 0) as progress:
            asks: dict[str, Any] = {"decisions": decided, "report": report, "progress": progress}
            if dry_run:
                weighing = labelled if plan.weighs else None
                found = guard.find_shortcuts(texts.texts, config=plan.config, support=weighing, **asks)
            else:
                repaired = guard.repair(texts.texts, labelled, **vars(wanted), seed=seed, **asks)
        if own_rank() > 0:
            return  # every process holds the same weights; the first one writes them
    if dry_run:
        _show_shortcuts(found, named, has_labels=labelled is not None, output=output)
        return
    assert out is not None
    beside = None if answers is None or decided is None else with_answers(decided, answers)
    guard.save_pretrained(out, overwrite=output.overwrite, text_hashes=not no_text_hashes, beside=beside)
    if output.speaks:
        print_repair(repaired)
    if Path(model).is_dir():
        plain = guard.record().plain_peft_equivalent
        instead = f", or write a model that needs neither: `shortcut-guardrail export {out}`" if plain else ""
        output.say(f"It loads only together with the original model, '{model}'. Move both{instead}.")
    output.say(f"Written: {out}")
    output.finish(repaired.to_dict())


def _given(
    guard: ShortcutGuardrail, texts: Texts, folder: Path, decided: Decisions | None, file: Path | None
) -> AuditReport:
    """The audit in a folder; a `ConfigError` where it is of something else, or the decisions are about another one."""
    from ..decisions import AuditedCards

    found = guard.audited(folder, texts)
    if decided is not None and decided.audit not in (None, AuditedCards.of(found).id):
        raise ConfigError(
            f"'{file}' is about another audit than '{folder}', perhaps an earlier one. Give the audit that the "
            "decisions are about, or decide about this one."
        )
    return found


def _audited(
    guard: ShortcutGuardrail,
    texts: Texts,
    plan: Plan,
    *places: Path | None,
    hashes: bool,
    paying: Paying,
    output: options.Output,
    why: str = "",
) -> AuditReport:
    """The first audit in some places that serves; else one that is made in the last of them, and it is said where."""
    from ..decisions import AUDIT_FILE
    from ..models import own_rank

    beside, settings = places[-1], plan.config.shortcuts.audit()
    for folder in filter(None, places):
        with suppress(DataError, ConfigError):
            found = guard.audited(folder, texts)
            made = found.unit, found.top_k, found.fdr
            fits = made == (settings.unit, settings.top_k, settings.fdr)
            if folder != beside or (fits and settings.erasure in ("auto", found.erasure)):
                output.say(f"Using the audit in '{folder}'.")
                return found
    output.check(options.Place(beside, key=AUDIT_FILE), inputs=[])
    config = replace(settings, n_examples=AuditConfig.n_examples)
    if why:
        output.say(why)
    paying.agree(guard, texts, config, output=output)
    how = {"redact": not hashes, "hashes": hashes, "overwrite": output.overwrite}
    report, _ = make_audit(guard, texts, config, None if own_rank() else beside, output=output, **how)
    if beside is not None and not own_rank():
        output.say(f"Audit written: {beside}")
    return report


def _consult(
    guard: ShortcutGuardrail,
    report: AuditReport,
    texts: Texts,
    specs: list[str],
    asking: Asking,
    taken: Mapping[str, Any],
    *,
    dry_run: bool,
    output: options.Output,
    seed: int,
) -> tuple[Decisions, Answers]:
    """Ask second models about an audit, and show what they say, what people decided over it.

    Args:
        taken: The `decisions` of people, if any, and words that are `shortcuts`. Flips are counted given them.
    """
    from ..decisions import decide
    from ..models import check_alone
    from ..report import print_decisions

    check_alone("--second-model")
    with output.progress() as progress:
        questions = guard.questions(report, texts, strength=0, seed=seed, progress=progress, **taken)
    answers = asking.ask(questions, specs, dry_run=dry_run, output=output)
    decisions = decide(questions, replace(answers, earlier=taken["decisions"] or answers.earlier), rule=asking.rule)
    if output.speaks:
        print_decisions(decisions)
    return decisions, answers


def _strength(text: str | None) -> RepairStrength:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text  # type: ignore[return-value]  # "auto", or what the plan refuses


def _plan(wanted: Wanted, rows: TextData | None, *, dry_run: bool) -> Plan:
    """The plan as far as it can be told before the model, which knows the label names, is loaded."""
    import numpy as np

    from ..mitigation import strategy_of, uses_shortcuts

    strategy = "distill" if wanted.strategy == "auto" else wanted.strategy
    labels = None
    if rows is not None:
        labels = np.unique(rows.labels or [], return_inverse=True)[1]  # they stand in for class ids
    elif dry_run and strategy == "few-shot":
        labels = np.array([0, 1])  # what is missing is not what is wrong
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardrailWarning)  # the repair warns again
        plan = wanted.plan(strategy, labels)
    if dry_run and not uses_shortcuts(plan.config):
        also = "" if strategy_of(plan.config).learns_from_labels else ", or --per-input"
        raise ConfigError(
            f"--dry-run is for strategies that take words, and '{wanted.strategy}' does not. Choose "
            f"--strategy mask or --strategy distill{also}."
        )
    return plan


def _show_shortcuts(found: Shortcuts, strategy: str, *, has_labels: bool, output: options.Output) -> None:
    from ..mitigation import supported_strategy
    from ..report import print_shortcuts

    if output.speaks:
        print_shortcuts(found)
    if strategy == "auto":
        with suppress(NothingToRepairError):
            output.say(f"Strategy: {supported_strategy(found, has_labels=has_labels)[1]}.")
    output.finish({"shortcuts": found.to_dict()})


def _check_base(model: str, *, is_guard: bool) -> None:
    """Refuse a guard, of a folder at once, and of the Hub as soon as it is loaded."""
    if is_guard:
        raise ConfigError(f"'{model}' was written by fit, and cannot be repaired again. Give the original model.")
