"""Files of numbers, for the next command: NumPy archives without pickles, with some words about them."""

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import DataError
from ..typing import Array


def numbers_file(about: Mapping[str, Any], **arrays: Array) -> bytes:
    """The content of a file with some arrays, and what is said about them, as JSON has it."""
    buffer, said = io.BytesIO(), np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez_compressed(buffer, allow_pickle=False, about=said, **arrays)
    return buffer.getvalue()


def read_numbers(content: bytes, source: str, *, advice: str = "") -> tuple[dict[str, Any], dict[str, Array]]:
    """What is said in such a file, and its arrays, by name."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        return dict(json.loads(arrays.pop("about").tobytes())), arrays
    except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{source} is damaged or was written by another version: {error}. {advice}".rstrip()) from error
