"""Which derivatives the CPU kernels can give: first ones, in reverse mode, and no others."""

from typing import Any

import torch
from torch.autograd import forward_ad


def kernels_can_differentiate() -> bool:
    """Whether the kernels are right under the transforms of torch that are active now.

    They are not inside `torch.func` (grad, jvp, vmap and the others) and where a level of
    forward-mode differentiation is open: a tangent would be lost without an error.
    """
    active = getattr(torch._C, "_are_functorch_transforms_active", None)
    in_functorch = active is not None and active()
    return not in_functorch and forward_ad._current_level < 0


def refuse_second_derivative(operator: Any, what: str, remedy: str) -> None:
    """Have a backward operator name what to use instead when it is differentiated itself.

    Building the graph for that (`create_graph=True`) is not refused: it may never be used.
    """

    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(f"{what} has no second derivative; use {remedy}")

    operator.register_autograd(backward)
