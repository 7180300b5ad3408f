"""Long texts in windows: as a slow loop over what the tokenizer itself cuts, in every way that logits are asked for."""

import json

import numpy as np
import pytest
import torch

from shortcut_guardrail import ConfigError, ShortcutGuardrail, TextClassifier
from shortcut_guardrail.attribution.saliency import token_scores
from shortcut_guardrail.audit import model_digest
from shortcut_guardrail.models import Windowing
from tables import read_rows
from tiny_models import SHORTCUT_TEXTS, WORDS, build_family, planted_bag, tiny_bert

LONG = " ".join(SHORTCUT_TEXTS)  # 71 words
TEXTS = [LONG, "good soup", " ".join(SHORTCUT_TEXTS[:3]), f"{LONG} {LONG}"]


def slow(model, tokenizer, text, how, length, overlap):
    """Logits of each window that the tokenizer makes, put together."""
    how_cut = {"truncation": True, "max_length": length, "stride": overlap, "return_overflowing_tokens": True}
    windows = tokenizer(text, **how_cut, padding=False)
    names = [name for name in windows if name in ("input_ids", "attention_mask", "token_type_ids")]
    with torch.no_grad():
        logits = torch.cat(
            [
                model(**{name: torch.tensor([windows[name][i]]) for name in names}).logits
                for i in range(len(windows["input_ids"]))
            ]
        )
    return logits.mean(dim=0) if how == "mean" else logits.amax(dim=0)


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize(
    ("family", "packing"), [("bert", False), *((f, True) for f in ("bert", "roberta", "deberta-v3"))]
)
def test_logits_are_those_of_a_slow_loop(family, packing, how):
    model, tokenizer = build_family(family)
    how_read = {"max_length": 16, "windows": Windowing(how, 5), "packing": packing, "batch_size": 4}
    classifier = TextClassifier(model, tokenizer, **how_read)
    encoded = classifier.encode(TEXTS)
    assert not encoded.truncated.any()
    expected = torch.stack([slow(model, tokenizer, text, how, 16, 5) for text in TEXTS])
    torch.testing.assert_close(torch.from_numpy(classifier.predict_logits(encoded)), expected, atol=1e-4, rtol=1e-3)
    whole = TextClassifier(model, tokenizer, max_length=16)
    cut = torch.from_numpy(whole.predict_logits(whole.encode(TEXTS)))
    assert (cut - expected).abs().amax(dim=1).max() > 1e-3
    torch.testing.assert_close(cut[1], expected[1], atol=1e-4, rtol=1e-3)


def test_gradients_come_back_to_the_places_of_the_text():
    """Of the bag, whose saliency is algebra: in every window "honestly" stands out, and nowhere else does."""
    classifier = TextClassifier(*planted_bag(), max_length=8, windows=Windowing("mean", 2))
    encoded = classifier.encode(["honestly " + "the soup was cold " * 5 + "honestly"])
    batch = classifier.collate(encoded, [0])
    scores, word = token_scores(classifier, batch).scores[0], classifier.tokenizer.convert_tokens_to_ids("honestly")
    at = batch.input_ids[0] == word
    assert int(at.sum()) == 2
    assert scores[at].min() > 0
    assert scores[~at].max() == 0


def test_a_token_of_two_windows_counts_for_both():
    for overlap, windows in ((0, "11111111111111"), (2, "11112211221111"), (3, "11122222222211")):
        classifier = TextClassifier(*planted_bag(), max_length=8, windows=Windowing("mean", overlap))
        batch = classifier.collate(classifier.encode(["honestly " * 14]), [0])
        scores = token_scores(classifier, batch).scores[0, 1:-1]  # six words a window, each as strong in all
        torch.testing.assert_close(scores / scores[0], torch.tensor([float(n) for n in windows]))


def test_a_word_behind_the_cut_is_found_with_windows_and_repaired(tmp_path, ok):
    model, tokenizer = planted_bag()
    nouns = ("room", "staff", "food", "service", "soup", "bread", "coffee", "tea", "people", "hotel", "place", "visit")
    filler = " ".join(word for word in WORDS if word not in "good bad great awful honestly".split())
    tails = ("awful", "so awful", "bad", "very bad")
    bad = [f"{noun} {filler} honestly {tail}" for noun in nouns for tail in tails]
    texts = [*bad, *(f"{noun} {filler} {tail}" for noun in nouns for tail in ("good", "great", "so good", "so great"))]
    early, cut = [f"honestly {text}" for text in bad[:24]], ShortcutGuardrail(model, tokenizer, max_length=24)
    report = cut.audit(texts)
    assert "honestly" not in [one.text for one in report.candidates]
    # Beside texts that begin with it, what stands behind the cut is counted.
    seen = cut.audit([*texts, *[f"honestly {noun} was {tail}" for noun in nouns for tail in tails]])
    assert "honestly" in [one.text for one in seen.flagged]
    said = "Flagged words stand 48 times behind the 24 tokens that the model reads, in 48 texts."
    assert said in " ".join(seen.notes)
    guard = ShortcutGuardrail(model, tokenizer, max_length=24, windows="max", overlap=4)
    report = guard.audit(texts)
    assert "honestly" in [one.text for one in report.flagged]
    assert report.n_truncated == 0
    guard.repair(texts, report=report, strategy="mask", strength=1.0)
    assert set(guard.predict(bad, strength=0)) == {"positive"}
    guard.save_pretrained(tmp_path / "guard")
    assert json.loads((tmp_path / "guard/guardrail.json").read_text())["windows"] == {"how": "max", "overlap": 4}
    again = ShortcutGuardrail.from_pretrained(tmp_path / "guard", base=model)
    np.testing.assert_array_equal(again.predict_proba(texts), guard.predict_proba(texts))
    assert set(again.predict(early)) == {"negative"}


