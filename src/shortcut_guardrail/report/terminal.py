"""Results as tables that fit a terminal of 80 columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..audit import Metric, common_metrics
from ..data import counted
from ..display import interval, number, p_value
from ..saving import what_labels_said
from ..text import printable, visible_name

if TYPE_CHECKING:
    from ..audit import AuditReport
    from ..evaluation import Evaluation
    from ..metrics import GroupAccuracy
    from ..mitigation import FitReport, Repair
    from ..shortcuts import Shortcuts
    from ..strength import Calibration, Certificate, UnlabelledCalibration

SHOWN_CANDIDATES = 15
SHOWN_CARDS = 10
COMPARED_CANDIDATES = 8
EXPLAINED_CANDIDATES = 3
EXPLAINED_WORDS = 5


def screen() -> Console:
    """The terminal, on which nothing that came from data is markup."""
    return Console(highlight=False, markup=False, emoji=False)


def new_table(*columns: str) -> Table:
    """First column left, all others right: a name and its numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    return table


def accuracy_and_interval(group: GroupAccuracy, *, separator: str = " ") -> str:
    """A group's accuracy with its 95 % interval, or a dash for a group without examples."""
    return f"{number(group.accuracy)}{separator}({interval(*group.interval)})" if group.n else "-"


def cut_note(n: int) -> str:
    """A sentence, after a space, on how many texts the model did not see whole; nothing if it saw all."""
    if not n:
        return ""
    return f" {n} {'text was' if n == 1 else 'texts were'} longer than the model takes and cut."


AUDIT_COLUMNS = ("", "candidate", "texts", "flip\nrate", "95 %", "change", "contra-\ndicted", "q-value", "pulls to")


def print_audit(audit: AuditReport | Mapping[str, Any]) -> None:
    """The corpus ranking and MSTPS.

    Args:
        audit: The report, or the content of its `audit.json`.
    """
    document = audit if isinstance(audit, Mapping) else audit.to_dict()
    console = screen()
    console.print(_ranked(AUDIT_COLUMNS, map(_audit_row, document["candidates"][:SHOWN_CANDIDATES])))
    if document["cards"]:
        console.print(_ranked(CARD_COLUMNS, map(_card_row, document["cards"][:SHOWN_CARDS])))
    for line in _audit_summary(document):
        console.print(line)


CARD_COLUMNS = ("", "card", "texts", "answers\nchanged", "share\nof all", "pulls to")
_CARD_WIDTH = 36


