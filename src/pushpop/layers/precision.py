"""Inputs are like a layer's parameters, and recurrences keep that precision."""

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
    check_like("the input", x, parameter)
