"""The paper's three memories as modules, and all memories by name."""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from pushpop.memory.backends import BACKENDS, Backend, able_backends, reference
from pushpop.memory.base import Bias, DrawnBias, Memory, Shifts, StartingBias, check_like
from pushpop.memory.kinds import BIASES, DEQUE, QUEUE, STACK, bias_rows
from pushpop.memory.mixing import SuperpositionStack, Tape
from pushpop.memory.operators import under_transform
from pushpop.memory.state import Cells, MemoryState, empty_state, strength_dtype


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
        v, d, u = self._checked(values, push, pop, state, "TB")
        if self._has_own_step:
            reads, state = super().forward(v, torch.cat([d, u], dim=-1), state)
        else:
            reads, state = self._backend_for(values).run(self.equations, v, d, u, state)
        return reads if self.ends == 2 else reads.squeeze(-2), state

    def step(
        self, value: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None = None
    ) -> tuple[Tensor, MemoryState]:
        """Run one step, without the time axis. Old states stay valid."""
        v, d, u = self._checked(value, push, pop, state, "B")
        if self._has_own_step:
            read, state = self.run_step(v, torch.cat([d, u], dim=-1), state)
        else:
            read, state = self._backend_for(value).step(self.equations, v, d, u, state)
        return read if self.ends == 2 else read.squeeze(-2), state

    @property
    def _has_own_step(self) -> bool:
        """Whether a subclass, or somebody on the module itself, has replaced `run_step`."""
        own = type(self).run_step is not NeuralMemory.run_step
        return own or "run_step" in vars(self)

    def run(
        self, values: Tensor, gates: Tensor, state: MemoryState | None
    ) -> tuple[Tensor, MemoryState]:
        """values [T, B, E, D], gates [T, B, 2 E], pushes first -> reads [T, B, E, D], the state."""
        push, pop = gates.chunk(2, dim=-1)
        if self.ends == 2:
            reads, state = self(values, push, pop, state)
            return reads, state
        reads, state = self(values.squeeze(-2), push.squeeze(-1), pop.squeeze(-1), state)
        return reads.unsqueeze(-2), state

    def run_step(
        self, values: Tensor, gates: Tensor, state: MemoryState | None
    ) -> tuple[Tensor, MemoryState]:
        """values [B, E, D], gates [B, 2 E], pushes first -> reads [B, E, D] and the state.

        This is how layers drive the memory: their gates are valid, and looked at only on request.
        """
        push, pop = gates.chunk(2, dim=-1)
        if self.validate:
            check_values(values, push, pop, state)
        return self._backend_for(values).step(self.equations, values, push, pop, state)

    def empty(
        self, batch: int, *, device: Any = None, dtype: torch.dtype | None = None
    ) -> MemoryState:
        return empty_state(torch.empty(0, device=device, dtype=dtype), batch, self.width)

    def idle(self) -> list[float]:
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
        spread = partial(bias_rows, memories=memories, kind=self.kind, ends=self.ends)
        pop = spread("pop_bias", start["pop_bias"])
        if isinstance(start["push_bias"], str) and start["push_bias"] == "drift":
            push: list[list[StartingBias]] = [[DrawnBias(u or 0.0) for u in row] for row in pop]
        else:
            push = [[*row] for row in spread("push_bias", start["push_bias"])]
        return [[*d, *u] for d, u in zip(push, pop, strict=True)]

    def check_state(self, state: MemoryState, batch: int, like: Tensor) -> None:
        if not isinstance(state, MemoryState):
            raise TypeError(f"state must be a MemoryState or None; got {type(state).__name__}")
        super().check_state(state, batch, like)
        if state.width != self.width:
            raise ValueError(
                f"state has cells {state.width} wide, this memory is {self.width} wide"
            )
        check_like("state", state, like, "values")

    def export_state(self) -> tuple[str, ...]:
        return ("values", "strengths")

    def export_step(
        self, values: Tensor, gates: Tensor, state: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        push, pop = gates.chunk(2, dim=-1)
        V, s, reads = reference.STEPS[self.equations](state[0], state[1], values, push, pop)
        return reads, [V, s]

    def all_backends(self) -> tuple[str, ...]:
        return tuple(BACKENDS)

    def backends(self, device: torch.device, dtype: torch.dtype) -> tuple[str, ...]:
        return able_backends(device, dtype)

    def choose_backend(self, like: Tensor | None) -> str:
        """Choose the backend; kernels give way to the equations where torch wants derivatives that
        they do not support."""
        chosen = super().choose_backend(like)
        beyond_kernels = like is not None and BACKENDS[chosen].has_kernels and under_transform()
        return "reference" if beyond_kernels else chosen

    def limits(self) -> str:
        return BACKENDS[self.backend].limits

    def _backend_for(self, like: Tensor) -> Backend:
        return BACKENDS[self.choose_backend(like)]

    def _checked(
        self, values: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None, letters: str
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The tensors with an axis for the ends, checked: shapes, dtypes and devices, and values if
        asked to. `letters` are the leading dimensions, "TB" or "B"."""
        named = {"values": values, "push": push, "pop": pop}
        for name, x in named.items():
            if not isinstance(x, Tensor):
                raise TypeError(f"{name} must be a tensor; got {type(x).__name__}")
        axes = [*letters, *(["2"] if self.ends == 2 else [])]
        shape = list(values.shape)
        right = len(shape) == len(axes) + 1 and shape[-1] == self.width
        if not right or (self.ends == 2 and shape[-2] != 2):
            expected = f"[{', '.join([*axes, str(self.width)])}]"
            raise ValueError(f"values must be {expected}; got {shape}")
        if not values.is_floating_point():
            raise TypeError(f"values must be floating point; got {values.dtype}")
        for name in ("push", "pop"):
            x = named[name]
            if list(x.shape) != shape[:-1]:
                raise ValueError(
                    f"{name} must be [{', '.join(axes)}] = {shape[:-1]} as in values; "
                    f"got {list(x.shape)}"
                )
            # Gates may be wider than values in half precision: so are the strengths.
            check_like(name, x, values, "values", wider=strength_dtype(values.dtype))
        if state is not None:
            self.check_state(state, shape[len(letters) - 1], values)
        validates = not torch.is_grad_enabled() if self.validate is None else self.validate
        if validates and not torch.compiler.is_compiling() and not under_transform():
            check_values(values, push, pop, state)
        return self._with_ends(values, push, pop)

    def _with_ends(
        self, values: Tensor, push: Tensor, pop: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        if self.ends == 2:
            return values, push, pop
        return values.unsqueeze(-2), push.unsqueeze(-1), pop.unsqueeze(-1)


class NeuralStack(NeuralMemory):
    """A stack: pushed, popped and read at the top.

    values [T, B, D], push [T, B], pop [T, B] -> reads [T, B, D] and the state.
    """

    kind = equations = "stack"
    kernel = STACK


class NeuralQueue(NeuralMemory):
    """A queue: pushed at one end, popped and read at the other.

    values [T, B, D], push [T, B], pop [T, B] -> reads [T, B, D] and the state.
    """

    kind = equations = "queue"
    kernel = QUEUE
    read_ends = ("bottom",)


class NeuralDeque(NeuralMemory):
    """A double-ended queue; an axis of size 2 tells the ends apart, 0 the top and 1 the bottom.

    values [T, B, 2, D], push [T, B, 2], pop [T, B, 2] -> reads [T, B, 2, D] and the state. A step
    pops the top, then the bottom, then pushes both, then reads both.
    """

    kind = equations = "deque"
    kernel = DEQUE
    ends = 2
    values = reads = 2
    gate_names = ("push top", "push bottom", "pop top", "pop bottom")
    push_ends = ("top", "bottom")
    read_ends = ("top", "bottom")


def check_values(values: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None) -> None:
    """Push and pop lie in [0, 1] and values are finite; the place is looked for only if not.

    A state is looked at if it was made by hand; one that a memory returned needs no look.
    """
    gates, vectors = {"push": push, "pop": pop}, {"values": values}
    if state is not None and isinstance(state._store, Cells):
        gates["strengths of the state"] = state.strengths
        vectors["values of the state"] = state.values
    for name, x in gates.items():
        if x.numel() == 0 or x.device.type == "meta":
            continue
        low, high = x.detach().aminmax()
        if not (low >= 0 and high <= 1):
            place, number = _first(~((x >= 0) & (x <= 1)), x)
            raise ValueError(f"{name} must lie in [0, 1]; got {number} at {place}")
    for name, x in vectors.items():
        if x.device.type == "meta" or x.detach().sum().isfinite():
            continue
        bad = ~torch.isfinite(x)  # none if the numbers are only too large to add up
        if bad.any():
            place, number = _first(bad, x)
            raise ValueError(f"{name} must be finite; got {number} at {place}")


def _first(bad: Tensor, x: Tensor) -> tuple[list[int], float]:
    place = [int(i) for i in bad.nonzero()[0]]
    return place, x[tuple(place)].item()


MEMORIES: dict[str, type[Memory[Any]]] = {
    memory.kind: memory
    for memory in (NeuralStack, NeuralQueue, NeuralDeque, SuperpositionStack, Tape)
}
"""The memories by name; `kinds.py` lists those that come with the package."""
M = TypeVar("M", bound=type[Memory[Any]])


def register_memory(memory: M) -> M:
    """Make a memory of one's own known by its `kind`, to models that are trained, saved and loaded.

    It is made as `memory(width, backend=...)`. Can be used as a decorator of the class.
    """
    kind = memory.kind
    if kind == "none" or MEMORIES.get(kind, memory) is not memory:
        raise ValueError(f"there is a memory {kind!r} already")
    MEMORIES[kind] = memory
    return memory


def make_memory(memory: str | Memory[Any], width: int | None, backend: str) -> Memory[Any]:
    """The memory of that name, or the given one if it fits."""
    if isinstance(memory, str):
        if memory not in MEMORIES:
            known = ", ".join(MEMORIES)
            raise ValueError(f"memory must be one of {known}, or a Memory; got {memory!r}")
        assert width is not None
        kind = MEMORIES[memory]
        # The kernels of a memory that mixes its cells are those of layers: by itself it has none.
        in_layers = backend == "fused" and isinstance(vars(kind).get("kernel"), Shifts)
        return kind(width, backend="auto" if in_layers else backend)
    if not isinstance(memory, Memory):
        raise TypeError(f"memory must be a name or a Memory; got {type(memory).__name__}")
    if width is not None and memory.width != width:
        raise ValueError(f"the given memory is {memory.width} wide; expected {width}")
    if memory.backend == "auto" and backend != "auto":
        memory = deepcopy(memory)  # it is somebody else's
        memory.backend = backend
        memory.choose_backend(None)
    if backend not in ("auto", memory.backend):
        raise ValueError(
            f"backend is {backend!r} and that of the given memory {memory.backend!r}: expected the "
            "same"
        )
    return memory
