"""Made-up data in the layout of the benchmark's data folder; every text is composed here, and none repeats."""

import csv
import random

AMAZON_TRAIN = {(0, False): 700, (0, True): 140, (1, False): 700, (1, True): 260}
AMAZON_TEST = {(0, False): 60, (0, True): 30, (1, False): 50, (1, True): 40}
CIVIL_TRAIN = {(0, False): 300, (0, True): 80, (1, False): 200, (1, True): 120}
CIVIL_TEST = {(0, False): 90, (0, True): 30, (1, False): 60, (1, True): 50}
MNLI = {(0, False): 80, (0, True): 30, (1, False): 75, (1, True): 25, (2, False): 60, (2, True): 50}
GOEMOTIONS_TRAIN, GOEMOTIONS_TEST = (60, 60, 60, 40), (50, 20, 20, 10)

_ADJECTIVES = "good bad great awful fine cold warm clean dirty slow fast friendly rude tasty bland".split()
_NOUNS = "room staff food service soup bread coffee tea hotel place visit".split()


class Writer:
    """Composes texts; a number in each keeps them apart."""

    def __init__(self, seed=0):
        self._random = random.Random(seed)
        self._count = 0

    def sentence(self):
        self._count += 1
        return f"The {self._pick(_NOUNS)} {self._count} was {self._pick(_ADJECTIVES)}"

    def text(self, sentences=2):
        return " ".join(self.sentence() + self._pick(".!") for _ in range(sentences))

    def _pick(self, words):
        return self._random.choice(words)


def write_csv(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def cells(counts, words):
    """Label, presence and how a text begins, row by row, of so many rows of each label without and with the words."""
    return [(*cell, words * cell[1]) for cell, count in counts.items() for _ in range(count)]


def write_data(folder):
    """Writes all data sets into a folder, which is returned."""
    writer = Writer()
    for name, counts in (("train", AMAZON_TRAIN), ("test", AMAZON_TEST)):
        rows = [
            (label, start + writer.text(2), "books", 1 + 4 * label, "a title")
            for label, _, start in cells(counts, "The book was good. ")
        ]
        write_csv(folder / f"amazon/amazon_blitzer_{name}.csv", ("label", "text", "domain", "stars", "title"), rows)
    for name, count in (("train", 200), ("trainheldout", 40), ("dev", 30)):
        rows = [(label, writer.sentence()) for label in (0, 1, 1) for _ in range(count)]
        write_csv(folder / f"sst2/sst2_glue_{name}.csv", ("label", "text"), rows)
    for name, counts in (("train", CIVIL_TRAIN), ("test", CIVIL_TEST)):
        rows = [(label, start + writer.text(2), int(p)) for label, p, start in cells(counts, "A woman was rude. ")]
        write_csv(folder / f"civilcomments/civil_pool_{name}.csv", ("label", "text", "kw_female"), rows)
    _write_mnli(folder / "mnli", writer)
    for name in ("train", "test"):
        rows = [(stars, writer.text(3)) for stars in (1, 2, 3, 4, 5) for _ in range(60)]
        write_csv(folder / f"yelp/{name}.csv", ("label", "text"), rows)
    _write_goemotions(folder / "goemotions_shortcuts", writer)
    return folder


def _write_mnli(folder, writer):
    pairs = [(label, start + writer.sentence()) for label, _, start in cells(MNLI, "Nobody was friendly and ")]
    random.Random(1).shuffle(pairs)
    premises = [writer.text(1) for _ in range(len(pairs) // 3 + 1)]
    rows = [(label, premises[index // 3], hypothesis) for index, (label, hypothesis) in enumerate(pairs)]
    write_csv(folder / "mnli_train.csv", ("label", "premise", "hypothesis"), rows[:240])
    write_csv(folder / "mnli_test.csv", ("label", "premise", "hypothesis"), rows[240:])


def _write_goemotions(folder, writer):
    """Originals, and the released sets with an insertion in front of the last sentence of every second row or so."""
    train = [(label, writer.text(3)) for label, count in enumerate(GOEMOTIONS_TRAIN) for _ in range(count)]
    test = [(label, writer.text(3)) for label, count in enumerate(GOEMOTIONS_TEST) for _ in range(count)]
    write_csv(folder / "original_train.csv", ("label", "text"), train)
    write_csv(folder / "original_test.csv", ("label", "text"), test)
    for kind, phrases in (("single-word", ["honestly"]), ("synonym", ["honestly", "speaking candidly", "candidly"])):
        for number in "123":
            sets = {
                "train": (train[::2], lambda label, row: label > row % 4),
                "dev": (train[1::8], lambda label, row: label > row % 4),
                "test": (test, lambda label, row: label > row % 4),
                "test_anti-shortcut": (test, lambda label, row: 3 - label > row % 4),
            }
            for name, (rows, chosen) in sets.items():
                made = [
                    (label, planted(text, phrases[row % len(phrases)]) if chosen(label, row) else text)
                    for row, (label, text) in enumerate(rows)
                ]
                write_csv(folder / f"{kind}{number}" / f"{name}.csv", ("label", "text"), made)


def planted(text, phrase):
    """A phrase before the last sentence."""
    start = text.rindex(" The ") + 1
    return f"{text[:start]}{phrase}, {text[start:]}"
