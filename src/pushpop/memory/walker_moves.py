"""Moving cells as recurrent layers drive them: a step at a time, around their matrix products.

`MovesWalker` runs the cells forward and `BackwardMovesWalker` undoes its steps, last to first, by
the kernels in `kernels_moves.py`. Importing this module imports them.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pushpop.memory.kernels_moves import EMPTY, Step, move, move_backward
from pushpop.memory.moves import EVERY, Moves
from pushpop.memory.state import as_array


class _Steps:
    """The steps of a sequence as the kernels take them, and the cells that they start from.

    The cells after t steps lie where they are kept, or in one of a few buffers that are used in
    turn. The other arguments are those of MovesWalker.
    """

    def __init__(
        self, moves: Moves, memories: int, sizes: list[int], values: Tensor, gates: Tensor,
        initial: Tensor, history: Tensor | None, buffers: int,
    ) -> None:  # fmt: skip
        T, (R, N, D) = len(values), initial.shape
        self.R, self.N, self.D = R, N, D
        self.moves, self.memories = moves, memories
        self._values, self._gates = as_array(values).reshape(T, R, D), as_array(gates)
        self.initial = as_array(initial).reshape(R, N * D)
        self._history = None if history is None else as_array(history)
        self._buffers = np.empty((buffers, R * D * moves.cells(N, T)), self.initial.dtype)
        self._room = self.make_room(T)
        above = [R // memories, *sizes]
        self._ended = {
            t: slice(below * memories, above[t] * memories)
            for t, below in enumerate([*sizes, 0])
            if below < above[t]
        }

    def make_room(self, steps: int) -> Any:
        """Room for the written cells of one row after so many steps, or for their gradients."""
        cells = self.moves.cells(self.N, steps) + 1 + 2 * EMPTY
        return np.empty(cells * self.D, self.initial.dtype)

    def cells(self, t: int) -> Any:
        """The cells after t steps, [R, cells D]."""
        if t == 0:
            return self.initial
        width, start = self.moves.cells(self.N, t) * self.D, 0
        flat = self._buffers[t % len(self._buffers)]
        if self._history is not None and t % EVERY == 0:
            flat, start = self._history, self.R * self.D * self.moves.kept(self.N, t - 1)
        return flat[start : start + self.R * width].reshape(self.R, width)

    def step(self, t: int) -> tuple[Any, ...]:
        """Step t: the fields of `Step`."""
        n, moves = self.moves.cells(self.N, t), self.moves
        return tuple(Step(
            memories=self.memories, inserts=int(moves.inserts), written=moves.place(n),
            read=moves.place(n + moves.growth), shifts=moves.shifts, gates=self._gates[t],
            values=self._values[t], before=self.cells(t), room=self._room,
        ))  # fmt: skip

    def ended(self, t: int, padded: Any) -> tuple[slice, Any] | None:
        """The rows that have just t steps, and where their cells lie in `padded` [R, N', D]."""
        rows = self._ended.get(t)
        if rows is None:
            return None
        n = self.moves.cells(self.N, t)
        first = self.moves.first(n, padded.shape[1])
        return rows, padded[rows, first : first + n]


class MovesWalker:
    """Moving cells that a layer drives.

    Args:
        moves: how they move.
        memories: how many memories a sequence has.
        sizes: [T], how many sequences have a step t: the first ones.
        table: [B, S]; the reads of each step go to table[:, offset:].
        values: [T, R, 1, D], written; gates: [T, R, 3].
        initial: the cells at the start, [R, N, D].
        final: [R, N', D] of zeros, takes the cells of each row after its last step.
        history: takes the cells of all rows that are kept for the backward pass, one after the
            other, `Moves.kept` of them a row; `None`: none are.
    """

    def __init__(
        self, moves: Moves, memories: int, sizes: list[int], table: Tensor, offset: int,
        values: Tensor, gates: Tensor, initial: Tensor, final: Tensor, history: Tensor | None,
    ) -> None:  # fmt: skip
        self._steps = _Steps(moves, memories, sizes, values, gates, initial, history, buffers=2)
        self._table, self._offset, self._final = as_array(table), offset, as_array(final)
        self._set_aside(0)

    def step(self, t: int, sequences: int) -> None:
        """Step t of the first `sequences` sequences."""
        steps = self._steps
        rows, after = sequences * steps.memories, steps.cells(t + 1)
        move(rows, steps.step(t), after, self._table, self._offset)
        self._set_aside(t + 1)

    def _set_aside(self, t: int) -> None:
        """Write down the cells of the rows that have just t steps."""
        found = self._steps.ended(t, self._final)
        if found is not None:
            rows, final = found
            final[:] = self._steps.cells(t)[rows].reshape(final.shape)


class BackwardMovesWalker:
    """The backward pass of a `MovesWalker`.

    Args:
        moves, memories, sizes, offset, values, gates, initial, history: as the `MovesWalker` had
            them.
        grad_table: the gradients of the reads, where the reads are.
        grad_final: the gradients of the final cells, [R, N', D].
        grad_values, grad_gates: [T, R, 1, D] and [T, R, 3]; they take the gradients of a step's
            values and gates when it is undone.
    """

    def __init__(
        self, moves: Moves, memories: int, sizes: list[int], grad_table: Tensor, offset: int,
        values: Tensor, gates: Tensor, initial: Tensor, history: Tensor, grad_final: Tensor,
        grad_values: Tensor, grad_gates: Tensor,
    ) -> None:  # fmt: skip
        steps = _Steps(moves, memories, sizes, values, gates, initial, history, buffers=EVERY)
        T, R, _, D = values.shape
        self._table, self._offset, self._sizes = as_array(grad_table), offset, sizes
        self._reads = np.empty((len(grad_table), memories * D), steps.initial.dtype)
        self._again_from = T  # from this step on, steps were run again
        self._grad_values = as_array(grad_values).reshape(T, R, D)
        self._grad_gates = as_array(grad_gates)
        self._steps, self._room = steps, steps.make_room(T)
        self._grads = np.empty((R, moves.cells(steps.N, T) * D), steps.initial.dtype)
        final = as_array(grad_final)
        for t in range(T + 1):
            found = steps.ended(t, final)
            if found is not None:
                rows, grads = found
                self._grads[rows, : grads.shape[1] * D] = grads.reshape(len(grads), -1)

    def step(self, t: int, sequences: int) -> None:
        """Undo step t of the first `sequences` sequences."""
        steps = self._steps
        self._run_again(t)
        after = steps.moves.cells(steps.N, t + 1) * steps.D
        move_backward(
            sequences * steps.memories, steps.step(t), after, self._grads, self._room, self._table,
            self._offset, self._grad_gates[t], self._grad_values[t],
        )  # fmt: skip

    def _run_again(self, t: int) -> None:
        """Have the cells before step t, by the steps since the last cells that were kept."""
        if t >= self._again_from:
            return
        steps, self._again_from = self._steps, t - t % EVERY
        for past in range(self._again_from, t):
            rows = self._sizes[past] * steps.memories
            move(rows, steps.step(past), steps.cells(past + 1), self._reads, 0)

    def finish(self) -> Tensor:
        """The gradients of the initial cells."""
        R, N, D = self._steps.R, self._steps.N, self._steps.D
        return torch.from_numpy(self._grads[:, : N * D].reshape(R, N, D))
