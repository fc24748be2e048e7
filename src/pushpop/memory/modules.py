"""The paper's three memories as modules: their public calls, and what they say of themselves."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from pushpop.memory import ops, reference
from pushpop.memory.autograd import under_transform
from pushpop.memory.base import Bias, DrawnBias, Memory, StartingBias
from pushpop.memory.biases import BIASES, bias_rows
from pushpop.memory.checks import check_state, check_tensors, check_values
from pushpop.memory.state import MemoryState, strength_dtype


class NeuralMemory(Memory[MemoryState]):
    """What the three memories share: they push, pop and read at one end or at two.

    Args:
        width: D, the length of the vectors held.
        backend: "fused" (CPU kernels), "triton" (GPU kernels), "parallel" (plain torch, any
            device), "reference" (the paper's equations, slow) or "auto": the fastest that can run
            the input.
        validate: whether to check that controls lie in [0, 1] and values are finite. `None` checks
            when gradients are off. Never checked while compiling or inside `torch.func`.
    """

    ends: ClassVar[int] = 1
    gate_names: ClassVar[tuple[str, ...]] = ("push", "pop")
    equations: ClassVar[str]
    """Whose equations these are; a subclass under another name keeps them."""
    biases: ClassVar[Mapping[str, Bias | None]] = BIASES
    picture = "intervals"
    push_ends: ClassVar[tuple[str, ...]] = ("top",)
    read_ends: ClassVar[tuple[str, ...]] = ("top",)

    def __init__(self, width: int, backend: str = "auto", validate: bool | None = None) -> None:
        super().__init__(width, backend)
        self.validate = validate

    def forward(  # type: ignore[override]  # the public call has a name for each gate
        self, values: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None = None
    ) -> tuple[Tensor, MemoryState]:
        """Run T steps (pop, push, read); returns the reads, shaped as `values`, and the state."""
        self._check(values, push, pop, state, "TB")
        given = self._with_ends(values, push, pop)
        if self._has_own_step:
            reads, state = super().forward(given[0], torch.cat(given[1:], dim=-1), state)
        else:
            reads, state = ops.run(self.equations, *given, state, self.choose_backend(values))
        return self._without_ends(reads), state

    def step(
        self, value: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None = None
    ) -> tuple[Tensor, MemoryState]:
        """Run one step, without the time axis. Old states stay valid."""
        self._check(value, push, pop, state, "B")
        given = self._with_ends(value, push, pop)
        if self._has_own_step:
            read, state = self.run_step(given[0], torch.cat(given[1:], dim=-1), state)
        else:
            read, state = ops.step(self.equations, *given, state, self.choose_backend(value))
        return self._without_ends(read), state

    @property
    def _has_own_step(self) -> bool:
        """Whether a subclass, or somebody on the module itself, has replaced `run_step`."""
        own = type(self).run_step is not NeuralMemory.run_step
        return own or "run_step" in vars(self)

    def run(
        self, values: Tensor, gates: Tensor, state: MemoryState | None
    ) -> tuple[Tensor, MemoryState]:
        """values [T, B, E, D], gates [T, B, 2 E], pushes first -> reads [T, B, E, D], the state."""
        reads, state = self(*self._named(values, gates), state)
        return reads.unsqueeze(-2) if self.ends == 1 else reads, state

    def run_step(
        self, values: Tensor, gates: Tensor, state: MemoryState | None
    ) -> tuple[Tensor, MemoryState]:
        """values [B, E, D], gates [B, 2 E], pushes first -> reads [B, E, D] and the state.

        This is how layers drive the memory: their gates are valid, and looked at only on request.
        """
        push, pop = gates.chunk(2, dim=-1)
        if self.validate:
            check_values(values, push, pop, state)
        return ops.step(self.equations, values, push, pop, state, self.choose_backend(values))

    def empty(
        self, batch: int, *, device: Any = None, dtype: torch.dtype | None = None
    ) -> MemoryState:
        """A memory without cells."""
        like = torch.empty(0, device=device, dtype=dtype)
        strengths = like.new_zeros(batch, 0, dtype=strength_dtype(like.dtype))
        return MemoryState(like.new_zeros(batch, 0, self.width), strengths)

    def idle(self) -> list[float]:
        """A push and a pop of 0."""
        return [0.0] * self.gates

    def gate_bias(self, memories: int = 1, **given: Bias | None) -> list[list[StartingBias]]:
        """Pushes start as they are drawn and pops at -1: pops that empty the memory teach nothing.

        A bias is one number; or one for each memory, or for each end of a deque; or (top, bottom)
        for each of several deques. A push bias of "drift" is drawn around the pop bias of its end:
        an end that pushes less than it pops drains at first, and a deque with one such end passes
        on what the other end pushes, as a queue does.
        """
        unknown = {name: start for name, start in given.items() if name not in self.biases}
        if unknown:
            return super().gate_bias(memories, **unknown)
        start = {**self.biases, **given}
        pop = self._biases("pop_bias", start["pop_bias"], memories)
        if isinstance(start["push_bias"], str) and start["push_bias"] == "drift":
            push: list[list[StartingBias]] = [[DrawnBias(u or 0.0) for u in row] for row in pop]
        else:
            push = [[*row] for row in self._biases("push_bias", start["push_bias"], memories)]
        return [[*d, *u] for d, u in zip(push, pop, strict=True)]

    def _biases(self, name: str, bias: Bias | None, memories: int) -> list[list[float | None]]:
        return bias_rows(name, bias, memories, kind=self.kind, ends=self.ends)

    def check_state(self, state: MemoryState, batch: int, like: Tensor) -> None:
        """Raise unless this is a state of `batch` rows for this memory, like the tensor `like`."""
        check_state(state, like, batch, self.width)

    def export_state(self) -> tuple[str, ...]:
        """The paper's V [B, N, D] and s [B, N]."""
        return ("values", "strengths")

    def export_step(
        self, values: Tensor, gates: Tensor, state: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """The paper's equations."""
        push, pop = gates.chunk(2, dim=-1)
        V, s, reads = reference.STEPS[self.equations](state[0], state[1], values, push, pop)
        return reads, [V, s]

    def all_backends(self) -> tuple[str, ...]:
        """Kernels, the closed form, the equations."""
        return ("fused", "triton", "parallel", "reference")

    def backends(self, device: torch.device, dtype: torch.dtype) -> tuple[str, ...]:
        """The CPU kernels run float32 and float64, the GPU kernels half precision too. A transform
        of torch needs plain torch. Without storage there are shapes only, which the CPU kernels
        do not know."""
        if device.type == "meta":
            return ("reference", "parallel", "triton")
        plain = ("parallel", "reference")
        if device.type == "cuda" and dtype in ops.ON_GPU and ops.triton_imports():
            return ("triton", *plain)
        if device.type != "cpu":
            return plain
        compiled = ("fused",) if dtype in ops.WALKABLE else ()
        interpreted = ("triton",) if ops.INTERPRETED and dtype in ops.ON_GPU else ()
        return (*compiled, *plain, *interpreted)

    def choose_backend(self, like: Tensor | None) -> str:
        """The kernels give way to the equations where torch wants more than they can give."""
        chosen = super().choose_backend(like)
        kernels = like is not None and chosen in ("fused", "triton")
        return "reference" if kernels and under_transform() else chosen

    def limits(self) -> str:
        """The end of a message about a backend that cannot run."""
        if self.backend == "triton":
            return "runs floating point on a GPU, with the package triton"
        return "runs float32 and float64 on the CPU"

    def _check(
        self, values: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None, letters: str
    ) -> None:
        check_tensors(
            values, push, pop, state, letters=letters, ends=self.ends == 2, width=self.width
        )
        wanted = not torch.is_grad_enabled() if self.validate is None else self.validate
        if wanted and not torch.compiler.is_compiling() and not under_transform():
            check_values(values, push, pop, state)

    def _named(self, values: Tensor, gates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """values [..., E, D] and gates [..., 2 E] as `forward` and `step` take them."""
        push, pop = gates.chunk(2, dim=-1)
        if self.ends == 2:
            return values, push, pop
        return values.squeeze(-2), push.squeeze(-1), pop.squeeze(-1)

    def _with_ends(
        self, values: Tensor, push: Tensor, pop: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The tensors with an axis for the ends."""
        if self.ends == 2:
            return values, push, pop
        return values.unsqueeze(-2), push.unsqueeze(-1), pop.unsqueeze(-1)

    def _without_ends(self, reads: Tensor) -> Tensor:
        return reads if self.ends == 2 else reads.squeeze(-2)


class NeuralStack(NeuralMemory):
    """A stack: pushed, popped and read at the top.

    values [T, B, D], push [T, B], pop [T, B] -> reads [T, B, D] and the state.
    """

    kind = equations = "stack"
    kernel = ops.KINDS.index(equations)


class NeuralQueue(NeuralMemory):
    """A queue: pushed at one end, popped and read at the other.

    values [T, B, D], push [T, B], pop [T, B] -> reads [T, B, D] and the state.
    """

    kind = equations = "queue"
    kernel = ops.KINDS.index(equations)
    read_ends = ("bottom",)


class NeuralDeque(NeuralMemory):
    """A double-ended queue; an axis of size 2 tells the ends apart, 0 the top and 1 the bottom.

    values [T, B, 2, D], push [T, B, 2], pop [T, B, 2] -> reads [T, B, 2, D] and the state. A step
    pops the top, then the bottom, then pushes both, then reads both.
    """

    kind = equations = "deque"
    kernel = ops.KINDS.index(equations)
    ends = 2
    values = reads = 2
    gate_names = ("push top", "push bottom", "pop top", "pop bottom")
    push_ends = ("top", "bottom")
    read_ends = ("top", "bottom")
