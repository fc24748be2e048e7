"""Small layers to test, states in mid-sequence, and all that comes out of them."""

from typing import Any

import pytest
import torch
from torch import Tensor

from pushpop import MemoryRNN, MemoryState, RNNState
from pushpop.layers import NoiseLevels
from pushpop.memory import TensorState
from pushpop.memory.kinds import MEMORY_NAMES

IN, H, D, OUT = 5, 6, 4, 3
MEMORY = pytest.mark.parametrize("memory", ["stack", "queue", "deque"])
MEMORY_WITH_KERNELS = pytest.mark.parametrize("memory", MEMORY_NAMES)
CELL = pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
BACKEND = pytest.mark.parametrize("backend", ["fused", "reference"])


def layer(memory: str = "deque", cell: str = "lstm", **options: object) -> MemoryRNN:
    made = MemoryRNN(IN, H, memory, D, cell, output_size=OUT, **options)  # type: ignore[arg-type]
    return made.double()


def some_state(rnn: MemoryRNN, batch: int) -> RNNState:
    """A state in mid-sequence, of leaves that require gradients."""
    with torch.no_grad():
        _, state = rnn(torch.randn(4, batch, IN, dtype=rnn.h0.dtype))
    parts = tuple(part.clone().requires_grad_() for part in state.parts)
    cells = (x.clone().requires_grad_() for x in held(state))
    return RNNState(
        (parts[0], parts[1]) if len(parts) == 2 else parts[0],
        state.read.clone().requires_grad_(),
        type(state.memory)(*cells),
    )


def held(state: RNNState) -> list[Tensor]:
    """The tensors of the memory's state."""
    if isinstance(state.memory, TensorState):
        return [state.memory.cells]
    assert isinstance(state.memory, MemoryState)
    return [state.memory.values, state.memory.strengths]


def leaves_of(state: RNNState | None) -> list[Tensor]:
    if state is None:
        return []
    return [*state.parts, state.read, *held(state)]


def look_at_everything(output: Tensor, state: RNNState) -> Tensor:
    weights = torch.cos(torch.arange(output.numel(), dtype=output.dtype)).reshape(output.shape)
    cells = torch.sin(held(state)[0].sum(-1))
    if isinstance(state.memory, MemoryState):
        s = state.memory.strengths
        cells = s * (cells + s.cumsum(1))
    parts = sum((part**2).sum() for part in state.parts)
    return (weights * output).sum() + parts + (state.read**3).sum() + cells.sum()


def everything(
    rnn: MemoryRNN,
    backend: str,
    x: Tensor,
    state: RNNState | None,
    lengths: list[int] | None,
    noise: NoiseLevels | None = None,
) -> list[Tensor]:
    rnn.backend = rnn.memory.backend = backend
    output, after = rnn(x, state, lengths, noise)
    leaves = [x, *rnn.parameters(), *leaves_of(state)]
    gradients = torch.autograd.grad(look_at_everything(output, after), leaves, allow_unused=True)
    given = [
        torch.zeros_like(x) if g is None else g for g, x in zip(gradients, leaves, strict=True)
    ]
    return [x.detach() for x in (output, *after.parts, after.read, *given)]


def as_leaves(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """What an operator takes, its tensors detached; numbers that can have a gradient have one."""
    return tuple(
        x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x
        for x in given
    )
