"""The paper's equations against numbers worked by hand and against the paper's own derivatives."""

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from pushpop.memory.backends import reference

from .samples import controls


def stack_of(pushes: list[float], pops: list[float]) -> tuple[list[Tensor], list[Tensor]]:
    """Strengths and read weights after each step; values are unit vectors, so reads are weights."""
    T = len(pushes)
    V, s = torch.zeros(1, 0, T), torch.zeros(1, 0)
    strengths, reads = [], []
    for t in range(T):
        d, u = torch.tensor([[pushes[t]]]), torch.tensor([[pops[t]]])
        V, s, r = reference.stack_step(V, s, torch.eye(T)[None, t : t + 1], d, u)
        strengths.append(s[0])
        reads.append(r[0, 0])
    return strengths, reads


def test_figure_1a_of_the_paper() -> None:
    strengths, reads = stack_of([0.8, 0.5, 0.9], [0.0, 0.1, 0.9])
    torch.testing.assert_close(strengths[0], torch.tensor([0.8]))
    torch.testing.assert_close(strengths[1], torch.tensor([0.7, 0.5]))
    torch.testing.assert_close(strengths[2], torch.tensor([0.3, 0.0, 0.9]))
    torch.testing.assert_close(reads[0], torch.tensor([0.8, 0.0, 0.0]))
    torch.testing.assert_close(reads[1], torch.tensor([0.5, 0.5, 0.0]))
    torch.testing.assert_close(reads[2], torch.tensor([0.1, 0.0, 0.9]))


def test_queue_pops_and_reads_the_oldest_first() -> None:
    V, s = torch.eye(3)[None], torch.tensor([[0.5, 0.75, 1.0]])
    v, d, u = torch.ones(1, 1, 3), torch.tensor([[0.25]]), torch.tensor([[0.75]])
    V, s, r = reference.queue_step(V, s, v, d, u)
    torch.testing.assert_close(s, torch.tensor([[0.0, 0.5, 1.0, 0.25]]))
    torch.testing.assert_close(r, torch.tensor([[[0.0, 0.5, 0.5]]]))


def test_deque_pops_top_then_bottom_then_pushes_and_reads_both() -> None:
    V, s = torch.eye(4)[None, :2], torch.tensor([[0.5, 0.5]])
    v = torch.eye(4)[None, 2:]  # the third axis pushed at the top, the fourth at the bottom
    d, u = torch.tensor([[0.25, 0.75]]), torch.tensor([[0.75, 0.125]])
    V, s, r = reference.deque_step(V, s, v, d, u)
    torch.testing.assert_close(s, torch.tensor([[0.75, 0.125, 0.0, 0.25]]))
    torch.testing.assert_close(r[0, 0], torch.tensor([0.125, 0.0, 0.25, 0.625]))
    torch.testing.assert_close(r[0, 1], torch.tensor([0.125, 0.0, 0.125, 0.75]))


def test_a_pop_larger_than_the_memory_empties_it() -> None:
    s = torch.tensor([[0.25, 0.5]])
    assert reference.pop_top(s, torch.tensor([1.0])).tolist() == [[0.0, 0.0]]
    assert reference.pop_bottom(s, torch.tensor([1.0])).tolist() == [[0.0, 0.0]]


HOW = pytest.mark.parametrize("how", ["random", "saturated", "dyadic", "mixed"])


@HOW
@pytest.mark.parametrize("seed", range(10))
def test_appendix_a_derivatives_of_a_stack_step(how: str, seed: int) -> None:
    """Equations (12)-(18), with the paper's footnote on ties wherever appendix A contradicts it."""
    torch.manual_seed(seed)
    n, D = 6, 3
    V, s = torch.randn(1, n, D).double(), controls(how, 1, n)
    v, d, u = torch.randn(1, 1, D).double(), controls(how, 1, 1), controls(how, 1, 1)

    def step(*args: Tensor) -> tuple[Tensor, ...]:
        return reference.stack_step(*args)

    by_input = jacobian(step, (V, s, v, d, u))
    dV, ds = by_input[0], by_input[1]
    eye = torch.eye(n + 1).double()
    # (12) dV_t[i] / dV_{t-1}[n] = delta_in   and   (13) dV_t[i] / dv_t = delta_it
    assert torch.equal(dV[0][0, :, 0, 0, :, 0], eye[:, :n])
    assert torch.equal(dV[2][0, :, 0, 0, 0, 0], eye[:, n])
    # (14) ds_t[i] / dd_t = delta_it
    assert torch.equal(ds[3][0, :, 0, 0], eye[:, n])

    rest = u[0, 0] - torch.tensor([float(s[0, i + 1 :].sum()) for i in range(n)]).double()
    after = reference.pop_top(s, u[:, 0])[0]
    for i in range(n):
        trimmed = after[i] > 0 and rest[i] > 0
        untouched = after[i] > 0 and rest[i] <= 0
        # (16) ds_t[i] / ds_{t-1}[n]: 1 for n > i and for n = i if trimmed, delta_in if untouched
        for k in range(n):
            wanted = float(k >= i) if trimmed else float(k == i and bool(untouched))
            assert ds[1][0, i, 0, k] == wanted, (i, k)
        # (17) ds_t[i] / du_t
        assert ds[4][0, i, 0, 0] == (-1.0 if trimmed else 0.0)


@HOW
@pytest.mark.parametrize("seed", range(10))
def test_appendix_a_derivatives_of_a_read(how: str, seed: int) -> None:
    """Equations (15) and (18): the read by the values and by the strengths."""
    torch.manual_seed(seed)
    n, D = 7, 3
    V, s = torch.randn(1, n, D).double(), controls(how, 1, n)
    by_value, by_strength = jacobian(reference.read_top, (V, s))
    above = [float(s[0, i + 1 :].sum()) for i in range(n)]
    for i in range(n):
        weight = min(float(s[0, i]), max(0.0, 1 - above[i]))
        torch.testing.assert_close(by_value[0, :, 0, i], weight * torch.eye(D).double())
    for k in range(n):
        wanted = torch.zeros(D).double()
        for i in range(n):
            if s[0, i] <= max(0.0, 1 - above[i]):
                wanted += float(i == k) * V[0, i]
            elif i < k and above[i] < 1:  # "<= 1" in the appendix; at 1 the footnote says no
                wanted -= V[0, i]
        torch.testing.assert_close(by_strength[0, :, 0, k], wanted)


def test_the_gradient_of_a_pop_that_empties_the_memory_is_zero() -> None:
    s = torch.tensor([[0.25, 0.5]], requires_grad=True)
    u = torch.tensor([0.9], requires_grad=True)
    reference.pop_top(s, u).sum().backward()
    assert u.grad is not None
    assert u.grad.tolist() == [0.0]
