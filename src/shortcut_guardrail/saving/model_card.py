"""The README of a guarded folder, with the numbers a reader needs before using it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import GuardrailConfig
from .record import GuardrailRecord


def model_card(record: GuardrailRecord) -> str:
    """A README for the folder, with the numbers a reader needs before using it."""
    from ..mitigation import STRATEGIES  # PyTorch comes with it, which showing a stored audit does not need

    name = record.base_model["name"] or "(an in-memory model)"
    training, strategy, config = record.training, STRATEGIES[record.strategy], GuardrailConfig.from_dict(record.config)
    kind = "labelled" if strategy.learns_from_labels else "unlabelled"
    lines = [
        "---",
        *(["library_name: peft"] if strategy.trains else []),
        "pipeline_tag: text-classification",
        f"tags: [shortcut-guardrail, {'lora, ' if strategy.trains else ''}text-classification]",
        "---",
        "",
        f"# Shortcut guardrail for {name}",
        "",
        f"{strategy.card} It was made from {kind} texts with the strategy `{record.strategy}` "
        f"(Shortcut Guardrail {record.versions.get('shortcut-guardrail', '')}).",
        "",
        "| | |",
        "|---|---|",
        f"| Base model | {_as_code(name)}, revision {_as_code(record.base_model['revision'] or 'not stated')} |",
        f"| Base fingerprint | `{record.base_model['fingerprint']}` |",
        f"| Labels | {', '.join(map(_as_code, record.label_names))} |",
        f"| {'Labelled' if strategy.learns_from_labels else 'Deployment'} texts | {training['n_texts']} given, "
        f"{training['n_trained']} trained on |",
    ]
    if training["n_steps"]:
        lines += [
            f"| Steps | {training['n_steps']} of batches of {config.adapter.batch_size} |",
            f"| Trained parameters | {training['n_trainable']} in {', '.join(training['target_modules'])} |",
        ]
    if record.words:
        lines.append(f"| Taken for shortcuts | {', '.join(map(_as_code, record.words))} |")
    asked = [item for item in record.shortcuts if item.get("reason") == "second opinion"]
    if asked:
        said = (f"{_as_code(item['text'])} ({item['mended']} : {item['broken']})" for item in asked)
        lines.append(f"| Of these by a second opinion, another model | {', '.join(said)} |")
    if config.per_input or not strategy.trains:
        lines.append("| Texts without them | keep the base model's answer |")
    source = _SOURCES.get(record.strength_source, record.strength_source)
    lines += [f"| Debiasing strength | {record.debias_strength} ({source}) |", ""]
    lines += () if record.text_hashes else (_NO_HASHES, "")
    lines += _certificate_lines(record.certificate) + _calibration_lines(record)
    lines += [
        "## Use",
        "",
        "```python",
        "from shortcut_guardrail import ShortcutGuardrail",
        "",
        'guard = ShortcutGuardrail.from_pretrained("this-folder")',
        'guard.predict(["..."])',
        "```",
        "",
        "Plain PEFT gives the same predictions: the strength is folded into `lora_alpha`."
        if record.plain_peft_equivalent
        else "Plain PEFT does not give these predictions: which texts hold a shortcut is found out at prediction.",
        "",
    ]
    return "\n".join(lines)


_NO_HASHES = (
    "The folder keeps no hashes of texts: nothing can tell whether a text on which the guard is scored or certified "
    "had a part in it."
)
_CROSS_VALIDATED = ("Every row was answered by an adapter that had not been trained on it.", "")


def _as_code(word: str) -> str:
    """Words come from texts: what would end the table or the code is taken out."""
    return "`" + word.replace("`", "'").replace("|", "/") + "`"


def _certificate_lines(certificate: dict[str, Any] | None) -> list[str]:
    if certificate is None:
        return []
    return [
        "## Certificate",
        "",
        certificate["sentence"],
        "",
        f"Method: {certificate['method']}.",
        "",
        certificate["assumptions"],
        "",
        f"| strength | other answers in {certificate['n_unlabelled']} unlabelled texts | in {certificate['n_labels']} "
        "labelled ones | gained | lost | loss at most | |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {p['strength']:g} | {p['differing']} | {p['labelled']} | {p['gained']} | {p['lost']} "
            f"| {p['loss_bound']:.3f} | {'certified' if p['certified'] else ''} |"
            for p in certificate["points"]
        ),
        "",
    ]


_SOURCES = {"agreement": "chosen without labels"}


def what_labels_said(calibration: Mapping[str, Any]) -> str:
    """Whether the labels overruled the strength that unlabelled texts chose, in a sentence; empty where labels alone
    chose.

    Args:
        calibration: A `Calibration` as a dictionary.
    """
    before, p_value = calibration.get("without_labels"), calibration.get("p_value")
    if before is None or p_value is None:
        return ""
    scores = {point["strength"]: point["score"] for point in calibration["curve"]}
    best = max(scores, key=lambda strength: scores[strength])
    if calibration["strength"] != before:
        base = ", or the base," if best else ""  # the p-value is the smaller of two comparisons
        return (
            f"Unlabelled texts chose {before:g}, which the labels overrule: strength {best:g}{base} answers more of "
            f"them rightly (p = {p_value:.2g})."
        )
    if scores[best] == scores[before]:
        return "Unlabelled texts chose it, and no strength answers more of the labelled ones rightly."
    return (
        f"Unlabelled texts chose it. Strength {best:g} answers more of the labelled ones rightly, but too few tell the "
        f"two apart to overrule it (p = {p_value:.2g})."
    )


def _calibration_lines(record: GuardrailRecord) -> list[str]:
    labelled = record.certificate is not None and record.certificate["n_labels"] > 0
    lines = []
    if record.calibration:
        lines += [
            f"## Calibration on {record.calibration['n']} labelled rows",
            "",
            *(_CROSS_VALIDATED if record.calibration.get("cross_validated") else ()),
            *((said, "") if (said := what_labels_said(record.calibration)) else ()),
            "| strength | accuracy | 95 % interval | gained | lost |",
            "|---|---|---|---|---|",
            *(
                f"| {p['strength']} | {p['accuracy']:.3f} | {p['interval'][0]:.3f} to {p['interval'][1]:.3f} "
                f"| {p['gained']} | {p['lost']} |"
                for p in record.calibration["curve"]
            ),
            "",
        ]
    if record.unlabelled_calibration:
        lines += [
            f"## Strength chosen without labels on {record.unlabelled_calibration['n']} texts: "
            f"{record.unlabelled_calibration['strength']:g}",
            "",
            "The strength whose answers diverge least from the base model's answers without the shortcuts (mean "
            "Kullback-Leibler divergence, in nats)."
            + ("" if labelled or record.calibration else " Whether these are better answers was not measured."),
            "",
            "| strength | divergence | same answers |",
            "|---|---|---|",
            *(
                f"| {p['strength']} | {p['divergence']:.5f} | {p['agreement']:.3f} |"
                for p in record.unlabelled_calibration["curve"]
            ),
            "",
        ]
    if not (record.calibration or record.unlabelled_calibration or labelled):
        lines += [
            "No labelled rows were used: the strength is not calibrated, and whether it helps was not measured.",
            "",
        ]
    return lines
