"""A tape under a head that writes, moves and reads, as in the Tape-RNN of Delétang et al. (2023).

Position 0 is under the head. A step writes there, then moves the tape by a mixture of three moves:

    M[0] <- v_t
    M_t[i] = a_stay M[i] + a_left M[i+1] + a_right M[i-1]          at all positions i
    r_t    = M_t[0]

with (a_stay, a_left, a_right) a softmax: "left" and "right" say where the content goes. The tape
grows by a cell at each end with each step, so nothing ever falls off or wraps round, and it is
never told how long the input is (the Tape-RNN has moves that jump by the length of the input).
Every step overwrites what is under the head, and moves that are not all or nothing blur the tape.
"""

import torch
from torch import Tensor, nn

from pushpop.memory.base import CellMemory, TensorState
from pushpop.memory.mixing import Shifts


class TapeState(TensorState):
    """The cells of a tape, [B, 2 t + 1, D] after t steps; the head is over the middle one."""

    @staticmethod
    def padded(cells: Tensor, n_cells: int) -> Tensor:
        """The same cells with as many empty ones at both ends."""
        missing = (n_cells - cells.shape[1]) // 2
        return nn.functional.pad(cells, (0, 0, missing, missing))


class Tape(CellMemory):
    """A tape without ends: values [T, B, 1, D], gates [T, B, 3] (stay, left, right).

    Args:
        width: D, the length of the vectors held.
        backend: "auto" or "reference", the equations in plain torch.
    """

    kind = "tape"
    gate_names = ("stay", "left", "right")
    kernel = Shifts(shifts=(-1, 0, -2), growth=2, inserts=False)
    picture = "positions"
    empty_cells = 1  # the one under the head
    state_type = TapeState

    def squash(self, logits: Tensor) -> Tensor:
        """A softmax over the three moves."""
        return torch.softmax(logits, dim=-1)

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
