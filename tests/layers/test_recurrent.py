"""MemoryRNN: nn.LSTM's contract and the paper's equations."""

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import pushpop
from pushpop import MemoryRNN
from pushpop.layers import NoiseLevels
from tests.layers.recurrent_layers import (
    BACKEND,
    CELL,
    IN,
    MEMORY,
    D,
    H,
    everything,
    layer,
    look_at_everything,
)


@BACKEND
@pytest.mark.parametrize("noise", [NoiseLevels(memory=1.5), NoiseLevels(controller=1.5)])
def test_noise_on_the_gates_is_for_the_call_that_asks_for_it(
    noise: NoiseLevels, backend: str
) -> None:
    rnn = layer(backend=backend)
    x = torch.randn(6, 2, IN, dtype=torch.float64)
    assert not torch.equal(rnn(x, noise=noise)[0], rnn(x, noise=noise)[0])
    assert torch.equal(rnn(x)[0], rnn(x, noise=NoiseLevels())[0])


@BACKEND
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_noise_on_the_controller_is_a_bias_of_its_two_first_gates(cell: str, backend: str) -> None:
    """One step, so that the noise of the step is all that there is."""
    rnn = layer(cell=cell, backend=backend)
    x = torch.randn(1, 1, IN, dtype=torch.float64)
    torch.manual_seed(5)
    noisy = rnn(x, noise=NoiseLevels(controller=0.8))[0]
    torch.manual_seed(5)
    noise = 0.8 * torch.randn(1, 1, 2 * H)
    with torch.no_grad():
        rnn.cell.bias[: 2 * H] += noise[0, 0].double()
    torch.testing.assert_close(noisy, rnn(x)[0])


def test_noise_on_a_controller_without_known_gates_is_refused() -> None:
    for cell in ("rnn", torch.nn.LSTMCell(IN + D, H)):
        rnn = MemoryRNN(IN, H, "stack", D, cell)
        with pytest.raises(ValueError, match="noise on the controller is for the cells lstm and"):
            rnn(torch.randn(2, 1, IN), noise=NoiseLevels(controller=1.0))
        rnn(torch.randn(2, 1, IN))


@MEMORY
@BACKEND
def test_one_step_is_the_papers_equations(memory: str, backend: str) -> None:
    """Controller over (input, reads), gates, value and output, written out."""
    rnn = layer(memory, backend=backend)
    x = torch.randn(2, 3, IN, dtype=torch.float64)
    output, _ = rnn(x)
    cell = rnn.cell
    ends = rnn.memory.ends
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


def test_empty_sequences_and_batches() -> None:
    rnn = MemoryRNN(IN, H, "queue", D)
    output, state = rnn(torch.randn(0, 2, IN))
    assert output.shape == (0, 2, H)
    assert torch.equal(state.parts[0], rnn.h0.expand(2, H))
    assert rnn(torch.randn(3, 0, IN))[0].shape == (3, 0, H)
    assert pushpop.MemoryRNN is MemoryRNN
