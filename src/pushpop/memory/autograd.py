"""Which derivatives the CPU kernels can give: first ones, in reverse mode, and no others."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def under_transform() -> bool:
    """Whether torch differentiates forwards, or a transform of `torch.func` is at work.

    Kernels are not right then: a tangent would be lost without an error.
    """
    active = getattr(torch._C, "_are_functorch_transforms_active", None)
    in_functorch = active is not None and bool(active())
    return in_functorch or forward_ad._current_level >= 0


NO_SECOND = "backend 'fused' has no second derivative; use backend='reference'"


def refuse_second_derivative(operator: Any) -> None:
    """Have a backward operator name what to use instead when it is differentiated itself.

    Building the graph for that (`create_graph=True`) is not refused: it may never be used.
    """

    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(NO_SECOND)

    operator.register_autograd(backward)


class _FirstOrderOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(NO_SECOND)
        return gradients


def first_order_only(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The same tensors, made by kernels; asking for a derivative of their gradient raises."""
    found: tuple[Tensor, ...] = _FirstOrderOnly.apply(*tensors)  # type: ignore[no-untyped-call]
    return found
