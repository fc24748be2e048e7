"""What a model's memories are told to do, step by step, and what became of it."""

from math import isfinite
from typing import Any

import torch
from torch import Tensor

from pushpop.errors import InputError
from pushpop.layers import LayeredState, MemoryRNN
from pushpop.layers.memory_layer import MemoryLayer
from pushpop.memory import Memory
from pushpop.models import Transducer
from pushpop.models.body import MemoryBody, SourceState
from pushpop.viewer.intervals import Amounts, Moment, Replay, Written
from pushpop.viewer.positions import PositionReplay

NO_MEMORY_NOTE = "this model has no memory: there is nothing to picture"
NOT_LINEAR = "reads something else than the mixture of values that its gates make"


class Recording:
    """A memory, and all that it did; of no memory, nothing."""

    def __init__(self, memory: Memory[Any] | None, dtype: torch.dtype) -> None:
        self.memory = "none" if memory is None else memory.kind
        self.gate_names: tuple[str, ...] = () if memory is None else memory.gate_names
        # Why it cannot be drawn, in a sentence.
        self.note = NO_MEMORY_NOTE if memory is None else why_no_picture(memory)
        self.picture = "none" if memory is None or self.note else memory.picture
        self.push_ends: tuple[str, ...] = ()  # of a memory that is drawn as intervals
        self.read_ends: tuple[str, ...] = ()
        self.gates: list[Amounts] = []  # a number for each of the gate names
        self.moments: list[Moment] = []  # of a memory that is drawn
        self.written: list[Written] = []
        self.reach: int | None = None  # positions farther from 0 than this are left out
        self.replay: Replay | PositionReplay | None = None
        if memory is not None and self.picture == "intervals":
            self.push_ends, self.read_ends = memory.push_ends, memory.read_ends
            self.replay = Replay(memory.push_ends, memory.read_ends, dtype)
        elif memory is not None and self.picture == "positions":
            self.replay = PositionReplay(memory, dtype)

    def step(self, values: Tensor, gates: Tensor, read: Tensor) -> None:
        """Record what was written [V, D], the gates [G], and what was read, all its numbers."""
        amounts = tuple(gates.tolist())
        if not all(map(isfinite, amounts)):
            raise InputError("the model's gates are not numbers: its weights are damaged")
        self.gates.append(amounts)
        if isinstance(self.replay, Replay):
            n_pushes = len(self.push_ends)
            self.moments.append(self.replay.step(amounts[:n_pushes], amounts[n_pushes:]))
        elif self.replay is not None:
            self.replay.step(values[0], gates[None], read)

    def finish(self) -> None:
        """Collect what only the whole run tells."""
        if isinstance(self.replay, PositionReplay) and not self.replay.linear:
            self.picture = "none"
            self.note = f"memory {self.memory!r} {NOT_LINEAR}: only its gates are shown"
        elif self.replay is not None:
            self.written = self.replay.written
        if self.picture == "positions" and isinstance(self.replay, PositionReplay):
            self.moments, self.reach = self.replay.moments()


class Recorder:
    """Asks a model for its gates after each step, and runs them again for the picture."""

    def __init__(self, model: Transducer) -> None:
        self.layers = memory_layers(model)
        memories = [layer.memory for layer in self.layers for _ in range(layer.num_memories)]
        dtype = model.output_table.weight.dtype
        self.recordings = [Recording(memory, dtype) for memory in memories]
        self.recordings = self.recordings or [Recording(None, dtype)]

    def step(self, state: Any) -> None:
        """Record the step that left a model in this state."""
        body: Any = state.body if isinstance(state, SourceState) else state
        recordings = iter(self.recordings)
        states = body if isinstance(body, LayeredState) else [body]
        for layer, layer_state in zip(self.layers, states, strict=False):
            values, gates = (x.cpu() for x in layer.controls(layer_state.parts[0]))
            reads = layer_state.read.cpu().reshape(layer.num_memories, -1)
            for parts in zip(values, gates, reads, strict=True):
                next(recordings).step(*parts)

    def finish(self) -> list[Recording]:
        """The memories, layer by layer; of a model without any, one that is none."""
        for recording in self.recordings:
            recording.finish()
        return self.recordings


def memory_layers(model: Transducer) -> list[MemoryLayer]:
    """The layers of a model that have memories, in the order of its states."""
    if isinstance(model.body, MemoryBody):
        return [*model.body.all_heads()]
    return model.body.layers if isinstance(model.body, MemoryRNN) else []


def why_no_picture(memory: Memory[Any]) -> str:
    """One sentence, or "" for a memory that can be drawn."""
    reason = ""
    ends = len(memory.push_ends), len(memory.read_ends)
    if memory.picture == "none":
        reason = "has no picture"
    elif memory.picture == "positions" and (memory.values, memory.reads) != (1, 1):
        reason = (
            f"has {memory.values} values and {memory.reads} reads a step, and positions are drawn "
            "for one of each"
        )
    elif memory.picture == "intervals" and (memory.gates != sum(ends) or 0 in ends):
        reason = f"has {memory.gates} gates, not one for each end that is pushed or popped"
    return f"memory {memory.kind!r} {reason}: only its gates are shown" if reason else ""
