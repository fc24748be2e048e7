"""Rows of different lengths: sorted, so that step t concerns the first so many of them."""

from collections.abc import Sequence

import torch
from torch import Tensor


def check_lengths(lengths: Tensor | Sequence[int], steps: int, batch: int) -> Tensor:
    """The lengths as whole numbers on the CPU: one a row, each between 1 and the input's steps."""
    found = torch.as_tensor(lengths).cpu()
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise TypeError(f"lengths must be integers; got {found.dtype}")
    if list(found.shape) != [batch]:
        raise ValueError(f"lengths must be [B] = [{batch}]; got {list(found.shape)}")
    if batch and not (found.min() >= 1 and found.max() <= steps):
        raise ValueError(f"lengths must lie in 1..{steps}, the input's steps; got {found.tolist()}")
    return found.to(torch.int64)


class Ragged:
    """How to sort rows by falling length and back, and how many go on at each step."""

    def __init__(self, lengths: Tensor, steps: int, device: torch.device) -> None:
        order = torch.argsort(lengths, descending=True, stable=True)
        self.order, self.back = order.to(device), torch.argsort(order).to(device)
        self.sizes: list[int] = (lengths > torch.arange(steps)[:, None]).sum(1).tolist()
