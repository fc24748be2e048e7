"""Every backend that a device has against the equations, on the CPU in float64.

Strengths in all cases are multiples of a power of two, so that sums of them are exact in float32
too: every implementation sees the same cells in the same window, ties included, and what is left to
differ is rounding.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf, isnan
from typing import Any

import torch
from torch import Tensor, nn

from pushpop.layers import DeepLSTM, MemoryRNN
from pushpop.layers.backends import BACKENDS
from pushpop.layers.state import RNNState
from pushpop.memory import MEMORIES, MemoryState
from pushpop.memory.kinds import MEMORY_NAMES

STEP_BY_STEP = "step by step"
STREAMED = "streamed"
GRIDS = {"random": 2**18, "ties": 4}
"""Gates of a case are so many parts of 1."""
LIMITS = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 2e-2}
"""How large a difference may be, in units of the largest number (or of 1)."""
ORACLE = ("cpu", torch.float64)
"""Where the equations are right by definition."""
VALUES_AT_TIES = ("parallel",)
"""Backends whose gradients at ties are others than the equations': docs/memory.md."""


@dataclass(frozen=True)
class Comparison:
    """What was compared with the equations, and how far it is from them."""

    what: str  # "stack", "MemoryRNN lstm stack"
    backend: str
    device: str
    dtype: str
    case: str  # "random", "ties" or "lengths"
    errors: dict[str, float]  # by name: of reads and outputs, and of every gradient
    limit: float
    failure: str = ""  # what was raised, if something was

    @property
    def worst(self) -> float:
        """The largest difference; NaN and what could not be run count as infinite."""
        return inf if self.failure else max(self.errors.values())

    @property
    def agrees(self) -> bool:
        return self.worst <= self.limit

    def __str__(self) -> str:
        where = f"{self.what}, {self.backend}, {self.dtype} on {self.device}, {self.case}"
        if self.failure:
            return f"{where}: {self.failure.partition(chr(10))[0]}"
        name = max(self.errors, key=lambda name: self.errors[name])
        return f"{where}: {name} differs by {self.worst:.1e}, expected at most {self.limit:.0e}"


@dataclass(frozen=True)
class Sizes:
    """How large the cases are."""

    steps: int = 24
    rows: int = 4
    width: int = 32
    cells: int = 3  # in the memory at first


def compare_memories(device: torch.device, sizes: Sizes) -> Iterator[Comparison]:
    """All memories that come with the package, with every backend that runs on a device."""
    for kind in MEMORY_NAMES:
        for dtype in dtypes_of(device, half=_is_papers(kind)):
            backends = MEMORIES[kind](sizes.width).backends(device, dtype)
            for case in GRIDS if _is_papers(kind) else ("random",):
                inputs = memory_inputs(kind, case, sizes, dtype)
                wanted = run_memory(kind, "reference", [x.double() for x in inputs])
                for backend in (*backends, *((STREAMED,) if _is_papers(kind) else ())):
                    if backend == "reference" and (device.type, dtype) == ORACLE:
                        continue  # it would be compared with itself
                    run = partial(run_memory, kind, backend, inputs, device)
                    values_only = case == "ties" and backend in VALUES_AT_TIES
                    yield compare(kind, backend, device, dtype, case, run, wanted, values_only)


def memory_inputs(kind: str, case: str, sizes: Sizes, dtype: torch.dtype) -> list[Tensor]:
    """Values, gates and, for the paper's memories, initial values and strengths; on the CPU."""
    memory = MEMORIES[kind](sizes.width)
    draw = torch.Generator().manual_seed(7)
    T, B, D, N = sizes.steps, sizes.rows, sizes.width, sizes.cells

    def on_grid(*shape: int) -> Tensor:
        parts = GRIDS[case]
        return torch.randint(parts + 1, shape, generator=draw).double() / parts

    values = torch.randn(T, B, memory.values, D, generator=draw, dtype=torch.float64)
    if not _is_papers(kind):
        logits = torch.randn(T, B, memory.gates, generator=draw, dtype=torch.float64)
        return [values.to(dtype), memory.squash(logits).to(dtype)]
    gates, strengths = on_grid(T, B, memory.gates), on_grid(B, N)
    first = torch.randn(B, N, D, generator=draw, dtype=torch.float64)
    wide = torch.promote_types(dtype, torch.float32)
    return [values.to(dtype), gates.to(wide), first.to(dtype), strengths.to(wide)]


