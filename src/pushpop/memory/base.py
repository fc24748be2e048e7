"""What a memory is: the one description that layers, models, exports and pictures ask.

A memory takes vectors to write (`values`) and numbers that say what to do with them (`gates`), and
gives vectors back (`reads`). A subclass of `Memory` says how many of each, holds its content in a
state, and computes one step; everything else here has a default. No code outside this package asks
for a memory by its name.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

BACKENDS = ("auto", "fused", "triton", "parallel", "reference")
"""How something is computed: by the first that can, by compiled CPU kernels, by GPU kernels, by a
closed form over whole sequences, by the equations in plain torch. Layers use the same words."""

Bias = float | Sequence[float] | Sequence[Sequence[float]] | Literal["drift"]
"""Where biases start: one number, one a memory or end, or a row of ends for each memory; "drift":
each push bias is drawn around the pop bias, so that some ends grow at first and others drain."""


class DrawnBias(NamedTuple):
    """A bias that is drawn from the normal distribution with this mean and a deviation of 1."""

    mean: float


StartingBias = float | DrawnBias | None
"""Where the bias of one gate starts; `None`: drawn as the weights are."""

Picture = Literal["none", "intervals", "positions"]


CHECKPOINT_EVERY = 8
"""How often mixed cells are kept for the backward pass, which runs the steps between again: all of
them are too many to keep, since they grow with the steps."""


class Shifts(NamedTuple):
    """How a memory mixes its cells (`mixing.py`), as kernels need to know it."""

    shifts: tuple[int, int, int]
    """For each gate: cell i after the step gets its share of the written cell i + shift. At most 2
    either way."""
    growth: int
    """How many cells a step adds."""
    inserts: bool
    """Whether a value goes in front of all cells, and the first cell is read. If not, it goes over
    the middle cell, which is read, and the cells grow at both ends."""

    def encode(self) -> list[int]:
        return [*self.shifts, self.growth, int(self.inserts)]

    @classmethod
    def decode(cls, numbers: list[int]) -> "Shifts":
        i, j, k, growth, inserts = numbers
        return cls((i, j, k), growth, bool(inserts))

    def cells(self, initial: int, steps: int) -> int:
        """How many cells there are after some steps."""
        return initial + self.growth * steps

    def kept(self, initial: int, steps: int) -> int:
        """How many cells are kept for the backward pass, all together."""
        kept = range(CHECKPOINT_EVERY, steps + 1, CHECKPOINT_EVERY)
        return sum(self.cells(initial, t) for t in kept)

    def place(self, cells: int) -> int:
        """Which one of so many cells is written and read."""
        return 0 if self.inserts else cells // 2

    def first(self, cells: int, padded: int) -> int:
        """Where so many cells begin among more, the others being empty."""
        return 0 if self.inserts else (padded - cells) // 2


class State(Protocol):
    """What a memory carries from step to step. Calls never change the state that they are given."""

    @property
    def batch_size(self) -> int:
        """B, the number of rows."""

    def rows(self, index: Any) -> Self:
        """Some rows of the batch, in any order: a slice, a list or a tensor."""

    def detach(self) -> Self:
        """The same state, cut off from the graph that made it."""

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same state on another device or in another dtype, as `Tensor.to`."""

    @classmethod
    def join(cls, states: list[Self]) -> Self:
        """One state of all their rows, one after the other."""


S = TypeVar("S", bound=State)


