"""What several modules of the benchmark's tests share."""

from unittest import mock

import pytest

from methods_toy import make_material
from shortcut_bench.statistics import resample
from tiny_models import save_tiny_encoder


@pytest.fixture(scope="module")
def few_resamples():
    """Two hundred do for intervals that have to hold a mean; whether these are right is asked in `test_statistics`."""
    with mock.patch.dict(resample.__kwdefaults__, resamples=200):
        yield


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """A pretrained encoder without a head: two random layers."""
    return str(save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny-bert", n_classes=2))


@pytest.fixture(scope="session")
def material(encoder):
    """The toy's material, which methods leave as it is."""
    return make_material(encoder)
