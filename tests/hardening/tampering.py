"""Every field of every JSON file that the library reads, damaged in some twenty ways, and what becomes of it.

`python -m hardening.tampering` tries all of them and prints the table; the tests try a sample.
"""

import copy
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audits import to_review
from hardening.outcomes import Outcome, attempt, bad, report, table
from made_guards import make_guards

DEEP, DOUBLE = "@deep@", "@double@"

Place = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Where values stand in a document; of a list its first entry."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*at, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*at, 0))


def at(document: Any, place: Place) -> Any:
    """The value in a place."""
    for key in place:
        document = document[key]
    return document


def named(place: Place) -> str:
    """A place as messages name it."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).lstrip(".")


OTHER_ANSWERS = "other answers"
MISSING = object()
DAMAGES: dict[str, Callable[[Any], Any]] = {
    "missing": lambda _: MISSING,
    "null": lambda _: None,
    "true": lambda _: True,
    "a word": lambda _: "x",
    "an empty string": lambda _: "",
    "a long string": lambda _: "x" * 2_000_000,
    "a number": lambda _: 7,
    "a half": lambda _: 0.5,
    "minus one": lambda _: -1,
    "huge": lambda _: 1e308,
    "a huge integer": lambda _: 10**400,
    "NaN": lambda _: float("nan"),
    "Infinity": lambda _: float("inf"),
    "an empty list": lambda _: [],
    "an empty object": lambda _: {},
    "in a list": lambda value: [value],
    "in an object": lambda value: {"a": value},
    "a list of nulls": lambda _: [None, None],
    "deep": lambda _: DEEP,
    "twice": lambda _: DOUBLE,
    "a surrogate": lambda _: "\ud800",
}


def damaged(document: Any, place: Place, damage: str) -> str | None:
    """The text of the file; `None` where the damage is none there."""
    changed = copy.deepcopy(document)
    holder, key = at(changed, place[:-1]), place[-1]
    value = DAMAGES[damage](holder[key])
    if value is MISSING:
        del holder[key]
        return json.dumps(changed)
    if value == DOUBLE:
        if isinstance(key, int):
            return None
        inner = json.dumps(holder[key])
        holder[key] = DOUBLE
        return json.dumps(changed).replace(f'"{DOUBLE}"', f"{inner}, {json.dumps(key)}: {inner}")
    if type(value) is type(holder[key]) and value == holder[key]:
        return None
    holder[key] = value
    return json.dumps(changed).replace(f'"{DEEP}"', "[" * 900 + "]" * 900)


def must_be_refused(value: Any, damage: str) -> bool:
    """Whether a field that held this cannot hold that, whatever it is for."""
    if damage in ("NaN", "Infinity", "twice", "deep"):
        return True
    if value is None or damage in ("missing", "null"):
        return False
    if isinstance(value, bool):
        return damage != "true"
    if isinstance(value, int | float):
        return damage in ("true", "a word", "an empty string", "an empty list", "an empty object", "in a list")
    if isinstance(value, str):
        return damage in ("true", "a number", "a half", "an empty list", "an empty object", "in a list")
    if isinstance(value, list):
        return damage in ("true", "a word", "a number", "in an object", "an empty object")
    return damage in ("true", "a word", "a number", "in a list", "an empty list")


@dataclass(frozen=True)
class Subject:
    """A JSON file and its reader, which says what is wrong with the result.

    Attributes:
        free: Beginnings of places that hold what a program notes for people and never reads.
        steers: Beginnings of places whose value decides the answers, so that a possible one gives others.
        ours: Whether this library wrote the file and checks all of it; of another's only what breaks counts.
    """

    name: str
    document: Any
    use: Callable[[str], str | None]
    free: tuple[str, ...] = ()
    steers: tuple[str, ...] = ()
    ours: bool = True

    def cases(self) -> list[tuple[Place, str]]:
        """Every place with every damage."""
        return [(place, damage) for place in places(self.document) for damage in DAMAGES]

    def attempt(self, place: Place, damage: str) -> Outcome | None:
        """One of them; `None` where it is no damage."""
        content = damaged(self.document, place, damage)
        if content is None:
            return None
        outcome = attempt(self.name, f"{named(place)}: {damage}", lambda: self.use(content))
        if outcome.said == OTHER_ANSWERS and named(place).startswith(self.steers):
            outcome = Outcome(outcome.reader, outcome.what, "right")
        unread = named(place).startswith(self.free) and damage not in ("NaN", "Infinity", "twice", "deep")
        if self.ours and outcome.kind == "right" and must_be_refused(at(self.document, place), damage) and not unread:
            return Outcome(outcome.reader, outcome.what, "wrong", "was accepted")
        return outcome


def _guard(folder: Path, base: Any, texts: list[str]) -> np.ndarray:
    from shortcut_guardrail import ShortcutGuardrail
    from shortcut_guardrail.data import to_json
    from shortcut_guardrail.saving.model_card import model_card

    guard = ShortcutGuardrail.from_pretrained(folder, base=base)
    record = guard.record()
    to_json(record.to_dict())
    model_card(record)
    repr(guard)
    return np.array(guard.predict_proba(texts))


def guard_subjects(folder: Path) -> list[Subject]:
    """`guardrail.json` of three guards, `adapter_config.json` of one and the base's `config.json`."""
    from shortcut_guardrail import ShortcutGuardrail
    from shortcut_guardrail.models import load_model

    made = make_guards(folder / "made")
    base, _ = load_model(made / "base")
    texts = ["honestly the tea was fine", "to be frank it was a dull visit"]
    subjects = []
    for guard, name in (
        ("few-shot", "guardrail.json"),
        ("mask-kept-certified", "guardrail.json"),
        ("distill-named-support", "guardrail.json"),
        ("distill-named-support", "adapter_config.json"),
    ):
        copied = folder / f"{guard}-{name}"
        shutil.copytree(made / guard, copied, ignore=shutil.ignore_patterns("*-manifest.json"))
        document = json.loads((copied / name).read_text(encoding="utf-8"))
        expected = _guard(copied, base, texts)

        def use(content: str, at: tuple[Path, Any] = (copied / name, expected)) -> str | None:
            file, expected = at
            file.write_text(content, encoding="utf-8")
            found = _guard(file.parent, base, texts)
            return None if np.allclose(found, expected, atol=1e-5) else OTHER_ANSWERS

        steers = ("debias_strength", "max_length", "shortcuts", "config.per_input")
        free = ("training", "seconds", "versions", "auto_mapping", "task_type", "peft_version")
        subjects.append(Subject(f"{name} ({guard})", document, use, free, steers))
    model = folder / "base"
    shutil.copytree(made / "base", model)
    expected = np.array(ShortcutGuardrail.from_pretrained(model).predict_proba(texts))

    def use_model(content: str) -> str | None:
        (model / "config.json").write_text(content, encoding="utf-8")
        found = np.array(ShortcutGuardrail.from_pretrained(model).predict_proba(texts))
        return None if found.shape == expected.shape and np.isfinite(found).all() else OTHER_ANSWERS

    document = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return [*subjects, Subject("config.json", document, use_model, ours=False)]


