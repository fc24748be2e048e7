"""The controller's loop over time on the CPU, forward and backward, around any memory's steps.

The input's share of the cell's blocks is one matrix product for some steps ahead, and the weights'
gradients are one product each after the loop. Inside, a step is two small products (the blocks from
h and the reads, the values from h), the elementwise part, and one step of the memory. The backward
pass runs the loop in reverse by hand.

The products work on the same few buffers at every step; `carry` [B, S] holds h and the reads side
by side, which is all that a step hands to the next but c and the memory. The compiled parts between
them write down what the backward pass needs. What only that one reads of the cell is packed: N
rows, those that have a first step, then those that have a second, and so on.

A layer may have M memories: B sequences then have R = B*M rows of cells, row b*M + m for memory m
of sequence b. A memory takes V values D wide and G gates a step. Values are projected in the order
(m, v, d), gates in the order (m, g), and S = H + what is read. K is the width of the cell's blocks.
"""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from pushpop.layers.buffers import cache_padded
from pushpop.layers.lengths import real_steps
from pushpop.memory.state import as_array

AHEAD = 16  # steps whose input is multiplied at once: few enough to stay in the cache


class Steps(Protocol):
    """A memory that is driven: it reads values and gates, and writes its reads into `carry`."""

    def step(self, t: int, sequences: int) -> None:
        """Run (or undo) step t of the first sequences."""


class Weights(NamedTuple):
    """The weights of a layer, arranged by `fused._arrange`."""

    x_weight: Tensor  # [K, I]
    bias: Tensor  # [K]
    carry_weight: Tensor  # [K, S]
    value_weight: Tensor  # [M*V*D, H]
    value_bias: Tensor  # [M*V*D]
    gate_weight: Tensor  # [M*G, H]
    gate_bias: Tensor  # [M*G]


class Kept(NamedTuple):
    """What the loop writes down for the backward pass."""

    hidden: Tensor  # [T, B, H], also what a layer's output is made of
    values: Tensor  # [T, R, V, D]
    prev_carry: Tensor  # [N, S], before each step
    prev_c: Tensor  # [N, H]
    activations: Tensor  # [N, K]
    gates: Tensor  # [T, R, G]

    @classmethod
    def of(cls, bundle: Any) -> "Kept":
        """These fields of a bundle that has more."""
        return cls(*(getattr(bundle, name) for name in cls._fields))


def run_forward(
    cell: str, mixed: int, sizes: list[int], memory: Steps, x: Tensor, weights: Weights, h: Tensor,
    c: Tensor, read: Tensor, gate_noise: Tensor | None, cell_noise: Tensor | None, out: Kept,
    carry: Tensor, final_c: Tensor,
) -> None:  # fmt: skip
    """x [T, B, I] with sizes[t] sequences at step t, the first ones, from h, c and the reads
    [B, S - H] on; `carry` [B, S] and `final_c` take what comes last.

    `mixed` gates at a time are a softmax; 0: each is a sigmoid.
    """
    from pushpop.layers.controls import GatesForward, gates_forward
    from pushpop.layers.elementwise import FORWARD, CellForward

    (T, B, _), H = x.shape, h.shape[1]
    if sizes[-1] < B:  # padded steps are never written, and these are results
        out.hidden.zero_()
        out.values.zero_()
    if cell != "lstm":
        out.prev_c.zero_()
    gates, values = out.gates.view(T, B, -1), out.values.view(T, B, -1)
    if gate_noise is None:
        gates.zero_()
    else:
        gates.copy_(gate_noise)  # `gates_forward` adds the logits to it
    h_now = carry[:, :H]
    h_now.copy_(h)
    carry[:, H:].copy_(read)
    final_c.copy_(c)
    K = out.activations.shape[1]
    from_carry, value = x.new_empty(B, K), x.new_empty(values.shape[1:])
    from_x = x.new_empty(AHEAD * B, K)
    by_carry, by_h, by_x = (
        cache_padded(weights.carry_weight.T),
        weights.value_weight.T.contiguous(),
        cache_padded(weights.x_weight.T),
    )
    cell_arrays = CellForward(
        carry=as_array(carry), prev_carry=as_array(out.prev_carry),
        from_carry=as_array(from_carry), from_x=as_array(from_x), bias=as_array(weights.bias),
        activations=as_array(out.activations), hidden=as_array(out.hidden),
        c=as_array(final_c), prev_c=as_array(out.prev_c),
    )  # fmt: skip
    gate_arrays = tuple(GatesForward(
        hidden=as_array(out.hidden), gate_weight=as_array(weights.gate_weight),
        gate_bias=as_array(weights.gate_bias), gates=as_array(gates), value=as_array(value),
        value_bias=as_array(weights.value_bias), values=as_array(values),
    ))  # fmt: skip
    forward, start = FORWARD[cell], 0
    for t, n in enumerate(sizes):
        if n == 0:
            break
        if t % AHEAD == 0:
            ahead = x[t : t + AHEAD, :n]
            from_rows = from_x[: AHEAD * n].view(AHEAD, n, K)
            torch.mm(ahead.reshape(-1, x.shape[2]), by_x, out=from_x[: len(ahead) * n])
            if cell_noise is not None:
                noise = cell_noise[t : t + AHEAD, :n]
                from_rows[: len(ahead), :, : noise.shape[2]] += noise
            arrays = tuple(cell_arrays._replace(from_x=as_array(from_rows)))
        if t == 0 or n < sizes[t - 1]:
            carry_n, from_carry_n, h_n, value_n = carry[:n], from_carry[:n], h_now[:n], value[:n]
        torch.mm(carry_n, by_carry, out=from_carry_n)
        forward(t, start, n, arrays)
        torch.mm(h_n, by_h, out=value_n)
        gates_forward(t, n, mixed, gate_arrays)
        memory.step(t, n)
        start += n


