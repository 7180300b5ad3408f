"""Several processes on one task, each on its share of the texts, with the result of a single one.

Everything here also runs, and does nothing, where `torch.distributed` has not been set up.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..errors import ConfigError


def n_processes() -> int:
    """How many processes work together; 1 without `torch.distributed`."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def own_rank() -> int:
    """This process's number, from 0."""
    return dist.get_rank() if n_processes() > 1 else 0


def check_alone(what: str) -> None:
    """Refuse to be one of several processes, where `what`, the subject of a sentence, is done by one."""
    if max(n_processes(), int(os.environ.get("WORLD_SIZE", "1"))) > 1:
        raise ConfigError(
            f"{what} is done by one process, but this is one of several that torchrun or accelerate started. Start it "
            "by itself."
        )


def own_share(n: int) -> slice:
    """Which of n items are this process's: every `n_processes`-th, so that neighbours of one length spread out."""
    return slice(own_rank(), n, n_processes())


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
    dist.init_process_group(_backend())
    try:
        yield
        # Whoever is done first waits: to leave while others still talk can end a process in PyTorch's threads.
        dist.barrier()
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