def audit_subjects(folder: Path) -> list[Subject]:
    """`audit.json` and `decisions.json`."""
    from shortcut_guardrail.audit import AuditReport

    now: AuditReport = to_review(2, 2)
    document = json.loads(json.dumps(now.to_dict()))
    document["fit_would_take"] = [{"text": "w0", "verdict": "found", "reason": "flagged", "count": 12, "q_value": 0.01}]
    decisions = _decided(document)
    return [
        Subject("audit.json", document, lambda content: _use_audit(folder, content)),
        Subject("decisions.json", decisions, lambda content: _use_decisions(folder, content), ("judges[0].record",)),
    ]


def _decided(audit: Any) -> Any:
    card = audit["cards"][0]
    review = {"by": "anna", "at": "2026-01-01T00:00:00+00:00", "decision": "keep"}
    test = {"bound": 0.6, "p_value": 0.001}
    opinion = {"judges": ["one"], "rule": "reference", "fixed": 20, "broken": 2, "unanswered": 0, **test}
    opinion |= {"outcome": "shortcut", "reason": "", "rules": {"reference": test}, "q_value": 0.002}
    qualified = {"pair": ["a", "b"], "texts": 30, "agreement": 0.9, "error": 0.02, "qualified": True, "reason": ""}
    counts = {"asked": 9, "fixed": 8, "broken": 1, "neither": 0, "unclear": 0, "e_value": 31.5}
    return {
        "schema_version": 1,
        "audit": None,
        "model": audit["model"],
        "data": audit["data"],
        "cards": [
            {"id": card["id"], "words": card["words"], "pushes_towards": "positive", "decision": "remove_reliance"}
            | {"source": "answers", "outcome": "shortcut", "survives_e_bh": True, "text_hashes": ["ab"]}
            | {"reviews": [review], "second_model": opinion, **counts},
            {"words": ["w9"], "decision": "keep", "source": "person"},
        ],
        "judges": [{"name": "one", "record": {"kind": "function"}, "qualifications": [qualified], "texts": 30}],
        "answers": "answers.jsonl",
    }


