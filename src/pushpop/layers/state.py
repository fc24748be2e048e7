"""What recurrent layers with a memory carry from step to step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pushpop.layers.cells import Controller
from pushpop.memory import Memory, State
from pushpop.memory.base import check_index, check_like, register_state


def memory_rows(index: Any, batch: int, memories: int) -> Any:
    """Rows of a batch as rows of a memory's state, in which row b * M + m is memory m of row b."""
    check_index(index)
    if memories == 1:
        return index
    if isinstance(index, slice) and index.step in (None, 1):  # without tensors, nothing is copied
        start, stop, _ = index.indices(batch)
        return slice(start * memories, max(start, stop) * memories)
    if isinstance(index, Tensor):
        rows = torch.arange(batch, device=index.device)[index]
    else:
        rows = torch.arange(batch)[index]
    places = torch.arange(memories, device=rows.device)
    return (rows[:, None] * memories + places).flatten()


class RNNState(NamedTuple):
    """The paper's (h, r, (V, s)): the controller's state, the last read, the memory's state.

    Of several memories under one controller, the read has an axis M more, and the memory's state a
    row for each memory of each row of the batch, b * M + m. Of a call without a batch, h, c and the
    read have no axis B, and the memory's state has one row (M rows).
    """

    controller: Controller  # h or (h, c), each [B, H]
    read: Tensor  # [B, D]; [B, 2, D] of a deque: top, bottom; with several memories [B, M, ...]
    memory: State

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """The controller's tensors: (h,) or (h, c)."""
        return self.controller if isinstance(self.controller, tuple) else (self.controller,)

    @property
    def h(self) -> Tensor:
        """The controller's h, [1, B, H] as `nn.LSTM` has it; [1, H] without a batch."""
        return self.parts[0][None]

    @property
    def c(self) -> Tensor:
        """An LSTM's c, shaped as h."""
        if len(self.parts) == 1:
            raise AttributeError("the state of this controller is h alone, as nn.GRU's is")
        return self.parts[1][None]

    def rows(self, index: Any) -> "RNNState":
        """Some rows of the batch, in any order: a slice, a list or a tensor."""
        self._check_batch()
        batch = self.read.shape[0]
        memories = self.memory.batch_size // max(1, batch)
        memory = self.memory.rows(memory_rows(index, batch, memories))
        return self._changed(lambda x: x[index], memory)

    def detach(self) -> "RNNState":
        """The same state, cut off from the graph that made it."""
        return self._changed(Tensor.detach, self.memory.detach())

    def to(self, *args: Any, **kwargs: Any) -> "RNNState":
        """The same state on another device or in another dtype, as `Tensor.to`."""
        return self._changed(lambda x: x.to(*args, **kwargs), self.memory.to(*args, **kwargs))

    def compact(self) -> "RNNState":
        """The same state without cells of strength 0, which pile up on a GPU from call to call;
        see `MemoryState.compact`. A memory that holds no such cells stays as it is."""
        compact = getattr(self.memory, "compact", None)
        return self if compact is None else self._replace(memory=compact())

    def with_batch(self) -> "RNNState":
        """The state of a call without a batch as that of a batch of 1."""
        return self._changed(lambda x: x[None], self.memory)

    def without_batch(self) -> "RNNState":
        return self._changed(lambda x: x[0], self.memory)

    def _check_batch(self) -> None:
        if self.parts[0].dim() == 1:
            raise ValueError("this state is of a call without a batch: it has no rows")

    def _changed(self, change: Callable[[Tensor], Tensor], memory: State) -> "RNNState":
        parts = tuple(change(part) for part in self.parts)
        return RNNState(_controller(parts), change(self.read), memory)

    @classmethod
    def join(cls, states: "list[RNNState]") -> "RNNState":
        """One state of all their rows, one after the other."""
        for state in states:
            state._check_batch()
        if len(states) == 1:
            return states[0]
        parts = tuple(torch.cat(part) for part in zip(*(s.parts for s in states), strict=True))
        reads = torch.cat([state.read for state in states])
        memories = [state.memory for state in states]
        return cls(_controller(parts), reads, type(memories[0]).join(memories))

    def check(self, like: "RNNState", memory: Memory[Any], memories: int, batch: int) -> None:
        """Raise unless this is a state of `batch` rows for the layer that `like` is a state of."""
        if len(self.parts) != len(like.parts):
            raise ValueError(
                f"the controller's state must be {'(h, c)' if len(like.parts) == 2 else 'h'}; "
                f"got {len(self.parts)} tensors"
            )
        pairs = [(self.parts[0], like.parts[0]), (self.read, like.read)]
        pairs += zip(self.parts[1:], like.parts[1:], strict=True)
        for name, (part, expected) in zip(("h", "read", "c"), pairs, strict=False):
            shape = [batch, *expected.shape[1:]]
            if list(part.shape) != shape:
                raise ValueError(f"{name} of the state must be {shape}; got {list(part.shape)}")
            check_like(f"{name} of the state", part, expected, "the layer")
        memory.check_state(self.memory, batch * memories, like.read)


