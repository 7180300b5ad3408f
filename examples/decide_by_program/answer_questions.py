"""Fill in the labelling sheet of `questions` by two lists of words, or write decisions by hand, without the library.

    python answer_questions.py answer questions.csv answered.csv words.json
    python answer_questions.py decide decisions.json remove_reliance:book keep:great,superb

`words.json` has words for each label: {"positive": ["great"], "negative": ["awful"]}.
"""

import csv
import json
import sys


def verdict(row, words):
    """The option of which the text contains more words."""
    text = set(row["text"].lower().replace(",", " ").split())
    a, b = (len(text & set(words[row[option]])) for option in ("option_a", "option_b"))
    return "neither" if a == b == 0 else "unclear" if a == b else "a" if a > b else "b"


def answer(questions, answered, words):
    """Fill in the column 'answer'."""
    with open(words, encoding="utf-8") as lists, open(questions, encoding="utf-8", newline="") as asked:
        known, rows = json.load(lists), list(csv.DictReader(asked))
    with open(answered, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "answer": verdict(row, known)} for row in rows)


def decide(file, *said):
    """Write a decision for each set of words."""
    pairs = [one.split(":", 1) for one in said]
    cards = [{"words": words.split(","), "decision": decision} for decision, words in pairs]
    with open(file, "w", encoding="utf-8") as stream:
        json.dump({"schema_version": 1, "cards": cards}, stream, indent=2)


if __name__ == "__main__":
    {"answer": answer, "decide": decide}[sys.argv[1]](*sys.argv[2:])
