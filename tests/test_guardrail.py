"""The facade: what it leaves alone, what repeats, and what a saved folder gives back."""

import copy
import inspect
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForSequenceClassification

from made_guards import TEXTS
from shortcut_guardrail import GuardrailConfig, GuardrailWarning, ShortcutGuardrail, TextClassifier
from shortcut_guardrail import guardrail as facade
from shortcut_guardrail.config import AdapterConfig, AuditConfig, CertifyConfig, SaliencyConfig
from shortcut_guardrail.data.sources import MemoryTexts
from shortcut_guardrail.errors import ConfigError, DataError, ModelError, RunError
from shortcut_guardrail.mitigation import Wanted
from shortcut_guardrail.models import Windowing
from tiny_models import SHORTCUT_TEXTS

# Large steps, so that a few of them move the predictions of a tiny model.
STEPS = AdapterConfig(learning_rate=2e-2, epochs=3, batch_size=4)
STRONG = GuardrailConfig(preset="test", saliency=SaliencyConfig(top_k=3), adapter=STEPS)
SUPPORT = ["good soup", "the bad soup", "honestly fine", "awful tea"]
SUPPORT_LABELS = ["positive", "negative", "positive", "negative"]


@pytest.fixture(scope="module")
def _guard(model_folder):
    guard = ShortcutGuardrail.from_pretrained(model_folder, batch_size=4)
    guard.fit(list(SHORTCUT_TEXTS), config=STRONG, seed=0)
    return guard


@pytest.fixture
def guard(_guard):
    """Its model has a place on disk, so that a saved folder can find it again."""
    return copy.deepcopy(_guard)


@pytest.fixture
def folder(guard, tmp_path):
    """What `guard` saves."""
    guard.save_pretrained(tmp_path / "guarded")
    return tmp_path / "guarded"


def plain_probabilities(model, tokenizer, texts):
    """What Transformers alone answers, one text at a time."""
    model.eval()
    with torch.no_grad():
        logits = [model(**tokenizer(text, return_tensors="pt")).logits[0] for text in texts]
    return torch.stack(logits).softmax(-1).numpy()


def test_the_callers_model_is_left_as_it_was(bert, texts):
    model, tokenizer = bert
    model.train()
    model.bert.embeddings.requires_grad_(False)
    weights = copy.deepcopy(model.state_dict())
    asks = {name: p.requires_grad for name, p in model.named_parameters()}
    modes = {name: module.training for name, module in model.named_modules()}
    guard = ShortcutGuardrail(model, tokenizer)
    guard.audit(texts, top_k=3)
    guard.fit(texts, config=STRONG)
    guard.calibrate(SUPPORT, SUPPORT_LABELS)
    guard.predict(texts)
    assert list(model.state_dict()) == list(weights)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert {name: p.requires_grad for name, p in model.named_parameters()} == asks
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert all(p.grad is None for p in model.parameters())
    assert not any("lora" in name for name, _ in model.named_modules())
    assert not any(module._forward_hooks for module in model.modules())
    # The partner: the guard's own model did change.
    assert any("lora" in name for name, _ in guard.peft_model.named_modules())


def test_global_state_is_left_as_it_was(bert, texts):
    drawn = []
    for used in (False, True):
        torch.manual_seed(3)
        np.random.seed(3)
        if used:
            guard = ShortcutGuardrail(*bert)
            guard.fit(texts, config=STRONG)
            guard.audit(texts)
        drawn.append((torch.rand(1), np.random.rand()))
    assert drawn[0] == drawn[1]
    assert torch.is_grad_enabled()


def test_strength_0_is_the_base_model_bit_for_bit(bert, guard, texts):
    base = ShortcutGuardrail(*bert, batch_size=4).predict_proba(texts)
    np.testing.assert_array_equal(guard.predict_proba(texts, strength=0), base)
    guard.debias_strength = 0
    np.testing.assert_array_equal(guard.predict_proba(texts), base)
    assert np.abs(guard.predict_proba(texts, strength=1.0) - base).max() > 1e-2
    assert np.abs(guard.predict_proba(texts, strength=0.1) - base).max() > 1e-6


