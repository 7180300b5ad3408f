import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from shortcut_guardrail import AuditConfig, ConfigError, DataError, GuardrailWarning, ModelError, RunError
from shortcut_guardrail.audit import audit_texts
from shortcut_guardrail.classifiers import is_spec, open_classifiers, require
from shortcut_guardrail.classifiers.function import FunctionClassifier
from shortcut_guardrail.classifiers.kept import AnswerCache, KeptClassifier
from shortcut_guardrail.classifiers.prompted import PromptedClassifier
from shortcut_guardrail.models import TextClassifier, load_model
from tiny_models import name_classes, tiny_bert, tiny_causal

LABELS = ["negative", "positive"]
TEXTS = ["a good soup", "it was cold and the staff rude", "honestly fine"]


def saved(folder, model, tokenizer, labels=()):
    if labels:
        name_classes(model.config, labels)
    for part in (model, tokenizer):
        part.save_pretrained(folder)
    return folder


@pytest.fixture
def decoder(tmp_path):
    return saved(tmp_path / "decoder", *tiny_causal())


@pytest.fixture
def encoder(tmp_path):
    return saved(tmp_path / "encoder", *tiny_bert(n_classes=2), labels=["POSITIVE", "negative"])


def opened(spec, labels=LABELS, **options):
    (source,) = open_classifiers([spec], labels, **options)
    return source


def means_of(logs):
    """The normalised geometric mean over prompts."""
    means = np.exp(np.mean(logs, axis=0))
    return means / means.sum(axis=1, keepdims=True)


def written(tmp_path, text: str):
    file = tmp_path / "source.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_folder_with_a_language_model(decoder):
    source = opened(str(decoder), ["entailment", "neutral", "contradiction"])
    found = source.predict_proba([*TEXTS, ("a b", "c"), ("a", "d")])
    assert (found.shape, found.dtype) == ((5, 3), np.float64)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert not np.allclose(np.log(found[3]), np.log(found[4]))
    record = source.record()
    assert (record["kind"], record["name"], record["phrases"]) == ("causal", "decoder", list(source.label_names))
    assert record["versions"]["transformers"]
    assert record["fingerprint"] == source.fingerprint()
    source.model.fingerprint = lambda: "of other weights"
    assert record["fingerprint"] != source.fingerprint()
    cost = source.cost(TEXTS)
    assert (cost.texts, cost.calls) == (3, 3 * len(record["prompts"]))
    assert cost.tokens > sum(map(len, TEXTS)) * len(record["prompts"])
    assert cost.seconds > 0


def test_descriptions_examples_and_prompts_change_what_is_asked(decoder, tmp_path):
    plain = opened(decoder)
    file = 'kind = "causal"\nmodel = "decoder"\nprecision = "float32"\nprompts = ["{text} is {label}"]\n'
    example, described = '[[examples]]\ntext = "{}"\nlabel = "{}"\n', '[descriptions]\npositive = "good"\n'
    told = [
        opened(decoder, descriptions={"positive": "good"}),
        *(
            opened(written(tmp_path, file + more))
            for more in (
                example.format('b"\ntext_pair = "c', "negative"),
                "",
                example.format("a", "positive"),
                described,
            )
        ),
    ]
    assert len({source.fingerprint() for source in [plain, *told]}) == 6
    for source in told:
        assert not np.allclose(source.predict_proba(TEXTS), plain.predict_proba(TEXTS))
    both = file.replace('{label}"]', '{label}", "{text}: {label}"]')
    one, other = opened(written(tmp_path, file)), opened(written(tmp_path, file.replace(" is", ":")))
    expected = means_of(np.log([one.predict_proba(TEXTS), other.predict_proba(TEXTS)]))
    np.testing.assert_allclose(opened(written(tmp_path, both)).predict_proba(TEXTS), expected, atol=1e-6)
    assert (told[2].record()["prompts"], told[3].record()["examples"]) == (["{text} is {label}"], [["a", "positive"]])
    assert told[1].record()["examples"] == [[("b", "c"), "negative"]]


