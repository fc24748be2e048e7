"""The stack of Joulin and Mikolov (2015), the one that the paper sets its own apart from.

Every cell is a mixture of what the three actions would have put there, cell 0 being the top:

    M_t[0] = a_push v_t          + a_pop M_{t-1}[1]   + a_noop M_{t-1}[0]
    M_t[i] = a_push M_{t-1}[i-1] + a_pop M_{t-1}[i+1] + a_noop M_{t-1}[i]        i > 0
    r_t    = M_t[0]

with (a_push, a_pop, a_noop) a softmax. Nothing is ever removed, so a step costs what has been
pushed so far, and values blur as the actions do: after many steps that are not all or nothing, the
top is a mean of many values. The paper's stack cuts values off instead of averaging them.
"""

import torch
from torch import Tensor

from pushpop.memory.base import CellMemory, TensorState
from pushpop.memory.mixing import Shifts


class SuperpositionState(TensorState):
    """The cells of a superposition stack, [B, t, D] after t steps, the top first."""


class SuperpositionStack(CellMemory):
    """A stack whose actions are mixed: values [T, B, 1, D], gates [T, B, 3] (push, pop, noop).

    Args:
        width: D, the length of the vectors held.
        backend: "auto" or "reference", the equations in plain torch.
    """

    kind = "superposition"
    gate_names = ("push", "pop", "noop")
    kernel = Shifts(shifts=(0, 2, 1), growth=1, inserts=True)
    picture = "positions"
    state_type = SuperpositionState

    def squash(self, logits: Tensor) -> Tensor:
        """A softmax over the three actions."""
        return torch.softmax(logits, dim=-1)

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
