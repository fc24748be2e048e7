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
    if x > _LARGEST:  # written so that NaN stays NaN
        x = _LARGEST
    elif x < -_LARGEST:
        x = -_LARGEST
    y = x * x
    p = _P[0] + y * (_P[1] + y * (_P[2] + y * (_P[3] + y * (_P[4] + y * (_P[5] + y * _P[6])))))
    q = _Q[0] + y * (_Q[1] + y * (_Q[2] + y * _Q[3]))
    return x * p / q


@_jit
def tanh_row(x):
    """x = tanh(x). In place with one argument: two that may overlap would not vectorise."""
    if x.itemsize == 4:
        for k in range(x.size):
            x[k] = _tanh32(x[k])
    else:
        for k in range(x.size):
            x[k] = tanh(x[k])


@_jit
def sigmoid_row(x):
    """x = sigmoid(x)."""
    half = x.dtype.type(0.5)
    for k in range(x.size):
        x[k] *= half
    tanh_row(x)
    for k in range(x.size):
        x[k] = half + half * x[k]


@_jit
def _begin_row(t, b, now, befores, z, projected, bias, acts):
    """Keep what the step starts from, and the cell's blocks: from (h, read) and from the input."""
    before, old = befores[t, b], now[b]
    for k in range(before.size):
        before[k] = old[k]
    a, recurrent, given = acts[t, b], z[b], projected[t % len(projected), b]
    for k in range(a.size):
        a[k] = recurrent[k] + given[k] + bias[k]


@_jit
def lstm_row(a, c, c_before, out):
    """The blocks i, f, o, g go through their functions in place; c goes on a step, and h is out."""
    H = c.size
    i, f, o, g = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
    sigmoid_row(a[: 3 * H])
    tanh_row(g)
    for k in range(H):
        c_before[k] = c[k]
    for k in range(H):
        c[k] = f[k] * c_before[k] + i[k] * g[k]
    for k in range(H):
        out[k] = c[k]
    tanh_row(out)
    for k in range(H):
        out[k] *= o[k]


@_jit
def lstm_forward(t, rows, now, befores, z, projected, bias, acts, hidden, c, c_befores):
    """acts[t] becomes the blocks i, f, o, g after their functions; h and c go on a step."""
    H = c.shape[1]
    for b in range(rows):
        _begin_row(t, b, now, befores, z, projected, bias, acts)
        out, h = hidden[t, b], now[b, :H]
        lstm_row(acts[t, b], c[b], c_befores[t, b], out)
        for k in range(H):
            h[k] = out[k]


@_jit
def gru_forward(t, rows, now, befores, z, projected, bias, acts, hidden, c, c_befores):
    """acts[t] holds the blocks r, z, n without h's share, h's share of n."""
    H = c.shape[1]
    for b in range(rows):
        _begin_row(t, b, now, befores, z, projected, bias, acts)
        a, h, out, before = acts[t, b], now[b, :H], hidden[t, b], befores[t, b]
        r, keep, new, from_h = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
        sigmoid_row(a[: 2 * H])
        for k in range(H):
            new[k] += r[k] * from_h[k]
        tanh_row(new)
        for k in range(H):
            out[k] = new[k] + keep[k] * (before[k] - new[k])
        for k in range(H):
            h[k] = out[k]


@_jit
def elman_forward(t, rows, now, befores, z, projected, bias, acts, hidden, c, c_befores):
    """acts[t] becomes h."""
    H = c.shape[1]
    for b in range(rows):
        _begin_row(t, b, now, befores, z, projected, bias, acts)
        tanh_row(acts[t, b])
        hidden[t, b] = acts[t, b]
        now[b, :H] = acts[t, b]


@_jit
def gates_forward(t, rows, hidden, weight, bias, gates, value, value_bias, values):
    """gates[t] = sigmoid(weight h_t + bias + gates[t]), values[t] = tanh(value + value_bias)."""
    one = bias.dtype.type(1)
    for b in range(rows):
        h, v, given = hidden[t, b], values[t, b], value[b]
        for k in range(v.size):
            v[k] = given[k] + value_bias[k]
        tanh_row(v)
        for e in range(bias.size):
            row = weight[e]
            x = bias[e] + gates[t, b, e]
            for k in range(row.size):
                x += row[k] * h[k]
            gates[t, b, e] = one / (one + exp(-x))


