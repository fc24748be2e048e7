"""The three memories as modules. They have no parameters: what they do, their inputs say."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from pushpop.memory import ops
from pushpop.memory.checks import check_tensors, check_values
from pushpop.memory.state import MemoryState


class NeuralMemory(nn.Module):
    """What the three memories share.

    Args:
        width: D, the length of the vectors held.
        backend: "fused" (CPU kernels), "parallel" (plain torch, any device), "reference" (the
            paper's equations, slow) or "auto": the fastest that can run the input.
        validate: whether to check that controls lie in [0, 1] and values are finite. `None` checks
            when gradients are off. Never checked while compiling.
    """

    kind: ClassVar[str]
    ends: ClassVar[int] = 1

    def __init__(self, width: int, backend: str = "auto", validate: bool | None = None) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be at least 1; got {width}")
        if backend not in ops.BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(ops.BACKENDS)}; got {backend!r}")
        self.width, self.backend, self.validate = width, backend, validate

    def forward(
        self, values: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None = None
    ) -> tuple[Tensor, MemoryState]:
        """Run T steps (pop, push, read); returns the reads, shaped as `values`, and the state."""
        self._check(values, push, pop, state, "TB")
        reads, state = ops.run(self.kind, *self._widen(values, push, pop), state, self.backend)
        return self._narrow(reads), state

    def step(
        self, value: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None = None
    ) -> tuple[Tensor, MemoryState]:
        """Run one step, without the time axis. Old states stay valid."""
        self._check(value, push, pop, state, "B")
        read, state = ops.step(self.kind, *self._widen(value, push, pop), state, self.backend)
        return self._narrow(read), state

    def _check(
        self, values: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None, letters: str
    ) -> None:
        check_tensors(
            values, push, pop, state, letters=letters, ends=self.ends == 2, width=self.width
        )
        wanted = not torch.is_grad_enabled() if self.validate is None else self.validate
        if wanted and not torch.compiler.is_compiling():
            check_values(values, push, pop, state)

    def _widen(self, values: Tensor, push: Tensor, pop: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.ends == 2:
            return values, push, pop
        return values.unsqueeze(-2), push.unsqueeze(-1), pop.unsqueeze(-1)

    def _narrow(self, reads: Tensor) -> Tensor:
        return reads if self.ends == 2 else reads.squeeze(-2)

    def extra_repr(self) -> str:
        """The arguments, as `print(module)` shows them."""
        return f"{self.width}, backend={self.backend!r}"


class NeuralStack(NeuralMemory):
    """A stack: pushed, popped and read at the top.

    values [T, B, D], push [T, B], pop [T, B] -> reads [T, B, D] and the state.
    """

    kind = "stack"


class NeuralQueue(NeuralMemory):
    """A queue: pushed at one end, popped and read at the other.

    values [T, B, D], push [T, B], pop [T, B] -> reads [T, B, D] and the state.
    """

    kind = "queue"


class NeuralDeque(NeuralMemory):
    """A double-ended queue; an axis of size 2 tells the ends apart, 0 the top and 1 the bottom.

    values [T, B, 2, D], push [T, B, 2], pop [T, B, 2] -> reads [T, B, 2, D] and the state. A step
    pops the top, then the bottom, then pushes both, then reads both.
    """

    kind = "deque"
    ends = 2


MEMORIES: dict[str, type[NeuralMemory]] = {
    memory.kind: memory for memory in (NeuralStack, NeuralQueue, NeuralDeque)
}
