"""What the kernels' derivatives are good for, and what is refused by name."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from pushpop.memory.operators import under_transform

from .samples import PAPER, sample


def test_the_kernels_serve_plain_calls_with_and_without_gradients() -> None:
    assert not under_transform()
    with torch.no_grad():
        assert not under_transform()


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
        answers.append(not under_transform())
        return (x * x).sum()

    transform(ask)(torch.ones(2))
    assert answers == [False]
    assert not under_transform()


def test_the_kernels_do_not_serve_where_forward_mode_is_open() -> None:
    with forward_ad.dual_level():
        assert under_transform()
    assert not under_transform()


@pytest.mark.parametrize("kind", PAPER)
def test_a_second_derivative_is_refused_and_the_remedy_named(kind: str) -> None:
    given = sample(kind, "random", 5)
    memory = PAPER[kind](4, "fused")
    reads, _ = memory(*given.leaves[:3], given.state)
    first = torch.autograd.grad((reads**2).sum(), given.leaves, create_graph=True)
    wanted = torch.autograd.grad(
        (memory(*given.leaves[:3], given.state)[0] ** 2).sum(), given.leaves
    )
    torch.testing.assert_close(first, wanted)
    message = "backend 'fused' has no second derivative; use backend='reference'"
    with pytest.raises(RuntimeError, match=message):
        torch.autograd.grad(first[0].sum(), given.leaves)