def _ranked(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of what comes by rank: its sign, its words, numbers, and a class."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for i, column in enumerate(columns):
        is_text = i < 2 or i == len(columns) - 1
        # Numbers keep their width; names are folded where both do not fit.
        table.add_column(column, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _card_row(card: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        _SIGNS.get(card["evidence"]["status"], ""),
        first_words(card["words"], _CARD_WIDTH),
        str(card["texts"]),
        str(card["changes"]),
        f"{card['share']:.1%}",
        card["pulls_to"],
    )


def first_words(words: Sequence[str], width: int) -> str:
    """As many of a card's words as fit into a width, the first of them whatever its length, and how many more."""
    names = [visible_name(word) for word in words]
    for n in range(len(names), 0, -1):
        shown = ", ".join(names[:n]) + (f" +{len(names) - n}" if n < len(names) else "")
        if len(shown) <= width:
            return shown
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return names[0][: width - len(more) - 1] + "…" + more


def _audit_row(candidate: Mapping[str, Any]) -> tuple[str, ...]:
    low, high = candidate["interval"]["flip_rate"]
    return (
        _sign(candidate),
        visible_name(candidate["text"]),
        str(candidate["count"]),
        number(candidate["flip_rate"]),
        "-" if low is None else f"{low:.2f}-{high:.2f}",
        number(candidate["mean_change"], signed=True),
        number(candidate["contradiction_rate"]),
        "-" if candidate["p_value"] is None else p_value(candidate["q_value"]),
        candidate["pulls_to"] or "-",
    )


_SIGNS = {"flagged": "!", "undecided": "?"}


def _sign(candidate: Mapping[str, Any]) -> str:
    return "+" if in_company(candidate) else _SIGNS.get(candidate["status"], "")


def in_company(candidate: Mapping[str, Any]) -> bool:
    """Whether it is undecided alone but goes with others: takes turns with what is flagged, or is one of a set."""
    return bool(candidate["takes_turns"] or candidate["collective"])


def open_questions(candidates: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What is undecided, first that of which nothing more is known."""
    return sorted((c for c in candidates if c["status"] == "undecided"), key=in_company)


def _audit_summary(document: Mapping[str, Any]) -> list[str]:
    """Paragraphs below the table: what was found, what is undecided and why, and what the columns mean."""
    undecided = open_questions(document["candidates"])
    has_cards = bool(document["cards"])
    return [
        f"{counted(document['n'], 'text')}, {counted(document['n_candidates'], 'candidate')}, "
        f"{document['n_tested']} of them tested; MSTPS "
        f"{document['mstps']:.3f}.{cut_note(document['n_truncated'])}",
        _audit_outcome(document),
        *_would_take(document),
        *(f"{_sign(c)} {visible_name(c['text'])}: {doubt(c)}" for c in undecided[:EXPLAINED_CANDIDATES]),
        *document["notes"],
        "Flip rate: how often masking it changes the answer; change: of that answer's probability; contradicted: how "
        "often the rest is confidently given another answer.",
        *(["A card: words that pull to one answer, and how many answers change with all of them masked."] * has_cards),
        "A candidate is a question to you, not a verdict.",
    ]


def _audit_outcome(document: Mapping[str, Any]) -> str:
    flagged = sum(candidate["flagged"] for candidate in document["candidates"])
    n_undecided = document["n_undecided"]
    found = f"{flagged} flagged (!)" if flagged else "0 flagged"
    if not n_undecided:
        return f"{found} at a false-discovery rate of {document['fdr']:.0%}, 0 undecided."
    has_labels = any(candidate["labelled"] for candidate in document["candidates"])
    advice = "see what labels say" if has_labels else "labels would tell (--label-column), or more texts"
    signs = "? or +" if any(in_company(candidate) for candidate in document["candidates"]) else "?"
    return f"{found}, {n_undecided} undecided ({signs}): {advice}.{company_note(document, sign=' (+)')}"


_TAKEN = {
    "takes turns": "takes turns with what is flagged",
    "set": "overrides its texts together with others",
    "alike": "alike to what is flagged",
}


def _would_take(document: Mapping[str, Any]) -> list[str]:
    """What `fit` would take for shortcuts without a decision, and why; nothing where the audit does not say."""
    taken = document.get("fit_would_take")
    if taken is None:
        return []
    whole = document["unit"] == "phrase"
    phrases = " `fit` looks for phrases too, and may take one in place of a word: see `audit --unit phrase`."
    beyond = "" if whole else phrases
    if not taken:
        return [
            f"`fit` would take {'nothing' if whole else 'none of these words'}: decide about cards with `review` or "
            f"`flips`, or name what should not count with `fit --shortcut WORD`.{beyond}"
        ]
    said = [f"{visible_name(item['text'])} ({_why_taken(item, document)})" for item in taken[:EXPLAINED_WORDS]]
    more = f" and {len(taken) - len(said)} more" if len(taken) > len(said) else ""
    return [f"`fit` would take{'' if whole else ' of these words'}: {', '.join(said)}{more}.{beyond}"]


def _why_taken(item: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    reason = str(item["reason"] or item["verdict"])
    if reason != "dominant":
        return _TAKEN.get(reason, reason)
    # A phrase that the audit has not ranked was counted in distinct texts.
    n = document["n_distinct"] if item["q_value"] is None else document["n"]
    return f"dominant: decides most of its texts, {item['count'] / n:.0%} of all, against what their rest says"


def company_note(document: Mapping[str, Any], *, sign: str = "") -> str:
    """What is shown of several undecided candidates together, after a space; nothing where nothing is.

    Args:
        document: The content of an `audit.json`.
        sign: How they are marked.
    """
    turns, together = (
        [visible_name(candidate["text"]) for candidate in document["candidates"] if candidate[kind]]
        for kind in ("takes_turns", "collective")
    )
    p = p_value(document["set_p_value"])
    kinds = {
        f"take{'s' if len(turns) == 1 else ''} turns with what is flagged": turns,
        f"override the rest of their texts together (p {p})": together,
    }
    return "".join(
        f" {len(names)} of them{sign} {what}, as the words of one shortcut do: {_first_names(names)}"
        for what, names in kinds.items()
        if names
    )


def _first_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(f"“{name}”" for name in names[:5]) + f"{more}."


def doubt(candidate: Mapping[str, Any]) -> str:
    """Why a candidate is undecided, and what labels say of its flips where there are any: a sentence or two."""
    found = candidate["labelled"]
    if not found:
        return f"{candidate['reason']}."
    p = "" if found["p_value"] is None else f" (McNemar's p: {p_value(found['p_value'])})"
    return (
        f"{candidate['reason']}. With labels: masking it puts {found['flips_to_right']} answers right and "
        f"{found['flips_to_wrong']} wrong{p}."
    )


def print_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Two results beside each other: their own numbers, and the candidates of either that come first.

    Args:
        old: The content of an `audit.json`, or of the file of `evaluate --json`.
        new: A later one of the same kind.
    """
    console = screen()
    table = new_table("", "old", "new", "change")
    for key in common_metrics(old, new):
        values = (Metric(key).value(result) for result in (old, new))
        table.add_row(key, *_change_cells(*values, count=key == "n" or key.startswith("n_")))
    console.print(table)
    texts = dict.fromkeys(
        candidate["text"] for result in (new, old) for candidate in result.get("candidates", ())[:COMPARED_CANDIDATES]
    )
    if texts:
        candidates = new_table("candidate", "flip rate, old", "flip rate, new", "change")
        for text in texts:
            rates = (Metric("flip_rate", text).value(result) for result in (old, new))
            candidates.add_row(Text(visible_name(text)), *_change_cells(*rates))
        console.print(candidates)


def _change_cells(old: float | None, new: float | None, *, count: bool = False) -> tuple[str, str, str]:
    change = None if old is None or new is None else new - old
    if count:
        old_count, new_count = ("-" if value is None else f"{value:.0f}" for value in (old, new))
        return old_count, new_count, "-" if change is None else f"{change:+.0f}"
    return number(old), number(new), number(change, signed=True)


def print_fit(
    report: FitReport,
    calibration: Calibration | None,
    strength: float,
    *,
    stated: bool,
    without_labels: UnlabelledCalibration | None = None,
) -> None:
    """What training did and which strength came out.

    Args:
        report: What `fit` did.
        calibration: The choice of the strength on labelled rows, if it was made.
        strength: The strength that came out.
        stated: Whether a person stated it.
        without_labels: The choice of the strength on unlabelled texts, if it was made.
    """
    console = screen()
    training = report.training
    if training.n_steps:
        console.print(
            f"Adapted on {training.n_trained} of {training.n_texts} texts in {training.n_steps} steps "
            f"({training.seconds:.0f} s): loss {training.losses[0]:.3f} to {training.losses[-1]:.3f}, "
            f"weights changed by {training.relative_change:.2%}."
        )
    if report.n_truncated:
        console.print(cut_note(report.n_truncated).strip())
    if calibration is not None:
        _print_calibration(calibration, without_labels)
    elif without_labels is not None:
        _print_unsupervised(without_labels)
    else:
        console.print(f"Strength {strength:g} ({'as stated' if stated else 'fixed, not calibrated'}).")


def _print_calibration(calibration: Calibration, without_labels: UnlabelledCalibration | None) -> None:
    """The choice on labelled rows; with one on unlabelled texts beside it, their divergence is a column more."""
    console = screen()
    beside = ("divergence",) if without_labels is not None else ()
    table = new_table("strength", *beside, "accuracy", "95 % interval", "gained", "lost", "")
    divergences = {} if without_labels is None else {p.strength: p.divergence for p in without_labels.curve}
    for point in calibration.curve:
        chosen = "chosen" if point.strength == calibration.strength else ""
        table.add_row(
            f"{point.strength:g}",
            *(f"{divergences[point.strength]:.5f}" for _ in beside),
            number(point.accuracy),
            interval(*point.interval),
            str(point.gained),
            str(point.lost),
            chosen,
        )
    console.print(table)
    chosen_on = f"Strength {calibration.strength:g}, chosen on"
    if said := what_labels_said(asdict(calibration)):
        console.print(f"{chosen_on} unlabelled texts and {calibration.n} labelled ones. {said}")
        if calibration.strength == 0:
            console.print("So the guarded model answers exactly as the base model does.")
        return
    unseen = ", each answered by an adapter that was not trained on it" if calibration.cross_validated else ""
    console.print(f"{chosen_on} {calibration.n} labelled rows by {calibration.metric}{unseen}.")
    if calibration.strength == 0:
        console.print("No strength scored higher than 0, so the guarded model answers exactly as the base model does.")


def _print_unsupervised(chosen: UnlabelledCalibration) -> None:
    console = screen()
    table = new_table("strength", "divergence", "same answers", "")
    for point in chosen.curve:
        mark = "chosen" if point.strength == chosen.strength else ""
        table.add_row(f"{point.strength:g}", f"{point.divergence:.5f}", number(point.agreement), mark)
    console.print(table)
    console.print(
        f"Strength {chosen.strength:g}, chosen without labels: the one whose answers to {chosen.n} texts "
        f"({chosen.n_bearing} with a shortcut) diverge least from the base's answers without the shortcuts (mean "
        "Kullback-Leibler divergence, in nats). Whether these are better answers, labels would tell."
    )


def print_shortcuts(shortcuts: Shortcuts) -> None:
    """What is neutralised, what was weighed and left alone, and why."""
    console = screen()
    table = new_table("word or phrase", "neutralised", "why", "texts", "flip\nrate", "mended", "broken")
    for item in shortcuts.items:
        table.add_row(
            Text(visible_name(item.text)),
            "yes" if item.neutralised else "no",
            _WHY[item.reason or item.verdict],
            "-" if item.count is None else str(item.count),
            number(item.flip_rate),
            str(item.mended) if item.n_support else "-",
            str(item.broken) if item.n_support else "-",
        )
    console.print(table)
    if shortcuts.items:
        console.print(
            "Flip rate: how often masking it changes the answer. Mended, broken: labelled answers that masking it puts "
            "right, or wrong. Add a word with --shortcut, spare one with --keep."
        )
    many_answers = [item for item in shortcuts.items if item.reason == "many answers"]
    if many_answers:
        console.print(
            "Many answers: they hang on it, and no test says whether they should. Name it with --shortcut if the task "
            "is not about it, spare it with --keep if it is."
        )
    if many_answers and all(item.listed for item in many_answers):
        console.print("--take-influential takes all of these, and with --support those that mend more than they break.")
    if not shortcuts.words:
        console.print("Nothing is taken for a shortcut. Name what you know with --shortcut.")


_WHY = {
    "named": "you said so",
    "kept": "you said so",
    "flagged": "audit",
    "takes turns": "audit: takes turns",
    "set": "audit: together",
    "alike": "audit: alike",
    "dominant": "audit: dominant",
    "many answers": "many answers",
    "confirmed": "labels",
    "cleared": "labels",
    "flips": "judged flips",
    "second opinion": "second opinion",
}


def print_certificate(certificate: Certificate) -> None:
    """What was certified at each strength, and in one sentence."""
    console = screen()
    table = new_table("strength", "differing", "labelled", "gained", "lost", "loss at most", "")
    for point in certificate.points:
        table.add_row(
            f"{point.strength:g}",
            f"{point.differing} of {certificate.n_unlabelled}",
            str(point.labelled),
            str(point.gained),
            str(point.lost),
            number(point.loss_bound),
            "certified" if point.certified else "",
        )
    console.print(table)
    console.print(certificate.sentence)
    console.print(certificate.assumptions, style="dim")


METRIC_ROWS = (
    ("accuracy", "accuracy"),
    ("balanced accuracy", "balanced_accuracy"),
    ("majority-class accuracy", "majority_accuracy"),
    ("worst-group accuracy", "worst_group_accuracy"),
    ("MSTPS", "mstps"),
    ("MSTPS, tokens of the base", "mstps_base_tokens"),
)


def print_evaluations(results: Mapping[str, Evaluation]) -> None:
    """One column for each model, all on the same rows. MSTPS and recall may be measured of some models only."""
    console = screen()
    first = next(iter(results.values()))
    measured = next((result for result in results.values() if result.sensitivity.n), first)
    table = new_table("", *results)
    for label, key in METRIC_ROWS if measured.sensitivity.n else METRIC_ROWS[:4]:
        table.add_row(label, *(_score(result, key) for result in results.values()))
    for k in measured.shortcut_token_recall:
        recalls = [result.shortcut_token_recall.get(k) for result in results.values()]
        table.add_row(f"shortcut token recall at {k}", *(number(r.recall if r else None) for r in recalls))
        table.add_row(Text("  by chance", style="dim"), *(number(r.chance if r else None) for r in recalls))
    console.print(table)
    groups = new_table("group", "n", *(f"{name} (95 %)" for name in results))
    # Beside each other, the intervals of more than two models would leave no room for the names of the groups.
    separator = " " if len(results) <= 2 else "\n"
    for i, group in enumerate(first.groups):
        cells = (accuracy_and_interval(result.groups[i], separator=separator) for result in results.values())
        groups.add_row(Text(printable(group.name)), str(group.n), *cells)
    console.print(groups)
    console.print(f"{first.n} texts.{cut_note(first.n_truncated)}{_sample_note(measured)}")


def _score(result: Evaluation, key: str) -> str:
    """A score; MSTPS with its interval, since it is often of a sample."""
    shown = number(getattr(result, key))
    ends = result.sensitivity.interval
    return f"{shown} ({interval(*ends)})" if key == "mstps" and not math.isnan(ends[0]) else shown


def _sample_note(result: Evaluation) -> str:
    n = result.sensitivity.n
    return f" MSTPS and recall: {n} of them, drawn at random." if 0 < n < result.n else ""


def print_repair(
    evaluations: Mapping[str, Evaluation],
    in_distribution: Mapping[str, Evaluation],
    audits: Mapping[str, AuditReport],
    repairs: Mapping[str, Repair],
    *,
    shortcut: str,
    found: str,
    seconds: float,
) -> None:
    """A planted shortcut before and after, one column for each model, the base first.

    Args:
        evaluations: On texts in which the shortcut goes along with the other label.
        in_distribution: On texts in which it goes along with the label.
        audits: What each model leans on.
        repairs: How each model but the base was repaired.
        shortcut: The planted word.
        found: What the repair found, a sentence.
        seconds: What all of it took.
    """
    console = screen()
    console.print(f"Planted shortcut: {shortcut}. {found}")
    table = new_table("", *evaluations)
    table.add_row(f"shortcut reversed, {evaluations['base'].n:,} texts")
    _add_scores(table, evaluations)
    worst = {name: evaluation.worst_group for name, evaluation in evaluations.items()}
    for label, cell in _WORST_GROUP.items():
        table.add_row(f"  {label}", *("-" if group is None else cell(group) for group in worst.values()))
    table.add_row(f"shortcut as in training, {in_distribution['base'].n:,} texts")
    _add_scores(table, in_distribution)
    leant_on = ("\n".join(candidate.text for candidate in audit.candidates[:3]) for audit in audits.values())
    table.add_row("words it leans on most", *(Text(printable(words)) for words in leant_on))
    table.add_row("repaired with", *(_repaired_with(repairs.get(name)) for name in evaluations))
    console.print(table)
    console.print(f"All texts are made up; none that is scored chose anything. {seconds:.0f} s.")


def _repaired_with(repair: Repair | None) -> str:
    if repair is None:
        return "-"
    labels = 0 if repair.choice.calibration is None else repair.choice.calibration.n
    steps = repair.fitted.training.n_steps
    return f"{counted(labels, 'label')},\n{counted(steps, 'step')},\nstrength {repair.choice.strength:g}"


_WORST_GROUP: dict[str, Callable[[GroupAccuracy], str]] = {
    "worst group": lambda group: number(group.accuracy),
    "  95 % interval": lambda group: interval(*group.interval),
    "  which": lambda group: group.name.replace(", ", ",\n"),
    "  texts in it": lambda group: str(group.n),
}


def _add_scores(table: Table, evaluations: Mapping[str, Evaluation]) -> None:
    table.add_row("  accuracy", *(number(evaluation.accuracy) for evaluation in evaluations.values()))
    table.add_row("  always the same answer", *(number(e.majority_accuracy) for e in evaluations.values()))
