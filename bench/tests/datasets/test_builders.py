"""Every builder on made-up data in the layout of the data folder."""

import csv
import shutil
from collections import Counter

import pytest

from made_up_data import AMAZON_TEST, CIVIL_TEST, GOEMOTIONS_TEST, GOEMOTIONS_TRAIN, MNLI, write_csv, write_data
from shortcut_bench.datasets import DATASETS, build
from shortcut_bench.datasets.amazon import CORRELATIONS, PROPORTIONS
from shortcut_bench.datasets.identities import IDENTITIES
from shortcut_bench.datasets.presence import shortcut_present
from shortcut_guardrail.errors import ConfigError, DataError
from tiny_models import wordpiece_tokenizer

CONTROLLED = ("goemo-st", "goemo-syn", "yelp-st", "yelp-syn", "civil-controlled", "mnli-controlled")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "data")


@pytest.mark.parametrize("name", DATASETS)
def test_sets_fit_together_and_are_those_of_their_seed(name, folder):
    data, again, other = (build(name, data_dir=folder, seed=seed, n_train=60, n_test=12) for seed in (3, 3, 4))
    assert data.fingerprint() == again.fingerprint() != other.fingerprint()
    assert data.name == name
    assert len(data.train) == data.settings["n_train"]
    assert len(data.train) in (57, 58, 59, 60)
    assert {len(test) for test in data.tests.values()} == {data.settings["n_test"]} == {12}
    assert 1 <= len(data.dev) == data.settings["n_dev"] <= 9
    assert set(data.tests) == ({"in_distribution", "reversed"} if name in CONTROLLED else {"test"})
    assert {rows.label_names for rows in data.sets().values()} == {data.label_names}
    for rows in (data.dev, *data.tests.values()):
        assert not set(data.train.texts) & set(rows.texts)
    assert data.card.licence
    assert data.card.citation
    assert str(folder) not in str(data.to_dict())


@pytest.mark.parametrize("name", DATASETS)
def test_texts_are_capped_before_anything_else(name, folder):
    tokenizer = wordpiece_tokenizer(model_max_length=500)
    cap = 34 if name.endswith("syn") else 20  # the longest synonym is 17 tokens here
    data = build(name, data_dir=folder, max_tokens=cap, tokenizer=tokenizer, n_train=30, n_test=6)
    for rows in data.sets().values():
        for text in rows.texts:
            assert len(tokenizer(*((text,) if isinstance(text, str) else text))["input_ids"]) <= cap
    assert data.settings["max_tokens"] == cap
    whole = build(name, data_dir=folder, n_train=30, n_test=6)
    assert name == "sst2" or data.fingerprint() != whole.fingerprint()  # whose texts are short
    # What is planted is not lost.
    for key, rows in data.tests.items():
        assert rows.counts() == whole.tests[key].counts()


@pytest.mark.parametrize("name", DATASETS)
def test_a_folder_a_file_or_a_column_that_is_missing(name, folder, tmp_path):
    with pytest.raises(DataError, match=r"There is no data folder .*It must hold \w+/ with \w+.*\.csv"):
        build(name, data_dir=tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"has no folder '\w+'. It must hold"):
        build(name, data_dir=tmp_path)
    data_dir = copied(folder, tmp_path)
    used = {"amazon-testbed": "amazon/amazon_blitzer_", "sst2": "sst2/sst2_glue_", "civil": "civilcomments/civil_pool_"}
    used |= {"mnli": "mnli/mnli_", "yelp": "yelp/", "goemo": "goemotions_shortcuts/original_"}
    path = data_dir / f"{used.get(name) or used[name.split('-')[0]]}train.csv"
    write_csv(path, ("label", "content"), [(0, "A text.")])
    with pytest.raises(DataError, match=r"_column is '\w+', but the columns are 'label' and 'content'"):
        build(name, data_dir=data_dir, **({"released": False} if name.startswith("goemo") else {}))
    path.unlink()
    with pytest.raises(DataError, match=rf"lacks {path.name}"):
        build(name, data_dir=data_dir)


def shares(rows):
    return {name: count / len(rows) for name, count in rows.counts().items()}


PAPERS_TABLE = {1.0: (40, 10, 50, 0), 0.99: (40.1, 9.9, 49.9, 0.1), 0.9: (41, 9, 49, 1), 0.5: (45, 5, 45, 5)}


@pytest.mark.parametrize(("correlation", "expected"), PAPERS_TABLE.items())
def test_the_papers_table_of_correlations(folder, correlation, expected):
    data = build("amazon-testbed", data_dir=folder, correlation=correlation)
    papers_groups = ("positive, without book", "positive, with book", "negative, without book", "negative, with book")
    assert tuple(100 * shares(data.train)[group] for group in papers_groups) == pytest.approx(expected, abs=1e-9)
    assert data.settings["train_correlation"] == pytest.approx(correlation)


