"""A trained nn.LSTM or nn.GRU as a layer with a memory: first the same, then more."""

from typing import Any

import pytest
import torch
from torch import nn

from pushpop import MemoryRNN
from pushpop.memory import MEMORIES
from tests.layers.recurrent_layers import IN, H

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deep both ways": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "without biases": {"bias": False},
}
TORCH = {"lstm": nn.LSTM, "gru": nn.GRU}
CELL = pytest.mark.parametrize("cell", TORCH)


def trained(cell: str, dtype: torch.dtype = torch.float32, **options: Any) -> nn.RNNBase:
    layer = TORCH[cell](IN, H, dtype=dtype, **options)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer


def with_memory(layer: nn.RNNBase, memory: str = "stack", **options: Any) -> MemoryRNN:
    if isinstance(layer, nn.LSTM):
        return MemoryRNN.from_lstm(layer, memory, 4, **options)
    assert isinstance(layer, nn.GRU)
    return MemoryRNN.from_gru(layer, memory, 4, **options)


@CELL
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_it_computes_what_the_trained_layer_computes(cell: str, variant: str, memory: str) -> None:
    layer = trained(cell, **VARIANTS[variant])
    rnn = with_memory(layer, memory)
    x = torch.randn(20, 20, IN)
    wanted, after = layer(x)
    output, state = rnn(x)
    torch.testing.assert_close(output, wanted, rtol=0, atol=1e-6)
    torch.testing.assert_close(state.h, after[0] if cell == "lstm" else after, rtol=0, atol=1e-6)
    torch.testing.assert_close(rnn(x, hx=after)[0], layer(x, after)[0], rtol=0, atol=1e-6)


@CELL
def test_every_backend_and_step_agree_with_it(cell: str) -> None:
    layer = trained(cell, dtype=torch.float64)
    x = torch.randn(20, 3, IN, dtype=torch.float64)
    wanted, _ = layer(x)
    grads = {}
    for backend in ("fused", "parallel", "reference"):
        torch.manual_seed(0)
        rnn = with_memory(layer, backend=backend)
        output, _ = rnn(x)
        torch.testing.assert_close(output, wanted)
        grads[backend] = torch.autograd.grad(output.square().sum(), rnn.cell.parameters())
        state, steps = None, []
        with torch.no_grad():
            for x_t in x:
                step, state = rnn.step(x_t, state)
                steps.append(step)
        torch.testing.assert_close(torch.stack(steps), wanted)
    torch.testing.assert_close(grads["fused"], grads["reference"])


@CELL
def test_the_first_step_of_training_gives_the_memory_a_say(cell: str) -> None:
    torch.manual_seed(0)
    rnn = with_memory(trained(cell))
    x, target = torch.randn(12, 8, IN), torch.randn(12, 8, H)
    optimizer = torch.optim.Adam(rnn.parameters(), lr=1e-2)
    over_reads = rnn.cell.weight_ih[:, IN:]
    losses = []
    for step in range(30):
        assert (over_reads.abs().max() == 0) == (step == 0)
        loss = (rnn(x)[0] - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if step == 1:  # the second step reaches what the memory does, too
            assert rnn.gates.weight.grad.abs().max() > 0
            assert rnn.value.weight.grad.abs().max() > 0
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_outputs_that_are_h_have_no_weights_of_their_own() -> None:
    rnn = MemoryRNN(IN, H, "deque", 4, output_size="hidden", num_layers=2)
    assert not [name for name in rnn.state_dict() if "output" in name]
    output, state = rnn(torch.randn(5, 2, IN))
    assert torch.equal(output[-1], state.h[-1])


def test_another_layer_is_refused() -> None:
    with pytest.raises(TypeError, match=r"from_lstm takes a torch.nn.LSTM; got GRU"):
        MemoryRNN.from_lstm(nn.GRU(IN, H))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="proj_size must be 0: outputs are h; got 3"):
        MemoryRNN.from_lstm(nn.LSTM(IN, H, proj_size=3))
    with pytest.raises(TypeError, match="output_size must be a number or 'hidden'; got 'wide'"):
        MemoryRNN(IN, H, output_size="wide")  # type: ignore[arg-type]
