"""What a memory holds between calls."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from pushpop.memory.base import check_index, register_state


def strength_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which strengths are kept beside values of this one."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def empty_state(like: Tensor, batch: int, width: int) -> "MemoryState":
    """A state without cells, beside values like this tensor."""
    strengths = like.new_zeros(batch, 0, dtype=strength_dtype(like.dtype))
    return MemoryState(like.new_zeros(batch, 0, width), strengths)


class CellStore:
    """Cells in one of the forms that backends leave them in; a subclass is a dataclass."""

    tensors: ClassVar[tuple[str, ...]] = ()
    """The fields that gradients flow through."""

    @property
    def like(self) -> Tensor:
        """A tensor [B, ., D] of the values' dtype and device."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, int]:
        return self.like.shape[0], self.like.shape[2]

    def cells(self) -> "Cells":
        raise NotImplementedError

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient can flow back through the cells."""
        return any(getattr(self, name).requires_grad for name in self.tensors)

    def detach(self) -> Self:
        """The same cells, cut off from the graph that made them."""
        if not self.tensors:
            return self
        return replace(  # type: ignore[type-var]
            self, **{name: getattr(self, name).detach() for name in self.tensors}
        )


@dataclass(eq=False)
class Cells(CellStore):
    """Cells as they are: values [B, N, D] and strengths [B, N]."""

    values: Tensor
    strengths: Tensor
    tensors = ("values", "strengths")

    @property
    def like(self) -> Tensor:
        return self.values

    def cells(self) -> "Cells":
        return self


class Stream(CellStore):
    """Cells that kernels change in place, step by step: one moment of them, which stays valid."""

    @classmethod
    def of(cls, kind: int, cells: Cells) -> Self:
        """Lay out some cells without gradients."""
        raise NotImplementedError

    @property
    def is_old(self) -> bool:
        """Whether a step was taken from here."""
        raise NotImplementedError

    def advance(self, kind: int, value: Tensor, push: Tensor, pop: Tensor) -> tuple[Tensor, Self]:
        """One step: value [B, E, D], push and pop [B, E] -> read [B, E, D] and the next moment."""
        raise NotImplementedError


@dataclass(eq=False)
class WalkResult(CellStore):
    """Cells as a walk leaves them: by row number, their values gathered only if somebody asks.

    Row r >= 0 is row r of `pushed` flattened, row ~r that of `initial`.
    """

    pushed: Tensor  # [T, B, E, D]
    initial: Tensor  # [B, N, D]
    strengths: Tensor  # [B, room]
    row_ids: Tensor  # [B, room]
    counts: Tensor  # [B]
    versions: int = 0  # of the values, when guarded; 0: they are not
    tensors = ("pushed", "initial", "strengths")

    @property
    def like(self) -> Tensor:
        return self.initial

    @property
    def shape(self) -> tuple[int, int]:
        return self.strengths.shape[0], self.pushed.shape[-1]

    def guard_inputs(self) -> None:
        """Have a change of the values in place, before they are gathered, raise."""
        self.versions = self._versions()

    def _versions(self) -> int:
        return 1 + self.pushed._version + self.initial._version

    def _check_inputs(self) -> None:
        if self.versions and self.versions != self._versions():
            raise RuntimeError(
                "the values given to a memory were changed in place before the state it "
                "returned was used; give it a copy, or look at state.values first"
            )

    def cells(self) -> Cells:
        compiling = torch.compiler.is_compiling()
        padded = compiling or would_sync(self.counts)  # a graph's shapes are fixed
        if not compiling:
            self._check_inputs()
        strengths, row_ids = self.strengths, self.row_ids
        if not padded:
            n_cells = int(self.counts.max()) if len(self.counts) else 0
            strengths, row_ids = strengths[:, :n_cells], row_ids[:, :n_cells]
        width = self.pushed.shape[-1]
        values = self.pushed.reshape(-1, width)[row_ids.clamp(min=0)]
        if self.initial.shape[1]:
            initial = self.initial.reshape(-1, width)[(~row_ids).clamp(min=0)]
            values = torch.where((row_ids >= 0)[..., None], values, initial)
        places = torch.arange(row_ids.shape[1], device=row_ids.device)
        return Cells(values.masked_fill((places >= self.counts[:, None])[..., None], 0), strengths)

    def rows(self, index: Any) -> "WalkResult":
        """Some rows; the values stay where they are."""
        return replace(
            self,
            strengths=self.strengths[index],
            row_ids=self.row_ids[index],
            counts=self.counts[index],
        )


class MemoryState:
    """The paper's (V, s): `values` [B, N, D] and `strengths` [B, N], cells ordered bottom to top.

    Rows with fewer cells are padded with strength 0, and cells without strength mean nothing: two
    states are the same if they agree once those are removed (`equal`). Gradients flow through both.
    A state is never changed by the calls that take it; `state.rows(index)`, or `state[index]`,
    picks or reorders rows of the batch. Beside values in half precision, strengths are float32:
    they add up over time.
    """

    def __init__(self, values: Tensor, strengths: Tensor) -> None:
        if values.dim() != 3 or strengths.shape != values.shape[:2]:
            raise ValueError(
                "a memory state needs values [B, N, D] and strengths [B, N]; got "
                f"{list(values.shape)} and {list(strengths.shape)}"
            )
        same = strengths.dtype in (values.dtype, strength_dtype(values.dtype))
        if not same or values.device != strengths.device:
            raise ValueError(
                "values and strengths of a memory state must share dtype and device; got "
                f"{values.dtype} on {values.device} and {strengths.dtype} on {strengths.device}"
            )
        self._store: CellStore = Cells(values, strengths)

    @classmethod
    def _from_store(cls, store: CellStore) -> "MemoryState":
        state = cls.__new__(cls)
        state._store = store
        return state

    def _materialise(self) -> Cells:
        self._store = cells = self._store.cells()
        return cells

    @property
    def values(self) -> Tensor:
        """The vectors in the memory, [B, N, D], bottom to top."""
        return self._materialise().values

    @property
    def strengths(self) -> Tensor:
        """How much is left of each, [B, N], in [0, 1]."""
        return self._materialise().strengths

    @property
    def batch_size(self) -> int:
        """B, the number of rows."""
        return self._store.shape[0]

    @property
    def width(self) -> int:
        """D, the length of a value."""
        return self._store.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values, and of the strengths unless that is half precision."""
        return self._store.like.dtype

    @property
    def device(self) -> torch.device:
        return self._store.like.device

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient can flow back through this state."""
        return self._store.requires_grad

    def detach(self) -> "MemoryState":
        """The same cells, cut off from the graph that made them."""
        return MemoryState._from_store(self._store.detach())

    def compact(self) -> "MemoryState":
        """The same cells without those of strength 0, as few as the fullest row has.

        Calls on the CPU do this by themselves. A compiled step cannot, because a graph does not
        know how many cells are live; on a GPU the host would have to wait for the number. A loop
        over parts of a long sequence calls it there now and then.
        """
        return MemoryState(*drop_dead(self.values, self.strengths))

    def to(self, *args: Any, **kwargs: Any) -> "MemoryState":
        """The same cells on another device or in another dtype, as `Tensor.to`; beside values in
        half precision, strengths are float32."""
        values = self.values.to(*args, **kwargs)
        strengths = self.strengths.to(strength_dtype(values.dtype))
        return MemoryState(values, strengths.to(values.device))

    def rows(self, index: Any) -> "MemoryState":
        """Some rows of the batch, in any order: a slice, a list or a tensor."""
        check_index(index)
        if isinstance(self._store, WalkResult):
            return MemoryState._from_store(self._store.rows(index))
        return MemoryState(self.values[index], self.strengths[index])

    def __getitem__(self, index: Any) -> "MemoryState":
        return self.rows(index)

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


register_state(
    MemoryState,
    lambda state: {"values": state.values, "strengths": state.strengths},
    lambda values, strengths: MemoryState._from_store(Cells(values, strengths)),
)


def drop_dead(V: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Cells with strength moved to the front of their rows, with as many places as the fullest row
    needs; if it needs all, everything stays where it is."""
    live = s != 0
    n_cells = int(live.sum(1).max()) if live.numel() else 0
    if n_cells == s.shape[1]:
        return V, s
    order = live.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :n_cells]
    return V.gather(1, order[..., None].expand(-1, -1, V.shape[2])), s.gather(1, order)


def _live_rows(state: MemoryState) -> list[Tensor]:
    """A row's live cells as one table [n, D + 1], the strength first."""
    tables = torch.cat([state.strengths[..., None], state.values], dim=-1).detach()
    return [table[table[:, 0] != 0] for table in tables]


def would_sync(x: Tensor) -> bool:
    """Whether reading values would synchronise with the GPU, or is impossible (meta)."""
    return x.is_cuda or x.is_meta


def as_array(x: Tensor) -> Any:
    """What kernels work on: the same memory, where the tensor is contiguous."""
    return x.detach().contiguous().numpy()
