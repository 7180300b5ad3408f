"""The command line in this process or in several of their own."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from shortcut_guardrail.cli.main import call

PROGRAM = """
import json, os, sys
from shortcut_guardrail.cli.main import call
for port, arguments in json.loads(sys.argv[1]):
    os.environ["MASTER_PORT"] = str(port)
    assert call(arguments) == 0
"""
"""Runs one command line after another, for which it imports everything once."""


def fits(model_folder: Path, data: str | Path, out: Path, variants: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Command lines that fit, each with some options into a folder of its own in `out`."""
    start = ["fit", str(model_folder), str(data), "--strategy", "maskcl", "--strength", "1"]
    start += ["--set", "adapter.epochs=2", "--set", "adapter.batch_size=3"]
    return [[*start, "--out", str(out / name), *more] for name, more in variants.items()]


def run(processes: int, commands: list[list[str]]) -> None:
    """Run command lines, the first process of several printing what is printed."""
    if processes == 1:
        assert [call(arguments) for arguments in commands] == [0] * len(commands)
        return
    with ExitStack() as held:
        free = [held.enter_context(socket.socket()) for _ in commands]
        for one in free:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in free]
    program = [sys.executable, "-c", PROGRAM, json.dumps(list(zip(ports, commands, strict=True)))]
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(program, env={**common, "RANK": str(rank)}, **pipes) for rank in range(processes)]
    printed = [process.communicate(timeout=240) for process in running]
    assert all(process.returncode == 0 for process in running), printed
    assert [bool(out_text) for out_text, _ in printed] == [True] + [False] * (processes - 1)
