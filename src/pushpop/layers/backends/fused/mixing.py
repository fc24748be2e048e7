"""Memories that mix their cells, as the loop over time drives them: a step at a time, by the
memories' CPU kernels.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pushpop.layers.backends import RecurrenceBackwardInput, RecurrenceInput, RecurrenceOutput
from pushpop.memory.backends.fused.mixing import EMPTY, Step, move, move_backward
from pushpop.memory.base import CHECKPOINT_EVERY, Shifts
from pushpop.memory.state import as_array

if TYPE_CHECKING:
    from pushpop.layers.backends.fused.loop import BackwardBuffers


class _MixingSteps:
    """The steps of a memory that mixes its cells as kernels take them, and the cells that they
    start from.

    The cells after t steps lie where they are kept, or in one of a few buffers that are used in
    turn. `history` takes those that are kept for the backward pass, one after the other,
    `Shifts.kept` of them a row.
    """

    def __init__(
        self,
        shifts: Shifts,
        inputs: RecurrenceInput | RecurrenceBackwardInput,
        kept: RecurrenceOutput | RecurrenceBackwardInput,
        buffers: int,
    ) -> None:
        T, (R, N, D) = len(kept.values), inputs.initial.shape
        self.R, self.N, self.D = R, N, D
        self.shifts, self.memories, self.sizes = shifts, inputs.memories, inputs.sizes
        self._values, self._gates = as_array(kept.values).reshape(T, R, D), as_array(kept.gates)
        self.initial = as_array(inputs.initial).reshape(R, N * D)
        keeps = not isinstance(inputs, RecurrenceInput) or inputs.keep
        self._history = as_array(kept.history) if keeps else None
        self._buffers = np.empty((buffers, R * D * shifts.cells(N, T)), self.initial.dtype)
        self._room = self.make_room()
        self._going_on = [R, *(size * inputs.memories for size in inputs.sizes), 0]

    def make_room(self) -> Any:
        """Room for the written cells of one row after all steps, or for their gradients."""
        cells = self.shifts.cells(self.N, len(self.sizes)) + 1 + 2 * EMPTY
        return np.empty(cells * self.D, self.initial.dtype)

    def cells(self, t: int) -> Any:
        """The cells after t steps, [R, cells D]."""
        if t == 0:
            return self.initial
        width, start = self.shifts.cells(self.N, t) * self.D, 0
        flat = self._buffers[t % len(self._buffers)]
        if self._history is not None and t % CHECKPOINT_EVERY == 0:
            flat, start = self._history, self.R * self.D * self.shifts.kept(self.N, t - 1)
        return flat[start : start + self.R * width].reshape(self.R, width)

    def fields(self, t: int) -> tuple[Any, ...]:
        """The fields of `Step` at step t."""
        n, shifts = self.shifts.cells(self.N, t), self.shifts
        return tuple(Step(
            memories=self.memories, inserts=int(shifts.inserts), written=shifts.place(n),
            read=shifts.place(n + shifts.growth), shifts=shifts.shifts, gates=self._gates[t],
            values=self._values[t], before=self.cells(t), room=self._room,
        ))  # fmt: skip

    def ended(self, t: int, padded: Any) -> tuple[slice, Any]:
        """The rows that have just t steps, and where their cells lie in `padded` [R, N', D]."""
        rows, n = slice(self._going_on[t + 1], self._going_on[t]), self.shifts.cells(self.N, t)
        first = self.shifts.first(n, padded.shape[1])
        return rows, padded[rows, first : first + n]


class MixingDriver(_MixingSteps):
    """A memory that mixes its cells."""

    def __init__(self, shifts: Shifts, inputs: RecurrenceInput, out: RecurrenceOutput) -> None:
        super().__init__(shifts, inputs, out, buffers=2)
        self._carry, self._H = as_array(out.carry), inputs.h.shape[1]
        self._final = as_array(out.cells.zero_())
        self._set_aside(0)

    def step(self, t: int, sequences: int) -> None:
        rows, after = sequences * self.memories, self.cells(t + 1)
        move(rows, self.fields(t), after, self._carry, self._H)
        self._set_aside(t + 1)

    def _set_aside(self, t: int) -> None:
        """Write down the cells of the rows that have just t steps."""
        rows, final = self.ended(t, self._final)
        if len(final):
            final[:] = self.cells(t)[rows].reshape(final.shape)


class MixingBackwardDriver(_MixingSteps):
    """The backward pass of a `MixingDriver`."""

    def __init__(
        self, shifts: Shifts, inputs: RecurrenceBackwardInput, grads: "BackwardBuffers"
    ) -> None:
        super().__init__(shifts, inputs, inputs, buffers=CHECKPOINT_EVERY)
        T, R, _, D = inputs.values.shape
        self._d_carry, self._H = as_array(grads.d_carry), inputs.hidden.shape[2]
        self._reads = np.empty((len(grads.d_carry), inputs.memories * D), self.initial.dtype)
        self._again_from = T  # from this step on, steps were run again
        self._d_values = as_array(grads.d_values).reshape(T, R, D)
        self._d_gates, self._d_room = as_array(grads.d_gates), self.make_room()
        self._d_cells = np.empty((R, shifts.cells(self.N, T) * D), self.initial.dtype)
        n_final = shifts.cells(self.N, sum(size > 0 for size in inputs.sizes))
        grad_final = inputs.grad_cells
        final = as_array(inputs.x.new_zeros(R, n_final, D) if grad_final is None else grad_final)
        for t in range(T + 1):
            rows, d_final = self.ended(t, final)
            if len(d_final):
                self._d_cells[rows, : d_final.shape[1] * D] = d_final.reshape(len(d_final), -1)

    def step(self, t: int, sequences: int) -> None:
        self._run_again(t)
        after = self.shifts.cells(self.N, t + 1) * self.D
        move_backward(
            sequences * self.memories, self.fields(t), after, self._d_cells, self._d_room,
            self._d_carry, self._H, self._d_gates[t], self._d_values[t],
        )  # fmt: skip

    def _run_again(self, t: int) -> None:
        """Have the cells before step t, by the steps since the last cells that were kept."""
        if t >= self._again_from:
            return
        self._again_from = t - t % CHECKPOINT_EVERY
        for past in range(self._again_from, t):
            rows = self.sizes[past] * self.memories
            move(rows, self.fields(past), self.cells(past + 1), self._reads, 0)

    def finish(self) -> tuple[Tensor, Tensor]:
        """The gradients of the initial cells; they have no strengths."""
        R, N, D = self.R, self.N, self.D
        grad_initial = torch.from_numpy(self._d_cells[:, : N * D].copy().reshape(R, N, D))
        return grad_initial, grad_initial.new_zeros(R, N)