def test_probabilities_are_those_of_the_plain_model_whole_or_piece_by_piece(bert, texts, monkeypatch):
    guard, told = ShortcutGuardrail(*bert, batch_size=3), []
    np.testing.assert_allclose(guard.predict_proba(texts), plain_probabilities(*bert, texts), atol=1e-6)
    monkeypatch.setattr("shortcut_guardrail.guardrail._TEXTS_AT_ONCE", 3)
    pieces = guard.predict_proba(texts, progress=lambda *state: told.append(state))
    np.testing.assert_allclose(pieces, plain_probabilities(*bert, texts), atol=1e-6)
    assert told == [("Predicting", done, len(texts)) for done in (3, 6, 8)]
    with torch.no_grad():  # no class ahead of the others, so that the answers differ
        bert[0].classifier.bias -= torch.from_numpy(plain_probabilities(*bert, texts)).log().mean(0)
    balanced = ShortcutGuardrail(*bert)
    names = [balanced.label_names[i] for i in plain_probabilities(*bert, texts).argmax(1)]
    assert balanced.predict(texts) == names
    assert len(set(names)) > 1


def test_the_same_seed_gives_the_same_predictions_and_fitting_again_starts_from_the_base(bert, guard, texts):
    def fitted(seed):
        guard = ShortcutGuardrail(*bert, batch_size=4)
        guard.fit(texts, config=STRONG, seed=seed)
        return guard.predict_proba(texts)

    first, other = fitted(1), fitted(2)
    assert np.abs(first - other).max() > 1e-4
    guard.calibrate(SUPPORT, SUPPORT_LABELS)
    guard.fit(texts, config=STRONG, seed=1)
    np.testing.assert_array_equal(guard.predict_proba(texts), first)
    assert guard.record().calibration is None
    assert guard.record().support_hashes == ()


@pytest.mark.filterwarnings("ignore:Small groups")
def test_an_evaluation_at_strength_0_is_the_base_models(bert, guard, texts, tmp_path):
    rows = texts, ["positive", "negative"] * 4
    base = ShortcutGuardrail(*bert, batch_size=4).evaluate(*rows, shortcuts=["honestly"])
    guarded = guard.evaluate(*rows, shortcuts=["honestly"])
    assert guard.evaluate(*rows, shortcuts=["honestly"], strength=0).to_dict() == base.to_dict()
    assert guarded.mstps != base.mstps
    assert base.mstps_base_tokens == base.mstps
    # The base's important tokens are a set of their own.
    result, own = guard.evaluate(*rows, top_k=1), guard.audit(texts, top_k=1)
    base = guard.audit(texts, top_k=1, strength=0)
    assert result.mstps == own.mstps != result.mstps_base_tokens
    assert (own.saliency.positions != base.saliency.positions).any()
    assert own.mstps == guard.audit(texts, top_k=1, strength=1.0).mstps  # the guard's own strength
    shards = guard.audit_in_shards(MemoryTexts(texts), tmp_path, config=AuditConfig(top_k=1), strength=0)
    assert shards.report.mstps == pytest.approx(base.mstps)


def test_long_texts_are_cut_and_counted(bert, texts):
    guard = ShortcutGuardrail(*bert, max_length=8)
    long = [f"{text} and more of it" for text in texts]
    assert guard.count_truncated([*long, "good soup"]) == len(long)
    report = guard.fit([*long, *long, "good soup"], config=STRONG, seed=7)
    assert (report.n_truncated, report.seed, report.config) == (2 * len(long), 7, STRONG)
    assert (report.training.n_texts, report.training.n_trained) == (2 * len(long) + 1, len(long) + 1)
    kept, cut = (guard.predict_proba([f"so it was the a an {word}"])[0] for word in ("honestly", "dull"))
    assert kept == pytest.approx(cut)


def test_the_strength_is_fixed_until_it_is_calibrated_or_set(guard):
    assert (guard.debias_strength, guard.record().strength_source) == (1.0, "fixed")
    calibration = guard.calibrate(SUPPORT, SUPPORT_LABELS)
    assert (guard.debias_strength, guard.record().strength_source) == (calibration.strength, "calibrated")
    assert [point.strength for point in calibration.curve] == [i / 10 for i in range(11)]
    for rows, labels, warned in (
        ([*SUPPORT[:2], "a lovely place"], ["positive", "negative", "positive"], True),
        (["a lovely place", "the dull tea"], ["positive", "negative"], False),
    ):
        with pytest.warns(GuardrailWarning) as caught:
            guard.evaluate(rows, labels)
        said = "2 of the 3 evaluated texts were in the support set that chose the strength; leave them out for an unb"
        assert str(caught[0].message).startswith(said) == warned
        assert any("support set" in str(warning.message) for warning in caught) == warned
    guard.debias_strength = 0.25
    assert (guard.debias_strength, guard.record().strength_source) == (0.25, "set")


