"""Any classifier as a reader of words: what it is asked, how often, and what is noticed of its answers."""

import numpy as np
import pytest

from planted_words import NAMES, by_words
from shortcut_guardrail import ConfigError, GuardrailWarning, ModelError, RunError
from shortcut_guardrail.classifiers import WordReader, word_reader
from shortcut_guardrail.models import BudgetSpentError
from shortcut_guardrail.text import WordFinder, erased_texts, remaining_texts


def without(texts, *words):
    encoded = word_reader(by_words, NAMES).encode(texts)
    return remaining_texts(erased_texts(encoded, WordFinder(words).positions(encoded), None, "cut"))


def test_a_word_is_cut_with_the_space_and_the_comma_that_it_brought():
    for text, left in (
        *[("Honestly, it rains.", "it rains."), ("It honestly rains.", "It rains.")],
        *[("It rains, honestly.", "It rains."), ("It rains honestly!", "It rains!")],
        *[("It rains (honestly so).", "It rains (so)."), ("a-honestly-b", "a--b"), ("so\nhonestly so", "so\nso")],
        *[("  It rains  ", "  It rains  "), ("I say honestly", "I say"), ("Honestly honestly good, honestly", "good")],
        ("honestly", "honestly"),  # nothing would be left
        (("Honestly, one", "two honestly"), ("one", "two")),
    ):
        assert without([text], "honestly") == [left]


def test_what_touched_a_word_does_not_fuse_unless_its_script_does():
    for text, word, left in (("a 😀 b", "😀", "a b"), ("a😀b", "😀", "a b"), ("我很好", "很", "我好")):
        assert without([text], word) == [left]


def test_each_text_is_asked_about_once_and_a_budget_is_kept():
    asked = []

    def counting(texts):
        asked.extend(texts)
        return by_words(texts)

    reader = word_reader(counting, NAMES)
    reader.predict_proba(["good", "bad", "good"])
    reader.named({"negative": "sad", "positive": "glad"}).predict_proba(["bad", "new"])
    assert (asked, reader.spent.answers, reader.spent.seconds > 0) == (["good", "bad", "new"], 3, True)
    with reader.spent.within(2) as spent:
        reader.predict_proba(["good", "one", "two"])
        with pytest.raises(BudgetSpentError, match="leaves 0 answers, but 1 are needed"):
            reader.predict_proba(["three"])
    assert (spent.answers, asked[3:], len(reader.predict_proba(["three", "four", "five"]))) == (2, ["one", "two"], 3)


def test_where_an_answer_is_missing_nothing_seems_to_change():
    def silent(texts):
        return np.where([["silent" in t or "honestly" not in t] for t in texts], np.nan, by_words(texts))

    reader = word_reader(silent, NAMES)
    encoded = reader.encode(["honestly bad", *["honestly good"] * 20])
    whole = reader.predict_proba(encoded)
    rest = erased_texts(encoded, WordFinder(["honestly"]).positions(encoded), None, "cut")
    assert (reader.predict_proba(rest) == whole).all()
    assert reader.predict_proba(reader.encode([*encoded.texts[:19], "silent"]))[-1].tolist() == [0.5, 0.5]
    with pytest.raises(RunError, match="no answer to 2 of 22 texts"):
        reader.predict_proba(reader.encode([*encoded.texts[:20], "silent", "silent too"]))


def test_who_reorders_or_draws_answers_is_found_out_and_others_are_not():
    texts, rng = [f"{'good' if i % 3 else 'bad'} {i}" for i in range(16)], np.random.default_rng(0)

    def drawn(texts):
        p = rng.random(len(texts))
        return np.stack([p, 1 - p], axis=1)

    def reordered(texts):
        return by_words(sorted(texts))

    assert word_reader(by_words, NAMES).steadiness(texts) == (0, 16)
    assert word_reader(drawn, NAMES).steadiness(texts)[0] > 8
    assert word_reader(reordered, NAMES).steadiness(texts)[0] > 0


def test_a_function_that_changes_its_list_is_told_of():
    def lowers(texts):
        texts[:] = [text.lower() for text in texts]
        return by_words(texts)

    with pytest.warns(GuardrailWarning, match="'lowers' changes the list of texts"):
        word_reader(lowers, NAMES).predict_proba(["Good"])


def test_classes_come_from_what_is_known_of_them():
    class Pipeline:
        classes_, weight = np.array([0, 1]), 1.0

        def predict_proba(self, texts):
            return by_words(texts)

    one, other = Pipeline(), Pipeline()
    other.weight = 2.0
    assert (word_reader(one).label_names, word_reader(one, NAMES).label_names) == (("0", "1"), NAMES)
    assert word_reader(one).name == "Pipeline"
    with pytest.raises(ConfigError, match=r"The classes are not known\. Give label_names"):
        word_reader(by_words)
    with pytest.raises(ModelError, match="single label"):
        WordReader(word_reader(by_words, ["one"]))
    for names in ("negative,positive", ["same", "same"], ["one", " "], []):
        with pytest.raises(ConfigError, match=r"label_names must be a list of different names|classes are not known"):
            word_reader(by_words, names)


def test_code_that_ends_the_process_is_told_of(tmp_path, monkeypatch):
    def ends(texts):
        raise SystemExit(3)

    with pytest.raises(RunError, match="'ends' failed: SystemExit: 3"):
        word_reader(ends, NAMES).predict_proba(["good"])
    (tmp_path / "ends_at_once.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"'ends_at_once' could not be imported \(SystemExit: 3\)"):
        word_reader("ends_at_once:answers", NAMES)


@pytest.mark.parametrize("given", [lambda made: made, lambda made: made.predict_proba], ids=["object", "method"])
def test_columns_go_by_the_names_that_scikit_learn_gives_them(given):
    class Pipeline:
        classes_ = np.array(NAMES)

        def predict_proba(self, texts):
            return by_words(texts)

    (right,) = by_words(["good"])
    for names, columns in ((None, right), (NAMES, right), (NAMES[::-1], right[::-1]), (("sad", "glad"), right)):
        reader = word_reader(given(Pipeline()), names)
        assert (reader.label_names, reader.predict_proba(["good"])[0]) == (names or NAMES, pytest.approx(columns))


def test_pickled_objects_have_fingerprints_of_their_own():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["good", "bad", "good x", "bad x"]
    fits = [make_pipeline(CountVectorizer(), LogisticRegression(C=c)).fit(texts, [1, 0, 1, 0]) for c in (1, 1, 9)]
    first, same, other = (word_reader(pipeline).fingerprint() for pipeline in fits)
    assert first == same != other
