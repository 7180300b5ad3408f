"""Several processes on one task, each on its share of the texts, with the result of a single one.

Everything here also runs, and does nothing, where `torch.distributed` has not been set up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..errors import ConfigError, RunError
from ..typing import Array, Progress

Result = TypeVar("Result")

_apart = ContextVar("_apart", default=False)  # whether this process works for itself, though others run beside it
_LONGEST_START = timedelta(minutes=30)  # for all to come together; who never comes is noticed by nothing else
_LONGEST_WAIT = timedelta(days=30)  # for a process with more to do; one that ends is noticed at once


def n_processes() -> int:
    """How many processes work together; 1 without `torch.distributed`."""
    joined = dist.is_available() and dist.is_initialized() and not _apart.get()
    return dist.get_world_size() if joined else 1


def own_rank() -> int:
    """This process's number, from 0."""
    return dist.get_rank() if n_processes() > 1 else 0


def check_alone(what: str, otherwise: str = "Start it by itself.") -> None:
    """Refuse to be one of several processes, where `what`, the subject of a sentence, is done by one."""
    if max(n_processes(), int(os.environ.get("WORLD_SIZE", "1"))) > 1:
        raise ConfigError(
            f"{what} is done by one process, but this is one of several that torchrun or accelerate started. "
            f"{otherwise}"
        )


def own_share(n: int) -> slice:
    """Which of n items are this process's: every `n_processes`-th, so that neighbours of one length spread out."""
    return slice(own_rank(), n, n_processes())


@contextmanager
def apart() -> Iterator[None]:
    """Within the block this process works for itself: nothing is shared with others."""
    before = _apart.set(True)
    try:
        yield
    finally:
        _apart.reset(before)


def by_turns(n: int, work: Callable[[int], Result]) -> list[Result]:
    """What each of n pieces of some work gives, in their order, in every process; each does every `n_processes`-th.

    A piece is done by one process and nobody shares in it, so the result is that of a single process, bit for bit.

    Raises:
        RunError: Another process ended before all were done.
    """
    world, own = n_processes(), range(n)[own_share(n)]
    with apart():
        done = [work(i) for i in own]
    if world == 1:
        return done
    parts: list[Any] = [None] * world
    with _others():
        dist.all_gather_object(parts, done)
    return [parts[i % world][i // world] for i in range(n)]


def rows_by_turns(
    n: int, size: int, work: Callable[[Array, Progress | None], tuple[Array, ...]], progress: Progress | None
) -> list[Array]:
    """Arrays over n rows, n > 0, from what `work` gives for at most `size` of them at a time; see `by_turns`."""
    pieces = [np.arange(start, min(start + size, n)) for start in range(0, n, size)]
    # Who answers equal texts once has an end of its own.
    told = [progress_from(i * size, n, progress) if len(pieces) > 1 else progress for i in range(len(pieces))]
    parts = by_turns(len(pieces), lambda i: work(pieces[i], told[i]))
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def progress_from(start: int, total: int, progress: Progress | None) -> Progress | None:
    """Progress of a piece that begins at `start` of the whole."""
    if progress is None:
        return None
    return lambda stage, done, _n: progress(stage, start + done, total)


def wait_for_others() -> None:
    """Go on when all processes have come as far; a `RunError` where one ended before."""
    if n_processes() > 1:
        with _others():
            dist.barrier()


def check_same(what: str, own: str) -> None:
    """Refuse to share work where the processes differ in `what`, of which `own` is this one's hash.

    Raises:
        RunError: They differ, or another process ended before.
    """
    hashes = by_turns(n_processes(), lambda _: own)
    if len({*hashes}) > 1:
        raise RunError(
            f"The processes do not have the same {what}. Give all the same files, let nothing write to those "
            "meanwhile, and start all again."
        )


@contextmanager
def _others() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # a connection that is closed, of several libraries
        raise RunError(
            "Another of the processes ended too early. See what it says, and start all again, an audit in shards with "
            "resume=True."
        ) from error


def gather_shares(own: Tensor, n: int) -> Tensor:
    """All n items, in their order, from every process's share of them, shape (n_own, ...).

    The part of the result that is this process's own keeps its graph; the others' parts are constants. A loss over all
    items therefore has, in each process, the gradient by its own items alone, and the sum over processes
    (`sum_gradients`) is the whole gradient.
    """
    world = n_processes()
    if world == 1:
        return own
    padded = own.new_zeros((-(-n // world), *own.shape[1:]))
    padded[: len(own)] = own.detach()
    parts = [torch.empty_like(padded) for _ in range(world)]
    dist.all_gather(parts, padded)
    everything = own.new_zeros((n, *own.shape[1:]))
    for rank, part in enumerate(parts):
        everything[rank::world] = part[: len(range(rank, n, world))]
    everything[own_share(n)] = own
    return everything


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Add up the processes' gradients; one that is missing counts as zero."""
    if n_processes() == 1:
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)


@contextmanager
def joined() -> Iterator[None]:
    """Within the block, processes that `torchrun` or `accelerate launch` started work together; one goes on alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or dist.is_initialized():
        yield
        return
    from torch.distributed.rendezvous import rendezvous

    try:
        store, rank, world = next(iter(rendezvous("env://", timeout=_LONGEST_START)))
    except dist.DistError as error:
        raise RunError(
            f"The {os.environ['WORLD_SIZE']} processes that are to work together did not find each other: {error}. See "
            "what the others say, and start all again."
        ) from error
    dist.init_process_group(_backend(), store=store, rank=rank, world_size=world, timeout=_LONGEST_WAIT)
    try:
        yield
        # Whoever is done first waits: to leave while others still talk can end a process in PyTorch's threads.
        wait_for_others()
    finally:
        dist.destroy_process_group()


def _backend() -> str:
    """How the processes of `joined` talk; takes this one's GPU on the way, which others may have to share.

    NCCL refuses two processes on one GPU, and tensors that `--device cpu` left on the CPU; Gloo takes both. Each
    machine decides for itself, so all of several have to have enough GPUs, or too few.
    """
    gpus = torch.cuda.device_count()
    if gpus == 0:
        return "gloo"
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", os.environ["RANK"])) % gpus)
    here = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))
    return "cpu:gloo,cuda:nccl" if here <= gpus else "gloo"
