"""torch.compile over layers and memories: outputs and all gradients, by tracing alone (`aot_eager`)
and through Inductor. test_attention.py traces `MemoryAttention` with each memory."""

import shutil

import pytest
import torch
from torch import Tensor, nn

from pushpop import DeepLSTM, MemoryAttention, MemoryRNN
from pushpop.memory.kinds import MEMORY_NAMES

T, B, E = 5, 2, 4
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


def check(layer: nn.Module, backend: str, fullgraph: bool = True) -> None:
    """Compare a layer with itself, compiled: two calls, the second from the state of the first."""
    torch.compiler.reset()
    x = torch.randn(T, B, E, requires_grad=True)

    def call(x: Tensor) -> Tensor:
        first, state = layer(x[:3])
        second, _ = layer(x[3:], state)
        return torch.cat([first, second])

    sides = []
    for run in (torch.compile(call, backend=backend, fullgraph=fullgraph), call):
        output = run(x)
        weights = torch.cos(torch.arange(output.numel(), dtype=output.dtype)).view_as(output)
        leaves = [x, *layer.parameters()]
        sides.append((output, torch.autograd.grad((weights * output).sum(), leaves)))
    torch.testing.assert_close(*sides)


@pytest.mark.parametrize("memory", MEMORY_NAMES)
def test_a_traced_layer_computes_the_same(memory: str) -> None:
    check(MemoryRNN(E, 6, memory, 3), "aot_eager")


@pytest.mark.parametrize("memory", ["deque", "tape"])
def test_traced_layers_of_several_memories_compute_the_same(memory: str) -> None:
    check(MemoryRNN(E, 6, memory, 3, "gru", num_layers=2, num_memories=2), "aot_eager")


def test_a_traced_deep_lstm_computes_the_same() -> None:
    check(DeepLSTM(E, 6, 2), "aot_eager", fullgraph=False)


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")
@pytest.mark.parametrize("layer", ["stack", "tape", "attention, deque", "attention, superposition"])
def test_inductor_computes_the_same(layer: str) -> None:
    *attention, memory = layer.split(", ")
    made = MemoryAttention(E, memory, 2) if attention else MemoryRNN(E, 6, memory, 3)
    check(made, "inductor")
