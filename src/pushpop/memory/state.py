"""What a memory holds between calls."""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from pushpop.memory.stream import Stream


class Cells(NamedTuple):
    """Cells as they are: values [B, N, D] and strengths [B, N]."""

    values: Tensor
    strengths: Tensor


class Walked(NamedTuple):
    """Cells as a walk leaves them: by row number, gathered only if somebody looks.

    Row r >= 0 is row r of `pushed` [T, B, E, D] flattened, row ~r that of `initial` [B, N, D].
    """

    strengths: Tensor  # [B, room]
    rows: Tensor  # [B, room]
    counts: Tensor  # [B]
    pushed: Tensor
    initial: Tensor

    def gather(self) -> Cells:
        strengths, rows = self.strengths, self.rows
        if not torch.compiler.is_compiling():  # a graph keeps the padding: its shapes are fixed
            n_cells = int(self.counts.max()) if len(self.counts) else 0
            strengths, rows = strengths[:, :n_cells], rows[:, :n_cells]
        width = self.pushed.shape[-1]
        values = self.pushed.reshape(-1, width)[rows.clamp(min=0)]
        if self.initial.shape[1]:
            initial = self.initial.reshape(-1, width)[(~rows).clamp(min=0)]
            values = torch.where((rows >= 0)[..., None], values, initial)
        places = torch.arange(rows.shape[1], device=rows.device)
        return Cells(values.masked_fill((places >= self.counts[:, None])[..., None], 0), strengths)


def versions_of(walked: Walked) -> int:
    """A number that changes when the values of these cells are changed in place; never 0."""
    return 1 + walked.pushed._version + walked.initial._version


class MemoryState:
    """The paper's (V, s): `values` [B, N, D] and `strengths` [B, N], cells ordered bottom to top.

    Rows with fewer cells are padded with strength 0, and cells without strength mean nothing: two
    states are the same if they agree once those are removed (`equal`). Gradients flow through both.
    A state is never changed by the calls that take it; `state[rows]` picks or reorders rows of the
    batch.
    """

    def __init__(self, values: Tensor, strengths: Tensor) -> None:
        if values.dim() != 3 or strengths.shape != values.shape[:2]:
            raise ValueError(
                "a memory state needs values [B, N, D] and strengths [B, N]; got "
                f"{list(values.shape)} and {list(strengths.shape)}"
            )
        if values.dtype != strengths.dtype or values.device != strengths.device:
            raise ValueError(
                "values and strengths of a memory state must share dtype and device; got "
                f"{values.dtype} on {values.device} and {strengths.dtype} on {strengths.device}"
            )
        self._held: Cells | Walked | Stream = Cells(values, strengths)
        self._versions = 0

    @classmethod
    def _holding(cls, held: "Cells | Walked | Stream", versions: int = 0) -> "MemoryState":
        state = cls.__new__(cls)
        state._held, state._versions = held, versions
        return state

    def _cells(self) -> Cells:
        held = self._held
        if isinstance(held, Walked):
            watched = self._versions and not torch.compiler.is_compiling()
            if watched and self._versions != versions_of(held):
                raise RuntimeError(
                    "the values given to a memory were changed in place before the state it "
                    "returned was used; give it a copy, or look at state.values first"
                )
            self._held = held.gather()
        elif not isinstance(held, Cells):
            self._held = Cells(*held.dense())
        assert isinstance(self._held, Cells)
        return self._held

    @property
    def values(self) -> Tensor:
        """The vectors in the memory, [B, N, D], bottom to top."""
        return self._cells().values

    @property
    def strengths(self) -> Tensor:
        """How much is left of each, [B, N], in [0, 1]."""
        return self._cells().strengths

    @property
    def batch_size(self) -> int:
        """B, the number of rows."""
        return self._shape()[0]

    @property
    def width(self) -> int:
        """D, the length of a value."""
        return self._shape()[1]

    def _shape(self) -> tuple[int, int]:
        held = self._held
        if isinstance(held, Cells):
            return held.values.shape[0], held.values.shape[2]
        if isinstance(held, Walked):
            return held.strengths.shape[0], held.pushed.shape[-1]
        return held.shape

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of values and strengths."""
        held = self._held
        return held.dtype if not isinstance(held, (Cells, Walked)) else held.strengths.dtype

    @property
    def device(self) -> torch.device:
        """The device of values and strengths."""
        held = self._held
        return held.strengths.device if isinstance(held, (Cells, Walked)) else torch.device("cpu")

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient can flow back through this state."""
        held = self._held
        return isinstance(held, (Cells, Walked)) and any(x.requires_grad for x in held)

    def detach(self) -> "MemoryState":
        """The same cells, cut off from the graph that made them."""
        held = self._held
        if isinstance(held, (Cells, Walked)):
            held = type(held)(*(x.detach() for x in held))
        return MemoryState._holding(held, self._versions)

    def compact(self) -> "MemoryState":
        """The same cells without those of strength 0, as few as the fullest row has.

        Calls outside `torch.compile` do this by themselves. A compiled step cannot, because a graph
        does not know how many cells are live: a loop of compiled steps calls it now and then.
        """
        keep = self.strengths != 0
        n_cells = int(keep.sum(1).max()) if keep.numel() else 0
        order = keep.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :n_cells]
        values = self.values.gather(1, order[..., None].expand(-1, -1, self.width))
        return MemoryState(values, self.strengths.gather(1, order))

    def to(self, *args: Any, **kwargs: Any) -> "MemoryState":
        """The same cells on another device or in another dtype, as `Tensor.to`."""
        return MemoryState(self.values.to(*args, **kwargs), self.strengths.to(*args, **kwargs))

    def __getitem__(self, rows: Any) -> "MemoryState":
        if isinstance(rows, int):
            raise TypeError(
                f"a memory state is indexed by rows of the batch, as a list or tensor; got {rows}, "
                f"did you mean [[{rows}]]?"
            )
        return MemoryState(self.values[rows], self.strengths[rows])

    @classmethod
    def join(cls, states: "list[MemoryState]") -> "MemoryState":
        """One state of all their rows, one after the other."""
        n_cells = max(state.strengths.shape[1] for state in states)
        missing = [n_cells - state.strengths.shape[1] for state in states]
        pairs = list(zip(states, missing, strict=True))
        values = [torch.nn.functional.pad(s.values, (0, 0, 0, n)) for s, n in pairs]
        strengths = [torch.nn.functional.pad(s.strengths, (0, n)) for s, n in pairs]
        return cls(torch.cat(values), torch.cat(strengths))

    def equal(self, other: "MemoryState", rtol: float = 0.0, atol: float = 0.0) -> bool:
        """Whether both hold the same cells, up to cells without strength and the tolerance."""
        if (self.batch_size, self.width) != (other.batch_size, other.width):
            return False
        pairs = zip(_live_rows(self), _live_rows(other), strict=True)
        return all(
            mine.shape == theirs.shape and torch.allclose(mine, theirs, rtol=rtol, atol=atol)
            for mine, theirs in pairs
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryState, (self.values, self.strengths)

    def __repr__(self) -> str:
        n_cells = self.strengths.shape[1]
        return f"MemoryState(batch={self.batch_size}, cells={n_cells}, width={self.width})"


def _live_rows(state: MemoryState) -> list[Tensor]:
    """A row's live cells as one table [n, D + 1], the strength first."""
    tables = torch.cat([state.strengths[..., None], state.values], dim=-1).detach()
    return [table[table[:, 0] != 0] for table in tables]
