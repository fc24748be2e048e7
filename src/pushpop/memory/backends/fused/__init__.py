"""The walk on the CPU by Numba's kernels, called with tensors; imports Numba."""

import torch

from pushpop.memory.backends.fused import walk
from pushpop.memory.operators import (
    WalkBackwardInput,
    WalkGradients,
    WalkInput,
    WalkOutput,
    empty_walk,
    empty_walk_gradients,
    final_of,
    log_of,
    walk_grads,
)
from pushpop.memory.state import as_array


def run_walk(inputs: WalkInput) -> WalkOutput:
    out = empty_walk(inputs)
    gates = torch.cat([inputs.push, inputs.pop], -1)
    arrays = (inputs.values, gates, inputs.initial, inputs.strengths, out.reads)
    final, log = tuple(map(as_array, final_of(out))), tuple(map(as_array, log_of(out)))
    walk.forward(inputs.kind, *map(as_array, arrays), final, log)
    return out


def run_walk_backward(inputs: WalkBackwardInput) -> WalkGradients:
    out, E = empty_walk_gradients(inputs), inputs.values.shape[2]
    gates = inputs.values.new_empty(*inputs.values.shape[:2], 2 * E)
    arrays = (
        final_of(inputs), log_of(inputs), walk_grads(inputs),
        (out.values, gates, out.initial, out.strengths),
    )  # fmt: skip
    walk.backward(
        inputs.kind, as_array(inputs.values), as_array(inputs.initial),
        *(tuple(map(as_array, bundle)) for bundle in arrays),
    )  # fmt: skip
    torch.split_copy(gates, E, -1, out=(out.push, out.pop))
    return out
