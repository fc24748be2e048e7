"""One LSTM layer over packed sequences, on the CPU: what `torch.lstm` computes, in less time.

Packed data has the rows of all sequences at step 0, then those at step 1, and so on, and nothing
for steps that a sequence does not have. So the input's share of the blocks is one product before
the loop, and the weights' gradients are one product each after it, without any padding. Inside, a
step is one small product and the elementwise part.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from pushpop.layers.backends.fused.products import Product, product
from pushpop.memory.operators import Operator, runs_eagerly
from pushpop.memory.state import as_array


class LSTMInput(NamedTuple):
    """What a layer takes. K = 4 H; the blocks are i, f, o, g."""

    x: Tensor  # [N, I]
    sizes: list[int]  # [T], of the B sequences that have a step t
    h: Tensor  # [B, H]
    c: Tensor  # [B, H]
    x_weight: Tensor  # [K, I]
    h_weight: Tensor  # [K, H]
    bias: Tensor  # [K]


class LSTMOutput(NamedTuple):
    """What a layer returns: its results, and what the backward pass needs."""

    hidden: Tensor  # [N, H]
    final_h: Tensor  # [B, H]
    final_c: Tensor  # [B, H]
    activations: Tensor  # [N, K]
    prev_h: Tensor  # [N, H], before each step
    prev_c: Tensor  # [N, H]


class LSTMBackwardInput(NamedTuple):
    """What the backward pass takes."""

    x: Tensor
    sizes: list[int]
    x_weight: Tensor
    h_weight: Tensor
    activations: Tensor
    prev_h: Tensor
    prev_c: Tensor
    grad_hidden: Tensor | None
    grad_final_h: Tensor | None
    grad_final_c: Tensor | None


class LSTMGradients(NamedTuple):
    """The gradients of a layer's tensors."""

    x: Tensor
    h: Tensor
    c: Tensor
    x_weight: Tensor
    h_weight: Tensor
    bias: Tensor


def run(inputs: LSTMInput) -> LSTMOutput:
    """Run a layer over packed sequences."""
    return run_lstm(inputs) if runs_eagerly(inputs.x) else lstm(inputs)


def run_lstm(inputs: LSTMInput) -> LSTMOutput:
    """Run the loop over time."""
    from pushpop.layers.backends.fused.kernels import PackedForward, packed_forward

    x = inputs.x
    hidden, prev_h, prev_c = (x.new_empty(len(x), inputs.h.shape[1]) for _ in range(3))
    activations = product(x, inputs.x_weight, inputs.bias)
    h, c = (state.clone(memory_format=torch.contiguous_format) for state in (inputs.h, inputs.c))
    from_h = activations.new_empty(len(h), activations.shape[1])
    by_h = Product(inputs.h_weight, len(h))
    arrays = tuple(PackedForward(
        from_h=as_array(from_h), activations=as_array(activations), hidden=as_array(hidden),
        h=as_array(h), prev_h=as_array(prev_h), c=as_array(c), prev_c=as_array(prev_c),
    ))  # fmt: skip
    start = 0
    for n in inputs.sizes:
        by_h.write(h, n, from_h)
        packed_forward(start, n, arrays)
        start += n
    return LSTMOutput(hidden, h, c, activations, prev_h, prev_c)


def _empty_lstm(inputs: LSTMInput) -> LSTMOutput:
    N, (B, H), new = inputs.x.shape[0], inputs.h.shape, inputs.x.new_empty
    return LSTMOutput(
        hidden=new(N, H), final_h=new(B, H), final_c=new(B, H),
        activations=new(N, 4 * H), prev_h=new(N, H), prev_c=new(N, H),
    )  # fmt: skip


def run_lstm_backward(inputs: LSTMBackwardInput) -> LSTMGradients:
    """Undo the loop over time."""
    from pushpop.layers.backends.fused.kernels import PackedBackward, packed_backward

    x, sizes, prev_h = inputs.x, inputs.sizes, inputs.prev_h
    B, H = sizes[0], prev_h.shape[1]
    d_h, d_c = (
        x.new_zeros(B, H) if grad is None else grad.clone(memory_format=torch.contiguous_format)
        for grad in (inputs.grad_final_h, inputs.grad_final_c)
    )
    grad_hidden = torch.zeros_like(prev_h) if inputs.grad_hidden is None else inputs.grad_hidden
    d_blocks, by_blocks = torch.empty_like(inputs.activations), Product(inputs.h_weight.T, B)
    arrays = tuple(PackedBackward(
        grad_hidden=as_array(grad_hidden), activations=as_array(inputs.activations),
        prev_c=as_array(inputs.prev_c), d_h=as_array(d_h), d_c=as_array(d_c),
        d_blocks=as_array(d_blocks), tanh_c=as_array(d_c.new_empty(H)),
    ))  # fmt: skip
    start = len(x)
    for n in reversed(sizes):
        start -= n
        packed_backward(start, n, arrays)
        # Sequences that ended before keep the gradient of their final state.
        by_blocks.write(d_blocks[start:], n, d_h)
    return LSTMGradients(
        x=product(d_blocks, inputs.x_weight.T),
        h=d_h,
        c=d_c,
        x_weight=product(d_blocks.T, x.T),
        h_weight=product(d_blocks.T, prev_h.T),
        bias=d_blocks.sum(0),
    )


def _empty_lstm_gradients(inputs: LSTMBackwardInput) -> LSTMGradients:
    new, (K, H) = inputs.x.new_empty, inputs.h_weight.shape
    return LSTMGradients(
        x=new(inputs.x.shape), h=new(inputs.sizes[0], H), c=new(inputs.sizes[0], H),
        x_weight=new(inputs.x_weight.shape), h_weight=new(K, H), bias=new(K),
    )  # fmt: skip


lstm = Operator(
    "lstm",
    run_lstm,
    _empty_lstm,
    "fused",
    Operator("lstm_backward", run_lstm_backward, _empty_lstm_gradients, "fused", devices="cpu"),
    devices="cpu",
)
