"""A layer's whole sequence on the CPU: its weights arranged for the operator in `recurrence.py`.

All this must equal `recurrent._run_generic`.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pushpop.layers.buffers import needs_no_operator, sigmoids_first
from pushpop.layers.cells import CELLS, Cell
from pushpop.layers.noise import Noise
from pushpop.layers.recurrence import RecurrenceOutput, plain_recurrence, recurrence
from pushpop.layers.state import RNNState
from pushpop.memory import MemoryState
from pushpop.memory.ops import KINDS, WALKABLE
from pushpop.memory.state import Walked

if TYPE_CHECKING:
    from pushpop.layers.recurrent import MemoryRNN

NAMES: dict[type[nn.Module], str] = {cell: name for name, cell in CELLS.items()}


def can_run(layer: "MemoryRNN", x: Tensor) -> bool:
    """Whether everything about the layer is known here: its parts, its dtype and its device.

    A part that somebody replaced, parametrized or hung a hook on must be called to count.
    """
    plain = type(layer.cell) in NAMES and type(layer.value) is type(layer.gates) is nn.Linear
    hooked = any(
        part._forward_hooks or part._forward_pre_hooks or part._backward_hooks
        for part in (layer.cell, layer.value, layer.gates)
    )
    return plain and not hooked and x.device.type == "cpu" and x.dtype in WALKABLE


def run(
    layer: "MemoryRNN", x: Tensor, state: RNNState, sizes: list[int], noise: Noise
) -> tuple[Tensor, RNNState]:
    """x [T, B, I] with sizes[t] rows at step t -> hidden [T, B, H] and the state after each row."""
    T, B, _ = x.shape
    if T == 0 or B == 0:
        return x.new_zeros(T, B, layer.hidden_size), state
    cell, name = layer.cell, NAMES[type(layer.cell)]
    assert isinstance(cell, Cell)
    H = layer.hidden_size
    recurrent, by_x, bias = _arrange(name, cell, layer.input_size)
    cells = state.memory._cells()
    run_it = plain_recurrence if needs_no_operator(x) else recurrence
    out = RecurrenceOutput(*run_it(
        KINDS.index(layer.memory.kind), 1, name, sizes, x, by_x, bias, recurrent,
        layer.value.weight, layer.value.bias, layer.gates.weight, layer.gates.bias,
        state.parts[0], state.parts[-1], state.read.flatten(1), *cells, *noise,
    ))  # fmt: skip
    h, read = out.carry[:, :H], out.carry[:, H:]
    after = RNNState(
        (h, out.c) if layer.has_c else h,
        read.reshape(B, 2, -1) if layer.ends == 2 else read,
        MemoryState._holding(
            Walked(out.strengths, out.row_ids, out.counts, out.values, cells.values)
        ),
    )
    return out.hidden, after


def _arrange(name: str, cell: Cell, input_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights over (h, read), weights over x, and bias, in the blocks that `elementwise` works on.

    An LSTM's three sigmoids come first. A GRU multiplies h's share of its third block by a gate, so
    that share is a fourth block.
    """
    over_x, over_read = cell.weight_ih[:, :input_size], cell.weight_ih[:, input_size:]
    over_h, bias = cell.weight_hh, cell.bias
    whole = torch.cat([over_h, over_read], dim=1)
    if name == "lstm":
        return sigmoids_first(whole), sigmoids_first(over_x), sigmoids_first(bias)
    if name == "rnn":
        return whole, over_x, bias
    H = over_h.shape[1]
    new_h, new_read = over_h[2 * H :], over_read[2 * H :]
    rows = [
        whole[: 2 * H],
        torch.cat([torch.zeros_like(new_h), new_read], dim=1),
        torch.cat([new_h, torch.zeros_like(new_read)], dim=1),
    ]
    zeros = torch.zeros_like(over_x[:H])
    return torch.cat(rows), torch.cat([over_x, zeros]), torch.cat([bias, zeros[:, 0]])
