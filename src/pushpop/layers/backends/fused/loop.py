"""The controller's loop over time on the CPU, forward and backward, around any memory's steps.

The input's share of the cell's blocks is one matrix product for some steps ahead, and the weights'
gradients are one product each after the loop. Inside, a step is two small products (the blocks from
h and the reads, the values from h), the elementwise part, and one step of the memory. The backward
pass runs the loop in reverse by hand.

The products work on the same few buffers at every step; `carry` [B, S] holds h and the reads side
by side, which is all that a step hands to the next but c and the memory. The compiled parts between
them write down what the backward pass needs. What only that one reads of the cell is packed.

A memory is driven a step at a time. Tensors are shared with its kernels, not copied: what the loop
writes into `gates` and `values` before a step, the step reads, and the reads of a sequence appear
side by side in its row of `carry`, behind h. Likewise backwards: a step takes the gradients of its
reads from there and writes those of values and gates.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pushpop.layers.backends import (
    RecurrenceBackwardInput,
    RecurrenceGradients,
    RecurrenceInput,
    RecurrenceOutput,
    empty_recurrence,
    shifts_of,
    weight_gradients,
    with_sizes,
)
from pushpop.layers.backends.fused.kernels import (
    BACKWARD,
    FORWARD,
    CellBackward,
    CellForward,
    GatesBackward,
    GatesForward,
    gates_backward,
    gates_forward,
)
from pushpop.layers.backends.fused.mixing import MixingBackwardDriver, MixingDriver
from pushpop.layers.backends.products import Product, product
from pushpop.layers.inputs import real_steps
from pushpop.memory.backends.fused import walk
from pushpop.memory.operators import final_of, log_of
from pushpop.memory.state import as_array

AHEAD = 16  # steps whose input is multiplied at once: few enough to stay in the cache


def run_recurrence(inputs: RecurrenceInput) -> RecurrenceOutput:
    inputs = with_sizes(inputs)
    out, shifts = empty_recurrence(inputs), shifts_of(inputs.memory)
    if not inputs.memory:
        _run_forward(inputs, out, None, softmax_over=0)
    elif shifts is None:
        memory = WalkDriver(inputs, out)
        _run_forward(inputs, out, memory, softmax_over=0)
        memory.write_final(out)
    else:
        with flushed_denormals():
            _run_forward(inputs, out, MixingDriver(shifts, inputs, out), len(shifts.shifts))
    return out


def run_recurrence_backward(inputs: RecurrenceBackwardInput) -> RecurrenceGradients:
    inputs = with_sizes(inputs)
    grads, shifts = BackwardBuffers.of(inputs), shifts_of(inputs.memory)
    if shifts is None:
        memory = WalkBackwardDriver(inputs, grads) if inputs.memory else None
        return _run_backward(inputs, grads, memory, softmax_over=0)
    with flushed_denormals():
        mixing = MixingBackwardDriver(shifts, inputs, grads)
        return _run_backward(inputs, grads, mixing, len(shifts.shifts))


def _run_forward(
    inputs: RecurrenceInput, out: RecurrenceOutput, memory: Any, softmax_over: int
) -> None:
    """Run the loop and fill `out`; `softmax_over` gates at a time are a softmax, 0: each is a
    sigmoid.
    """
    x, sizes, carry = inputs.x, inputs.sizes, out.carry
    cell_noise = inputs.cell_noise
    (T, B, width), (J, H), K = x.shape, inputs.weight_hh.shape, len(inputs.bias)
    if sizes[-1] < B:  # padded steps are never written, and these are results
        out.hidden.zero_()
        out.values.zero_()
    if inputs.cell != "lstm":
        out.prev_c.zero_()
    gates = out.gates.view(T, B, len(inputs.gate_bias))
    values = out.values.view(T, B, len(inputs.value_bias))
    if inputs.gate_noise is None:
        gates.zero_()
    else:
        gates.copy_(inputs.gate_noise)  # `gates_forward` adds the logits to it
    h_now, reads = carry[:, :H], carry[:, H:]
    h_now.copy_(inputs.h)
    reads.copy_(inputs.read)
    out.c.copy_(inputs.c)
    from_carry, value = x.new_empty(B, J), x.new_empty(values.shape[1:])
    from_x = x.new_empty(AHEAD * B, J)
    over_x, over_reads = inputs.weight_ih[:, :width], inputs.weight_ih[:, width:]
    by_x, by_h = Product(over_x, AHEAD * B), Product(inputs.value_weight, B)
    if J == K:
        by_carry = Product(torch.cat([inputs.weight_hh, over_reads], 1), B)
    else:  # not all blocks depend on both
        by_carry, by_reads = Product(inputs.weight_hh, B), Product(over_reads, B)
    cell_arrays = CellForward(
        carry=as_array(carry), prev_carry=as_array(out.prev_carry),
        from_carry=as_array(from_carry), from_x=as_array(from_x), bias=as_array(inputs.bias),
        activations=as_array(out.activations), hidden=as_array(out.hidden),
        c=as_array(out.c), prev_c=as_array(out.prev_c),
    )  # fmt: skip
    gate_arrays = tuple(GatesForward(
        hidden=as_array(out.hidden), gate_weight=as_array(inputs.gate_weight),
        gate_bias=as_array(inputs.gate_bias), gates=as_array(gates), value=as_array(value),
        value_bias=as_array(inputs.value_bias), values=as_array(values),
    ))  # fmt: skip
    forward, start = FORWARD[inputs.cell], 0
    for t, n in enumerate(sizes):
        if n == 0:
            break
        if t % AHEAD == 0:
            ahead = x[t : t + AHEAD, :n]
            from_rows = from_x[: AHEAD * n].view(AHEAD, n, J)
            by_x.write(ahead.reshape(-1, x.shape[2]), len(ahead) * n, from_x)
            if cell_noise is not None:
                noise = cell_noise[t : t + AHEAD, :n]
                from_rows[: len(ahead), :, K - J : K - J + noise.shape[2]] += noise
            arrays = tuple(cell_arrays._replace(from_x=as_array(from_rows)))
        if J == K:
            by_carry.write(carry, n, from_carry)
        else:
            by_carry.write(h_now, n, from_carry)
            by_reads.add(reads, n, from_rows[t % AHEAD])
        forward(t, start, n, arrays)
        start += n
        if memory is not None:
            by_h.write(h_now, n, value)
            gates_forward(t, n, softmax_over, gate_arrays)
            memory.step(t, n)


class BackwardBuffers(NamedTuple):
    """What the backward pass of the loop and that of the memory hand to each other."""

    d_carry: Tensor  # [B, S]: the memory takes the gradients of its reads from here
    d_c: Tensor  # [B, H]
    d_values: Tensor  # [T, R, V, D]: the memory writes a step's gradients here
    d_gates: Tensor  # [T, R, G]: and here

    @classmethod
    def of(cls, inputs: RecurrenceBackwardInput) -> "BackwardBuffers":
        """Buffers that hold the gradients of the final carry and c."""
        _, B, H = inputs.hidden.shape
        d_values, d_gates = torch.empty_like(inputs.values), torch.empty_like(inputs.gates)
        d_carry = inputs.x.new_zeros(B, inputs.prev_carry.shape[1])
        d_c = inputs.x.new_zeros(B, H)
        if inputs.grad_carry is not None:
            d_carry.copy_(inputs.grad_carry)
        if inputs.grad_c is not None:
            d_c.copy_(inputs.grad_c)
        return cls(d_carry, d_c, d_values, d_gates)


def _run_backward(
    inputs: RecurrenceBackwardInput, grads: BackwardBuffers, memory: Any, softmax_over: int
) -> RecurrenceGradients:
    """Undo the loop: all gradients. The memory undoes its steps in between."""
    x, sizes, cell, hidden = inputs.x, inputs.sizes, inputs.cell, inputs.hidden
    d_carry, d_c, d_blocks = grads.d_carry, grads.d_c, torch.empty_like(inputs.activations)
    (T, B, H), J, K = hidden.shape, len(inputs.weight_hh), d_blocks.shape[1]
    n_values, n_gates = len(inputs.value_weight), len(inputs.gate_weight)
    values, d_values = (v.view(T, B, n_values) for v in (inputs.values, grads.d_values))
    gates, d_gates = (g.view(T, B, n_gates) for g in (inputs.gates, grads.d_gates))
    d_h, direct = d_carry[:, :H], torch.empty_like(d_c)
    step_d_values = x.new_empty(values.shape[1:])
    grad_hidden = torch.zeros_like(hidden) if inputs.grad_hidden is None else inputs.grad_hidden
    gate_arrays = tuple(GatesBackward(
        values=as_array(values), d_values=as_array(d_values),
        step_d_values=as_array(step_d_values), gates=as_array(gates),
        d_gates=as_array(d_gates), gate_weight=as_array(inputs.gate_weight),
        grad_hidden=as_array(grad_hidden), d_carry=as_array(d_carry),
    ))  # fmt: skip
    cell_arrays = tuple(CellBackward(
        prev_carry=as_array(inputs.prev_carry), activations=as_array(inputs.activations),
        prev_c=as_array(inputs.prev_c), d_carry=as_array(d_carry), d_c=as_array(d_c),
        d_blocks=as_array(d_blocks), direct=as_array(direct),
    ))  # fmt: skip
    width = x.shape[2]
    over_x, over_reads = inputs.weight_ih[:, :width], inputs.weight_ih[:, width:]
    by_values = Product(inputs.value_weight.T, B)
    if J == K:
        by_blocks = Product(torch.cat([inputs.weight_hh, over_reads], 1).T, B)
    else:
        by_blocks, by_seen = Product(inputs.weight_hh.T, B), Product(over_reads.T, B)
    backward, n, start = BACKWARD[cell], 0, len(d_blocks)
    for t in range(T - 1, -1, -1):
        if sizes[t] == 0:
            continue
        if n < sizes[t]:  # rows that ended before keep the gradient of their final state
            n = sizes[t]
        start -= n
        if memory is None:
            d_h[:n] += grad_hidden[t, :n]
        else:
            memory.step(t, n)
            if inputs.grad_values is not None:
                d_values[t, :n] += inputs.grad_values[t].reshape(B, n_values)[:n]
            gates_backward(t, n, softmax_over, gate_arrays)
            by_values.add(step_d_values, n, d_h)
        backward(start, n, cell_arrays)
        if J == K:
            by_blocks.write(d_blocks[start:], n, d_carry)
        else:
            by_blocks.write(d_blocks[start:, K - J :], n, d_h)
            by_seen.write(d_blocks[start:, :J], n, d_carry[:, H:])
            d_h[:n] += direct[:n]
    real = _real_rows(sizes, B)
    x_rows, dv, dg, hidden_rows = (
        table if real is None else table.index_select(0, real)
        for table in (
            steps.reshape(T * B, steps.shape[2]) for steps in (x, d_values, d_gates, hidden)
        )
    )
    seen = torch.cat([x_rows, inputs.prev_carry[:, H:]], 1)
    d_x = product(d_blocks[:, :J], over_x.T)
    if real is not None:
        d_x = x.new_zeros(T * B, width).index_copy_(0, real, d_x)
    if memory is None:
        d_initial, d_strengths = torch.zeros_like(inputs.initial), x.new_zeros(B, 0)
    else:
        d_initial, d_strengths = memory.finish()
    return RecurrenceGradients(
        x=d_x.view(x.shape),
        h=d_h.clone(),
        c=d_c,
        read=d_carry[:, H:].clone(),
        initial=d_initial,
        strengths=d_strengths,
        **weight_gradients(inputs, seen, hidden_rows, d_blocks, dv, dg),
    )


def _real_rows(sizes: list[int], batch: int) -> Tensor | None:
    """The rows of [T*B, ...] that are not padding; `None`: all are real."""
    if sizes[-1] == batch:
        return None
    return real_steps(torch.tensor(sizes), batch).flatten().nonzero().flatten()


class WalkDriver:
    """One of the paper's memories, by the walk over live cells."""

    def __init__(self, inputs: RecurrenceInput, out: RecurrenceOutput) -> None:
        (self._kind,), H = inputs.memory, inputs.h.shape[1]
        T, R, E, _ = out.values.shape
        self._cells = walk.begin(self._kind, T, E, as_array(inputs.strengths))
        self._log = tuple(map(as_array, log_of(out)))
        self._step_arguments = (
            as_array(out.gates).reshape(T * R, 2 * E),
            _values(out.values, inputs.initial),
            _reads(out.carry, H, inputs.memories),
            self._cells,
            self._log,
        )

    def step(self, t: int, sequences: int) -> None:
        walk.step(self._kind, t, sequences, *self._step_arguments)

    def write_final(self, out: RecurrenceOutput) -> None:
        walk.finish(self._cells, self._log, tuple(map(as_array, final_of(out))))


