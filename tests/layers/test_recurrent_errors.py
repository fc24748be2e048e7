"""What MemoryRNN says of input that it cannot take."""

import pytest
import torch
from torch import Tensor, nn

from pushpop import DeepLSTM, MemoryAttention, MemoryRNN, MemoryState
from tests.layers.recurrent_layers import IN, D, H


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (torch.randn(3, 2, 4), {}, r"must be \[T, B, I\] or .* I = 5; got \[3, 2, 4\]"),
        (torch.randn(3, 2, IN), {"lengths": [3]}, r"lengths must be \[B\] = \[2\]; got \[1\]"),
        (torch.randn(3, 2, IN), {"lengths": [3, 4]}, r"must lie in 1..3, .*; got \[3, 4\]"),
        (torch.randn(3, 2, IN), {"lengths": [0, 3]}, r"got \[0, 3\]"),
    ],
)
def test_bad_input_is_named(x: Tensor, options: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryRNN(IN, H, "stack", D)(x, **options)


def test_another_dtype_is_a_type_error_in_all_layers() -> None:
    message = "must have the dtype of the parameters, torch.float32; got torch.float64"
    for layer in (MemoryRNN(IN, H, "stack", D), DeepLSTM(IN, H), MemoryAttention(IN)):
        with pytest.raises(TypeError, match=message):
            layer(torch.randn(3, 2, IN).double())
        with pytest.raises(TypeError, match=message):
            layer.step(torch.randn(2, IN).double())
        with pytest.raises(ValueError, match=r"\[T, [IE]\] with [IE] = 5; got \[3, 2, 4\]"):
            layer(torch.randn(3, 2, 4))
        with pytest.raises(TypeError, match="the input must be a tensor; got list"):
            layer([1.0])


def test_bad_states_and_options_are_named() -> None:
    rnn = MemoryRNN(IN, H, "stack", D)
    x = torch.randn(3, 2, IN)
    with pytest.raises(ValueError, match=r"h of the state must be \[2, 6\]; got \[3, 6\]"):
        rnn(x, rnn.initial_state(3))
    with pytest.raises(ValueError, match=r"must be \(h, c\); got 1 tensors"):
        rnn(x, rnn.initial_state(2)._replace(controller=torch.zeros(2, H)))
    with pytest.raises(ValueError, match=r"stack, queue, deque, .* or a Memory; got 'heap'"):
        MemoryRNN(IN, H, "heap")
    with pytest.raises(ValueError, match="lstm, gru, rnn or a module; got 'lstn'"):
        MemoryRNN(IN, H, "stack", cell="lstn")
    with pytest.raises(ValueError, match="hidden_size must be at least 1; got 0"):
        MemoryRNN(IN, 0, "stack")


def test_a_state_of_another_shape_never_reaches_the_kernels() -> None:
    rnn = MemoryRNN(IN, H, "deque", D)
    x, state = torch.randn(3, 2, IN), rnn.initial_state(2)
    for rows in (1, 3):
        cells = MemoryState(torch.rand(rows, 5, D), torch.rand(rows, 5))
        with pytest.raises(ValueError, match=f"state has {rows} rows, the input has a batch of 2"):
            rnn(x, state._replace(memory=cells))
    with pytest.raises(ValueError, match="cells 7 wide, this memory is 4 wide"):
        rnn(x, state._replace(memory=MemoryState(torch.rand(2, 5, 7), torch.rand(2, 5))))
    with pytest.raises(TypeError, match=r"h of the state must have .* torch.float32; got .*64"):
        rnn(x, state.to(torch.float64))
    with pytest.raises(TypeError, match="state must be an RNNState or None; got tuple"):
        rnn(x, (torch.zeros(2, H), torch.zeros(2, H)))


def test_errors_speak_of_what_was_given() -> None:
    rnn = MemoryRNN(IN, H, "stack", D, batch_first=True)
    with pytest.raises(ValueError, match=r"must be \[B, T, I\] or \[T, I\] .*; got \[2, 7, 4\]"):
        rnn(torch.randn(2, 7, 4))
    with pytest.raises(ValueError, match=r"or \[T, I\] with I = 5; got \[7, 4\]"):
        rnn(torch.randn(7, 4))
    with pytest.raises(ValueError, match=r"takes 5 inputs; .* together are 9"):
        MemoryRNN(IN, H, "stack", D, cell=nn.LSTMCell(IN, H))
    with pytest.raises(ValueError, match=r"pop_bias of a stack must be one number; got \(1.0,"):
        MemoryRNN(IN, H, "stack", D, pop_bias=(1.0, 2.0))
