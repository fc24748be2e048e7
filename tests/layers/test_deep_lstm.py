"""The paper's benchmark: its size, its equations, and the contract of nn.LSTM."""

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from pushpop import DeepLSTM
from pushpop.layers.backends import recurrence
from pushpop.layers.deep_lstm import without_memory
from pushpop.memory.backends import BACKENDS

T, B, W, H, L = 7, 4, 3, 5, 3  # steps, batch, input width, hidden width, layers
LENGTHS = [4, 7, 1, 4]
State = tuple[Tensor, Tensor]


@pytest.fixture
def lstm() -> DeepLSTM:
    return DeepLSTM(W, H, L).double()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(T, B, W, dtype=torch.float64, requires_grad=True)


def random_state(batch: int = B) -> State:
    h, c = torch.randn(2, L, batch, H, dtype=torch.float64)
    return h.requires_grad_(), c.requires_grad_()


def by_hand(lstm: DeepLSTM, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
    """The equations, a step and a layer at a time."""
    first = state or (lstm.h0[:, None].expand(-1, B, -1), lstm.c0[:, None].expand(-1, B, -1))
    h, c = (list(part) for part in first)
    outputs = []
    for x_t in x:
        for k in range(lstm.num_layers):
            given = x_t if k == 0 else torch.cat([x_t, h[k - 1]], dim=1)
            gates = (
                given @ getattr(lstm, f"weight_ih_l{k}").T
                + h[k] @ getattr(lstm, f"weight_hh_l{k}").T
                + getattr(lstm, f"bias_l{k}")
            )
            i, f, g, o = gates.chunk(4, dim=1)
            c[k] = torch.sigmoid(f) * c[k] + torch.sigmoid(i) * torch.tanh(g)
            h[k] = torch.sigmoid(o) * torch.tanh(c[k])
        outputs.append(h[-1])
    return torch.stack(outputs), (torch.stack(h), torch.stack(c))


def look_at_everything(output: Tensor, state: State) -> Tensor:
    parts = (output, *state)
    return sum((x * torch.sin(torch.arange(x.numel()).view(x.shape))).sum() for x in parts)


def gradients(lstm: DeepLSTM, loss: Tensor, *leaves: Tensor) -> dict[str, Tensor]:
    named = {**dict(lstm.named_parameters()), **{f"leaf {i}": x for i, x in enumerate(leaves)}}
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {name: g for name, g in zip(named, found, strict=True) if g is not None}


@pytest.mark.parametrize(
    ("hidden", "layers", "core"),
    [
        (256, 1, 328_704),
        (256, 2, 919_552),
        (256, 4, 2_101_248),
        (256, 8, 4_464_640),
        (512, 1, 1_181_696),
        (512, 2, 3_411_968),
        (512, 4, 7_872_512),
        (512, 8, 16_793_600),
    ],
)
def test_the_size_is_the_papers_and_the_learned_initial_states(
    hidden: int, layers: int, core: int
) -> None:
    with torch.device("meta"):
        lstm = DeepLSTM(64, hidden, layers)
    assert sum(p.numel() for p in lstm.parameters()) == core + 2 * layers * hidden


def test_parameters_start_uniform_within_one_over_the_root_of_the_width() -> None:
    lstm = DeepLSTM(64, 100, 2)
    for name, parameter in lstm.named_parameters():
        assert 0.08 < parameter.abs().max() <= 0.1, name


@pytest.mark.parametrize("given_state", [False, True])
def test_it_equals_the_equations(lstm: DeepLSTM, x: Tensor, given_state: bool) -> None:
    state = random_state() if given_state else None
    found, wanted = lstm(x, state), by_hand(lstm, x, state)
    torch.testing.assert_close(found, wanted)
    leaves = (x, *(state or ()))
    found_gradients = gradients(lstm, look_at_everything(*found), *leaves)
    wanted_gradients = gradients(lstm, look_at_everything(*wanted), *leaves)
    assert found_gradients.keys() == wanted_gradients.keys()
    torch.testing.assert_close(found_gradients, wanted_gradients)
    assert ("h0" in found_gradients) is not given_state


def test_float32_is_near_the_equations_in_float64(lstm: DeepLSTM, x: Tensor) -> None:
    single = copy.deepcopy(lstm).float()
    wanted, _ = by_hand(lstm, x)
    torch.testing.assert_close(single(x.float())[0].double(), wanted, rtol=1e-5, atol=1e-6)


def test_one_layer_is_an_lstm(x: Tensor) -> None:
    lstm, plain = DeepLSTM(W, H, 1).double(), nn.LSTM(W, H).double()
    with torch.no_grad():
        plain.weight_ih_l0.copy_(lstm.weight_ih_l0)
        plain.weight_hh_l0.copy_(lstm.weight_hh_l0)
        plain.bias_ih_l0.copy_(lstm.bias_l0)
        plain.bias_hh_l0.zero_()
    first = (lstm.h0[:, None].repeat(1, B, 1), lstm.c0[:, None].repeat(1, B, 1))
    torch.testing.assert_close(lstm(x), plain(x, first))


@pytest.mark.parametrize("given_state", [False, True])
def test_padding_changes_no_result_and_no_gradient(
    lstm: DeepLSTM, x: Tensor, given_state: bool
) -> None:
    state = random_state() if given_state else None
    output, after = lstm(x, state, lengths=LENGTHS)
    rows = []
    for b, n in enumerate(LENGTHS):  # the oracle: each row by itself, without padding
        first = None if state is None else (state[0][:, b : b + 1], state[1][:, b : b + 1])
        rows.append(lstm(x[:n, b : b + 1], first))
        torch.testing.assert_close(output[:n, b], rows[b][0][:, 0])
        assert output[n:, b].eq(0).all()
    h, c = (torch.cat([row[1][i] for row in rows], dim=1) for i in range(2))
    torch.testing.assert_close(after, (h, c))

    padded = nn.utils.rnn.pad_sequence([row[0][:, 0] for row in rows])
    leaves = (x, *(state or ()))
    torch.testing.assert_close(
        gradients(lstm, look_at_everything(output, after), *leaves),
        gradients(lstm, look_at_everything(padded, (h, c)), *leaves),
    )


def test_what_the_padding_holds_does_not_matter(lstm: DeepLSTM, x: Tensor) -> None:
    spoilt = x.detach().clone()
    for b, n in enumerate(LENGTHS):
        spoilt[n:, b] = torch.nan
    spoilt.requires_grad_()
    clean, dirty = lstm(x, lengths=LENGTHS), lstm(spoilt, lengths=torch.tensor(LENGTHS))
    torch.testing.assert_close(dirty, clean, rtol=0, atol=0)
    torch.testing.assert_close(
        gradients(lstm, look_at_everything(*dirty), spoilt),
        gradients(lstm, look_at_everything(*clean), x),
    )


@pytest.mark.parametrize("sort", [True, False])
def test_a_packed_sequence_is_answered_with_one(lstm: DeepLSTM, x: Tensor, sort: bool) -> None:
    lengths = sorted(LENGTHS, reverse=True) if sort else LENGTHS
    packed = pack_padded_sequence(x, lengths, enforce_sorted=sort)
    state = random_state()
    output, after = lstm(packed, state)
    assert isinstance(output, PackedSequence)
    padded, found_lengths = pad_packed_sequence(output)
    assert found_lengths.tolist() == lengths
    torch.testing.assert_close((padded, after), lstm(x, state, lengths=lengths))


def test_batch_first_turns_input_and_output_but_not_the_state(lstm: DeepLSTM, x: Tensor) -> None:
    turned = DeepLSTM(W, H, L, batch_first=True).double()
    turned.load_state_dict(lstm.state_dict())
    for lengths in (None, LENGTHS):
        output, state = turned(x.transpose(0, 1), lengths=lengths)
        wanted, wanted_state = lstm(x, lengths=lengths)
        torch.testing.assert_close((output.transpose(0, 1), state), (wanted, wanted_state))


@pytest.mark.parametrize("given_state", [False, True])
def test_an_input_without_a_batch_is_a_batch_of_one(
    lstm: DeepLSTM, x: Tensor, given_state: bool
) -> None:
    state = random_state(1) if given_state else None
    flat = None if state is None else (state[0][:, 0], state[1][:, 0])
    output, (h, c) = lstm(x[:, 0], flat)
    wanted, (wanted_h, wanted_c) = lstm(x[:, :1], state)
    torch.testing.assert_close((output, h, c), (wanted[:, 0], wanted_h[:, 0], wanted_c[:, 0]))
    read, (h, c) = lstm.step(x[0, 0], flat)
    assert read.shape == (H,)
    assert h.shape == c.shape == (L, H)
    torch.testing.assert_close(read, wanted[0, 0])


def test_pieces_equal_the_whole(lstm: DeepLSTM, x: Tensor) -> None:
    first, state = lstm(x[:3])
    middle, state = lstm(x[3:3], state)
    last, state = lstm(x[3:], state)
    found, wanted = (torch.cat([first, middle, last]), state), lstm(x)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(
        gradients(lstm, look_at_everything(*found), x),
        gradients(lstm, look_at_everything(*wanted), x),
    )


def test_steps_equal_the_whole(lstm: DeepLSTM, x: Tensor) -> None:
    outputs, state = [], None
    for x_t in x:
        output, state = lstm.step(x_t, state)
        outputs.append(output)
    found, wanted = (torch.stack(outputs), state), lstm(x)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(
        gradients(lstm, look_at_everything(*found), x),
        gradients(lstm, look_at_everything(*wanted), x),
    )


def test_dropout_acts_between_layers_in_training_only(x: Tensor) -> None:
    lstm = DeepLSTM(W, H, 2, dropout=1.0).double()
    torch.testing.assert_close(lstm.eval()(x), by_hand(lstm, x))
    dropped, _ = lstm.train()(x)
    blind = copy.deepcopy(lstm)
    with torch.no_grad():
        blind.weight_ih_l1[:, W:] = 0  # the upper layer is left with the input alone
    torch.testing.assert_close(dropped, blind.eval()(x)[0])
    torch.testing.assert_close(lstm.step(x[0])[0], dropped[0])


def test_gradients_of_small_layers_agree_with_finite_differences() -> None:
    lstm = DeepLSTM(2, 2, 2).double()
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: lstm(x, lengths=[3, 2])[0], (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_the_compiled_kernels_equal_torchs(
    lengths: list[int] | None, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstm = DeepLSTM(W, H, L).to(dtype)
    x = torch.randn(T, B, W, dtype=dtype, requires_grad=True)
    found = lstm(x, lengths=lengths)
    found_gradients = gradients(lstm, look_at_everything(*found), x)
    monkeypatch.setattr(BACKENDS["fused"], "supports", lambda *_: False)
    wanted = lstm(x, lengths=lengths)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(found_gradients, gradients(lstm, look_at_everything(*wanted), x))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_the_packed_layer_passes_opcheck() -> None:
    x = torch.randn(3, 3, 5, requires_grad=True)
    h, c = (torch.randn(3, 5, requires_grad=True) for _ in range(2))
    weights = (torch.randn(20, 5, requires_grad=True) for _ in range(2))
    bias = torch.randn(20, requires_grad=True)
    given = without_memory(x, [3, 2, 1], h, c, *weights, bias)
    torch.library.opcheck(recurrence.operator, tuple(given))


def test_a_second_derivative_over_packed_rows_is_refused_and_the_remedy_named(
    lstm: DeepLSTM, x: Tensor
) -> None:
    (first,) = torch.autograd.grad(lstm(x, lengths=LENGTHS)[0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"no second derivative; use backend=.reference"):
        torch.autograd.grad(first.sum(), x)


def test_copies_files_and_no_grad_give_the_same(lstm: DeepLSTM, x: Tensor) -> None:
    wanted = lstm(x, lengths=LENGTHS)
    buffer = io.BytesIO()
    torch.save(lstm.state_dict(), buffer)
    buffer.seek(0)
    loaded = DeepLSTM(W, H, L).double()
    loaded.load_state_dict(torch.load(buffer, weights_only=True))
    for twin in (copy.deepcopy(lstm), pickle.loads(pickle.dumps(lstm)), loaded):
        torch.testing.assert_close(twin(x, lengths=LENGTHS), wanted)
    with torch.no_grad():
        torch.testing.assert_close(lstm(x, lengths=LENGTHS), wanted)
        assert not lstm(x)[0].requires_grad


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
# Dynamo looks at .grad of what it hands over at a graph break.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_it_may_stand_inside_a_compiled_function(
    lengths: list[int] | None, dtype: torch.dtype
) -> None:
    torch.compiler.reset()
    lstm = DeepLSTM(W, H, L).to(dtype)
    x = torch.randn(T, B, W, dtype=dtype, requires_grad=True)
    compiled = torch.compile(lambda x: lstm(2 * x, lengths=lengths), backend="aot_eager")
    found, wanted = compiled(x), lstm(2 * x, lengths=lengths)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(
        gradients(lstm, look_at_everything(*found), x),
        gradients(lstm, look_at_everything(*wanted), x),
    )


def test_under_autocast_it_keeps_the_precision_of_its_parameters() -> None:
    lstm, x = DeepLSTM(W, H, L), torch.randn(T, B, W).bfloat16()
    wanted = lstm(x.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(lstm(x), wanted, rtol=0, atol=0)
        torch.testing.assert_close(lstm.step(x[0])[0], wanted[0][0])


@pytest.mark.parametrize(("steps", "batch"), [(0, 2), (1, 1), (3, 0)])
def test_the_smallest_sizes_work(steps: int, batch: int) -> None:
    output, (h, c) = DeepLSTM(1, 1, 2)(torch.randn(steps, batch, 1))
    assert output.shape == (steps, batch, 1)
    assert h.shape == c.shape == (2, batch, 1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": torch.rand(T, B, 9)}, r"be \[T, B, I\] or \[T, I\] with I = 3; got \[7, 4, 9\]"),
        ({"x": torch.rand(3)}, r"must be \[T, B, I\] or \[T, I\] with I = 3; got \[3\]"),
        ({"x": [1.0]}, "the input must be a tensor; got list"),
        ({"x": torch.rand(T, B, W).double()}, "parameters, torch.float32; got torch.float64"),
        ({"x": torch.rand(T, B, W, device="meta")}, "device of the parameters, cpu; got meta"),
        ({"state": torch.rand(L, B, H)}, r"a pair of tensors \(h, c\); got Tensor"),
        ({"state": (torch.rand(L, B, H), torch.rand(L, 2, H))}, r"= \[3, 4, 5\]; got \[3, 2"),
        ({"state": (torch.rand(L, H), torch.rand(L, H))}, r"h must be \[L, B, H\].*; got \[3, 5\]"),
        ({"lengths": [1, 2]}, r"lengths must be \[B\] = \[4\]; got \[2\]"),
        ({"lengths": [0, 1, 2, 3]}, r"lengths must lie in 1..7.*; got \[0, 1, 2, 3\]"),
        ({"lengths": [8, 1, 2, 3]}, r"lengths must lie in 1..7.*; got \[8, 1, 2, 3\]"),
        ({"lengths": [1.0, 1, 2, 3]}, "lengths must be integers; got 1.0"),
        ({"x": torch.rand(T, W), "lengths": [3]}, "lengths need a batch"),
        ({"x": torch.rand(T, W), "state": (torch.rand(L, 1, H),) * 2}, r"\[L, H\] = \[3, 5\]"),
        ({"x": pack_padded_sequence(torch.rand(T, B, 9), [T] * B)}, r"I = 3; got \[28, 9\]"),
        ({"x": pack_padded_sequence(torch.rand(T, B, W), [T] * B), "lengths": [T] * B}, "its own"),
    ],
)  # fmt: skip
def test_errors_say_what_was_given_and_what_was_wanted(
    changed: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        DeepLSTM(W, H, L)(**{"x": torch.rand(T, B, W), **changed})


def test_the_constructor_and_step_name_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="num_layers must be at least 1; got 0"):
        DeepLSTM(W, H, 0)
    with pytest.raises(ValueError, match="dropout must be a probability, 0 to 1; got 2"):
        DeepLSTM(W, H, 1, dropout=2)
    with pytest.raises(ValueError, match=r"\[B, I\] or \[I\] with I = 3; got \[7, 4, 3\]"):
        DeepLSTM(W, H).step(torch.rand(T, B, W))