def test_one_training_size_and_one_test_set_for_all_settings(folder):
    settings = [(share, 1.0) for share in PROPORTIONS] + [(0.1, p) for p in CORRELATIONS]
    built = [build("amazon-testbed", data_dir=folder, proportion=a, correlation=b) for a, b in settings]
    assert {len(data.train) for data in built} == {1000}
    assert {data.tests["test"].fingerprint() for data in built} == {built[0].tests["test"].fingerprint()}
    assert set(built[0].tests["test"].counts().values()) == {min(AMAZON_TEST.values())}
    # Settings have most of their texts in common, so that they compare.
    weak, strong = build("amazon-testbed", data_dir=folder, correlation=0.99), build("amazon-testbed", data_dir=folder)
    assert len(set(weak.train.texts) & set(strong.train.texts)) == 998


def test_a_capped_review_without_its_word_counts_as_one_without(folder, tmp_path):
    data_dir = copied(folder, tmp_path)
    path = data_dir / "amazon/amazon_blitzer_test.csv"
    rows = [
        (label, f"{word} {i} {label}{'. The room was clean' * n}. {end}")
        for label in (0, 1)
        for i in range(9)
        for word, n, end in (("Book", 1, "Fine."), ("It", 0, "A book."), ("It", 3, "A book."), ("It", 1, "Fine."))
    ]
    write_csv(path, ("label", "text"), rows)
    counts = build("amazon-testbed", data_dir=data_dir).tests["test"].counts()
    assert set(counts.values()) == {9}
    tokenizer = wordpiece_tokenizer(model_max_length=500)
    capped = build("amazon-testbed", data_dir=data_dir, max_tokens=16, tokenizer=tokenizer).tests["test"]
    # Of three kinds of reviews with the word, one loses it, and is a review without it.
    assert set(capped.counts().values()) == {18}
    has = [int("book" in text.lower()) for text in capped.texts]
    assert has == (capped.groups % 2).tolist()


def test_civil_groups_by_words_where_there_are_no_annotations(folder):
    data = build("civil", data_dir=folder)
    assert list(data.tests["test"].counts().values()) == list(CIVIL_TEST.values())
    assert data.settings["identities"] == "words"
    assert data.train.overlapping is None
    assert any("16 groups of WILDS cannot be formed" in note for note in data.card.notes)


def annotated(path, extra=()):
    """Rewrites a pool: the identity "female" where the words say so, "male" in every second row."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    made = []
    for index, row in enumerate(rows):
        identities = dict.fromkeys(IDENTITIES, "0.0") | {"female": "0.5" if row["kw_female"] == "1" else "0.4"}
        identities |= {"male": "0.9" if index % 2 else ""}
        made.append((row["label"], row["text"], *identities.values(), *extra))
    return made


def test_the_wilds_groups_where_there_are_annotations(folder, tmp_path):
    data_dir = copied(folder, tmp_path)
    for name in ("train", "test"):
        path = data_dir / f"civilcomments/civil_pool_{name}.csv"
        write_csv(path, ("label", "text", *IDENTITIES), annotated(path))
    data = build("civil", data_dir=data_dir)
    test = data.tests["test"]
    counts = test.overlapping.counts()
    assert len(counts) == 16
    assert data.settings["identities"] == "annotators"
    assert counts["toxic, female"] == CIVIL_TEST[1, True]
    assert counts["toxic, black"] == 0
    half = sum(CIVIL_TEST[1, present] for present in (False, True)) // 2
    assert counts["toxic, male"] == half
    # A comment that names both identities is in both groups, and once in the coarse group.
    both = test.overlapping.members[:, [8, 9]].all(axis=1)
    assert both.sum() == CIVIL_TEST[1, True] // 2
    assert test.counts()["toxic, with an identity term"] == half + CIVIL_TEST[1, True] - both.sum()
    chosen = build("civil", data_dir=data_dir, n_test=20).tests["test"]
    assert chosen.overlapping.members.shape == (20, 16)


def test_the_file_of_wilds_with_its_splits(folder, tmp_path):
    data_dir = copied(folder, tmp_path)
    rows = []
    for name, split in (("train", "train"), ("test", "test")):
        path = data_dir / f"civilcomments/civil_pool_{name}.csv"
        rows += [(0.7 if row[0] == "1" else 0.2, *row[1:]) for row in annotated(path, (split,))]
    rows[:40] = [(*row[:-1], "val") for row in rows[:40]]
    rows += [(0.9, "", *["0"] * 8, "test")]
    path = data_dir / "civilcomments/all_data_with_identities.csv"
    write_csv(path, ("toxicity", "comment_text", *IDENTITIES, "split"), rows)
    data = build("civil", data_dir=data_dir)
    assert len(data.dev) == 40
    assert len(data.train) == 660
    assert len(data.tests["test"]) == sum(CIVIL_TEST.values())
    assert data.train.overlapping is not None
    assert build("civil-controlled", data_dir=data_dir, n_train=20, n_test=8).settings["identities"] == "annotators"
    write_csv(path, ("toxicity", "comment_text", "split"), [(0.1, "A text.", "train")])
    with pytest.raises(DataError, match=r"the columns male, female, .* are needed"):
        build("civil", data_dir=data_dir)
    write_csv(path, ("toxicity", "comment_text", *IDENTITIES, "split"), [("high", "A text.", *["0"] * 8, "train")])
    with pytest.raises(DataError, match="the column 'toxicity' must hold numbers"):
        build("civil", data_dir=data_dir)


def test_mnli_folds_test_on_every_pair_once_and_share_no_premise(folder):
    folds = [build("mnli", data_dir=folder, fold=fold, n_folds=4) for fold in range(4)]
    tested = [text for data in folds for text in data.tests["test"].texts]
    assert len(tested) == len(set(tested)) == sum(MNLI.values())
    for data in folds:
        sides = [{premise for premise, _ in rows.texts} for rows in (data.train, data.dev, data.tests["test"])]
        assert sum(map(len, sides)) == len(set().union(*sides))
    total = Counter()
    for data in folds:
        total.update(data.tests["test"].counts())
        assert min(data.tests["test"].counts().values()) >= 4  # of 25 in the rarest group
    assert list(total.values()) == list(MNLI.values())


def with_share(rows, label):
    """The share of a label's rows that have the shortcut, which is in every second group."""
    of_label = rows.groups[rows.labels == rows.label_names.index(label)]
    return (of_label % 2).mean()


