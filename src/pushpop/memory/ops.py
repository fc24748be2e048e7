"""The memory as torch operators, and its three implementations behind one call.

`pushpop::walk` and `pushpop::walk_backward` wrap the CPU kernels so that autograd, fake tensors and
`torch.compile` know them. The other two implementations are plain torch and need no wrapping.
"""

import sys
from typing import Any

import torch
from torch import Tensor

from pushpop.memory import intervals, reference
from pushpop.memory.state import Cells, MemoryState, Walked

KINDS = ("stack", "queue", "deque")
WALKABLE = (torch.float32, torch.float64)


def run(
    kind: str, values: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None, backend: str
) -> tuple[Tensor, MemoryState]:
    """values [T, B, E, D], push and pop [T, B, E] -> reads [T, B, E, D] and the next state."""
    T, B, _, D = values.shape
    if state is None:
        state = MemoryState(values.new_zeros(B, 0, D), values.new_zeros(B, 0))
    if T == 0:
        return values.clone(), state
    first = state._cells()
    if backend == "fused":
        reads, strengths, rows, counts, *_ = walk(KINDS.index(kind), values, push, pop, *first)
        return reads, _state_of(Walked(strengths, rows, counts, values, first.values))
    form = reference.run if backend == "reference" else intervals.run
    reads, V, s = form(kind, values, push, pop, *first)
    return reads, MemoryState._holding(Cells(V, s))


def _state_of(walked: Walked) -> MemoryState:
    """A state that gathers its values when asked for them, or now if they might change till then.

    With gradients the inputs must stay as they are anyway, and their versions tell if they did not.
    """
    if torch.compiler.is_compiling():
        return MemoryState._holding(walked)
    if not walked.strengths.requires_grad:
        return MemoryState._holding(walked.cells())
    return MemoryState._holding(walked.watched())


def step(
    kind: str, value: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None, backend: str
) -> tuple[Tensor, MemoryState]:
    """One step: value [B, E, D], push and pop [B, E] -> read [B, E, D] and the state after it.

    Without gradients the CPU kernel changes a ring in place, at a cost independent of the depth.
    """
    grads = torch.is_grad_enabled() and (
        any(x.requires_grad for x in (value, push, pop))
        or (state is not None and state.requires_grad)
    )
    if backend != "fused" or grads or torch.compiler.is_compiling():
        reads, state = run(kind, value[None], push[None], pop[None], state, backend)
        return reads[0], state
    load_kernels()
    from pushpop.memory.stream import Stream

    held = None if state is None else state._held
    if held is None:
        B, _, D = value.shape
        held = Stream.of(value.new_zeros(B, 0, D), value.new_zeros(B, 0))
    elif not isinstance(held, Stream) or held.newer is not None:  # old: undo the steps since, once
        assert state is not None
        held = Stream.of(*state._cells())
    read, after = held.advance(KINDS.index(kind), value, push, pop)
    return read, MemoryState._holding(after)


@torch.library.custom_op("pushpop::walk", mutates_args=(), device_types="cpu")
def walk(
    kind: int, values: Tensor, push: Tensor, pop: Tensor, initial: Tensor, strengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """reads; final strengths, rows and counts of cells (`state.Walked`); the log of the walk."""
    out = _walk_outputs(values, strengths)
    arrays = [_array(x) for x in (values, torch.cat([push, pop], -1), initial, strengths)]
    load_kernels().forward(kind, *arrays, *(x.numpy() for x in out))
    return out


@walk.register_fake
def _(
    kind: int, values: Tensor, push: Tensor, pop: Tensor, initial: Tensor, strengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _walk_outputs(values, strengths)


def _walk_outputs(
    values: Tensor, strengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    T, B, E, _ = values.shape
    room = strengths.shape[1] + T * E
    return (
        values.new_empty(values.shape),
        values.new_empty(B, room),
        values.new_empty(B, room, dtype=torch.int64),
        values.new_empty(B, dtype=torch.int64),
        values.new_empty(B, room, dtype=torch.int64),
        values.new_empty(B, room),
        values.new_empty(T, B, 2, dtype=torch.int64),
        values.new_empty(T, B, 2),
    )


@torch.library.custom_op("pushpop::walk_backward", mutates_args=(), device_types="cpu")
def walk_backward(
    kind: int,
    values: Tensor,
    initial: Tensor,
    final_s: Tensor,
    final_rows: Tensor,
    counts: Tensor,
    log_rows: Tensor,
    log_s: Tensor,
    dropped: Tensor,
    before: Tensor,
    grad_reads: Tensor,
    grad_s: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of values, push, pop, initial values and initial strengths."""
    g_values, g_push, g_pop, g_initial, g_strengths = _walk_gradients(values, initial)
    g_gates = values.new_empty(*values.shape[:2], 2 * values.shape[2])
    inputs = (values, initial, final_s, final_rows, counts, log_rows, log_s, dropped, before)
    outputs = (g_values, g_gates, g_initial, g_strengths)
    arrays = [_array(x) for x in (*inputs, grad_reads, grad_s, *outputs)]
    load_kernels_backward().backward(kind, *arrays)
    torch.split_copy(g_gates, values.shape[2], -1, out=(g_push, g_pop))
    return g_values, g_push, g_pop, g_initial, g_strengths


@walk_backward.register_fake
def _(kind: int, values: Tensor, initial: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    return _walk_gradients(values, initial)


def _walk_gradients(
    values: Tensor, initial: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        values.new_empty(values.shape),
        values.new_empty(values.shape[:3]),
        values.new_empty(values.shape[:3]),
        values.new_zeros(initial.shape),
        values.new_zeros(initial.shape[:2]),
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    kind, values, _, _, initial, _ = inputs
    ctx.kind = kind
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(values, initial, *output[1:])


def _backward(ctx: Any, grad_reads: Tensor | None, grad_s: Tensor | None, *_: Any) -> Any:
    values, initial, final_s, *log = ctx.saved_tensors
    if grad_reads is None:
        grad_reads = torch.zeros_like(values)
    if grad_s is None:
        grad_s = torch.zeros_like(final_s)
    return None, *walk_backward(ctx.kind, values, initial, final_s, *log, grad_reads, grad_s)


walk.register_autograd(_backward, setup_context=_setup_context)


def _array(x: Tensor) -> Any:
    return x.detach().contiguous().numpy()


def load_kernels() -> Any:
    """The Numba kernels; the first time, listen for their compilation and say so, once."""
    if "pushpop.memory.kernels" not in sys.modules:
        from numba.core import event

        class Announce(event.Listener):
            said = False

            def on_start(self, started: Any) -> None:
                source = started.data["dispatcher"].py_func.__module__
                if not self.said and source.startswith("pushpop."):
                    self.said = True
                    note = "pushpop: compiling CPU kernels; this happens once, then they are cached"
                    print(note, file=sys.stderr, flush=True)

            def on_end(self, ended: Any) -> None:
                pass

        event.register("numba:compile", Announce())  # type: ignore[no-untyped-call]
    from pushpop.memory import kernels

    return kernels


def load_kernels_backward() -> Any:
    """The kernels of the gradients, loaded as the others are."""
    load_kernels()
    from pushpop.memory import kernels_backward

    return kernels_backward
