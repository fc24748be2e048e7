"""The Triton kernels of the memories, called with tensors; imports Triton.

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

from pushpop.memory import triton_linked, triton_walk, triton_walk_backward

STACK, DEQUE = 0, 2  # as in memory.ops.KINDS

OF_CELLS = {"CELLS": 64, "num_warps": 1}
"""How kernels that only copy cells are launched."""


def block_options(width: int, backward: bool = False) -> dict[str, int]:
    """The block for vectors of this width, and how many warps work on it."""
    block = max(64, triton.next_power_of_2(width))
    return {"BLOCK": block, "num_warps": min(8, max(1, block // (256 if backward else 512)))}


def tile_options(width: int) -> dict[str, int]:
    """The same for kernels that hold vectors of several steps at once, and of how many."""
    block = block_options(width)["BLOCK"]
    times = 8 if block <= 512 else 4
    return {"BLOCK": block, "TIMES": times, "num_warps": min(8, block // 64)}


def on_device_of(x: Tensor) -> AbstractContextManager[Any]:
    """Have kernels start on the device of a tensor: Triton asks torch for the current one."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def live_width(kind: int, room: int, T: int) -> int:
    """How many positions a row of live cells needs: a deque is pushed at its bottom too."""
    return room + (T if kind == DEQUE else 0)


def live_width_backward(kind: int, room: int) -> int:
    """The same for the backward pass, in which a bottom's pops are undone below the rest."""
    return room if kind == STACK else 2 * room


def walk(
    kind: int, values: Tensor, push: Tensor, pop: Tensor, initial: Tensor, strengths: Tensor,
    reads: Tensor, final: tuple[Tensor, ...], log: tuple[Tensor, ...],
) -> None:  # fmt: skip
    """Run T steps and fill reads, `kernels.FinalCells` and `kernels.PopLog`; values [T, B, E, D],
    push and pop [T, B, E], initial [B, N, D], strengths [B, N]."""
    T, B, _, D = values.shape
    if B == 0:
        return
    N, room = strengths.shape[1], final[0].shape[1]
    width = live_width(kind, room, T)
    s = strengths.new_empty(B, width)
    ids = final[1].new_empty(B, width)
    given = (x.contiguous() for x in (values, push, pop, initial, strengths))
    with on_device_of(values):
        triton_walk.walk_forward[(B,)](
            *given, reads, s, ids, *final, *log, T, B, N, D, room, width,
            KIND=kind, **block_options(D),
        )  # fmt: skip


def walk_backward(
    kind: int, values: Tensor, initial: Tensor, final: tuple[Tensor, ...], log: tuple[Tensor, ...],
    grad_reads: Tensor, grad_final: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of values, push, pop, initial values and initial strengths, from those of the
    reads and of the final strengths."""
    T, B, E, D = values.shape
    strengths, ids = final[:2]
    # Sums over steps: in the dtype of the strengths, whatever that of the values.
    grad_pushed = strengths.new_zeros(values.shape)
    grad_initial = strengths.new_zeros(initial.shape)
    grad_strengths = strengths.new_zeros(initial.shape[:2])
    grad_push, grad_pop = strengths.new_empty(T, B, E), strengths.new_empty(T, B, E)
    if B:
        room = strengths.shape[1]
        width = live_width_backward(kind, room)
        s, g = strengths.new_empty(2, B, width)
        given = (x.contiguous() for x in (values, initial, *final, *log, grad_reads, grad_final))
        with on_device_of(values):
            triton_walk_backward.walk_backward[(B,)](
                *given, s, g, ids.new_empty(B, width), grad_pushed, grad_push, grad_pop,
                grad_initial, grad_strengths, T, B, D, room, width,
                KIND=kind, **block_options(D, backward=True),
            )  # fmt: skip
    grad_values, grad_initial = grad_pushed.to(values.dtype), grad_initial.to(values.dtype)
    return grad_values, grad_push, grad_pop, grad_initial, grad_strengths


def links(
    kind: int, birth: Tensor, pop: Tensor, link_strength: Tensor, link: Tensor, depth: Tensor
) -> None:
    """Fill link strength, link and depth [B, M] from birth [B, M] and pop [B, T]."""
    B, T = pop.shape
    if B == 0:
        return
    with on_device_of(birth):
        triton_linked.links[(B,)](
            birth.contiguous(), pop.contiguous(), link, link_strength, depth,
            T, birth.shape[1] - T, KIND=kind, CELLS=64, num_warps=1,
        )  # fmt: skip


def links_backward(
    kind: int, birth: Tensor, pop: Tensor, link_strength: Tensor, link: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of birth and pop from that of the link strength."""
    B, T = pop.shape
    grad_birth = torch.zeros_like(birth, memory_format=torch.contiguous_format)
    grad_pop = torch.empty_like(pop, memory_format=torch.contiguous_format)
    if B:
        with on_device_of(birth):
            triton_linked.links_backward[(B,)](
                birth.contiguous(), pop.contiguous(), link, link_strength,
                grad.clone(memory_format=torch.contiguous_format), grad_birth, grad_pop,
                T, birth.shape[1] - T, KIND=kind, CELLS=64, num_warps=1,
            )  # fmt: skip
    return grad_birth, grad_pop


def gather(
    kind: int, values: Tensor, initial: Tensor, birth: Tensor, link_strength: Tensor, link: Tensor,
    reads: Tensor, n_full: Tensor, cut: Tensor, cut_cell: Tensor,
) -> None:  # fmt: skip
    """Fill reads [T, B, 1, D], n_full, cut and cut_cell [T, B]."""
    T, B, _, D = values.shape
    if B == 0:
        return
    block = min(256, block_options(D)["BLOCK"])
    given = (x.contiguous() for x in (values, initial, birth, link_strength, link))
    with on_device_of(values):
        triton_linked.gather[(T * B, triton.cdiv(D, block))](
            *given, reads, n_full, cut, cut_cell, T, B, initial.shape[1], D,
            KIND=kind, BLOCK=block, num_warps=1,
        )  # fmt: skip


def gather_backward(
    kind: int, values: Tensor, initial: Tensor, birth: Tensor, link_strength: Tensor, link: Tensor,
    depth: Tensor, n_full: Tensor, cut: Tensor, cut_cell: Tensor, grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of values, initial, birth and link strength from that of the reads."""
    T, B, _, D = values.shape
    N = initial.shape[1]
    values, initial, grad, birth = (x.contiguous() for x in (values, initial, grad, birth))
    grad_values, grad_initial, grad_birth = map(torch.empty_like, (values, initial, birth))
    grad_link = torch.zeros_like(birth)
    if B:
        cut_product = torch.empty_like(cut)
        with on_device_of(values):
            triton_linked.cut_products[(T * B,)](
                values,
                initial,
                grad,
                cut,
                cut_cell,
                cut_product,
                B,
                N,
                D,
                **block_options(D, backward=True),
            )
            triton_linked.gather_backward[((N + T) * B,)](
                values, initial, grad, birth, link_strength, link, depth, n_full, cut, cut_product,
                grad_values, grad_initial, grad_birth, grad_link, T, B, N, D,
                KIND=kind, **tile_options(D),
            )  # fmt: skip
    return grad_values, grad_initial, grad_birth, grad_link