def test_what_is_refused(bert):
    guard = ShortcutGuardrail(*bert)
    for call, kind, message in (
        (lambda: guard.fit("good soup"), DataError, "texts must be a list of texts or of .* but is a single string"),
        (lambda: guard.fit(["good soup", " "]), DataError, r"texts, position 1: the text is empty"),
        (lambda: guard.fit(["good soup", "\ufffd"]), DataError, r"1 of 2 texts hold no token.*text 2"),
        (lambda: guard.fit(["good soup"] * 5), DataError, "at least 2 distinct texts .* but 1 of 5 is"),
        (lambda: guard.fit(["good", "bad"], config="papr"), ConfigError, "preset must be one of paper"),
        (lambda: guard.predict([]), DataError, "texts is empty; at least one text is needed"),
        (lambda: guard.evaluate(["good"], ["good"]), DataError, "the model has no label 'good'"),
    ):
        with pytest.raises(kind, match=message):
            call()
    for call in (
        lambda: guard.calibrate(SUPPORT, SUPPORT_LABELS),
        lambda: guard.save_pretrained("nowhere"),
        lambda: guard.peft_model,
        lambda: guard.predict(["good"], strength=0.5),
        lambda: guard.calibrate_without_labels(["good"]),
        lambda: guard.certify([], [], unlabelled=["good"]),
        lambda: guard.to_label(["good"], 3),
    ):
        with pytest.raises(ConfigError, match=r"There is no adapter yet\. Call fit\(texts\)"):
            call()


def test_strengths_and_support_sets_that_cannot_be_used(guard, texts):
    for strength in (-0.1, 1.4, float("nan")):
        message = re.escape(f"debias_strength must be a number from 0 to 1, but is {strength}")
        with pytest.raises(ConfigError, match=message):
            guard.predict(texts, strength=strength)
        with pytest.raises(ConfigError, match=message):
            guard.debias_strength = strength
    for rows, labels, message in (
        (["good"], ["positive"], "needs at least 2 labelled rows, but has 1"),
        (["good", "bad"], ["positive", "positive"], "All 2 rows of the support set have the same label"),
        (["good", "bad"], ["positive", "sad"], "the model has no label 'sad'"),
        (["good", "bad", "sad"], ["positive", "negative"], "there are 3 texts and 2 labels"),
    ):
        with pytest.raises(DataError, match=message):
            guard.calibrate(rows, labels)
    assert (guard.debias_strength, guard.record().strength_source) == (1.0, "fixed")


@pytest.mark.parametrize("kind", ["few-shot", "mask-kept-certified", "distill-named-support"])
def test_a_strength_for_each_text(saved_guards, kind):
    guard = ShortcutGuardrail.from_pretrained(saved_guards / kind)
    texts = [*TEXTS[:10], "honestly the soup was good"]
    strengths = [(0, 1, 0.3, 1, 0.3)[i % 5] for i in range(len(texts))]
    stages = []
    found = guard.predict_proba(texts, strength=strengths, progress=lambda _, done, n: stages.append((done, n)))
    expected = np.empty_like(found)
    for one in {*strengths}:
        rows = [i for i, strength in enumerate(strengths) if strength == one]
        expected[rows] = guard.predict_proba([texts[i] for i in rows], strength=one)
    np.testing.assert_array_equal(found, expected)
    whole = {one: guard.predict_proba(texts, strength=one) for one in {*strengths}}  # in other batches
    np.testing.assert_allclose(found, [whole[one][i] for i, one in enumerate(strengths)], atol=1e-4)
    for given in (np.array(strengths, dtype=np.float32), torch.tensor(strengths), tuple(strengths)):
        np.testing.assert_allclose(guard.predict_proba(texts, strength=given), expected, atol=1e-5)
    assert np.abs(found - guard.predict_proba(texts)).max() > 1e-3
    assert [guard.label_names[i] for i in expected.argmax(1)] == guard.predict(texts, strength=strengths)
    assert (stages[-1], stages) == ((len(texts), len(texts)), sorted(stages))
    for wrong, sentence in [
        ([0, 1], "strength must be one number or one for each text, but there are 2 for 11 texts"),
        ([*strengths, 1], "but there are 12 for 11 texts"),
        ([*strengths[1:], 1.5], r"must be .*1\.5"),
        ([*strengths[1:], None], "must be .*null"),
        (np.ones((len(texts), 2)), "must be "),
    ]:
        with pytest.raises(ConfigError, match=sentence):
            guard.predict(texts, strength=wrong)


