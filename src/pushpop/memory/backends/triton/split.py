"""Stacks and queues over whole sequences, split: a scalar scan a row, then all reads in parallel.

The walk changes strengths step by step, so its steps wait for each other. In a stack and in a queue
everything can be written once instead. The cells of a row are numbered: 0 .. N - 1 the initial
ones, bottom to top, N + t the one pushed at time t; `birth` [R, M], M = N + T, has the strengths
that they start with. `links` then leaves, for the cell n = N + t of each step:

- stack: `link`[n], the cell beneath n when it was pushed (-1: none), and `link_strength`[n], what
  was left of it. While n lies on it nothing changes it, so the memory at time t is the list that
  starts at n. `depth`[n] is the length of that list. Initial cells have links too.
- queue: `link`[n], the lowest cell after step t, and `link_strength`[n], what is left of it. Above
  it lie link + 1 .. n as they were pushed.

With these, `gather` computes the reads of all steps at once, and `gather_backward` the gradients of
all cells at once. There a cell goes through the steps of its life in their order: each sum has one
owner and one order, so that the result is the same every time.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from pushpop.memory import kinds
from pushpop.memory.backends.triton import (
    OF_CELLS,
    block_options,
    on_device_of,
    tile_options,
)
from pushpop.memory.backends.triton.walk import STACK
from pushpop.memory.operators import Operator, WalkGradients, WalkInput
from pushpop.memory.state import Cells, SequenceResult, WalkResult


@triton.jit(do_not_specialize=["T", "N"])
def links(
    birth, pop, link, link_strength, depth, T, N, KIND: tl.constexpr, CELLS: tl.constexpr
):  # fmt: skip
    """The links of one row; grid (R,), one warp. pop [R, T], the others [R, M].

    From the first NaN of a row on, its link strengths are NaN.
    """
    row = tl.program_id(0).to(tl.int64)
    M = N + T
    birth += row * M
    link += row * M
    link_strength += row * M
    depth += row * M
    pop += row * T
    nan_flag = tl.full([], 0.0, birth.dtype.element_ty)
    for start in range(0, N, CELLS):
        n = start + tl.arange(0, CELLS)
        beneath = tl.load(birth + n - 1, mask=(n > 0) & (n < N), other=0.0)
        total = tl.sum(tl.load(birth + n, mask=n < N, other=0.0))
        nan_flag = tl.where(total != total, total, nan_flag)
        tl.store(link + n, n - 1, mask=n < N)
        tl.store(link_strength + n, beneath, mask=n < N)
        tl.store(depth + n, n + 1, mask=n < N)
    tl.debug_barrier()
    cell = N - 1 if KIND == STACK else N * 0  # where a pop begins, and what is left of it
    x = tl.load(birth + cell, mask=(cell >= 0) & (cell < N), other=0.0)
    for t in range(T):
        new = N + t
        rest = tl.load(pop + t)
        pushed = tl.load(birth + new)
        if N + t == 0:
            x = pushed
        total = rest + pushed
        nan_flag = tl.where(total != total, total, nan_flag)
        if KIND == STACK:
            while (cell >= 0) & (x <= rest):
                rest -= x
                x = tl.load(link_strength + cell)
                cell = tl.load(link + cell)
            x = tl.where((cell >= 0) & (rest > 0), x - rest, x)
            tl.store(link + new, cell)
            tl.store(link_strength + new, tl.where(cell >= 0, x, 0.0) + nan_flag)
            tl.store(depth + new, tl.load(depth + cell, mask=cell >= 0, other=0) + 1)
            tl.debug_barrier()
            cell = new
            x = pushed + nan_flag
        else:
            while (cell < new) & (x <= rest):
                rest -= x
                cell += 1
                x = tl.load(birth + cell)
            x = tl.where((cell < new) & (rest > 0), x - rest, x)
            tl.store(link + new, cell)
            tl.store(link_strength + new, x + nan_flag)
            tl.store(depth + new, new - cell + 1)


@triton.jit(do_not_specialize=["T", "N"])
def links_backward(
    birth, pop, link, link_strength, grad_link, grad_birth, grad_pop, T, N,
    KIND: tl.constexpr, CELLS: tl.constexpr,
):  # fmt: skip
    """The gradients of births and pops from those of the link strengths; grid (R,), one warp.

    grad_birth has zeros before; grad_link is added to on the way.
    """
    row = tl.program_id(0).to(tl.int64)
    M = N + T
    birth += row * M
    link += row * M
    link_strength += row * M
    grad_link += row * M
    grad_birth += row * M
    pop += row * T
    grad_pop += row * T
    for back in range(T):
        t = T - 1 - back
        new = N + t
        g = tl.load(grad_link + new)
        rest = tl.load(pop + t)
        # Where the pop began, what was left of that cell, and where the gradient of that goes.
        if KIND == STACK:
            first = new - 1
            first_strength = tl.load(birth + first, mask=first >= 0, other=0.0)
            first_to = grad_birth + first
            end = -1
        else:
            first = tl.load(link + new - 1, mask=t > 0, other=0)
            first_strength = tl.load(link_strength + new - 1, mask=t > 0, other=0.0)
            first_to = grad_link + new - 1
            if t == 0:
                first_strength = tl.load(birth, mask=N > 0, other=0.0)
            if (t == 0) | (first == new - 1):
                first_to = grad_birth + first
            end = new
        cell = first
        x = first_strength
        n_dropped = 0
        while (cell != end) & (x <= rest):
            rest -= x
            n_dropped += 1
            if KIND == STACK:
                x = tl.load(link_strength + cell)
                cell = tl.load(link + cell)
            else:
                cell += 1
                x = tl.load(birth + cell, mask=cell < new, other=0.0)
        trims = (cell != end) & (rest > 0)
        tl.store(grad_pop + t, tl.where(trims, -g, 0.0))
        cell = first
        x = first_strength
        to = first_to
        for k in range(n_dropped + 1):  # the dropped cells, and the one where the pop ended
            # A cell without strength has a gradient at the first pop after its push, no later.
            reached = (x != 0) | (cell == new - 1) | (t == 0)
            here = (cell != end) & (trims | (k == n_dropped)) & reached
            total = tl.load(to, mask=here, other=0.0) + g
            tl.debug_barrier()
            tl.store(to, total, mask=here)
            if KIND == STACK:
                to = grad_link + cell
                x = tl.load(link_strength + cell, mask=cell >= 0, other=0.0)
                cell = tl.load(link + cell, mask=cell >= 0, other=-1)
            else:
                cell += 1
                to = grad_birth + cell
                x = tl.load(birth + cell, mask=cell < new, other=0.0)
        tl.debug_barrier()
    if KIND == STACK:  # what lies beneath an initial cell is as it was given
        for start in range(0, N - 1, CELLS):
            n = start + tl.arange(0, CELLS)
            there = n < N - 1
            total = tl.load(grad_birth + n, mask=there, other=0.0)
            total += tl.load(grad_link + n + 1, mask=there, other=0.0)
            tl.store(grad_birth + n, total, mask=there)


@triton.jit
def _value(pushed, initial, cell, row, R, N, D):
    """The pointer to a cell's value, or to the gradient of it."""
    number = row * 0 + cell
    return tl.where(
        number >= N, pushed + ((number - N) * R + row) * D, initial + (row * N + number) * D
    )