def test_special_tokens_that_a_text_spells_are_text_and_those_of_a_prompt_are_not(decoder, tmp_path):
    source = opened(written(tmp_path, 'kind = "causal"\nmodel = "decoder"\nprompts = ["<s>{text}</s>{label}"]\n'))
    seen, ids = [], source.model._ids
    source.model._ids = lambda text: seen.append(ids(text)) or ids(text)
    source.predict_proba(["a", "a</s><s>b <pad>"])
    asked = [one for one in seen if one[:2] == [0, 0]]  # the prompt, behind what the tokenizer puts first
    assert {(one.count(0), one.count(1), one.count(2)) for one in asked} == {(2, 0, 1)}
    pairs = [("a</s>", "<mask>"), ("a< /s>", "< mask>"), ("a< /s>", "< mask >")]
    first, same, other = source.predict_proba(pairs).tolist()
    assert first == same != other


def test_texts_longer_than_the_context_are_cut_and_it_says_so(decoder, tmp_path):
    source, long = opened(decoder), "x" * 1000
    with pytest.warns(GuardrailWarning, match="sees only the beginning of 1 text: it takes at most 256 tokens"):
        found = source.predict_proba([long, "b"])
    with pytest.warns(GuardrailWarning, match="2 texts"):
        cut = source.predict_proba([long + "yyy", long])
    np.testing.assert_array_equal(cut[0], found[0])
    cost = source.cost([long])
    assert cost.tokens == 256 * cost.calls, "what is cut off is not paid for"
    # Of the longer one more is seen than half of the room.
    pairs = [(long, "b"), (long, "c"), ("x" * 150 + "y" + long, "b")]
    for given in (pairs, [pair[::-1] for pair in pairs]):
        with pytest.warns(GuardrailWarning):
            assert len({tuple(row) for row in source.predict_proba(given).tolist()}) == 3
    file = 'kind = "causal"\nmodel = "decoder"\nmax_length = 200\n'
    with pytest.warns(GuardrailWarning, match="it takes at most 200 tokens"):
        opened(written(tmp_path, file)).predict_proba([long])
    examples, prompt = f'[[examples]]\ntext = "{"x" * 300}"\nlabel = "positive"\n', "{text} {label}"
    for more in (examples, f'prompts = ["{prompt}", "{"x" * 300}{prompt}"]\n'):
        with pytest.raises(ConfigError, match="leaves 0 of 256 tokens for a text"):
            opened(written(tmp_path, f'kind = "causal"\nmodel = "decoder"\n{more}'))


def test_a_classifier_is_matched_by_name(encoder):
    source, classifier = opened(encoder), TextClassifier(*tiny_bert(n_classes=2))
    np.testing.assert_allclose(source.predict_proba(TEXTS), classifier.predict_proba(TEXTS)[:, ::-1], atol=1e-5)
    assert source.fingerprint() == classifier.fingerprint()
    assert (source.record()["labels"], source.cost(TEXTS).calls) == ([["negative"], ["POSITIVE"]], 3)
    with pytest.warns(GuardrailWarning, match="sees only the beginning of 1 text: it takes at most 32 tokens"):
        source.predict_proba(["a " * 50, "b"])


def test_other_labels_are_mapped(tmp_path):
    saved(tmp_path / "stars", *tiny_bert(n_classes=3), labels=["1 star", "2 stars", "5 stars"])
    with pytest.raises(ModelError, match=r"'stars' has other labels: 1 star, 2 stars, 5 stars\. None is 'negative'"):
        opened(tmp_path / "stars")
    file = 'kind = "classifier"\nmodel = "stars"\nname = "s"\n[labels]\n'
    # Answers are kept apart by what is counted for a label.
    both, some = (
        opened(written(tmp_path, f'{file}negative = {said}\npositive = "5 stars"\n'), cache=tmp_path / "kept")
        for said in ('["1 star", "2 stars"]', '"1 star"')
    )
    one, two, five = both.inner.inner.predict_proba(TEXTS).T
    np.testing.assert_allclose(both.predict_proba(TEXTS), np.stack([one + two, five], axis=1))
    np.testing.assert_allclose(some.predict_proba(TEXTS)[:, 1], five / (one + five))
    assert (both.name, Path(both.record()["model"]).name) == ("s", "stars")
    with pytest.raises(ConfigError, match="gives one class to two labels"):
        opened(written(tmp_path, file + 'negative = "1 star"\npositive = ["5 stars", "1 star"]\n'))
    with pytest.raises(ConfigError, match="names 'good', but the model has negative, positive"):
        opened(written(tmp_path, file + 'good = "1 star"\n'))
    with pytest.raises(ModelError, match=r"None is '9 stars'\. Say in a TOML file which .* negative, positive, under"):
        opened(written(tmp_path, file + 'positive = ["5 stars"]\nnegative = "9 stars"\n'))


