"""MemoryRNN by Triton kernels in Triton's interpreter, on CPU tensors, through the library's calls.

`test_recurrent_triton.py` runs this file in a process of its own: Triton decides when it is
imported whether it interprets.
"""

import dataclasses
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from triton.runtime import interpreter

from pushpop import MemoryRNN, NeuralQueue, NeuralStack
from pushpop.layers import NoiseLevels
from pushpop.layers.inputs import Noise
from pushpop.memory import state as state_module
from pushpop.memory.backends.triton import stream

from .recurrent_layers import CELL, IN, MEMORY, D, H, as_leaves, everything, layer, some_state

T, B = 4, 3
LENGTHS = [3, 4, 1]
DIAGONAL = pytest.mark.parametrize(
    ("memory", "cell"), [("stack", "lstm"), ("queue", "gru"), ("deque", "rnn")]
)
# The interpreter's checks for overflow take half of its time.
interpreter.interpreter_builder.options = dataclasses.replace(
    interpreter.interpreter_builder.options, sanitize_overflow=False
)


@pytest.fixture(autouse=True)
def _same_numbers() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


def sequence(dtype: torch.dtype = torch.float64, steps: int = T) -> Tensor:
    return torch.randn(steps, B, IN, dtype=dtype, requires_grad=True)


def worst(found: list[Tensor], wanted: list[Tensor]) -> float:
    pairs = zip(found, wanted, strict=True)
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1)) for a, b in pairs)


def like(rnn: MemoryRNN, **options: object) -> MemoryRNN:
    """A layer with the same weights."""
    made = layer(rnn.memory.kind, **options)
    made.load_state_dict(rnn.state_dict())
    return made


@MEMORY
@CELL
def test_they_equal_the_equations(memory: str, cell: str) -> None:
    """From a state in mid-sequence, rows of different lengths, noise; every gradient."""
    rnn, x = layer(memory, cell), sequence()
    state, noise = some_state(rnn, B), NoiseLevels(1.0, 0.0 if cell == "rnn" else 0.7)
    both = []
    for backend in ("triton", "reference"):
        torch.manual_seed(3)
        both.append(everything(rnn, backend, x, state, LENGTHS, noise))
    assert worst(*both) < 1e-10


@DIAGONAL
def test_they_equal_the_equations_in_float32(memory: str, cell: str) -> None:
    rnn, x = layer(memory, cell).float(), sequence(torch.float32)
    state = some_state(rnn, B)
    found = everything(rnn, "triton", x, state, None)
    assert worst(found, everything(rnn, "reference", x, state, None)) < 1e-5


@MEMORY
def test_several_memories_under_one_controller(memory: str) -> None:
    rnn, x = layer(memory, num_memories=2), sequence()
    found = everything(rnn, "triton", x, None, LENGTHS)
    assert worst(found, everything(rnn, "reference", x, None, LENGTHS)) < 1e-10


def test_layers_and_directions_and_pieces_of_a_sequence() -> None:
    options = {"num_layers": 2, "bidirectional": True}
    one = layer("queue", backend="triton", **options)
    other = like(one, backend="reference", **options)
    x = sequence()
    results = []
    for rnn in (one, other):
        first, state = rnn(x[:2], lengths=[2, 2, 1])
        second, _ = rnn(x[2:], state)
        loss = (first**2).sum() + torch.sin(second).sum()
        gradients = torch.autograd.grad(loss, [x, *rnn.parameters()])
        results.append([first.detach(), second.detach(), *gradients])
    assert worst(*results) < 1e-10


def test_more_columns_than_a_block_and_no_biases() -> None:
    rnn = MemoryRNN(IN, 300, "stack", 70, "gru", bias=False, dtype=torch.float64)
    x = sequence(steps=2)
    found = everything(rnn, "triton", x, None, None)
    assert worst(found, everything(rnn, "reference", x, None, None)) < 1e-10


@MEMORY
@torch.no_grad()
def test_steps_equal_those_on_the_cpu_and_old_states_stay_valid(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "FEWEST_STEPS", 3)  # so that it grows
    rnn, x = layer(memory, backend="triton"), torch.randn(9, 2, IN, dtype=torch.float64)
    fused = like(rnn, backend="fused")
    outputs, states = [], []
    for one in (rnn, fused):
        state, held, out = None, [], []
        for x_t in x:
            y, state = one.step(x_t, state)
            out.append(y)
            held.append(state)
        out += [one.step(x[0], held[k])[0] for k in (2, 6, 4, 4)]
        outputs.append(out)
        states.append([held[k].memory for k in (0, 1, 4, 8)])
    assert worst(*outputs) < 1e-10
    assert all(a.equal(b, atol=1e-12) for a, b in zip(*states, strict=True))


@torch.no_grad()
def test_many_steps_need_no_more_room_than_the_cells_that_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "FEWEST_STEPS", 4)
    monkeypatch.setattr(state_module, "would_sync", lambda x: True)  # as on a GPU
    queue, one, state = NeuralQueue(1, "triton"), torch.ones(1, dtype=torch.float64), None
    for t in range(40):  # three cells live
        read, state = queue.step(one[None] * t, one, one if t > 2 else 0 * one, state)
        assert float(read) == max(0, t - 2)
    assert len(state._store.walk.values) <= 10


