"""What a layer takes beside its parameters: inputs, the lengths of their rows, noise on gates.

Inputs have the precision of the parameters, and recurrences keep it under autocast. Rows of several
lengths are sorted, so that step t concerns the first so many of them. Only gates that are nearly
open or nearly shut withstand noise.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from pushpop.memory.base import check_like

if TYPE_CHECKING:
    from pushpop.layers.memory_layer import MemoryLayer


def check_lengths(lengths: Tensor | Sequence[int], steps: int, batch: int) -> list[int]:
    """The lengths as plain numbers: one a row, each between 1 and the input's steps."""
    if isinstance(lengths, Tensor):
        if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
            raise TypeError(f"lengths must be integers; got {lengths.dtype}")
        if lengths.dim() != 1:
            raise ValueError(f"lengths must be [B] = [{batch}]; got {list(lengths.shape)}")
        numbers = lengths.tolist()
    else:
        numbers = list(lengths)
    if len(numbers) != batch:
        raise ValueError(f"lengths must be [B] = [{batch}]; got [{len(numbers)}]")
    for place, length in enumerate(numbers):
        if isinstance(length, bool) or not hasattr(length, "__index__"):
            raise TypeError(f"lengths must be integers; got {length!r}")
        numbers[place] = length = int(length)  # of numpy too
        if not 1 <= length <= steps:
            raise ValueError(f"lengths must lie in 1..{steps}, the input's steps; got {numbers}")
    return numbers


class Ragged:
    """How to sort rows by falling length and back, and how many go on at each step."""

    def __init__(self, lengths: list[int], steps: int, device: torch.device) -> None:
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        back = sorted(range(len(order)), key=lambda place: order[place])
        self.order, self.back, self.lengths = _to_device([order, back, lengths], device)
        self.sizes = row_counts(lengths, steps)
        self.steps = torch.arange(steps, device=device)[:, None]
        self.padded = self.steps >= self.lengths  # [T, B]

    @property
    def reversed_steps(self) -> Tensor:
        """[T, B]: the real steps of each row from last to first, then the padded ones."""
        return torch.where(self.padded, self.steps, self.lengths - 1 - self.steps)


def row_counts(lengths: list[int], steps: int) -> list[int]:
    """How many rows have a step t, for each t."""
    ends = [0] * (steps + 1)
    for length in lengths:
        ends[length] += 1
    counts, left = [], len(lengths)
    for ended in ends[:-1]:
        left -= ended
        counts.append(left)
    return counts


def real_steps(counts: Tensor, batch: int) -> Tensor:
    """[T, B]: whether a row has a step, of sorted rows, of which counts[t] have a step t."""
    return torch.arange(batch) < counts[:, None]


def pad(packed: PackedSequence, steps: int) -> Tensor:
    """Packed rows as [T, B, ...], zeros where there is none: `pad_packed_sequence` to a length.

    That one's backward pass copies the whole result once for every step.
    """
    data, sizes, order, _ = packed
    B = int(sizes[0])
    real = real_steps(sizes, B).nonzero(as_tuple=True)
    step, place = (index.to(data.device) for index in real)
    rows = step * B + (place if order is None else order[place])
    flat = data.new_zeros(steps * B, *data.shape[1:]).index_copy(0, rows, data)
    return flat.view(steps, B, *data.shape[1:])


def _to_device(rows: list[list[int]], device: torch.device) -> Tensor:
    """Rows of whole numbers on a device; a GPU copies them by itself, from page-locked memory."""
    numbers = torch.tensor(rows, dtype=torch.long)
    if device.type not in ("cuda", "meta"):
        return numbers.to(device)  # others may read memory that is freed by then
    if device.type == "cuda" and not torch.compiler.is_compiling():
        numbers = numbers.pin_memory()
    return numbers.to(device, non_blocking=True)


def outside_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Turn autocast off: steps add up over time, and half precision would lose the small ones."""
    return torch.autocast(x.device.type, enabled=False) if autocasts(x) else nullcontext()


def autocasts(x: Tensor) -> bool:
    """Whether autocast is on for the device of a tensor; there is none without storage."""
    return not x.is_meta and torch.is_autocast_enabled(x.device.type)


def check_like_parameter(name: str, x: Tensor, parameter: Tensor) -> None:
    """Raise unless x has the dtype and device of a layer's parameters."""
    # Under autocast the layers before this one hand over half precision; it is widened again.
    widened = x.dtype if autocasts(x) and x.is_floating_point() else None
    check_like(name, x, parameter, "the parameters", widened)


def check_input(
    x: Tensor, dims: tuple[int, ...], axes: str, last: tuple[str, int], parameter: Tensor
) -> None:
    """Raise unless x is a tensor with so many axes, the last of this name and size, and is like a
    layer's parameters. `axes` is how a message writes them, as in [T, B, I]."""
    if not isinstance(x, Tensor):
        raise TypeError(f"the input must be a tensor; got {type(x).__name__}")
    name, size = last
    if x.dim() not in dims or x.shape[-1] != size:
        raise ValueError(f"the input must be {axes} with {name} = {size}; got {list(x.shape)}")
    check_like_parameter("the input", x, parameter)


def refuse_jit() -> None:
    """Raise in `torch.jit.trace`, which knows no states; export to ONNX may trace as well."""
    tracing = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    if tracing and not torch.onnx.is_in_onnx_export():
        raise RuntimeError(NO_JIT)


NO_JIT = "a layer with a memory cannot go through torch.jit: use torch.export or torch.compile"


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
        return Noise(*(None if noise is None else noise[t, :rows] for noise in self))


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