WANTED = {"strategy": "mask", "strength": 0.4, "shortcuts": ("a",), "keep": ("b",), "config": {"per_input": True}}
FIT = {"texts": TEXTS, "config": STRONG, "seed": 5}
CERTIFY = {"unlabelled": TEXTS, "config": CertifyConfig(0.1, 0.9)}
LABEL = {"unlabelled": TEXTS, "n": 3}
SHARDS = {"source": "s", "config": AuditConfig(top_k=3), "resume": True, "map_shards": reversed}
EXPORT = {"format": "onnx", "int8": True, "texts": TEXTS, "overwrite": True}
PUSH = {"repo_id": "me/guard", "private": False, "license": "mit", "revision": "r", "token": "t"}
ASK = {"cards": "all", "n": 7, "n_total": 20, "seed": 5, "shortcuts": ["a"]}
# The method, what it is given, what does it, and what that is given.
HANDED_ON = [
    ("fit", FIT, "fit_guard", FIT),
    ("repair", {"texts": TEXTS, **WANTED, "seed": 5}, "repair_model", {"wanted": Wanted(**WANTED), "seed": 5}),
    ("calibrate_without_labels", {"texts": TEXTS, "at_most": 7}, "choose_unlabelled", {"texts": TEXTS, "at_most": 7}),
    ("certify", CERTIFY | {"texts": [], "labels": [], "kept": "k"}, "certify_guard", CERTIFY | {"kept": Path("k")}),
    ("to_label", LABEL | {"kept": "k"}, "answers_by_strength", {"texts": TEXTS, "kept": Path("k")}),
    ("audit_in_shards", SHARDS | {"folder": "f"}, "audit_in_shards", SHARDS | {"folder": Path("f")}),
    ("export", EXPORT | {"folder": "f"}, "export_guard", EXPORT | {"folder": Path("f")}),
    ("push_to_hub", PUSH, "push_to_hub", PUSH),
    ("questions", ASK | {"audit": None}, "ask", ASK | {"labels": {1: "mixed"}}),
]


@pytest.mark.parametrize(("method", "given", "inner", "expected"), HANDED_ON, ids=[one[0] for one in HANDED_ON])
def test_what_a_method_is_given_reaches_what_does_it(guard, monkeypatch, method, given, inner, expected):
    calls, does = [], getattr(facade, inner)

    def note(*arguments, **named):
        calls.append(inspect.signature(does).bind(*arguments, **named).arguments)
        raise ConfigError("noted")

    if method == "questions":  # of the second text the label is known
        given = given | {"audit": guard.audit(TEXTS[:3]), "labels": [None, "mixed", None]}
    monkeypatch.setattr(facade, inner, note)
    with pytest.raises(ConfigError, match=r"^noted$"):
        getattr(guard, method)(**given)
    assert {name: calls[0].get(name) for name in expected} == expected


def test_logits_that_are_not_numbers_fail_the_run(bert, texts):
    with torch.no_grad():
        bert[0].classifier.bias[0] = float("nan")
    guard = ShortcutGuardrail(*bert)
    for call in (guard.predict, guard.audit, guard.fit):
        with pytest.raises(RunError, match=r"logits for text \d are not finite numbers"):
            call(texts)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's, about Transformers
