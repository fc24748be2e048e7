"""Cells held for stepping on a GPU: each step costs what it touches, and old states stay valid.

A stream is a walk (`walk.py`) with room for more steps than were taken so far. A step
writes its values and gates behind those of the step before and changes the live cells in place. An
older state shares these buffers: the log of the pops, which the walk keeps anyway, says how to undo
the steps since.

A walk without room for another step is copied into a new one, with room for as many steps as there
may be cells. The host never waits to learn how many cells are left: half-way it asks for their
number, and if the answer has not come when the walk is full, it takes all that were pushed.

Importing this module imports Triton.
"""

import threading
from dataclasses import dataclass, field

import torch
import triton
import triton.language as tl
from torch import Tensor

from pushpop.memory import kinds
from pushpop.memory.backends.triton import OF_CELLS, block_options, live_width, on_device_of
from pushpop.memory.backends.triton.walk import (
    DEQUE,
    begin_rows,
    finish_rows,
    load_ends,
    step_rows,
    store_ends,
    undo_pops,
)
from pushpop.memory.state import Cells, Stream, WalkResult, strength_dtype

FEWEST_STEPS = 16


@triton.jit(do_not_specialize=["after", "before", "R", "room", "width"])
def rewind_rows(
    after, before, s, ids, ends, log_ids, log_strengths, dropped, trimmed_from, R, room, width,
    KIND: tl.constexpr,
):  # fmt: skip
    """Live cells after `after` steps as they were after `before`; grid (R,)."""
    row = tl.program_id(0).to(tl.int64)
    cells = s + row * width, ids + row * width, log_ids + row * room, log_strengths + row * room
    lo, hi, n_logged = load_ends(ends, row)
    at = row + (row * 0 + after) * R
    for _ in range(after - before):
        at -= R
        hi -= 1
        if KIND == DEQUE:
            lo += 1
        lo, hi, n_logged = undo_pops(
            KIND, at, cells, None, (lo, hi, n_logged), dropped, trimmed_from, None
        )
    tl.debug_barrier()
    store_ends(ends, row, lo, hi, n_logged)


class CellCount:
    """How many cells the fullest row has, asked for without waiting; [B, 4] are the ends."""

    def __init__(self, ends: Tensor) -> None:
        self._number = (ends[:, 1] - ends[:, 0]).amax()
        self._arrived: torch.cuda.Event | None = None
        if ends.is_cuda:
            on_device, self._arrived = self._number, torch.cuda.Event()
            self._number = torch.empty((), dtype=ends.dtype, pin_memory=True)
            self._number.copy_(on_device, non_blocking=True)
            self._arrived.record()

    def known(self) -> int | None:
        """The number, if it has arrived."""
        if self._number.is_meta or (self._arrived is not None and not self._arrived.query()):
            return None
        return int(self._number)


