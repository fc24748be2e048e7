"""Rows of different lengths: sorted, so that step t concerns the first so many of them."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence


def check_lengths(lengths: Tensor | Sequence[int], steps: int, batch: int) -> list[int]:
    """The lengths as plain numbers: one a row, each between 1 and the input's steps."""
    if isinstance(lengths, Tensor):
        if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
            raise TypeError(f"lengths must be integers; got {lengths.dtype}")
        if lengths.dim() != 1:
            raise ValueError(f"lengths must be [B] = [{batch}]; got {list(lengths.shape)}")
        found = lengths.tolist()
    else:
        found = list(lengths)
    if len(found) != batch:
        raise ValueError(f"lengths must be [B] = [{batch}]; got [{len(found)}]")
    for place, length in enumerate(found):
        if isinstance(length, bool) or not hasattr(length, "__index__"):
            raise TypeError(f"lengths must be integers; got {length!r}")
        found[place] = length = int(length)  # of numpy too
        if not 1 <= length <= steps:
            raise ValueError(f"lengths must lie in 1..{steps}, the input's steps; got {found}")
    return found


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
    step, place = (each.to(data.device) for each in real)
    rows = step * B + (place if order is None else order[place])
    flat = data.new_zeros(steps * B, *data.shape[1:]).index_copy(0, rows, data)
    return flat.view(steps, B, *data.shape[1:])


def _to_device(rows: list[list[int]], device: torch.device) -> Tensor:
    """Rows of whole numbers on a device; a GPU copies them by itself, from page-locked memory."""
    found = torch.tensor(rows, dtype=torch.long)
    if device.type not in ("cuda", "meta"):
        return found.to(device)  # others may read memory that is freed by then
    if device.type == "cuda" and not torch.compiler.is_compiling():
        found = found.pin_memory()
    return found.to(device, non_blocking=True)
