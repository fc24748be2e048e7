"""Memories to compare the paper's with, which mix their cells: a step writes a value, then replaces
the cells by a mixture of three shifts of themselves. Its gates are a softmax over the three. With w
the cells after writing, 0 beyond both ends, and a_k the gate of shift k:

    M_t[i] = sum_k a_k w[i + shift_k]

A memory of this kind says so by `kernel = Shifts(...)`, and recurrent layers then run it by the
kernels in `backends/fused/mixing.py`, which must equal the memory's own equations. Nothing is ever
removed, so a step costs what has been written so far, and actions that are not all or nothing blur
the values. The paper's memories cut values off instead of averaging them.
"""

import torch
from torch import Tensor, nn

from pushpop.memory.base import CellMemory, Shifts, TensorState


class _MixingMemory(CellMemory):
    picture = "positions"

    def squash(self, logits: Tensor) -> Tensor:
        return torch.softmax(logits, dim=-1)


class SuperpositionState(TensorState):
    """The cells of a superposition stack, [B, t, D] after t steps, the top first."""


class SuperpositionStack(_MixingMemory):
    """The stack of Joulin and Mikolov (2015), from which the paper sets its own apart: values
    [T, B, 1, D], gates [T, B, 3] (push, pop, noop).

    Every cell is a mixture of what the three actions would have put there, cell 0 being the top:

        M_t[0] = a_push v_t          + a_pop M_{t-1}[1]   + a_noop M_{t-1}[0]
        M_t[i] = a_push M_{t-1}[i-1] + a_pop M_{t-1}[i+1] + a_noop M_{t-1}[i]        i > 0
        r_t    = M_t[0]

    Args:
        width: D, the length of the vectors held.
        backend: "auto" or "reference", the equations in plain torch.
    """

    kind = "superposition"
    gate_names = ("push", "pop", "noop")
    kernel = Shifts(shifts=(0, 2, 1), growth=1, inserts=True)
    state_type = SuperpositionState

    def idle(self) -> list[float]:
        """All of it the action that changes nothing."""
        return [0.0, 0.0, 1.0]

    def update(self, values: Tensor, gates: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
        """The equations, the top first: N + 1 cells afterwards."""
        empty = torch.zeros_like(values)
        pushed = torch.cat([values, cells], dim=1)
        kept = torch.cat([cells, empty], dim=1)
        popped = torch.cat([cells, empty, empty], dim=1)[:, 1:]
        push, pop, noop = gates[..., None, None].unbind(1)
        cells = push * pushed + pop * popped + noop * kept
        return cells[:, :1], cells

    def contents(self, state: TensorState) -> tuple[Tensor, list[int]]:
        """The cells, position 0 the top and -1, -2, ... below it."""
        return state.cells, [-place for place in range(state.cells.shape[1])]


class TapeState(TensorState):
    """The cells of a tape, [B, 2 t + 1, D] after t steps; the head is over the middle one."""

    @staticmethod
    def padded(cells: Tensor, n_cells: int) -> Tensor:
        missing = (n_cells - cells.shape[1]) // 2
        return nn.functional.pad(cells, (0, 0, missing, missing))


class Tape(_MixingMemory):
    """A tape under a head that writes, moves and reads, as in the Tape-RNN of Delétang et al.
    (2023): values [T, B, 1, D], gates [T, B, 3] (stay, left, right).

    Position 0 is under the head. A step writes there, then moves the tape; "left" and "right" say
    where the content goes:

        M[0] <- v_t
        M_t[i] = a_stay M[i] + a_left M[i+1] + a_right M[i-1]          at all positions i
        r_t    = M_t[0]

    The tape grows by a cell at each end with each step, so nothing ever falls off or wraps round,
    and it is never told how long the input is (the Tape-RNN has moves that jump by that length).

    Args:
        width: D, the length of the vectors held.
        backend: "auto" or "reference", the equations in plain torch.
    """

    kind = "tape"
    gate_names = ("stay", "left", "right")
    kernel = Shifts(shifts=(-1, 0, -2), growth=2, inserts=False)
    empty_cells = 1  # the one under the head
    state_type = TapeState

    def update(self, values: Tensor, gates: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
        """The equations, the head over the middle cell: N + 2 cells afterwards."""
        head = cells.shape[1] // 2
        written = torch.cat([cells[:, :head], values, cells[:, head + 1 :]], dim=1)
        empty = torch.zeros_like(values)
        stay, left, right = gates[..., None, None].unbind(1)
        cells = (
            stay * torch.cat([empty, written, empty], dim=1)
            + left * torch.cat([written, empty, empty], dim=1)
            + right * torch.cat([empty, empty, written], dim=1)
        )
        return cells[:, head + 1 : head + 2], cells

    def contents(self, state: TensorState) -> tuple[Tensor, list[int]]:
        """The cells, position 0 under the head."""
        n_cells = state.cells.shape[1]
        return state.cells, [place - n_cells // 2 for place in range(n_cells)]
