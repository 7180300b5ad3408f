"""Runs the notebooks on the demo's model and files, and keeps what they show.

    make demo
    python docs/tools/notebooks.py --demo demo-output

Each is run from top to bottom, in an empty folder that they share, and written back with its outputs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"


def run(notebook: Path, *, folder: Path) -> Any:
    """The notebook with its outputs, but for what it says on standard error.

    Args:
        notebook: Its file, which stays as it is.
        folder: Where it runs; `demo-output` in it is what `shortcut-guardrail demo` wrote.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
    """
    book = nbformat.read(notebook, as_version=4)
    client = NotebookClient(book, timeout=1800, resources={"metadata": {"path": str(folder)}})
    # The commands in them are those of this Python.
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    book = client.execute(env=os.environ | {"SHORTCUT_GUARDRAIL_DEMO": "demo-output", "PATH": commands})
    for cell in book.cells:
        cell.metadata.pop("execution", None)  # when each cell ran
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return book


def printed(book: Mapping[str, Any]) -> list[str]:
    """What its cells print or show as plain text, one after the other, but for those tagged `texts`: which texts are
    shown as examples differs by processor."""
    shown = []
    for cell in book["cells"]:
        if "texts" in cell["metadata"].get("tags", ()):
            continue
        for output in cell.get("outputs", ()):
            if output["output_type"] == "stream":
                shown.append(output["text"])
            elif output["output_type"] == "execute_result":
                shown.append(output["data"]["text/plain"])
    return shown


def main() -> None:
    """Run all of them, in the order of their names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, required=True, help="Folder that the demo wrote.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # No link: the guard tells where its model really is.
        shutil.copytree(args.demo, Path(folder) / "demo-output")
        for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
            nbformat.write(run(notebook, folder=Path(folder)), notebook)
            print(notebook.name)


if __name__ == "__main__":
    main()
