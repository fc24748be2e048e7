"""The operator of the recurrence, with one or more memories, against plain torch step by step."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from pushpop import MemoryState
from pushpop.layers.backends import RecurrenceInput, recurrence
from pushpop.memory.backends import reference
from pushpop.memory.kinds import KINDS
from pushpop.memory.operators import final_of
from pushpop.memory.state import WalkResult

T, B, IN, H, D = 7, 3, 2, 3, 2
KIND = pytest.mark.parametrize("kind", KINDS)
MEMORIES = pytest.mark.parametrize("memories", [1, 2, 3])


@dataclass
class Result:
    """What a recurrence gives: everything that a gradient can start from."""

    hidden: Tensor
    carry: Tensor
    c: Tensor
    cells: list[tuple[Tensor, Tensor]]  # values [N, D] and strengths [N] of each row

    def loss(self) -> Tensor:
        """Of all of it; cells without strength do not count."""
        parts = torch.cat([self.hidden.flatten(), self.carry.flatten(), self.c.flatten()])
        weights = torch.cos(torch.arange(parts.numel(), dtype=parts.dtype))
        along = torch.sin(torch.arange(D, dtype=parts.dtype))
        cells = [(s * (torch.sin(V @ along) + s.cumsum(0))).sum() for V, s in self.cells]
        return (weights * parts).sum() + torch.stack(cells).sum()


def inputs(
    kind: str, memories: int, sizes: list[int], cell: str = "lstm", N: int = 2, noise: bool = True
) -> RecurrenceInput:
    E, K = 2 if kind == "deque" else 1, 4 * H if cell == "lstm" else H
    reads, gates = memories * E * D, memories * 2 * E

    def leaf(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64).requires_grad_()

    return RecurrenceInput(
        [KINDS.index(kind)], memories, True, cell, sizes, x=leaf(len(sizes), B, IN),
        weight_ih=leaf(K, IN + reads), weight_hh=leaf(K, H), bias=leaf(K),
        value_weight=leaf(reads, H), value_bias=leaf(reads), gate_weight=leaf(gates, H),
        gate_bias=leaf(gates), h=leaf(B, H),
        c=leaf(B, H), read=leaf(B, reads), initial=leaf(B * memories, N, D),
        strengths=torch.rand(B * memories, N, dtype=torch.float64).requires_grad_(),
        gate_noise=leaf(len(sizes), B, gates).detach() if noise else None,
        cell_noise=leaf(len(sizes), B, min(2 * H, K)).detach() if noise else None,
    )  # fmt: skip


def leaves(given: RecurrenceInput) -> dict[str, Tensor]:
    named = given._asdict().items()
    return {name: x for name, x in named if isinstance(x, Tensor) and x.requires_grad}


def by_operator(given: RecurrenceInput) -> Result:
    out = recurrence(given)
    state = MemoryState._from_store(WalkResult(out.values, given.initial, *final_of(out)))
    steps = torch.arange(len(given.sizes))[:, None]
    lengths = torch.tensor([sum(n > b for n in given.sizes) for b in range(B)])
    hidden = out.hidden.masked_fill((steps >= lengths)[..., None], 0)
    return Result(hidden, out.carry, out.c, list(zip(state.values, state.strengths, strict=True)))


def by_hand(given: RecurrenceInput) -> Result:
    """One sequence, one step and one memory at a time, by the paper's equations."""
    M, E = given.memories, len(given.gate_bias) // (2 * given.memories)
    step = reference.STEPS[KINDS[given.memory[0]]]
    hiddens, carries, cs, cells = [], [], [], []
    for b in range(B):
        h, c, read = given.h[b], given.c[b], given.read[b]
        memory = [
            (given.initial[b * M + m][None], given.strengths[b * M + m][None]) for m in range(M)
        ]
        hidden = []
        for t in range(sum(n > b for n in given.sizes)):
            blocks = given.weight_ih @ torch.cat([given.x[t, b], read]) + given.bias
            blocks = blocks + given.weight_hh @ h
            if given.cell_noise is not None:
                width = given.cell_noise.shape[2]
                blocks = blocks + torch.nn.functional.pad(
                    given.cell_noise[t, b], (0, len(blocks) - width)
                )
            if given.cell == "lstm":
                i, f, g, o = blocks.chunk(4)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
            else:
                h = torch.tanh(blocks)
            values = torch.tanh(given.value_weight @ h + given.value_bias).view(M, 1, E, D)
            logits = given.gate_weight @ h + given.gate_bias
            if given.gate_noise is not None:
                logits = logits + given.gate_noise[t, b]
            gates = torch.sigmoid(logits).view(M, 1, 2, E)
            reads = []
            for m in range(M):
                V, s, r = step(*memory[m], values[m], gates[m, :, 0], gates[m, :, 1])
                memory[m] = (V, s)
                reads.append(r.flatten())
            read = torch.cat(reads)
            hidden.append(h)
        padding = [torch.zeros_like(h)] * (len(given.sizes) - len(hidden))
        hiddens.append(torch.stack([*hidden, *padding]))
        carries.append(torch.cat([h, read]))
        cs.append(c)
        cells += [(V[0], s[0]) for V, s in memory]
    return Result(torch.stack(hiddens, 1), torch.stack(carries), torch.stack(cs), cells)


