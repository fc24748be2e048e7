"""Noise on gates in training: only gates that are nearly open or nearly shut withstand it."""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from pushpop.layers.memory_layer import MemoryLayer


class NoiseLevels(NamedTuple):
    """Standard deviations of the noise that a call adds to gates before their sigmoid or softmax.

    It teaches a layer to push and pop all or nothing, which carries over to longer sequences.
    """

    memory: float = 0.0  # on the memory's gates
    controller: float = 0.0  # on an LSTM's input and forget gates, a GRU's reset and update gates


class Noise(NamedTuple):
    """What is added, for a sequence or for a step of it."""

    memory: Tensor | None = None  # [T, B, M G]
    controller: Tensor | None = None  # [T, B, 2 H]: an LSTM's i and f, a GRU's r and z

    def at(self, t: int, rows: int) -> "Noise":
        """The noise of step t for the first rows."""
        return Noise(*(None if each is None else each[t, :rows] for each in self))


NO_NOISE = Noise()


def draw_noise(layer: "MemoryLayer", x: Tensor, levels: NoiseLevels | None) -> Noise:
    """Fresh noise for x [T, B, I]."""
    if levels is None:
        return NO_NOISE
    if levels.controller and not layer.has_gates:
        raise ValueError(
            "noise on the controller is for the cells lstm and gru, which have gates; got "
            f"{type(layer.cell).__name__}"
        )
    return Noise(
        _normal(levels.memory, x, layer.num_memories * layer.memory.gates),
        _normal(levels.controller, x, 2 * layer.hidden_size),
    )


def _normal(deviation: float, x: Tensor, width: int) -> Tensor | None:
    if not deviation:
        return None
    return deviation * torch.randn(*x.shape[:2], width, device=x.device).to(x.dtype)
