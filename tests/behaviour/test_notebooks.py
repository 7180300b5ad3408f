"""The notebooks, on the demo's own model and files: what they show is what they hold."""

from __future__ import annotations

import nbformat
import pytest

import notebooks
from first_hour import check_output, place_in


@pytest.mark.slow
def test_the_notebooks_show_what_they_hold(tmp_path, shared_folder, monkeypatch):
    place = place_in(tmp_path, shared_folder)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for file in sorted(notebooks.NOTEBOOKS.glob("*.ipynb")):
        shown = notebooks.run(file, folder=place)
        for said, printed in zip(notebooks.printed(nbformat.read(file, 4)), notebooks.printed(shown), strict=True):
            check_output(said, printed)
