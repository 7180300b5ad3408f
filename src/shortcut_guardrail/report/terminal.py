"""Results as tables that fit a terminal of 80 columns."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from ..audit import Estimate, Metric, common_metrics
from ..data import counted
from ..display import Screen, asked_for, cut, interval, number, p_value, percent, say, threshold
from ..metrics import fold_groups
from ..text import visible_name
from .defaults import defaults_said
from .findings import Findings, findings
from .insertions import LEGEND, added_rate, added_rate_of_card, insertions_said

if TYPE_CHECKING:
    from ..evaluation import Evaluation
    from ..mitigation import Repair
    from ..shortcuts import Shortcuts
    from ..strength import Certificate

SHOWN_CANDIDATES = 15
SHOWN_CARDS = 10
COMPARED_CANDIDATES = 8
EXPLAINED_CANDIDATES = 3
EXPLAINED_WORDS = 5


def new_table(*columns: str, texts: Collection[int] = (0,)) -> Table:
    """A table whose columns of texts are left and fold; numbers are right and keep their width."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        is_text = i in texts
        table.add_column(column, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    return table


def cut_note(n: int) -> str:
    """A sentence, after a space, on how many texts the model did not see whole; nothing if it saw all."""
    if not n:
        return ""
    return f" {n} {'text was' if n == 1 else 'texts were'} longer than the model takes and cut."


def print_audit(document: Mapping[str, Any]) -> None:
    """The corpus ranking and MSTPS of what an `audit.json` holds."""
    heads = ("", "candidate", "texts", "flip\nrate", "95 %", "added", "over-\nrides", "q-value", "pushes\ntowards")
    candidates = new_table(*heads, texts=(0, 1, 8))
    candidates.collapse_padding = True
    for candidate in document["candidates"][:SHOWN_CANDIDATES]:
        candidates.add_row(*(Text(cell) for cell in _audit_row(candidate)))
    console = Screen()
    console.print(candidates)
    if document["cards"]:
        columns = "word group", "texts", "predictions\nchanged", "share\nof all", "added", "pushes\ntowards"
        cards = new_table("", *columns, texts=(0, 1, 6))
        cards.collapse_padding = True
        for card in document["cards"][:SHOWN_CARDS]:
            sign, numbers = _SIGNS.get(card["evidence"]["status"], ""), (str(card["texts"]), str(card["changes"]))
            class_, added = Text(visible_name(card["pushes_towards"])), added_rate_of_card(card, document)
            cards.add_row(sign, words_of(card["words"], 32), *numbers, percent(card["share"]), added, class_)
        console.print(cards)
    for line in _audit_summary(document):
        console.print(line)
    _print_findings(findings(document), console)


def _print_findings(found: Findings, console: Screen) -> None:
    """What matters of an audit, an example, and the commands that come next, each on a line that can be pasted."""
    console.print(f"\n{found.finding} {found.status}")
    if found.example is not None:
        names = " -> ".join(cut(name, 20) for name in (found.example.before, found.example.after))
        console.print(f"  {cut(visible_name(found.example.masked), console.width - 5 - cell_len(names))}  {names}")
    for sentence, command in found.steps:
        say(f"{sentence}\n  {command}" if command else sentence)


def words_of(words: Sequence[str], width: int = 30) -> Text:
    """As many of a word group's words as fit into a width, at least the first, and how many more there are."""
    names = [visible_name(word) for word in words]
    for n in range(len(names), 0, -1):
        shown = ", ".join(names[:n]) + (f" +{len(names) - n}" if n < len(names) else "")
        if len(shown) <= width:
            return Text(shown)
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return Text(names[0][: width - len(more) - 1] + "…" + more)


def _audit_row(candidate: Mapping[str, Any]) -> tuple[str, ...]:
    low, high = candidate["interval"]["flip_rate"]
    return (
        _sign(candidate),
        visible_name(candidate["text"]),
        str(candidate["count"]),
        number(candidate["flip_rate"]),
        "-" if low is None else f"{low:.2f}-{high:.2f}",
        added_rate(candidate),
        number(candidate["override_rate"]),
        "-" if candidate["p_value"] is None else p_value(candidate["q_value"]),
        visible_name(candidate["pushes_towards"] or "-"),
    )


_SIGNS = {"flagged": "!", "undecided": "?"}


def _sign(candidate: Mapping[str, Any]) -> str:
    return "+" if in_company(candidate) else _SIGNS.get(candidate["status"], "")


def in_company(candidate: Mapping[str, Any]) -> bool:
    """Whether it is undecided alone, but is an alternative wording of what is flagged, or one of a set."""
    return bool(candidate["alternative_wording"] or candidate["collective"])


def open_questions(candidates: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Undecided candidates, those first of which nothing more is known."""
    return sorted((c for c in candidates if c["status"] == "undecided"), key=in_company)


def _audit_summary(document: Mapping[str, Any]) -> list[str]:
    """Paragraphs below the table: what was found, what is undecided and why, and what the columns mean."""
    undecided = open_questions(document["candidates"])
    has_cards = bool(document["cards"])
    return [
        f"{counted(document['n'], 'text')}, {counted(document['n_candidates'], 'candidate')}, "
        f"{document['n_tested']} of them tested. MSTPS {number(document['mstps'])}.{cut_note(document['n_truncated'])}",
        *spent(document),
        _audit_outcome(document),
        *_would_take(document),
        *(f"{_sign(c)} {visible_name(c['text'])}: {doubt(c)}" for c in undecided[:EXPLAINED_CANDIDATES]),
        *_first_notes(document),
        "Flip rate: how often masking a word changes the prediction. Overrides: how often the model confidently "
        "predicts another class from the rest of the text.",
        LEGEND,
        *(["Word group: related words that push towards one class. All of them are masked at once."] * has_cards),
    ]


def _first_notes(document: Mapping[str, Any]) -> list[str]:
    """The two notes that matter most, and how many more the page has."""
    default = defaults_said(document)
    notes = [*default[:1], *document["notes"], *default[1:]][:2]
    more = len(default) + len(document["notes"]) - len(notes)
    more += len(insertions_said(document)) + len(erasures_tried(document))
    return notes + [f"{counted(more, 'more note')} in the report."] * bool(more)


def spent(document: Mapping[str, Any]) -> list[str]:
    """What the audit took, a sentence; nothing of audits that did not count it."""
    if (answers := document.get("answers")) is None:
        return []
    return [f"Asked for {asked_for(answers, document['seconds'], document['n'])}."]


def erasures_tried(document: Mapping[str, Any]) -> list[str]:
    """What each way of taking words out does by itself, a sentence; nothing of audits that did not try them."""
    if not (tried := document.get("erasures")):
        return []
    ways = (("mask", "the mask token"), ("cut", "leaving it out"), ("replace", "another word of the text"))
    shown = [
        f"{said} changes {tried[way]} predictions ({percent(tried[way] / tried['n'], 0)})"
        for way, said in ways
        if tried.get(way) is not None
    ]
    how = f"erasing one unimportant word from {counted(tried['n'], 'text')}"
    return [f"What erasing does by itself, {how}: {', '.join(shown)}."]


def _audit_outcome(document: Mapping[str, Any]) -> str:
    flagged = sum(candidate["flagged"] for candidate in document["candidates"])
    n_undecided = document["n_undecided"]
    found = f"{flagged} flagged (!)" if flagged else "0 flagged"
    if not n_undecided:
        return f"{found} at a false-discovery rate of {document['fdr']:.0%}, 0 undecided."
    has_labels = any(candidate["labelled"] for candidate in document["candidates"])
    advice = "see what the labels say below" if has_labels else "labels (--label-column) or more texts can settle this"
    signs = "? or +" if any(in_company(candidate) for candidate in document["candidates"]) else "?"
    undecided = f"{n_undecided} undecided ({signs}): unsettled by the test so far, {advice}."
    return f"{found}, {undecided}{company_note(document, sign=' (+)')}"


_TAKEN = {
    "alternative wording": "an alternative wording of what is flagged",
    "set": "overrides its texts together with other words",
    "similar": "similar to what is flagged",
}


def _would_take(document: Mapping[str, Any]) -> list[str]:
    """What `fit --audit` takes for shortcuts without a decision, and why; nothing where the audit does not say."""
    taken = document.get("fit_would_take")
    if taken is None:
        return []
    if not taken:
        return [
            "`fit --audit` would remove reliance on nothing. Decide about word groups with `review` or `questions`, "
            "or name a shortcut with `fit --shortcut WORD`."
        ]
    said = [f"“{visible_name(item['text'])}” ({_why_taken(item, document)})" for item in taken[:EXPLAINED_WORDS]]
    more = f" and {len(taken) - len(said)} more" if len(taken) > len(said) else ""
    names = {item["text"] for item in taken}
    also = [
        f"A decision about the word group of “{visible_name(words[0])}” would add {first_names(left, len(left))}."
        for words in (card["words"] for card in document["cards"])
        if (left := [visible_name(word) for word in words if word not in names]) and len(left) < len(words)
    ]
    return [f"`fit --audit` would remove reliance on {', '.join(said)}{more}.", *also]


def _why_taken(item: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    reason = str(item["reason"] or item["verdict"])
    if reason != "dominant":
        return _TAKEN.get(reason, reason)
    # A phrase that the audit has not ranked was counted in distinct texts.
    n = document["n_distinct"] if item["q_value"] is None else document["n"]
    return f"dominant: overrides most of its texts, which are {percent(item['count'] / n, 0)} of all"


def company_note(document: Mapping[str, Any], *, sign: str = "") -> str:
    """What is shown of several undecided candidates together, after a space; nothing where nothing is."""
    wordings, together = (
        [visible_name(candidate["text"]) for candidate in document["candidates"] if candidate[kind]]
        for kind in ("alternative_wording", "collective")
    )
    p = p_value(document["set_p_value"])
    kinds = {
        "Alternative wordings of what is flagged": wordings,
        f"Overriding the rest of their texts together (p {p})": together,
    }
    return "".join(f" {what}{sign}: {first_names(names, len(names))}." for what, names in kinds.items() if names)


def first_names(names: Sequence[str], n: int) -> str:
    """The first of n names."""
    return ", ".join(f"“{name}”" for name in names[:5]) + (f" and {n - 5} more" if n > 5 else "")


def doubt(candidate: Mapping[str, Any]) -> str:
    """Why a candidate is undecided, and what labels say of its prediction changes: a sentence or two."""
    found = candidate["labelled"]
    if not found:
        return f"{candidate['reason']}."
    p = "" if found["p_value"] is None else f" (McNemar's p: {p_value(found['p_value'])})"
    return (
        f"{candidate['reason']}. By the labels, masking it fixes {found['flips_to_right']} predictions and "
        f"breaks {found['flips_to_wrong']}{p}."
    )


def print_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Two results beside each other: their own numbers, and the candidates of either that come first."""
    console = Screen()
    table = new_table("", "old", "new", "change", "", texts=(0, 4))
    for key in common_metrics(old, new):
        values = [Metric(key).estimate(result) for result in (old, new)]
        table.add_row(key, *_change_cells(*values, count=key == "n" or key.startswith("n_")))
    console.print(table)
    texts = dict.fromkeys(
        candidate["text"] for result in (new, old) for candidate in result.get("candidates", ())[:COMPARED_CANDIDATES]
    )
    if texts:
        candidates = new_table("flip rate of", "old", "new", "change", "", texts=(0, 4))
        for text in texts:
            rates = [Metric("flip_rate", text).estimate(result) for result in (old, new)]
            candidates.add_row(Text(visible_name(text)), *_change_cells(*rates))
        console.print(candidates)


def _change_cells(old: Estimate | None, new: Estimate | None, *, count: bool = False) -> tuple[str, ...]:
    before, after = (None if one is None else one.value for one in (old, new))
    change = None if before is None or after is None else after - before
    if count:
        old_count, new_count = ("-" if value is None else f"{value:.0f}" for value in (before, after))
        return old_count, new_count, "-" if change is None else f"{change:+.0f}", ""
    said = old.verdict(new) if old is not None and new is not None else ""
    return number(before), number(after), number(change, signed=True), said


def print_repair(repaired: Repair) -> None:
    """Which words lose their influence, what training did, and how the strength was chosen."""
    from ..mitigation import uses_shortcuts

    if uses_shortcuts(repaired.fitted.config):
        print_shortcuts(repaired.fitted.shortcuts)
    choice, console = repaired.choice, Screen()
    for result in (repaired, choice.unlabelled, choice.calibration):
        if result is not None:
            console.print(f"\n{result}")
    if choice.unlabelled is not None:
        console.print(
            "\nDivergence: mean Kullback-Leibler divergence, in nats, from the original model's predictions without "
            "the shortcut words. Only labels can show whether those predictions are better."
        )
    for one in () if repaired.changes is None else repaired.changes.examples:
        names = " -> ".join(cut(visible_name(name), 20) for name in (one.before, one.after))
        text = visible_name((one.text if isinstance(one.text, str) else " | ".join(one.text))[: 4 * console.width])
        console.print(f"  {cut(text, console.width - 5 - cell_len(names))}  {names}")
    if choice.strength == 0:
        console.print("At strength 0 the repaired model predicts exactly what the original model predicts.")


def print_shortcuts(shortcuts: Shortcuts) -> None:
    """Words whose influence is removed, words that were considered and left alone, and why."""
    console = Screen()
    table = new_table("word or phrase", "reliance", "why", "texts", "flip\nrate", "fixed", "broken")
    for item in shortcuts.items:
        table.add_row(
            Text(visible_name(item.text)),
            "removed" if item.reliance_removed else "kept",
            _WHY[item.reason or item.verdict],
            "-" if item.count is None else str(item.count),
            number(item.flip_rate),
            str(item.fixed) if item.n_support else "-",
            str(item.broken) if item.n_support else "-",
        )
    console.print(table)
    if shortcuts.items:
        console.print(
            "Flip rate: how often masking the word changes the prediction. Fixed, broken: labelled texts whose "
            "prediction masking makes right, or wrong. Add a word with --shortcut, exempt one with --keep."
        )
    many = [item for item in shortcuts.items if item.reason == "many predictions"]
    if many:
        console.print(
            "Many predictions: they depend on this word, and no test can say whether they should. Name it with "
            "--shortcut if the task is not about it. Exempt it with --keep if it is."
        )
    if many and all(item.listed for item in many):
        console.print("--take-influential takes all of these, and with --support those that fix more than they break.")
    if not shortcuts.words:
        console.print("Nothing is taken for a shortcut. Name what you know with --shortcut.")


_WHY = {
    "named": "you said so",
    "kept": "you said so",
    "flagged": "audit",
    "alternative wording": "audit: wording",
    "set": "audit: together",
    "similar": "audit: similar",
    "dominant": "audit: dominant",
    "many predictions": "many predictions",
    "weak evidence": "weak evidence",
    "not alone": "not alone",
    "confirmed": "labels",
    "cleared": "labels",
    "answers": "answers",
    "second model": "second model",
}


def print_certificate(certificate: Certificate) -> None:
    """What was certified at each strength, and in one sentence."""
    console = Screen()
    table = new_table("strength", "differ", "labelled", "gained", "lost", "loss at\nmost", "gain at\nleast", "")
    table.collapse_padding = True
    for point in certificate.points:
        table.add_row(
            f"{point.strength:g}",
            f"{point.differing} of {certificate.n_unlabelled}",
            str(point.labelled),
            str(point.gained),
            str(point.lost),
            number(point.loss_bound),
            number(point.gain_bound),
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
    ("MSTPS, original tokens", "mstps_base_tokens"),
)


def print_evaluations(results: Mapping[str, Evaluation]) -> None:
    """One column for each of a few models, on the same rows. MSTPS may be measured of some models only."""
    console = Screen()
    cut = {name: f"threshold\n{threshold(one.threshold)}" for name, one in results.items() if one.threshold is not None}
    results = {cut.get(name, name): result for name, result in results.items()}
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
    shown = {name: result for name, result in results.items() if result.threshold is None}
    groups = new_table("group", "n", *(f"{name} (95 %)" for name in shown))
    for row in fold_groups([result.groups for result in shown.values()]):
        cells = (f"{number(one.accuracy)} ({interval(*one.interval)})" if one.n else "-" for one in row)
        groups.add_row(Text(row[0].name), str(row[0].n), *cells)
    console.print(groups)
    n = measured.sensitivity.n
    sampled = f" MSTPS and recall: {n} of them, sampled at random." if 0 < n < measured.n else ""
    console.print(f"{first.n} texts.{cut_note(first.n_truncated)}{sampled}")
    for result in results.values():
        if result.threshold is not None:
            scores = "; ".join(f"{group.name} {number(group.accuracy)}" for group in result.groups if group.n)
            console.print(
                f"At threshold {threshold(result.threshold)} the original model predicts each class as often as the "
                f"repaired model does. Accuracy then: {scores}. A repair should score better."
            )


def _score(result: Evaluation, key: str) -> str:
    """A score; MSTPS with its interval, since it is often of a sample."""
    shown = number(getattr(result, key))
    ends = result.sensitivity.interval
    return f"{shown} ({interval(*ends)})" if key == "mstps" and not math.isnan(ends[0]) else shown