class Memory(nn.Module, Generic[S]):
    """A memory of vectors `width` wide. It has no parameters: what it does, its inputs say.

    A subclass sets `kind`, `gate_names`, `values` and `reads`, and defines `empty` and `run_step`.

    Args:
        width: D, the length of the vectors held.
        backend: one of `BACKENDS` that the memory has; "auto": the fastest that can run the input.
    """

    kind: ClassVar[str]
    """The name of the memory, as in `MemoryRNN(memory=...)`."""
    gate_names: ClassVar[tuple[str, ...]]
    """The numbers that a step takes, G of them, in their order. Gates of one sort at several ends
    share their first word and stand side by side, as in "push top", "push bottom"."""
    values: ClassVar[int] = 1
    """V, how many vectors a step takes."""
    reads: ClassVar[int] = 1
    """R, how many vectors a step gives."""
    biases: ClassVar[Mapping[str, Bias | None]] = {}
    """The biases of gates that can be set by name, and where they start if nobody does; `None`: as
    weights are drawn. `gate_bias` makes numbers of them."""
    kernel: ClassVar[int | Shifts | None] = None
    """What the kernels of recurrent layers know the memory by: its number, or how its cells move;
    `None`: they do not. It is not inherited: a subclass may do something else."""
    picture: ClassVar[Picture] = "none"
    """How a trace draws it: as intervals between two pointers, or as what lies at each position
    (which needs `contents`, and a memory that is linear in its values)."""
    push_ends: ClassVar[tuple[str, ...]] = ()
    """Of a memory that is drawn as intervals: the ends where values are pushed, "top", "bottom"."""
    read_ends: ClassVar[tuple[str, ...]] = ()
    """Of such a memory: the ends where it is popped and read."""

    def __init__(self, width: int, backend: str = "auto") -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be at least 1; got {width}")
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; got {backend!r}")
        self.width, self.backend = width, backend
        self.choose_backend(None)
        sorts = [name.partition(" ")[0] for name in self.gate_names]
        if [sort for sort, n in self.gate_sorts.items() for _ in range(n)] != sorts:
            names = ", ".join(self.gate_names)
            raise ValueError(
                f"gates of one sort must stand side by side in gate_names; got {names}"
            )

    @property
    def gates(self) -> int:
        """G, how many numbers a step takes."""
        return len(self.gate_names)

    @property
    def gate_sorts(self) -> dict[str, int]:
        """The sorts of gates, in order, and how many there are of each."""
        return dict(Counter(name.partition(" ")[0] for name in self.gate_names))

    def empty(self, batch: int, *, device: Any = None, dtype: torch.dtype | None = None) -> S:
        """The state before the first step."""
        raise NotImplementedError

    def run_step(self, values: Tensor, gates: Tensor, state: S | None) -> tuple[Tensor, S]:
        """One step: values [B, V, D] and gates [B, G] -> reads [B, R, D] and the next state."""
        raise NotImplementedError

    def forward(self, values: Tensor, gates: Tensor, state: S | None = None) -> tuple[Tensor, S]:
        """T steps: values [T, B, V, D] and gates [T, B, G] -> reads [T, B, R, D] and the state."""
        if state is None:
            state = self.empty(values.shape[1], device=values.device, dtype=values.dtype)
        reads = []
        for values_t, gates_t in zip(values, gates, strict=True):
            read, state = self.run_step(values_t, gates_t, state)
            reads.append(read)
        shape = (0, values.shape[1], self.reads, self.width)
        return torch.stack(reads) if reads else values.new_zeros(shape), state

    def run(self, values: Tensor, gates: Tensor, state: S | None) -> tuple[Tensor, S]:
        """What `forward` does, as a call of the module: hooks fire."""
        result: tuple[Tensor, S] = self(values, gates, state)
        return result

    def call_step(self, values: Tensor, gates: Tensor, state: S | None) -> tuple[Tensor, S]:
        """What `run_step` does, from the empty state if none is given, and as a call of the module
        where somebody hung a hook on it."""
        if state is None:
            state = self.empty(len(values), device=values.device, dtype=values.dtype)
        if has_hooks(self):
            reads, state = self.run(values[None], gates[None], state)
            reads = reads[0]
        else:
            reads, state = self.run_step(values, gates, state)
        if reads.numel() != len(values) * self.reads * self.width:  # of a memory of one's own
            raise ValueError(
                f"{type(self).__name__}: reads must be [B, R, D] = [{len(values)}, {self.reads}, "
                f"{self.width}]; got {list(reads.shape)}"
            )
        return reads, state

    def squash(self, logits: Tensor) -> Tensor:
        """Any numbers [..., G] as gates [..., G]. By default each by itself, with a sigmoid."""
        return torch.sigmoid(logits)

    def idle(self) -> list[float] | None:
        """Gates [G] with which a step changes nothing; `None`: there are none."""
        return None

    def gate_bias(self, memories: int = 1, **given: Bias | None) -> list[list[StartingBias]]:
        """Where the biases of the gates start, a row of G for each of some memories side by side.
        `given` are those that were set by name; a memory refuses those that it does not have."""
        for name in given:
            known = ", ".join(self.biases) or "none that could be set"
            raise ValueError(f"memory {self.kind!r} has no {name}: its starting biases are {known}")
        return [[None] * self.gates for _ in range(memories)]

    def check_state(self, state: S, batch: int, like: Tensor) -> None:
        """Raise unless this is a state of `batch` rows, in dtype and device as `like`."""
        if state.batch_size != batch:
            raise ValueError(f"state has {state.batch_size} rows, the input has a batch of {batch}")

    def contents(self, state: S) -> tuple[Tensor, list[int]]:
        """For pictures: what lies at each position, [B, N, D], and the numbers of the positions.

        Position 0 is the one that is read.
        """
        raise NotImplementedError(f"memory {self.kind!r} has no picture")

    def export_state(self) -> tuple[str, ...]:
        """For exported graphs: the names of the state's tensors, each [B, N, ...] with a free N.

        None: the memory cannot be exported.
        """
        return ()

    def export_tensors(self, state: S) -> list[Tensor]:
        """The tensors of a state, in the order of their names."""
        return [getattr(state, name) for name in self.export_state()]

    def export_step(
        self, values: Tensor, gates: Tensor, state: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """`run_step` in plain operations on the state's tensors, in the order of their names."""
        raise NotImplementedError(f"memory {self.kind!r} cannot be exported")

    def backends(self, device: torch.device, dtype: torch.dtype) -> tuple[str, ...]:
        """The backends that can run such tensors, the fastest first."""
        return ("reference",)

    def all_backends(self) -> tuple[str, ...]:
        """The backends that the memory has for some device and dtype."""
        return ("reference",)

    def choose_backend(self, like: Tensor | None) -> str:
        """The backend for such tensors (`None`: any); asking for one that cannot run raises."""
        able = self.all_backends() if like is None else self.backends(like.device, like.dtype)
        if self.backend == "auto":
            return able[0]
        if self.backend not in able:
            got = "" if like is None else f"; got {like.dtype} on {like.device}"
            raise ValueError(
                f"backend {self.backend!r} of memory {self.kind!r} {self.limits()}{got}: use "
                f"{' or '.join(map(repr, ('auto', *able)))}"
            )
        return self.backend

    def limits(self) -> str:
        """The end of a message about a backend that cannot run."""
        return "does not exist"

    def extra_repr(self) -> str:
        return f"{self.width}, backend={self.backend!r}"


HOOKS = ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")


def has_hooks(module: nn.Module) -> bool:
    """Whether somebody hung a hook on a module, or on all: it must then be called to count."""
    return any(
        getattr(module, f"_{kind}", None) or getattr(nn.modules.module, f"_global_{kind}", None)
        for kind in HOOKS
    )


def check_index(index: Any) -> None:
    """Raise if rows are picked by one number, which would take the batch away."""
    if isinstance(index, int):
        raise TypeError(
            f"rows of a state are picked by a list, a slice or a tensor; got {index}, did you mean "
            f"[{index}]?"
        )


def check_like(name: str, x: Any, like: Any, whose: str, wider: torch.dtype | None = None) -> None:
    """Raise unless x has the dtype of `like`, or the wider one, and its device."""
    if x.dtype not in (like.dtype, wider):
        raise TypeError(f"{name} must have the dtype of {whose}, {like.dtype}; got {x.dtype}")
    if x.device != like.device:
        raise ValueError(f"{name} must be on the device of {whose}, {like.device}; got {x.device}")


def register_state(
    state: type, children: Callable[[Any], dict[str, Any]], make: Callable[..., Any]
) -> None:
    """Make torch know a state as a tree of its tensors, or of states of its own, each with a name;
    `make` takes them in their order. `tree_map`, `torch.func`, `torch.export` and distributed
    wrappers then find the tensors, and `torch.load(weights_only=True)`, the default, loads one."""

    def flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], None]:
        return [(pytree.GetAttrKey(name), child) for name, child in children(tree).items()], None

    pytree.register_pytree_node(
        state,
        lambda tree: (list(children(tree).values()), None),
        lambda leaves, context: make(*leaves),
        serialized_type_name=f"{state.__module__}.{state.__qualname__}",
        flatten_with_keys_fn=flatten_with_keys,
    )
    torch.serialization.add_safe_globals([state])


