"""What the compiled layers share: how they call torch's operators and lay out their weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def needs_no_operator(x: Tensor) -> bool:
    """Whether a plain call will do: there is no gradient and no graph to take part in.

    The first call of an operator has torch import its compiler, which takes seconds.
    """
    return type(x) is Tensor and not (torch.is_grad_enabled() or torch.compiler.is_compiling())


def sigmoids_first(weight: Tensor) -> Tensor:
    """An LSTM's weight or bias with its blocks i, f, g, o in the order i, f, o, g."""
    i, f, g, o = weight.chunk(4)
    return torch.cat([i, f, o, g])


def cache_padded(weight: Tensor) -> Tensor:
    """The same matrix with rows a little longer in memory: rows of a power of two collide in the
    cache, and a small product then takes up to half as long again.
    """
    n, m = weight.shape
    return weight.new_empty(n, m + 16)[:, :m].copy_(weight)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Inside, this thread counts numbers too small for full precision (in float32, below 1e-38) as
    0, where the processor can: it takes a hundred times as long for them as for others.
    """
    before = flushes_denormals()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def flushes_denormals() -> bool:
    """Whether this thread counts such numbers as 0."""
    return not (torch.tensor([1e-38]) * 1e-2).item()
