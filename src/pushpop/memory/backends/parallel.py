"""The memory as intervals on a line: the closed form, whole sequences at once, any device.

A cell of strength d is an interval of length d between two pointers, `top` and `bottom`. Pops move
the pointers towards each other and cut off what lies outside them; pushes move them apart. With all
controls known, where the pointers are is a running sum, and what is left of a cell pushed at time i
is [max(lo_i, highest bottom since), min(hi_i, lowest top since)]. Reads weigh values by the overlap
of their intervals with a unit window at an end: one matrix product, as in attention.

When pops empty the memory its pointers meet, exactly, and a stack or deque starts again at 0.
Pointers are float64 whatever the dtype of the values.

Reads are exact everywhere. Gradients are exact away from ties and finite at ties, where they may be
another subgradient than the paper's (a pop that ends exactly on the boundary between two cells).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from pushpop.memory.operators import under_transform
from pushpop.memory.state import drop_dead, would_sync

BLOCK = 64  # steps weighed against each other at once; near the fastest on a CPU


class Controls(NamedTuple):
    """What each end does at each step, [T, B] in float64; `None` where an end is idle."""

    push_top: Tensor
    pop_top: Tensor | None
    push_bottom: Tensor | None
    pop_bottom: Tensor | None


class Pointers(NamedTuple):
    """The two pointers after the pops of each step, [T, B]."""

    top: Tensor
    bottom: Tensor


def run(
    kind: str,
    values: Tensor,
    push: Tensor,
    pop: Tensor,
    V: Tensor,
    s: Tensor,
    block: int = BLOCK,
) -> tuple[Tensor, Tensor, Tensor]:
    """values [T, B, E, D], push and pop [T, B, E], V [B, N, D], s [B, N] -> reads, V, s.

    Works through blocks of time: a block weighs its own cells and those it can reach, and between
    blocks only cells with strength are kept.
    """
    is_nan = _after_nan(push, pop, s)
    push, pop = (torch.where(is_nan[..., None], x, gate) for x, gate in ((1, push), (0, pop)))
    s = torch.where(s.isnan(), 0, s)
    n_blocks = max(1, round(values.shape[0] / block))
    reads = []
    parts = (x.tensor_split(n_blocks) for x in (values, push, pop))
    for v, d, u in zip(*parts, strict=True):
        block_reads, V, s = _run_block(kind, v, d, u, V, s)
        reads.append(block_reads)
        if not is_symbolic(s):
            V, s = drop_dead(V, s)
    factor = torch.where(is_nan, torch.nan, 1.0).to(s.dtype)
    return torch.cat(reads) * factor[..., None, None].to(reads[0].dtype), V, s * factor[-1, :, None]


def _after_nan(push: Tensor, pop: Tensor, s: Tensor) -> Tensor:
    """Whether a row has met a NaN by each step, [T, B].

    In the closed form a NaN would reach the steps before it and be lost between blocks. Such steps
    push 1 and pop 0 instead, which leaves a cell to carry NaN on, and what they give is made NaN.
    """
    gates = (push.detach() + pop.detach()).sum(-1)
    return (gates.cumsum(0) + s.detach().sum(1)).isnan()


def is_symbolic(x: Tensor) -> bool:
    """Whether the number of live cells is unknown: under tracing, and where reading it would
    synchronise with a GPU."""
    return torch.compiler.is_compiling() or would_sync(x) or under_transform()


def _run_block(
    kind: str, values: Tensor, push: Tensor, pop: Tensor, V: Tensor, s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    controls = _controls(kind, push, pop)
    strengths = s.to(controls.push_top.dtype)
    edges = strengths.cumsum(1)
    total = strengths.sum(1)
    pointers = _scan(controls, total)

    # Cells bottom to top: pushed at the bottom (latest first), initial, pushed at the top. Of each,
    # lower and upper edges, values, and times of birth.
    near = _within_reach(strengths, edges, total, controls)
    first_lo = (edges - strengths).gather(1, near).T
    first_hi = first_lo + strengths.gather(1, near).T
    first = V.gather(1, near[:, :, None].expand(-1, -1, V.shape[2]))
    times = torch.arange(values.shape[0], device=values.device)
    pushed = values.transpose(0, 1)
    rows = [V, pushed[:, :, 0]]
    parts = [
        (first_lo, first_hi, first, times.new_full((near.shape[1],), -1)),
        (pointers.top, pointers.top + controls.push_top, pushed[:, :, 0], times),
    ]
    n_below = 0
    if controls.push_bottom is not None:
        below_lo, below = pointers.bottom - controls.push_bottom, pushed[:, :, 1].flip(1)
        parts.insert(0, (below_lo.flip(0), pointers.bottom.flip(0), below, times.flip(0)))
        rows.insert(0, below)
        n_below = len(times)
    lo, hi, cells, born = zip(*parts, strict=True)
    low, high = _trim(torch.cat(lo), torch.cat(hi), torch.cat(born), times, pointers, controls)

    table = torch.cat(cells, dim=1)  # [B, n, D]
    reads = [
        torch.matmul(_weights(end, low, high, pointers, controls).to(V.dtype), table)
        for end in (["bottom"] if kind == "queue" else ["top", "bottom"][: values.shape[2]])
    ]
    left = torch.relu(high[:, -1] - low[:, -1]).to(s.dtype)
    left_below, left_first, left_above = left.tensor_split(
        [n_below, n_below + near.shape[1]], dim=1
    )
    s = torch.cat([left_below, s.scatter(1, near, left_first), left_above], dim=1)
    return torch.stack(reads, dim=2).transpose(0, 1), torch.cat(rows, dim=1), s


def _within_reach(s: Tensor, edges: Tensor, total: Tensor, controls: Controls) -> Tensor:
    """Which initial cells [B, n] the pops and windows of this block can touch, bottom to top.

    The others rest: they take no part in the block, so a deep memory costs no more than a shallow
    one. Rows with fewer such cells than the largest are filled up with resting ones.
    """
    everything = torch.arange(s.shape[1], device=s.device).expand(s.shape)
    if s.shape[1] <= BLOCK or is_symbolic(s):
        return everything
    with torch.no_grad():
        near = torch.zeros_like(s, dtype=torch.bool)
        if controls.pop_top is not None:
            near |= total[:, None] - edges <= 1 + controls.pop_top.sum(0)[:, None]
        if controls.pop_bottom is not None:
            near |= edges - s <= 1 + controls.pop_bottom.sum(0)[:, None]
        order = near.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
        return order[:, : int(near.sum(1).max())].sort(dim=1).values


def _controls(kind: str, push: Tensor, pop: Tensor) -> Controls:
    wide = torch.float32 if push.device.type == "mps" else torch.float64
    push, pop = push.to(wide), pop.to(wide)
    if kind == "stack":
        return Controls(push[..., 0], pop[..., 0], None, None)
    if kind == "queue":
        return Controls(push[..., 0], None, None, pop[..., 0])
    return Controls(push[..., 0], pop[..., 0], push[..., 1], pop[..., 1])


def _scan(controls: Controls, total: Tensor) -> Pointers:
    """Where the pointers are after each step's pops, from the running sums of the controls.

    The width between them is a walk reflected at 0: the memory is emptied whenever the sum of all
    pushes less all pops reaches a new minimum, and between two such times nothing is clamped.
    """
    idle = torch.zeros_like(controls.push_top)
    up = _before(controls.push_top) - (idle if controls.pop_top is None else controls.pop_top)
    down = (idle if controls.pop_bottom is None else controls.pop_bottom) - (
        idle if controls.push_bottom is None else _before(controls.push_bottom)
    )
    top, bottom = up.cumsum(0), down.cumsum(0)  # moves since the start, as if nothing were clamped

    width = (top - bottom).detach()
    floor = torch.cummin(torch.minimum(width, -total.detach()), dim=0).values
    times = torch.arange(len(width), device=width.device)[:, None]
    emptied = torch.cummax(torch.where(width <= floor, times, -1), dim=0).values  # last time, or -1
    never = emptied < 0
    since = emptied.clamp(min=0)
    bottom_then = torch.where(never, 0, bottom.gather(0, since))
    if controls.pop_top is None:  # nothing cuts from above, so the top never moves back
        top = total + top
        return Pointers(top, bottom - bottom_then + torch.where(never, 0, top.gather(0, since)))
    top_then = torch.where(never, -total, top.gather(0, since))
    return Pointers(top - top_then, bottom - bottom_then)


def _before(x: Tensor) -> Tensor:
    """x shifted one step later, 0 at the first."""
    return torch.cat([torch.zeros_like(x[:1]), x[:-1]])


def _trim(
    lo: Tensor, hi: Tensor, born: Tensor, times: Tensor, pointers: Pointers, controls: Controls
) -> tuple[Tensor, Tensor]:
    """What is left of every cell after every step's pops: [N, B] intervals -> [B, T, N] each.

    A cell not yet born has an empty interval.
    """
    later = times[:, None] > born  # [T, N]: this step's pops can cut this cell
    unborn = times[:, None] < born
    low, high = lo.T[:, None], hi.T[:, None]
    if controls.pop_bottom is not None:
        cuts = torch.where(later, pointers.bottom.T[:, :, None], -torch.inf)
        cuts = torch.cummax(cuts, dim=1).values
        low = torch.where(cuts > low, cuts, low)
    if controls.pop_top is not None:
        cuts = torch.where(later, pointers.top.T[:, :, None], torch.inf)
        cuts = torch.cummin(cuts, dim=1).values
        high = torch.where(cuts < high, cuts, high)
    shape = (lo.shape[1], len(times), lo.shape[0])
    high = torch.where(unborn, low, high).expand(shape)
    return low.expand(shape), high


def _weights(end: str, low: Tensor, high: Tensor, pointers: Pointers, controls: Controls) -> Tensor:
    """The overlap of each cell with the unit window at an end, [B, T, N].

    `where` rather than `maximum`: a cell that fills the window exactly counts as read in full.
    """
    if end == "top":
        edge = (pointers.top + controls.push_top - 1).T[:, :, None]
        return torch.relu(high - torch.where(low >= edge, low, edge))
    floor = pointers.bottom
    if controls.push_bottom is not None:
        floor = floor - controls.push_bottom
    edge = (floor + 1).T[:, :, None]
    return torch.relu(torch.where(high <= edge, high, edge) - low)
