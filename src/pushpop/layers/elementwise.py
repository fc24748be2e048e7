"""The elementwise part of each cell's step, in place, forward and backward.

Forward leaves exp and tanh to torch, whose versions are vectorised. Backward is arithmetic alone,
one compiled loop a step.
"""

from typing import Any

import torch
from numba import njit
from torch import Tensor

_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})


def lstm_forward(z: Tensor, h: Tensor, c: Tensor, h_next: Tensor, c_next: Tensor) -> None:
    """z [n, 4H] holds the blocks i, f, o, g before their functions and, on return, after them."""
    H = h.shape[1]
    i, f, o, g = z.chunk(4, dim=1)
    z[:, : 3 * H].sigmoid_()
    g.tanh_()
    torch.mul(f, c, out=c_next).addcmul_(i, g)
    torch.tanh(c_next, out=h_next).mul_(o)


def gru_forward(z: Tensor, h: Tensor, c: Tensor, h_next: Tensor, c_next: Tensor) -> None:
    """z [n, 4H] holds the blocks r, z, n without h's share, h's share of n."""
    H = h.shape[1]
    r, keep, new, from_h = z.chunk(4, dim=1)
    z[:, : 2 * H].sigmoid_()
    new.addcmul_(r, from_h).tanh_()
    torch.sub(h, new, out=h_next).mul_(keep).add_(new)


def elman_forward(z: Tensor, h: Tensor, c: Tensor, h_next: Tensor, c_next: Tensor) -> None:
    """z [n, H] becomes h."""
    h_next.copy_(z.tanh_())


@_jit
def lstm_backward(t, rows, hr, d_hr, acts, c, tanh_c, d_c, d_z):  # type: ignore[no-untyped-def]
    """d_z[t] from the gradients of h_t, d_hr[t + 1], and of c_t, d_c (then that of c_{t-1})."""
    H = d_c.shape[1]
    for b in range(rows):
        a, dh, dz, dc = acts[t, b], d_hr[t + 1, b], d_z[t, b], d_c[b]
        before, squashed = c[t, b], tanh_c[t, b]
        for k in range(H):
            i, f, o, g = a[k], a[H + k], a[2 * H + k], a[3 * H + k]
            dck = dc[k] + dh[k] * o * (1 - squashed[k] * squashed[k])
            dz[k] = dck * g * i * (1 - i)
            dz[H + k] = dck * before[k] * f * (1 - f)
            dz[2 * H + k] = dh[k] * squashed[k] * o * (1 - o)
            dz[3 * H + k] = dck * i * (1 - g * g)
            dc[k] = dck * f


@_jit
def gru_backward(t, rows, hr, d_hr, acts, c, tanh_c, d_c, d_z):  # type: ignore[no-untyped-def]
    """d_z[t] from the gradient of h_t; what h_t takes straight from h_{t-1} is added to d_hr[t]."""
    H = acts.shape[2] // 4
    for b in range(rows):
        a, dh, dz = acts[t, b], d_hr[t + 1, b], d_z[t, b]
        h, d_before = hr[t, b], d_hr[t, b]
        for k in range(H):
            r, keep, new, from_h = a[k], a[H + k], a[2 * H + k], a[3 * H + k]
            d_new = dh[k] * (1 - keep) * (1 - new * new)
            dz[k] = d_new * from_h * r * (1 - r)
            dz[H + k] = dh[k] * (h[k] - new) * keep * (1 - keep)
            dz[2 * H + k] = d_new
            dz[3 * H + k] = d_new * r
            d_before[k] += dh[k] * keep


@_jit
def elman_backward(t, rows, hr, d_hr, acts, c, tanh_c, d_c, d_z):  # type: ignore[no-untyped-def]
    """d_z[t] from the gradient of h_t."""
    for b in range(rows):
        a, dh, dz = acts[t, b], d_hr[t + 1, b], d_z[t, b]
        for k in range(acts.shape[2]):
            dz[k] = dh[k] * (1 - a[k] * a[k])


FORWARD = {"lstm": lstm_forward, "gru": gru_forward, "rnn": elman_forward}
BACKWARD: dict[str, Any] = {"lstm": lstm_backward, "gru": gru_backward, "rnn": elman_backward}
