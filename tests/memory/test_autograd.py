"""What the kernels' derivatives are good for, and what is refused by name."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from pushpop.memory import MEMORIES
from pushpop.memory.autograd import kernels_can_differentiate

from .samples import sample


def test_the_kernels_serve_plain_calls_with_and_without_gradients() -> None:
    assert kernels_can_differentiate()
    with torch.no_grad():
        assert kernels_can_differentiate()


def jvp(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], object]:
    return lambda x: torch.func.jvp(function, (x,), (x,))


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.vmap, torch.func.jacrev, jvp])
# Torch's own, when it first differentiates forward.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_the_kernels_do_not_serve_inside_functorch(
    transform: Callable[[Callable[[Tensor], Tensor]], Callable[[Tensor], object]],
) -> None:
    answers = []

    def ask(x: Tensor) -> Tensor:
        answers.append(kernels_can_differentiate())
        return (x * x).sum()

    transform(ask)(torch.ones(2))
    assert answers == [False]
    assert kernels_can_differentiate()


def test_the_kernels_do_not_serve_where_forward_mode_is_open() -> None:
    with forward_ad.dual_level():
        assert not kernels_can_differentiate()
    assert kernels_can_differentiate()


@pytest.mark.parametrize("kind", MEMORIES)
def test_a_second_derivative_is_refused_and_the_remedy_named(kind: str) -> None:
    given = sample(kind, "random", 5)
    memory = MEMORIES[kind](4, "fused")
    reads, _ = memory(*given.leaves[:3], given.state)
    first = torch.autograd.grad((reads**2).sum(), given.leaves, create_graph=True)
    wanted = torch.autograd.grad(
        (memory(*given.leaves[:3], given.state)[0] ** 2).sum(), given.leaves
    )
    torch.testing.assert_close(first, wanted)
    message = "backend 'fused' has no second derivative; use backend='reference'"
    with pytest.raises(RuntimeError, match=message):
        torch.autograd.grad(first[0].sum(), given.leaves)
