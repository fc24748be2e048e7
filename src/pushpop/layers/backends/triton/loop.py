"""The controller's loop over time on a GPU, by Triton kernels; same bundles, same gradients.

A step is four launches: the product of h and the reads, the cell's kernel, the product for values
and gates in one, the memory's kernel; and four to undo it. All rows of the weights' gradients, and
the input's share of the blocks, are one large product each outside the loop. Nothing is copied to
or from the host and every buffer is made before the loop, so that a CUDA graph can hold all of it.

Row counts are known on the host: step t is launched for the sequences that go on, the first ones.
"""

import torch
from torch import Tensor, nn

from pushpop.layers.backends import (
    RecurrenceBackwardInput,
    RecurrenceGradients,
    RecurrenceInput,
    RecurrenceOutput,
    empty_unpacked_recurrence,
    weight_gradients,
    with_sizes,
)
from pushpop.layers.backends.triton.kernels import (
    cell_backward,
    cell_forward,
    memory_backward,
    memory_forward,
)
from pushpop.memory.backends.triton import (
    OF_CELLS,
    block_options,
    live_width,
    live_width_backward,
    on_device_of,
)
from pushpop.memory.backends.triton.walk import (
    begin_rows,
    begin_rows_backward,
    finish_rows,
    finish_rows_backward,
)
from pushpop.memory.operators import final_of, log_of

CELLS = ("lstm", "gru", "rnn")  # by their numbers in `kernels.py`
WIDEST_BLOCK = 128  # columns of h that a program takes: four a thread, and many programs
ALIGNED = 16  # rows of so many numbers can be loaded in vectors


def run_recurrence(inputs: RecurrenceInput) -> RecurrenceOutput:
    inputs = with_sizes(inputs)
    x, sizes, cell, (kind,), memories = (
        inputs.x, inputs.sizes, inputs.cell, inputs.memory, inputs.memories,
    )  # fmt: skip
    (T, B, _), H, K = x.shape, inputs.h.shape[1], len(inputs.bias)
    over_x, over_carry = _weights_of_all_blocks(inputs, K)
    S = over_carry.shape[1]
    out = empty_unpacked_recurrence(inputs)
    R, N, D = inputs.initial.shape
    if sizes[-1] < B:  # padded steps are never written, but they take part in products
        for padded in (out.hidden, out.values, out.prev_carry, out.prev_c, out.gates):
            padded.zero_()
    if inputs.gate_noise is not None:
        out.gates.view(inputs.gate_noise.shape).copy_(inputs.gate_noise)
    blocks = out.activations.view(T * B, K)
    torch.addmm(inputs.bias, x.reshape(T * B, -1), over_x.T, out=blocks)
    if inputs.cell_noise is not None:
        first = K - len(inputs.weight_hh)
        noise = inputs.cell_noise
        out.activations[:, :, first : first + noise.shape[2]] += noise
    out.carry[:, :H].copy_(inputs.h)
    out.carry[:, H:].copy_(inputs.read)
    out.prev_carry[0].copy_(out.carry)
    out.c.copy_(inputs.c)
    by_h = torch.cat([inputs.value_weight, inputs.gate_weight])
    W = _aligned(len(by_h))
    from_carry, raw = x.new_empty(B, K), x.new_empty(B, W)
    room = out.strengths.shape[1]
    width = live_width(kind, room, T)
    s, ids = x.new_empty(R, width), x.new_empty(R, width, dtype=torch.int64)
    ends = x.new_empty(R, 4, dtype=torch.int32)
    initial, value_bias, gate_bias = (
        tensor.contiguous() for tensor in (inputs.initial, inputs.value_bias, inputs.gate_bias)
    )
    log = log_of(out)
    over_h, over_d = block_options(min(H, WIDEST_BLOCK)), block_options(D)
    steps, columns = out.hidden.unbind(), -(-H // over_h["BLOCK"])
    by_carry, by_h = over_carry.T, by_h.T
    rows = 0
    with on_device_of(x):
        begin_rows[(R,)](inputs.strengths.contiguous(), s, ids, ends, N, room, width, **OF_CELLS)
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
                NOISE=inputs.gate_noise is not None, KIND=kind, **over_d,
            )  # fmt: skip
        finish_rows[(R,)](s, ids, ends, *log[:2], *final_of(out), room, width, **OF_CELLS)
    return out