def run_memory(
    kind: str, backend: str, inputs: list[Tensor], device: torch.device | None = None
) -> dict[str, Tensor]:
    """Reads, a number that depends on all cells left, and the gradient of every input."""
    inputs = [x.to(device) for x in inputs]
    memory = MEMORIES[kind](inputs[0].shape[-1], "auto" if backend == STREAMED else backend)
    if backend == STREAMED:  # a step at a time without gradients, as in decoding
        with torch.no_grad():
            state, read = MemoryState(*inputs[2:]), []
            for values, gates in zip(*inputs[:2], strict=True):
                read_t, state = memory.run_step(values, gates, state)
                read.append(read_t)
            return {"reads": torch.stack(read), "cells": look_at_cells(state)}
    leaves = [x.detach().requires_grad_() for x in inputs]
    first = MemoryState(*leaves[2:]) if _is_papers(kind) else None
    reads, state = memory.run(leaves[0], leaves[1], first)
    cells = look_at_cells(state)
    gradients = torch.autograd.grad(
        (weights_like(reads) * reads).sum() + cells.to(reads.dtype), leaves
    )
    names = ("values", "gates", "initial values", "initial strengths")
    by_name = {f"d {name}": g for name, g in zip(names, gradients, strict=False)}
    return {"reads": reads.detach(), "cells": cells.detach(), **by_name}


def compare_layers(device: torch.device, sizes: Sizes) -> Iterator[Comparison]:
    """`MemoryRNN` with each controller and memory, and `DeepLSTM`, on rows of several lengths."""
    T, B = sizes.steps, sizes.rows
    lengths = [T - 3 * row % T for row in range(B)]
    for dtype in dtypes_of(device, half=False):
        for cell in ("lstm", "gru", "rnn"):
            for kind in MEMORY_NAMES:
                torch.manual_seed(3)
                rnn = MemoryRNN(8, 16, kind, sizes.width, cell)
                yield from _compare_layer(f"MemoryRNN {cell} {kind}", rnn, lengths, device, dtype)
        torch.manual_seed(3)
        deep = DeepLSTM(8, 16, 2)
        yield from _compare_layer("DeepLSTM", deep, lengths, device, dtype)


def _compare_layer(
    what: str, layer: Any, lengths: list[int], device: torch.device, dtype: torch.dtype
) -> Iterator[Comparison]:
    layer = layer.to(dtype)  # rounded before both runs
    x = torch.randn(max(lengths), len(lengths), layer.input_size, dtype=dtype)
    layer.double()
    set_backend(layer, "reference")
    wanted = run_layer(layer, x.double(), lengths)

    def move() -> dict[str, Tensor]:
        layer.to(dtype).to(device)  # not at once: an Apple GPU cannot have what is float64
        return {}

    moved = compare(what, "any", device, dtype, "lengths", move, {})
    if moved.failure:  # a GPU that has failed before
        yield moved
        return
    here = x.to(device)
    for backend in (*layer_backends(layer, here), STEP_BY_STEP):
        set_backend(layer, backend)
        plain = isinstance(layer, DeepLSTM) or not _is_papers(layer.memory.kind)
        if backend == STEP_BY_STEP and plain and (device.type, dtype) == ORACLE:
            continue
        run = partial(run_layer, layer, here, lengths)
        yield compare(what, backend, device, dtype, "lengths", run, wanted)


def layer_backends(layer: nn.Module, x: Tensor) -> list[str]:
    """The backends whose kernels run a layer on such an input."""
    if isinstance(layer, DeepLSTM):
        return ["fused"]
    assert isinstance(layer, MemoryRNN)
    return [name for name, kernels in BACKENDS.items() if kernels.unsupported(layer, x) is None]


