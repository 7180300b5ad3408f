"""The table of kinds of models on the page, row by row."""

import re
import warnings

import numpy as np
import pytest

from checkout import ROOT
from shortcut_guardrail import GuardrailWarning, ShortcutGuardrail
from shortcut_guardrail.mitigation.scaling import takes_strength_of_each
from tiny_models import FAMILIES, MORE_FAMILIES, SHORTCUT_TEXTS, build_family

PAGE = (ROOT / "docs/howto/models.md").read_text(encoding="utf-8")
TABLE = [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in re.findall(r"^\| `.*\|$", PAGE, re.MULTILINE)]
COLUMNS, ROWS = TABLE[0], [row for row in TABLE[1:] if len(row) == len(TABLE[0])]
TEXTS = [f"{text} {more}" for text in SHORTCUT_TEXTS for more in ("again", "people")]
FAST = {"adapter": {"min_steps": 2, "max_steps": 2, "batch_size": 4}, "shortcuts": {"top_k": 2}}


def test_the_table_names_every_family():
    assert [row[0] for row in ROWS] == sorted([*FAMILIES, *MORE_FAMILIES])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_kind_of_model_does_what_the_table_says(row, tmp_path):
    told = dict(zip(COLUMNS, row, strict=True))
    model, tokenizer = build_family(told["model_type"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        guard = ShortcutGuardrail(model, tokenizer)
    assert ("warns" if any(w.category is GuardrailWarning for w in caught) else "yes") == told["audit"]
    report = guard.audit(TEXTS, top_k=2)
    for name in ("mask", "maskcl", "distill", "--per-input"):
        assert told[name] == "yes"
        config = {**FAST, "per_input": name == "--per-input"}
        how = {"shortcuts": ["honestly"], "report": report} if name != "maskcl" else {}
        if name == "mask":
            config = {"shortcuts": FAST["shortcuts"]}
        strategy = "distill" if name == "--per-input" else name
        guard.repair(TEXTS, strategy=strategy, strength=1.0, config=config, **how)
        guard.save_pretrained(tmp_path / name)
        again = ShortcutGuardrail.from_pretrained(tmp_path / name, base=model)
        np.testing.assert_allclose(again.predict_proba(TEXTS), guard.predict_proba(TEXTS), atol=1e-5)
    assert guard.evaluate(TEXTS[:4], [0, 1, 0, 1]).n == 4
    assert told["certify"] == "yes"
    guard.certify(TEXTS[:4], [0, 1, 0, 1], unlabelled=TEXTS)
    together = takes_strength_of_each(guard._fitted.guard.adapted)
    assert ("together" if together else "one by one") == told["strengths"]
