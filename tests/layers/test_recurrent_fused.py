"""The fused path of MemoryRNN against the equations step by step."""

import pytest
import torch
from torch import Tensor, nn

from pushpop import MemoryRNN
from pushpop.layers import NoiseLevels
from pushpop.layers.backends.fused.loop import flushes_denormals
from pushpop.layers.inputs import Noise
from tests.layers.recurrent_layers import (
    BACKEND,
    CELL,
    IN,
    MEMORY_WITH_KERNELS,
    D,
    H,
    as_leaves,
    everything,
    held,
    layer,
    some_state,
)


@MEMORY_WITH_KERNELS
@CELL
@pytest.mark.parametrize("first", [False, True], ids=["fresh", "with state"])
@pytest.mark.parametrize("lengths", [None, [7, 3, 12, 1]], ids=["full", "ragged"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["f64", "f32"])
def test_fused_equals_the_equations(
    memory: str, cell: str, first: bool, lengths: list[int] | None, dtype: torch.dtype
) -> None:
    rnn = layer(memory, cell).to(dtype)
    x = torch.randn(12, 4, IN, dtype=dtype, requires_grad=True)
    state = some_state(rnn, 4) if first else None
    found = everything(rnn, "fused", x, state, lengths)
    wanted = everything(rnn, "reference", x, state, lengths)
    limit = 1e-9 if dtype == torch.float64 else 1e-4
    for a, b in zip(found, wanted, strict=True):
        assert float((a - b).abs().max() / b.abs().max().clamp(min=1)) < limit


@MEMORY_WITH_KERNELS
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("noise", [(1.5, 0), (0, 1.5), (1.5, 0.7)], ids=["memory", "cell", "both"])
@pytest.mark.parametrize("lengths", [None, [7, 3, 20, 1]], ids=["full", "ragged"])
def test_noise_on_the_gates_is_the_same_fused_and_step_by_step(
    memory: str, cell: str, noise: tuple[float, float], lengths: list[int] | None
) -> None:
    rnn = layer(memory, cell)
    x = torch.randn(20, 4, IN, dtype=torch.float64, requires_grad=True)
    found = []
    for backend in ("fused", "reference"):
        torch.manual_seed(3)
        found.append(everything(rnn, backend, x, None, lengths, NoiseLevels(*noise)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@MEMORY_WITH_KERNELS
def test_fused_equals_the_equations_over_a_long_sequence(memory: str) -> None:
    rnn = layer(memory)
    x = torch.randn(200, 2, IN, dtype=torch.float64, requires_grad=True)
    for a, b in zip(
        everything(rnn, "fused", x, None, None),
        everything(rnn, "reference", x, None, None),
        strict=True,
    ):
        assert float((a - b).abs().max() / b.abs().max().clamp(min=1)) < 1e-9


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_the_recurrence_passes_opcheck() -> None:
    from pushpop.layers.backends import recurrence, recurrence_input

    rnn, x = MemoryRNN(IN, H, "deque", D), torch.randn(4, 3, IN, requires_grad=True)
    state = some_state(rnn, 3)
    for noise in (Noise(), Noise(torch.randn(4, 3, 4), torch.randn(4, 3, 2 * H))):
        given = recurrence_input(rnn, x, state, [3, 3, 2, 1], noise, keep=True)
        torch.library.opcheck(recurrence.operator, as_leaves(given))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("memory", ["superposition", "tape"])
def test_the_recurrence_of_moving_cells_passes_opcheck(memory: str) -> None:
    from pushpop.layers.backends import recurrence, recurrence_input

    rnn, x = MemoryRNN(IN, H, memory, D), torch.randn(4, 3, IN, requires_grad=True)
    state = some_state(rnn, 3)
    for noise in (Noise(), Noise(torch.randn(4, 3, 3), torch.randn(4, 3, 2 * H))):
        given = recurrence_input(rnn, x, state, [3, 3, 2, 1], noise, keep=True)
        torch.library.opcheck(recurrence.operator, as_leaves(given))


@pytest.mark.parametrize("memory", ["superposition", "tape"])
def test_several_memories_of_moving_cells(memory: str) -> None:
    rnn = MemoryRNN(IN, H, memory, D, num_memories=3).double()
    x = torch.randn(20, 4, IN, dtype=torch.float64, requires_grad=True)
    state = some_state(rnn, 4)
    for lengths in (None, [20, 1, 9, 8]):
        found = everything(rnn, "fused", x, state, lengths)
        for a, b in zip(found, everything(rnn, "reference", x, state, lengths), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("memory", ["superposition", "tape"])
@pytest.mark.parametrize("flushed", [False, True], ids=["counted", "flushed"])
def test_tiny_contents_give_the_same_and_arithmetic_stays_as_it_was(
    memory: str, flushed: bool
) -> None:
    rnn = MemoryRNN(IN, H, memory, D)
    with torch.no_grad():
        rnn.gates.bias[:] = torch.tensor([6.0, 0.0, -6.0])  # what moves little fades fast
    x = torch.randn(60, 2, IN, requires_grad=True)
    torch.set_flush_denormal(flushed)
    try:
        found = everything(rnn, "fused", x, None, None)
        assert flushes_denormals() is flushed
    finally:
        torch.set_flush_denormal(False)
    for a, b in zip(found, everything(rnn, "reference", x, None, None), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", ["superposition", "tape"])
def test_without_gradients_moving_cells_give_the_same(memory: str) -> None:
    rnn = layer(memory)
    x = torch.randn(20, 3, IN, dtype=torch.float64)
    for lengths in (None, [17, 20, 3], [5, 2, 5]):
        wanted, after = rnn(x, lengths=lengths)
        with torch.no_grad():
            found, state = rnn(x, lengths=lengths)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
        torch.testing.assert_close(held(state), held(after), rtol=0, atol=0)
        rnn.backend = "reference"
        wanted, after = rnn(x, lengths=lengths)
        rnn.backend = "auto"
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(held(state), held(after))


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
    rnn.backend = "reference"
    torch.testing.assert_close(auto, rnn(x)[0])


@torch.no_grad()
def test_the_fast_tanh_and_sigmoid_are_accurate() -> None:
    from pushpop.layers.backends.fused.kernels import sigmoid_row, tanh_row

    for dtype, limit in ((torch.float32, 3e-7), (torch.float64, 1e-15)):
        x = torch.linspace(-30, 30, 100_001, dtype=dtype)
        for row, exact in ((tanh_row, torch.tanh), (sigmoid_row, torch.sigmoid)):
            found = x.clone()
            row(found.numpy())
            assert float((found.double() - exact(x.double())).abs().max()) < limit
