"""Recurrences keep the precision of their parameters."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def outside_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Turn autocast off: steps add up over time, and half precision would lose the small ones."""
    return torch.autocast(x.device.type, enabled=False) if autocasts(x) else nullcontext()


def autocasts(x: Tensor) -> bool:
    """Whether autocast is on for the device of a tensor; there is none without storage."""
    return not x.is_meta and torch.is_autocast_enabled(x.device.type)


def check_like(name: str, x: Tensor, parameter: Tensor) -> None:
    """Raise unless x has the dtype and device of a layer's parameters."""
    # Under autocast the layers before this one hand over half precision; it is widened again.
    if x.dtype != parameter.dtype and not (autocasts(x) and x.is_floating_point()):
        raise TypeError(
            f"{name} must have the dtype of the parameters, {parameter.dtype}; got {x.dtype}"
        )
    if x.device != parameter.device:
        raise ValueError(
            f"{name} must be on the device of the parameters, {parameter.device}; got {x.device}"
        )
