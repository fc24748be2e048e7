"""The operator behind `fused.run`: the recurrence and its backward pass, each one loop over time.

The input's share of the cell's blocks is one matrix product for some steps ahead, and the weights'
gradients are one product each after the loop. Inside, a step is two small products (the blocks from
h and the read, the value from h), the elementwise part, and one step of the memory's walk. The
backward pass runs the loop in reverse by hand.

The products work on the same few buffers at every step; `now` [B, H + E*D] holds h and the read
side by side. The compiled parts between them write down what the backward pass needs.
"""

from typing import Any

import torch
from torch import Tensor

from pushpop.layers.buffers import as_arrays, cache_padded

AHEAD = 16  # steps whose input is multiplied at once: few enough to stay in the cache


def plain_recurrence(
    kind: int, cell: str, sizes: list[int], x: Tensor, by_x: Tensor, bias: Tensor,
    recurrent: Tensor, value_weight: Tensor, value_bias: Tensor,
    gate_weight: Tensor, gate_bias: Tensor, h: Tensor, c: Tensor, read: Tensor,
    initial: Tensor, strengths: Tensor, noise: Tensor | None, cell_noise: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """h [T, B, H]; the final `now` and c; values [T, B, E, D]; strengths, rows and counts of the
    final cells (`memory.state.Walked`); then, for the backward pass, `now` and c before each step,
    the cell's blocks, the gates, and the walk's log.
    """
    from pushpop.layers.elementwise import FORWARD, gates_forward
    from pushpop.memory.walker import Walker

    out = _outputs(x, recurrent, gate_bias, h, initial, strengths)
    hidden, now, final_c, values, final_s, final_rows, counts, *saved = out
    befores, c_befores, acts, gates, *log = saved
    (T, B, _), H = x.shape, h.shape[1]
    if sizes[-1] < B:  # padded steps are never written, but they take part in products
        for padded in (hidden, values, befores, c_befores, acts):
            padded.zero_()
    elif cell != "lstm":
        c_befores.zero_()
    if noise is None:
        gates.zero_()
    else:
        gates.copy_(noise)  # where `gates_forward` looks for it
    h_now = now[:, :H]
    h_now.copy_(h)
    now[:, H:].copy_(read)
    final_c.copy_(c)
    z, value = acts.new_empty(acts.shape[1:]), values.new_empty(values[0].flatten(1).shape)
    projected = acts.new_empty(AHEAD, *z.shape)
    by_now, by_h, by_x = (
        cache_padded(recurrent.T),
        value_weight.T.contiguous(),
        cache_padded(by_x.T),
    )
    walker = Walker(kind, now, H, values, gates, initial, strengths, log)
    cell_arrays = as_arrays(now, befores, z, projected, bias, acts, hidden, final_c, c_befores)
    gate_arrays = as_arrays(
        hidden, gate_weight, gate_bias, gates, value, value_bias, values.view(T, B, -1)
    )
    forward = FORWARD[cell]
    for t, n in enumerate(sizes):
        if n == 0:
            break
        if t % AHEAD == 0:
            ahead = x[t : t + AHEAD]
            torch.mm(ahead.reshape(-1, x.shape[2]), by_x, out=projected[: len(ahead)].flatten(0, 1))
            if cell_noise is not None:
                projected[: len(ahead), :, : cell_noise.shape[2]] += cell_noise[t : t + AHEAD]
        torch.mm(now, by_now, out=z)
        forward(t, n, *cell_arrays)
        torch.mm(h_now, by_h, out=value)
        gates_forward(t, n, *gate_arrays)
        walker.step(t, n)
    walker.finish(final_s, final_rows, counts)
    return out


recurrence = torch.library.custom_op(
    "pushpop::recurrence", plain_recurrence, mutates_args=(), device_types="cpu"
)


@recurrence.register_fake
def _(
    kind: int, cell: str, sizes: list[int], x: Tensor, by_x: Tensor, bias: Tensor,
    recurrent: Tensor, value_weight: Tensor, value_bias: Tensor,
    gate_weight: Tensor, gate_bias: Tensor, h: Tensor, c: Tensor, read: Tensor,
    initial: Tensor, strengths: Tensor, noise: Tensor | None, cell_noise: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    return _outputs(x, recurrent, gate_bias, h, initial, strengths)


def _outputs(
    x: Tensor, recurrent: Tensor, gate_bias: Tensor, h: Tensor, initial: Tensor, strengths: Tensor
) -> list[Tensor]:  # fmt: skip
    T, B, _ = x.shape
    E = gate_bias.shape[0] // 2
    room = strengths.shape[1] + T * E
    H, (blocks, S), new = h.shape[1], recurrent.shape, x.new_empty
    return [
        new(T, B, H),
        new(B, S),
        new(B, H),
        new(T, B, E, initial.shape[2]),
        new(B, room),
        new(B, room, dtype=torch.int64),
        new(B, dtype=torch.int64),
        new(T, B, S),
        new(T, B, H),
        new(T, B, blocks),
        new(T, B, 2 * E),
        new(B, room, dtype=torch.int64),
        new(B, room),
        x.new_zeros(T * B, 2, dtype=torch.int64),
        x.new_zeros(T * B, 2),
    ]


@torch.library.custom_op("pushpop::recurrence_backward", mutates_args=(), device_types="cpu")
def recurrence_backward(
    kind: int, cell: str, sizes: list[int], x: Tensor, by_x: Tensor, recurrent: Tensor,
    value_weight: Tensor, gate_weight: Tensor, initial: Tensor, saved: list[Tensor],
    grad_h: Tensor | None, grad_now: Tensor | None, grad_c: Tensor | None,
    grad_values: Tensor | None, grad_s: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """The gradients of `recurrence`'s tensors, in its order."""
    from pushpop.layers.elementwise import BACKWARD, gates_backward
    from pushpop.memory.walker import BackWalker

    hidden, values, final_s, final_rows, counts, befores, c_befores, acts, gates, *log = saved
    T, B, H = hidden.shape
    new = torch.zeros if sizes[-1] < B else torch.empty  # padded steps have no gradient
    d_z, d_values, d_gates = (new(x.shape, dtype=x.dtype) for x in (acts, values, gates))
    flat_values, flat_d_values = values.view(T, B, -1), d_values.view(T, B, -1)
    d_now, d_c = hidden.new_zeros(befores.shape[1:]), hidden.new_zeros(B, H)
    if grad_now is not None:
        d_now.copy_(grad_now)
    if grad_c is not None:
        d_c.copy_(grad_c)
    d_h, d_before, direct = d_now[:, :H], torch.empty_like(d_now), torch.zeros_like(d_c)
    d_value, d_blocks = values.new_zeros(flat_values[0].shape), acts.new_zeros(acts[0].shape)
    grad_h = torch.zeros_like(hidden) if grad_h is None else grad_h
    grad_s = torch.zeros_like(final_s) if grad_s is None else grad_s
    walker = BackWalker(
        kind, d_now, H, values, initial, (final_s, final_rows, counts), log, grad_s, d_values,
        d_gates,
    )  # fmt: skip
    gate_arrays = as_arrays(
        flat_values, flat_d_values, d_value, gates, d_gates, gate_weight, grad_h, d_now
    )
    cell_arrays = as_arrays(befores, acts, c_befores, d_now, d_c, d_z, d_blocks, direct)
    by_now = cache_padded(recurrent)
    backward = BACKWARD[cell]
    for t in range(T - 1, -1, -1):
        n = sizes[t]
        if n == 0:
            continue
        walker.step(t, n)
        if grad_values is not None:
            flat_d_values[t, :n] += grad_values[t, :n].flatten(1)
        gates_backward(t, n, *gate_arrays)
        d_h.addmm_(d_value, value_weight)
        backward(t, n, *cell_arrays)
        if n == B:
            torch.mm(d_blocks, by_now, out=d_now)
        else:  # rows that ended before keep the gradient of their final state
            torch.mm(d_blocks, by_now, out=d_before)
            d_now[:n] = d_before[:n]
        if cell == "gru":
            d_h[:n] += direct[:n]
    flat = [x.view(T * B, -1) for x in (d_z, d_values, d_gates, hidden)]
    return [
        (flat[0] @ by_x).view(x.shape), flat[0].T @ x.reshape(T * B, -1), flat[0].sum(0),
        flat[0].T @ befores.view(T * B, -1),
        flat[1].T @ flat[3], flat[1].sum(0), flat[2].T @ flat[3], flat[2].sum(0),
        d_h.clone(), d_c, d_now[:, H:].clone(), *walker.finish(),
    ]  # fmt: skip


@recurrence_backward.register_fake
def _(
    kind: int, cell: str, sizes: list[int], x: Tensor, by_x: Tensor, recurrent: Tensor,
    value_weight: Tensor, gate_weight: Tensor, initial: Tensor, saved: list[Tensor],
    grad_h: Tensor | None, grad_now: Tensor | None, grad_c: Tensor | None,
    grad_values: Tensor | None, grad_s: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    hidden = saved[0]
    _, B, H = hidden.shape
    shapes = [
        x.shape, by_x.shape, recurrent.shape[:1], recurrent.shape,
        value_weight.shape, value_weight.shape[:1], gate_weight.shape, gate_weight.shape[:1],
        (B, H), (B, H), (B, recurrent.shape[1] - H), initial.shape, initial.shape[:2],
    ]  # fmt: skip
    return [hidden.new_empty(shape) for shape in shapes]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.kind, ctx.cell, ctx.sizes, x, by_x, _, recurrent, value_weight, _, gate_weight, *_ = inputs
    ctx.set_materialize_grads(False)
    kept = [output[0], *output[3:]]  # without the final h, read and c
    ctx.save_for_backward(x, by_x, recurrent, value_weight, gate_weight, inputs[14], *kept)


def _backward(ctx: Any, grads: list[Tensor | None]) -> Any:
    kept = ctx.saved_tensors  # once: checkpointing hands them out only once
    *inputs, initial = kept[:6]
    saved = list(kept[6:])
    return (
        None,
        None,
        None,
        *recurrence_backward(ctx.kind, ctx.cell, ctx.sizes, *inputs, initial, saved, *grads[:5]),
        None,
        None,
    )


recurrence.register_autograd(_backward, setup_context=_setup_context)
