"""Rows of different lengths: sorted, so that step t concerns the first so many of them."""

from collections.abc import Sequence

import torch
from torch import Tensor


def check_lengths(lengths: Tensor | Sequence[int], steps: int, batch: int) -> list[int]:
    """The lengths as numbers: one a row, each between 1 and the number of steps."""
    given = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    if len(given) != batch:
        raise ValueError(f"lengths must have one number a row, {batch}; got {len(given)}")
    for row, length in enumerate(given):
        if int(length) != length or not 1 <= length <= steps:
            raise ValueError(
                f"lengths must be whole numbers from 1 to the {steps} steps given; "
                f"got {length} in row {row}"
            )
    return [int(length) for length in given]


class Ragged:
    """How to sort rows by falling length and back, and how many go on at each step."""

    def __init__(self, lengths: list[int], device: torch.device) -> None:
        rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        self.order = torch.tensor(rows, dtype=torch.long, device=device)
        self.back = torch.argsort(self.order)
        self._lengths = lengths

    def sizes(self, steps: int) -> list[int]:
        """How many rows are longer than t, for each of the steps."""
        return [sum(length > t for length in self._lengths) for t in range(steps)]
