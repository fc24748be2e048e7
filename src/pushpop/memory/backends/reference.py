"""The paper's equations as they stand, one function each: the truth for every faster path.

Values `V` are [B, N, D] and strengths `s` are [B, N], rows ordered bottom to top; both grow by one
row a step (two for a deque) and cells are never removed. Any dtype, any device, autograd by torch.

At a tie the paper takes the derivative of the left argument. `max(0, x)` is therefore constant at
x = 0, which is what `relu` does, and `min(s, y)` follows s at s = y, which `where(s > y, y, s)`
does; `torch.maximum` and `torch.minimum` would split the gradient between the two. A strength that
is NaN compares as false and is its own weight, so that it shows in every read.
"""

from collections.abc import Callable

import torch
from torch import Tensor

StepFunction = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def sum_above(s: Tensor) -> Tensor:
    """sum_{j > i} s[j] for every cell i."""
    return sum_below(s.flip(-1)).flip(-1)


def sum_below(s: Tensor) -> Tensor:
    """sum_{j < i} s[j] for every cell i."""
    return torch.nn.functional.pad(s, (1, 0))[:, :-1].cumsum(-1)


def pop_top(s: Tensor, u: Tensor) -> Tensor:
    """Equations (2) for i < t and (7): take `u` [B] off the strengths, from the top down."""
    return torch.relu(s - torch.relu(u[:, None] - sum_above(s)))


def pop_bottom(s: Tensor, u: Tensor) -> Tensor:
    """Equations (4) for i < t and (8): take `u` [B] off the strengths, from the bottom up."""
    return torch.relu(s - torch.relu(u[:, None] - sum_below(s)))


def read_top(V: Tensor, s: Tensor) -> Tensor:
    """Equations (3) and (10): the values inside the topmost unit of strength, weighted by it."""
    return _read(V, weights_top(s))


def read_bottom(V: Tensor, s: Tensor) -> Tensor:
    """Equations (5) and (11): the values inside the lowest unit of strength, weighted by it."""
    return _read(V, weights_bottom(s))


def weights_top(s: Tensor) -> Tensor:
    """How much of each cell lies inside the topmost unit of strength, [B, N]."""
    return _weights(s, torch.relu(1 - sum_above(s)))


def weights_bottom(s: Tensor) -> Tensor:
    """How much of each cell lies inside the lowest unit of strength, [B, N]."""
    return _weights(s, torch.relu(1 - sum_below(s)))


def _weights(s: Tensor, left: Tensor) -> Tensor:
    return torch.where(s > left, left, s)


def _read(V: Tensor, weights: Tensor) -> Tensor:
    return torch.bmm(weights[:, None], V)[:, 0]


def stack_step(
    V: Tensor, s: Tensor, v: Tensor, d: Tensor, u: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Equations (1)-(3). `v` [B, 1, D], `d` and `u` [B, 1] -> V, s and the read [B, 1, D]."""
    V = torch.cat([V, v], dim=1)
    s = torch.cat([pop_top(s, u[:, 0]), d], dim=1)
    return V, s, read_top(V, s)[:, None]


def queue_step(
    V: Tensor, s: Tensor, v: Tensor, d: Tensor, u: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Equations (1), (4) and (5): pushed at the top, popped and read at the bottom."""
    V = torch.cat([V, v], dim=1)
    s = torch.cat([pop_bottom(s, u[:, 0]), d], dim=1)
    return V, s, read_bottom(V, s)[:, None]


def deque_step(
    V: Tensor, s: Tensor, v: Tensor, d: Tensor, u: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Equations (6)-(11), ends along dimension 1: 0 is the top, 1 the bottom.

    The paper lets the sums of (7) and (8) run to 2(t-1) - 1; the rows are 1 .. 2(t-1), so here they
    run over all of them.
    """
    V = torch.cat([v[:, 1:], V, v[:, :1]], dim=1)
    s = pop_bottom(pop_top(s, u[:, 0]), u[:, 1])
    s = torch.cat([d[:, 1:], s, d[:, :1]], dim=1)
    return V, s, torch.stack([read_top(V, s), read_bottom(V, s)], dim=1)


STEPS: dict[str, StepFunction] = {"stack": stack_step, "queue": queue_step, "deque": deque_step}


def run(
    kind: str, values: Tensor, push: Tensor, pop: Tensor, V: Tensor, s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """All steps of a sequence: values [T, B, E, D], push and pop [T, B, E] -> reads, V, s."""
    step = STEPS[kind]
    values, V = values.to(push.dtype), V.to(push.dtype)  # they may be in half precision
    if s.shape[1] == 0:  # there is no strength that a first pop of NaN would make NaN
        push = torch.cat([torch.where(pop[:1].isnan(), pop[:1], push[:1]), push[1:]])
    reads = []
    for v, d, u in zip(values, push, pop, strict=True):
        V, s, read = step(V, s, v, d, u)
        reads.append(read)
    return torch.stack(reads), V, s