def test_sampled_groups_at_strength_1_and_by_both_readings_below(folder):
    data = build("civil-controlled", data_dir=folder)
    train, reverse = data.train, data.tests["reversed"]
    assert (with_share(train, "non-toxic"), with_share(train, "toxic")) == (0, 1)
    assert (with_share(reverse, "non-toxic"), with_share(reverse, "toxic")) == (1, 0)
    assert with_share(data.tests["in_distribution"], "toxic") == 1
    # The rarest group decides: 120 toxic training comments with a term, and of them a tenth for development.
    assert data.settings["n_train"] == 2 * 109
    assert data.settings["n_dev"] == 2 * 10
    assert data.settings["n_test"] == 2 * CIVIL_TEST[0, True]
    assert data.oracle_tests == {}
    assert data.clean_train is None
    paper = build("civil-controlled", data_dir=folder, strength=0.8)
    zhou = build("civil-controlled", data_dir=folder, strength=0.8, reading="zhou")
    assert with_share(paper.train, "toxic") == pytest.approx(0.8, abs=0.005)
    assert with_share(paper.train, "non-toxic") == 0
    assert with_share(zhou.train, "toxic") == pytest.approx(0.9, abs=0.005)
    assert with_share(zhou.train, "non-toxic") == pytest.approx(0.1, abs=0.005)
    assert with_share(paper.tests["reversed"], "non-toxic") == pytest.approx(0.8, abs=0.005)
    assert paper.settings["occurrence"]["reversed"] == {"non-toxic": 0.8, "toxic": 0.0}
    assert paper.settings["reading"] == "paper"


def test_mnli_probabilities_go_by_label_name(folder):
    data = build("mnli-controlled", data_dir=folder)
    for rows, expected in ((data.train, (0.5, 0, 1)), (data.tests["reversed"], (0.5, 1, 0))):
        found = [with_share(rows, label) for label in ("entailment", "neutral", "contradiction")]
        assert found == pytest.approx(expected, abs=1.5 / len(rows))  # half a row of one of three labels
    assert data.settings["occurrence"]["in_distribution"] == {"neutral": 0.0, "entailment": 0.5, "contradiction": 1.0}
    assert any("pooled over the folds" in note for note in data.card.notes)


def test_groups_too_small_to_sample(folder, tmp_path):
    data_dir = copied(folder, tmp_path)
    rows = [(label, f"Text {label} {i}") for label in (0, 1) for i in range(30)]
    write_csv(data_dir / "civilcomments/civil_pool_train.csv", ("label", "text"), rows)
    with pytest.raises(DataError, match=r"too small to sample from.* they have 30, 0, 30, 0 rows"):
        build("civil-controlled", data_dir=data_dir)
    with pytest.raises(DataError, match=r"needs .*of 'toxic, with an identity term' \(there are 0\)"):
        build("civil-controlled", data_dir=data_dir, n_train=20)
    with pytest.raises(DataError, match="1 rows are asked for, but there are 2 labels"):
        build("civil-controlled", data_dir=folder, n_train=1)