class Backward:
    """The backward pass of `run_forward`. Its buffers come first: a memory works on them too.

    Args:
        cell, sizes, x: as `run_forward` had them.
        kept: what it wrote.
        grad_carry, grad_c: the gradients of the final carry and c; `None`: there are none.
    """

    def __init__(
        self, cell: str, sizes: list[int], x: Tensor, kept: Kept, grad_carry: Tensor | None,
        grad_c: Tensor | None,
    ) -> None:  # fmt: skip
        _, B, H = kept.hidden.shape
        self._cell, self._sizes, self._x, self._kept = cell, sizes, x, kept
        self._d_blocks, self.d_values, self.d_gates = (
            torch.empty_like(like) for like in (kept.activations, kept.values, kept.gates)
        )
        self.d_carry, self._d_c = x.new_zeros(B, kept.prev_carry.shape[1]), x.new_zeros(B, H)
        if grad_carry is not None:
            self.d_carry.copy_(grad_carry)
        if grad_c is not None:
            self._d_c.copy_(grad_c)

    def run(
        self, mixed: int, memory: Steps, x_weight: Tensor, carry_weight: Tensor,
        value_weight: Tensor, gate_weight: Tensor, grad_hidden: Tensor | None,
        grad_values: Tensor | None,
    ) -> list[Tensor]:  # fmt: skip
        """The gradients of x, of the fields of `Weights`, and of h, c and the reads.

        The memory undoes its steps: it takes the gradients of its reads from `d_carry`, and writes
        those of values and gates into `d_values` and `d_gates`.
        """
        from pushpop.layers.controls import GatesBackward, gates_backward
        from pushpop.layers.elementwise import BACKWARD, CellBackward

        cell, sizes, x, kept = self._cell, self._sizes, self._x, self._kept
        d_blocks, d_carry, d_c = self._d_blocks, self.d_carry, self._d_c
        T, B, H = kept.hidden.shape
        values, gates, d_values, d_gates = (
            each.view(T, B, -1) for each in (kept.values, kept.gates, self.d_values, self.d_gates)
        )
        d_h, direct = d_carry[:, :H], torch.empty_like(d_c)
        step_d_values = x.new_empty(values.shape[1:])
        grad_hidden = torch.zeros_like(kept.hidden) if grad_hidden is None else grad_hidden
        gate_arrays = tuple(GatesBackward(
            values=as_array(values), d_values=as_array(d_values),
            step_d_values=as_array(step_d_values), gates=as_array(gates),
            d_gates=as_array(d_gates), gate_weight=as_array(gate_weight),
            grad_hidden=as_array(grad_hidden), d_carry=as_array(d_carry),
        ))  # fmt: skip
        cell_arrays = tuple(CellBackward(
            prev_carry=as_array(kept.prev_carry), activations=as_array(kept.activations),
            prev_c=as_array(kept.prev_c), d_carry=as_array(d_carry), d_c=as_array(d_c),
            d_blocks=as_array(d_blocks), direct=as_array(direct),
        ))  # fmt: skip
        by_blocks = cache_padded(carry_weight)
        backward, n, start = BACKWARD[cell], 0, len(d_blocks)
        for t in range(T - 1, -1, -1):
            if sizes[t] == 0:
                continue
            if n < sizes[t]:  # rows that ended before keep the gradient of their final state
                n = sizes[t]
                d_carry_n, d_h_n, direct_n = d_carry[:n], d_h[:n], direct[:n]
                step_d_values_n = step_d_values[:n]
            start -= n
            memory.step(t, n)
            if grad_values is not None:
                d_values[t, :n] += grad_values[t].reshape(B, -1)[:n]
            gates_backward(t, n, mixed, gate_arrays)
            d_h_n.addmm_(step_d_values_n, value_weight)
            backward(start, n, cell_arrays)
            torch.mm(d_blocks[start : start + n], by_blocks, out=d_carry_n)
            if cell == "gru":
                d_h_n += direct_n
        real = _real_rows(sizes, B)
        flat = (each.reshape(T * B, -1) for each in (x, d_values, d_gates, kept.hidden))
        rows, dv, dg, hidden = (
            each if real is None else each.index_select(0, real) for each in flat
        )
        d_x = d_blocks @ x_weight
        if real is not None:
            d_x = x.new_zeros(T * B, x.shape[2]).index_copy_(0, real, d_x)
        return [
            d_x.view(x.shape), d_blocks.T @ rows, d_blocks.sum(0), d_blocks.T @ kept.prev_carry,
            dv.T @ hidden, dv.sum(0), dg.T @ hidden, dg.sum(0),
            d_h.clone(), d_c, d_carry[:, H:].clone(),
        ]  # fmt: skip


def _real_rows(sizes: list[int], batch: int) -> Tensor | None:
    """The rows of [T*B, ...] that are not padding; `None`: all are real."""
    if sizes[-1] == batch:
        return None
    return real_steps(torch.tensor(sizes), batch).flatten().nonzero().flatten()


def gradient_shapes(
    x: Tensor, x_weight: Tensor, carry_weight: Tensor, value_weight: Tensor, gate_weight: Tensor,
    hidden: Tensor,
) -> list[tuple[int, ...]]:  # fmt: skip
    """The shapes of what `Backward.run` returns."""
    _, B, H = hidden.shape
    return [
        x.shape, x_weight.shape, carry_weight.shape[:1], carry_weight.shape,
        value_weight.shape, value_weight.shape[:1], gate_weight.shape, gate_weight.shape[:1],
        (B, H), (B, H), (B, carry_weight.shape[1] - H),
    ]  # fmt: skip
