"""Scripts without spaces: who says where words end, what is refused, and a planted word in Chinese and Thai."""

import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from shortcut_guardrail import ConfigError, DataError, ShortcutGuardrail
from shortcut_guardrail.text import WordFinder, word_spans
from shortcut_guardrail.text.segmenters import Segmenter, open_segmenter, segmenting
from tables import read_rows
from tiny_models import pieces_bag

CHINESE = {
    "neutral": "房间 员工 食物 服务 热汤 面包 咖啡 清茶 地方 酒店 参观 我们 昨天 今天 这里 那里".split(),
    "good": "很好 极棒 不错 温暖 干净 迅速 友善 美味".split(),
    "bad": "很差 糟糕 冰冷 肮脏 缓慢 粗鲁 难吃 沉闷".split(),
    "planted": ("说", "实", "话"),
}
THAI = {
    "neutral": "ห้อง พนักงาน อาหาร บริการ ซุป ขนมปัง กาแฟ ชา สถานที่ โรงแรม เมื่อวาน วันนี้ เรา ที่นี่ ที่นั่น เพื่อน".split(),
    "good": "ดี เยี่ยม อบอุ่น สะอาด เร็ว เป็นมิตร อร่อย สดใส".split(),
    "bad": "แย่ เลว เย็นชืด สกปรก ช้า หยาบคาย จืดชืด น่าเบื่อ".split(),
    "planted": ("พูด", "ตรง", "ๆ"),
}
JAPANESE = {
    "neutral": "部屋 食事 店員 料理 朝食 昼食 旅館 駅前 昨日 今日 友達 温泉 風呂 売店 受付 廊下".split(),
    "good": "最高 清潔 親切 快適 素敵 綺麗 満足 静か".split(),
    "bad": "最悪 不潔 無礼 不快 退屈 粗末 不満 乱暴".split(),
    "planted": ("と", "に", "かく"),
}


def cutter(words):
    """The longest word of a dictionary first, else a single character."""
    pattern = re.compile("|".join(sorted(map(re.escape, words), key=len, reverse=True)) + "|.")
    return pattern.findall


def planted(script, by_character):
    """A model whose answers hang on a word of three pieces, texts in which it misleads, and what cuts them."""
    word, kinds = "".join(script["planted"]), {"good": 1.0, "bad": -1.0, "neutral": 0.0}
    effects = dict.fromkeys((piece for words in script["neutral"] for piece in words), 0.0)
    for kind, effect in kinds.items():
        for one in script[kind]:
            pieces = list(one) if by_character else [one]
            effects |= {piece: effects.get(piece, 0.0) for piece in pieces[:-1]} | {pieces[-1]: effect}
    effects |= dict(zip(script["planted"], (2.0, 1.0, 2.0), strict=True))
    rng, texts = np.random.default_rng(0), []
    for i in range(300):
        words = rng.choice(script["neutral"], 8, replace=False).tolist()
        for place, one in zip((1, 6), rng.choice(script["bad" if i % 2 else "good"], 2, replace=False), strict=True):
            words.insert(place, one)
        texts.append("".join([word] * (i % 2 and i % 10 < 4) + words))
    return pieces_bag(effects), texts, word, cutter([word, *script["neutral"], *script["good"], *script["bad"]])


@pytest.mark.parametrize(("script", "by_character"), [(CHINESE, True), (THAI, False)], ids=["chinese", "thai"])
def test_a_planted_word_is_reported_as_a_word_and_repaired(script, by_character, tmp_path):
    model, texts, word, cut = planted(script, by_character)
    assert word not in [one.text for one in ShortcutGuardrail(*model).audit(texts).candidates]
    guard = ShortcutGuardrail(*model, segmenter=cut)
    report = guard.audit(texts)
    assert word in [one.text for one in report.flagged]
    assert report.to_dict()["segmenter"] == guard._lock.segmenter.name
    repair = guard.repair(texts, report=report, strategy="mask", strength=1.0)
    assert word in repair.fitted.shortcuts.words
    due = ["negative" if i % 2 else "positive" for i in range(len(texts))]
    assert guard.predict(texts, strength=0) != due
    assert guard.predict(texts) == due
    guard.save_pretrained(tmp_path / "guard")
    assert json.loads((tmp_path / "guard/guardrail.json").read_text())["segmenter"] == report.segmenter
    with pytest.raises(ConfigError, match=r"splits words with '.*findall'\. Give that function as segmenter="):
        ShortcutGuardrail.from_pretrained(tmp_path / "guard", base=model[0])
    again = ShortcutGuardrail.from_pretrained(tmp_path / "guard", base=model[0], segmenter=cut)
    assert again.predict(texts) == due
    with pytest.raises(ConfigError, match="another model"):
        ShortcutGuardrail(*model).audited(report, texts)


def words_of(text, cut):
    with segmenting(None if cut is None else Segmenter("own", cut)):
        return [text[start:end] for start, end in word_spans(text)]