def test_plain_peft_and_transformers_give_the_guarded_probabilities(guard, bert, model_folder, texts, tmp_path):
    full, of_base = guard.predict_proba(texts, strength=1.0), plain_probabilities(*bert, texts)
    for strength in (0.0, 0.3, 1.0):
        folder = tmp_path / f"{strength}"
        guard.debias_strength = strength
        guard.save_pretrained(folder)
        expected = guard.predict_proba(texts)
        base = AutoModelForSequenceClassification.from_pretrained(model_folder)
        by_peft = PeftModel.from_pretrained(base, folder)
        by_transformers = AutoModelForSequenceClassification.from_pretrained(folder)
        for model in (by_peft, by_transformers):
            np.testing.assert_allclose(plain_probabilities(model, bert[1], texts), expected, atol=1e-6)
        loaded = ShortcutGuardrail.from_pretrained(folder, batch_size=4)
        np.testing.assert_allclose(loaded.predict_proba(texts), expected, atol=1e-6)
        assert loaded.debias_strength == strength
        # The strength can be undone, also if it is 0.
        np.testing.assert_allclose(loaded.predict_proba(texts, strength=1.0), full, atol=1e-6)
        # The partner: the base model differs where the strength is not 0.
        difference = np.abs(of_base - expected).max()
        assert difference < 1e-6 if strength == 0 else difference > 1e-3


def test_how_a_model_is_read_is_as_was_said_of_a_plain_one_and_of_a_guard(bert, model_folder, folder):
    how = {"batch_size": 3, "precision": "bfloat16", "packing": False, "max_length": 12, "windows": "max", "overlap": 2}
    how |= {"label_names": ["a", "b", "c"], "device": "cpu"}
    loaded = [ShortcutGuardrail.from_pretrained(source, **how) for source in (model_folder, folder)]
    for guard in (ShortcutGuardrail(*bert, **how), *loaded):
        base = guard._base
        assert (base.batch_size, base.precision, base.packs, base.max_length) == (3, "bfloat16", False, 12)
        assert (base.windows, base.label_names) == (Windowing("max", 2), ("a", "b", "c"))


def test_a_loaded_guard_can_be_calibrated_and_fitted_again(guard, texts, tmp_path):
    calibration = guard.calibrate(SUPPORT, SUPPORT_LABELS)
    guard.save_pretrained(tmp_path / "a")
    loaded = ShortcutGuardrail.from_pretrained(tmp_path / "a")
    assert (loaded.record().calibration, loaded.calibrate(SUPPORT, SUPPORT_LABELS)) == (calibration, calibration)
    loaded.fit(texts, config=STRONG, seed=0)
    expected = guard.predict_proba(texts, strength=loaded.debias_strength)
    np.testing.assert_allclose(loaded.predict_proba(texts), expected, atol=1e-5)


def test_the_record_holds_what_is_promised_and_no_deployment_text(guard, model_folder, texts, tmp_path):
    marked = [*texts, "zanzibar soup quixotic", "vermilion bread"]
    guard.fit(marked, config=STRONG, seed=5)
    guard.calibrate(["xylophone soup", "good kumquat"], ["positive", "negative"])
    guard.save_pretrained(tmp_path / "guarded")
    record = json.loads((tmp_path / "guarded/guardrail.json").read_text())
    assert record["base_model"]["name"] == str(model_folder)
    assert re.fullmatch("[0-9a-f]{64}", record["base_model"]["fingerprint"])
    assert (record["seed"], record["precision"], len(record["support_hashes"])) == (5, "float32", 2)
    assert record["training"]["n_texts"] == len(marked)
    assert set(record["seconds"]) == {"tokenise", "attribute", "adapt", "calibrate"}
    files = ("guardrail.json", "README.md", "adapter_config.json")
    written = "".join((tmp_path / "guarded" / name).read_text() for name in files)
    for word in ("zanzibar", "quixotic", "vermilion", "xylophone", "kumquat", "honestly", "friendly", "coffee"):
        assert word not in written


