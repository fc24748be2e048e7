"""The threads of a process, and several processes that train together under torchrun, each on its
share of every batch.

The leader, rank 0, runs the whole loop: tests, log, checkpoints, stops. The others follow: before
every batch all of them agree on what comes next, which is where a signal that any of them received,
or a word from the leader, reaches all. So they do the same batches, and leave together.

Numbers and messages go over gloo, gradients over what their device has: gloo or nccl.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pushpop.errors import InputError
from pushpop.tasks import Batch

TIMEOUT = timedelta(days=30)
"""How long to wait for one another: the leader tests while the others wait. A process that has
died is noticed at once."""


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set the number of threads inside; restore it afterwards.

    More than one costs dearly where others use the machine too: threads that wait for each other at
    every small product keep all cores busy.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Group:
    """A process that trains by itself: it has all of every batch, and nobody to talk to."""

    rank, size = 0, 1
    local_rank, local_size = 0, 1  # on this machine
    in_batch = False  # whether the others are busy with a batch, and cannot be told anything

    def shard(self, batch: Batch) -> Batch | None:
        """The rows that are this process's, unless there are fewer rows than processes."""
        return batch

    def sum_losses(self, nll: float, symbols: int) -> tuple[float, int]:
        """The sums over all processes."""
        return nll, symbols

    def sum_gradients(self, model: nn.Module) -> None:
        """Replace every gradient by the sum over all processes."""

    def exchange(
        self, signal: int, message: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """What comes next: the signal that any process received, and the leader's message."""
        return signal, message or {}

    def broadcast(self, data: bytes) -> bytes:
        """The leader's bytes, in every process."""
        return data


class TorchrunGroup(Group):
    """One of the processes that torchrun started."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.local_size = int(os.environ.get("LOCAL_WORLD_SIZE", self.size))

    def shard(self, batch: Batch) -> Batch | None:
        """Rows rank, rank + size, ..., trimmed to their longest."""
        rows = slice(self.rank, None, self.size)
        lengths = batch.lengths[rows]
        if not len(lengths):
            return None
        steps = int(lengths.max())
        parts = (batch.inputs, batch.outputs, batch.mask)
        inputs, outputs, mask = (part[:steps, rows].contiguous() for part in parts)
        return Batch(inputs, outputs, lengths, mask)

    def sum_losses(self, nll: float, symbols: int) -> tuple[float, int]:
        sums = torch.tensor([nll, symbols], dtype=torch.float64)  # exact, so that all have the same
        dist.all_reduce(sums)
        return float(sums[0]), int(sums[1])

    def sum_gradients(self, model: nn.Module) -> None:
        parameters = list(model.parameters())
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        together = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(together)
        sizes = [parameter.numel() for parameter in parameters]
        parts = together.split(sizes)  # type: ignore[no-untyped-call]
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)

    def exchange(
        self, signal: int, message: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """The largest signal; the message goes as JSON, so that nothing is unpickled."""
        data = json.dumps(message).encode() if message else b""
        self.in_batch = not data
        numbers = torch.tensor([signal, len(data)])
        dist.all_reduce(numbers, dist.ReduceOp.MAX)
        signal, size = numbers.tolist()
        if signal:
            self.in_batch = False
        return signal, json.loads(self.broadcast(data)) if size else {}

    def broadcast(self, data: bytes) -> bytes:
        size = torch.tensor([len(data)])
        dist.broadcast(size, 0)
        held = data if self.rank == 0 else bytes(int(size))
        buffer: Tensor = torch.frombuffer(bytearray(held), dtype=torch.uint8)
        dist.broadcast(buffer, 0)
        return buffer.numpy().tobytes()


def under_torchrun() -> bool:
    """Whether torchrun started this process as one of several."""
    return dist.is_torchelastic_launched() and int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_leader() -> bool:
    """Whether this process is the one that shows, logs and saves."""
    return not under_torchrun() or int(os.environ["RANK"]) == 0


@contextmanager
def process_group() -> Iterator[Group]:
    """This process among those that torchrun started, or alone."""
    if not under_torchrun():
        yield Group()
        return
    mine = not dist.is_initialized()
    if mine:
        gpu = torch.cuda.is_available() and dist.is_nccl_available()
        dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", timeout=TIMEOUT)
    try:
        yield TorchrunGroup()
    finally:
        if mine:
            dist.destroy_process_group()


@contextmanager
def releasing_followers(group: Group) -> Iterator[dict[str, Any]]:
    """However the leader leaves, tell the others: what was put into the dictionary, or a code.

    Not in the middle of a batch. Either they fail as the leader does, or they wait for its
    gradients and find that it has gone.
    """
    final_message: dict[str, Any] = {}
    try:
        yield final_message
    except BaseException as error:
        if not group.in_batch:
            with suppress(RuntimeError):  # they may have gone before
                group.exchange(0, {"code": exit_code(error)})
        raise
    group.exchange(0, final_message)


def exit_code(error: BaseException) -> int:
    """What the command line exits with."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, KeyboardInterrupt):
        return 130
    return 2 if isinstance(error, InputError) else 1
