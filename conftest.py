"""Tiny models, built rather than downloaded, and what several test modules share.

PyTorch is imported where it is used: the process that only hands out tests to others would do so before these start.
"""

from __future__ import annotations

import copy
import csv
import gc
import os
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Before anything reads it: what is tiny gains nothing by a second thread, which waits by computing, and a third of all
# CPU time went to that.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

SHARED_DATA = Path(__file__).resolve().parents[1] / "shared" / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="run the tests that compare a GPU with the CPU, and no others")


def pytest_configure(config: pytest.Config) -> None:
    """Without --gpu the tests run on the CPU, whatever there is: their toys' digits do not survive a GPU's rounding."""
    if not config.getoption("--gpu"):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return
    import torch

    if not torch.cuda.is_available():
        raise pytest.UsageError("--gpu needs a GPU and a PyTorch that sees it.")


LONG = (
    *("test_first_hour", "test_properties", "test_whole_or_not", "test_demo", "test_store", "test_distributed"),
    *("test_patterns", "test_checkpoints", "test_fuzzing", "test_report_in_browser", "test_review_in_browser"),
)
"""Files that take longest. They come first, so that several processes end at about the same time."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in sorted(items, key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG)):
        chosen[(item.get_closest_marker("gpu") is not None) == config.getoption("--gpu")].append(item)
    config.hook.pytest_deselected(items=chosen[False])
    items[:] = chosen[True]


@pytest.fixture(scope="session", autouse=True)
def _few_threads():
    import torch

    # Tiny matrices: more threads only get in each other's way.
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _no_search_for_garbage():
    # Transformers' trainings begin with a full collection each, which goes through all that the libraries hold.
    from accelerate.utils import memory

    with mock.patch.object(memory, "gc"):
        yield


@pytest.fixture(scope="module", autouse=True)
def _little_garbage_to_look_for():
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the real data in {SHARED_DATA.parent.name}/{SHARED_DATA.name} beside the checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def _bert() -> tuple[Any, Any]:
    from tiny_models import tiny_bert

    return tiny_bert()


@pytest.fixture
def bert(_bert) -> tuple[Any, Any]:
    """A two-layer random BERT classifier with three classes, and its tokenizer; a copy for each test."""
    return copy.deepcopy(_bert[0]), _bert[1]


@pytest.fixture(scope="session")
def saved_guards(tmp_path_factory) -> Path:
    """A folder with a tiny classifier `base` and guards on it, which no test writes into; see `made_guards`."""
    from made_guards import make_guards

    return make_guards(tmp_path_factory.mktemp("guards"))


@pytest.fixture
def bag() -> tuple[Any, Any]:
    """A classifier whose logits are a sum over words, so that saliency is one line of algebra."""
    from tiny_models import planted_bag

    return planted_bag()


@pytest.fixture
def classifier(bag: tuple[Any, Any]) -> Any:
    """The same, as the library reads it."""
    from shortcut_guardrail.models import TextClassifier

    return TextClassifier(*bag)


@pytest.fixture(scope="session")
def family():
    """Builds a tiny classifier of a model family by name."""
    from tiny_models import build_family

    return build_family


@pytest.fixture
def texts() -> list[str]:
    from tiny_models import SHORTCUT_TEXTS

    return list(SHORTCUT_TEXTS)


@pytest.fixture(scope="session")
def model_folder(_bert, tmp_path_factory) -> Path:
    """The classifier of `bert` as `save_pretrained` writes it; not to be changed."""
    folder = tmp_path_factory.mktemp("models") / "base"
    _bert[0].save_pretrained(folder)
    _bert[1].save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium; without one its tests are skipped, but in CI they fail."""
    from browser import Browser, find_chromium

    executable = find_chromium()
    if executable is None:
        stop = pytest.fail if os.environ.get("CI", "").lower() == "true" else pytest.skip
        stop("needs Chromium (apt-get install chromium)")
    with Browser(executable) as running:
        yield running


@pytest.fixture
def cli(capsys):
    """Runs a command line in this process and gives its exit status, what it printed, and what it said on stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        from shortcut_guardrail.cli import main

        capsys.readouterr()
        status = main.call([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


@pytest.fixture
def ok(cli):
    """Runs a command line that has to succeed, and gives what it printed and what it said on stderr."""

    def call(*arguments: object) -> tuple[str, str]:
        status, out, err = cli(*arguments)
        assert status == 0, err
        return out, err

    return call


@pytest.fixture
def refused(cli):
    """Runs a command line that has to be refused, and gives the sentence after `error:`, the last thing said."""

    def call(*arguments: object) -> str:
        status, out, err = cli(*arguments)
        assert (status, out) == (2, ""), err
        assert "Traceback" not in err
        before, _, sentence = err.partition("error: ")
        assert "error" not in before
        return " ".join(sentence.split())

    return call


@pytest.fixture
def write_csv(tmp_path):
    """Writes rows to a CSV file in the test's folder."""

    def write(name: str, *rows: tuple[str, ...], header: tuple[str, ...] = ("text", "label")) -> Path:
        path: Path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
        return path

    return write