@dataclass
class SharedWalk:
    """A walk that the states of one stream share, with room for C steps."""

    kind: int
    initial: Tensor  # [B, N, D]
    values: Tensor  # [C, B, E, D]
    gates: Tensor  # [C, B, 2*E]
    s: Tensor  # [B, width]
    ids: Tensor  # [B, width]
    ends: Tensor  # [B, 4]
    log: tuple[Tensor, Tensor, Tensor, Tensor]  # as in `fused/walk.py`
    lock: threading.Lock = field(default_factory=threading.Lock)
    steps: int = 0  # taken so far
    half_way: CellCount | None = None

    @classmethod
    def begin(cls, kind: int, cells: Cells) -> "SharedWalk":
        initial, strengths = (x.detach().contiguous() for x in (cells.values, cells.strengths))
        strengths = strengths.to(strength_dtype(initial.dtype))
        with torch.inference_mode(False):  # later steps may be outside of it, and write
            B, N, D = initial.shape
            E = 2 if kind == kinds.DEQUE else 1
            steps = max(FEWEST_STEPS, N // E)
            room = N + steps * E
            width = live_width(kind, room, steps)
            whole = initial.new_empty(B, width, dtype=torch.int64)
            new = strengths.new_empty
            log = (whole.new_empty(B, room), new(B, room), whole.new_empty(steps * B, 2),
                   new(steps * B, 2))  # fmt: skip
            walk = cls(
                kind, initial, initial.new_empty(steps, B, E, D), new(steps, B, 2 * E),
                new(B, width), whole, initial.new_empty(B, 4, dtype=torch.int32), log,
            )  # fmt: skip
        with on_device_of(initial):
            begin_rows[(B,)](strengths, walk.s, walk.ids, walk.ends, N, room, width, **OF_CELLS)
        return walk

    @property
    def is_full(self) -> bool:
        return self.steps == len(self.values)

    def step(self, value: Tensor, push: Tensor, pop: Tensor) -> Tensor:
        """Take a step; the read [B, E, D]."""
        t, (_, B, E, D) = self.steps, self.values.shape
        self.steps += 1
        self.values[t].copy_(value)
        self.gates[t, :, :E].copy_(push)
        self.gates[t, :, E:].copy_(pop)
        read = torch.empty_like(self.values[t])
        with on_device_of(value):
            step_rows[(B,)](
                t, self.gates, self.values, self.initial, read, self.s, self.ids, self.ends,
                *self.log, B, D, self.log[0].shape[1], self.s.shape[1], E * D, 1,
                KIND=self.kind, **block_options(D),
            )  # fmt: skip
            if self.steps == len(self.values) // 2:
                self.half_way = CellCount(self.ends)
        return read

    def most_cells(self, steps: int) -> int:
        """As many cells as a row can have after so many steps, as far as the host knows."""
        E, half = self.values.shape[2], len(self.values) // 2
        pushed = self.initial.shape[1] + steps * E
        known = None if self.half_way is None or steps < half else self.half_way.known()
        return pushed if known is None else min(pushed, known + (steps - half) * E)

    def cells(self, steps: int) -> Cells:
        B, width = self.s.shape
        room = self.log[0].shape[1]
        s, ids, ends, log = self.s, self.ids, self.ends, self.log
        with on_device_of(s):
            if steps < self.steps:
                s, ids, ends = s.clone(), ids.clone(), ends.clone()
                rewind_rows[(B,)](
                    self.steps, steps, s, ids, ends, *log, B, room, width, KIND=self.kind,
                    num_warps=1,
                )  # fmt: skip
                log = (log[0].clone(), log[1].clone(), *log[2:])  # `finish_rows` ends it early
            strengths, row_ids = torch.empty_like(log[1]), torch.empty_like(log[0])
            counts = row_ids.new_empty(B)
            finish_rows[(B,)](
                s, ids, ends, *log[:2], strengths, row_ids, counts, room, width, **OF_CELLS
            )
        n_cells = self.most_cells(steps)
        final = (strengths[:, :n_cells], row_ids[:, :n_cells], counts)
        return WalkResult(self.values, self.initial, *final).cells()


class WalkStream(Stream):
    """One moment in the life of a walk: the cells after `steps` of its steps."""

    def __init__(self, walk: SharedWalk, steps: int) -> None:
        self.walk, self.steps = walk, steps

    @classmethod
    def of(cls, kind: int, cells: Cells) -> "WalkStream":
        return cls(SharedWalk.begin(kind, cells), 0)

    @property
    def like(self) -> Tensor:
        return self.walk.initial

    @property
    def is_old(self) -> bool:
        return self.steps < self.walk.steps

    def cells(self) -> Cells:
        with self.walk.lock:
            return self.walk.cells(self.steps)

    def advance(
        self, kind: int, value: Tensor, push: Tensor, pop: Tensor
    ) -> tuple[Tensor, "WalkStream"]:
        with self.walk.lock:
            walk = self.walk
            if self.is_old or walk.is_full or kind != walk.kind:
                walk = SharedWalk.begin(kind, walk.cells(self.steps))
            return walk.step(value, push, pop), WalkStream(walk, walk.steps)
