"""The recurrence of a controller and its memory over a whole sequence, on the CPU.

The input's share of the gates is one matrix product before the loop, and so are the weights'
gradients after it. Inside, a step is two small products (the cell's blocks from h and the read, the
value from h), the cell's elementwise part, and one step of the memory's walk. The backward pass
runs the loop in reverse by hand. What all this must equal is `recurrent._run_generic`.

h_t and r_t stand side by side in one table `hr` [T + 1, B, H + E*D], row 0 the initial state: a
product takes a slice of it as it is, and the walk reads into it and out of its gradient.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pushpop.layers.cells import CELLS, Cell
from pushpop.layers.state import RNNState
from pushpop.memory import MemoryState
from pushpop.memory.ops import KINDS, WALKABLE
from pushpop.memory.state import Walked

if TYPE_CHECKING:
    from pushpop.layers.recurrent import MemoryRNN

NAMES: dict[type[nn.Module], str] = {cell: name for name, cell in CELLS.items()}


def can_run(layer: "MemoryRNN", x: Tensor) -> bool:
    """Whether the layer's cell, dtype and device are known here."""
    return type(layer.cell) in NAMES and x.device.type == "cpu" and x.dtype in WALKABLE


def run(
    layer: "MemoryRNN", x: Tensor, state: RNNState, sizes: list[int]
) -> tuple[Tensor, RNNState]:
    """x [T, B, I] with sizes[t] rows at step t -> hidden [T, B, H] and the state after each row."""
    T, B, _ = x.shape
    if T == 0 or B == 0:
        return x.new_zeros(T, B, layer.hidden_size), state
    cell, name = layer.cell, NAMES[type(layer.cell)]
    assert isinstance(cell, Cell)
    H, reads = layer.hidden_size, layer.ends * layer.memory.width
    recurrent, by_x, bias = _arrange(name, cell, layer.input_size)
    cells = state.memory._cells()
    hidden, hr, c, values, strengths, rows, counts, *_ = recurrence(
        KINDS.index(layer.memory.kind), name, sizes, nn.functional.linear(x, by_x, bias),
        recurrent, layer.value.weight, layer.value.bias, layer.gates.weight, layer.gates.bias,
        state.parts[0], state.parts[-1], state.read.flatten(1), *cells,
    )  # fmt: skip
    batch = torch.arange(B)
    last = torch.tensor([sum(size > row for size in sizes) for row in range(B)])
    h, read = hr[last, batch].split([H, reads], dim=1)
    after = RNNState(
        (h, c[last, batch]) if layer.has_c else h,
        read.unflatten(1, (2, -1)) if layer.ends == 2 else read,
        MemoryState._holding(Walked(strengths, rows, counts, values, cells.values)),
    )
    return hidden, after


