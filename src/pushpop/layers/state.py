"""What a recurrent layer with a memory carries from step to step."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from pushpop.layers.cells import Controller
from pushpop.memory import MemoryState
from pushpop.memory.checks import check_state


class RNNState(NamedTuple):
    """The paper's (h, r, (V, s)): the controller's state, the last read, the memory's cells."""

    controller: Controller  # h or (h, c), each [B, H]
    read: Tensor  # [B, D], or [B, 2, D] of a deque: top, bottom
    memory: MemoryState

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """The controller's tensors: (h,) or (h, c)."""
        return self.controller if isinstance(self.controller, tuple) else (self.controller,)

    def rows(self, index: Any) -> "RNNState":
        """Some rows of the batch, in any order."""
        parts = tuple(part[index] for part in self.parts)
        return RNNState(_controller(parts), self.read[index], self.memory[index])

    def detach(self) -> "RNNState":
        """The same state, cut off from the graph that made it."""
        parts = tuple(part.detach() for part in self.parts)
        return RNNState(_controller(parts), self.read.detach(), self.memory.detach())

    def to(self, *args: Any, **kwargs: Any) -> "RNNState":
        """The same state on another device or in another dtype, as `Tensor.to`."""
        parts = tuple(part.to(*args, **kwargs) for part in self.parts)
        read = self.read.to(*args, **kwargs)
        return RNNState(_controller(parts), read, self.memory.to(*args, **kwargs))

    @classmethod
    def join(cls, states: "list[RNNState]") -> "RNNState":
        """One state of all their rows, one after the other."""
        if len(states) == 1:
            return states[0]
        parts = tuple(torch.cat(part) for part in zip(*(s.parts for s in states), strict=True))
        reads = torch.cat([state.read for state in states])
        return cls(_controller(parts), reads, MemoryState.join([s.memory for s in states]))

    def check(self, like: "RNNState", batch: int) -> None:
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
            if part.dtype != wanted[name].dtype or part.device != wanted[name].device:
                raise ValueError(
                    f"{name} of the state must be {like.read.dtype} on {like.read.device} as the "
                    f"layer is; got {part.dtype} on {part.device}"
                )
        check_state(self.memory, like.read, batch, like.read.shape[-1])


def _controller(parts: tuple[Tensor, ...]) -> Controller:
    return (parts[0], parts[1]) if len(parts) == 2 else parts[0]
