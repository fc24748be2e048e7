"""What a model's memory is told to do, step by step, and what became of it."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from pushpop.errors import InputError
from pushpop.layers import MemoryRNN
from pushpop.memory import Memory
from pushpop.models import Transducer
from pushpop.models.body import SourceState
from pushpop.viewer.intervals import Amounts, Moment, Replay, Written
from pushpop.viewer.positions import PositionReplay

NO_MEMORY_NOTE = "this model has no memory: there is nothing to picture"
SEVERAL = "this model has several memories, and only one can be pictured"
NOT_LINEAR = "reads something else than the mixture of values that its gates make"


@dataclass
class Recording:
    """A memory, and all that it did."""

    memory: str = "none"
    picture: str = "none"  # how it can be drawn: "none", "intervals" or "positions"
    note: str = ""  # why it cannot, in a sentence
    gate_names: tuple[str, ...] = ()
    push_ends: tuple[str, ...] = ()  # of a memory that is drawn as intervals
    read_ends: tuple[str, ...] = ()
    gates: list[Amounts] = field(default_factory=list)  # a number for each of the gate names
    moments: list[Moment] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    reach: int | None = None  # positions farther from 0 than this were left out


class Recorder:
    """Asks a model for its gates after each step, and runs them again for the picture."""

    def __init__(self, model: Transducer) -> None:
        self.body = _only_layer(model)
        self.intervals: Replay | None = None
        self.positions: PositionReplay | None = None
        self.recording = recording = Recording()
        if self.body is None:
            several = model.config.memory != "none"
            recording.note = SEVERAL if several else NO_MEMORY_NOTE
            return
        memory, dtype = self.body.memory, model.output_table.weight.dtype
        recording.memory, recording.gate_names = memory.kind, memory.gate_names
        recording.note = why_no_picture(memory)
        if recording.note:
            return
        recording.picture = memory.picture
        if memory.picture == "intervals":
            recording.push_ends, recording.read_ends = memory.push_ends, memory.read_ends
            self.intervals = Replay(memory.push_ends, memory.read_ends, dtype)
        else:
            self.positions = PositionReplay(memory, dtype)

    def step(self, state: Any) -> None:
        """Record the step that left a model in this state."""
        gates: Amounts = ()
        moment = Moment()
        if self.body is not None:
            inner: Any = state.body if isinstance(state, SourceState) else state
            values, squashed = (x.cpu() for x in self.body.controls(inner.parts[0]))
            gates = tuple(squashed.flatten().tolist())
            if not all(map(isfinite, gates)):
                raise InputError("the model's gates are not numbers: its weights are damaged")
            if self.intervals is not None:
                n_pushes = len(self.intervals.push_ends)
                moment = self.intervals.step(gates[:n_pushes], gates[n_pushes:])
            if self.positions is not None:
                self.positions.step(values[0, 0], squashed, inner.read.cpu().flatten())
        self.recording.gates.append(gates)
        self.recording.moments.append(moment)

    def finish(self) -> Recording:
        """All of it."""
        recording = self.recording
        if self.intervals is not None:
            recording.written = self.intervals.written
        if self.positions is not None and self.positions.linear:
            recording.moments, recording.reach = self.positions.moments()
            recording.written = self.positions.written
        elif self.positions is not None:
            recording.picture = "none"
            recording.note = f"memory {recording.memory!r} {NOT_LINEAR}: only its gates are shown"
        return recording


def _only_layer(model: Transducer) -> MemoryRNN | None:
    """The layer of a model whose body is one layer with one memory."""
    body = model.body
    if not isinstance(body, MemoryRNN):
        return None
    return body if len(body.layers) == body.num_memories == 1 else None


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
