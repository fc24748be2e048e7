"""One recurrent layer with its memories, in one direction: the part that `MemoryRNN` is made of."""

from math import sqrt
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pushpop.layers.backends import choose_backend
from pushpop.layers.cells import Cell, make_cell, probe
from pushpop.layers.inputs import NO_NOISE, Noise, NoiseLevels, Ragged, draw_noise
from pushpop.layers.state import RNNState
from pushpop.memory import BACKENDS, Bias, Memory, make_memory
from pushpop.memory.base import DrawnBias

StartingBias = Bias | None | Literal["auto"]
"""Where a gate's bias starts; "auto": where the memory has it start; `None`: as weights do."""
OutputSize = int | Literal["hidden"] | None
"""The width of a layer's output; "hidden": it is the controller's h itself; `None`: as wide."""


class MemoryLayer(nn.Module):
    """A controller and the memories it works, over sequences [T, B, I]. See `MemoryRNN`."""

    output: nn.Linear  # None where outputs are h itself

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        memory: str | Memory[Any],
        memory_width: int | None,
        cell: str | nn.Module,
        output_size: OutputSize,
        *,
        num_memories: int = 1,
        bias: bool = True,
        push_bias: StartingBias = "auto",
        pop_bias: StartingBias = "auto",
        backend: str = "auto",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; got {backend!r}")
        width = hidden_size if memory_width is None and isinstance(memory, str) else memory_width
        outputs = hidden_size if output_size in (None, "hidden") else output_size
        if not isinstance(outputs, int):
            raise TypeError(f"output_size must be a number or 'hidden'; got {output_size!r}")
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "output_size": outputs}
        for name, size in {**sizes, "num_memories": num_memories}.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1; got {size}")
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, outputs
        self.num_memories, self.backend = num_memories, backend
        if isinstance(cell, nn.Module) and not bias:
            raise ValueError("bias is False with a given cell: its biases are its own")
        self.memory = make_memory(memory, width, backend)
        biases = {"push_bias": push_bias, "pop_bias": pop_bias}
        named: dict[str, Any] = {
            name: start
            for name, start in biases.items()
            if not (isinstance(start, str) and start == "auto")
        }
        self._gate_bias = self.memory.gate_bias(num_memories, **named)
        seen = input_size + num_memories * self.memory.reads * self.memory.width
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.cell = make_cell(cell, seen, hidden_size, bias, **factory)
        self.has_c = probe(self.cell, seen)[1]
        written = num_memories * self.memory.values * self.memory.width
        self.gates = nn.Linear(hidden_size, num_memories * self.memory.gates, **factory)
        self.value = nn.Linear(hidden_size, written, bias, **factory)
        if output_size == "hidden":
            self.register_module("output", None)
        else:
            self.output = nn.Linear(hidden_size, outputs, bias, **factory)
        self.h0 = nn.Parameter(torch.empty(hidden_size, **factory))
        self.c0 = nn.Parameter(torch.empty(hidden_size, **factory)) if self.has_c else None
        self._draw()

    def reset_parameters(self) -> None:
        """Draw everything anew: uniform on +-1/sqrt(hidden_size), and the gates' biases."""
        reset = getattr(self.cell, "reset_parameters", None)
        if reset is None:
            raise RuntimeError(f"{type(self.cell).__name__} has no reset_parameters to call")
        reset()
        self._draw()

    def _draw(self) -> None:
        """Everything but the cell, which has drawn its own."""
        bound = 1 / sqrt(self.hidden_size)
        for module in (self.gates, self.value, self.output):
            for parameter in () if module is None else module.parameters():
                nn.init.uniform_(parameter, -bound, bound)
        for start in (self.h0, self.c0):
            if start is not None:
                nn.init.uniform_(start, -bound, bound)
        with torch.no_grad():
            starts = [start for row in self._gate_bias for start in row]
            for gate, bias in enumerate(starts):
                if isinstance(bias, DrawnBias):
                    self.gates.bias[gate].normal_(bias.mean)
                elif bias is not None:
                    self.gates.bias[gate] = bias

    @property
    def has_gates(self) -> bool:
        """Whether the controller has gates that can be given noise: an LSTM's or a GRU's."""
        return isinstance(self.cell, Cell) and self.cell.has_gates

    def first_state(self, batch: int) -> RNNState:
        """Where every sequence starts: the learned controller state, a read of 0, no content."""
        h = self.h0.expand(batch, -1)
        rows = batch * self.num_memories
        memory = self.memory.empty(rows, device=h.device, dtype=h.dtype)
        read = h.new_zeros(batch, *self.read_shape)
        return RNNState(h if self.c0 is None else (h, self.c0.expand(batch, -1)), read, memory)

    @property
    def read_shape(self) -> tuple[int, ...]:
        """The shape of a row's read: D, before it the reads of a memory and the memories, if more
        than one."""
        counts = (self.num_memories, self.memory.reads)
        return (*(n for n in counts if n > 1), self.memory.width)

    def forward(
        self, x: Tensor, state: RNNState | None, ragged: Ragged | None, levels: NoiseLevels | None
    ) -> tuple[Tensor, RNNState]:
        """`run_layer`, as a call of the module: hooks fire."""
        return self.run_layer(x, state, ragged, levels)

    def run_layer(
        self, x: Tensor, state: RNNState | None, ragged: Ragged | None, levels: NoiseLevels | None
    ) -> tuple[Tensor, RNNState]:
        """x [T, B, I], zeros at padded steps -> output [T, B, O], zeros there too, and the state
        after each row's last step."""
        state = self.first_state(x.shape[1]) if state is None else state
        if ragged is not None:
            x, state = x.index_select(1, ragged.order), state.rows(ragged.order)
        sizes = [] if ragged is None else ragged.sizes
        backend, noise = choose_backend(self, x), draw_noise(self, x, levels)
        if backend is None:
            hidden, state = _run_step_by_step(self, x, state, sizes, noise)
        else:
            hidden, state = backend.run(self, x, state, sizes, noise)
        output = self.output_of(hidden)
        if ragged is not None:
            output, state = output.index_select(1, ragged.back), state.rows(ragged.back)
            output = output.masked_fill(ragged.padded[..., None], 0)
        return output, state

    def output_of(self, h: Tensor) -> Tensor:
        """The layer's output at steps where the controller's is h."""
        return h if self.output is None else torch.tanh(self.output(h))

    def controls(self, h: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What the controller's output o' [B, H] makes the memories do: values and gates.

        They are as `self.memory.run_step` takes them, [B M, V, D] and [B M, G]; row b M + m is
        memory m of row b. After a step, o' is `state.parts[0]`.
        """
        logits = self.gates(h) if noise is None else self.gates(h) + noise
        rows = h.shape[0] * self.num_memories
        shape = (rows, self.memory.values, self.memory.width)
        gates = self.memory.squash(logits.reshape(rows, self.memory.gates))
        return torch.tanh(self.value(h)).reshape(shape), gates

    def step_layer(
        self, x: Tensor, state: RNNState, noise: Noise = NO_NOISE
    ) -> tuple[Tensor, RNNState]:
        """One step of the controller and of the memories: o' [B, H] and the state."""
        extra = () if noise.controller is None else (noise.controller,)
        seen = torch.cat([x, state.read.flatten(1)], dim=-1)
        controller = self.cell(seen, state.controller, *extra)
        h = controller[0] if self.has_c else controller
        values, gates = self.controls(h, noise.memory)
        reads, memory = self.memory.call_step(values, gates, state.memory)
        read = reads.reshape(x.shape[0], *self.read_shape)
        return h, RNNState(controller, read, memory)


def _run_step_by_step(
    layer: MemoryLayer, x: Tensor, state: RNNState, sizes: list[int], noise: Noise
) -> tuple[Tensor, RNNState]:
    """x [T, B, I] -> o' [T, B, H], anything at padded steps, and the state, by autograd.

    Rows are sorted by length: step t has the first sizes[t] of them, all if there are no sizes, and
    the state of a row that has ended is set aside.
    """
    sizes = sizes or [x.shape[1]] * x.shape[0]
    ended: list[RNNState] = []
    hidden = []
    for t, (x_t, size) in enumerate(zip(x, sizes, strict=True)):
        if size == 0:
            break
        rows = state.read.shape[0]
        if size < rows:
            ended.append(state.rows(slice(size, rows)))
            state = state.rows(slice(0, size))
        h, state = layer.step_layer(x_t[:size], state, noise.at(t, size))
        hidden.append(nn.functional.pad(h, (0, 0, 0, x.shape[1] - size)))
    padding = x.new_zeros(x.shape[0] - len(hidden), x.shape[1], layer.hidden_size)
    steps = torch.cat([torch.stack(hidden), padding]) if hidden else padding
    return steps, RNNState.join([state, *reversed(ended)])