@torch.no_grad()
def test_steps_in_half_precision_keep_strengths_in_float32() -> None:
    values, gates = torch.randn(4, 2, 3).bfloat16(), torch.rand(4, 2, 2)
    stack, exact, state, wanted = NeuralStack(3, "triton"), NeuralStack(3), None, None
    for value, gate in zip(values, gates, strict=True):
        read, state = stack.step(value, *gate.unbind(), state)
        exact_read, wanted = exact.step(value.float(), *gate.unbind(), wanted)
        torch.testing.assert_close(read, exact_read.bfloat16())
    assert (state.values.dtype, state.strengths.dtype) == (torch.bfloat16, torch.float32)
    assert state.to(torch.float32).equal(wanted, atol=1e-6)


@torch.no_grad()
def test_a_step_goes_on_from_a_sequence_and_a_sequence_from_a_step() -> None:
    rnn, x = layer("deque", backend="triton"), torch.randn(6, 2, IN, dtype=torch.float64)
    whole, wanted = rnn(x)
    _, state = rnn(x[:2])
    for x_t in x[2:4]:
        y, state = rnn.step(x_t, state.rows([1, 0]).rows([1, 0]))
    torch.testing.assert_close(y, whole[3])
    rest, state = rnn(x[4:], state)
    torch.testing.assert_close(rest, whole[4:])
    assert state.memory.equal(wanted.memory, atol=1e-12)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_the_operator_passes_opcheck() -> None:
    from pushpop.layers.backends import recurrence_input, recurrence_triton

    rnn, x = MemoryRNN(IN, H, "deque", D), torch.randn(2, 2, IN, requires_grad=True)
    noise = Noise(torch.randn(2, 2, 4), torch.randn(2, 2, 2 * H))
    given = recurrence_input(rnn, x, some_state(rnn, 2), [2, 1], noise, keep=True)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor",
              "test_aot_dispatch_static")  # fmt: skip
    torch.library.opcheck(recurrence_triton.operator, as_leaves(given), test_utils=checks)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_compiles_as_one_graph_with_lengths() -> None:
    rnn, x = layer("stack", backend="triton"), sequence(steps=3)
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    output, wanted = compiled(x, None, [3, 1, 2])[0], rnn(x, None, [3, 1, 2])[0]
    torch.testing.assert_close(output, wanted)
    gradients = [torch.autograd.grad(y.sum(), [x, *rnn.parameters()]) for y in (output, wanted)]
    torch.testing.assert_close(*gradients)


@CELL
def test_nan_is_not_swallowed(cell: str) -> None:
    rnn = layer("stack", cell, backend="triton")
    x = sequence().detach()
    x[1, 0] = torch.nan
    output, _ = rnn(x)
    assert output[1:, 0].isnan().all()
    assert output[:, 1:].isfinite().all()


def test_not_even_nan_in_padding_reaches_a_gradient() -> None:
    rnn, x = layer("queue", backend="triton"), sequence().detach()
    x[2:, 0] = torch.nan
    output, _ = rnn(x, lengths=[2, 4, 3])
    output.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in rnn.parameters())


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own formulas
def test_kernels_give_way_to_hooks_and_transforms() -> None:
    rnn, x = layer("stack", backend="triton"), sequence(steps=2).detach()
    wanted = rnn(x)[0]
    calls: list[int] = []
    with rnn.value.register_forward_hook(lambda *_: calls.append(1)):
        torch.testing.assert_close(rnn(x)[0], wanted)
    assert len(calls) == 2
    tangent = torch.func.jvp(lambda x: rnn(x)[0], (x,), (torch.ones_like(x),))[1]
    rnn.backend = rnn.memory.backend = "reference"
    wanted_tangent = torch.func.jvp(lambda x: rnn(x)[0], (x,), (torch.ones_like(x),))[1]
    torch.testing.assert_close(tangent, wanted_tangent)


def test_a_second_derivative_is_refused_by_the_backend_s_name() -> None:
    rnn, x = layer("stack", backend="triton"), sequence(steps=2)
    (first,) = torch.autograd.grad((rnn(x)[0] ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="'triton' has no second derivative; use backend"):
        torch.autograd.grad(first.sum(), x)


def test_what_has_no_kernels_is_refused_or_run_in_plain_torch() -> None:
    x = torch.randn(2, 2, IN)
    with pytest.raises(ValueError, match=r"'triton' runs the cells lstm, .* got the cell LSTMCell"):
        MemoryRNN(IN, H, "stack", D, torch.nn.LSTMCell(IN + D, H), backend="triton")(x)
    rnn = MemoryRNN(IN, H, NeuralStack(D, "triton"), D, torch.nn.LSTMCell(IN + D, H))
    output, _ = rnn(x)  # the layer step by step, the memory by its kernels
    output.sum().backward()
    rnn.memory.backend = "reference"
    torch.testing.assert_close(output, rnn(x)[0])
