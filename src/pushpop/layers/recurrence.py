"""The operator behind `fused.run`: the recurrence and its backward pass, each one loop over time.

The input's share of the cell's blocks is one matrix product for some steps ahead, and the weights'
gradients are one product each after the loop. Inside, a step is two small products (the blocks from
h and the reads, the values from h), the elementwise part, and one step of the memory's walk. The
backward pass runs the loop in reverse by hand.

The products work on the same few buffers at every step; `carry` [B, S] holds h and the reads side
by side, which is all that a step hands to the next but c and the memory. The compiled parts between
them write down what the backward pass needs.

A layer may have M memories: B sequences then have R = B*M rows of cells, row b*M + m for memory m
of sequence b. Values are projected in the order (m, e, d), gates in the order (m, pushes at its
ends, pops at its ends), and S = H + M*E*D.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from pushpop.layers.buffers import cache_padded
from pushpop.memory.autograd import refuse_second_derivative
from pushpop.memory.state import as_array

AHEAD = 16  # steps whose input is multiplied at once: few enough to stay in the cache


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
    prev_carry: Tensor  # [T, B, S], before each step
    prev_c: Tensor  # [T, B, H]
    activations: Tensor  # [T, B, K]
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
    from pushpop.layers.elementwise import FORWARD, CellForward, GatesForward, gates_forward
    from pushpop.memory.walker import Walker

    out = empty_output(memories, x, carry_weight, gate_bias, h, initial, strengths)
    (T, B, _), H = x.shape, h.shape[1]
    if sizes[-1] < B:  # padded steps are never written, but they take part in products
        for padded in (out.hidden, out.values, out.prev_carry, out.prev_c, out.activations):
            padded.zero_()
    elif cell != "lstm":
        out.prev_c.zero_()
    gates, values = out.gates.view(T, B, -1), out.values.view(T, B, -1)
    if gate_noise is None:
        gates.zero_()
    else:
        gates.copy_(gate_noise)  # `gates_forward` adds the logits to it
    h_now = out.carry[:, :H]
    h_now.copy_(h)
    out.carry[:, H:].copy_(read)
    out.c.copy_(c)
    from_carry, value = x.new_empty(out.activations.shape[1:]), x.new_empty(values.shape[1:])
    from_x = x.new_empty(AHEAD, *from_carry.shape)
    by_carry, by_h, by_x = (
        cache_padded(carry_weight.T),
        value_weight.T.contiguous(),
        cache_padded(x_weight.T),
    )
    log = (out.log_row_ids, out.log_strengths, out.dropped, out.trimmed_from)
    walker = Walker(kind, memories, out.carry, H, out.values, out.gates, initial, strengths, log)
    cell_arrays = tuple(CellForward(
        carry=as_array(out.carry), prev_carry=as_array(out.prev_carry),
        from_carry=as_array(from_carry), from_x=as_array(from_x), bias=as_array(bias),
        activations=as_array(out.activations), hidden=as_array(out.hidden),
        c=as_array(out.c), prev_c=as_array(out.prev_c),
    ))  # fmt: skip
    gate_arrays = tuple(GatesForward(
        hidden=as_array(out.hidden), gate_weight=as_array(gate_weight),
        gate_bias=as_array(gate_bias), gates=as_array(gates), value=as_array(value),
        value_bias=as_array(value_bias), values=as_array(values),
    ))  # fmt: skip
    forward = FORWARD[cell]
    for t, n in enumerate(sizes):
        if n == 0:
            break
        if t % AHEAD == 0:
            ahead = x[t : t + AHEAD]
            torch.mm(ahead.reshape(-1, x.shape[2]), by_x, out=from_x[: len(ahead)].flatten(0, 1))
            if cell_noise is not None:
                from_x[: len(ahead), :, : cell_noise.shape[2]] += cell_noise[t : t + AHEAD]
        torch.mm(out.carry, by_carry, out=from_carry)
        forward(t, n, cell_arrays)
        torch.mm(h_now, by_h, out=value)
        gates_forward(t, n, gate_arrays)
        walker.step(t, n)
    walker.finish(out.strengths, out.row_ids, out.counts)
    return list(out)


recurrence = torch.library.custom_op(
    "pushpop::recurrence", plain_recurrence, mutates_args=(), device_types="cpu"
)


@recurrence.register_fake
def _(*inputs: Any) -> list[Tensor]:
    given = RecurrenceInput(*inputs)
    return list(empty_output(
        given.memories, given.x, given.carry_weight, given.gate_bias, given.h, given.initial,
        given.strengths,
    ))  # fmt: skip


def empty_output(
    memories: int, x: Tensor, carry_weight: Tensor, gate_bias: Tensor, h: Tensor, initial: Tensor,
    strengths: Tensor,
) -> RecurrenceOutput:  # fmt: skip
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
        prev_carry=new(T, B, S),
        prev_c=new(T, B, H),
        activations=new(T, B, K),
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
    from pushpop.layers.elementwise import BACKWARD, CellBackward, GatesBackward, gates_backward
    from pushpop.memory.walker import BackwardWalker

    kept = Saved(*saved)
    T, B, H = kept.hidden.shape
    new = torch.zeros if sizes[-1] < B else torch.empty  # padded steps have no gradient
    d_blocks, d_values, d_gates = (
        new(like.shape, dtype=x.dtype) for like in (kept.activations, kept.values, kept.gates)
    )
    values, gates, flat_d_values, flat_d_gates = (
        each.view(T, B, -1) for each in (kept.values, kept.gates, d_values, d_gates)
    )
    d_carry, d_c = x.new_zeros(kept.prev_carry.shape[1:]), x.new_zeros(B, H)
    if grad_carry is not None:
        d_carry.copy_(grad_carry)
    if grad_c is not None:
        d_c.copy_(grad_c)
    d_h, d_prev_carry, direct = d_carry[:, :H], torch.empty_like(d_carry), torch.zeros_like(d_c)
    step_d_values, step_d_blocks = x.new_zeros(values.shape[1:]), x.new_zeros(d_blocks.shape[1:])
    grad_hidden = torch.zeros_like(kept.hidden) if grad_hidden is None else grad_hidden
    if grad_strengths is None:
        grad_strengths = torch.zeros_like(kept.strengths)
    walker = BackwardWalker(
        kind, memories, d_carry, H, kept.values, initial,
        final=(kept.strengths, kept.row_ids, kept.counts),
        log=(kept.log_row_ids, kept.log_strengths, kept.dropped, kept.trimmed_from),
        grad_final=grad_strengths, grad_values=d_values, grad_gates=d_gates,
    )  # fmt: skip
    gate_arrays = tuple(GatesBackward(
        values=as_array(values), d_values=as_array(flat_d_values),
        step_d_values=as_array(step_d_values), gates=as_array(gates),
        d_gates=as_array(flat_d_gates), gate_weight=as_array(gate_weight),
        grad_hidden=as_array(grad_hidden), d_carry=as_array(d_carry),
    ))  # fmt: skip
    cell_arrays = tuple(CellBackward(
        prev_carry=as_array(kept.prev_carry), activations=as_array(kept.activations),
        prev_c=as_array(kept.prev_c), d_carry=as_array(d_carry), d_c=as_array(d_c),
        d_blocks=as_array(d_blocks), step_d_blocks=as_array(step_d_blocks),
        direct=as_array(direct),
    ))  # fmt: skip
    by_blocks = cache_padded(carry_weight)
    backward = BACKWARD[cell]
    for t in range(T - 1, -1, -1):
        n = sizes[t]
        if n == 0:
            continue
        walker.step(t, n)
        if grad_values is not None:
            flat_d_values[t, :n] += grad_values[t].reshape(B, -1)[:n]
        gates_backward(t, n, gate_arrays)
        d_h.addmm_(step_d_values, value_weight)
        backward(t, n, cell_arrays)
        if n == B:
            torch.mm(step_d_blocks, by_blocks, out=d_carry)
        else:  # rows that ended before keep the gradient of their final state
            torch.mm(step_d_blocks, by_blocks, out=d_prev_carry)
            d_carry[:n] = d_prev_carry[:n]
        if cell == "gru":
            d_h[:n] += direct[:n]
    dz, dv, dg, hidden = (
        each.view(T * B, -1) for each in (d_blocks, d_values, d_gates, kept.hidden)
    )
    return [
        (dz @ x_weight).view(x.shape), dz.T @ x.reshape(T * B, -1), dz.sum(0),
        dz.T @ kept.prev_carry.view(T * B, -1),
        dv.T @ hidden, dv.sum(0), dg.T @ hidden, dg.sum(0),
        d_h.clone(), d_c, d_carry[:, H:].clone(), *walker.finish(),
    ]  # fmt: skip


@recurrence_backward.register_fake
def empty_gradients(
    kind: int, memories: int, cell: str, sizes: list[int], x: Tensor, x_weight: Tensor,
    carry_weight: Tensor, value_weight: Tensor, gate_weight: Tensor, initial: Tensor,
    saved: list[Tensor], *grads: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """What a backward operator returns, empty."""
    _, B, H = Saved(*saved).hidden.shape
    shapes = [
        x.shape, x_weight.shape, carry_weight.shape[:1], carry_weight.shape,
        value_weight.shape, value_weight.shape[:1], gate_weight.shape, gate_weight.shape[:1],
        (B, H), (B, H), (B, carry_weight.shape[1] - H), initial.shape, initial.shape[:2],
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