def test_another_base_model_is_refused_by_its_weights(guard, folder, bert, texts, tmp_path):
    model, tokenizer = bert
    same = ShortcutGuardrail.from_pretrained(folder, base=model)
    np.testing.assert_allclose(same.predict_proba(texts), guard.predict_proba(texts), atol=1e-6)
    with torch.no_grad():
        model.classifier.bias[0] += 1e-3
    model.save_pretrained(tmp_path / "other")
    tokenizer.save_pretrained(tmp_path / "other")
    record, wrong = guard.record().base_model, TextClassifier(*bert).fingerprint()
    with pytest.raises(ModelError) as error:
        ShortcutGuardrail.from_pretrained(folder, base=tmp_path / "other")
    assert str(error.value) == (
        f"The adapter in '{folder}' was trained on '{record['name']}' with weights {record['fingerprint']}, but the "
        f"weights of '{tmp_path / 'other'}' are {wrong}. Name the model it was trained on with base=."
    )
    with pytest.raises(ConfigError, match=r"base= must be a folder or Hub id for '.*other'"):
        ShortcutGuardrail.from_pretrained(tmp_path / "other", base=model)


def test_a_base_saved_again_elsewhere_in_16_bit_or_in_shards_is_the_same(bert, texts, tmp_path):
    model, tokenizer = bert
    model.half().save_pretrained(tmp_path / "half")
    model.float().save_pretrained(tmp_path / "full", max_shard_size="10KB")
    for name in ("half", "full"):
        tokenizer.save_pretrained(tmp_path / name)
    assert len(list((tmp_path / "full").glob("*.safetensors"))) > 1
    guard = ShortcutGuardrail.from_pretrained(tmp_path / "half")
    guard.fit(texts, config=STRONG)
    guard.save_pretrained(tmp_path / "guarded")
    loaded = ShortcutGuardrail.from_pretrained(tmp_path / "guarded", base=tmp_path / "full")
    np.testing.assert_allclose(loaded.predict_proba(texts), guard.predict_proba(texts), atol=1e-6)


def test_a_base_that_was_named_by_a_relative_path_is_found_from_anywhere_and_moved(bert, texts, tmp_path, monkeypatch):
    folder = tmp_path / "project"
    for name in ("project", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(folder)
    for part in bert:
        part.save_pretrained("models/base")
    guard = ShortcutGuardrail.from_pretrained("models/base")
    assert "from models/base" in repr(guard)
    guard.fit(texts, config=STRONG)
    guard.save_pretrained("out/guarded")
    monkeypatch.chdir(tmp_path / "elsewhere")
    expected = guard.predict_proba(texts)

    def found(folder, name, **named):
        again = ShortcutGuardrail.from_pretrained(folder, **named)
        np.testing.assert_array_equal(again.predict_proba(texts), expected)
        assert again.record().base_model["name"] == str(name)

    found("../project/out/guarded", folder / "models/base")
    record = json.loads((folder / "out/guarded/guardrail.json").read_text())
    assert record["base_model"]["name"] == str(folder / "models/base")
    assert record["base_model"]["from_folder"] == os.path.join("..", "..", "models", "base")
    # Transformers finds it without this library.
    plain = AutoModelForSequenceClassification.from_pretrained(folder / "out/guarded")
    assert plain.name_or_path == str(folder / "models/base")
    moved = folder.rename(folder.parent / "moved")
    found(moved / "out/guarded", moved / "models/base")
    # A base that moved alone is asked for.
    (moved / "models").rename(moved / "elsewhere")
    with pytest.raises(ModelError, match=r"original model of '.*guarded' was not found.*with base="):
        ShortcutGuardrail.from_pretrained(moved / "out/guarded")
    found(moved / "out/guarded", moved / "elsewhere/base", base=moved / "elsewhere/base")


def test_a_model_in_memory_needs_its_base_named_unless_it_has_an_id(bert, texts, tmp_path):
    def saved(name):
        guard = ShortcutGuardrail(*bert)
        guard.fit(texts, config=STRONG)
        guard.save_pretrained(tmp_path / name)
        return guard

    guard = saved("guarded")
    with pytest.raises(ModelError, match=r"trained on a model in memory that had no name\. Name its base with base="):
        ShortcutGuardrail.from_pretrained(tmp_path / "guarded")
    loaded = ShortcutGuardrail.from_pretrained(tmp_path / "guarded", base=bert[0])
    np.testing.assert_allclose(loaded.predict_proba(texts), guard.predict_proba(texts), atol=1e-6)
    bert[0].name_or_path = "owner/model"
    saved("hub")
    base = json.loads((tmp_path / "hub/guardrail.json").read_text())["base_model"]
    assert (base["name"], base["from_folder"]) == ("owner/model", None)
