"""Memories of a user's own, for the viewer's tests."""

from typing import Any

import torch
from torch import Tensor

from pushpop.memory import Memory, SuperpositionStack, TensorState
from pushpop.memory.base import Picture


class Trail(Memory[TensorState]):
    """Gives back the mean of what it was given, as far as its one gate kept it; has no picture."""

    kind = "toy trail"
    gate_names = ("keep",)

    def empty(
        self, batch: int, *, device: Any = None, dtype: torch.dtype | None = None
    ) -> TensorState:
        return TensorState(torch.zeros(batch, 1, self.width, device=device, dtype=dtype))

    def run_step(
        self, values: Tensor, gates: Tensor, state: TensorState | None
    ) -> tuple[Tensor, TensorState]:
        before = values * 0 if state is None else state.cells
        keep = gates[..., None]
        cells = keep * before + (1 - keep) * self.made_of(values)
        return cells, TensorState(cells)

    def made_of(self, values: Tensor) -> Tensor:
        return values.mean(dim=1, keepdim=True)

    def contents(self, state: TensorState) -> tuple[Tensor, list[int]]:
        return state.cells, [0]


class TwoValues(Trail):
    """Says that it has positions, and takes two values a step."""

    kind = "toy pair"
    picture: Picture = "positions"
    values = 2


class Squares(Trail):
    """Says that it has positions, and is not linear in its values."""

    kind = "toy squares"
    picture: Picture = "positions"

    def made_of(self, values: Tensor) -> Tensor:
        return values**2


class Lone(Trail):
    """Linear, with one position and one gate."""

    kind = "toy lone"
    picture: Picture = "positions"


class OddEnds(SuperpositionStack):
    """Says that it has intervals, and has more gates than ends."""

    kind = "toy ends"
    picture: Picture = "intervals"
    push_ends = read_ends = ("top",)


TOYS: tuple[type[Memory[Any]], ...] = (Trail, TwoValues, Squares, Lone, OddEnds)
