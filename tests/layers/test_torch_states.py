"""States in torch's own hands: pytrees, files, and the h and c of nn.LSTM."""

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from pushpop import DeepLSTM, MemoryAttention, MemoryRNN
from pushpop.memory import MEMORIES
from pushpop.memory.base import TensorState
from tests.layers.recurrent_layers import IN, D, H

MEMORY = pytest.mark.parametrize("memory", MEMORIES)


def layers(memory: str) -> list[nn.Module]:
    return [
        MemoryRNN(IN, H, memory, D),
        MemoryRNN(IN, H, memory, D, cell="gru", num_layers=2, bidirectional=True),
        MemoryAttention(IN, memory),
        DeepLSTM(IN, H, num_layers=2),
    ]


@MEMORY
def test_tree_map_reaches_every_tensor_of_a_state(memory: str) -> None:
    x = torch.randn(7, 2, IN)
    for layer in layers(memory):
        _, state = layer(x)
        assert all(isinstance(leaf, Tensor | int) for leaf in pytree.tree_leaves(state))
        detached = pytree.tree_map_only(Tensor, Tensor.detach, state)
        assert type(detached) is type(state)
        leaves = [leaf for leaf in pytree.tree_leaves(detached) if isinstance(leaf, Tensor)]
        assert not any(leaf.requires_grad for leaf in leaves)
        torch.testing.assert_close(layer(x, detached)[0], layer(x, state)[0])
        doubled = pytree.tree_map_only(Tensor, lambda t: t * 2, detached)
        assert torch.equal(pytree.tree_leaves(doubled)[0], 2 * pytree.tree_leaves(detached)[0])


@MEMORY
def test_torch_load_reads_a_state_with_weights_only(memory: str) -> None:
    x = torch.randn(7, 2, IN)
    for layer in layers(memory):
        _, state = layer(x)
        file = io.BytesIO()
        torch.save(state.detach(), file)
        file.seek(0)
        loaded = torch.load(file, weights_only=True)
        assert type(loaded) is type(state)
        torch.testing.assert_close(layer(x, loaded)[0], layer(x, state)[0])


def test_vmap_gives_states_of_the_whole() -> None:
    rnn = MemoryRNN(IN, H, "stack", D)
    xs = torch.randn(3, 5, 2, IN)
    _, states = torch.func.vmap(rnn)(xs)
    for place, x in enumerate(xs):
        _, state = rnn(x)
        torch.testing.assert_close(states.read[place], state.read)


def test_a_state_of_ones_own_with_more_than_cells_stays_a_leaf() -> None:
    class Counted(TensorState):
        def __init__(self, cells: Tensor, steps: int) -> None:
            super().__init__(cells)
            self.steps = steps

    state = Counted(torch.zeros(2, 3, 4), 5)
    assert pytree.tree_leaves(state) == [state]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}])
def test_h_and_c_are_shaped_and_taken_as_those_of_nn_lstm(
    cell: str, options: dict[str, Any]
) -> None:
    rnn = MemoryRNN(IN, H, "stack", D, cell=cell, **options)
    n_layers = len(rnn.layers)
    x, h, c = torch.randn(4, 2, IN), torch.randn(n_layers, 2, H), torch.randn(n_layers, 2, H)
    given = (h, c) if cell == "lstm" else h
    started, state = rnn(x, hx=given)
    assert torch.equal(started, rnn(x, given)[0])
    assert state.h.shape == h.shape
    last = state[0].parts if n_layers > 1 else state.parts
    assert torch.equal(state.h[0], last[0])
    if cell == "lstm":
        assert torch.equal(state.c[0], last[1])
    else:
        assert not hasattr(state, "c")
    by_hand = rnn.initial_state(2)
    layer_states = [by_hand] if n_layers == 1 else list(by_hand)
    replaced = [
        s._replace(controller=(h[k], c[k]) if cell == "lstm" else h[k])
        for k, s in enumerate(layer_states)
    ]
    assert torch.equal(started, rnn(x, replaced)[0])
    alone = tuple(part[:, 0] for part in given) if cell == "lstm" else h[:, 0]
    torch.testing.assert_close(rnn(x[:, 0], hx=alone)[0], started[:, 0])
    assert torch.equal(rnn(x, hx=state)[0], rnn(x, state)[0])


def test_what_is_not_as_in_nn_lstm_is_named() -> None:
    rnn = MemoryRNN(IN, H, "stack", D)
    x = torch.randn(4, 2, IN)
    with pytest.raises(ValueError, match="two names of one argument"):
        rnn(x, rnn.initial_state(2), hx=rnn.initial_state(2))
    with pytest.raises(TypeError, match=r"as \(h, c\) must be \[\[1, 2, 6\], \[1, 2, 6\]\]; got"):
        rnn(x, torch.zeros(1, 2, H))
    with pytest.raises(TypeError, match=r"got tuple of 2, which .* got \[\[2, 6\], \[2, 6\]\]$"):
        rnn(x, (torch.zeros(2, H), torch.zeros(2, H)))
    with pytest.raises(ValueError, match=r"proj_size .* got 4: use output_size=4"):
        MemoryRNN(IN, H, proj_size=4)
    with pytest.raises(TypeError, match="did you mean num_layers=2"):
        MemoryRNN(IN, H, 2)
    with pytest.raises(TypeError, match="did you mean num_heads=5"):
        MemoryAttention(IN, 5)
    rnn.flatten_parameters()
