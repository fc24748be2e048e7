"""One LSTM layer over packed sequences, on the CPU: what `torch.lstm` computes, in less time.

Packed data has the rows of all sequences at step 0, then those at step 1, and so on, and nothing
for steps that a sequence does not have. So the input's share of the blocks is one product before
the loop, and the weights' gradients are one product each after it, without any padding. Inside, a
step is one small product and the elementwise part.
"""

from typing import Any

import torch
from torch import Tensor

from pushpop.layers.buffers import as_arrays, cache_padded, needs_no_operator, sigmoids_first
from pushpop.memory.ops import WALKABLE


def can_run(x: Tensor) -> bool:
    """Whether there are kernels for the input's device and dtype."""
    return x.device.type == "cpu" and x.dtype in WALKABLE


def run(
    x: Tensor, sizes: list[int], h: Tensor, c: Tensor, weights: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """x [N, I], h and c [B, H], (weight_ih, weight_hh, bias) in torch's order of gates -> hidden
    [N, H], and h and c after each sequence. sizes[t] of the B sequences have a step t.
    """
    run_it = _lstm if needs_no_operator(x) else lstm
    hidden, h, c, *_ = run_it(x, sizes, h, c, *map(sigmoids_first, weights))
    return hidden, h, c


def _lstm(
    x: Tensor, sizes: list[int], h: Tensor, c: Tensor, by_x: Tensor, by_h: Tensor, bias: Tensor
) -> list[Tensor]:
    """hidden [N, H]; the final h and c [B, H]; then, for the backward pass, the blocks, and h and c
    before each step.
    """
    from pushpop.layers.elementwise import packed_forward

    hidden, befores, c_befores = (x.new_empty(len(x), h.shape[1]) for _ in range(3))
    acts = torch.addmm(bias, x, by_x.T)
    h, c = (state.clone(memory_format=torch.contiguous_format) for state in (h, c))
    z = acts.new_empty(len(h), acts.shape[1])
    by_h = cache_padded(by_h.T)
    arrays = as_arrays(z, acts, hidden, h, befores, c, c_befores)
    start = 0
    for n in sizes:
        torch.mm(h[:n], by_h, out=z[:n])
        packed_forward(start, n, *arrays)
        start += n
    return [hidden, h, c, acts, befores, c_befores]


lstm = torch.library.custom_op("pushpop::lstm", _lstm, mutates_args=(), device_types="cpu")


@lstm.register_fake
def _(
    x: Tensor, sizes: list[int], h: Tensor, c: Tensor, by_x: Tensor, by_h: Tensor, bias: Tensor
) -> list[Tensor]:
    N, (B, H), new = x.shape[0], h.shape, x.new_empty
    return [new(N, H), new(B, H), new(B, H), new(N, 4 * H), new(N, H), new(N, H)]


@torch.library.custom_op("pushpop::lstm_backward", mutates_args=(), device_types="cpu")
def lstm_backward(
    x: Tensor, sizes: list[int], by_x: Tensor, by_h: Tensor, saved: list[Tensor],
    grad_hidden: Tensor | None, grad_h: Tensor | None, grad_c: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """The gradients of `lstm`'s tensors, in its order."""
    from pushpop.layers.elementwise import packed_backward

    acts, befores, c_befores = saved
    B, H = sizes[0], befores.shape[1]
    d_h, d_c = (
        x.new_zeros(B, H) if grad is None else grad.clone(memory_format=torch.contiguous_format)
        for grad in (grad_h, grad_c)
    )
    grad_hidden = torch.zeros_like(befores) if grad_hidden is None else grad_hidden
    d_acts, by_blocks = torch.empty_like(acts), cache_padded(by_h)
    arrays = as_arrays(grad_hidden, acts, c_befores, d_h, d_c, d_acts)
    start = len(x)
    for n in reversed(sizes):
        start -= n
        packed_backward(start, n, *arrays)
        # Sequences that ended before keep the gradient of their final state.
        torch.mm(d_acts[start : start + n], by_blocks, out=d_h[:n])
    return [d_acts @ by_x, d_h, d_c, d_acts.T @ x, d_acts.T @ befores, d_acts.sum(0)]


@lstm_backward.register_fake
def _(
    x: Tensor, sizes: list[int], by_x: Tensor, by_h: Tensor, saved: list[Tensor],
    grad_hidden: Tensor | None, grad_h: Tensor | None, grad_c: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    new, (_, H) = x.new_empty, by_h.shape
    states = [new(sizes[0], H), new(sizes[0], H)]
    return [new(x.shape), *states, new(by_x.shape), new(by_h.shape), new(4 * H)]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    x, ctx.sizes, _, _, by_x, by_h, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, by_x, by_h, *output[3:])


def _backward(ctx: Any, grads: list[Tensor | None]) -> Any:
    x, by_x, by_h, *saved = ctx.saved_tensors
    d_x, d_h, d_c, *d_weights = lstm_backward(x, ctx.sizes, by_x, by_h, saved, *grads[:3])
    return d_x, None, d_h, d_c, *d_weights


lstm.register_autograd(_backward, setup_context=_setup_context)
