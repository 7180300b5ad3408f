"""The data sets of the benchmark as code: `build` makes each of them by name, `from_file` one of a user's own data.

Every builder reads files from a folder or the Hub, cuts texts to a number of tokens before anything else is done with
them, and draws with one generator, so that the same seed gives the same sets. None of them changes what it reads.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from shortcut_guardrail.errors import ConfigError

from .amazon import build_amazon_testbed
from .civil import build_civil, build_civil_controlled
from .inserted import ST, SYN, build_goemotions, build_yelp
from .mnli import build_mnli, build_mnli_controlled
from .options import BuildOptions
from .own import from_file
from .sst2 import build_sst2
from .types import HIDDEN_GROUP, TEST_NAMES, BenchmarkData, DataCard, LabelledTexts, OverlappingGroups

__all__ = [
    "DATASETS",
    "HIDDEN_GROUP",
    "TEST_NAMES",
    "BenchmarkData",
    "BuildOptions",
    "DataCard",
    "LabelledTexts",
    "OverlappingGroups",
    "build",
    "dataset_settings",
    "from_file",
]

Builder = Callable[..., BenchmarkData]

DATASETS: dict[str, Builder] = {
    "amazon-testbed": build_amazon_testbed,
    "sst2": build_sst2,
    "civil": build_civil,
    "mnli": build_mnli,
    "goemo-st": partial(build_goemotions, variant=ST),
    "goemo-syn": partial(build_goemotions, variant=SYN),
    "yelp-st": partial(build_yelp, variant=ST),
    "yelp-syn": partial(build_yelp, variant=SYN),
    "civil-controlled": build_civil_controlled,
    "mnli-controlled": build_mnli_controlled,
}
"""The builders by name; each takes `BuildOptions` and its own settings by keyword."""


def build(
    name: str,
    *,
    data_dir: Path | None,
    seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
    max_tokens: int | None = None,
    tokenizer: Any = None,
    **settings: Any,
) -> BenchmarkData:
    """Builds a data set by name.

    Args:
        name: One of `DATASETS`.
        data_dir: The folder with the data, one folder in it for each source; None reads from the Hub.
        seed: Decides every draw; the same seed gives the same sets.
        n_train: Number of training texts; None for as many as the data allow. About a tenth as many are set apart for
            development.
        n_test: Number of texts in each test set; None for as many as the data allow.
        max_tokens: Cut every text to so many tokens, special tokens included, before groups are formed and shortcuts
            inserted; inserted words stay within it.
        tokenizer: The fast Transformers tokenizer that counts them; needed with `max_tokens`.
        settings: What the builder has besides: `dataset_settings` lists it.

    Raises:
        ConfigError: The name or a setting is unknown, or a value is out of range.
        DataError: The folder, a file or a column is missing, or there are too few rows of some group.
    """
    known = dataset_settings(name)
    unknown = [setting for setting in settings if setting not in known]
    if unknown:
        has = f"it has {', '.join(known)}" if known else "it has none"
        raise ConfigError(
            f"The data set '{name}' has no setting {', '.join(unknown)}; {has}.{_near(unknown[0], known)}"
        )
    options = BuildOptions(None if data_dir is None else Path(data_dir), seed, n_train, n_test, max_tokens, tokenizer)
    return DATASETS[name](options, **settings)


def dataset_settings(name: str) -> dict[str, Any]:
    """The settings a data set has beside the common ones, with their defaults.

    Raises:
        ConfigError: There is no such data set.

    Example:
        >>> dataset_settings("amazon-testbed")
        {'proportion': 0.1, 'correlation': 1.0}
    """
    if name not in DATASETS:
        raise ConfigError(f"There is no data set '{name}'; there are {', '.join(DATASETS)}.{_near(name, DATASETS)}")
    parameters = inspect.signature(DATASETS[name]).parameters
    return {key: value.default for key, value in parameters.items() if key not in ("options", "variant")}


def _near(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name.lower(), list(known), n=2, cutoff=0.5)
    return f" Did you mean {' or '.join(repr(match) for match in near)}?" if near else ""
