"""What a step does between its matrix products, in place, forward and backward.

exp and tanh of long rows are left to torch, whose versions are vectorised; everything else is one
compiled call a step. The loops are short and many so that each touches few arrays: the compiler
then vectorises them.
"""

from math import exp
from typing import Any

import torch
from numba import njit
from torch import Tensor

_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


def lstm_forward(z: Tensor, h: Tensor, c: Tensor, h_next: Tensor, c_next: Tensor) -> None:
    """z [n, 4H] holds the blocks i, f, o, g before their functions and, on return, after them."""
    H = h.shape[1]
    z[:, : 3 * H].sigmoid_()
    i, f, o, g = z.chunk(4, dim=1)
    g.tanh_()
    torch.mul(f, c, out=c_next).addcmul_(i, g)
    torch.tanh(c_next, out=h_next).mul_(o)


def gru_forward(z: Tensor, h: Tensor, c: Tensor, h_next: Tensor, c_next: Tensor) -> None:
    """z [n, 4H] holds the blocks r, z, n without h's share, h's share of n."""
    H = h.shape[1]
    z[:, : 2 * H].sigmoid_()
    r, keep, new, from_h = z.chunk(4, dim=1)
    new.addcmul_(r, from_h).tanh_()
    torch.sub(h, new, out=h_next).mul_(keep).add_(new)


def elman_forward(z: Tensor, h: Tensor, c: Tensor, h_next: Tensor, c_next: Tensor) -> None:
    """z [n, H] becomes h."""
    h_next.copy_(z.tanh_())


@_jit
def gates_forward(t, rows, hr, weight, bias, gates):
    """gates[t] = sigmoid(weight h_t + bias); weight [G, H], gates [T, B, G]."""
    one = bias.dtype.type(1)
    for b in range(rows):
        h = hr[t + 1, b]
        for e in range(bias.size):
            row = weight[e]
            x = bias[e]
            for k in range(row.size):
                x += row[k] * h[k]
            gates[t, b, e] = one / (one + exp(-x))


@_jit
def gates_backward(t, rows, values, d_values, gates, d_gates, weight, d_hr):
    """Through the functions of values [T, B, V] and gates, and from the gates on to h_t."""
    one = weight.dtype.type(1)
    for b in range(rows):
        value, d_value, d_h = values[t, b], d_values[t, b], d_hr[t + 1, b]
        for k in range(value.size):
            d_value[k] *= one - value[k] * value[k]
        for e in range(weight.shape[0]):
            d_gates[t, b, e] *= gates[t, b, e] * (one - gates[t, b, e])
            row, d = weight[e], d_gates[t, b, e]
            for k in range(row.size):
                d_h[k] += d * row[k]


@_jit
def lstm_backward(t, rows, hr, d_hr, acts, c, tanh_c, d_c, d_z):
    """d_z[t] from the gradients of h_t, d_hr[t + 1], and of c_t, d_c (then that of c_{t-1})."""
    H = d_c.shape[1]
    one = d_c.dtype.type(1)
    for b in range(rows):
        a, z = acts[t, b], d_z[t, b]
        i, f, o, g = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
        dh, dc, before, squashed = d_hr[t + 1, b], d_c[b], c[t, b], tanh_c[t, b]
        d_i, d_f, d_o, d_g = z[:H], z[H : 2 * H], z[2 * H : 3 * H], z[3 * H :]
        for k in range(H):
            dc[k] += dh[k] * o[k] * (one - squashed[k] * squashed[k])
        for k in range(H):
            d_o[k] = dh[k] * squashed[k] * o[k] * (one - o[k])
        for k in range(H):
            d_i[k] = dc[k] * g[k] * i[k] * (one - i[k])
        for k in range(H):
            d_g[k] = dc[k] * i[k] * (one - g[k] * g[k])
        for k in range(H):
            d_f[k] = dc[k] * before[k] * f[k] * (one - f[k])
        for k in range(H):
            dc[k] *= f[k]


@_jit
def gru_backward(t, rows, hr, d_hr, acts, c, tanh_c, d_c, d_z):
    """d_z[t] from the gradient of h_t; what h_t takes straight from h_{t-1} is added to d_hr[t]."""
    H = d_c.shape[1]
    one = d_c.dtype.type(1)
    for b in range(rows):
        a, z = acts[t, b], d_z[t, b]
        r, keep, new, from_h = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
        dh, d_before, h = d_hr[t + 1, b], d_hr[t, b], hr[t, b]
        d_r, d_keep, d_new, d_from_h = z[:H], z[H : 2 * H], z[2 * H : 3 * H], z[3 * H :]
        for k in range(H):
            d_new[k] = dh[k] * (one - keep[k]) * (one - new[k] * new[k])
        for k in range(H):
            d_r[k] = d_new[k] * from_h[k] * r[k] * (one - r[k])
        for k in range(H):
            d_from_h[k] = d_new[k] * r[k]
        for k in range(H):
            d_keep[k] = dh[k] * (h[k] - new[k]) * keep[k] * (one - keep[k])
        for k in range(H):
            d_before[k] += dh[k] * keep[k]


@_jit
def elman_backward(t, rows, hr, d_hr, acts, c, tanh_c, d_c, d_z):
    """d_z[t] from the gradient of h_t."""
    one = d_c.dtype.type(1)
    for b in range(rows):
        h, dh, z = acts[t, b], d_hr[t + 1, b], d_z[t, b]
        for k in range(h.size):
            z[k] = dh[k] * (one - h[k] * h[k])


FORWARD = {"lstm": lstm_forward, "gru": gru_forward, "rnn": elman_forward}
BACKWARD: dict[str, Any] = {"lstm": lstm_backward, "gru": gru_backward, "rnn": elman_backward}