def run_recurrence_backward(inputs: RecurrenceBackwardInput) -> RecurrenceGradients:
    inputs = with_sizes(inputs)
    x, sizes, cell, (kind,), memories = (
        inputs.x, inputs.sizes, inputs.cell, inputs.memory, inputs.memories,
    )  # fmt: skip
    (T, B, H), K, S = inputs.hidden.shape, inputs.activations.shape[2], inputs.prev_carry.shape[2]
    over_x, over_carry = _weights_of_all_blocks(inputs, K)
    R, N, D = inputs.initial.shape
    by_raw = torch.cat([inputs.value_weight, inputs.gate_weight])
    n_values, W = len(inputs.value_weight), _aligned(len(by_raw))
    new = x.new_zeros if sizes[-1] < B else x.new_empty  # padded steps have no gradient
    d_blocks, d_raw = new(T, B, K), new(T, B, W)
    d_carry = x.new_zeros(B, S) if inputs.grad_carry is None else _copy(inputs.grad_carry)
    d_c = x.new_zeros(B, H) if inputs.grad_c is None else _copy(inputs.grad_c)
    d_values = (
        x.new_zeros(inputs.values.shape)
        if inputs.grad_values is None
        else _copy(inputs.grad_values)
    )
    d_initial, d_strengths = x.new_zeros(inputs.initial.shape), x.new_zeros(R, N)
    d_gates = x.new_empty(R, inputs.gates.shape[2])
    grad_hidden, grad_strengths = (
        torch.zeros_like(output) if grad is None else grad.contiguous()
        for output, grad in (
            (inputs.hidden, inputs.grad_hidden), (inputs.strengths, inputs.grad_strengths),
        )
    )  # fmt: skip
    room = inputs.strengths.shape[1]
    width = live_width_backward(kind, room)
    s, g, ids = x.new_empty(R, width), x.new_empty(R, width), inputs.row_ids.new_empty(R, width)
    ends = x.new_empty(R, 4, dtype=torch.int32)
    initial = inputs.initial.contiguous()
    final, log = final_of(inputs), log_of(inputs)
    over_h, over_d = block_options(min(H, WIDEST_BLOCK)), block_options(D, backward=True)
    columns = -(-(S if cell == "gru" else H) // over_h["BLOCK"])
    raw_steps, block_steps = d_raw[..., : len(by_raw)].unbind(), d_blocks.unbind()
    rows = 0
    with on_device_of(x):
        begin_rows_backward[(R,)](
            *final, inputs.dropped, grad_strengths, s, g, ids, ends, T, R, room, width,
            **OF_CELLS,
        )  # fmt: skip
        for t in range(T - 1, -1, -1):
            n = sizes[t]
            if n == 0:
                continue
            if n != rows:  # rows that ended before keep the gradient of their final state
                rows, before, d_h = n, d_carry[:n], d_carry[:n, :H]
            memory_backward[(n * memories,)](
                t, inputs.values, inputs.gates, initial, d_carry, s, g, ids, ends, *log, d_values,
                d_gates, d_initial, d_raw, R, memories, H, S, W, D, room, width,
                KIND=kind, **over_d,
            )  # fmt: skip
            d_h.addmm_(raw_steps[t][:n], by_raw)
            cell_backward[(n, columns)](
                t, grad_hidden, inputs.activations, inputs.prev_carry, inputs.prev_c, d_carry, d_c,
                d_blocks, B, H, S, CELL=CELLS.index(cell), **over_h,
            )  # fmt: skip
            if cell == "gru":
                before.addmm_(block_steps[t][:n], over_carry)
            else:
                torch.mm(block_steps[t][:n], over_carry, out=before)
        finish_rows_backward[(R,)](g, ids, ends, d_strengths, width, **OF_CELLS)
    d_blocks, d_raw = d_blocks.view(T * B, K), d_raw.view(T * B, W)
    d_values, d_gates = d_raw[:, :n_values], d_raw[:, n_values : len(by_raw)]
    seen = torch.cat([x, inputs.prev_carry[..., H:]], 2).view(T * B, -1)
    hidden = inputs.hidden.view(T * B, H)
    return RecurrenceGradients(
        x=(d_blocks @ over_x).view(x.shape),
        h=d_carry[:, :H].clone(),
        c=d_c,
        read=d_carry[:, H:].clone(),
        initial=d_initial,
        strengths=d_strengths,
        **weight_gradients(inputs, seen, hidden, d_blocks, d_values, d_gates),
    )


def _weights_of_all_blocks(
    inputs: RecurrenceInput | RecurrenceBackwardInput, K: int
) -> tuple[Tensor, Tensor]:
    """Weights over x [K, I] and over h and the reads [K, S], 0 where a block has none."""
    other = K - len(inputs.weight_hh)
    over_seen = nn.functional.pad(inputs.weight_ih, (0, 0, 0, other))
    over_h = nn.functional.pad(inputs.weight_hh, (0, 0, other, 0))
    width = inputs.x.shape[2]
    over_x, over_reads = over_seen[:, :width], over_seen[:, width:]
    return over_x, torch.cat([over_h, over_reads], 1)


def _copy(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _aligned(n: int) -> int:
    return -(-n // ALIGNED) * ALIGNED