class WalkBackwardDriver:
    """The backward pass of a `WalkDriver`."""

    def __init__(self, inputs: RecurrenceBackwardInput, grads: BackwardBuffers) -> None:
        (self._kind,), H = inputs.memory, inputs.hidden.shape[2]
        T, R, E, D = inputs.values.shape
        grad_final = inputs.grad_strengths
        grad_final = torch.zeros_like(inputs.strengths) if grad_final is None else grad_final
        final, log = tuple(map(as_array, final_of(inputs))), tuple(map(as_array, log_of(inputs)))
        self._cells = walk.begin_backward(self._kind, final, log[2], as_array(grad_final))
        self._grad_initial = torch.zeros_like(inputs.initial, memory_format=torch.contiguous_format)
        value_grads = (
            as_array(grads.d_values).reshape(-1, D),
            as_array(self._grad_initial).reshape(-1, D),
            np.ones(T * R * E, np.bool_),
        )
        self._step_arguments = (
            _values(inputs.values, inputs.initial),
            _reads(grads.d_carry, H, inputs.memories),
            self._cells,
            log,
            as_array(grads.d_gates).reshape(T * R, 2 * E),
            value_grads,
        )

    def step(self, t: int, sequences: int) -> None:
        walk.step_backward(self._kind, t, sequences, *self._step_arguments)

    def finish(self) -> tuple[Tensor, Tensor]:
        """The gradients of the initial values and strengths."""
        grad_strengths = self._grad_initial.new_zeros(self._grad_initial.shape[:2])
        walk.finish_backward(self._cells, as_array(grad_strengths).reshape(-1))
        return self._grad_initial, grad_strengths


def _values(values: Tensor, initial: Tensor) -> tuple[Any, ...]:
    """The values of `fused.walk`."""
    D = values.shape[3]
    return as_array(values).reshape(-1, D), as_array(initial).reshape(-1, D)


def _reads(carry: Tensor, offset: int, memories: int) -> tuple[Any, ...]:
    """The reads of `fused.walk`."""
    return as_array(carry).reshape(-1), offset, carry.shape[1], memories


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Inside, this thread counts numbers too small for full precision (in float32, below 1e-38) as
    0, where the processor can: it takes a hundred times as long for them as for others. What a
    memory that mixes its cells holds is multiplied by a share at every step, and soon is so small.
    """
    before = flushes_denormals()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def flushes_denormals() -> bool:
    """Whether this thread counts such numbers as 0."""
    return not (torch.tensor([1e-38]) * 1e-2).item()
