"""One LSTM layer over packed sequences, on the CPU: what `torch.lstm` computes, in less time.

Packed data has the rows of all sequences at step 0, then those at step 1, and so on, and nothing
for steps that a sequence does not have. So the input's share of the blocks is one product before
the loop, and the weights' gradients are one product each after it, without any padding. Inside, a
step is one small product and the elementwise part.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from pushpop.layers.buffers import cache_padded, needs_no_operator, sigmoids_first
from pushpop.memory.autograd import refuse_second_derivative
from pushpop.memory.ops import WALKABLE
from pushpop.memory.state import as_array


def can_run(x: Tensor) -> bool:
    """Whether there are kernels for the input's device and dtype."""
    return x.device.type == "cpu" and x.dtype in WALKABLE


class LSTMOutput(NamedTuple):
    """What `lstm` returns, in its order: its results, and what the backward pass needs."""

    hidden: Tensor  # [N, H]
    h: Tensor  # [B, H], final
    c: Tensor  # [B, H], final
    activations: Tensor  # [N, 4 H]
    prev_h: Tensor  # [N, H], before each step
    prev_c: Tensor  # [N, H]


def run(
    x: Tensor, sizes: list[int], h: Tensor, c: Tensor, weights: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """x [N, I], h and c [B, H], (weight_ih, weight_hh, bias) in torch's order of gates -> hidden
    [N, H], and h and c after each sequence. sizes[t] of the B sequences have a step t.
    """
    run_it = plain_lstm if needs_no_operator(x) else lstm
    out = LSTMOutput(*run_it(x, sizes, h, c, *map(sigmoids_first, weights)))
    return out.hidden, out.h, out.c


def plain_lstm(
    x: Tensor, sizes: list[int], h: Tensor, c: Tensor, x_weight: Tensor, h_weight: Tensor,
    bias: Tensor,
) -> list[Tensor]:  # fmt: skip
    """The fields of `LSTMOutput`."""
    from pushpop.layers.elementwise import PackedForward, packed_forward

    hidden, prev_h, prev_c = (x.new_empty(len(x), h.shape[1]) for _ in range(3))
    activations = torch.addmm(bias, x, x_weight.T)
    h, c = (state.clone(memory_format=torch.contiguous_format) for state in (h, c))
    from_h = activations.new_empty(len(h), activations.shape[1])
    by_h = cache_padded(h_weight.T)
    arrays = tuple(PackedForward(
        from_h=as_array(from_h), activations=as_array(activations), hidden=as_array(hidden),
        h=as_array(h), prev_h=as_array(prev_h), c=as_array(c), prev_c=as_array(prev_c),
    ))  # fmt: skip
    start = 0
    for n in sizes:
        torch.mm(h[:n], by_h, out=from_h[:n])
        packed_forward(start, n, arrays)
        start += n
    return list(LSTMOutput(hidden, h, c, activations, prev_h, prev_c))


lstm = torch.library.custom_op("pushpop::lstm", plain_lstm, mutates_args=(), device_types="cpu")


@lstm.register_fake
def _(
    x: Tensor, sizes: list[int], h: Tensor, c: Tensor, x_weight: Tensor, h_weight: Tensor,
    bias: Tensor,
) -> list[Tensor]:  # fmt: skip
    N, (B, H), new = x.shape[0], h.shape, x.new_empty
    return list(LSTMOutput(
        hidden=new(N, H), h=new(B, H), c=new(B, H),
        activations=new(N, 4 * H), prev_h=new(N, H), prev_c=new(N, H),
    ))  # fmt: skip


@torch.library.custom_op("pushpop::lstm_backward", mutates_args=(), device_types="cpu")
def lstm_backward(
    x: Tensor, sizes: list[int], x_weight: Tensor, h_weight: Tensor,
    activations: Tensor, prev_h: Tensor, prev_c: Tensor,
    grad_hidden: Tensor | None, grad_h: Tensor | None, grad_c: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """The gradients of `lstm`'s tensors, in its order."""
    from pushpop.layers.elementwise import PackedBackward, packed_backward

    B, H = sizes[0], prev_h.shape[1]
    d_h, d_c = (
        x.new_zeros(B, H) if grad is None else grad.clone(memory_format=torch.contiguous_format)
        for grad in (grad_h, grad_c)
    )
    grad_hidden = torch.zeros_like(prev_h) if grad_hidden is None else grad_hidden
    d_blocks, by_blocks = torch.empty_like(activations), cache_padded(h_weight)
    arrays = tuple(PackedBackward(
        grad_hidden=as_array(grad_hidden), activations=as_array(activations),
        prev_c=as_array(prev_c), d_h=as_array(d_h), d_c=as_array(d_c),
        d_blocks=as_array(d_blocks), tanh_c=as_array(d_c.new_empty(H)),
    ))  # fmt: skip
    start = len(x)
    for n in reversed(sizes):
        start -= n
        packed_backward(start, n, arrays)
        # Sequences that ended before keep the gradient of their final state.
        torch.mm(d_blocks[start : start + n], by_blocks, out=d_h[:n])
    weights = (d_blocks.T @ x, d_blocks.T @ prev_h, d_blocks.sum(0))
    return [d_blocks @ x_weight, d_h, d_c, *weights]


@lstm_backward.register_fake
def _(
    x: Tensor, sizes: list[int], x_weight: Tensor, h_weight: Tensor,
    activations: Tensor, prev_h: Tensor, prev_c: Tensor,
    grad_hidden: Tensor | None, grad_h: Tensor | None, grad_c: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    new, (_, H) = x.new_empty, h_weight.shape
    states = [new(sizes[0], H), new(sizes[0], H)]
    return [new(x.shape), *states, new(x_weight.shape), new(h_weight.shape), new(4 * H)]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    x, ctx.sizes, _, _, x_weight, h_weight, _ = inputs
    out = LSTMOutput(*output)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, x_weight, h_weight, out.activations, out.prev_h, out.prev_c)


def _backward(ctx: Any, grads: list[Tensor | None]) -> Any:
    x, x_weight, h_weight, *saved = ctx.saved_tensors
    grad_hidden, grad_h, grad_c, *_ = grads
    d_x, d_h, d_c, *d_weights = lstm_backward(
        x, ctx.sizes, x_weight, h_weight, *saved, grad_hidden, grad_h, grad_c
    )
    return d_x, None, d_h, d_c, *d_weights


lstm.register_autograd(_backward, setup_context=_setup_context)
refuse_second_derivative(lstm_backward)
