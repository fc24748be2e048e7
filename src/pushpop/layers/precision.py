"""Recurrences keep the precision of their parameters."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def outside_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Turn autocast off: steps add up over time, and half precision would lose the small ones."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()