@_jit
def gates_backward(t, rows, values, d_values, d_value, gates, d_gates, weight, grad_h, d_now):
    """Through the functions of values [T, B, V] and gates, and from the gates on to h_t, to which
    the gradient of the layer's output is added. d_value [B, V] is a copy of d_values[t].
    """
    one = weight.dtype.type(1)
    for b in range(rows):
        value, d, copy, d_h = values[t, b], d_values[t, b], d_value[b], d_now[b]
        for k in range(value.size):
            d[k] *= one - value[k] * value[k]
        for k in range(value.size):
            copy[k] = d[k]
        given = grad_h[t, b]
        for k in range(given.size):
            d_h[k] += given[k]
        for e in range(weight.shape[0]):
            d_gates[t, b, e] *= gates[t, b, e] * (one - gates[t, b, e])
            row, slope = weight[e], d_gates[t, b, e]
            for k in range(row.size):
                d_h[k] += slope * row[k]


@_jit
def lstm_row_back(a, c_before, dh, dc, z, squashed):
    """z becomes the blocks' gradient, dc that of c_{t-1}, from those of h_t and c_t."""
    H, one = dc.size, dc.dtype.type(1)
    i, f, o, g = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
    d_i, d_f, d_o, d_g = z[:H], z[H : 2 * H], z[2 * H : 3 * H], z[3 * H :]
    for k in range(H):
        squashed[k] = f[k] * c_before[k] + i[k] * g[k]
    tanh_row(squashed)
    for k in range(H):
        dc[k] += dh[k] * o[k] * (one - squashed[k] * squashed[k])
    for k in range(H):
        d_o[k] = dh[k] * squashed[k] * o[k] * (one - o[k])
    for k in range(H):
        d_i[k] = dc[k] * g[k] * i[k] * (one - i[k])
    for k in range(H):
        d_g[k] = dc[k] * i[k] * (one - g[k] * g[k])
    for k in range(H):
        d_f[k] = dc[k] * c_before[k] * f[k] * (one - f[k])
    for k in range(H):
        dc[k] *= f[k]


@_jit
def lstm_backward(t, rows, befores, acts, c_befores, d_now, d_c, d_z, d_blocks, direct):
    """d_z[t], and its copy d_blocks, from the gradients of h_t, d_now[:, :H], and of c_t, d_c (then
    that of c_{t-1}).
    """
    squashed = np.empty(d_c.shape[1], d_c.dtype)  # tanh(c_t)
    for b in range(rows):
        z, copy = d_z[t, b], d_blocks[b]
        lstm_row_back(acts[t, b], c_befores[t, b], d_now[b], d_c[b], z, squashed)
        for k in range(z.size):
            copy[k] = z[k]


@_jit
def packed_forward(start, rows, z, acts, hidden, h, befores, c, c_befores):
    """A step of an LSTM on rows start, start + 1, ... of packed data: acts holds the input's share
    of the blocks, z [B, 4 H] that of h [B, H].
    """
    H = c.shape[1]
    for b in range(rows):
        row = start + b
        a, recurrent, old, before, out = acts[row], z[b], h[b], befores[row], hidden[row]
        for k in range(a.size):
            a[k] += recurrent[k]
        for k in range(H):
            before[k] = old[k]
        lstm_row(a, c[b], c_befores[row], out)
        for k in range(H):
            old[k] = out[k]


@_jit
def packed_backward(start, rows, grad_hidden, acts, c_befores, d_h, d_c, d_acts):
    """d_acts of those rows from the gradients of h_t and c_t, d_h and d_c [B, H]."""
    squashed = np.empty(d_c.shape[1], d_c.dtype)
    for b in range(rows):
        row = start + b
        given, dh = grad_hidden[row], d_h[b]
        for k in range(dh.size):
            dh[k] += given[k]
        lstm_row_back(acts[row], c_befores[row], dh, d_c[b], d_acts[row], squashed)


@_jit
def gru_backward(t, rows, befores, acts, c_befores, d_now, d_c, d_z, d_blocks, direct):
    """d_z[t] from the gradient of h_t; `direct` is what h_{t-1} gets straight from h_t."""
    H = d_c.shape[1]
    one = d_c.dtype.type(1)
    for b in range(rows):
        a, z, copy = acts[t, b], d_z[t, b], d_blocks[b]
        r, keep, new, from_h = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
        dh, straight, h = d_now[b], direct[b], befores[t, b]
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
            straight[k] = dh[k] * keep[k]
        for k in range(z.size):
            copy[k] = z[k]


@_jit
def elman_backward(t, rows, befores, acts, c_befores, d_now, d_c, d_z, d_blocks, direct):
    """d_z[t] from the gradient of h_t."""
    one = d_c.dtype.type(1)
    for b in range(rows):
        h, dh, z = acts[t, b], d_now[b], d_z[t, b]
        for k in range(h.size):
            z[k] = dh[k] * (one - h[k] * h[k])
        d_blocks[b] = z


FORWARD: dict[str, Any] = {"lstm": lstm_forward, "gru": gru_forward, "rnn": elman_forward}
BACKWARD: dict[str, Any] = {"lstm": lstm_backward, "gru": gru_backward, "rnn": elman_backward}
