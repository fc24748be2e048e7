"""What nn.LSTM takes and gives, MemoryRNN takes and gives: layers, directions, memories, states."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from pushpop import DeepLSTM, MemoryRNN, MemoryState, RNNState, Tape
from pushpop.layers import LayeredState
from pushpop.layers.memory_layer import MemoryLayer

IN, H, D, OUT, T, B = 4, 5, 3, 6, 7, 3
MEMORY = pytest.mark.parametrize("memory", ["stack", "queue", "deque", "superposition", "tape"])
BACKEND = pytest.mark.parametrize("backend", ["auto", "reference"])


def layer(memory: str = "deque", **options: Any) -> MemoryRNN:
    torch.manual_seed(0)
    return MemoryRNN(IN, H, memory, D, output_size=OUT, dtype=torch.float64, **options)


def given(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def run_alone(part: MemoryLayer, x: Tensor) -> tuple[Tensor, RNNState]:
    """One layer in one direction, a step at a time."""
    state, outputs = part.first_state(x.shape[1]), []
    for x_t in x:
        h, state = part.step_layer(x_t, state)
        outputs.append(torch.tanh(part.output(h)))
    return torch.stack(outputs), state


@MEMORY
def test_a_layer_reads_the_outputs_of_the_layer_below(memory: str) -> None:
    rnn = layer(memory, num_layers=3)
    x = given(T, B, IN)
    output, state = rnn(x)
    assert isinstance(state, LayeredState)
    for part, after in zip(rnn.layers, state, strict=True):
        x, wanted = run_alone(part, x)
        torch.testing.assert_close(after.read, wanted.read)
        torch.testing.assert_close(after.parts, wanted.parts)
    torch.testing.assert_close(output, x)


@MEMORY
@pytest.mark.parametrize("lengths", [None, [7, 2, 5]], ids=["full", "ragged"])
def test_two_directions_are_side_by_side(memory: str, lengths: list[int] | None) -> None:
    rnn = layer(memory, num_layers=2, bidirectional=True)
    x = given(T, B, IN)
    output, state = rnn(x, lengths=lengths)
    assert output.shape == (T, B, 2 * OUT)
    for row, length in enumerate(lengths or [T] * B):
        below = x[:length, row : row + 1]
        for first in (0, 2):
            forward, _ = run_alone(rnn.layers[first], below)
            backward, after = run_alone(rnn.layers[first + 1], below.flip(0))
            below = torch.cat([forward, backward.flip(0)], dim=-1)
            torch.testing.assert_close(state[first + 1].read[row : row + 1], after.read)
        torch.testing.assert_close(output[:length, row : row + 1], below)
        assert not output[length:, row].any()


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_shapes_are_those_of_nn_lstm(bidirectional: bool, batch_first: bool) -> None:
    options: dict[str, Any] = {"bidirectional": bidirectional, "batch_first": batch_first}
    lstm = nn.LSTM(IN, OUT, 2, **options)
    rnn = MemoryRNN(IN, OUT, "stack", D, num_layers=2, **options)
    for x in (torch.randn(T, B, IN), torch.randn(T, IN)):
        wanted, (h, _) = lstm(x)
        output, state = rnn(x)
        assert output.shape == wanted.shape
        assert [s.parts[0].shape for s in state] == [part.shape for part in h]
        assert rnn(x, state)[0].shape == wanted.shape
    packed = pack_padded_sequence(
        torch.randn(T, B, IN), torch.tensor([7, 2, 5]), enforce_sorted=False
    )
    assert rnn(packed)[0].data.shape == lstm(packed)[0].data.shape


@MEMORY
@pytest.mark.parametrize("memories", [1, 2])
def test_an_unbatched_call_is_a_row_of_a_batched_one(memory: str, memories: int) -> None:
    rnn = layer(memory, num_layers=2, num_memories=memories)
    x = given(T, B, IN)
    whole, after = rnn(x)
    alone, state = rnn(x[:, 1])
    torch.testing.assert_close(alone, whole[:, 1])
    for one, many in zip(state, after, strict=True):
        assert one.parts[0].shape == (H,)
        torch.testing.assert_close(one.read, many.read[1])
    again, _ = rnn(x[:, 1], state)
    torch.testing.assert_close(again, rnn(x, after)[0][:, 1])
    state = None
    for t in range(T):
        output, state = rnn.step(x[t, 1], state)
        torch.testing.assert_close(output, alone[t])


@MEMORY
@BACKEND
def test_steps_of_layers_equal_the_sequence(memory: str, backend: str) -> None:
    rnn = layer(memory, num_layers=2, num_memories=2, backend=backend)
    x = given(T, B, IN)
    whole, after = rnn(x)
    state = None
    for t in range(T):
        output, state = rnn.step(x[t], state)
        torch.testing.assert_close(output, whole[t])
    for one, other in zip(state, after, strict=True):
        torch.testing.assert_close(one.read, other.read)


def test_a_bidirectional_layer_has_no_steps() -> None:
    with pytest.raises(ValueError, match="a bidirectional layer cannot be stepped"):
        layer(bidirectional=True).step(given(B, IN))


@MEMORY
@BACKEND
@pytest.mark.parametrize("lengths", [None, [7, 2, 5]], ids=["full", "ragged"])
def test_several_memories_are_memories_side_by_side(
    memory: str, backend: str, lengths: list[int] | None
) -> None:
    """Two memories are two single ones whose controller sees both reads: written out here."""
    M = 2
    rnn = layer(memory, num_memories=M, backend=backend)
    x = given(T, B, IN)
    output, after = rnn(x, lengths=lengths)
    held = rnn.memory
    state = rnn.initial_state(B)
    h, c = state.parts
    reads = given(B, M, held.reads, D) * 0
    memories: list[Any] = [None] * M
    for t in range(min(lengths or [T])):
        h, c = rnn.cell(torch.cat([x[t], reads.flatten(1)], dim=1), (h, c))
        torch.testing.assert_close(output[t], torch.tanh(rnn.output(h)))
        logits = rnn.gates(h).reshape(B, M, held.gates)
        values = torch.tanh(rnn.value(h)).reshape(B, M, held.values, D)
        for m in range(M):
            gates = held.squash(logits[:, m])
            read, memories[m] = held.run_step(values[:, m], gates, memories[m])
            reads = torch.cat([reads[:, :m], read[:, None], reads[:, m + 1 :]], dim=1)
    ends = (2,) if held.reads == 2 else ()
    assert after.read.shape == (B, M, *ends, D)
    assert after.memory.batch_size == B * M
    if lengths is None:
        torch.testing.assert_close(after.read.flatten(1), reads.flatten(1))
        swapped = after.rows([2, 0])
        torch.testing.assert_close(
            rnn.step(x[0], after)[0][[2, 0]], rnn.step(x[0, [2, 0]], swapped)[0]
        )


def test_biases_of_several_memories_can_differ() -> None:
    rnn = layer("stack", num_memories=2, push_bias=[1.0, -3.0], pop_bias=-2.0)
    assert rnn.gates.bias.tolist() == [1, -2, -3, -2]
    rnn = layer("deque", num_memories=2, push_bias=[(1.0, -8.0), (0.5, 0.25)], pop_bias=(-1, -2))
    assert rnn.gates.bias.tolist() == [1, -8, -1, -2, 0.5, 0.25, -1, -2]
    with pytest.raises(
        ValueError, match="push_bias of a stack must be one number, or a list of 3 numbers"
    ):
        layer("stack", num_memories=3, push_bias=[1.0, 2.0])


@BACKEND
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_without_biases_only_the_gates_have_some(cell: str, backend: str) -> None:
    rnn = layer("stack", cell=cell, num_layers=2, bias=False, backend=backend)
    names = {name for name, _ in rnn.named_parameters() if name.endswith("bias")}
    assert names == {"gates.bias", "further.0.gates.bias"}
    x = given(T, B, IN)
    output, _ = rnn(x)
    output.sum().backward()
    zeros = layer("stack", cell=cell, num_layers=2, backend=backend)
    found = zeros.load_state_dict(rnn.state_dict(), strict=False)
    with torch.no_grad():
        for name in found.missing_keys:
            zeros.get_parameter(name).zero_()
    torch.testing.assert_close(zeros(x)[0], output)


def test_dropout_is_between_layers_and_in_training() -> None:
    rnn = layer("stack", num_layers=2, dropout=0.5)
    x = given(T, B, IN)
    assert not torch.equal(rnn(x)[0], rnn(x)[0])
    rnn.eval()
    assert torch.equal(rnn(x)[0], rnn(x)[0])
    rnn.train()
    rnn.dropout = 1.0  # nothing reaches the second layer
    torch.testing.assert_close(rnn(x)[0], rnn.train()(-x)[0])
    with pytest.warns(UserWarning, match="num_layers is 1, so dropout=0.5 does nothing"):
        layer("stack", dropout=0.5)
    with pytest.raises(ValueError, match="dropout must be a probability"):
        layer("stack", num_layers=2, dropout=1.5)


def test_device_and_dtype_are_of_all_parameters() -> None:
    rnn = MemoryRNN(IN, H, "deque", D, num_layers=2, device="meta", dtype=torch.float16)
    assert all(p.is_meta and p.dtype == torch.float16 for p in rnn.parameters())


def test_reset_parameters_draws_everything_anew() -> None:
    rnn = layer("deque", num_layers=2, bidirectional=True)
    before = {name: p.clone() for name, p in rnn.named_parameters()}
    rnn.reset_parameters()
    for name, parameter in rnn.named_parameters():
        assert not torch.equal(parameter, before[name]), name
        assert parameter.abs().max() <= 1
    assert rnn.further[2].gates.bias[2:].tolist() == [-1, -1]


def test_states_go_in_and_out_of_packed_calls() -> None:
    rnn = layer("queue", num_layers=2, bidirectional=True, num_memories=2)
    x, lengths = given(T, B, IN), torch.tensor([5, 2, 7])
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    _, state = rnn(packed)
    wanted, after = rnn(x, state, lengths)
    found, packed_after = rnn(packed, state)
    torch.testing.assert_close(pad_packed_sequence(found)[0], wanted)
    for one, other in zip(packed_after, after, strict=True):
        torch.testing.assert_close(one.read, other.read)
        assert one.memory.equal(other.memory, atol=1e-12)


def test_a_state_of_other_layers_is_refused() -> None:
    rnn = layer("stack", num_layers=2)
    single = layer("stack")
    x = given(T, B, IN)
    with pytest.raises(TypeError, match="state must be a tuple of 2 RNNStates or None; got RNNS"):
        rnn(x, single(x)[1])
    with pytest.raises(TypeError, match="state must be an RNNState or None; got LayeredState of 2"):
        single(x, rnn(x)[1])
    with pytest.raises(ValueError, match=r"must be \[5\] as the input has no batch; got \[3, 5\]"):
        single(x[:, 0], single(x)[1])
    with pytest.raises(ValueError, match="lengths need a batch"):
        single(x[:, 0], lengths=[T])
    with pytest.raises(ValueError, match="a given cell serves one layer in one direction"):
        MemoryRNN(IN, H, "stack", D, nn.LSTMCell(IN + D, H), num_layers=2)


def test_state_dicts_of_one_layer_have_the_names_they_always_had() -> None:
    names = [*MemoryRNN(IN, H, "stack", D).state_dict()]
    assert names == [
        "h0", "c0", "cell.weight_ih", "cell.weight_hh", "cell.bias", "gates.weight", "gates.bias",
        "value.weight", "value.bias", "output.weight", "output.bias",
    ]  # fmt: skip


@MEMORY
def test_a_reference_layer_is_plain_torch(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel is loaded, no operator of ours is called."""
    from pushpop.layers.backends import BACKENDS as LAYER_BACKENDS
    from pushpop.memory.backends import BACKENDS
    from pushpop.memory.operators import Operator

    def refused(*_: object) -> None:
        raise AssertionError("a kernel was asked for")

    for backend in ("fused", "triton"):
        for method in ("run", "step", "run_cells", "stream_type"):
            monkeypatch.setattr(BACKENDS[backend], method, refused)
        monkeypatch.setattr(type(LAYER_BACKENDS[backend]), "run", refused)
    monkeypatch.setattr(Operator, "__call__", refused)
    rnn = layer(memory, num_layers=2, backend="reference")
    output, state = rnn(given(T, B, IN), lengths=[7, 2, 5])
    output.sum().backward()
    with torch.no_grad():
        rnn.step(given(B, IN), state)


