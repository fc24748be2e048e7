"""The walk on a GPU by Triton kernels, called with tensors; imports Triton.

Blocks are chosen by rule, not tuned by trial: a block holds all D numbers of a value, and has a
warp for every 512 of them, in the backward pass for every 256; that is as few as need no registers
in memory. A block has at least 64 numbers, because a warp of a GPU has 32 or 64 threads: were there
more threads than numbers, several would load and store the same one.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

from pushpop.memory.backends.triton import walk
from pushpop.memory.kinds import DEQUE, STACK
from pushpop.memory.operators import (
    WalkBackwardInput,
    WalkGradients,
    WalkInput,
    WalkOutput,
    empty_walk,
    final_of,
    log_of,
    walk_grads,
)

OF_CELLS = {"CELLS": 64, "num_warps": 1}
"""How kernels that only copy cells are launched."""


def block_options(width: int, backward: bool = False) -> dict[str, int]:
    """The block for vectors of this width, and how many warps work on it."""
    block = max(64, triton.next_power_of_2(width))
    return {"BLOCK": block, "num_warps": min(8, max(1, block // (256 if backward else 512)))}


def on_device_of(x: Tensor) -> AbstractContextManager[Any]:
    """Have kernels start on the device of a tensor: Triton asks torch for the current one."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def live_width(kind: int, room: int, T: int) -> int:
    """How many positions a row of live cells needs: a deque is pushed at its bottom too."""
    return room + (T if kind == DEQUE else 0)


def live_width_backward(kind: int, room: int) -> int:
    """The same for the backward pass, in which a bottom's pops are undone below the rest."""
    return room if kind == STACK else 2 * room


def run_walk(inputs: WalkInput) -> WalkOutput:
    out = empty_walk(inputs)
    T, B, _, D = inputs.values.shape
    if B == 0:
        return out
    N, room = inputs.strengths.shape[1], out.strengths.shape[1]
    width = live_width(inputs.kind, room, T)
    s, ids = inputs.strengths.new_empty(B, width), out.row_ids.new_empty(B, width)
    with on_device_of(inputs.values):
        walk.walk_forward[(B,)](
            *(x.contiguous() for x in inputs[1:]), out.reads, s, ids, *final_of(out), *log_of(out),
            T, B, N, D, room, width, KIND=inputs.kind, **block_options(D),
        )  # fmt: skip
    return out


def run_walk_backward(inputs: WalkBackwardInput) -> WalkGradients:
    values, initial, strengths = inputs.values, inputs.initial, inputs.strengths
    T, B, E, D = values.shape
    # Sums over steps: in the dtype of the strengths, whatever that of the values.
    grad_pushed = strengths.new_zeros(values.shape)
    grad_initial = strengths.new_zeros(initial.shape)
    grad_strengths = strengths.new_zeros(initial.shape[:2])
    grad_push, grad_pop = strengths.new_empty(T, B, E), strengths.new_empty(T, B, E)
    if B:
        room = strengths.shape[1]
        width = live_width_backward(inputs.kind, room)
        s, g = strengths.new_empty(2, B, width)
        arrays = (values, initial, *final_of(inputs), *log_of(inputs), *walk_grads(inputs))
        with on_device_of(values):
            walk.walk_backward[(B,)](
                *(x.contiguous() for x in arrays), s, g, inputs.row_ids.new_empty(B, width),
                grad_pushed, grad_push, grad_pop, grad_initial, grad_strengths, T, B, D, room,
                width, KIND=inputs.kind, **block_options(D, backward=True),
            )  # fmt: skip
    return WalkGradients(
        grad_pushed.to(values.dtype), grad_push, grad_pop, grad_initial.to(values.dtype),
        grad_strengths,
    )  # fmt: skip
