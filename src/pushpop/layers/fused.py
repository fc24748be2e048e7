"""A layer's whole sequence by kernels: its weights arranged for the operators in `recurrence.py`
and `recurrence_moves.py` (on the CPU) and `recurrence_gpu.py`.

All this must equal `memory_layer._run_step_by_step`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pushpop.layers.buffers import needs_no_operator, sigmoids_first
from pushpop.layers.cells import Cell, ElmanCell, GRUCell, LSTMCell
from pushpop.layers.noise import Noise
from pushpop.layers.recurrence import RecurrenceOutput, plain_recurrence, recurrence
from pushpop.layers.recurrence_moves import MovesOutput, plain_recurrence_moves, recurrence_moves
from pushpop.layers.state import RNNState
from pushpop.memory import MemoryState, ops
from pushpop.memory.autograd import under_transform
from pushpop.memory.base import TensorState, has_hooks
from pushpop.memory.moves import Moves
from pushpop.memory.state import Walked

if TYPE_CHECKING:
    from pushpop.layers.memory_layer import MemoryLayer

KERNELS: dict[type[nn.Module], str] = {LSTMCell: "lstm", GRUCell: "gru", ElmanCell: "rnn"}
"""The cells that there are kernels for, by the names that these know them by."""
LIMITS = {"fused": "on the CPU", "triton": "on a GPU, with the package triton"}
"""The backends that have kernels, and where these run."""
REPLACEABLE = {"forward", "run_step", "step", "squash", "update"}
"""Methods that somebody may have set on a part itself, in place of those of its class."""


def kernels_for(backend: str, x: Tensor) -> str:
    """The backend whose kernels are asked for an input."""
    if backend == "auto":
        return "triton" if x.is_cuda else "fused"
    return backend


def lacks(layer: "MemoryLayer", x: Tensor, backend: str) -> str | None:
    """What a backend has no kernels for: the cell, the memory, the input's dtype or device."""
    if not isinstance(layer.cell, tuple(KERNELS)):
        return f"the cell {type(layer.cell).__name__}"
    kernel = layer.memory.kernel
    if kernel is None or (backend == "triton" and isinstance(kernel, Moves)):
        return f"the memory {layer.memory.kind!r}"
    if x.dtype not in ops.WALKABLE or not _runs_on(backend, x.device):
        return f"{x.dtype} on {x.device}"
    return None


def _runs_on(backend: str, device: torch.device) -> bool:
    if backend == "fused":
        return device.type == "cpu"
    if device.type == "cpu":
        return ops.INTERPRETED
    return device.type == "meta" or (device.type == "cuda" and ops.triton_imports())


def may_run(layer: "MemoryLayer", backend: str) -> bool:
    """Whether the layer does what its kernels do, and torch wants no more than they can give.

    A part that somebody replaced, parametrized or hung a hook on must be called to count. A kernel
    belongs to the class of the memory itself: a subclass may do something else.
    """
    cell, memory = layer.cell, layer.memory
    plain = (
        type(cell) in KERNELS
        and type(layer.value) is type(layer.gates) is nn.Linear
        and layer.gates.bias is not None
        and "kernel" in vars(type(memory))
        and memory.backend in ("auto", backend)
    )
    parts = (cell, layer.value, layer.gates, memory)
    changed = any(has_hooks(part) or REPLACEABLE & vars(part).keys() for part in parts)
    return plain and not changed and not under_transform()


def run(
    backend: str, layer: "MemoryLayer", x: Tensor, state: RNNState, sizes: list[int], noise: Noise
) -> tuple[Tensor, RNNState]:
    """x [T, B, I] with sizes[t] rows at step t -> hidden [T, B, H] and the state after each row."""
    T, B, _ = x.shape
    if T == 0 or B == 0:
        return x.new_zeros(T, B, layer.hidden_size), state
    cell, name, kernel = layer.cell, KERNELS[type(layer.cell)], layer.memory.kernel
    assert isinstance(cell, Cell)
    assert kernel is not None
    recurrent, by_x, bias = _arrange(name, cell, layer.input_size)
    value_bias: Tensor | None = layer.value.bias
    if value_bias is None:
        value_bias = layer.value.weight.new_zeros(layer.value.out_features)
    given = (
        name, sizes, x, by_x, bias, recurrent, layer.value.weight, value_bias, layer.gates.weight,
        layer.gates.bias, state.parts[0], state.parts[-1], state.read.flatten(1),
    )  # fmt: skip
    driven = _run_moves if isinstance(kernel, Moves) else _run_walk
    out, memory = driven(backend, layer, given, state.memory, noise, plain=needs_no_operator(x))
    h, read = out.carry[:, : layer.hidden_size], out.carry[:, layer.hidden_size :]
    read = read.reshape(B, *layer.read_shape)
    return out.hidden, RNNState((h, out.c) if layer.has_c else h, read, memory)


def _run_walk(
    backend: str, layer: "MemoryLayer", given: tuple[Any, ...], state: Any, noise: Noise,
    *, plain: bool,
) -> tuple[RecurrenceOutput, MemoryState]:  # fmt: skip
    """One of the paper's memories: what the operator gives, and the memory's state."""
    cells, run = state._cells(), _recurrence(backend, plain)
    out = RecurrenceOutput(*run(layer.memory.kernel, layer.num_memories, *given, *cells, *noise))
    left = Walked(out.strengths, out.row_ids, out.counts, out.values, cells.values)
    return out, MemoryState._holding(left)


def _run_moves(
    backend: str, layer: "MemoryLayer", given: tuple[Any, ...], state: Any, noise: Noise,
    *, plain: bool,
) -> tuple[MovesOutput, TensorState]:  # fmt: skip
    """A memory whose cells move, likewise."""
    moves = layer.memory.kernel
    assert isinstance(moves, Moves)
    run: Callable[..., list[Tensor]] = plain_recurrence_moves if plain else recurrence_moves
    keep = not plain  # for a backward pass
    given = (moves.encode(), layer.num_memories, keep, *given)
    out = MovesOutput(*run(*given, state.cells, *noise))
    return out, type(state)(out.cells)


def _recurrence(backend: str, plain: bool) -> Callable[..., list[Tensor]]:
    """The recurrence by a backend, as a plain function or as an operator."""
    if backend == "fused":
        return plain_recurrence if plain else recurrence
    from pushpop.layers.recurrence_gpu import plain_recurrence_gpu, recurrence_gpu

    return plain_recurrence_gpu if plain else recurrence_gpu


def _arrange(name: str, cell: Cell, input_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights over (h, read), weights over x, and bias, in the blocks that `elementwise` works on.

    An LSTM's three sigmoids come first. A GRU multiplies h's share of its third block by a gate, so
    that share is a fourth block.
    """
    over_x, over_read = cell.weight_ih[:, :input_size], cell.weight_ih[:, input_size:]
    over_h = cell.weight_hh
    bias = over_h.new_zeros(len(over_h)) if cell.bias is None else cell.bias
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