class LayeredState(tuple[RNNState, ...]):
    """The states of several layers and directions, in the order of `nn.LSTM`: layer 0 forwards,
    layer 0 backwards if there is such a direction, layer 1 forwards, ..."""

    @property
    def h(self) -> Tensor:
        """The controllers' h, [L * directions, B, H] as `nn.LSTM` has it."""
        return torch.cat([state.h for state in self])

    @property
    def c(self) -> Tensor:
        """The c of LSTMs, shaped as h."""
        return torch.cat([state.c for state in self])

    def rows(self, index: Any) -> "LayeredState":
        """Some rows of the batch, in any order: a slice, a list or a tensor."""
        return LayeredState(state.rows(index) for state in self)

    def detach(self) -> "LayeredState":
        return LayeredState(state.detach() for state in self)

    def to(self, *args: Any, **kwargs: Any) -> "LayeredState":
        return LayeredState(state.to(*args, **kwargs) for state in self)

    def compact(self) -> "LayeredState":
        """The same states without cells of strength 0."""
        return LayeredState(state.compact() for state in self)

    @classmethod
    def join(cls, states: "list[LayeredState]") -> "LayeredState":
        """One state of all their rows, one after the other."""
        return cls(RNNState.join(list(layer)) for layer in zip(*states, strict=True))


class LSTMState(NamedTuple):
    """The state of a deep LSTM, as `nn.LSTM` has it; its methods are those of `RNNState`."""

    h: Tensor  # [L, B, H], or [L, H] without a batch
    c: Tensor

    def rows(self, index: Any) -> "LSTMState":
        check_index(index)
        if self.h.dim() == 2:
            raise ValueError("this state is of a call without a batch: it has no rows")
        return LSTMState(self.h[:, index], self.c[:, index])

    def detach(self) -> "LSTMState":
        return LSTMState(self.h.detach(), self.c.detach())

    def to(self, *args: Any, **kwargs: Any) -> "LSTMState":
        return LSTMState(self.h.to(*args, **kwargs), self.c.to(*args, **kwargs))

    @classmethod
    def join(cls, states: "list[LSTMState]") -> "LSTMState":
        return cls(torch.cat([s.h for s in states], 1), torch.cat([s.c for s in states], 1))


class HeadsState(NamedTuple):
    """The state of memories that are heads side by side, in row b * heads + head of `memory`; its
    methods are those of `RNNState`."""

    memory: State
    heads: int

    @property
    def batch_size(self) -> int:
        return self.memory.batch_size // self.heads

    def rows(self, index: Any) -> "HeadsState":
        picked = memory_rows(index, self.batch_size, self.heads)
        return HeadsState(self.memory.rows(picked), self.heads)

    def detach(self) -> "HeadsState":
        return HeadsState(self.memory.detach(), self.heads)

    def to(self, *args: Any, **kwargs: Any) -> "HeadsState":
        return HeadsState(self.memory.to(*args, **kwargs), self.heads)

    @classmethod
    def join(cls, states: "list[HeadsState]") -> "HeadsState":
        memories = [state.memory for state in states]
        return cls(type(memories[0]).join(memories), states[0].heads)


register_state(
    LayeredState,
    lambda states: {f"layer_{place}": state for place, state in enumerate(states)},
    lambda *states: LayeredState(states),
)
torch.serialization.add_safe_globals([RNNState, LSTMState, HeadsState])  # trees as all named tuples


def _controller(parts: tuple[Tensor, ...]) -> Controller:
    return (parts[0], parts[1]) if len(parts) == 2 else parts[0]
