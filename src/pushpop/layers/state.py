"""What recurrent layers with a memory carry from step to step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pushpop.layers.cells import Controller
from pushpop.memory import Memory, State


def side_by_side(index: Any, batch: int, memories: int) -> Any:
    """Rows of a batch as rows of a memory's state, in which row b * M + m is memory m of row b."""
    if memories == 1:
        return index
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

    def rows(self, index: Any) -> "RNNState":
        """Some rows of the batch, in any order: a slice, a list or a tensor."""
        batch = self.read.shape[0]
        memories = self.memory.batch_size // max(1, batch)
        memory = self.memory.rows(side_by_side(index, batch, memories))
        return RNNState(_controller(self._each(lambda x: x[index])), self.read[index], memory)

    def detach(self) -> "RNNState":
        """The same state, cut off from the graph that made it."""
        parts = self._each(Tensor.detach)
        return RNNState(_controller(parts), self.read.detach(), self.memory.detach())

    def to(self, *args: Any, **kwargs: Any) -> "RNNState":
        """The same state on another device or in another dtype, as `Tensor.to`."""
        parts = self._each(lambda x: x.to(*args, **kwargs))
        read = self.read.to(*args, **kwargs)
        return RNNState(_controller(parts), read, self.memory.to(*args, **kwargs))

    def with_batch(self) -> "RNNState":
        """The state of a call without a batch as that of a batch of 1."""
        return RNNState(_controller(self._each(lambda x: x[None])), self.read[None], self.memory)

    def without_batch(self) -> "RNNState":
        """Undo `with_batch`."""
        return RNNState(_controller(self._each(lambda x: x[0])), self.read[0], self.memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        return tuple(change(part) for part in self.parts)

    @classmethod
    def join(cls, states: "list[RNNState]") -> "RNNState":
        """One state of all their rows, one after the other."""
        if len(states) == 1:
            return states[0]
        parts = tuple(torch.cat(part) for part in zip(*(s.parts for s in states), strict=True))
        reads = torch.cat([state.read for state in states])
        memories = [state.memory for state in states]
        return cls(_controller(parts), reads, type(memories[0]).join(memories))

    def check(self, like: "RNNState", memory: Memory[Any], memories: int, batch: int) -> None:
        """Raise unless this is a state of `batch` rows for the layer that `like` is a state of."""
        wanted = {"h": like.parts[0], "read": like.read}
        given = {"h": self.parts[0], "read": self.read}
        if len(self.parts) != len(like.parts):
            raise ValueError(
                f"the controller's state must be {'(h, c)' if len(like.parts) == 2 else 'h'}; "
                f"got {len(self.parts)} tensors"
            )
        if len(like.parts) == 2:
            wanted["c"], given["c"] = like.parts[1], self.parts[1]
        for name, part in given.items():
            shape = [batch, *wanted[name].shape[1:]]
            if list(part.shape) != shape:
                raise ValueError(f"{name} of the state must be {shape}; got {list(part.shape)}")
            if part.dtype != wanted[name].dtype:
                raise TypeError(
                    f"{name} of the state must have the dtype of the layer, {like.read.dtype}; "
                    f"got {part.dtype}"
                )
            if part.device != wanted[name].device:
                raise ValueError(
                    f"{name} of the state must be on the device of the layer, {like.read.device}; "
                    f"got {part.device}"
                )
        memory.check_state(self.memory, batch * memories, like.read)


class LayeredState(tuple[RNNState, ...]):
    """The states of several layers and directions, in the order of `nn.LSTM`: layer 0 forwards,
    layer 0 backwards if there is such a direction, layer 1 forwards, ..."""

    def rows(self, index: Any) -> "LayeredState":
        """Some rows of the batch, in any order: a slice, a list or a tensor."""
        return LayeredState(state.rows(index) for state in self)

    def detach(self) -> "LayeredState":
        """The same states, cut off from the graph that made them."""
        return LayeredState(state.detach() for state in self)

    def to(self, *args: Any, **kwargs: Any) -> "LayeredState":
        """The same states on another device or in another dtype, as `Tensor.to`."""
        return LayeredState(state.to(*args, **kwargs) for state in self)

    @classmethod
    def join(cls, states: "list[LayeredState]") -> "LayeredState":
        """One state of all their rows, one after the other."""
        return cls(RNNState.join(list(layer)) for layer in zip(*states, strict=True))


def _controller(parts: tuple[Tensor, ...]) -> Controller:
    return (parts[0], parts[1]) if len(parts) == 2 else parts[0]
