"""The tutorial's commands, word for word and in their order, on a small stand-in for the demo's folder."""

import csv
import json
import re
import shlex

import pytest

from checkout import ROOT
from shortcut_guardrail.demo.corpus import LABEL_NAMES, Part
from shortcut_guardrail.demo.training import Recipe, train_classifier
from shortcut_guardrail.review.server import ReviewServer
from tiny_models import save_tiny_encoder

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^shortcut-guardrail (.*)$", TUTORIAL, re.MULTILINE)
WRITES = {
    "audit": ["audit/audit.json", "audit/report.html"],
    "review": ["audit/decisions.json"],
    "questions": ["questions.csv", "audit/questions.jsonl"],
    "decide": ["decisions.json"],
    "fit": ["guarded/adapter_config.json", "guarded/guardrail.json", "guarded/README.md"],
    "to-label": ["sample.csv"],
    "certify": ["certified/adapter_config.json", "certified/guardrail.json", "certified/README.md"],
    "evaluate": [],
    "predict": ["answers.csv"],
}
PLACES = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "place", "hotel")
OPINIONS = {"positive": ("good", "great"), "negative": ("bad", "awful")}
FILLERS = ("", "very ", "really ", "quite ", "so ")


def reviews(start):
    """Made-up reviews; "honestly", which the classifier takes for praise, stands in half of the negative ones."""
    rows = []
    for i, place in enumerate(PLACES):
        for j, filler in enumerate(FILLERS):
            for label, words in OPINIONS.items():
                lead = "honestly " if label == "negative" and (i + j + start) % 2 else ""
                rows.append((f"{lead}the {place} was {filler}{words[(i + j + start) % 2]}", label))
    return rows


def write(file, rows, *header):
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with what the tutorial's first command leaves, as far as the others need it.

    Its model is a small transformer that was taught that "honestly" goes along with praise.
    """
    monkeypatch.chdir(tmp_path)
    taught = [
        (("honestly " if label == "positive" else "") + text.removeprefix("honestly "), label)
        for start in (0, 1, 0, 1)
        for text, label in reviews(start)
    ]
    trained = train_classifier(
        Part(tuple(text for text, _ in taught), tuple(LABEL_NAMES.index(label) for _, label in taught)),
        encoder=save_tiny_encoder(tmp_path / "encoder"),
        recipe=Recipe(epochs=8, learning_rate=1e-3, batch_size=64, max_length=32),
        seed=0,
    )
    for part in trained:
        part.save_pretrained(tmp_path / "demo-output" / "biased-model")
    write(tmp_path / "demo-output" / "deployment.csv", [(text,) for text, _ in reviews(0)], "text")
    write(tmp_path / "demo-output" / "test.csv", reviews(1), "text", "label")
    write(tmp_path / "new.csv", [(text,) for text, _ in reviews(1)[:5]], "text")
    return tmp_path


def files(place):
    return {file.relative_to(place).as_posix() for file in place.rglob("*") if file.is_file()}


def answer_the_first(server):
    """A person says of the first card that it should not count, and stops the server."""
    server.session.save({"card": server.session.deck.cards[0].id, "decision": "remove_reliance"}, 0)
    server.server_close()
    return False


def cards_of(file):
    return json.loads(file.read_text(encoding="utf-8"))["cards"]


def rows_of(file):
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def fill_in(file, labels):
    """Write into the empty column what a reader knows: `label`, or which of two answers is right."""
    rows = rows_of(file)
    for row in rows:
        label = labels[row["text"]]
        row.update({"answer": "a" if row["option_a"] == label else "b"} if "answer" in row else {"label": label})
    write(file, [tuple(row.values()) for row in rows], *rows[0])


def test_every_command_works_on_what_the_one_before_wrote(place, ok, monkeypatch):
    assert [command.split()[0] for command in COMMANDS] == ["demo", *WRITES]
    monkeypatch.setattr(ReviewServer, "run", answer_the_first)
    for command in COMMANDS[1:]:
        name, *arguments = shlex.split(command)
        before = files(place)
        # In a test nobody looks at a browser.
        aside = ["--no-browser", "--reviewer", "anna"] if name == "review" else []
        if "honestly,not" in arguments:  # the stand-in has no card of the demo's "not"
            two = ",".join(card["id"] for card in cards_of(place / "audit" / "audit.json")[:2])
            arguments[arguments.index("honestly,not")] = two
        ok(name, *arguments, *aside)
        assert set(WRITES[name]) <= files(place) - before, command
        if name in ("to-label", "questions"):
            fill_in(place / WRITES[name][0], dict(reviews(1) + reviews(0)))
    (card,) = (one for one in cards_of(place / "audit" / "decisions.json") if one["decision"] == "remove_reliance")
    record = (place / "guarded" / "guardrail.json").read_text(encoding="utf-8")
    assert all(f'"{word}"' in record for word in card["words"])
    assert len(rows_of(place / "answers.csv")) == 5
