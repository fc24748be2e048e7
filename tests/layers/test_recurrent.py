"""MemoryRNN: nn.LSTM's contract, the paper's equations, and fused against generic."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

import pushpop
from pushpop import MemoryRNN, MemoryState, RNNState

IN, H, D, OUT = 5, 6, 4, 3
MEMORY = pytest.mark.parametrize("memory", ["stack", "queue", "deque"])
CELL = pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
BACKEND = pytest.mark.parametrize("backend", ["fused", "generic"])


def layer(memory: str = "deque", cell: str = "lstm", **options: object) -> MemoryRNN:
    made = MemoryRNN(IN, H, memory, D, cell, output_size=OUT, **options)  # type: ignore[arg-type]
    return made.double()


def some_state(rnn: MemoryRNN, batch: int) -> RNNState:
    """A state in mid-sequence, of leaves that require gradients."""
    with torch.no_grad():
        _, state = rnn(torch.randn(4, batch, IN, dtype=rnn.h0.dtype))
    parts = tuple(part.clone().requires_grad_() for part in state.parts)
    cells = (state.memory.values.clone(), state.memory.strengths.clone())
    return RNNState(
        (parts[0], parts[1]) if len(parts) == 2 else parts[0],
        state.read.clone().requires_grad_(),
        MemoryState(*(x.requires_grad_() for x in cells)),
    )


def leaves_of(state: RNNState | None) -> list[Tensor]:
    if state is None:
        return []
    return [*state.parts, state.read, state.memory.values, state.memory.strengths]


def look_at_everything(output: Tensor, state: RNNState) -> Tensor:
    weights = torch.cos(torch.arange(output.numel(), dtype=output.dtype)).reshape(output.shape)
    s, V = state.memory.strengths, state.memory.values
    cells = s * (torch.sin(V.sum(-1)) + s.cumsum(1))
    parts = sum((part**2).sum() for part in state.parts)
    return (weights * output).sum() + parts + (state.read**3).sum() + cells.sum()


def everything(
    rnn: MemoryRNN, backend: str, x: Tensor, state: RNNState | None, lengths: list[int] | None
) -> list[Tensor]:
    rnn.backend = backend
    output, after = rnn(x, state, lengths)
    leaves = [x, *rnn.parameters(), *leaves_of(state)]
    gradients = torch.autograd.grad(look_at_everything(output, after), leaves, allow_unused=True)
    given = [
        torch.zeros_like(x) if g is None else g for g, x in zip(gradients, leaves, strict=True)
    ]
    return [x.detach() for x in (output, *after.parts, after.read, *given)]


@MEMORY
@CELL
@pytest.mark.parametrize("first", [False, True], ids=["fresh", "with state"])
@pytest.mark.parametrize("lengths", [None, [7, 3, 12, 1]], ids=["full", "ragged"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["f64", "f32"])
def test_fused_equals_generic(
    memory: str, cell: str, first: bool, lengths: list[int] | None, dtype: torch.dtype
) -> None:
    rnn = layer(memory, cell).to(dtype)
    x = torch.randn(12, 4, IN, dtype=dtype, requires_grad=True)
    state = some_state(rnn, 4) if first else None
    found = everything(rnn, "fused", x, state, lengths)
    wanted = everything(rnn, "generic", x, state, lengths)
    limit = 1e-9 if dtype == torch.float64 else 1e-4
    for a, b in zip(found, wanted, strict=True):
        assert float((a - b).abs().max() / b.abs().max().clamp(min=1)) < limit


@MEMORY
@pytest.mark.parametrize("lengths", [None, [7, 3, 12, 1]], ids=["full", "ragged"])
def test_noise_on_the_gates_is_the_same_fused_and_generic(
    memory: str, lengths: list[int] | None
) -> None:
    rnn = layer(memory, gate_noise=1.5)
    x = torch.randn(12, 4, IN, dtype=torch.float64, requires_grad=True)
    found = []
    for backend in ("fused", "generic"):
        torch.manual_seed(3)
        found.append(everything(rnn, backend, x, None, lengths))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@BACKEND
def test_noise_on_the_gates_is_for_training_only(backend: str) -> None:
    rnn = layer(gate_noise=1.5, backend=backend)
    x = torch.randn(6, 2, IN, dtype=torch.float64)
    assert not torch.equal(rnn(x)[0], rnn(x)[0])
    noisy = rnn.eval()
    quiet = copy.deepcopy(noisy)
    quiet.gate_noise = 0.0
    assert torch.equal(noisy(x)[0], quiet.train()(x)[0])


@MEMORY
def test_fused_equals_generic_over_a_long_sequence(memory: str) -> None:
    rnn = layer(memory)
    x = torch.randn(200, 2, IN, dtype=torch.float64, requires_grad=True)
    for a, b in zip(
        everything(rnn, "fused", x, None, None),
        everything(rnn, "generic", x, None, None),
        strict=True,
    ):
        assert float((a - b).abs().max() / b.abs().max().clamp(min=1)) < 1e-9


@MEMORY
@BACKEND
def test_one_step_is_the_papers_equations(memory: str, backend: str) -> None:
    """Controller over (input, reads), gates, value and output, written out."""
    rnn = layer(memory, backend=backend)
    x = torch.randn(2, 3, IN, dtype=torch.float64)
    output, _ = rnn(x)
    cell = rnn.cell
    ends = rnn.ends
    h, c = rnn.h0.expand(3, H), rnn.c0.expand(3, H)
    read, cells = torch.zeros(3, ends * D, dtype=torch.float64), None
    for t in range(2):
        z = torch.cat([x[t], read], 1) @ cell.weight_ih.T + h @ cell.weight_hh.T + cell.bias
        i, f, g, o = z.split(H, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        torch.testing.assert_close(output[t], torch.tanh(h @ rnn.output.weight.T + rnn.output.bias))
        gates = torch.sigmoid(h @ rnn.gates.weight.T + rnn.gates.bias)
        value = torch.tanh(h @ rnn.value.weight.T + rnn.value.bias)
        push, pop = gates[:, :ends], gates[:, ends:]
        if ends == 2:
            got, cells = rnn.memory.step(value.reshape(3, 2, D), push, pop, cells)
            read = got.flatten(1)
        else:
            read, cells = rnn.memory.step(value, push[:, 0], pop[:, 0], cells)


@MEMORY
@CELL
def test_steps_equal_the_sequence(memory: str, cell: str) -> None:
    rnn = layer(memory, cell)
    x = torch.randn(9, 2, IN, dtype=torch.float64)
    with torch.no_grad():
        whole, after = rnn(x)
        state = None
        for t in range(9):
            output, state = rnn.step(x[t], state)
            torch.testing.assert_close(output, whole[t])
    assert state is not None
    assert state.memory.equal(after.memory, atol=1e-12)


@MEMORY
@BACKEND
def test_chunks_equal_the_whole_gradients_included(memory: str, backend: str) -> None:
    rnn = layer(memory, backend=backend)
    x = torch.randn(11, 2, IN, dtype=torch.float64, requires_grad=True)
    leaves = [x, *rnn.parameters()]
    whole, after = rnn(x)
    wanted = torch.autograd.grad(look_at_everything(whole, after), leaves)
    first, state = rnn(x[:4])
    second, state = rnn(x[4:], state)
    pieces = torch.cat([first, second])
    found = torch.autograd.grad(look_at_everything(pieces, state), leaves)
    torch.testing.assert_close(pieces, whole)
    torch.testing.assert_close(found, wanted)


@MEMORY
@BACKEND
def test_padding_changes_no_result_and_no_gradient(memory: str, backend: str) -> None:
    rnn = layer(memory, backend=backend)
    lengths = [5, 2, 8]
    x = torch.randn(8, 3, IN, dtype=torch.float64)
    other = x.clone()
    for row, length in enumerate(lengths):
        other[length:, row] = 1e3
    results = [
        everything(rnn, backend, given.requires_grad_(), None, lengths) for given in (x, other)
    ]
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)
    output = results[0][0]
    for row, length in enumerate(lengths):
        alone, state = rnn(x[:length, row : row + 1])
        torch.testing.assert_close(output[:length, row : row + 1], alone)
        assert (output[length:, row] == 0).all()
        torch.testing.assert_close(results[0][1][row : row + 1], state.parts[0])


def test_packed_sequences_go_in_and_come_out() -> None:
    rnn = layer()
    x = torch.randn(8, 3, IN, dtype=torch.float64)
    lengths = torch.tensor([5, 2, 8])
    wanted, state = rnn(x, lengths=lengths)
    packed, packed_state = rnn(pack_padded_sequence(x, lengths, enforce_sorted=False))
    assert isinstance(packed, PackedSequence)
    output, given = pad_packed_sequence(packed)
    torch.testing.assert_close(output, wanted)
    assert given.tolist() == lengths.tolist()
    torch.testing.assert_close(packed_state.read, state.read)


def test_batch_first_and_unbatched_inputs() -> None:
    rnn = layer()
    x = torch.randn(7, 3, IN, dtype=torch.float64)
    wanted, _ = rnn(x)
    rnn.batch_first = True
    torch.testing.assert_close(rnn(x.transpose(0, 1))[0], wanted.transpose(0, 1))
    torch.testing.assert_close(rnn(x[:, 1])[0], wanted[:, 1])


def test_parameter_counts_are_the_papers() -> None:
    """The core as the paper counts it, and the learned initial states on top."""
    wanted = {
        ("stack", 256): 673_602,
        ("stack", 512): 1_871_170,
        ("queue", 256): 673_602,
        ("queue", 512): 1_871_170,
        ("deque", 256): 1_002_052,
        ("deque", 512): 2_527_812,
    }
    for (memory, hidden), count in wanted.items():
        rnn = MemoryRNN(64, hidden, memory, 256, output_size=64)
        assert sum(p.numel() for p in rnn.parameters()) == count + 2 * hidden


def test_biases_start_where_they_are_told() -> None:
    assert MemoryRNN(IN, H, "stack").gates.bias[1] == -1
    rnn = MemoryRNN(IN, H, "deque", push_bias=(1.0, -3.0), pop_bias=-2.0)
    assert rnn.gates.bias.tolist() == [1, -3, -2, -2]


def test_learned_initial_states_are_trained_and_saved() -> None:
    rnn = layer()
    rnn(torch.randn(3, 2, IN, dtype=torch.float64))[0].sum().backward()
    assert rnn.h0.grad is not None
    assert rnn.h0.grad.abs().sum() > 0
    assert {"h0", "c0"} <= set(rnn.state_dict())


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
@MEMORY
def test_any_module_with_a_cells_signature_is_a_controller(cell: type, memory: str) -> None:
    seen = IN + (2 if memory == "deque" else 1) * D
    rnn = MemoryRNN(IN, H, memory, D, cell=cell(seen, H))
    x = torch.randn(6, 2, IN)
    output, state = rnn(x)
    assert output.shape == (6, 2, H)
    torch.testing.assert_close(rnn.step(x[0])[0], output[0])
    assert len(state.parts) == (2 if cell is nn.LSTMCell else 1)


class OddCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(IN + D, H)

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        return torch.sin(self.mix(x)) + (0 if h is None else h)


def test_a_cell_of_ones_own_runs_the_generic_path() -> None:
    rnn = MemoryRNN(IN, H, "stack", D, cell=OddCell())
    output, _ = rnn(torch.randn(4, 2, IN))
    output.sum().backward()
    with pytest.raises(ValueError, match=r"fused' runs the cells lstm, gru and rnn .* got OddCell"):
        MemoryRNN(IN, H, "stack", D, cell=OddCell(), backend="fused")(torch.randn(4, 2, IN))
    with pytest.raises(ValueError, match="could not be called as cell"):
        MemoryRNN(IN, H, "deque", D, cell=OddCell())
    with pytest.raises(ValueError, match="hidden size 6, this layer 7"):
        MemoryRNN(IN, 7, "stack", D, cell=OddCell())


def test_copies_and_pickles_give_the_same_outputs() -> None:
    rnn = layer()
    x = torch.randn(5, 2, IN, dtype=torch.float64)
    wanted = rnn(x)[0]
    fresh = layer()
    fresh.load_state_dict(rnn.state_dict())
    for twin in (copy.deepcopy(rnn), pickle.loads(pickle.dumps(rnn)), fresh):
        torch.testing.assert_close(twin(x)[0], wanted)


def test_autocast_is_off_inside() -> None:
    rnn = MemoryRNN(IN, H, "stack", D)
    x = torch.randn(5, 2, IN)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = rnn(x.to(torch.bfloat16))
    assert output.dtype == torch.float32
    torch.testing.assert_close(output, rnn(x.to(torch.bfloat16).float())[0])


@BACKEND
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_compiles(backend: str) -> None:
    torch.compiler.reset()
    rnn = MemoryRNN(IN, H, "deque", D, backend=backend)
    x = torch.randn(4, 2, IN, requires_grad=True)
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=backend == "fused")
    output, _ = compiled(x)
    wanted, _ = rnn(x)
    torch.testing.assert_close(output, wanted)
    torch.testing.assert_close(
        torch.autograd.grad(output.sum(), x), torch.autograd.grad(wanted.sum(), x)
    )


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_the_recurrence_passes_opcheck() -> None:
    from pushpop.layers.fused import _arrange, recurrence

    rnn = MemoryRNN(IN, H, "deque", D)
    recurrent, by_x, bias = (x.detach().requires_grad_() for x in _arrange("lstm", rnn.cell, IN))
    state = some_state(rnn, 3)
    x = torch.randn(4, 3, IN, requires_grad=True)
    read = state.read.detach().flatten(1).requires_grad_()
    heads = (rnn.value.weight, rnn.value.bias, rnn.gates.weight, rnn.gates.bias)
    given = (x, by_x, bias, recurrent, *heads, *state.parts, read, *state.memory._cells())
    for noise in (None, torch.randn(4, 3, 4)):
        args = (2, "lstm", [3, 3, 2, 1], *given, noise)
        torch.library.opcheck(recurrence, args)


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (torch.randn(3, 2, 4), {}, r"x must be \[T, B, 5\]; got \[3, 2, 4\]"),
        (torch.randn(3, 2, IN).double(), {}, "x must be torch.float32 .*; got torch.float64"),
        (torch.randn(3, 2, IN), {"lengths": [3]}, r"lengths must be \[B\] = \[2\]; got \[1\]"),
        (torch.randn(3, 2, IN), {"lengths": [3, 4]}, r"must lie in 1..3, .*; got \[3, 4\]"),
        (torch.randn(3, 2, IN), {"lengths": [0, 3]}, r"got \[0, 3\]"),
    ],
)
def test_bad_input_is_named(x: Tensor, options: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryRNN(IN, H, "stack", D)(x, **options)


def test_bad_states_and_options_are_named() -> None:
    rnn = MemoryRNN(IN, H, "stack", D)
    x = torch.randn(3, 2, IN)
    with pytest.raises(ValueError, match=r"h of the state must be \[2, 6\]; got \[3, 6\]"):
        rnn(x, rnn.initial_state(3))
    with pytest.raises(ValueError, match=r"must be \(h, c\); got 1 tensors"):
        rnn(x, rnn.initial_state(2)._replace(controller=torch.zeros(2, H)))
    with pytest.raises(ValueError, match="stack, queue, deque; got 'heap'"):
        MemoryRNN(IN, H, "heap")
    with pytest.raises(ValueError, match="lstm, gru, rnn or a module; got 'lstn'"):
        MemoryRNN(IN, H, "stack", cell="lstn")
    with pytest.raises(ValueError, match="hidden_size must be at least 1; got 0"):
        MemoryRNN(IN, 0, "stack")


def test_a_state_of_another_shape_never_reaches_the_kernels() -> None:
    rnn = MemoryRNN(IN, H, "deque", D)
    x, state = torch.randn(3, 2, IN), rnn.initial_state(2)
    for rows in (1, 3):
        cells = MemoryState(torch.rand(rows, 5, D), torch.rand(rows, 5))
        with pytest.raises(ValueError, match=f"state has {rows} rows, the input has a batch of 2"):
            rnn(x, state._replace(memory=cells))
    with pytest.raises(ValueError, match="cells 7 wide, this memory is 4 wide"):
        rnn(x, state._replace(memory=MemoryState(torch.rand(2, 5, 7), torch.rand(2, 5))))
    with pytest.raises(ValueError, match=r"h of the state must be torch.float32"):
        rnn(x, state.to(torch.float64))
    with pytest.raises(TypeError, match="state must be an RNNState or None; got tuple"):
        rnn(x, (torch.zeros(2, H), torch.zeros(2, H)))


@CELL
@BACKEND
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nan_is_not_swallowed(cell: str, backend: str, dtype: torch.dtype) -> None:
    rnn = MemoryRNN(IN, H, "stack", D, cell, backend=backend).to(dtype)
    x = torch.randn(4, 2, IN, dtype=dtype)
    x[1, 0] = torch.nan
    output, _ = rnn(x)
    assert output[1:, 0].isnan().all()
    assert output[:, 1].isfinite().all()
    with torch.no_grad():
        rnn.cell.weight_hh[0, 0] = torch.nan
    assert rnn(torch.randn(4, 2, IN, dtype=dtype))[0][1:].isnan().any()


@BACKEND
def test_not_even_nan_in_padding_reaches_a_gradient(backend: str) -> None:
    rnn = layer("queue", backend=backend)
    x = torch.randn(5, 3, IN, dtype=torch.float64)
    x[3:, 0] = torch.nan
    output, _ = rnn(x, lengths=[3, 5, 5])
    output.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in rnn.parameters())


def test_a_packed_output_keeps_the_order_of_its_input() -> None:
    rnn = layer("stack")
    x = torch.randn(5, 20, IN, dtype=torch.float64)
    for lengths in ([5] * 20, [5, 3] * 10):
        packed = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
        output, state = rnn(packed)
        targets = pack_padded_sequence(
            rnn(x, lengths=lengths)[0], torch.tensor(lengths), enforce_sorted=False
        )
        torch.testing.assert_close(pad_packed_sequence(output)[0], pad_packed_sequence(targets)[0])
        assert output.batch_sizes.equal(packed.batch_sizes)
        assert output.sorted_indices.equal(packed.sorted_indices)
        torch.testing.assert_close(state.read, rnn(x, lengths=lengths)[1].read)
        again, _ = rnn(packed, state)
        wanted, _ = rnn(x, state, lengths)
        torch.testing.assert_close(pad_packed_sequence(again)[0], wanted)
    with pytest.raises(ValueError, match="PackedSequence, which has its own"):
        rnn(packed, lengths=[5] * 20)


def test_a_step_under_autocast_keeps_the_layers_precision() -> None:
    rnn = MemoryRNN(IN, H, "deque", D)
    x = torch.randn(2, IN)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, state = rnn.step(x)
        output, state = rnn.step(x.to(torch.bfloat16), state)
    assert output.dtype == state.read.dtype == torch.float32


@BACKEND
def test_gradient_checkpointing_gives_the_same_gradients(backend: str) -> None:
    rnn = layer(backend=backend)
    x = torch.randn(4, 2, IN, dtype=torch.float64, requires_grad=True)
    (wanted,) = torch.autograd.grad(rnn(x)[0].sum(), x)
    checkpointed = checkpoint(lambda x: rnn(x)[0], x, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(checkpointed.sum(), x)[0], wanted)


def test_parts_that_were_replaced_or_hooked_are_called() -> None:
    class Louder(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 100

    rnn = MemoryRNN(IN, H, "stack", D)
    x = torch.randn(4, 2, IN)
    calls: list[int] = []
    handle = rnn.value.register_forward_hook(lambda *_: calls.append(1))
    rnn(x)
    assert len(calls) == 4
    handle.remove()
    rnn.value = Louder(H, D)
    auto = rnn(x)[0]
    rnn.backend = "generic"
    assert torch.equal(auto, rnn(x)[0])


def test_compiles_as_one_graph_with_lengths() -> None:
    torch.compiler.reset()
    rnn = MemoryRNN(IN, H, "stack", D)
    x = torch.randn(5, 2, IN)
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, None, [5, 2])[0], rnn(x, None, [5, 2])[0])


def test_errors_speak_of_what_was_given() -> None:
    rnn = MemoryRNN(IN, H, "stack", D, batch_first=True)
    with pytest.raises(ValueError, match=r"x must be \[B, T, 5\]; got \[2, 7, 4\]"):
        rnn(torch.randn(2, 7, 4))
    with pytest.raises(ValueError, match=r"x must be \[T, 5\]; got \[7, 4\]"):
        rnn(torch.randn(7, 4))
    with pytest.raises(ValueError, match=r"takes 5 inputs; .* together are 9"):
        MemoryRNN(IN, H, "stack", D, cell=nn.LSTMCell(IN, H))
    with pytest.raises(ValueError, match="a stack has 1 push and pop biases"):
        MemoryRNN(IN, H, "stack", D, pop_bias=(1.0, 2.0))


@MEMORY
@torch.no_grad()
def test_streaming_keeps_only_live_cells(memory: str) -> None:
    rnn = MemoryRNN(IN, H, memory, D)
    rnn.gates.bias[:] = 2.0  # pops keep up with pushes
    state = None
    for _ in range(300):
        _, state = rnn.step(torch.randn(1, IN), state)
    assert state is not None
    assert state.memory.strengths.shape[1] < 40


@torch.no_grad()
def test_the_fast_tanh_and_sigmoid_are_accurate() -> None:
    from pushpop.layers.elementwise import sigmoid_row, tanh_row

    for dtype, limit in ((torch.float32, 3e-7), (torch.float64, 1e-15)):
        x = torch.linspace(-30, 30, 100_001, dtype=dtype)
        for row, exact in ((tanh_row, torch.tanh), (sigmoid_row, torch.sigmoid)):
            found = x.clone()
            row(found.numpy())
            assert float((found.double() - exact(x.double())).abs().max()) < limit


def test_empty_sequences_and_batches() -> None:
    rnn = MemoryRNN(IN, H, "queue", D)
    output, state = rnn(torch.randn(0, 2, IN))
    assert output.shape == (0, 2, H)
    assert torch.equal(state.parts[0], rnn.h0.expand(2, H))
    assert rnn(torch.randn(3, 0, IN))[0].shape == (3, 0, H)
    assert pushpop.MemoryRNN is MemoryRNN
