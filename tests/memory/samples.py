"""Inputs for memories, and a loss that looks at everything a memory returns."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pushpop import MemoryState, NeuralDeque, NeuralQueue, NeuralStack

PAPER = {"stack": NeuralStack, "queue": NeuralQueue, "deque": NeuralDeque}
"""The paper's memories by name."""


@dataclass
class Sample:
    """Inputs of one call, all leaves that require gradients, in the order of `names`."""

    values: Tensor
    push: Tensor
    pop: Tensor
    first_values: Tensor
    first_strengths: Tensor

    names = ("values", "push", "pop", "first_values", "first_strengths")

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        return tuple(getattr(self, name) for name in self.names)

    @property
    def state(self) -> MemoryState:
        return MemoryState(self.first_values, self.first_strengths)


def controls(how: str, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Gates of a kind: "random", "saturated" (0 or 1), "dyadic" (quarters) or "mixed"."""
    if how == "random":
        return torch.rand(shape, dtype=dtype)
    if how == "saturated":
        return torch.randint(0, 2, shape).to(dtype)
    if how == "dyadic":
        return torch.randint(0, 5, shape).to(dtype) / 4
    return torch.where(torch.rand(shape) < 0.5, controls("dyadic", *shape, dtype=dtype),
                       torch.rand(shape, dtype=dtype))  # fmt: skip


def sample(
    kind: str,
    how: str,
    T: int,
    B: int = 3,
    D: int = 4,
    N: int = 5,
    dtype: torch.dtype = torch.float64,
) -> Sample:
    ends = (2,) if kind == "deque" else ()
    tensors = (
        torch.randn(T, B, *ends, D, dtype=dtype),
        controls(how, T, B, *ends, dtype=dtype),
        controls(how, T, B, *ends, dtype=dtype),
        torch.randn(B, N, D, dtype=dtype),
        controls(how, B, N, dtype=dtype),
    )
    return Sample(*(x.requires_grad_() for x in tensors))


def look_at_everything(reads: Tensor, state: MemoryState) -> Tensor:
    """A loss of all reads and of the final cells: their values, strengths and order.

    Cells without strength that no gradient can reach do not change it or its gradients.
    """
    dtype = reads.dtype
    weights = torch.sin(torch.arange(reads.numel(), dtype=dtype)).reshape(reads.shape)
    along = torch.cos(torch.arange(state.width, dtype=dtype))
    s, V = state.strengths, state.values
    cells = s * (torch.sin(V @ along) + torch.sin(s.cumsum(-1)))
    return (weights * reads).sum() + cells.sum()


def relative_error(found: Tensor, wanted: Tensor) -> float:
    """The largest difference, in units of the largest wanted number (or of 1)."""
    if wanted.numel() == 0:
        return 0.0
    return float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1))
