"""What a controller makes its memories do, compiled: values and gates from h_t, and back.

A step's part between the product that makes the values and the step of the memory. Shapes: S =
H + reads, G gates and V numbers of values a step. `elementwise.py` has the controller's own part.
"""

from math import exp
from typing import Any, NamedTuple

import numpy as np

from pushpop.compiled import compiled
from pushpop.layers import elementwise
from pushpop.layers.elementwise import tanh_row

Array = np.ndarray[Any, Any]

_jit = compiled(
    imports=[elementwise], allocates=False, error_model="numpy", fastmath={"reassoc", "contract"}
)


class GatesForward(NamedTuple):
    """What the memory's gates and values are made from; `gates` holds noise (or 0) before."""

    hidden: Array  # [T, B, H]
    gate_weight: Array  # [G, H]
    gate_bias: Array  # [G]
    gates: Array  # [T, B, G]
    value: Array  # [B, V], of this step, without bias
    value_bias: Array  # [V]
    values: Array  # [T, B, V]


class GatesBackward(NamedTuple):
    """The backward pass of GatesForward."""

    values: Array  # [T, B, V]
    d_values: Array  # [T, B, V]
    step_d_values: Array  # [B, V], a copy of d_values[t]
    gates: Array  # [T, B, G]
    d_gates: Array  # [T, B, G]
    gate_weight: Array  # [G, H]
    grad_hidden: Array  # [T, B, H], of the layer's output
    d_carry: Array  # [B, S]


@_jit
def _softmax(x):
    """x = softmax(x), over a few gates."""
    largest, total = x[0], x.dtype.type(0)
    for e in range(1, x.size):
        largest = max(largest, x[e])
    for e in range(x.size):
        x[e] = exp(x[e] - largest)
        total += x[e]
    for e in range(x.size):
        x[e] /= total


@_jit
def gates_forward(t, rows, mixed, arrays):
    """gates[t] = squash(W h_t + b + gates[t]) and values[t] = tanh(value + value_bias).

    Gates are squashed by a sigmoid each, or `mixed` at a time by a softmax.
    """
    x = GatesForward(*arrays)
    gates, value_bias = x.gates, x.value_bias
    one = value_bias.dtype.type(1)
    for b in range(rows):
        h, v, value = x.hidden[t, b], x.values[t, b], x.value[b]
        for k in range(v.size):
            v[k] = value[k] + value_bias[k]
        tanh_row(v)
        for e in range(x.gate_bias.size):
            weight = x.gate_weight[e]
            logit = x.gate_bias[e] + gates[t, b, e]
            for k in range(weight.size):
                logit += weight[k] * h[k]
            gates[t, b, e] = logit if mixed else one / (one + exp(-logit))
        if mixed:
            for e in range(0, x.gate_bias.size, mixed):
                _softmax(gates[t, b, e : e + mixed])


@_jit
def _squash_backward(gates, d_gates, mixed):
    """Gradients of gates become those of their logits."""
    one = gates.dtype.type(1)
    if not mixed:
        for e in range(gates.size):
            d_gates[e] *= gates[e] * (one - gates[e])
        return
    for start in range(0, gates.size, mixed):
        mean = gates.dtype.type(0)
        for e in range(start, start + mixed):
            mean += gates[e] * d_gates[e]
        for e in range(start, start + mixed):
            d_gates[e] = gates[e] * (d_gates[e] - mean)


@_jit
def gates_backward(t, rows, mixed, arrays):
    """Through the functions of values and gates, and from the gates on to h_t, to which the
    gradient of the layer's output is added.
    """
    x = GatesBackward(*arrays)
    gates, d_gates = x.gates, x.d_gates
    one = gates.dtype.type(1)
    for b in range(rows):
        value, d, copy, d_h = x.values[t, b], x.d_values[t, b], x.step_d_values[b], x.d_carry[b]
        for k in range(value.size):
            d[k] *= one - value[k] * value[k]
        for k in range(value.size):
            copy[k] = d[k]
        grad = x.grad_hidden[t, b]
        for k in range(grad.size):
            d_h[k] += grad[k]
        _squash_backward(gates[t, b], d_gates[t, b], mixed)
        for e in range(x.gate_weight.shape[0]):
            weight, slope = x.gate_weight[e], d_gates[t, b, e]
            for k in range(weight.size):
                d_h[k] += slope * weight[k]
