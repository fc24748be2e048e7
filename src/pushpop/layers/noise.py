"""Noise on gates in training: only gates that are nearly open or nearly shut withstand it."""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from pushpop.layers.recurrent import MemoryRNN


class Noise(NamedTuple):
    """What is added to gates before their sigmoid, for a sequence or for a step of it."""

    memory: Tensor | None = None  # [T, B, 2 E]: the pushes, then the pops
    controller: Tensor | None = None  # [T, B, 2 H]: an LSTM's i and f, a GRU's r and z

    def at(self, t: int, rows: int) -> "Noise":
        """The noise of step t for the first rows."""
        return Noise(*(None if each is None else each[t, :rows] for each in self))


NO_NOISE = Noise()


def draw_noise(layer: "MemoryRNN", x: Tensor) -> Noise:
    """Fresh noise for x [T, B, I], as the layer wants it; none but in training mode."""
    if not layer.training:
        return NO_NOISE
    if layer.controller_noise and not layer.gated:
        raise ValueError(
            "controller_noise is for the cells lstm and gru, which have gates; got "
            f"{type(layer.cell).__name__}"
        )
    return Noise(
        _normal(layer.gate_noise, x, 2 * layer.ends),
        _normal(layer.controller_noise, x, 2 * layer.hidden_size),
    )


def _normal(deviation: float, x: Tensor, width: int) -> Tensor | None:
    return deviation * torch.randn(*x.shape[:2], width).to(x) if deviation else None