@pytest.mark.parametrize("memories", [1, 3])
def test_a_slice_of_rows_and_a_list_of_them_are_the_same(memories: int) -> None:
    _, state = layer(num_memories=memories)(given(T, 5, IN))
    for rows in (slice(1, 4), slice(0, 5, 2), slice(-2, None), slice(3, 1)):
        one, other = state.rows(rows), state.rows(list(range(5))[rows])
        torch.testing.assert_close(one.read, other.read)
        assert one.memory.batch_size == len(range(5)[rows]) * memories
        assert one.memory.equal(other.memory)


def test_a_compacted_state_is_the_same_state() -> None:
    rnn, x = layer("stack", num_layers=2), given(T, B, IN)
    _, state = rnn(x)
    padded = LayeredState(
        each._replace(
            memory=MemoryState(
                torch.nn.functional.pad(each.memory.values, (0, 0, 1, 2)),
                torch.nn.functional.pad(each.memory.strengths, (1, 2)),
            )
        )
        for each in state
    )
    compact = padded.compact()
    assert compact[0].memory.strengths.shape == state[0].memory.strengths.shape
    torch.testing.assert_close(rnn(x, compact)[0], rnn(x, state)[0])


def test_a_state_without_a_batch_has_no_rows() -> None:
    for rnn in (layer("stack"), DeepLSTM(IN, H, dtype=torch.float64)):
        _, state = rnn(given(T, IN))
        with pytest.raises(ValueError, match="a call without a batch: it has no rows"):
            state.rows([0])


