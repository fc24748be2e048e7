"""The operator behind `fused.run` for memories whose cells move (`memory/moves.py`): the loop of
`controller_loop.py` around `memory/walker_moves.py`, with its backward pass.

Shapes are as there. A memory takes one value and three gates a step. What it holds is multiplied by
the share of a move at every step and soon is too small for full precision: hence the flushing.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from pushpop.layers.buffers import flushed_denormals
from pushpop.layers.controller_loop import (
    Backward,
    Kept,
    Weights,
    gradient_shapes,
    run_forward,
)
from pushpop.memory.autograd import refuse_second_derivative
from pushpop.memory.moves import Moves

GATES = 3


class MovesInput(NamedTuple):
    """What `recurrence_moves` takes, in its order; the rest is as in `RecurrenceInput`."""

    moves: list[int]  # encoded
    memories: int  # M
    keep: bool  # whether to keep the history, which the backward pass needs
    cell: str
    sizes: list[int]
    x: Tensor
    x_weight: Tensor
    bias: Tensor
    carry_weight: Tensor
    value_weight: Tensor  # [M*D, H]
    value_bias: Tensor
    gate_weight: Tensor  # [M*3, H]
    gate_bias: Tensor
    h: Tensor
    c: Tensor
    read: Tensor  # [B, M*D]
    initial: Tensor  # [R, N, D], the cells at the start
    gate_noise: Tensor | None
    cell_noise: Tensor | None


class MovesOutput(NamedTuple):
    """What `recurrence_moves` returns, in its order: its results, and what the backward pass needs
    (`Kept` and the history)."""

    hidden: Tensor  # [T, B, H]
    carry: Tensor  # [B, S], the final h and reads
    c: Tensor  # [B, H], final
    cells: Tensor  # [R, N', D], final
    values: Tensor  # [T, R, 1, D]
    prev_carry: Tensor  # [N, S]
    prev_c: Tensor  # [N, H]
    activations: Tensor  # [N, K]
    gates: Tensor  # [T, R, 3]
    history: Tensor  # cells that are kept for the backward pass; empty if none are


def plain_recurrence_moves(
    moves: list[int], memories: int, keep: bool, cell: str, sizes: list[int], x: Tensor,
    x_weight: Tensor, bias: Tensor, carry_weight: Tensor, value_weight: Tensor, value_bias: Tensor,
    gate_weight: Tensor, gate_bias: Tensor, h: Tensor, c: Tensor, read: Tensor, initial: Tensor,
    gate_noise: Tensor | None, cell_noise: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """From the fields of `MovesInput` to those of `MovesOutput`."""
    from pushpop.memory.walker_moves import MovesWalker

    out = _empty_output(moves, memories, keep, sizes, x, carry_weight, h, initial)
    out.cells.zero_()
    walker = MovesWalker(
        Moves.decode(moves), memories, sizes, out.carry, h.shape[1], out.values, out.gates, initial,
        out.cells, out.history if keep else None,
    )  # fmt: skip
    weights = Weights(
        x_weight, bias, carry_weight, value_weight, value_bias, gate_weight, gate_bias
    )
    with flushed_denormals():
        run_forward(
            cell, GATES, sizes, walker, x, weights, h, c, read, gate_noise, cell_noise,
            Kept.of(out), out.carry, out.c,
        )  # fmt: skip
    return list(out)


recurrence_moves = torch.library.custom_op(
    "pushpop::recurrence_moves", plain_recurrence_moves, mutates_args=(), device_types="cpu"
)


@recurrence_moves.register_fake
def _(*inputs: Any) -> list[Tensor]:
    given = MovesInput(*inputs)
    return list(_empty_output(
        given.moves, given.memories, given.keep, given.sizes, given.x, given.carry_weight, given.h,
        given.initial,
    ))  # fmt: skip


def _empty_output(
    moves: list[int], memories: int, keep: bool, sizes: list[int], x: Tensor, carry_weight: Tensor,
    h: Tensor, initial: Tensor,
) -> MovesOutput:  # fmt: skip
    (T, B, _), H, (K, S) = x.shape, h.shape[1], carry_weight.shape
    (R, N, D), new, how = initial.shape, x.new_empty, Moves.decode(moves)
    steps, packed = sum(size > 0 for size in sizes), sum(sizes)
    return MovesOutput(
        hidden=new(T, B, H),
        carry=new(B, S),
        c=new(B, H),
        cells=new(R, how.cells(N, steps), D),
        values=new(T, R, 1, D),
        prev_carry=new(packed, S),
        prev_c=new(packed, H),
        activations=new(packed, K),
        gates=new(T, R, GATES),
        history=new(R * D * how.kept(N, T) if keep else 0),
    )


@torch.library.custom_op("pushpop::recurrence_moves_backward", mutates_args=(), device_types="cpu")
def recurrence_moves_backward(
    moves: list[int], memories: int, cell: str, sizes: list[int], x: Tensor, x_weight: Tensor,
    carry_weight: Tensor, value_weight: Tensor, gate_weight: Tensor, initial: Tensor,
    kept: list[Tensor], history: Tensor, grad_hidden: Tensor | None, grad_carry: Tensor | None,
    grad_c: Tensor | None, grad_cells: Tensor,
) -> list[Tensor]:  # fmt: skip
    """The gradients of `recurrence_moves`' tensors, in its order, from those of its results; `kept`
    has the fields of `Kept`.
    """
    from pushpop.memory.walker_moves import BackwardMovesWalker

    before = Kept(*kept)
    loop = Backward(cell, sizes, x, before, grad_carry, grad_c)
    walker = BackwardMovesWalker(
        Moves.decode(moves), memories, sizes, loop.d_carry, before.hidden.shape[2], before.values,
        before.gates, initial, history, grad_cells, loop.d_values, loop.d_gates,
    )  # fmt: skip
    with flushed_denormals():
        gradients = loop.run(
            GATES, walker, x_weight, carry_weight, value_weight, gate_weight, grad_hidden, None
        )
    return [*gradients, walker.finish()]


@recurrence_moves_backward.register_fake
def _(
    moves: list[int], memories: int, cell: str, sizes: list[int], x: Tensor, x_weight: Tensor,
    carry_weight: Tensor, value_weight: Tensor, gate_weight: Tensor, initial: Tensor,
    kept: list[Tensor], *others: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    weights = (x_weight, carry_weight, value_weight, gate_weight)
    shapes = [*gradient_shapes(x, *weights, Kept(*kept).hidden), initial.shape]
    return [x.new_empty(shape) for shape in shapes]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    given, out = MovesInput(*inputs), MovesOutput(*output)
    ctx.moves, ctx.memories, ctx.cell, ctx.sizes = (
        given.moves, given.memories, given.cell, given.sizes,
    )  # fmt: skip
    ctx.cells = out.cells.shape
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(
        given.x, given.x_weight, given.carry_weight, given.value_weight, given.gate_weight,
        given.initial, out.history, *Kept.of(out),
    )  # fmt: skip


def _backward(ctx: Any, grads: list[Tensor | None]) -> Any:
    # Read once: checkpointing hands the saved tensors out only once.
    x, x_weight, carry_weight, value_weight, gate_weight, initial, history, *kept = (
        ctx.saved_tensors
    )
    grad = MovesOutput(*grads)  # type: ignore[arg-type]
    grad_cells = x.new_zeros(ctx.cells) if grad.cells is None else grad.cells
    gradients = recurrence_moves_backward(
        ctx.moves, ctx.memories, ctx.cell, ctx.sizes, x, x_weight, carry_weight, value_weight,
        gate_weight, initial, kept, history, grad.hidden, grad.carry, grad.c, grad_cells,
    )  # fmt: skip
    return None, None, None, None, None, *gradients, None, None


recurrence_moves.register_autograd(_backward, setup_context=_setup_context)
refuse_second_derivative(recurrence_moves_backward, "fused")
