"""The operator behind `fused.run` for the paper's memories: the loop of `controller_loop.py` around
a walk over live cells (`memory/walker.py`), with its backward pass.

Shapes are as there. A memory has E ends, and takes E values and 2*E gates a step: the pushes and
then the pops. On a GPU nothing is packed: [T, B, ...] stands for [N, ...].
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from pushpop.layers.controller_loop import (
    Backward,
    Kept,
    Weights,
    gradient_shapes,
    run_forward,
)
from pushpop.memory.autograd import refuse_second_derivative


class RecurrenceInput(NamedTuple):
    """What `recurrence` takes, in its order. K is the width of the cell's blocks."""

    kind: int  # in `memory.ops.KINDS`
    memories: int  # M
    cell: str
    sizes: list[int]  # [T], sequences that have a step t: the first ones
    x: Tensor  # [T, B, I]
    x_weight: Tensor  # [K, I]
    bias: Tensor  # [K]
    carry_weight: Tensor  # [K, S]
    value_weight: Tensor  # [M*E*D, H]
    value_bias: Tensor  # [M*E*D]
    gate_weight: Tensor  # [M*2*E, H]
    gate_bias: Tensor  # [M*2*E]
    h: Tensor  # [B, H]
    c: Tensor  # [B, H]
    read: Tensor  # [B, M*E*D]
    initial: Tensor  # [R, N, D], the cells at the start
    strengths: Tensor  # [R, N]
    gate_noise: Tensor | None  # [T, B, M*2*E]
    cell_noise: Tensor | None  # [T, B, at most K], for the first blocks


class RecurrenceOutput(NamedTuple):
    """What `recurrence` returns, in its order: its results, and what the backward pass needs."""

    hidden: Tensor  # [T, B, H]
    carry: Tensor  # [B, S], the final h and reads
    c: Tensor  # [B, H], final
    values: Tensor  # [T, R, E, D]
    strengths: Tensor  # [R, room], of the final cells (`memory.state.Walked`)
    row_ids: Tensor  # [R, room]
    counts: Tensor  # [R]
    prev_carry: Tensor  # [N, S], before each step
    prev_c: Tensor  # [N, H]
    activations: Tensor  # [N, K]
    gates: Tensor  # [T, R, 2*E]
    log_row_ids: Tensor  # [R, room], the log of the pops (`memory.kernels.PopLog`)
    log_strengths: Tensor  # [R, room]
    dropped: Tensor  # [T*R, 2]
    trimmed_from: Tensor  # [T*R, 2]


class Saved(NamedTuple):
    """What of RecurrenceOutput the backward pass needs."""

    hidden: Tensor
    values: Tensor
    strengths: Tensor
    row_ids: Tensor
    counts: Tensor
    prev_carry: Tensor
    prev_c: Tensor
    activations: Tensor
    gates: Tensor
    log_row_ids: Tensor
    log_strengths: Tensor
    dropped: Tensor
    trimmed_from: Tensor