@MEMORY
@pytest.mark.parametrize("memories", [1, 2])
def test_rows_are_picked_by_a_list_not_by_a_number(memory: str, memories: int) -> None:
    _, state = layer(memory, num_memories=memories)(given(T, B, IN))
    with pytest.raises(TypeError, match=r"got 1, did you mean \[1\]"):
        state.rows(1)
    assert state.rows([1]).read.shape[0] == 1


def test_states_of_another_memory_are_refused() -> None:
    x = given(T, B, IN)
    states = {kind: layer(kind)(x)[1] for kind in ("stack", "superposition", "tape")}
    for kind, other in (("tape", "superposition"), ("superposition", "tape"), ("tape", "stack")):
        with pytest.raises(TypeError, match=f"state must be a {kind.title()}State or None; got"):
            layer(kind)(x, states[other])
    wide = states["tape"]._replace(memory=Tape(D).empty(B, dtype=torch.float32))
    message = r"state must have the dtype of the input, torch.float64; got .*32"
    with pytest.raises(TypeError, match=message):
        layer("tape")(x, wide)


def test_packed_calls_check_their_state_as_padded_ones_do() -> None:
    rnn = layer("stack")
    x = given(T, B, IN)
    packed = pack_padded_sequence(x, torch.tensor([5, 2, 7]), enforce_sorted=False)
    with pytest.raises(TypeError, match="state must be an RNNState or None; got tuple of 2"):
        rnn(packed, (x, x))
    with pytest.raises(ValueError, match=r"h of the state must be \[3, 5\]; got \[2, 5\]"):
        rnn(packed, rnn.initial_state(2))


