"""MemoryRNN among the rest of torch: cells of others, copies, autocast, compile."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pushpop import MemoryRNN
from tests.layers.recurrent_layers import (
    BACKEND,
    IN,
    MEMORY,
    D,
    H,
    layer,
)


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


def test_a_cell_of_ones_own_runs_step_by_step() -> None:
    rnn = MemoryRNN(IN, H, "stack", D, cell=OddCell())
    output, _ = rnn(torch.randn(4, 2, IN))
    output.sum().backward()
    with pytest.raises(ValueError, match=r"fused' runs the cells lstm, .* got the cell OddCell"):
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


@pytest.mark.parametrize("memory", ["stack", "superposition", "tape"])
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_compiles_as_one_graph_with_lengths(memory: str) -> None:
    torch.compiler.reset()
    rnn = MemoryRNN(IN, H, memory, D)
    x = torch.randn(5, 2, IN, requires_grad=True)
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    found, wanted = compiled(x, None, [5, 2])[0], rnn(x, None, [5, 2])[0]
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(
        torch.autograd.grad(found.sum(), x), torch.autograd.grad(wanted.sum(), x)
    )
