"""The memory as torch operators, and its implementations behind one call.

`pushpop::walk` and `pushpop::walk_backward` wrap the kernels, Numba's on the CPU and Triton's on a
GPU, so that autograd, fake tensors and `torch.compile` know them. The other two implementations are
plain torch and need no wrapping.
"""

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from pushpop.memory import intervals, reference
from pushpop.memory.autograd import refuse_second_derivative
from pushpop.memory.state import Cells, MemoryState, Walked, as_array, strength_dtype

if TYPE_CHECKING:
    from pushpop.memory.linked import Linked

KINDS = ("stack", "queue", "deque")
WALKABLE = (torch.float32, torch.float64)
ON_GPU = (*WALKABLE, torch.bfloat16, torch.float16)
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether this process was started such that Triton runs its kernels in Python, on the CPU."""


def run(
    kind: str, values: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None, backend: str
) -> tuple[Tensor, MemoryState]:
    """values [T, B, E, D], push and pop [T, B, E] -> reads [T, B, E, D] and the next state.

    Beside values in half precision, gates and strengths are float32.
    """
    T, B, _, D = values.shape
    wide = strength_dtype(values.dtype)
    if state is None:
        state = MemoryState(values.new_zeros(B, 0, D), values.new_zeros(B, 0, dtype=wide))
    if T == 0:
        return values.clone(), state
    first = state._cells()
    push, pop = push.to(wide), pop.to(wide)
    V, s = first.values, first.strengths.to(wide)
    if backend == "triton" and kind != "deque" and T > 1:
        from pushpop.memory import linked

        reads, left = linked.run(KINDS.index(kind), values, push, pop, V, s)
        return reads, _state_of(left, reads.requires_grad)
    if backend in ("fused", "triton"):
        operator = walk_interpreted if backend == "triton" and values.device.type == "cpu" else walk
        out = WalkOutput(*operator(KINDS.index(kind), values, push, pop, V, s))
        return out.reads, _state_of(Walked(*out.final, values, V), out.reads.requires_grad)
    if backend == "parallel":
        reads, V, s = intervals.run(kind, values, push, pop, V, s)
    else:
        reads, V, s = reference.run(kind, values.to(wide), push, pop, V.to(wide), s)
    return reads.to(values.dtype), MemoryState._holding(Cells(V.to(values.dtype), s))


def _state_of(left: "Walked | Linked", in_graph: bool) -> MemoryState:
    """A state that gathers its values when asked for them, or now if they might change till then.

    With gradients the inputs must stay as they are anyway, and their versions tell if they did not.
    """
    if torch.compiler.is_compiling():
        return MemoryState._holding(left)
    if not in_graph:
        return MemoryState._holding(left.cells())
    return MemoryState._holding(left.watched())


def step(
    kind: str, value: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None, backend: str
) -> tuple[Tensor, MemoryState]:
    """One step: value [B, E, D], push and pop [B, E] -> read [B, E, D] and the state after it.

    Without gradients the kernels change cells in place, at a cost independent of the depth.
    """
    grads = torch.is_grad_enabled() and (
        any(x.requires_grad for x in (value, push, pop))
        or (state is not None and state.requires_grad)
    )
    in_place = backend == "fused" or (backend == "triton" and len(value) > 0)
    if not in_place or grads or torch.compiler.is_compiling():
        reads, state = run(kind, value[None], push[None], pop[None], state, backend)
        return reads[0], state
    number = KINDS.index(kind)
    streams = _streams(backend)
    held = None if state is None else state._held
    if held is None:
        B, _, D = value.shape
        held = streams.of(number, Cells(value.new_zeros(B, 0, D), value.new_zeros(B, 0)))
    elif not isinstance(held, streams) or held.is_old:  # old: undo the steps since, once
        assert state is not None
        held = streams.of(number, state._cells())
    read, after = held.advance(number, value, push, pop)
    return read, MemoryState._holding(after)


def _streams(backend: str) -> Any:
    """The class of the cells that a backend's kernels step in place."""
    if backend == "triton":
        from pushpop.memory.triton_stream import TritonStream

        return TritonStream
    load_kernels()
    from pushpop.memory.stream import Stream

    return Stream


