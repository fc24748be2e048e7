"""The walk and the way back, one time step at a time, for layers whose gates depend on the reads.

Tensors are shared with the kernels, not copied: what a layer writes into `gates` and `values`
before a step, the step reads, and its read appears in the layer's own table.
"""

import numpy as np
import torch
from torch import Tensor

from pushpop.memory.ops import KINDS, load_kernels, load_kernels_backward


class Walker:
    """A memory that a layer drives.

    Args:
        kind: the memory's number in `ops.KINDS`.
        table: [B, S]; each step's read goes to table[:, offset:].
        values: [T, B, E, D], pushed; gates: [T, B, 2 * E], the pushes and then the pops.
        initial, strengths: the cells at the start, [B, N, D] and [B, N].
        log: log_cells, log_s, dropped and before, as `kernels.step` has them.
    """

    def __init__(
        self, kind: int, table: Tensor, offset: int, values: Tensor, gates: Tensor,
        initial: Tensor, strengths: Tensor, log: list[Tensor],
    ) -> None:  # fmt: skip
        T, B, E, D = values.shape
        below = T if KINDS[kind] == "deque" else 0
        s = np.empty((B, strengths.shape[1] + T * E + below), _numpy(strengths).dtype)
        self._cells = (s, np.empty(s.shape, np.int64), *np.empty((3, B), np.int64))
        self._log = [_numpy(x) for x in log]
        self._kernels = load_kernels()
        self._kernels.begin(_numpy(strengths), *self._cells, below)
        self._fixed = (
            _numpy(values).reshape(T * B * E, D), _numpy(gates).reshape(T * B, 2 * E),
            _numpy(initial).reshape(-1, D), _numpy(table).reshape(-1),
        )  # fmt: skip
        self._kind, self._offset = kind, offset
        self._stride = table.shape[1]

    def step(self, t: int, rows: int) -> None:
        """Step t of the first `rows` rows."""
        self._kernels.step(
            self._kind, t, rows, *self._fixed, self._offset, self._stride,
            *self._cells, *self._log,
        )  # fmt: skip

    def finish(self, strengths: Tensor, cells: Tensor, counts: Tensor) -> None:
        """Write down the final cells, as `state.Walked` has them."""
        self._kernels.finish(
            *self._cells, *self._log[:2], _numpy(strengths), _numpy(cells), _numpy(counts)
        )


class BackWalker:
    """The way back of a `Walker`.

    `grad_table` holds the gradients of the reads where the reads are; `g_values` [T, B, E, D] and
    `g_gates` [T, B, 2 * E] take the gradients of a step's values and gates when it is undone.
    """

    def __init__(
        self, kind: int, grad_table: Tensor, offset: int, values: Tensor, initial: Tensor,
        final: tuple[Tensor, Tensor, Tensor], log: list[Tensor],
        grad_s: Tensor, g_values: Tensor, g_gates: Tensor,
    ) -> None:  # fmt: skip
        T, B, E, D = values.shape
        room = final[0].shape[1]
        below = 0 if KINDS[kind] == "stack" else room
        s, g = np.empty((2, B, room + below), _numpy(grad_s).dtype)
        self._cells = (s, g, np.empty(s.shape, np.int64), *np.empty((3, B), np.int64))
        self._untouched = np.empty(T * B * E, np.bool_)
        self._log = [_numpy(x) for x in log]
        self._kernels = load_kernels_backward()
        self._kernels.unbegin(
            *map(_numpy, final), self._log[2], _numpy(grad_s), *self._cells, self._untouched, below
        )
        self._fixed = (
            _numpy(values).reshape(T * B * E, D), _numpy(initial).reshape(-1, D),
            _numpy(grad_table).reshape(-1),
        )  # fmt: skip
        self._g_initial = torch.zeros_like(initial, memory_format=torch.contiguous_format)
        self._gradients = (
            _numpy(g_values).reshape(T * B * E, D), _numpy(g_gates).reshape(T * B, 2 * E),
            self._g_initial.numpy().reshape(-1, D),
        )  # fmt: skip
        self._kind, self._offset = kind, offset
        self._stride = grad_table.shape[1]

    def step(self, t: int, rows: int) -> None:
        """Undo step t of the first `rows` rows."""
        self._kernels.unstep(
            self._kind, t, rows, *self._fixed, self._offset, self._stride,
            *self._cells, self._untouched, *self._log, *self._gradients,
        )  # fmt: skip

    def finish(self) -> tuple[Tensor, Tensor]:
        """The gradients of the initial values and strengths."""
        _, g, cells, lo, hi, _ = self._cells
        g_strengths = self._g_initial.new_zeros(self._g_initial.shape[:2])
        self._kernels.unfinish(g, cells, lo, hi, g_strengths.numpy().reshape(-1))
        return self._g_initial, g_strengths


def _numpy(x: Tensor) -> "np.ndarray[tuple[int, ...], np.dtype[np.generic]]":
    return x.detach().contiguous().numpy()
