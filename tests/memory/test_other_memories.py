"""The superposition stack and the tape: against dense references of their own."""

import pytest
import torch
from torch import Tensor

from pushpop import SuperpositionStack, Tape
from pushpop.memory import MEMORIES, Memory

T, B, D = 7, 3, 2
MEMORY = pytest.mark.parametrize("memory", [SuperpositionStack(D), Tape(D)], ids=lambda m: m.kind)


def dense_superposition(values: Tensor, gates: Tensor) -> Tensor:
    """The equations cell by cell, on a stack that is large enough from the start."""
    N = len(values) + 2
    M = [torch.zeros(B, D, dtype=values.dtype) for _ in range(N)]
    reads = []
    for v, a in zip(values[:, :, 0], gates, strict=True):
        push, pop, noop = a[:, :1], a[:, 1:2], a[:, 2:]
        above = [v, *M[:-1]]
        below = [*M[1:], torch.zeros_like(v)]
        M = [push * above[i] + pop * below[i] + noop * M[i] for i in range(N)]
        reads.append(M[0])
    return torch.stack(reads)[:, :, None]


def dense_tape(values: Tensor, gates: Tensor) -> Tensor:
    """The equations by shift matrices, on a tape that is large enough from the start."""
    N = 2 * len(values) + 3
    head = N // 2
    M = torch.zeros(B, N, D, dtype=values.dtype)
    left = torch.diag(torch.ones(N - 1, dtype=values.dtype), 1)  # left[i, i + 1]: i gets i + 1
    reads = []
    for v, a in zip(values[:, :, 0], gates, strict=True):
        M = torch.cat([M[:, :head], v[:, None], M[:, head + 1 :]], dim=1)
        stay, to_left, to_right = (a[:, k, None, None] for k in range(3))
        M = stay * M + to_left * (left @ M) + to_right * (left.T @ M)
        reads.append(M[:, head])
    return torch.stack(reads)[:, :, None]


DENSE = {"superposition": dense_superposition, "tape": dense_tape}


def sample(seed: int = 0) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    values = torch.randn(T, B, 1, D, dtype=torch.float64, requires_grad=True)
    return values, torch.randn(T, B, 3, dtype=torch.float64).softmax(-1).requires_grad_()


@MEMORY
def test_reads_and_gradients_are_those_of_the_equations(memory: Memory) -> None:
    values, gates = sample()
    reads, _ = memory(values, gates)
    wanted = DENSE[memory.kind](values, gates)
    torch.testing.assert_close(reads, wanted)
    weights = torch.randn_like(reads)
    found, right = (
        torch.autograd.grad((weights * x).sum(), (values, gates)) for x in (reads, wanted)
    )
    torch.testing.assert_close(found, right)


@MEMORY
def test_gradcheck(memory: Memory) -> None:
    assert torch.autograd.gradcheck(lambda v, g: memory(v, g)[0], sample())
    assert torch.autograd.gradgradcheck(lambda v, g: memory(v, g)[0][-1], sample())


@MEMORY
def test_pieces_and_steps_equal_the_whole(memory: Memory) -> None:
    values, gates = sample()
    whole, after = memory(values, gates)
    first, state = memory(values[:4], gates[:4])
    second, state = memory(values[4:], gates[4:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(state.cells, after.cells)
    state = None
    for t in range(T):
        read, state = memory.run_step(values[t], gates[t], state)
        torch.testing.assert_close(read, whole[t])


def one_of(*places: int) -> Tensor:
    """Gates that are all or nothing, [T, 1, 3]."""
    return torch.eye(3)[list(places)][:, None]


def test_with_whole_actions_a_superposition_stack_is_a_stack() -> None:
    push, pop, noop = range(3)
    values = torch.arange(1.0, 8)[:, None, None, None]
    reads, _ = SuperpositionStack(1)(values, one_of(push, push, noop, pop, push, pop, pop))
    assert reads.flatten().tolist() == [1, 2, 2, 1, 5, 1, 0]


def test_with_whole_moves_a_tape_is_a_tape() -> None:
    stay, left, right = range(3)
    values = torch.arange(1.0, 8)[:, None, None, None]
    reads, state = Tape(1)(values, one_of(stay, left, left, right, right, right, stay))
    # 2 and 3 go left; the head writes 4, and what comes back from the left is 3, then 2 and 0.
    assert reads.flatten().tolist() == [1, 0, 0, 3, 2, 0, 7]
    cells, places = Tape(1).contents(state)
    held = zip(places, cells.flatten().tolist(), strict=True)
    assert {place: cell for place, cell in held if cell} == {0: 7.0, 1: 6.0, 2: 5.0, 3: 4.0}


@MEMORY
def test_a_memory_grows_with_the_sequence(memory: Memory) -> None:
    state = memory.empty(2)
    start = state.cells.shape[1]
    for t in range(40):
        _, state = memory.run_step(torch.ones(2, 1, D), torch.full((2, 3), 1 / 3), state)
        assert state.cells.shape[1] == start + (t + 1) * (2 if memory.kind == "tape" else 1)


def test_a_tape_never_wraps_and_nothing_falls_off() -> None:
    left, right = 1, 2
    moves = [left] * 50 + [right] * 50
    values = torch.zeros(100, 1, 1, 1)
    values[:50] = torch.arange(1.0, 51)[:, None, None, None]
    reads, _ = Tape(1)(values, one_of(*moves))
    assert reads[50:].flatten().tolist() == [*map(float, range(50, 0, -1))]


@MEMORY
def test_rows_of_several_depths_are_joined(memory: Memory) -> None:
    values, gates = sample()
    _, deep = memory(values, gates)
    _, flat = memory(values[:2], gates[:2])
    both = type(deep).join([flat.rows([1]), deep])
    assert both.batch_size == 4
    extra = (values[:1, [1, 0, 1, 2]], gates[:1, [1, 0, 1, 2]])
    found, _ = memory(*extra, both)
    torch.testing.assert_close(found[:, 1:], memory(extra[0][:, 1:], extra[1][:, 1:], deep)[0])
    torch.testing.assert_close(
        found[:, :1], memory(extra[0][:, :1], extra[1][:, :1], flat.rows([1]))[0]
    )


def test_biases_of_gates_that_a_memory_does_not_have_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="memory 'tape' has no pop_bias: its starting biases"):
        Tape(D).gate_bias(pop_bias=-1.0)
    assert SuperpositionStack(D).gate_bias(2) == [[None] * 3] * 2


@pytest.mark.parametrize("kind", ["superposition", "tape"])
def test_there_are_no_kernels_and_asking_for_them_says_so(kind: str) -> None:
    for backend in ("fused", "parallel"):
        with pytest.raises(ValueError, match=f"'{backend}' of memory '{kind}' does not exist: use"):
            MEMORIES[kind](D, backend)
