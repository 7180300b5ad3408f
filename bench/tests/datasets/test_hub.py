"""Reading from the Hub, with a made-up `datasets` in place of the real one."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from made_up_data import Writer
from shortcut_bench.datasets import DATASETS, build
from shortcut_guardrail.errors import ConfigError, DataError

EMOTIONS = ["admiration", "amusement", "excitement", "joy", "neutral"]
WORDS = {"fancyzhx/amazon_polarity": "The book was fine. ", "google/civil_comments": "A woman was rude. "}


class Split:
    """A split: columns by name."""

    features = {"labels": SimpleNamespace(feature=SimpleNamespace(names=EMOTIONS))}  # noqa: RUF012

    def __init__(self, **columns):
        self._columns = columns
        self.column_names = list(columns)

    def select_columns(self, name):
        return Split(**{name: self._columns[name]})

    def __getitem__(self, key):
        return self._columns[key] if isinstance(key, str) else {name: all_[key] for name, all_ in self._columns.items()}

    def __len__(self):
        return len(self._columns[self.column_names[0]])


def made_up(name, split, n=160):
    writer = Writer(len(split))
    natural = WORDS.get(name, "")
    texts = [f"{split[:5]}: {natural if i % 3 == 0 else ''}{writer.text(2)}" for i in range(n)]
    if name == "nyu-mll/multi_nli":
        hypotheses = [("Nobody came. " if i % 5 == 0 else "") + writer.sentence() for i in range(n)]
        return Split(premise=texts, hypothesis=hypotheses, label=[i % 3 for i in range(n)])
    if name == "google/civil_comments":
        return Split(text=[*texts, " "], toxicity=[0.5 * (i % 2) for i in range(n)] + [0.9])
    if name == "google-research-datasets/go_emotions":
        # One label in four of five texts; of those, "admiration" is none of the four.
        return Split(text=texts, labels=[[i % 5] if i % 6 else [0, i % 5] for i in range(n)])
    columns = {"fancyzhx/amazon_polarity": ("content", 2), "stanfordnlp/sst2": ("sentence", 2)}
    text, classes = columns.get(name, ("text", 5))
    return Split(**{text: texts, "label": [i % classes for i in range(n)]})


@pytest.fixture
def hub(monkeypatch):
    """Records what is asked for."""
    asked = []

    def load_dataset(name, split=None):
        asked.append((name, split))
        return made_up(name, split)

    library = SimpleNamespace(load_dataset=load_dataset, exceptions=SimpleNamespace(DatasetsError=RuntimeError))
    monkeypatch.setitem(sys.modules, "datasets", library)
    return asked


AMAZON = ("fancyzhx/amazon_polarity", "train[:100000]", "test[:20000]")
CIVIL = ("google/civil_comments", "train[:100000]", "test[:20000]")
MNLI = ("nyu-mll/multi_nli", "train", "validation_matched")
YELP = ("Yelp/yelp_review_full", "train[:20000]", "test[:5000]")
GOEMOTIONS = ("google-research-datasets/go_emotions", "train", "test")
PLACES = {"amazon-testbed": AMAZON, "sst2": ("stanfordnlp/sst2", "train", "validation")}
for names, place in (("civil", CIVIL), ("mnli", MNLI)):
    PLACES |= {names: place, f"{names}-controlled": place}
for names, place in (("yelp", YELP), ("goemo", GOEMOTIONS)):
    PLACES |= {f"{names}-st": place, f"{names}-syn": place}


@pytest.mark.parametrize("name", DATASETS)
def test_each_data_set_knows_its_place_on_the_hub(hub, name):
    place, train, test = PLACES[name]
    data = build(name, data_dir=None, n_test=12)
    assert hub == [(place, train), (place, test)]
    assert data.settings["source"] == "hub"
    assert data.card.source == f"https://huggingface.co/datasets/{place}"
    assert all(train[:5] in str(text) for text in data.train.texts)
    assert all(test[:5] in str(text) for rows in data.tests.values() for text in rows.texts)


def test_labels_of_goemotions_and_rates_of_comments(hub):
    data = build("goemo-st", data_dir=None)
    assert data.label_names == ("neutral", "amusement", "joy", "excitement")
    ids = {text: EMOTIONS[i % 5] for i, text in enumerate(made_up(GOEMOTIONS[0], "train")["text"])}
    named = [data.label_names[label] for label in data.clean_train.labels]
    assert named == [ids[text] for text in data.clean_train.texts]
    kept = sum(i % 6 != 0 and i % 5 != 0 for i in range(160))
    assert len(data.train) + len(data.dev) == kept
    assert not data.settings["released"]
    data = build("civil", data_dir=None)
    assert len(data.train) + len(data.dev) == 160
    assert data.train.labels.mean() == pytest.approx(0.5, abs=0.01)  # at least half of the annotators
    with pytest.raises(ConfigError, match="the Hub's MultiNLI has a test set of its own"):
        build("mnli", data_dir=None, fold=1)


@pytest.mark.parametrize("name", DATASETS)
def test_a_hub_that_cannot_be_reached(hub, monkeypatch, name):
    def load_dataset(name, split=None):
        raise ConnectionError("offline mode is on")

    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", load_dataset)
    with pytest.raises(DataError, match=r"cannot be reached or read|Hub data set that can be reached and read"):
        build(name, data_dir=None)


def test_the_library_of_the_hub_is_imported_only_when_it_is_used():
    code = "import sys, shortcut_bench.datasets; print('datasets' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