class TensorState:
    """A state that is a tensor of cells, [B, N, D], position by position.

    Rows with fewer cells than others are padded with zeros at the end; a subclass may know better.
    """

    def __init__(self, cells: Tensor) -> None:
        self.cells = cells

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__init__ is TensorState.__init__:  # else it may hold more than cells
            register_state(cls, _named_cells, cls)

    @property
    def batch_size(self) -> int:
        return self.cells.shape[0]

    def rows(self, index: Any) -> Self:
        check_index(index)
        return type(self)(self.cells[index])

    def detach(self) -> Self:
        return type(self)(self.cells.detach())

    def to(self, *args: Any, **kwargs: Any) -> Self:
        return type(self)(self.cells.to(*args, **kwargs))

    @classmethod
    def join(cls, states: list[Self]) -> Self:
        n_cells = max(state.cells.shape[1] for state in states)
        return cls(torch.cat([cls.padded(state.cells, n_cells) for state in states]))

    @staticmethod
    def padded(cells: Tensor, n_cells: int) -> Tensor:
        return nn.functional.pad(cells, (0, 0, 0, n_cells - cells.shape[1]))

    def __repr__(self) -> str:
        batch, n_cells, width = self.cells.shape
        return f"{type(self).__name__}(batch={batch}, cells={n_cells}, width={width})"


