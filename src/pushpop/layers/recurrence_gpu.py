"""The recurrence of `recurrence.py` on a GPU, by Triton kernels; same operator, same gradients.

A step is four launches: the product of h and the reads, the cell's kernel, the product for values
and gates in one, the memory's kernel; and four to undo it. All rows of the weights' gradients, and
the input's share of the blocks, are one large product each outside the loop. Nothing is copied to
or from the host and every buffer is made before the loop, so that a CUDA graph can hold all of it.

Row counts are known on the host: step t is launched for the sequences that go on, the first ones.
"""

from typing import Any

import torch
from torch import Tensor

from pushpop.layers.recurrence import (
    RecurrenceInput,
    Saved,
    empty_gradients,
    empty_output,
    register_gradients,
)

CELLS = ("lstm", "gru", "rnn")  # by their numbers in `triton_cells`
WIDEST_BLOCK = 128  # columns of h that a program takes: four a thread, and many programs
ALIGNED = 16  # rows of so many numbers can be loaded in vectors


def plain_recurrence_gpu(
    kind: int, memories: int, cell: str, sizes: list[int], x: Tensor, x_weight: Tensor,
    bias: Tensor, carry_weight: Tensor, value_weight: Tensor, value_bias: Tensor,
    gate_weight: Tensor, gate_bias: Tensor, h: Tensor, c: Tensor, read: Tensor, initial: Tensor,
    strengths: Tensor, gate_noise: Tensor | None, cell_noise: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """From the fields of `RecurrenceInput` to those of `RecurrenceOutput`."""
    from pushpop.layers.triton_cells import cell_forward
    from pushpop.layers.triton_controls import memory_forward
    from pushpop.memory.triton_launch import OF_CELLS, block_options, live_width, on_device_of
    from pushpop.memory.triton_steps import begin_rows, finish_rows

    (T, B, _), H, (K, S) = x.shape, h.shape[1], carry_weight.shape
    out = empty_output((T, B), memories, x, carry_weight, gate_bias, h, initial, strengths)
    R, N, D = initial.shape
    if sizes[-1] < B:  # padded steps are never written, but they take part in products
        for padded in (out.hidden, out.values, out.prev_carry, out.prev_c, out.gates):
            padded.zero_()
    if gate_noise is not None:
        out.gates.view(gate_noise.shape).copy_(gate_noise)
    blocks = out.activations.view(T * B, K)
    torch.addmm(bias, x.reshape(T * B, -1), x_weight.T, out=blocks)
    if cell_noise is not None:
        out.activations[:, :, : cell_noise.shape[2]] += cell_noise
    out.carry[:, :H].copy_(h)
    out.carry[:, H:].copy_(read)
    out.prev_carry[0].copy_(out.carry)
    out.c.copy_(c)
    by_h = torch.cat([value_weight, gate_weight])
    W = _aligned(len(by_h))
    from_carry, raw = x.new_empty(B, K), x.new_empty(B, W)
    room = out.strengths.shape[1]
    width = live_width(kind, room, T)
    s, ids = x.new_empty(R, width), x.new_empty(R, width, dtype=torch.int64)
    ends = x.new_empty(R, 4, dtype=torch.int32)
    initial, value_bias, gate_bias = (
        each.contiguous() for each in (initial, value_bias, gate_bias)
    )
    log = (out.log_row_ids, out.log_strengths, out.dropped, out.trimmed_from)
    over_h, over_d = block_options(min(H, WIDEST_BLOCK)), block_options(D)
    steps, columns = out.hidden.unbind(), -(-H // over_h["BLOCK"])
    by_carry, by_h = carry_weight.T, by_h.T
    rows = 0
    with on_device_of(x):
        begin_rows[(R,)](strengths.contiguous(), s, ids, ends, N, room, width, **OF_CELLS)
        for t, n in enumerate(sizes):
            if n == 0:
                break
            if n != rows:
                rows, carry, share = n, out.carry[:n], from_carry[:n]
                written = raw[:n, : by_h.shape[1]]
            torch.mm(carry, by_carry, out=share)
            cell_forward[(n, columns)](
                t, from_carry, out.activations, out.prev_carry, out.carry, out.hidden, out.c,
                out.prev_c, T, B, H, S, CELL=CELLS.index(cell), **over_h,
            )  # fmt: skip
            torch.mm(steps[t][:n], by_h, out=written)
            memory_forward[(n * memories,)](
                t, raw, value_bias, gate_bias, out.gates, out.values, initial, out.carry,
                out.prev_carry, s, ids, ends, *log, T, R, memories, H, S, W, D, room, width,
                NOISE=gate_noise is not None, KIND=kind, **over_d,
            )  # fmt: skip
        finish_rows[(R,)](
            s, ids, ends, *log[:2], out.strengths, out.row_ids, out.counts, room, width, **OF_CELLS
        )
    return list(out)


recurrence_gpu = torch.library.custom_op(
    "pushpop::recurrence_gpu", plain_recurrence_gpu, mutates_args=()
)


@recurrence_gpu.register_fake
def _(*inputs: Any) -> list[Tensor]:
    given = RecurrenceInput(*inputs)
    return list(empty_output(
        given.x.shape[:2], given.memories, given.x, given.carry_weight, given.gate_bias, given.h,
        given.initial, given.strengths,
    ))  # fmt: skip


def plain_recurrence_gpu_backward(
    kind: int, memories: int, cell: str, sizes: list[int], x: Tensor, x_weight: Tensor,
    carry_weight: Tensor, value_weight: Tensor, gate_weight: Tensor, initial: Tensor,
    saved: list[Tensor], grad_hidden: Tensor | None, grad_carry: Tensor | None,
    grad_c: Tensor | None, grad_values: Tensor | None, grad_strengths: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """As `recurrence.recurrence_backward`."""
    from pushpop.layers.triton_cells import cell_backward
    from pushpop.layers.triton_controls import memory_backward
    from pushpop.memory.triton_launch import (
        OF_CELLS,
        block_options,
        live_width_backward,
        on_device_of,
    )
    from pushpop.memory.triton_steps import begin_rows_backward, finish_rows_backward

    kept = Saved(*saved)
    (T, B, H), (K, S) = kept.hidden.shape, carry_weight.shape
    R, N, D = initial.shape
    by_raw = torch.cat([value_weight, gate_weight])
    n_values, W = len(value_weight), _aligned(len(by_raw))
    new = x.new_zeros if sizes[-1] < B else x.new_empty  # padded steps have no gradient
    d_blocks, d_raw = new(T, B, K), new(T, B, W)
    d_carry = x.new_zeros(B, S) if grad_carry is None else _copy(grad_carry)
    d_c = x.new_zeros(B, H) if grad_c is None else _copy(grad_c)
    d_values = x.new_zeros(kept.values.shape) if grad_values is None else _copy(grad_values)
    d_initial, d_strengths = x.new_zeros(initial.shape), x.new_zeros(R, N)
    d_gates = x.new_empty(R, kept.gates.shape[2])
    grad_hidden = torch.zeros_like(kept.hidden) if grad_hidden is None else grad_hidden.contiguous()
    if grad_strengths is None:
        grad_strengths = torch.zeros_like(kept.strengths)
    room = kept.strengths.shape[1]
    width = live_width_backward(kind, room)
    s, g, ids = x.new_empty(R, width), x.new_empty(R, width), kept.row_ids.new_empty(R, width)
    ends = x.new_empty(R, 4, dtype=torch.int32)
    initial = initial.contiguous()
    final = (kept.strengths, kept.row_ids, kept.counts)
    log = (kept.log_row_ids, kept.log_strengths, kept.dropped, kept.trimmed_from)
    over_h, over_d = block_options(min(H, WIDEST_BLOCK)), block_options(D, backward=True)
    columns = -(-(S if cell == "gru" else H) // over_h["BLOCK"])
    raw_steps, block_steps = d_raw[..., : len(by_raw)].unbind(), d_blocks.unbind()
    rows = 0
    with on_device_of(x):
        begin_rows_backward[(R,)](
            *final, kept.dropped, grad_strengths.contiguous(), s, g, ids, ends, T, R, room, width,
            **OF_CELLS,
        )  # fmt: skip
        for t in range(T - 1, -1, -1):
            n = sizes[t]
            if n == 0:
                continue
            if n != rows:  # rows that ended before keep the gradient of their final state
                rows, before, d_h = n, d_carry[:n], d_carry[:n, :H]
            memory_backward[(n * memories,)](
                t, kept.values, kept.gates, initial, d_carry, s, g, ids, ends, *log, d_values,
                d_gates, d_initial, d_raw, R, memories, H, S, W, D, room, width,
                KIND=kind, **over_d,
            )  # fmt: skip
            d_h.addmm_(raw_steps[t][:n], by_raw)
            cell_backward[(n, columns)](
                t, grad_hidden, kept.activations, kept.prev_carry, kept.prev_c, d_carry, d_c,
                d_blocks, B, H, S, CELL=CELLS.index(cell), **over_h,
            )  # fmt: skip
            if cell == "gru":
                before.addmm_(block_steps[t][:n], carry_weight)
            else:
                torch.mm(block_steps[t][:n], carry_weight, out=before)
        finish_rows_backward[(R,)](g, ids, ends, d_strengths, width, **OF_CELLS)
    dz, dr, hidden = d_blocks.view(T * B, K), d_raw.view(T * B, W), kept.hidden.view(T * B, H)
    dv, dg = dr[:, :n_values], dr[:, n_values : len(by_raw)]
    return [
        (dz @ x_weight).view(x.shape), dz.T @ x.reshape(T * B, -1), dz.sum(0),
        dz.T @ kept.prev_carry.view(T * B, S),
        dv.T @ hidden, dv.sum(0), dg.T @ hidden, dg.sum(0),
        d_carry[:, :H].clone(), d_c, d_carry[:, H:].clone(), d_initial, d_strengths,
    ]  # fmt: skip


recurrence_gpu_backward = torch.library.custom_op(
    "pushpop::recurrence_gpu_backward", plain_recurrence_gpu_backward, mutates_args=()
)
recurrence_gpu_backward.register_fake(empty_gradients)
register_gradients(recurrence_gpu, recurrence_gpu_backward, "triton")


def _copy(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _aligned(n: int) -> int:
    return -(-n // ALIGNED) * ALIGNED