class WalkOutput(NamedTuple):
    """What `walk` returns, in its order: the reads, the final cells (as `state.Walked` has them),
    and the log of the pops (`kernels.PopLog`). R = B rows, room for N + T*E cells. Reads have the
    dtype of the values, all else that is not a whole number that of the strengths.
    """

    reads: Tensor  # [T, B, E, D]
    strengths: Tensor  # [B, room]
    row_ids: Tensor  # [B, room]
    counts: Tensor  # [B]
    log_row_ids: Tensor  # [B, room]
    log_strengths: Tensor  # [B, room]
    dropped: Tensor  # [T*B, 2]
    trimmed_from: Tensor  # [T*B, 2]

    @property
    def final(self) -> tuple[Tensor, Tensor, Tensor]:
        """The fields of `kernels.FinalCells`."""
        return self.strengths, self.row_ids, self.counts

    @property
    def log(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The fields of `kernels.PopLog`."""
        return self.log_row_ids, self.log_strengths, self.dropped, self.trimmed_from


@torch.library.custom_op("pushpop::walk", mutates_args=(), device_types="cpu")
def walk(
    kind: int, values: Tensor, push: Tensor, pop: Tensor, initial: Tensor, strengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Run the CPU kernels; returns the fields of `WalkOutput`."""
    out = _empty_output(values, strengths)
    gates = torch.cat([push, pop], -1)
    load_kernels().forward(
        kind, *map(as_array, (values, gates, initial, strengths, out.reads)),
        tuple(map(as_array, out.final)), tuple(map(as_array, out.log)),
    )  # fmt: skip
    return out


@walk.register_kernel("cuda")
def _walk_on_gpu(
    kind: int, values: Tensor, push: Tensor, pop: Tensor, initial: Tensor, strengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    from pushpop.memory import triton_launch

    out = _empty_output(values, strengths)
    triton_launch.walk(kind, values, push, pop, initial, strengths, out.reads, out.final, out.log)
    return out


def _fake_walk(
    kind: int, values: Tensor, push: Tensor, pop: Tensor, initial: Tensor, strengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _empty_output(values, strengths)


def _empty_output(values: Tensor, strengths: Tensor) -> WalkOutput:
    T, B, E, _ = values.shape
    room, new = strengths.shape[1] + T * E, strengths.new_empty
    return WalkOutput(
        reads=values.new_empty(values.shape),
        strengths=new(B, room),
        row_ids=new(B, room, dtype=torch.int64),
        counts=new(B, dtype=torch.int64),
        log_row_ids=new(B, room, dtype=torch.int64),
        log_strengths=new(B, room),
        dropped=new(T * B, 2, dtype=torch.int64),
        trimmed_from=new(T * B, 2),
    )


@torch.library.custom_op("pushpop::walk_backward", mutates_args=(), device_types="cpu")
def walk_backward(
    kind: int,
    values: Tensor,
    initial: Tensor,
    strengths: Tensor,
    row_ids: Tensor,
    counts: Tensor,
    log_row_ids: Tensor,
    log_strengths: Tensor,
    dropped: Tensor,
    trimmed_from: Tensor,
    grad_reads: Tensor,
    grad_strengths: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of values, push, pop, initial values and initial strengths, from those of the
    reads and of the final strengths.
    """
    from pushpop.memory import kernels_backward

    gradients = _empty_gradients(values, initial, strengths)
    g_values, g_push, g_pop, g_initial, g_strengths = gradients
    g_gates = values.new_empty(*values.shape[:2], 2 * values.shape[2])
    final, log = (strengths, row_ids, counts), (log_row_ids, log_strengths, dropped, trimmed_from)
    kernels_backward.backward(
        kind, as_array(values), as_array(initial),
        tuple(map(as_array, final)), tuple(map(as_array, log)),
        *map(as_array, (grad_reads, grad_strengths, g_values, g_gates, g_initial, g_strengths)),
    )  # fmt: skip
    torch.split_copy(g_gates, values.shape[2], -1, out=(g_push, g_pop))
    return gradients


@walk_backward.register_kernel("cuda")
def _walk_backward_on_gpu(
    kind: int,
    values: Tensor,
    initial: Tensor,
    strengths: Tensor,
    row_ids: Tensor,
    counts: Tensor,
    log_row_ids: Tensor,
    log_strengths: Tensor,
    dropped: Tensor,
    trimmed_from: Tensor,
    grad_reads: Tensor,
    grad_strengths: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    from pushpop.memory import triton_launch

    return triton_launch.walk_backward(
        kind, values, initial, (strengths, row_ids, counts),
        (log_row_ids, log_strengths, dropped, trimmed_from), grad_reads, grad_strengths,
    )  # fmt: skip


def _fake_walk_backward(
    kind: int, values: Tensor, initial: Tensor, strengths: Tensor, *rest: Tensor
) -> tuple[Tensor, ...]:
    return _empty_gradients(values, initial, strengths)


def _empty_gradients(
    values: Tensor, initial: Tensor, strengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        values.new_empty(values.shape),
        strengths.new_empty(values.shape[:3]),
        strengths.new_empty(values.shape[:3]),
        values.new_zeros(initial.shape),
        strengths.new_zeros(initial.shape[:2]),
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    kind, values, _, _, initial, _ = inputs
    out = WalkOutput(*output)
    ctx.kind = kind
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(values, initial, *out.final, *out.log)


def _complete(forward: Any, backward: Any, backend: str | None = None) -> None:
    """Tell torch the rest about a walk and its backward pass: shapes and derivatives."""

    def differentiate(
        ctx: Any, grad_reads: Tensor | None, grad_strengths: Tensor | None, *_: Any
    ) -> Any:
        values, initial, strengths, *rest = ctx.saved_tensors
        if grad_reads is None:
            grad_reads = torch.zeros_like(values)
        if grad_strengths is None:
            grad_strengths = torch.zeros_like(strengths)
        given = (values, initial, strengths, *rest, grad_reads, grad_strengths)
        return None, *backward(ctx.kind, *given)

    forward.register_fake(_fake_walk)
    backward.register_fake(_fake_walk_backward)
    forward.register_autograd(differentiate, setup_context=_setup_context)
    refuse_second_derivative(backward, backend)


_complete(walk, walk_backward)
walk_interpreted = walk
if INTERPRETED:  # operators of their own: on the CPU, `walk` is Numba's
    walk_interpreted = torch.library.custom_op(
        "pushpop::walk_interpreted", _walk_on_gpu, mutates_args=(), device_types="cpu"
    )
    _walk_backward_interpreted = torch.library.custom_op(
        "pushpop::walk_backward_interpreted",
        _walk_backward_on_gpu,
        mutates_args=(),
        device_types="cpu",
    )
    _complete(walk_interpreted, _walk_backward_interpreted, "triton")


def triton_imports() -> bool:
    """Whether the package triton is there and can be imported; asked only where there is a GPU."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def load_kernels() -> Any:
    """The forward kernels, and with them Numba, imported when first used."""
    from pushpop.memory import kernels

    return kernels