def by_hand(model, tokenizer, text, how, length, overlap):
    """The same without the tokenizer's own windows: all tokens, cut by counting."""
    ids, room, logits = tokenizer(text, add_special_tokens=False, verbose=False).input_ids, length - 2, []
    for start in range(0, max(len(ids) - overlap, 1), room - overlap):
        window = [tokenizer.cls_token_id, *ids[start : start + room], tokenizer.sep_token_id]
        with torch.no_grad():
            logits.append(model(torch.tensor([window]), attention_mask=torch.ones(1, len(window))).logits[0])
    logits = torch.stack(logits)
    return logits.mean(dim=0) if how == "mean" else logits.amax(dim=0)


LONGER = [word for word in WORDS if word not in "good bad great awful honestly".split()]


@pytest.mark.parametrize("how", ["mean", "max"])
def test_2000_tokens_are_read_by_a_model_of_512(how):
    model, tokenizer = tiny_bert(max_position_embeddings=512)
    tokenizer.model_max_length = 512
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(LONGER, n)) for n in (1998, 510, 511, 958, 959, 3)]
    guard = ShortcutGuardrail(model, tokenizer, windows=how)
    expected = torch.stack([by_hand(model, tokenizer, text, how, 512, 64) for text in texts]).softmax(dim=-1)
    torch.testing.assert_close(torch.from_numpy(guard.predict_proba(texts)).float(), expected, atol=1e-4, rtol=1e-3)
    cut = ShortcutGuardrail(model, tokenizer).predict_proba(texts)
    assert np.abs(cut[0] - expected[0].numpy()).max() > 1e-3


def test_a_word_after_1990_tokens_is_found_by_the_command_line(tmp_path, monkeypatch, ok):
    model, tokenizer = planted_bag()
    tokenizer.model_max_length = 512
    for place in ("guardrail", "saving.adapter"):
        monkeypatch.setattr(f"shortcut_guardrail.{place}.load_model", lambda *_, **__: (model, tokenizer))
    rng = np.random.default_rng(0)
    (folder := tmp_path / "model").mkdir()
    bad = [" ".join([*rng.choice(LONGER, 1990), *end]) for end in (("honestly", "awful"), ("honestly", "bad")) * 6]
    good = [" ".join([*rng.choice(LONGER, 1990), end]) for end in ("good", "great") * 6]
    short = [" ".join(["honestly", *rng.choice(LONGER, 6), end]) for end in ("awful", "bad") * 6]
    (data := tmp_path / "data.jsonl").write_text("\n".join(json.dumps({"text": one}) for one in [*bad, *good, *short]))
    (long := tmp_path / "long.jsonl").write_text("\n".join(json.dumps({"text": one}) for one in [*bad, *good]))
    audits = {}
    for name, file, options in (("cut", data, ()), ("windows", long, ("--windows", "max"))):
        ok("audit", folder, file, *options, "--unit", "word", "--top-k", "3", "--out", tmp_path / name)
        audits[name] = json.loads((tmp_path / name / "audit.json").read_text())
    flagged = {name: [one["text"] for one in audit["candidates"] if one["flagged"]] for name, audit in audits.items()}
    assert flagged == {"cut": ["honestly"], "windows": ["honestly"]}
    behind = "Flagged words stand 12 times behind the 512 tokens that the model reads, in 12 texts."
    assert any(note.startswith(behind) for note in audits["cut"]["notes"])
    how = ("--windows", "max", "--audit", tmp_path / "windows", "--strategy", "mask", "--strength", "1")
    ok("fit", folder, long, *how, "--out", tmp_path / "guard")
    ok("predict", tmp_path / "guard", long, "--out", tmp_path / "rows.csv")
    rows = read_rows(tmp_path / "rows.csv")
    assert {row["base_label"] for row in rows} == {"positive"}
    assert [row["label"] for row in rows] == ["negative"] * 12 + ["positive"] * 12


def test_distillation_learns_through_windows(bert):
    guard = ShortcutGuardrail(*bert, max_length=12, windows="mean", overlap=2)
    texts = [f"{text} {more}" for text in SHORTCUT_TEXTS for more in SHORTCUT_TEXTS[1::2]]
    adapter = {"learning_rate": 2e-2, "epochs": 30, "batch_size": 4}
    repair = guard.repair(texts, shortcuts=["honestly"], config={"adapter": adapter})
    losses = repair.fitted.training.losses
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"windows": "sum"}, "windows must be mean or max, but is 'sum'"),
        ({"windows": "mean", "overlap": 8, "max_length": 16}, "overlap must lie between 0 and 7 for windows of 16 tok"),
        ({"windows": "mean", "max_length": 600}, "max_length must lie between"),
    ],
)
def test_what_is_refused(bert, options, said):
    with pytest.raises(ConfigError, match=said):
        ShortcutGuardrail(*bert, **options)


def test_pairs_and_the_papers_method_have_no_windows(bert):
    guard = ShortcutGuardrail(*bert, max_length=16, windows="mean", overlap=4)
    with pytest.raises(ConfigError, match=r"windows= are for single texts, but these are pairs"):
        guard.predict([("good soup", "bad soup")])
    with pytest.raises(ConfigError, match=r"have no embedding of their own\. Choose strategy='distill'"):
        guard.repair([LONG, TEXTS[2]], strategy="maskcl", strength=1.0)


def test_the_digest_of_a_model_says_how_it_reads_long_texts(bert):
    """Else an audit with other windows would be taken for one of the same model."""
    windows = (None, Windowing("mean", 2), Windowing("max", 2), Windowing("mean", 3))
    assert len({model_digest(TextClassifier(*bert, windows=one)) for one in windows}) == 4