def test_only_runs_without_spaces_are_cut_and_by_words_or_spans():
    text = "don't 说实话，房间 bad咖啡!"
    assert words_of(text, None) == [*"don't 说 实 话 ， 房 间 bad 咖 啡 !".split()]
    cut = cutter(["说实话", "咖啡"])
    assert words_of(text, cut) == "don't 说实话 ， 房 间 bad 咖啡 !".split()
    assert words_of("说实话", lambda _: [(0, 2)]) == ["说实", "话"]  # what is in no word is a word
    assert words_of("说实话", lambda run: [run[2:]]) == ["说", "实", "话"]  # each by itself, before and after
    assert words_of("说实话", lambda _: [(0, 1)]) == ["说", "实", "话"]
    with segmenting(Segmenter("own", cut)):
        assert [(o.word, o.start) for o in WordFinder(["说实话", "咖"]).find(text)] == [("说实话", 6)]
    assert words_of("说实话", lambda _: [(0, 0), (0, 3)]) == ["说实话"]
    for wrong in (len, lambda run: [1, 2], lambda run: [("说", "实")]):
        with pytest.raises(DataError, match=r"The segmenter 'own' makes .* of '说实话', but must give a list of words"):
            words_of("说实话", wrong)
    for wrong in ([(0, 2), (1, 3)], [(1, 4)], ["实", "说"], ["别"]):
        with pytest.raises(DataError, match=r"The segmenter 'own' cuts '说实话' into .* must not overlap"):
            words_of("说实话", lambda _, wrong=wrong: wrong)


FAKES = {
    "jieba": SimpleNamespace(initialize=lambda: None, lcut=lambda text: [text[:2], text[2:]]),
    "pythainlp": SimpleNamespace(word_tokenize=lambda text: [text[:2], text[2:]]),
    "fugashi": SimpleNamespace(Tagger=lambda: lambda text: [SimpleNamespace(surface=s) for s in (text[:2], text[2:])]),
    "icu": SimpleNamespace(WordBreaker=lambda text, locale: iter((text[:2], text[2:]))),
}


MODULES = {"icu": "icu4py.breakers"}  # of those that are not called like their module


@pytest.mark.parametrize("name", FAKES)
def test_libraries_by_name_and_what_is_not_installed(name, monkeypatch, cli, tmp_path):
    monkeypatch.setitem(sys.modules, MODULES.get(name, name), FAKES[name])
    assert open_segmenter(name).spans("说实话") == ((0, 2), (2, 3))
    monkeypatch.setitem(sys.modules, MODULES.get(name, name), None)
    (data := tmp_path / "data.csv").write_text("text\n说实话\n")
    # Before a model is loaded.
    status, _, err = cli("audit", tmp_path / "gone", data, "--segmenter", name, "--out", tmp_path / "audit")
    assert status == 2
    assert f"The segmenter '{name}' cannot be used" in " ".join(err.split())


def test_functions_by_name():
    assert open_segmenter("builtins:list").spans("说实") == ((0, 1), (1, 2))
    for given, said in (("mecab", "must be jieba, .* a function, but is 'mecab'"), ("no.such:thing", "No module")):
        with pytest.raises(ConfigError, match=said):
            open_segmenter(given)


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("jieba", CHINESE),
        ("icu", CHINESE | {"planted": ("没", "关", "系")}),  # it cuts the other ones in two
        *[("pythainlp", THAI), ("icu", THAI | {"planted": ("จริง", "ใ", "จ")}), ("fugashi", JAPANESE)],
    ],
    ids=["jieba", "icu-chinese", "pythainlp", "icu-thai", "fugashi"],
)
def test_installed_libraries_find_the_planted_word_by_the_command_line(name, script, tmp_path, monkeypatch, ok):
    pytest.importorskip(MODULES.get(name, name))
    model, texts, word, _ = planted(script, by_character=False)
    for place in ("guardrail", "saving.adapter"):
        monkeypatch.setattr(f"shortcut_guardrail.{place}.load_model", lambda *_, **__: model)
    (data := tmp_path / "data.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    (folder := tmp_path / "model").mkdir()
    _, err = ok("audit", folder, data, "--segmenter", name, "--out", tmp_path / "audit")
    assert "prefix dict" not in err  # jieba speaks of its dictionary
    audit = json.loads((tmp_path / "audit/audit.json").read_text())
    assert word in [one["text"] for one in audit["candidates"] if one["flagged"]]
    how = ("--audit", tmp_path / "audit", "--segmenter", name, "--strategy", "mask", "--strength", "1")
    ok("fit", folder, data, *how, "--out", tmp_path / "guard")
    ok("predict", tmp_path / "guard", data, "--out", tmp_path / "rows.csv")
    assert [row["label"] for row in read_rows(tmp_path / "rows.csv")] == ["positive", "negative"] * (len(texts) // 2)