@pytest.mark.parametrize("name", ["yelp-st", "yelp-syn"])
def test_insertions_follow_the_label_and_the_reverse(name, folder):
    data = build(name, data_dir=folder)
    forward = (0, 0.25, 0.5, 0.75, 1)
    tests = data.tests
    for rows, expected in (
        (data.train, forward),
        (tests["in_distribution"], forward),
        (tests["reversed"], forward[::-1]),
    ):
        found = [with_share(rows, label) for label in data.label_names]
        assert found == pytest.approx(expected, abs=0.25)
        assert (found[0], found[-1]) == (expected[0], expected[-1])
    assert len(data.shortcuts) == (1 if name == "yelp-st" else 15)


def test_oracle_and_clean_texts_are_the_same_rows_and_test_sets_can_have_a_strength_of_their_own(folder):
    data = build("yelp-syn", data_dir=folder)
    for planted, plain in (
        (data.train, data.clean_train),
        *zip(data.tests.values(), data.oracle_tests.values(), strict=True),
    ):
        assert planted.labels.tolist() == plain.labels.tolist()
        assert planted.groups.tolist() == plain.groups.tolist()
        changed = [a != b for a, b in zip(planted.texts, plain.texts, strict=True)]
        assert changed == (planted.groups % 2 == 1).tolist()
        assert not any(phrase in text for text in plain.texts for phrase in data.shortcuts)
    assert data.oracle_tests["in_distribution"].texts == data.oracle_tests["reversed"].texts
    assert data.tests["in_distribution"].texts != data.tests["reversed"].texts
    data = build("yelp-st", data_dir=folder, strength=0.6, test_strength=1.0)
    assert with_share(data.tests["reversed"], "5 stars") == 0
    assert with_share(data.train, "1 star") > 0
    assert (data.settings["strength"], data.settings["test_strength"]) == (0.6, 1.0)
    with pytest.raises(ConfigError, match="test_strength must lie between 0 and 1, but is 2"):
        build("yelp-st", data_dir=folder, test_strength=2)
    with pytest.raises(ConfigError, match="reading must be 'paper' or 'zhou'"):
        build("yelp-st", data_dir=folder, reading="other")


def file_texts(path):
    with path.open(encoding="utf-8", newline="") as file:
        return [row["text"] for row in csv.DictReader(file)]


@pytest.mark.parametrize(("name", "kind"), [("goemo-st", "single-word"), ("goemo-syn", "synonym")])
@pytest.mark.parametrize(("strength", "number"), [(1.0, 1), (0.8, 2), (0.6, 3)])
def test_released_files_load_as_they_are(folder, name, kind, strength, number):
    data = build(name, data_dir=folder, strength=strength)
    source = folder / "goemotions_shortcuts" / f"{kind}{number}"
    assert data.settings["released"]
    sets = {"train": data.train, "dev": data.dev, "test": data.tests["in_distribution"]}
    for file, rows in {**sets, "test_anti-shortcut": data.tests["reversed"]}.items():
        assert rows.texts == file_texts(source / f"{file}.csv")
    originals = file_texts(source.parent / "original_test.csv")
    assert data.oracle_tests["reversed"].texts == data.oracle_tests["in_distribution"].texts == originals
    assert set(data.clean_train.texts) <= set(file_texts(source.parent / "original_train.csv"))
    assert data.clean_train.texts != data.train.texts


def test_goemotions_are_built_where_no_files_were_released(folder):
    originals = set(file_texts(folder / "goemotions_shortcuts/original_test.csv"))
    for settings in ({"strength": 0.7}, {"strength": 0.8, "reading": "paper"}, {"released": False}):
        data = build("goemo-st", data_dir=folder, **settings)
        assert not data.settings["released"]
        assert len(data.train) + len(data.dev) == sum(GOEMOTIONS_TRAIN)
        assert len(data.tests["reversed"]) == sum(GOEMOTIONS_TEST)
        assert set(data.oracle_tests["reversed"].texts) == originals
    with pytest.raises(ConfigError, match=r"Released GoEmotions sets .* but strength is 0\.7"):
        build("goemo-st", data_dir=folder, strength=0.7, released=True)


def test_the_testbed_of_another_word(folder):
    how = {"data_dir": folder, "n_train": 20, "n_test": 4, "proportion": 0.2, "correlation": 0.75}
    data = build("amazon-testbed", word="good", **how)
    assert data.shortcuts == ("good",)
    held = shortcut_present(data.train.texts, ["good"])
    assert held.sum() == 4
    assert data.train.labels[held].sum() == 3
    assert "good" in data.card.name
    assert "mostly in reviews of books" not in str(data.card)
