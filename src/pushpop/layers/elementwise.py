"""What a step does between its matrix products, in place: one compiled call, forward and backward.

Numba's own tanh is a call an element, so float32 rows use a rational approximation that vectorises
(the one in Eigen; tests hold it to 3e-7). The loops are short and many so that each touches few
arrays: the compiler then vectorises them.
"""

from math import exp, tanh
from typing import Any

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})

_LARGEST = np.float32(7.90531110763549805)  # tanh is 1 in float32 from here on
_P = tuple(
    np.float32(a)
    for a in (4.89352455891786e-03, 6.37261928875436e-04, 1.48572235717979e-05,
              5.12229709037114e-08, -8.60467152213735e-11, 2.00018790482477e-13,
              -2.76076847742355e-16)
)  # fmt: skip
_Q = tuple(
    np.float32(b)
    for b in (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04,
              1.19825839466702e-06)
)  # fmt: skip


@_jit
def _tanh32(x):
    x = max(-_LARGEST, min(_LARGEST, x))
    y = x * x
    p = _P[0] + y * (_P[1] + y * (_P[2] + y * (_P[3] + y * (_P[4] + y * (_P[5] + y * _P[6])))))
    q = _Q[0] + y * (_Q[1] + y * (_Q[2] + y * _Q[3]))
    return x * p / q


@_jit
def tanh_row(x, out):
    """out = tanh(x), rows of one length."""
    if x.itemsize == 4:
        for k in range(x.size):
            out[k] = _tanh32(x[k])
    else:
        for k in range(x.size):
            out[k] = tanh(x[k])


@_jit
def sigmoid_row(x):
    """x = sigmoid(x)."""
    half = x.dtype.type(0.5)
    for k in range(x.size):
        x[k] *= half
    tanh_row(x, x)
    for k in range(x.size):
        x[k] = half + half * x[k]


@_jit
def lstm_forward(t, rows, hr, acts, c):
    """acts[t] holds the blocks i, f, o, g before their functions and, on return, after them."""
    H = c.shape[2]
    for b in range(rows):
        a, h, before, after = acts[t, b], hr[t + 1, b, :H], c[t, b], c[t + 1, b]
        i, f, o, g = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
        sigmoid_row(a[: 3 * H])
        tanh_row(g, g)
        for k in range(H):
            after[k] = f[k] * before[k] + i[k] * g[k]
        tanh_row(after, h)
        for k in range(H):
            h[k] *= o[k]


@_jit
def gru_forward(t, rows, hr, acts, c):
    """acts[t] holds the blocks r, z, n without h's share, h's share of n."""
    H = c.shape[2]
    for b in range(rows):
        a, h, before = acts[t, b], hr[t + 1, b, :H], hr[t, b]
        r, keep, new, from_h = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
        sigmoid_row(a[: 2 * H])
        for k in range(H):
            new[k] += r[k] * from_h[k]
        tanh_row(new, new)
        for k in range(H):
            h[k] = new[k] + keep[k] * (before[k] - new[k])


@_jit
def elman_forward(t, rows, hr, acts, c):
    """acts[t] becomes h."""
    H = c.shape[2]
    for b in range(rows):
        tanh_row(acts[t, b], acts[t, b])
        hr[t + 1, b, :H] = acts[t, b]


@_jit
def gates_forward(t, rows, hr, weight, bias, gates, values):
    """gates[t] = sigmoid(weight h_t + bias), values[t] = tanh of what is there; weight [G, H]."""
    one = bias.dtype.type(1)
    for b in range(rows):
        h = hr[t + 1, b]
        tanh_row(values[t, b], values[t, b])
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


FORWARD: dict[str, Any] = {"lstm": lstm_forward, "gru": gru_forward, "rnn": elman_forward}
BACKWARD: dict[str, Any] = {"lstm": lstm_backward, "gru": gru_backward, "rnn": elman_backward}
