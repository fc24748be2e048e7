"""Memories in the place of a self-attention: the equations, causality, padding, pieces, steps."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pushpop import MemoryAttention, MemoryState
from pushpop.layers import HeadsState
from pushpop.memory.backends import reference

T, B, E, HEADS = 9, 3, 6, 2
MEMORIES = pytest.mark.parametrize("memory", ["stack", "queue", "deque"])
BACKENDS = pytest.mark.parametrize("backend", ["fused", "parallel", "reference"])


def heads(rows: int) -> HeadsState:
    """A state of so many rows of two heads, three wide."""
    return HeadsState(MemoryState(torch.rand(2 * rows, 1, 3), torch.rand(2 * rows, 1)), 2)


def layer_for(memory: str, **options: Any) -> MemoryAttention:
    layer = MemoryAttention(E, memory, **{"num_heads": HEADS, **options}).double()
    with torch.no_grad():  # gates that differ from step to step, so that all of the memory is used
        layer.push.weight.mul_(4)
        layer.pop.weight.mul_(4)
    return layer


def sequence(steps: int = T) -> Tensor:
    return torch.randn(steps, B, E, dtype=torch.float64, requires_grad=True)


def by_hand(layer: MemoryAttention, x: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """A loop over heads, each a memory of the reference; the cells (V, s) of each head as well."""
    ends, width = layer.memory.ends, layer.memory.width
    reads, cells = [], []
    for head in range(layer.num_heads):
        gates = slice(head * ends, (head + 1) * ends)
        rows = slice(head * ends * width, (head + 1) * ends * width)
        push = torch.sigmoid(x @ layer.push.weight[gates].T + layer.push.bias[gates])
        pop = torch.sigmoid(x @ layer.pop.weight[gates].T + layer.pop.bias[gates])
        values = x @ layer.value.weight[rows].T + layer.value.bias[rows]
        read, V, s = reference.run(
            layer.memory.kind, values.view(*x.shape[:2], ends, width), push, pop,
            x.new_zeros(x.shape[1], 0, width), x.new_zeros(x.shape[1], 0),
        )  # fmt: skip
        reads.append(read.flatten(2))
        cells.append((V, s))
    return torch.cat(reads, dim=-1) @ layer.out.weight.T + layer.out.bias, cells


def gradients(layer: MemoryAttention, output: Tensor, *leaves: Tensor) -> dict[str, Tensor]:
    named = {**dict(layer.named_parameters()), **{f"leaf {i}": x for i, x in enumerate(leaves)}}
    weights = torch.sin(torch.arange(output.numel())).view(output.shape)
    found = torch.autograd.grad((output * weights).sum(), list(named.values()))
    return dict(zip(named, found, strict=True))


def test_one_head_with_open_gates_is_pythons_stack() -> None:
    """Input widths: what to push, and two that say push or pop."""
    layer = MemoryAttention(3, "stack").double()
    with torch.no_grad():
        layer.value.weight.copy_(torch.diag(torch.tensor([1.0, 0, 0])))
        layer.out.weight.copy_(torch.eye(3))
        layer.push.weight.copy_(torch.tensor([[0.0, 2e3, 0]]))
        layer.pop.weight.copy_(torch.tensor([[0.0, 0, 2e3]]))
        for bias in (layer.push.bias, layer.pop.bias):
            bias.fill_(-1e3)
        for bias in (layer.value.bias, layer.out.bias):
            bias.zero_()
    said = [[7, 1, 0], [8, 1, 0], [0, 0, 1], [9, 1, 1], [0, 0, 0], [0, 0, 1]]
    output, _ = layer(torch.tensor(said, dtype=torch.float64))
    assert output[:, 0].tolist() == [7, 8, 7, 9, 9, 0]


@MEMORIES
@BACKENDS
def test_it_equals_a_loop_over_heads(memory: str, backend: str) -> None:
    layer, x = layer_for(memory, backend=backend), sequence()
    output, state = layer(x)
    wanted, cells = by_hand(layer, x)
    torch.testing.assert_close(output, wanted)
    torch.testing.assert_close(gradients(layer, output, x), gradients(layer, wanted, x))
    for head, (V, s) in enumerate(cells):
        assert state.memory[range(head, B * HEADS, HEADS)].equal(MemoryState(V, s), atol=1e-12)


@MEMORIES
def test_finite_differences_agree(memory: str) -> None:
    layer = MemoryAttention(2, memory, num_heads=2).double()
    x = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[False] * 4, [False, True, False, True]])
    assert torch.autograd.gradcheck(lambda x: layer(x, key_padding_mask=mask)[0], (x,))


@MEMORIES
@BACKENDS
def test_no_output_depends_on_a_later_input(memory: str, backend: str) -> None:
    layer, x = layer_for(memory, backend=backend), sequence()
    changed = x.detach().clone()
    changed[5] += 1
    before, after = layer(x)[0], layer(changed)[0]
    torch.testing.assert_close(after[:5], before[:5], rtol=0, atol=1e-14)
    assert (after[5] != before[5]).all()
    (gradient,) = torch.autograd.grad(layer(x)[0][4].sum(), x)
    assert gradient[5:].eq(0).all()
    assert gradient[4].ne(0).all()


@MEMORIES
@BACKENDS
def test_padding_anywhere_changes_no_other_step(memory: str, backend: str) -> None:
    layer, x = layer_for(memory, backend=backend), sequence()
    mask = torch.zeros(B, T, dtype=torch.bool)
    mask[0, 6:] = mask[1, 1] = mask[1, 4:6] = mask[2, :2] = True  # behind, inside, in front
    spoilt = x.detach().clone().masked_fill(mask.T[..., None], torch.nan).requires_grad_()
    output, state = layer(spoilt, key_padding_mask=mask)
    rows, wanted = [], torch.zeros_like(output)
    for b in range(B):  # the oracle: each row by itself, without its padded steps
        row, after = layer(x[~mask[b], b])
        wanted = wanted.index_put((torch.where(~mask[b])[0], torch.tensor(b)), row)
        rows.append(row)
        assert state.rows(torch.tensor([b])).memory.equal(after.memory, atol=1e-12)
    torch.testing.assert_close(output, wanted)
    assert output[mask.T].eq(0).all()
    found = gradients(layer, output, spoilt)
    assert found["leaf 0"][mask.T].eq(0).all()
    torch.testing.assert_close(found, gradients(layer, wanted, x))


@MEMORIES
@BACKENDS
def test_pieces_equal_the_whole(memory: str, backend: str) -> None:
    layer, x = layer_for(memory, backend=backend), sequence()
    whole, final = layer(x)
    outputs, state = [], None
    for piece in x.split([4, 0, 1, 4]):
        output, state = layer(piece, state)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs), whole)
    assert state.memory.equal(final.memory, atol=1e-12)
    torch.testing.assert_close(gradients(layer, torch.cat(outputs), x), gradients(layer, whole, x))


@MEMORIES
@BACKENDS
@pytest.mark.parametrize("train", [True, False])
def test_steps_equal_the_whole(memory: str, backend: str, train: bool) -> None:
    layer, x = layer_for(memory, backend=backend), sequence()
    with torch.set_grad_enabled(train):
        whole, final = layer(x)
        outputs, state = [], None
        for x_t in x:
            output, state = layer.step(x_t, state)
            outputs.append(output)
    torch.testing.assert_close(torch.stack(outputs), whole)
    assert state.memory.equal(final.memory, atol=1e-12)
    if train:
        torch.testing.assert_close(
            gradients(layer, torch.stack(outputs), x), gradients(layer, whole, x)
        )


@MEMORIES
def test_rows_of_a_state_can_be_chosen_for_a_beam(memory: str) -> None:
    layer, x = layer_for(memory), sequence()
    rows = torch.tensor([2, 2, 0, 1])
    _, state = layer(x[:5])
    continued, _ = layer(x[5:, rows], state.rows(rows))
    torch.testing.assert_close(continued, layer(x)[0][5:, rows])


@MEMORIES
def test_batch_first_turns_input_and_output(memory: str) -> None:
    layer, x = layer_for(memory), sequence()
    turned = layer_for(memory, batch_first=True)
    turned.load_state_dict(layer.state_dict())
    mask = torch.rand(B, T) < 0.3
    output, state = turned(x.transpose(0, 1), key_padding_mask=mask)
    wanted, wanted_state = layer(x, key_padding_mask=mask)
    torch.testing.assert_close(output.transpose(0, 1), wanted)
    assert state.memory.equal(wanted_state.memory, atol=1e-12)


@MEMORIES
def test_an_input_without_a_batch_is_a_batch_of_one(memory: str) -> None:
    layer, x = layer_for(memory), sequence()
    mask = torch.rand(T) < 0.3
    output, state = layer(x[:, 0], key_padding_mask=mask)
    wanted, _ = layer(x[:, :1], key_padding_mask=mask[None])
    torch.testing.assert_close(output, wanted[:, 0])
    read, _ = layer.step(x[0, 0], state)
    assert read.shape == (E,)


@MEMORIES
def test_it_compiles_as_one_graph(memory: str) -> None:
    torch.compiler.reset()
    layer, x = layer_for(memory), sequence()
    mask = torch.rand(B, T) < 0.3

    def call(x: Tensor) -> tuple[Tensor, HeadsState]:
        first, state = layer(x[:4], key_padding_mask=mask[:, :4])
        second, state = layer(x[4:], state, mask[:, 4:])
        return torch.cat([first, second]), state

    output, state = torch.compile(call, fullgraph=True, backend="aot_eager")(x)
    wanted, wanted_state = call(x)
    torch.testing.assert_close(output, wanted)
    assert state.memory.equal(wanted_state.memory, atol=1e-12)
    torch.testing.assert_close(gradients(layer, output, x), gradients(layer, wanted, x))


def test_a_step_compiles_as_one_graph() -> None:
    torch.compiler.reset()
    layer, x = layer_for("deque"), sequence().detach()
    state = layer(x[:4])[1].detach()
    compiled = torch.compile(layer.step, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x[4], state)[0], layer(x)[0][4])


@MEMORIES
def test_gates_start_as_documented(memory: str) -> None:
    layer = MemoryAttention(8, memory, num_heads=4, bias=False)
    assert layer.pop.bias.eq(-1).all()
    assert layer.push.bias.eq(0).all()
    assert layer.value.bias is None
    assert layer.out.bias is None
    ends = 2 if memory == "deque" else 1
    gates = 2 * ends * 4 * (8 + 1)
    assert sum(p.numel() for p in layer.parameters()) == gates + 2 * ends * 8 * 8


def test_copies_files_and_no_grad_give_the_same() -> None:
    layer, x = layer_for("deque"), sequence()
    loaded = layer_for("deque")
    loaded.load_state_dict(layer.state_dict())
    wanted, _ = layer(x)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded):
        torch.testing.assert_close(twin(x)[0], wanted)
    with torch.no_grad():
        torch.testing.assert_close(layer(x)[0], wanted)


def test_under_autocast_the_memory_keeps_the_precision_of_the_parameters() -> None:
    layer, x = MemoryAttention(E, "stack", HEADS), torch.randn(T, B, E)
    wanted, _ = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, state = layer(nn.functional.linear(x, torch.eye(E)))
    assert output.dtype == torch.bfloat16
    assert state.memory.dtype == torch.float32
    torch.testing.assert_close(output.float(), wanted, rtol=0.05, atol=0.05)


def test_half_precision_parameters_train() -> None:
    layer = MemoryAttention(E, "queue", HEADS).bfloat16()
    output, _ = layer(torch.randn(T, B, E, dtype=torch.bfloat16))
    output.float().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@MEMORIES
@pytest.mark.parametrize(("steps", "batch"), [(0, 2), (1, 1), (3, 0), (0, 0)])
def test_the_smallest_sizes_work(memory: str, steps: int, batch: int) -> None:
    layer = MemoryAttention(1, memory)
    output, state = layer(torch.randn(steps, batch, 1))
    assert output.shape == (steps, batch, 1)
    assert layer.step(torch.randn(batch, 1), state)[0].shape == (batch, 1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": torch.rand(T, B, 4)}, r"be \[T, B, E\] or \[T, E\] with E = 6; got \[9, 3, 4\]"),
        ({"x": torch.rand(E)}, r"be \[T, B, E\] or \[T, E\] with E = 6; got \[6\]"),
        ({"x": None}, "the input must be a tensor; got NoneType"),
        ({"x": torch.rand(T, B, E).double()}, "parameters, torch.float32; got torch.float64"),
        ({"x": torch.rand(T, B, E, device="meta")}, "device of the parameters, cpu; got meta"),
        ({"state": heads(5)}, "state has 5 rows, the input has a batch of"),
        ({"state": heads(3)._replace(heads=3)}, "state has 3 heads, this layer has 2"),
        ({"state": torch.rand(3)}, "state must be a HeadsState or None; got Tensor"),
        ({"key_padding_mask": torch.zeros(B, T)}, "bool tensor, True at padding; got torch.float"),
        ({"key_padding_mask": [True]}, "a bool tensor, True at padding; got list"),
        ({"key_padding_mask": torch.ones(T, B) > 0}, r"\[B, T\] = \[3, 9\]; got \[9, 3\]"),
        ({"key_padding_mask": torch.ones(B, T, device="meta") > 0}, "device, cpu; got meta"),
    ],
)  # fmt: skip
def test_errors_say_what_was_given_and_what_was_wanted(
    changed: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        MemoryAttention(E, "stack", HEADS)(**{"x": torch.rand(T, B, E), **changed})


def test_the_constructor_and_step_name_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="divisible by num_heads; got 6 and 4"):
        MemoryAttention(6, "stack", 4)
    with pytest.raises(ValueError, match=r"one of stack, queue, deque, .*; got 'heap'"):
        MemoryAttention(6, "heap")
    with pytest.raises(ValueError, match="num_heads must be at least 1; got 0"):
        MemoryAttention(6, "stack", 0)
    with pytest.raises(ValueError, match=r"backend must be one of .*; got 'gpu'"):
        MemoryAttention(6, backend="gpu")
    with pytest.raises(ValueError, match=r"\[B, E\] or \[E\] with E = 6; got \[9, 3, 6\]"):
        MemoryAttention(6).step(torch.rand(9, 3, 6))