@triton.jit(do_not_specialize=["T", "R", "N"])
def gather(
    pushed, initial, birth, link_strength, link, reads, n_full, cut, cut_cell, T, R, N, D,
    KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The reads of all steps; grid (T*R, blocks of D).

    For the backward pass, of every window [T, R]: how many cells it holds in full, the cell that it
    cuts and how much of that it holds (0: it cuts none).
    """
    at = tl.program_id(0).to(tl.int64)
    row = at % R
    new = N + (at // R).to(tl.int32)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    birth += row * (N + T)
    link += row * (N + T)
    link_strength += row * (N + T)
    left = tl.load(link_strength + new)
    cell = new
    x = tl.load(birth + new)
    if KIND != STACK:
        cell = tl.load(link + new)
        x = left
    rest = tl.full([], 1.0, birth.dtype.element_ty)
    last_rest = rest * 0
    last_cell = tl.full([], -1, tl.int32)
    full = 0
    total = tl.zeros([BLOCK], birth.dtype.element_ty) + tl.where(left != left, left, 0.0)
    while (cell >= 0) & (cell <= new) & (rest > 0):
        weight = tl.where(x <= rest, x, rest)
        there = columns < tl.where(weight > 0, D, 0)
        v = tl.load(_value(pushed, initial, cell, row, R, N, D) + columns, mask=there, other=0.0)
        total += weight * v.to(birth.dtype.element_ty)
        # A plain `last_cell = cell` is compiled wrongly (Triton 3.7.1): it stays as it began.
        last_cell = tl.where(x <= rest, last_cell, cell)
        last_rest = tl.where(x <= rest, 0.0, rest)
        full += tl.where(x <= rest, 1, 0)
        rest = tl.where(x <= rest, rest - x, 0.0)
        if KIND == STACK:
            x = tl.load(link_strength + cell)
            cell = tl.load(link + cell)
        else:
            cell += 1
            x = tl.load(birth + cell, mask=cell <= new, other=0.0)
    tl.store(reads + at * D + columns, total, mask=columns < D)
    if tl.program_id(1) == 0:
        tl.store(n_full + at, full)
        tl.store(cut + at, last_rest)
        tl.store(cut_cell + at, last_cell)


@triton.jit(do_not_specialize=["R", "N"])
def cut_products(
    pushed, initial, grad_reads, cut, cut_cell, cut_product, R, N, D, BLOCK: tl.constexpr
):  # fmt: skip
    """<grad, v> of the cell that each window cuts, 0 if it cuts none; grid (T*R,)."""
    at = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    there = columns < tl.where(tl.load(cut + at) > 0, D, 0)
    source = _value(pushed, initial, tl.load(cut_cell + at), at % R, R, N, D)
    v = tl.load(source + columns, mask=there, other=0.0).to(cut.dtype.element_ty)
    grad = tl.load(grad_reads + at * D + columns, mask=there, other=0.0).to(cut.dtype.element_ty)
    tl.store(cut_product + at, tl.sum(grad * v))


@triton.jit(do_not_specialize=["T", "R", "N"])
def gather_backward(
    pushed, initial, grad_reads, birth, link_strength, link, depth, n_full, cut, cut_product,
    grad_pushed, grad_initial, grad_birth, grad_link, T, R, N, D,
    KIND: tl.constexpr, BLOCK: tl.constexpr, TIMES: tl.constexpr,
):  # fmt: skip
    """The gradients of each cell's value and strengths; grid (M*R,), TIMES steps at once.

    grad_link has zeros before. Each of its numbers belongs to one cell: of a stack, that beneath;
    of a queue, the lowest.
    """
    cell = (tl.program_id(0) // R).to(tl.int32)
    row = (tl.program_id(0) % R).to(tl.int64)
    birth += row * (N + T)
    link += row * (N + T)
    link_strength += row * (N + T)
    depth += row * (N + T)
    grad_birth += row * (N + T)
    grad_link += row * (N + T)
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    source = _value(pushed, initial, cell, row, R, N, D) + columns
    v = tl.load(source, mask=inside, other=0.0).to(birth.dtype.element_ty)
    own = tl.load(birth + cell)
    own_depth = tl.load(depth + cell)
    sum_value = tl.zeros([BLOCK], birth.dtype.element_ty)
    sum_birth = own * 0
    sum_link = own * 0
    above = tl.where(cell + 1 < N, cell + 1, -1)  # the cell on top of this one, of a stack
    t = tl.where(cell > N, cell - N, 0)
    while t < T:
        times = t + tl.arange(0, TIMES)
        there = times < T
        at = times.to(tl.int64) * R + row
        beneath = tl.load(link + N + times, mask=there, other=-1)
        full = tl.load(n_full + at, mask=there, other=0)
        rest = tl.load(cut + at, mask=there, other=0.0)
        is_new = times == cell - N
        later = times > cell - N
        if KIND == STACK:
            death = tl.min(tl.where(later & (beneath < cell), times, T), 0)
            lives = times < death
            covers = lives & later & (beneath == cell)
            earlier = times[None, :] <= times[:, None]
            newest = tl.max(
                tl.where(earlier & covers[None, :], N + times[None, :], above), 1
            )  # the cell on top of this one after each step
            k = tl.load(depth + N + times, mask=there, other=0) - own_depth
            beneath_newest = tl.load(link_strength + newest, mask=later & lives, other=0.0)
            strength = tl.where(later, beneath_newest, own)
        else:
            death = tl.min(tl.where(there & (beneath > cell), times, T), 0)
            lives = times < death
            k = cell - beneath
            lowest = (k == 0) & later
            left = tl.load(link_strength + N + times, mask=there, other=0.0)
            strength = tl.where(lowest, left, own)
        in_full = lives & (k < full)
        weight = tl.where(in_full, strength, tl.where(lives & (k == full), rest, 0.0))
        gains = in_full & ((strength != 0) | is_new)
        if KIND != STACK:
            # Pushed with strength 0, it is read in full (0 <= 0) even beyond the window.
            beyond = is_new & (strength == 0)
            gains = gains | beyond
        used = gains | (weight > 0)
        gain = tl.zeros([TIMES], birth.dtype.element_ty)
        if tl.max(used.to(tl.int32), 0) > 0:
            of_used = used[:, None] & inside[None, :]
            grad = tl.load(grad_reads + at[:, None] * D + columns[None, :], mask=of_used, other=0.0)
            grad = grad.to(birth.dtype.element_ty)
            sum_value += tl.sum(weight[:, None] * grad, 0)
            of_cut = tl.load(cut_product + at, mask=gains, other=0.0)
            if KIND != STACK:
                of_cut = tl.where(beyond, 0.0, of_cut)
            gain = tl.where(gains, tl.sum(grad * v[None, :], 1) - of_cut, 0.0)
        if KIND == STACK:
            sum_birth += tl.sum(tl.where(is_new, gain, 0.0))
            gain = tl.where(is_new, 0.0, gain)
            sum_link += tl.sum(tl.where(newest == above, gain, 0.0))
            top = tl.max(newest, 0)
            if top != above:
                tl.store(grad_link + above, sum_link, mask=above >= 0)
                under = tl.where(newest[None, :] == N + times[:, None], gain[None, :], 0.0)
                ended = covers & (N + times != top)
                tl.store(grad_link + N + times, tl.sum(under, 1), mask=ended)
                sum_link = tl.sum(tl.where(newest == top, gain, 0.0))
                above = top
        else:
            tl.store(grad_link + N + times, gain, mask=gains & lowest)
            sum_birth += tl.sum(tl.where(lowest, 0.0, gain))
        t = tl.where(death < T, T, t + TIMES)
    if KIND == STACK:
        tl.store(grad_link + above, sum_link, mask=above >= 0)
    tl.store(grad_birth + cell, sum_birth)
    to = _value(grad_pushed, grad_initial, cell, row, R, N, D) + columns
    tl.store(to, sum_value, mask=inside)


@dataclass(eq=False)
class SplitResult(SequenceResult):
    """The cells that a sequence leaves, found by their links."""

    kind: int
    birth: Tensor  # [B, N + T]
    link_strength: Tensor
    link: Tensor
    tensors = ("pushed", "initial", "birth", "link_strength")

    def cells(self) -> Cells:
        B, M = self.birth.shape
        N = self.initial.shape[1]
        live, strengths = (self._of_stack if self.kind == kinds.STACK else self._of_queue)()
        places = torch.arange(M, device=self.birth.device)
        newest = places == M - 1
        # A row that met a NaN keeps it at its top; adding it elsewhere would add NaN to 0 there.
        last = self.link_strength[:, -1:].detach()
        strengths = torch.where(newest & last.isnan(), last, strengths)
        # Only a cell just pushed can have a gradient without strength.
        keep = live & ((strengths != 0) | newest)
        rows = torch.arange(B, device=self.birth.device)[:, None]
        row_ids = torch.where(places >= N, (places - N) * B + rows, ~(rows * N + places))
        order = keep.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
        walked = WalkResult(
            self.pushed,
            self.initial,
            torch.where(keep, strengths, 0).gather(1, order),
            row_ids.gather(1, order),
            keep.sum(1),
            versions=self.versions,
        )
        return walked.cells()

    def _of_stack(self) -> tuple[Tensor, Tensor]:
        """Which cells are on the list of the last one, and their strengths, [B, M] each."""
        M = self.birth.shape[1]
        places = torch.arange(M, device=self.birth.device)
        # Live: no later cell was pushed onto one further down. The strength of a live cell is the
        # link strength of the next one.
        lowest_later = _smallest_after(self.link.long(), M)
        live = lowest_later >= places
        above = _smallest_after(torch.where(live, places, M), M).clamp(max=M - 1)
        beneath = self.link_strength.gather(1, above)
        return live, torch.cat([beneath[:, :-1], self.birth[:, -1:]], dim=1)

    def _of_queue(self) -> tuple[Tensor, Tensor]:
        places = torch.arange(self.birth.shape[1], device=self.birth.device)
        lowest = self.link[:, -1:]
        trimmed = (places == lowest) & (places < len(places) - 1)
        return places >= lowest, torch.where(trimmed, self.link_strength[:, -1:], self.birth)


def _smallest_after(x: Tensor, none: int) -> Tensor:
    """min_{j > i} x[:, j] for every i; `none` at the last."""
    later = torch.nn.functional.pad(x[:, 1:], (0, 1), value=none)
    return later.flip(1).cummin(1).values.flip(1)


class SplitOutput(NamedTuple):
    """The reads, the links that `links` leaves, and of every window how many cells it holds in
    full, how much of the cell that it cuts, and that cell."""

    reads: Tensor  # [T, B, 1, D]
    birth: Tensor  # [B, M]
    link_strength: Tensor  # [B, M]
    link: Tensor  # [B, M]
    depth: Tensor  # [B, M]
    n_full: Tensor  # [T, B]
    cut: Tensor  # [T, B]
    cut_cell: Tensor  # [T, B]


class SplitBackwardInput(NamedTuple):
    """What the backward pass takes."""

    kind: int
    values: Tensor
    pop: Tensor
    initial: Tensor
    birth: Tensor
    link_strength: Tensor
    link: Tensor
    depth: Tensor
    n_full: Tensor
    cut: Tensor
    cut_cell: Tensor
    grad_reads: Tensor | None
    grad_birth: Tensor | None
    grad_link_strength: Tensor | None


def run(
    kind: int, values: Tensor, push: Tensor, pop: Tensor, cells: Cells
) -> tuple[Tensor, SplitResult]:
    """values [T, B, 1, D], push and pop [T, B, 1], some cells -> reads [T, B, 1, D], and what is
    left."""
    out = split(WalkInput(kind, values, push, pop, cells.values, cells.strengths))
    left = SplitResult(values, cells.values, kind, out.birth, out.link_strength, out.link)
    return out.reads, left


def run_split(inputs: WalkInput) -> SplitOutput:
    """Launch `links`, then `gather`."""
    out, (T, B, _, D) = _empty_split(inputs), inputs.values.shape
    N = inputs.initial.shape[1]
    torch.cat([inputs.strengths, inputs.push[..., 0].T], dim=1, out=out.birth)
    if B == 0:
        return out
    pop, block = inputs.pop[..., 0].T.contiguous(), min(256, block_options(D)["BLOCK"])
    with on_device_of(inputs.values):
        links[(B,)](
            out.birth, pop, out.link, out.link_strength, out.depth, T, N, KIND=inputs.kind,
            **OF_CELLS,
        )  # fmt: skip
        gather[(T * B, triton.cdiv(D, block))](
            inputs.values.contiguous(), inputs.initial.contiguous(), out.birth, out.link_strength,
            out.link, out.reads, out.n_full, out.cut, out.cut_cell, T, B, N, D,
            KIND=inputs.kind, BLOCK=block, num_warps=1,
        )  # fmt: skip
    return out


def _empty_split(inputs: WalkInput) -> SplitOutput:
    (T, B), new = inputs.values.shape[:2], inputs.strengths.new_empty
    M = inputs.initial.shape[1] + T
    return SplitOutput(
        reads=inputs.values.new_empty(inputs.values.shape),
        birth=new(B, M),
        link_strength=new(B, M),
        link=new(B, M, dtype=torch.int32),
        depth=new(B, M, dtype=torch.int32),
        n_full=new(T, B, dtype=torch.int32),
        cut=new(T, B),
        cut_cell=new(T, B, dtype=torch.int32),
    )


def run_split_backward(inputs: SplitBackwardInput) -> WalkGradients:
    """Launch `cut_products` and `gather_backward`, then `links_backward`."""
    T, B, _, D = inputs.values.shape
    N = inputs.initial.shape[1]
    pop = inputs.pop[..., 0].T.contiguous()
    values, initial = inputs.values.contiguous(), inputs.initial.contiguous()
    new = torch.zeros_like if inputs.grad_reads is None else torch.empty_like
    d_values, d_initial, d_birth = map(new, (values, initial, inputs.birth))
    d_link_strength, d_linked = torch.zeros_like(inputs.birth), torch.zeros_like(inputs.birth)
    d_pop = torch.zeros_like(pop)
    if B:
        with on_device_of(values):
            if inputs.grad_reads is not None:
                grad, cut_product = inputs.grad_reads.contiguous(), torch.empty_like(inputs.cut)
                cut_products[(T * B,)](
                    values, initial, grad, inputs.cut, inputs.cut_cell, cut_product, B, N, D,
                    **block_options(D, backward=True),
                )  # fmt: skip
                gather_backward[((N + T) * B,)](
                    values, initial, grad, inputs.birth, inputs.link_strength, inputs.link,
                    inputs.depth, inputs.n_full, inputs.cut, cut_product, d_values, d_initial,
                    d_birth, d_link_strength, T, B, N, D, KIND=inputs.kind, **tile_options(D),
                )  # fmt: skip
            if inputs.grad_link_strength is not None:
                d_link_strength += inputs.grad_link_strength
            links_backward[(B,)](
                inputs.birth, pop, inputs.link, inputs.link_strength, d_link_strength, d_linked,
                d_pop, T, N, KIND=inputs.kind, **OF_CELLS,
            )  # fmt: skip
    d_birth += d_linked
    if inputs.grad_birth is not None:
        d_birth += inputs.grad_birth
    return WalkGradients(
        values=d_values,
        push=_copy(d_birth[:, N:].T[..., None]),
        pop=_copy(d_pop.T[..., None]),
        initial=d_initial,
        strengths=_copy(d_birth[:, :N]),
    )


def _copy(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _empty_split_gradients(inputs: SplitBackwardInput) -> WalkGradients:
    values, pop, initial = inputs.values, inputs.pop, inputs.initial
    return WalkGradients(
        values=values.new_empty(values.shape),
        push=pop.new_empty(pop.shape),
        pop=pop.new_empty(pop.shape),
        initial=initial.new_empty(initial.shape),
        strengths=pop.new_empty(initial.shape[:2]),
    )


split = Operator(
    "split",
    run_split,
    _empty_split,
    "triton",
    Operator("split_backward", run_split_backward, _empty_split_gradients, "triton"),
)