def test_the_initial_state_of_layers_is_one_that_they_take() -> None:
    rnn = layer("deque", num_layers=2, bidirectional=True)
    x = given(T, B, IN)
    torch.testing.assert_close(rnn(x, rnn.initial_state(B))[0], rnn(x)[0])


def test_arrays_are_lengths_and_biases_too() -> None:
    rnn = layer("stack", num_memories=2, push_bias=np.array([1.0, 2.0]), pop_bias=torch.tensor(-2))
    assert rnn.gates.bias.tolist() == [1, -2, 2, -2]
    x = given(T, B, IN)
    torch.testing.assert_close(rnn(x, lengths=np.array([7, 2, 5]))[0], rnn(x, lengths=[7, 2, 5])[0])
    with pytest.raises(ValueError, match="bias is False with a given cell"):
        MemoryRNN(IN, H, "stack", D, nn.LSTMCell(IN + D, H), bias=False)


def test_push_biases_that_start_by_drift_are_drawn_around_the_pop_bias() -> None:
    torch.manual_seed(0)
    rnn = layer("deque", num_memories=500, push_bias="drift", pop_bias=(-1.0, 2.0))
    gates = rnn.gates.bias.detach().reshape(500, 4)
    assert torch.equal(gates[:, 2:], torch.tensor([-1.0, 2.0]).expand(500, 2))
    around = gates[:, :2] - gates[:, 2:]
    assert around.mean().abs() < 0.1
    assert (around.std() - 1).abs() < 0.1
    with pytest.raises(ValueError, match="push_bias of a deque must be a number or 'drift'; got"):
        layer("deque", push_bias="drfit")
    with pytest.raises(ValueError, match="memory 'tape' has no push_bias"):
        layer("tape", push_bias="drift")