def _arrange(name: str, cell: Cell, input_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights over (h, read), weights over x, and bias, in the blocks that `elementwise` works on.

    An LSTM's three sigmoids come first. A GRU multiplies h's share of its third block by a gate, so
    that share is a fourth block.
    """
    over_x, over_read = cell.weight_ih[:, :input_size], cell.weight_ih[:, input_size:]
    over_h, bias = cell.weight_hh, cell.bias
    whole = torch.cat([over_h, over_read], dim=1)
    if name == "lstm":
        return tuple(  # type: ignore[return-value]
            torch.cat([blocks[0], blocks[1], blocks[3], blocks[2]])
            for blocks in (x.chunk(4) for x in (whole, over_x, bias))
        )
    if name == "rnn":
        return whole, over_x, bias
    H = over_h.shape[1]
    new_h, new_read = over_h[2 * H :], over_read[2 * H :]
    rows = [
        whole[: 2 * H],
        torch.cat([torch.zeros_like(new_h), new_read], dim=1),
        torch.cat([new_h, torch.zeros_like(new_read)], dim=1),
    ]
    zeros = torch.zeros_like(over_x[:H])
    return torch.cat(rows), torch.cat([over_x, zeros]), torch.cat([bias, zeros[:, 0]])


@torch.library.custom_op("pushpop::recurrence", mutates_args=(), device_types="cpu")
def recurrence(
    kind: int, cell: str, sizes: list[int], projected: Tensor, recurrent: Tensor,
    value_weight: Tensor, value_bias: Tensor, gate_weight: Tensor, gate_bias: Tensor,
    h: Tensor, c: Tensor, read: Tensor, initial: Tensor, strengths: Tensor,
) -> list[Tensor]:  # fmt: skip
    """h [T, B, H]; hr; c [T + 1, B, H]; values [T, B, E, D]; strengths, rows and counts of the
    final cells (`memory.state.Walked`); the cell's blocks, the gates, and the walk's log.
    """
    from pushpop.layers.elementwise import FORWARD, gates_forward
    from pushpop.memory.walker import Walker

    out = _outputs(projected, recurrent, gate_bias, h, initial, strengths)
    hidden, hr, cs, values, final_s, final_rows, counts, acts, gates, *log = out
    (T, B, _), H = projected.shape, h.shape[1]
    if sizes[-1] < B:  # padded steps are never written, but they take part in products
        for x in (hr, cs, values, acts, gates):
            x.zero_()
    hr[0, :, :H], hr[0, :, H:], cs[0] = h, read, c
    by_hr, by_h = _padded(recurrent.T), value_weight.T.contiguous()
    walker = Walker(kind, hr, H, values, gates, initial, strengths, log)
    flat_values = values.view(T, B, -1)
    arrays = [x.numpy() for x in (hr, acts, cs)]
    gate_tensors = (gate_weight.contiguous(), gate_bias.contiguous(), gates, flat_values)
    gate_arrays = [arrays[0], *(x.numpy() for x in gate_tensors)]
    forward = FORWARD[cell]
    for t, n in enumerate(sizes):
        if n == 0:
            break
        x = _rows(projected, t, n)
        torch.addmm(x, _rows(hr, t, n), by_hr, out=_rows(acts, t, n))
        forward(t, n, *arrays)
        h = _rows(hr, t + 1, n)[:, :H]
        torch.addmm(value_bias, h, by_h, out=_rows(flat_values, t, n))
        gates_forward(t, n, *gate_arrays)
        walker.step(t, n)
    walker.finish(final_s, final_rows, counts)
    hidden.copy_(hr[1:, :, :H])
    return out


def _rows(x: Tensor, t: int, n: int) -> Tensor:
    """The first n rows of step t. Views are made when needed: many at once wake the collector."""
    return x[t] if n == x.shape[1] else x[t, :n]


@recurrence.register_fake
def _(
    kind: int, cell: str, sizes: list[int], projected: Tensor, recurrent: Tensor,
    value_weight: Tensor, value_bias: Tensor, gate_weight: Tensor, gate_bias: Tensor,
    h: Tensor, c: Tensor, read: Tensor, initial: Tensor, strengths: Tensor,
) -> list[Tensor]:  # fmt: skip
    return _outputs(projected, recurrent, gate_bias, h, initial, strengths)


def _outputs(
    projected: Tensor, recurrent: Tensor, gate_bias: Tensor, h: Tensor, initial: Tensor,
    strengths: Tensor,
) -> list[Tensor]:  # fmt: skip
    T, B, blocks = projected.shape
    E = gate_bias.shape[0] // 2
    room = strengths.shape[1] + T * E
    new = projected.new_empty
    return [
        new(T, B, h.shape[1]),
        new(T + 1, B, recurrent.shape[1]),
        new(T + 1, B, h.shape[1]),
        new(T, B, E, initial.shape[2]),
        new(B, room),
        new(B, room, dtype=torch.int64),
        new(B, dtype=torch.int64),
        new(T, B, blocks),
        new(T, B, 2 * E),
        new(B, room, dtype=torch.int64),
        new(B, room),
        projected.new_zeros(T * B, 2, dtype=torch.int64),
        projected.new_zeros(T * B, 2),
    ]


def _padded(weight: Tensor) -> Tensor:
    """The same matrix with rows a little longer in memory: rows of a power of two collide in the
    cache, and a small product then takes up to half as long again.
    """
    n, m = weight.shape
    return weight.new_empty(n, m + 16)[:, :m].copy_(weight)


@torch.library.custom_op("pushpop::recurrence_backward", mutates_args=(), device_types="cpu")
def recurrence_backward(
    kind: int, cell: str, sizes: list[int], recurrent: Tensor, value_weight: Tensor,
    gate_weight: Tensor, initial: Tensor, saved: list[Tensor],
    grad_h: Tensor | None, grad_hr: Tensor | None, grad_c: Tensor | None,
    grad_values: Tensor | None, grad_s: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """The gradients of `recurrence`'s tensors, in its order."""
    from pushpop.layers.elementwise import BACKWARD, gates_backward
    from pushpop.memory.walker import BackWalker

    hr, cs, values, final_s, final_rows, counts, acts, gates, *log = saved
    (T, B, _), H = acts.shape, cs.shape[2]
    new = torch.zeros if sizes[-1] < B else torch.empty
    d_hr = torch.zeros_like(hr) if grad_hr is None else grad_hr.clone()
    if grad_h is not None:
        d_hr[1:, :, :H] += grad_h
    d_c = hr.new_zeros(B, H)
    d_z, d_values, d_gates = (new(x.shape, dtype=x.dtype) for x in (acts, values, gates))
    walker = BackWalker(
        kind, d_hr, H, values, initial, (final_s, final_rows, counts), log,
        torch.zeros_like(final_s) if grad_s is None else grad_s, d_values, d_gates,
    )  # fmt: skip
    arrays = [x.numpy() for x in (hr, d_hr, acts, cs, torch.tanh(cs[1:]), d_c, d_z)]
    flat_values, flat_d_values = values.view(T, B, -1), d_values.view(T, B, -1)
    gate_arrays = [x.numpy() for x in (flat_values, flat_d_values, gates, d_gates)]
    gate_arrays += [gate_weight.contiguous().numpy(), arrays[1]]
    by_hr = _padded(recurrent)
    backward = BACKWARD[cell]
    for t in range(T - 1, -1, -1):
        n = sizes[t]
        if n == 0:
            continue
        walker.step(t, n)
        d_value = _rows(flat_d_values, t, n)
        if grad_values is not None:
            d_value += grad_values[t, :n].flatten(1)
        gates_backward(t, n, *gate_arrays)
        _rows(d_hr, t + 1, n)[:, :H].addmm_(d_value, value_weight)
        if grad_c is not None:
            d_c[:n] += grad_c[t + 1, :n]
        backward(t, n, *arrays)
        _rows(d_hr, t, n).addmm_(_rows(d_z, t, n), by_hr)
    d_initial, d_strengths = walker.finish()
    if grad_c is not None:
        d_c += grad_c[0]
    hidden = hr[1:].view(T * B, -1)[:, :H]
    flat = [x.view(T * B, -1) for x in (d_z, d_values, d_gates)]
    return [
        d_z, flat[0].T @ hr[:-1].view(T * B, -1),
        flat[1].T @ hidden, flat[1].sum(0), flat[2].T @ hidden, flat[2].sum(0),
        d_hr[0, :, :H].clone(), d_c, d_hr[0, :, H:].clone(), d_initial, d_strengths,
    ]  # fmt: skip


@recurrence_backward.register_fake
def _(
    kind: int, cell: str, sizes: list[int], recurrent: Tensor, value_weight: Tensor,
    gate_weight: Tensor, initial: Tensor, saved: list[Tensor],
    grad_h: Tensor | None, grad_hr: Tensor | None, grad_c: Tensor | None,
    grad_values: Tensor | None, grad_s: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    hr, cs, acts = saved[0], saved[1], saved[6]
    B, H = cs.shape[1:]
    shapes = [
        acts.shape, recurrent.shape, value_weight.shape, value_weight.shape[:1],
        gate_weight.shape, gate_weight.shape[:1], (B, H), (B, H), (B, hr.shape[2] - H),
        initial.shape, initial.shape[:2],
    ]  # fmt: skip
    return [hr.new_empty(shape) for shape in shapes]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.kind, ctx.cell, ctx.sizes, _, recurrent, value_weight, _, gate_weight, *_ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(recurrent, value_weight, gate_weight, inputs[12], *output[1:])


def _backward(ctx: Any, grads: list[Tensor | None]) -> Any:
    recurrent, value_weight, gate_weight, initial, *saved = ctx.saved_tensors
    return None, None, None, *recurrence_backward(
        ctx.kind, ctx.cell, ctx.sizes, recurrent, value_weight, gate_weight, initial, saved,
        *grads[:5],
    )  # fmt: skip


recurrence.register_autograd(_backward, setup_context=_setup_context)