def test_a_classifier_without_a_mask_token_answers_and_is_audited_by_cutting(tmp_path):
    model, tokenizer = tiny_bert(n_classes=2)
    tokenizer.mask_token = None
    saved(tmp_path / "m", model, tokenizer, labels=LABELS)
    judge = opened(tmp_path / "m")
    assert judge.predict_proba(TEXTS).shape == (3, 2)
    require(judge.inner, "gradients", "a card")
    assert audit_texts(judge.inner, judge.inner.encode(TEXTS)).erasure == "cut"
    with pytest.raises(ModelError, match=r"no mask token, which an audit of tokens, .* Its capabilities are adapts, "):
        audit_texts(judge.inner, judge.inner.encode(TEXTS), AuditConfig(unit="token"))
    with pytest.raises(ModelError, match=r"'m' takes no adapter, which a guard needs\. It can do nothing but answer\."):
        require(judge, "adapts", "a guard")


@pytest.mark.parametrize("labels", [["negative", "POSITIVE"], ["POSITIVE", "negative"]])
def test_a_classifier_that_is_open_already_answers_in_the_labels_asked_for(encoder, labels):
    classifier = TextClassifier(*load_model(encoder))
    found = opened(classifier, labels)
    assert (found.label_names, found.fingerprint()) == (tuple(labels), classifier.fingerprint())
    column = found.predict_proba(TEXTS)[:, labels.index("negative")]
    np.testing.assert_allclose(column, classifier.predict_proba(TEXTS)[:, 1])
    with pytest.raises(ModelError, match="has other labels"):
        opened(classifier, ["good", "bad"])


def test_a_model_of_entailment_reads_label_names(tmp_path):
    names = ["contradiction", "entailment", "neutral"]
    folder = saved(tmp_path / "nli", *tiny_bert(n_classes=3), labels=names)
    assert opened(folder).record()["kind"] == "zero-shot"
    file = (
        'kind = "zero-shot"\nmodel = "nli"\nprompts = ["it is {label}", "{label}"]\ndescriptions = {positive = "good"}'
    )
    source = opened(written(tmp_path, file), descriptions={"positive": "fine"})
    assert source.record()["phrases"] == ["negative", "good"]
    classifier = source.model
    assert classifier.encode(["a [SEP] b"]).controls.tolist() == [False]
    by_hand = []
    for prompt in ("it is {}", "{}"):
        pairs = [(text, prompt.format(said)) for text in TEXTS for said in ("negative", "good")]
        by_hand.append(np.log(classifier.predict_proba(pairs)[:, 1]).reshape(3, 2))
    np.testing.assert_allclose(source.predict_proba(TEXTS), means_of(by_hand), atol=1e-5)
    assert source.cost(TEXTS).calls == 6 * len(source.templates)
    with pytest.warns(GuardrailWarning, match="sees only the beginning of 1 text"):
        source.predict_proba(["a " * 50, "b"])
    np.testing.assert_allclose(source.predict_proba([("a", "b")]), source.predict_proba(["a\nb"]))
    # Asked about entailment it is an ordinary classifier.
    assert opened(folder, names).record()["kind"] == "classifier"
    file = 'kind = "classifier"\nmodel = "nli"\nlabels = {negative = "contradiction", positive = "entailment"}\n'
    assert opened(written(tmp_path, file)).record()["kind"] == "classifier"
    before = source.fingerprint()
    assert before != opened(folder).fingerprint()
    source.model.fingerprint = lambda: "of other weights"
    assert before != source.fingerprint()


