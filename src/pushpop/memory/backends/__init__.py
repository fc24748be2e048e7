"""Every way to compute the paper's memories: the only place that says what can run, and runs it.

`reference.py` has the equations, `parallel.py` a closed form of whole sequences, both in plain
torch; `fused` has the CPU's kernels and `triton` a GPU's. Kernels are imported when they first run:
Numba and Triton take seconds.
"""

import os
from abc import ABC, abstractmethod
from types import ModuleType

import torch
from torch import Tensor

from pushpop.memory.backends import parallel, reference
from pushpop.memory.kinds import KINDS
from pushpop.memory.operators import (
    Operator,
    WalkInput,
    WalkOutput,
    declare,
    empty_walk,
    empty_walk_gradients,
    final_of,
)
from pushpop.memory.state import (
    Cells,
    CellStore,
    MemoryState,
    Stream,
    WalkResult,
    empty_state,
    strength_dtype,
)

WALKABLE = (torch.float32, torch.float64)
ON_GPU = (*WALKABLE, torch.bfloat16, torch.float16)


class Backend(ABC):
    """One way to compute the paper's memories."""

    name: str
    limits = "runs float32 and float64 on the CPU"
    """The end of a message about input that the backend cannot run."""
    has_kernels = True
    """Whether it supports first-order reverse mode only."""

    @abstractmethod
    def supports(self, device: torch.device, dtype: torch.dtype) -> bool:
        """Whether the backend can run such tensors."""

    @abstractmethod
    def run_cells(
        self, kind: str, values: Tensor, push: Tensor, pop: Tensor, cells: Cells
    ) -> tuple[Tensor, CellStore]:
        """Run at least one step from some cells; gates and strengths are as wide as sums need."""

    def stream_type(self) -> type[Stream] | None:
        """The cells that the backend's kernels step in place, if it has such kernels."""
        return None

    def run(
        self, kind: str, values: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None
    ) -> tuple[Tensor, MemoryState]:
        """values [T, B, E, D], push and pop [T, B, E] -> reads [T, B, E, D] and the next state.

        Beside values in half precision, gates and strengths are float32.
        """
        wide = strength_dtype(values.dtype)
        state = empty_state(values, *values.shape[1::2]) if state is None else state
        if values.shape[0] == 0:
            return values.clone(), state
        first = state._materialise()
        first = Cells(first.values, first.strengths.to(wide))
        reads, store = self.run_cells(kind, values, push.to(wide), pop.to(wide), first)
        # Values are gathered when somebody asks for them, or now if they might change till then.
        # With gradients they must stay as they are, and their versions tell if they did not.
        if isinstance(store, WalkResult) and not torch.compiler.is_compiling():
            if reads.requires_grad:
                store.guard_inputs()
            else:
                store = store.cells()
        return reads, MemoryState._from_store(store)

    def step(
        self, kind: str, value: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None
    ) -> tuple[Tensor, MemoryState]:
        """One step: value [B, E, D], push and pop [B, E] -> read [B, E, D] and the next state.

        Without gradients kernels change cells in place, at a cost independent of the depth.
        """
        grads = torch.is_grad_enabled() and (
            any(x.requires_grad for x in (value, push, pop))
            or (state is not None and state.requires_grad)
        )
        in_place = not (grads or torch.compiler.is_compiling()) and len(value) > 0
        streams = self.stream_type() if in_place else None
        if streams is None:
            reads, state = self.run(kind, value[None], push[None], pop[None], state)
            return reads[0], state
        number = KINDS.index(kind)
        state = empty_state(value, *value.shape[::2]) if state is None else state
        store = state._store
        if not isinstance(store, streams) or store.is_old:  # old: undo the steps since, once
            store = streams.of(number, state._materialise())
        read, after = store.advance(number, value, push, pop)
        return read, MemoryState._from_store(after)


class PlainTorch(Backend):
    """The equations, the truth for all others, or the closed form over whole sequences, by
    autograd."""

    has_kernels = False

    def __init__(self, name: str, module: ModuleType) -> None:
        self.name, self._module = name, module

    def supports(self, device: torch.device, dtype: torch.dtype) -> bool:
        return True

    def run_cells(
        self, kind: str, values: Tensor, push: Tensor, pop: Tensor, cells: Cells
    ) -> tuple[Tensor, CellStore]:
        reads, V, s = self._module.run(kind, values, push, pop, cells.values, cells.strengths)
        return reads.to(values.dtype), Cells(V.to(values.dtype), s)


class Fused(Backend):
    """The walk over live cells by Numba's kernels."""

    name = "fused"

    def supports(self, device: torch.device, dtype: torch.dtype) -> bool:
        return device.type == "cpu" and dtype in WALKABLE

    def run_cells(
        self, kind: str, values: Tensor, push: Tensor, pop: Tensor, cells: Cells
    ) -> tuple[Tensor, CellStore]:
        return run_walk(walk, kind, values, push, pop, cells)

    def stream_type(self) -> type[Stream]:
        from pushpop.memory.backends.fused.ring import RingStream

        return RingStream


class Triton(Backend):
    """The walk by Triton's kernels."""

    name = "triton"
    limits = "runs floating point on a GPU, with the package triton"
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    """Whether the kernels run on the CPU: by Triton's interpreter, or emulated."""

    def supports(self, device: torch.device, dtype: torch.dtype) -> bool:
        if device.type == "meta":  # shapes only
            return True
        here = self.interpreted if device.type == "cpu" else device.type == "cuda"
        return here and dtype in ON_GPU and (device.type == "cpu" or triton_imports())

    def run_cells(
        self, kind: str, values: Tensor, push: Tensor, pop: Tensor, cells: Cells
    ) -> tuple[Tensor, CellStore]:
        return run_walk(walk_triton, kind, values, push, pop, cells)

    def stream_type(self) -> type[Stream]:
        from pushpop.memory.backends.triton.stream import WalkStream

        return WalkStream


BACKENDS: dict[str, Backend] = {
    "fused": Fused(),
    "triton": Triton(),
    "parallel": PlainTorch("parallel", parallel),
    "reference": PlainTorch("reference", reference),
}
"""The backends by name, the fastest first."""


def able_backends(device: torch.device, dtype: torch.dtype) -> tuple[str, ...]:
    """The backends that can run such tensors, the best first: where there are shapes only, the one
    that has the fewest operators of its own."""
    able = tuple(name for name, backend in BACKENDS.items() if backend.supports(device, dtype))
    return able[::-1] if device.type == "meta" else able


def triton_imports() -> bool:
    """Whether the package triton can be imported; asked only where there is a GPU."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def run_walk(
    operator: Operator[WalkInput, WalkOutput],
    kind: str,
    values: Tensor,
    push: Tensor,
    pop: Tensor,
    cells: Cells,
) -> tuple[Tensor, WalkResult]:
    """A sequence by one of the operators below."""
    out = operator(WalkInput(KINDS.index(kind), values, push, pop, cells.values, cells.strengths))
    return out.reads, WalkResult(values, cells.values, *final_of(out))


_KERNELS = "pushpop.memory.backends.{}.run_walk"
walk = declare(
    "walk", "fused", _KERNELS.format("fused"), empty_walk, empty_walk_gradients, devices="cpu"
)
walk_triton = declare(
    "walk_triton", "triton", _KERNELS.format("triton"), empty_walk, empty_walk_gradients
)