def assert_equal_with_gradients(given: RecurrenceInput) -> None:
    found, wanted = by_operator(given), by_hand(given)
    for name in ("hidden", "carry", "c"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name))
    for (V, s), (wanted_V, wanted_s) in zip(found.cells, wanted.cells, strict=True):
        torch.testing.assert_close(V[s > 0], wanted_V[wanted_s > 0])
        torch.testing.assert_close(s[s > 0], wanted_s[wanted_s > 0])
    named = leaves(given)
    pairs = [
        torch.autograd.grad(result.loss(), list(named.values()), materialize_grads=True)
        for result in (found, wanted)
    ]
    for name, one, other in zip(named, *pairs, strict=True):
        torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")


@KIND
@MEMORIES
@pytest.mark.parametrize("sizes", [[B] * T, [3, 3, 2, 2, 1, 0]], ids=["full", "ragged"])
def test_it_equals_the_equations_and_their_gradients(
    kind: str, memories: int, sizes: list[int]
) -> None:
    assert_equal_with_gradients(inputs(kind, memories, sizes))


@KIND
@MEMORIES
def test_without_noise_and_initial_cells_it_equals_the_equations(kind: str, memories: int) -> None:
    assert_equal_with_gradients(inputs(kind, memories, [3, 3, 1], "rnn", N=0, noise=False))


@KIND
def test_longer_than_what_is_multiplied_ahead(kind: str) -> None:
    assert_equal_with_gradients(inputs(kind, 2, [B] * 18 + [1] * 3))


@KIND
def test_gradients_of_two_memories_agree_with_finite_differences(kind: str) -> None:
    given = inputs(kind, 2, [3, 2, 2], N=1)
    named = leaves(given)

    def call(*tensors: Tensor) -> tuple[Tensor, ...]:
        result = by_operator(given._replace(**dict(zip(named, tensors, strict=True))))
        return result.hidden, result.carry, result.c, result.loss()

    assert torch.autograd.gradcheck(call, tuple(named.values()))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_two_memories_pass_opcheck() -> None:
    torch.library.opcheck(recurrence.operator, tuple(inputs("deque", 2, [3, 3, 2, 1])))


def test_a_second_derivative_is_refused_and_the_remedy_named() -> None:
    given = inputs("queue", 2, [3, 3])
    (first,) = torch.autograd.grad(by_operator(given).loss(), given.x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative; use backend='reference'"):
        torch.autograd.grad(first.sum(), given.x)