def _use_audit(folder: Path, content: str) -> str | None:
    from shortcut_guardrail.decisions import AuditedCards
    from shortcut_guardrail.report import print_audit, render_audit
    from shortcut_guardrail.review import make_deck
    from shortcut_guardrail.saving import read_audit

    file = folder / "audit.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    document = read_audit(file)
    print_audit(document)
    render_audit(document)
    if document["cards"]:
        AuditedCards.from_folder(folder)
        json.dumps(make_deck(document).to_dict(), allow_nan=False)
    json.dumps(document, indent=2, allow_nan=False)
    return None


def _use_decisions(folder: Path, content: str) -> str | None:
    from shortcut_guardrail.decisions import Decisions
    from shortcut_guardrail.report import print_decisions
    from shortcut_guardrail.shortcuts import Shortcuts
    from shortcut_guardrail.shortcuts.named import with_decisions

    file = folder / "decisions.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    decisions = Decisions.from_file(file)
    print_decisions(decisions)
    with_decisions(Shortcuts(), decisions)
    json.dumps(decisions.to_dict(), allow_nan=False)
    return None


def kept_subjects(folder: Path) -> list[Subject]:
    """What is written to go on from: a review, and manifests."""
    return [
        Subject("review", _reviewed(), lambda content: _use_review(folder, content), ours=False),
        Subject("guardrail-manifest.json", _MANIFEST, lambda content: _use_manifest(folder, content)),
        Subject("manifest of what is ready", _MANIFEST, lambda content: _use_ready(folder, content)),
    ]


_MANIFEST = {"schema_version": 1, "files": {"a": {"size": 1, "sha256": "ab"}, "b": {"size": 1, "sha256": "ab"}}}


def _reviewed() -> Any:
    events = [{"by": "anna", "at": "2026-01-01", "card": "c", "decision": "keep"}]
    events += [{"by": "anna", "at": "2026-01-01", "question": "q", "answer": "a"}]
    before = [{"id": "c", "words": ["w"], "decision": "keep", "source": "person"}]
    review = {"schema_version": 1, "revision": 2, "seed": 0, "events": events, "before": before}
    return {"schema_version": 1, "cards": [], "review": review}


def _use_review(folder: Path, content: str) -> str | None:
    from shortcut_guardrail.review import make_deck
    from shortcut_guardrail.review.session import Session

    file = folder / "reviewed.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    json.dumps(Session(make_deck(to_review(1, 2).to_dict()), file, "anna").state())
    return None


def _use_manifest(folder: Path, content: str) -> str | None:
    from shortcut_guardrail.data.manifests import MANIFEST_FILE, read_manifest

    (folder / MANIFEST_FILE).write_bytes(content.encode("utf-8", "surrogateescape"))
    read_manifest(folder)
    (folder / MANIFEST_FILE).unlink()
    return None


def _use_ready(folder: Path, content: str) -> str | None:
    from shortcut_guardrail.data import complete
    from shortcut_guardrail.data.manifests import MANIFEST_FILE, REPLACING_FOLDER

    place = folder / "replaced"
    shutil.rmtree(place, ignore_errors=True)
    ready = place / REPLACING_FOLDER
    ready.mkdir(parents=True)
    for file in (ready / "a", ready / "b", folder / "notes"):
        file.write_text("mine")
    (ready / MANIFEST_FILE).write_bytes(content.encode("utf-8", "surrogateescape"))
    complete(place)
    return None if (folder / "notes").read_text() == "mine" else "the file of somebody else is gone"


def subjects(folder: Path) -> list[Subject]:
    """All of them; files are written below the folder."""
    return [*audit_subjects(folder), *kept_subjects(folder), *guard_subjects(folder)]


def tried(subject: Subject, rng: random.Random, most: int | None = None) -> list[Outcome]:
    """What became of all cases of a subject, or of some drawn at random."""
    cases = subject.cases()
    if most is not None:
        cases = rng.sample(cases, min(most, len(cases)))
    return [outcome for case in cases if (outcome := subject.attempt(*case)) is not None]


def main() -> None:
    """Print what became of every damage, and the inputs that ended badly."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        outcomes: list[Outcome] = []
        for subject in subjects(Path(folder)):
            outcomes += tried(subject, random.Random(0), most)
            print(table(outcomes).splitlines()[-2], flush=True)
    print(report(outcomes))
    raise SystemExit(1 if bad(outcomes) else 0)


if __name__ == "__main__":
    main()
