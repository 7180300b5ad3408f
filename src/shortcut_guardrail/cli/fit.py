"""`shortcut-guardrail fit`: train an adapter on unlabelled texts, choose its strength, write the folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .options import StrategyChoice
from .running import progress_bars

if TYPE_CHECKING:
    from ..config import CertifyConfig, GuardrailConfig
    from ..data import TextData, Texts
    from ..guardrail import ShortcutGuardrail
    from ..mitigation import FitReport
    from ..strength import Calibration, Certificate, UnlabelledCalibration


def fit(
    model: options.Model,
    data: options.Data,
    out: Annotated[Path | None, typer.Option(help="Folder to write.", show_default="none with --dry-run")] = None,
    support: Annotated[
        str | None,
        typer.Option(
            help="File with a few labelled rows, to choose the strength or overrule the choice without labels, to "
            "confirm or clear shortcuts, and for `few-shot` to learn from."
        ),
    ] = None,
    strategy: Annotated[
        StrategyChoice,
        typer.Option(
            help="`maskcl` is the paper's; `distill` trains the adapter to answer as without the shortcuts; `mask` "
            "masks them when it predicts, without training; `few-shot` trains the adapter on the labels of --support, "
            "and looks at DATA for --report only."
        ),
    ] = StrategyChoice.maskcl,
    shortcut: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="A word or phrase that is a shortcut, for `mask` and `distill`. Repeatable."),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A word or phrase that is none. Repeatable.")
    ] = None,
    take_influential: Annotated[
        bool,
        typer.Option(
            "--take-influential",
            help="Also take words and phrases on which many answers hang, though no test speaks against them; with "
            "--support those whose masking mends more labels than it breaks. Without it, or with --certify, genuine "
            "words come along.",
        ),
    ] = False,
    per_input: Annotated[
        bool, typer.Option("--per-input", help="Texts without a shortcut keep the base model's answer.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be neutralised, and change nothing.")
    ] = False,
    preset: Annotated[
        options.PresetChoice, typer.Option(help="`paper` holds the paper's numbers, `default` ours for all sizes.")
    ] = options.PresetChoice.default,
    seed: Annotated[int, typer.Option(help="The same seed gives the same adapter.", min=0)] = 0,
    strength: Annotated[float | None, typer.Option(help="Fixed strength in [0, 1], instead of a support set.")] = None,
    auto_strength: Annotated[
        bool,
        typer.Option(
            "--auto-strength",
            help="Choose the strength on DATA, without labels; with --support the labels may overrule it. So do `mask` "
            "and `distill` where none is stated.",
        ),
    ] = False,
    certify: Annotated[
        float | None,
        typer.Option(
            metavar="MARGIN",
            help="Only use a strength that loses no more accuracy than this share, shown on the support set and on "
            "--unlabelled; the support set then has no say in what is a shortcut.",
        ),
    ] = None,
    confidence: Annotated[float | None, typer.Option(help="Of --certify.", show_default="0.95")] = None,
    unlabelled: Annotated[
        str | None, typer.Option(help="File with deployment texts that are not in DATA, for --certify.")
    ] = None,
    rank: Annotated[int | None, typer.Option(help="LoRA rank.", show_default="the preset's")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate.", show_default="the preset's")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the texts.", show_default="the preset's")] = None,
    train_batch_size: Annotated[int | None, typer.Option(help="Inputs per step.", show_default="the preset's")] = None,
    temperature: Annotated[float | None, typer.Option(help="Of the loss.", show_default="the preset's")] = None,
    top_k: Annotated[int | None, typer.Option(help="Important tokens per input.", show_default="the preset's")] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Also audit the base and the guarded model on DATA, and write a page with both."),
    ] = None,
    redact: options.Redact = False,
    text_column: options.TextColumn = None,
    text_pair_column: options.TextPairColumn = None,
    label_column: options.LabelColumn = None,
    revision: options.Revision = None,
    head: options.Head = None,
    device: options.Device = None,
    batch_size: options.BatchSize = 32,
    max_length: options.MaxLength = None,
    precision: options.Precision = options.PrecisionChoice.float32,
    allow_pickle: options.AllowPickle = False,
    trust_remote_code: options.TrustRemoteCode = False,
    overwrite: options.Overwrite = False,
    debug: options.Debug = False,
) -> None:
    """Train an adapter that lowers the reliance on shortcuts.

    DATA needs no labels. Writes a PEFT adapter folder with the strength folded in, a record of the run
    (guardrail.json) and a model card. Column options hold for DATA and for the support file.
    """
    from ..config import CertifyConfig
    from ..errors import ConfigError
    from ..mitigation import uses_shortcuts
    from ..models import joined, own_rank
    from ..report import print_targets

    config = _config(
        preset.value,
        strategy.value,
        strength,
        {"rank": rank, "learning_rate": learning_rate, "epochs": epochs, "batch_size": train_batch_size}
        | {"temperature": temperature},
        top_k,
    )
    config = _with_targets(config, shortcut, keep, take_influential, per_input, dry_run)
    if confidence is not None and certify is None:
        raise ConfigError("--confidence is that of a certificate; give --certify MARGIN as well.")
    certificate = None if certify is None else CertifyConfig(certify, 0.95 if confidence is None else confidence)
    if config.strategy == "few-shot":
        _check_few_shot(support, strength is not None or auto_strength, certificate is not None)
    weighs = uses_shortcuts(config) or config.strategy == "few-shot"
    _check_choices(support, strength, auto_strength, certificate is not None, unlabelled, weighs=weighs)
    if certificate is not None and strength is not None:
        _check_on_grid(strength, config)
    _check_places(model, data, support, unlabelled, out, report, dry_run=dry_run, overwrite=overwrite)
    automatic = auto_strength or (uses_shortcuts(config) and config.strategy != "maskcl" and strength is None)
    # Elsewhere the labels weigh what is neutralised, for which one is enough, and have to choose nothing.
    chooses = not (dry_run or automatic) and strength is None
    rows = _read_rows(
        data,
        support,
        unlabelled,
        {"text_column": text_column, "text_pair_column": text_pair_column},
        label_column,
        chooses_strength=chooses,
    )
    if config.strategy == "maskcl":
        _check_distinct(rows.texts)
    if not (dry_run or support is not None or strength is not None or automatic):
        _warn_uncalibrated()
    with joined():
        guard = options.load_guard(
            model,
            device=device,
            head=head,
            precision=precision,
            revision=revision,
            batch_size=batch_size,
            max_length=max_length,
            allow_pickle=allow_pickle,
            trust_remote_code=trust_remote_code,
        )
        labelled = rows.labelled(guard, chooses_strength=chooses)
        # Rows that decide what is neutralised can certify nothing any more.
        weighing = labelled if weighs and certificate is None else None
        with progress_bars(quiet=own_rank() > 0) as progress:
            if dry_run:
                targets = guard.find_targets(rows.texts.texts, config=config, support=weighing, progress=progress)
            else:
                fitted = guard.fit(rows.texts.texts, config=config, seed=seed, support=weighing, progress=progress)
        if own_rank() > 0:
            return  # every process holds the same weights; the first one writes them
    if dry_run:
        print_targets(targets)
        return
    assert out is not None
    choice = _choose_strength(guard, fitted, rows, labelled, certificate, automatic=automatic, stated=strength)
    guard.save_pretrained(out, overwrite=overwrite)
    _show(fitted, choice, stated=strength is not None)
    print(f"Written: {out}")
    if report is not None:
        _write_report(report, guard, fitted, choice.calibration, rows.texts, redact=redact, overwrite=overwrite)
        print(f"Written: {report}")


@dataclass(frozen=True)
class _Rows:
    """What was read: the texts to fit on, the support set, and the texts for a certificate."""

    texts: TextData
    support: TextData | None
    unlabelled: TextData | None

    def labelled(self, guard: ShortcutGuardrail, *, chooses_strength: bool) -> tuple[Texts, list[int]] | None:
        """Texts and class ids of the support set, checked before an epoch is spent."""
        from ..data import label_ids
        from ..strength import check_support

        rows = self.support
        if rows is None:
            return None
        assert rows.labels is not None
        ids = label_ids(rows.labels, guard.label_names, source=rows.source, rows=rows.rows, row_word=rows.row_word)
        if chooses_strength:
            check_support(ids)
        return rows.texts, ids


def _read_rows(
    data: str,
    support: str | None,
    unlabelled: str | None,
    columns: dict[str, Any],
    label_column: str | None,
    *,
    chooses_strength: bool,
) -> _Rows:
    from ..data import read_data
    from ..strength import check_support

    texts = read_data(data, **columns)
    labelled = None
    if support is not None:
        labelled = read_data(support, **columns, label_column=label_column, require_labels=True)
        if chooses_strength:
            # What can be said before the model, which knows the label names, is loaded.
            assert labelled.labels is not None
            distinct = list(dict.fromkeys(labelled.labels))
            check_support([distinct.index(label) for label in labelled.labels])
    around = None if unlabelled is None else read_data(unlabelled, **columns)
    for rows in (labelled, around):
        options.check_same_kind(texts, rows)
    return _Rows(texts, labelled, around)


@dataclass(frozen=True)
class _Choice:
    """How the strength was chosen: on labels, without, or neither; and what was certified about it.

    `strength` is the one chosen, which the certificate may have replaced.
    """

    strength: float
    calibration: Calibration | None
    without_labels: UnlabelledCalibration | None
    certificate: Certificate | None


def _choose_strength(
    guard: ShortcutGuardrail,
    fitted: FitReport,
    rows: _Rows,
    labelled: tuple[Texts, list[int]] | None,
    certificate: CertifyConfig | None,
    *,
    automatic: bool,
    stated: float | None,
) -> _Choice:
    calibration, without_labels, certified = fitted.calibration, None, None
    with progress_bars() as progress:
        if calibration is None and automatic:
            without_labels = guard.calibrate_without_labels(rows.texts.texts, progress=progress)
        if calibration is None and stated is None and labelled is not None and _can_choose(labelled[1], automatic):
            calibration = guard.calibrate(*labelled, without_labels=without_labels, progress=progress)
        strength = guard.debias_strength
        if certificate is not None and rows.unlabelled is not None:
            texts, labels = labelled or ([], [])
            certified = guard.certify(
                texts, labels, unlabelled=rows.unlabelled.texts, config=certificate, progress=progress
            )
    return _Choice(strength, calibration, without_labels, certified)


def _can_choose(labels: list[int], automatic: bool) -> bool:
    """Whether labels can tell strengths apart; a warning where they cannot and need not."""
    import warnings

    from ..errors import DataError, GuardrailWarning
    from ..strength import check_support

    try:
        check_support(labels)
    except DataError:
        if not automatic:
            raise
        warnings.warn(
            "The support set has a single row or a single label and cannot tell strengths apart: the strength is the "
            "one chosen without labels.",
            GuardrailWarning,
            stacklevel=2,
        )
        return False
    return True


def _show(fitted: FitReport, choice: _Choice, *, stated: bool) -> None:
    from ..mitigation import uses_shortcuts
    from ..report import print_certificate, print_fit, print_targets

    if uses_shortcuts(fitted.config):
        print_targets(fitted.targets)
    print_fit(fitted, choice.calibration, choice.strength, stated=stated, without_labels=choice.without_labels)
    if choice.certificate is None:
        return
    print_certificate(choice.certificate)
    if choice.certificate.strength != choice.strength:
        print(f"Strength {choice.strength:g} is not certified; {choice.certificate.strength:g} takes its place.")


def _check_places(
    model: str,
    data: str,
    support: str | None,
    unlabelled: str | None,
    out: Path | None,
    report: Path | None,
    *,
    dry_run: bool,
    overwrite: bool,
) -> None:
    """What is read and what is written, before anything is."""
    from ..data import check_output
    from ..errors import ConfigError
    from ..saving import is_guarded_folder

    if dry_run and (out is not None or report is not None):
        raise ConfigError(
            f"{'--report' if out is None else '--out'} is for a guard, and --dry-run makes none. Leave one of them out."
        )
    if out is None and not dry_run:
        raise ConfigError("--out is missing: name the folder to write, or give --dry-run to write none.")
    if out is not None:
        check_output(out, overwrite=overwrite, folder=True)
        options.check_spared(out, model)
    if report is not None:
        check_output(report, overwrite=overwrite)
        options.check_spared(report, data, support, unlabelled)
        options.check_apart(report, out)
    if is_guarded_folder(model):
        raise ConfigError(
            f"'{model}' is a folder that fit wrote, and an adapter is not adapted again. Give its base model."
        )


def _with_targets(
    config: GuardrailConfig,
    shortcut: list[str] | None,
    keep: list[str] | None,
    take_influential: bool,
    per_input: bool,
    dry_run: bool,
) -> GuardrailConfig:
    """What the person says about single words."""
    from dataclasses import replace

    from ..errors import ConfigError
    from ..mitigation import uses_shortcuts

    if per_input and config.strategy == "few-shot":
        raise ConfigError("--per-input is for strategies that look for shortcuts, and 'few-shot' looks for none.")
    config = replace(config, per_input=per_input)
    given = {"--shortcut": shortcut, "--keep": keep, "--take-influential": take_influential, "--dry-run": dry_run}
    if not uses_shortcuts(config) and any(given.values()):
        named = next(name for name, value in given.items() if value)
        raise ConfigError(
            f"{named} is for strategies that know what they neutralise, and '{config.strategy}' does not. Choose "
            f"--strategy mask or --strategy distill{'' if config.strategy == 'few-shot' else ', or --per-input'}."
        )
    return config.with_targets(
        shortcuts=tuple(shortcut or ()), keep=tuple(keep or ()), take_influential=take_influential
    )


def _check_choices(
    support: str | None,
    strength: float | None,
    automatic: bool,
    certifies: bool,
    unlabelled: str | None,
    *,
    weighs: bool,
) -> None:
    """Options that contradict or need one another; `weighs`: the labels have more to say than the strength."""
    from ..errors import ConfigError

    if support is not None and strength is not None and not weighs:
        raise ConfigError("--support chooses the strength and --strength states it; give one of them.")
    if automatic and strength is not None:
        raise ConfigError("--auto-strength and --strength both say how the strength is chosen; give one of them.")
    if certifies != (unlabelled is not None):
        missing = "--unlabelled" if certifies else "--certify"
        raise ConfigError(
            f"{missing} is missing: a certificate needs a margin (--certify) and a file with deployment texts that are "
            "not in DATA (--unlabelled)."
        )


def _check_few_shot(support: str | None, stated: bool, certifies: bool) -> None:
    """What learns from labels needs them, and has none left to certify with."""
    from ..errors import ConfigError

    if support is None:
        raise ConfigError(
            "--support is missing: --strategy few-shot learns from a file with labelled rows, and from nothing else."
        )
    if stated:
        raise ConfigError(
            "--strength and --auto-strength are for other strategies: --strategy few-shot chooses the strength by "
            "cross-validation on --support. Leave them out."
        )
    if certifies:
        raise ConfigError(
            "--certify is for labels that the adapter has not learned from, and --strategy few-shot learns from all of "
            "--support. Fit first, then run `shortcut-guardrail certify` with other labelled rows."
        )


def _check_on_grid(strength: float, config: GuardrailConfig) -> None:
    """Only strengths that are fixed before any text is seen can be certified."""
    from ..errors import ConfigError
    from ..strength import strengths_to_score

    grid = strengths_to_score(config.calibration)
    if strength not in grid:
        raise ConfigError(
            f"--certify tests the strengths {', '.join(f'{s:g}' for s in grid[1:])}, and --strength {strength:g} is "
            "none of them. State one of these."
        )


def _write_report(
    target: Path,
    guard: ShortcutGuardrail,
    fitted: FitReport,
    calibration: Calibration | None,
    texts: TextData,
    *,
    redact: bool,
    overwrite: bool,
) -> None:
    """Audit the base and the guarded model on the texts of the adapter and set them side by side."""
    from ..data import write_file
    from ..report import render_comparison

    with progress_bars() as progress:
        audits = {
            name: guard.audit(texts.texts, top_k=fitted.config.saliency.top_k, strength=strength, progress=progress)
            for name, strength in (("base", 0.0), ("guarded", guard.debias_strength))
        }
    training = fitted.training
    taught_by = (
        f"on {training.n_texts} labelled rows"
        if fitted.config.strategy == "few-shot"
        else "on these texts, without labels,"
    )
    introduction = (
        f"An adapter of {training.n_trainable:,} weights was trained {taught_by} in {training.n_steps} steps."
        if training.n_steps
        else "No weight was changed."
    )
    if guard.targets.words:
        introduction += f" Taken for shortcuts: {', '.join(guard.targets.words)}."
    paragraphs = [f"{introduction} The guard is applied at strength {guard.debias_strength:g}."]
    page = render_comparison(
        title="Base against guarded",
        subtitle=f"{texts.source}, {len(texts):,} texts",
        introduction=paragraphs,
        evaluations={},
        audits=audits,
        calibration=calibration,
        certificate=guard.certificate,
        redact=redact,
    )
    write_file(target, page, overwrite=overwrite)


def _config(
    preset_name: str, strategy: str, strength: float | None, adapter: dict[str, Any], top_k: int | None
) -> GuardrailConfig:
    """The preset with the options that were given on top."""
    from dataclasses import replace

    from ..config import preset
    from ..errors import ConfigError

    if strategy != "maskcl":
        if preset_name != "default":
            raise ConfigError(f"--preset {preset_name} is for --strategy maskcl; leave it out for {strategy}.")
        preset_name = strategy  # each of the others has one, of its name
    given = {name: value for name, value in adapter.items() if value is not None}
    if strategy == "mask" and given:
        option = {"batch_size": "train-batch-size"}.get(next(iter(given)), next(iter(given)).replace("_", "-"))
        raise ConfigError(f"--{option} is about training, and --strategy mask trains nothing. Leave it out.")
    if strategy == "few-shot" and "temperature" in given:
        raise ConfigError("--temperature is for the losses of maskcl and distill; leave it out for few-shot.")
    config = preset(preset_name)
    if strategy == "distill" and "temperature" in given:
        config = replace(config, distill=replace(config.distill, temperature=given.pop("temperature")))
    config = config.with_adapter(**given)
    # What is asked for by name is not overruled by the preset's rules for steps and rate.
    if adapter["epochs"] is not None:
        config = config.with_adapter(min_steps=0, max_steps=0)
    if adapter["learning_rate"] is not None:
        config = config.with_adapter(target_change=0.0)
    if top_k is not None:
        config = config.with_saliency(top_k=top_k).with_targets(top_k=top_k)
    if strength is not None:
        config = replace(config, calibration=replace(config.calibration, fixed_strength=strength))
    return config


def _warn_uncalibrated() -> None:
    import warnings

    from ..config import CalibrationConfig
    from ..errors import GuardrailWarning

    warnings.warn(
        f"Without a support set the strength is not calibrated: {CalibrationConfig().fixed_strength:g} is used, "
        "which can cost much accuracy, most where there is no shortcut to repair. "
        "Give some 40 labelled rows with --support, or state a strength with --strength.",
        GuardrailWarning,
        stacklevel=2,
    )


def _check_distinct(data: TextData) -> None:
    """The contrastive loss sets texts against each other; one alone teaches nothing."""
    from ..errors import DataError

    distinct = len(set(data.texts))
    if distinct < 2:
        raise DataError(
            f"{data.source}: adaptation needs at least 2 distinct texts, but there is {distinct} in {len(data)} "
            f"{data.row_word}{'' if len(data) == 1 else 's'}. Give more deployment texts."
        )