def test_what_no_zero_shot_model_and_no_source_is(tmp_path, encoder, decoder):
    file = 'kind = "zero-shot"\nmodel = "encoder"\nprompts = ["{}"]\n'
    with pytest.raises(ModelError, match="no label 'entailment' but POSITIVE, negative"):
        opened(written(tmp_path, file.replace("{}", "{label}")))
    with pytest.raises(ConfigError, match="A hypothesis must hold"):
        opened(written(tmp_path, file))
    with pytest.raises(ConfigError, match="'decoder' and 'decoder' are the same"):
        open_classifiers([decoder, decoder], LABELS)
    file = 'kind = "classifier"\nmodel = "encoder"\nname = "decoder"\n'
    with pytest.raises(ConfigError, match="Two classifiers are called 'decoder'"):
        open_classifiers([decoder, written(tmp_path, file)], LABELS)
    assert [is_spec(one) for one in ("a.TOML", "a.b:c", "owner/name")] == [True, True, False]
    assert [source.name for source in open_classifiers([decoder, encoder], LABELS)] == ["decoder", "encoder"]
    model, tokenizer = tiny_bert()
    saved(tmp_path / "bare", model.bert, tokenizer)
    (encoder / "adapter_config.json").write_text("{}")
    for spec, kind, said in (
        (encoder, ModelError, "is of a kind that it does not say"),
        (tmp_path / "bare", ModelError, r"is BertModel\. A second model comes from"),
        ("https://host/v1", ConfigError, "is an address. Name it in a TOML file"),
        ("no_such_module_here:judge", ConfigError, "'no_such_module_here' could not be imported"),
        *[("missing.toml", DataError, "missing.toml"), ("./missing", ModelError, "There is no folder")],
        (encoder / "adapter_config.json", ConfigError, "Load it in a function of your own, and give that as module"),
    ):
        with pytest.raises(kind, match=said):
            opened(spec)


def test_scikit_learn_through_a_function(tmp_path, monkeypatch):
    judge = make_pipeline(TfidfVectorizer(), LogisticRegression())
    judge.fit(["good", "lovely", "bad", "cold"], ["positive", "positive", "negative", "negative"])
    source = opened(judge.predict_proba)
    np.testing.assert_allclose(source.predict_proba(TEXTS), judge.predict_proba(TEXTS))
    (tmp_path / "my_judge.py").write_text("def judge(texts):\n    return [[0.25, 0.75]] * len(texts)\n")
    monkeypatch.chdir(tmp_path)
    try:
        named = opened("my_judge:judge")
        assert (named.name, named.record()["kind"]) == ("my_judge:judge", "function")
        assert str(tmp_path) not in sys.path
        np.testing.assert_allclose(named.predict_proba(TEXTS), [[0.25, 0.75]] * 3)
        file = written(tmp_path, 'kind = "function"\nfunction = "my_judge:judge"\nname = "bag"\n')
        assert opened(file).name == "bag"
        before = named.fingerprint()
        assert before == opened("my_judge:judge").fingerprint()
        (tmp_path / "my_judge.py").write_text("def judge(texts):\n    return [[0.5, 0.5]] * len(texts)\n")
        assert before != named.fingerprint()
        with pytest.raises(ConfigError, match="has no function 'other'"):
            opened("my_judge:other")
    finally:
        sys.modules.pop("my_judge", None)


def test_functions_get_texts_in_pieces_and_say_how_they_failed():
    sizes, told = [], []
    judge = opened(lambda texts: sizes.append(len(texts)) or np.full((len(texts), 2), 0.5))
    judge.predict_proba(["a"] * 300, progress=lambda *now: told.append(now))
    assert (sizes, told[-1], judge.predict_proba([]).shape) == ([256, 44], ("Asking", 300, 300), (0, 2))
    assert judge.cost(["a"] * 300).calls == 2
    with pytest.raises(RunError, match="failed: ZeroDivisionError: division by zero"):
        opened(lambda texts: 1 / 0).predict_proba(["a"])