def plain_recurrence(
    kind: int, memories: int, cell: str, sizes: list[int], x: Tensor, x_weight: Tensor,
    bias: Tensor, carry_weight: Tensor, value_weight: Tensor, value_bias: Tensor,
    gate_weight: Tensor, gate_bias: Tensor, h: Tensor, c: Tensor, read: Tensor, initial: Tensor,
    strengths: Tensor, gate_noise: Tensor | None, cell_noise: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """From the fields of `RecurrenceInput` to those of `RecurrenceOutput`."""
    from pushpop.memory.walker import Walker

    packed = (sum(sizes),)
    out = empty_output(packed, memories, x, carry_weight, gate_bias, h, initial, strengths)
    log = (out.log_row_ids, out.log_strengths, out.dropped, out.trimmed_from)
    walker = Walker(
        kind, memories, out.carry, h.shape[1], out.values, out.gates, initial, strengths, log
    )
    weights = Weights(
        x_weight, bias, carry_weight, value_weight, value_bias, gate_weight, gate_bias
    )
    run_forward(
        cell, 0, sizes, walker, x, weights, h, c, read, gate_noise, cell_noise, Kept.of(out),
        out.carry, out.c,
    )  # fmt: skip
    walker.finish(out.strengths, out.row_ids, out.counts)
    return list(out)


recurrence = torch.library.custom_op(
    "pushpop::recurrence", plain_recurrence, mutates_args=(), device_types="cpu"
)


@recurrence.register_fake
def _(*inputs: Any) -> list[Tensor]:
    given = RecurrenceInput(*inputs)
    return list(empty_output(
        (sum(given.sizes),), given.memories, given.x, given.carry_weight, given.gate_bias, given.h,
        given.initial, given.strengths,
    ))  # fmt: skip


def empty_output(
    steps: tuple[int, ...], memories: int, x: Tensor, carry_weight: Tensor, gate_bias: Tensor,
    h: Tensor, initial: Tensor, strengths: Tensor,
) -> RecurrenceOutput:  # fmt: skip
    """What the operator returns, empty; `steps` are (N,) or (T, B)."""
    (T, B, _), E = x.shape, gate_bias.shape[0] // (2 * memories)
    R, room = B * memories, strengths.shape[1] + T * E
    H, (K, S), new = h.shape[1], carry_weight.shape, x.new_empty
    return RecurrenceOutput(
        hidden=new(T, B, H),
        carry=new(B, S),
        c=new(B, H),
        values=new(T, R, E, initial.shape[2]),
        strengths=new(R, room),
        row_ids=new(R, room, dtype=torch.int64),
        counts=new(R, dtype=torch.int64),
        prev_carry=new(*steps, S),
        prev_c=new(*steps, H),
        activations=new(*steps, K),
        gates=new(T, R, 2 * E),
        log_row_ids=new(R, room, dtype=torch.int64),
        log_strengths=new(R, room),
        dropped=x.new_zeros(T * R, 2, dtype=torch.int64),
        trimmed_from=x.new_zeros(T * R, 2),
    )


@torch.library.custom_op("pushpop::recurrence_backward", mutates_args=(), device_types="cpu")
def recurrence_backward(
    kind: int, memories: int, cell: str, sizes: list[int], x: Tensor, x_weight: Tensor,
    carry_weight: Tensor, value_weight: Tensor, gate_weight: Tensor, initial: Tensor,
    saved: list[Tensor], grad_hidden: Tensor | None, grad_carry: Tensor | None,
    grad_c: Tensor | None, grad_values: Tensor | None, grad_strengths: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """The gradients of `recurrence`'s tensors, in its order, from those of its results; `saved` has
    the fields of `Saved`.
    """
    from pushpop.memory.walker import BackwardWalker

    kept = Saved(*saved)
    loop = Backward(cell, sizes, x, Kept.of(kept), grad_carry, grad_c)
    if grad_strengths is None:
        grad_strengths = torch.zeros_like(kept.strengths)
    walker = BackwardWalker(
        kind, memories, loop.d_carry, kept.hidden.shape[2], kept.values, initial,
        final=(kept.strengths, kept.row_ids, kept.counts),
        log=(kept.log_row_ids, kept.log_strengths, kept.dropped, kept.trimmed_from),
        grad_final=grad_strengths, grad_values=loop.d_values, grad_gates=loop.d_gates,
    )  # fmt: skip
    gradients = loop.run(
        0, walker, x_weight, carry_weight, value_weight, gate_weight, grad_hidden, grad_values
    )
    return [*gradients, *walker.finish()]


@recurrence_backward.register_fake
def empty_gradients(
    kind: int, memories: int, cell: str, sizes: list[int], x: Tensor, x_weight: Tensor,
    carry_weight: Tensor, value_weight: Tensor, gate_weight: Tensor, initial: Tensor,
    saved: list[Tensor], *grads: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """What a backward operator returns, empty."""
    weights = (x_weight, carry_weight, value_weight, gate_weight)
    shapes = [
        *gradient_shapes(x, *weights, Saved(*saved).hidden), initial.shape, initial.shape[:2]
    ]  # fmt: skip
    return [x.new_empty(shape) for shape in shapes]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    given, out = RecurrenceInput(*inputs), RecurrenceOutput(*output)
    ctx.kind, ctx.memories, ctx.cell, ctx.sizes = (
        given.kind, given.memories, given.cell, given.sizes,
    )  # fmt: skip
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(
        given.x, given.x_weight, given.carry_weight, given.value_weight, given.gate_weight,
        given.initial, *(getattr(out, name) for name in Saved._fields),
    )  # fmt: skip


def register_gradients(operator: Any, backward_operator: Any, backend: str) -> None:
    """Have autograd know a backend's operator of the recurrence and that of its backward pass."""

    def backward(ctx: Any, grads: list[Tensor | None]) -> Any:
        # Read once: checkpointing hands the saved tensors out only once.
        x, x_weight, carry_weight, value_weight, gate_weight, initial, *saved = ctx.saved_tensors
        grad = RecurrenceOutput(*grads)  # type: ignore[arg-type]
        gradients = backward_operator(
            ctx.kind, ctx.memories, ctx.cell, ctx.sizes, x, x_weight, carry_weight, value_weight,
            gate_weight, initial, saved, grad.hidden, grad.carry, grad.c, grad.values,
            grad.strengths,
        )  # fmt: skip
        return None, None, None, None, *gradients, None, None

    operator.register_autograd(backward, setup_context=_setup_context)
    refuse_second_derivative(backward_operator, backend)


register_gradients(recurrence, recurrence_backward, "fused")