def _named_cells(state: TensorState) -> dict[str, Tensor]:
    return {"cells": state.cells}


register_state(TensorState, _named_cells, TensorState)


class CellMemory(Memory[TensorState]):
    """A memory whose state is one tensor of cells, and whose step is plain torch on it.

    A subclass defines `update`, and `empty_cells` and `state_type` where they are others.
    """

    empty_cells: ClassVar[int] = 0
    """How many cells there are before the first step."""
    state_type: ClassVar[type[TensorState]] = TensorState

    def update(self, values: Tensor, gates: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
        """One step: values [B, V, D], gates [B, G], cells [B, N, D] -> reads [B, R, D], cells."""
        raise NotImplementedError

    def empty(
        self, batch: int, *, device: Any = None, dtype: torch.dtype | None = None
    ) -> TensorState:
        shape = (batch, self.empty_cells, self.width)
        return self.state_type(torch.zeros(shape, device=device, dtype=dtype))

    def run_step(
        self, values: Tensor, gates: Tensor, state: TensorState | None
    ) -> tuple[Tensor, TensorState]:
        if state is None:
            state = self.empty(len(values), device=values.device, dtype=values.dtype)
        reads, cells = self.update(values, gates, state.cells)
        return reads, self.state_type(cells)

    def check_state(self, state: TensorState, batch: int, like: Tensor) -> None:
        if type(state) is not self.state_type:
            wanted = self.state_type.__name__
            raise TypeError(f"state must be a {wanted} or None; got {type(state).__name__}")
        super().check_state(state, batch, like)
        if state.cells.shape[2] != self.width:
            raise ValueError(
                f"state has cells {state.cells.shape[2]} wide, this memory is {self.width} wide"
            )
        check_like("state", state.cells, like, "the input")

    def export_state(self) -> tuple[str, ...]:
        return ("cells",)

    def export_step(
        self, values: Tensor, gates: Tensor, state: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        reads, cells = self.update(values, gates, *state)
        return reads, [cells]