CAUSAL, ENDPOINT = (f'kind = "{kind}"\nmodel = "x"\n' for kind in ("causal", "endpoint"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind = ", "is no TOML file"),
        ('model = "x"', "kind must be one of causal, classifier, zero-shot, function, endpoint, but is missing"),
        *[('kind = ["causal"]', "but is ['causal']"), ('kind = "causal"', "model is missing")],
        (CAUSAL + 'prompt = ["{text}"]', "prompt is no field that is known. Did you mean 'prompts'?"),
        (CAUSAL + 'precision = "int4"', 'one of bfloat16, float32, but is "int4"'),
        (CAUSAL + 'examples = [{text = "a"}]', "examples[0].label is missing"),
        (CAUSAL + "prompts = []", "prompts must be a list that is not empty"),
        (CAUSAL + "max_length = true", "max_length must be a whole number, 1 or more, but is true"),
        (ENDPOINT + 'url = "y"\n[request]\nday = 2026-01-01', "must be a string"),
        (ENDPOINT + 'api_key = "sk-1"', "A key does not belong in a file"),
        (ENDPOINT + 'url = "y"\nrequest = {api_key = "sk-1"}', "A key does not belong in a file"),
        (ENDPOINT, "url is missing"),
        ('kind = "function"\nfunction = "no"', "A function is given as module:function"),
    ],
)
def test_what_a_file_cannot_say(tmp_path, text, said):
    with pytest.raises(ConfigError) as caught:
        opened(written(tmp_path, text))
    assert said in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_a_model_that_is_cut_short_goes_on_where_it_stopped(decoder, tmp_path, monkeypatch):
    texts = [f"{'a ' * (i % 7)}{i}" for i in range(80)]
    exact = written(tmp_path, 'kind = "causal"\nmodel = "decoder"\nprecision = "float32"\n')
    expected = opened(exact).predict_proba(texts)
    predict_proba, batches = PromptedClassifier.predict_proba, iter(range(2))

    def counted(self, some):
        if next(batches, None) is None:
            raise KeyboardInterrupt
        return predict_proba(self, some)

    with monkeypatch.context() as patch:
        patch.setattr(PromptedClassifier, "predict_proba", counted)
        with pytest.raises(KeyboardInterrupt):
            opened(exact, cache=tmp_path / "kept").predict_proba(texts)
    again, told = opened(exact, cache=tmp_path / "kept"), []
    assert (again.cost(texts).texts, again.cost(texts).calls) == (80, 16 * 3)
    found = again.predict_proba(texts, progress=lambda *now: told.append(now))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert (told, again.cost(texts).calls) == ([("Asking", 80, 80)], 0)
    assert again.fingerprint() == opened(exact).fingerprint()
    # Another prompt is asked anew.
    file = 'kind = "causal"\nmodel = "decoder"\nprompts = ["{text} is {label}"]\n'
    assert opened(written(tmp_path, file), cache=tmp_path / "kept").cost(texts).calls == 80


@pytest.mark.parametrize("kind", ["causal", "classifier", "zero-shot"])
def test_a_model_is_read_at_its_revision(tmp_path, monkeypatch, kind):
    load, asked = f"shortcut_guardrail.models.load_{'causal' if kind == 'causal' else 'model'}", {}
    monkeypatch.setattr(load, lambda _, **how: asked.update(how) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        opened(written(tmp_path, f'kind = "{kind}"\nmodel = "m"\nrevision = "v1"\n'))
    assert asked["revision"] == "v1"


def test_what_is_kept_is_asked_again_where_that_is_wanted(tmp_path):
    answers = iter([[[0.25, 0.75]], [[0.5, 0.5]]])
    kept = KeptClassifier(FunctionClassifier("f", ("a", "b"), lambda texts: next(answers)), AnswerCache(tmp_path / "a"))
    turned = opened(kept, ["b", "a"])  # through a classifier that counts its classes for others
    asked = [round(turned.predict_proba(["text"], again=again)[0, 1], 6) for again in (False, False, True, False)]
    assert asked == [0.25, 0.25, 0.5, 0.25]
