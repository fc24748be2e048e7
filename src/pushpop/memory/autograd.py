"""Which derivatives the kernels can give: first ones, in reverse mode, and no others."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def under_transform() -> bool:
    """Whether torch differentiates forwards, a transform of `torch.func` is at work, or a model is
    exported to ONNX.

    Kernels are not right then: a tangent would be lost without an error, and ONNX has none.
    """
    active = getattr(torch._C, "_are_functorch_transforms_active", None)
    in_functorch = active is not None and bool(active())
    forwards = getattr(forward_ad, "_current_level", -1) >= 0
    return in_functorch or forwards or torch.onnx.is_in_onnx_export()


NO_SECOND = "backend 'fused' has no second derivative; use backend='reference'"


def refuse_second_derivative(operator: Any, backend: str | None = None) -> None:
    """Have a backward operator name what to use instead when it is differentiated itself.

    Building the graph for that (`create_graph=True`) is not refused: it may never be used. The
    kernels are those of `backend`; `None`: Triton's on a GPU, Numba's elsewhere.
    """

    def backward(ctx: Any, *grads: Any) -> Any:
        on_gpu = any(isinstance(grad, Tensor) and grad.is_cuda for grad in grads)
        name = backend or ("triton" if on_gpu else "fused")
        raise RuntimeError(NO_SECOND.replace("fused", name))

    operator.register_autograd(backward)


class _FirstOrderOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        if not torch.is_grad_enabled():
            return gradients
        found: tuple[Tensor, ...] = _Refused.apply(*gradients)  # type: ignore[no-untyped-call]
        return found


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return tuple(gradient.view_as(gradient) for gradient in gradients)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        raise RuntimeError(NO_SECOND)


def first_order_only(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The same tensors, made by kernels; asking for a derivative of their gradient raises."""
    found: tuple[Tensor, ...] = _FirstOrderOnly.apply(*tensors)  # type: ignore[no-untyped-call]
    return found
