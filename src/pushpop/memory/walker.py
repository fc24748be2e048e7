"""The walk and its backward pass one time step at a time, for layers whose gates depend on reads.

Tensors are shared with the kernels, not copied: what a layer writes into `gates` and `values`
before a step, the step reads, and its read appears in the layer's own table.

A layer may have several memories for each of its B sequences. Everything about memories then has
R = B * memories rows, row b * memories + m for memory m of sequence b, and the reads of a sequence
lie side by side in its row of the table.
"""

import numpy as np
import torch
from torch import Tensor

from pushpop.memory import kernels, kernels_backward
from pushpop.memory.kernels import DEQUE, STACK, FinalCells, LiveCells, PopLog, ReadTable, Values
from pushpop.memory.kernels_backward import BackwardCells, ValueGrads
from pushpop.memory.state import as_array


class Walker:
    """A memory that a layer drives.

    Args:
        kind: the memory's number in `ops.KINDS`.
        memories: how many memories a sequence has.
        table: [B, S]; the reads of each step go to table[:, offset:].
        values: [T, R, E, D], pushed; gates: [T, R, 2 * E], the pushes and then the pops.
        initial, strengths: the cells at the start, [R, N, D] and [R, N].
        log: the fields of `kernels.PopLog`.
    """

    def __init__(
        self, kind: int, memories: int, table: Tensor, offset: int, values: Tensor, gates: Tensor,
        initial: Tensor, strengths: Tensor, log: tuple[Tensor, ...],
    ) -> None:  # fmt: skip
        T, R, E, D = values.shape
        below = T if kind == DEQUE else 0
        shape = (R, strengths.shape[1] + T * E + below)
        initial_strengths = as_array(strengths)
        self._kind = kind
        self._cells = tuple(LiveCells(
            np.empty(shape, initial_strengths.dtype), np.empty(shape, np.int64),
            *np.empty((3, R), np.int64),
        ))  # fmt: skip
        self._log = tuple(PopLog(*map(as_array, log)))
        kernels.begin(initial_strengths, below, self._cells)
        self._step_arguments = (
            as_array(gates).reshape(T * R, 2 * E),
            tuple(Values(as_array(values).reshape(-1, D), as_array(initial).reshape(-1, D))),
            tuple(ReadTable(as_array(table).reshape(-1), offset, table.shape[1], memories)),
            self._cells,
            self._log,
        )

    def step(self, t: int, sequences: int) -> None:
        """Step t of the first `sequences` sequences."""
        kernels.step(self._kind, t, sequences, *self._step_arguments)

    def finish(self, strengths: Tensor, row_ids: Tensor, counts: Tensor) -> None:
        """Write down the final cells, as `state.Walked` has them."""
        final = FinalCells(as_array(strengths), as_array(row_ids), as_array(counts))
        kernels.finish(self._cells, self._log, tuple(final))


class BackwardWalker:
    """The backward pass of a `Walker`.

    Args:
        kind, memories, offset, values, initial, log: as the `Walker` had them.
        grad_table: the gradients of the reads, where the reads are.
        final: strengths, row ids and counts of the final cells.
        grad_final: the gradients of the final strengths.
        grad_values, grad_gates: [T, R, E, D] and [T, R, 2 * E]; they take the gradients of a step's
            values and gates when it is undone.
    """

    def __init__(
        self, kind: int, memories: int, grad_table: Tensor, offset: int, values: Tensor,
        initial: Tensor, final: tuple[Tensor, Tensor, Tensor], log: tuple[Tensor, ...],
        grad_final: Tensor, grad_values: Tensor, grad_gates: Tensor,
    ) -> None:  # fmt: skip
        T, R, E, D = values.shape
        room = final[0].shape[1]
        below = 0 if kind == STACK else room
        shape = (R, room + below)
        grad_strengths = as_array(grad_final)
        self._kind = kind
        strengths, grads = np.empty((2, *shape), grad_strengths.dtype)
        self._cells = tuple(BackwardCells(
            strengths, grads, np.empty(shape, np.int64), *np.empty((3, R), np.int64)
        ))  # fmt: skip
        self._grad_initial = torch.zeros_like(initial, memory_format=torch.contiguous_format)
        pop_log = PopLog(*map(as_array, log))
        value_grads = ValueGrads(
            as_array(grad_values).reshape(-1, D),
            as_array(self._grad_initial).reshape(-1, D),
            np.empty(T * R * E, np.bool_),
        )
        kernels_backward.begin_backward(
            tuple(FinalCells(*map(as_array, final))), pop_log.dropped, grad_strengths, below,
            self._cells, value_grads.unwritten,
        )  # fmt: skip
        self._step_arguments = (
            tuple(Values(as_array(values).reshape(-1, D), as_array(initial).reshape(-1, D))),
            tuple(
                ReadTable(as_array(grad_table).reshape(-1), offset, grad_table.shape[1], memories)
            ),
            self._cells,
            tuple(pop_log),
            as_array(grad_gates).reshape(T * R, 2 * E),
            tuple(value_grads),
        )

    def step(self, t: int, sequences: int) -> None:
        """Undo step t of the first `sequences` sequences."""
        kernels_backward.step_backward(self._kind, t, sequences, *self._step_arguments)

    def finish(self) -> tuple[Tensor, Tensor]:
        """The gradients of the initial values and strengths."""
        grad_strengths = self._grad_initial.new_zeros(self._grad_initial.shape[:2])
        kernels_backward.finish_backward(self._cells, as_array(grad_strengths).reshape(-1))
        return self._grad_initial, grad_strengths
