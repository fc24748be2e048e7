"""Layers and memories in torch.export, at a length that is not fixed; torch.jit is refused."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export
from torch.utils import _pytree as pytree

from pushpop import MemoryAttention, MemoryRNN, NeuralDeque, NeuralStack
from tests.layers.recurrent_layers import IN, D, H

B = 3
LAYERS: dict[str, Any] = {
    "rnn": lambda: MemoryRNN(IN, H, "stack", D, num_layers=2),
    "gru with a deque": lambda: MemoryRNN(IN, H, "deque", D, cell="gru"),
    "attention": lambda: MemoryAttention(IN, "queue"),
}


def check(module: nn.Module, *args: torch.Tensor) -> None:
    """Compare with the exported program at more than twice the length."""
    length = Dim("length", min=2, max=4096)
    program = export(module, args, dynamic_shapes=tuple({0: length} for _ in args))
    longer = [torch.cat([x, x.flip(0), x]) for x in args]
    (found, state), (wanted, after) = program.module()(*longer), module(*longer)
    torch.testing.assert_close(found, wanted)
    assert type(state) is type(after)
    torch.testing.assert_close(module(*args, state)[0], module(*args, after)[0])
    assert len(pytree.tree_leaves(state)) == len(pytree.tree_leaves(after))


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_exported_with_a_dynamic_length(name: str) -> None:
    check(LAYERS[name](), torch.randn(7, B, IN))


def test_a_memory_is_exported_with_a_dynamic_length() -> None:
    check(NeuralStack(D), torch.randn(7, B, D), torch.rand(7, B), torch.rand(7, B))
    ends = (7, B, 2)
    check(NeuralDeque(D), torch.randn(*ends, D), torch.rand(ends), torch.rand(ends))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_jit_is_refused_in_one_sentence(name: str) -> None:
    layer = LAYERS[name]()
    with pytest.raises(RuntimeError, match=r"use torch.export or torch.compile"):
        torch.jit.trace(layer, torch.randn(7, B, IN))
    with pytest.raises(RuntimeError, match=r"use torch.export or torch.compile"):
        torch.jit.script(nn.Sequential(layer))