def set_backend(layer: MemoryRNN | DeepLSTM, backend: str) -> None:
    """Have a layer run by a backend; step by step, its memory still has its kernels."""
    layer.backend = "reference" if backend == STEP_BY_STEP else backend
    if isinstance(layer, MemoryRNN):
        layer.memory.backend = "auto" if backend == STEP_BY_STEP else backend
        if backend not in layer.memory.all_backends():
            layer.memory.backend = "auto"


def run_layer(
    layer: nn.Module, x: Tensor, lengths: list[int] | None, **options: Any
) -> dict[str, Tensor]:
    """Output, the controller's last state, and the gradients of the input and all parameters."""
    x = x.detach().requires_grad_()
    output, state = layer(x, None, lengths, **options)
    parts = list(state.parts if isinstance(state, RNNState) else state)
    loss = (weights_like(output) * output).sum() + sum((part**2).sum() for part in parts)
    if isinstance(state, RNNState):
        loss = loss + look_at_cells(state.memory) + (state.read**2).sum()
    named = {"input": x, **dict(layer.named_parameters())}
    gradients = torch.autograd.grad(loss, list(named.values()))
    by_name = {f"d {name}": g for name, g in zip(named, gradients, strict=True)}
    return {"output": output.detach(), "state": parts[0].detach(), **by_name}


def look_at_cells(state: Any) -> Tensor:
    """A number that depends on every cell's value, strength and place; not on dead cells."""
    if not isinstance(state, MemoryState):
        cells: Tensor = state.cells
        return (weights_like(cells) * cells).sum()
    s = state.strengths
    V = state.values.to(s.dtype)
    along = weights_like(V.new_empty(V.shape[-1]))
    return (s * (torch.sin(V @ along) + torch.sin(s.cumsum(-1)))).sum()


def weights_like(x: Tensor) -> Tensor:
    """Weights that tell numbers apart, the same on all devices and in all precisions."""
    numbers = torch.sin(torch.arange(x.numel(), dtype=torch.float64)).mul(64).round() / 64
    return numbers.reshape(x.shape).to(x.dtype).to(x.device)


def compare(
    what: str,
    backend: str,
    device: torch.device,
    dtype: torch.dtype,
    case: str,
    run: Callable[[], dict[str, Tensor]],
    wanted: dict[str, Tensor],
    values_only: bool = False,
) -> Comparison:
    """How far what a run gives is from what is wanted, by name; gradients begin with "d "."""
    errors, failure = {}, ""
    try:
        with full_precision():
            results = run()
        errors = {  # a GPU says what went wrong when its numbers are fetched
            name: difference(x, wanted[name])
            for name, x in results.items()
            if not (values_only and name.startswith("d "))
        }
    except Exception as error:  # whatever a compiler or a driver has to say, the others go on
        failure = f"{type(error).__name__}: {error}"
    name = str(dtype).removeprefix("torch.")
    return Comparison(what, backend, str(device), name, case, errors, LIMITS[dtype], failure)


@contextmanager
def full_precision() -> Iterator[None]:
    """Products of float32 in float32: on NVIDIA GPUs cuDNN has them in TF32 unless told so."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def difference(actual: Tensor, wanted: Tensor) -> float:
    """The largest difference, in units of the largest wanted number (or of 1)."""
    if not wanted.numel():
        return 0.0
    off = (actual.detach().cpu().double() - wanted.double()).abs()
    worst = float((off / wanted.double().abs().max().clamp(min=1)).max())
    return inf if isnan(worst) else worst


def dtypes_of(device: torch.device, half: bool) -> tuple[torch.dtype, ...]:
    """Those to compare in, with half precision if wanted; an Apple GPU has no float64."""
    whole = (torch.float32,) if device.type == "mps" else (torch.float64, torch.float32)
    return (*whole, torch.bfloat16) if half else whole


def _is_papers(kind: str) -> bool:
    return isinstance(MEMORIES[kind].kernel, int)
