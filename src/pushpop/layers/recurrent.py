"""A recurrent layer with a memory: nn.LSTM's contract around a stack, a queue or a deque."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from pushpop.layers import fused
from pushpop.layers.cells import GATED, make_cell, probe
from pushpop.layers.lengths import Ragged, check_lengths
from pushpop.layers.noise import NO_NOISE, Noise, draw_noise
from pushpop.layers.precision import outside_autocast
from pushpop.layers.state import RNNState
from pushpop.memory import MEMORIES, MemoryState

BACKENDS = ("auto", "fused", "generic")
Bias = float | Sequence[float]


class MemoryRNN(nn.Module):
    """A controller and the memory it works, as one recurrent layer.

    At each step the controller reads the input and what the memory gave at the step before, and its
    output o' decides everything: push, pop = sigmoid(W o' + b), value = tanh(W o' + b) and the
    layer's output o = tanh(W_o o' + b_o). A deque has push, pop, value and read at each end.

    Args:
        input_size: I, the width of the input.
        hidden_size: H, the width of the controller.
        memory: "stack", "queue" or "deque".
        memory_width: D, the width of what is pushed and read; `None`: H.
        cell: "lstm", "gru" or "rnn" (one bias vector a gate), or a module with the signature of
            nn.LSTMCell or nn.GRUCell over I + D inputs (deque: I + 2 D).
        output_size: O, the width of the output; `None`: H.
        batch_first: whether input and output are [B, T, ...].
        push_bias: what the push gates' biases start at; one number, or a deque's (top, bottom).
            `None`: drawn as the weights are.
        pop_bias: the same for the pop gates. Negative, or pops empty the memory and teach nothing.
        gate_noise: in training mode, whole sequences have normal noise of this deviation added to
            their gates before the sigmoid. Only gates far from 1/2 withstand it, so it teaches the
            layer to push and pop all or nothing, which carries over to longer sequences.
        controller_noise: the same for the gates by which an LSTM takes in and forgets, or a GRU
            resets and keeps: what the controller has to remember by itself, it learns to hold.
        backend: "fused" (whole sequences on the CPU, hand-written gradients), "generic" (step by
            step, any cell and device) or "auto": fused where it can run.

    Everything else is drawn from the uniform distribution on +-1/sqrt(H), the learned initial state
    of the controller (h0, c0) too. The first read is 0 and the first memory empty.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        memory: str = "stack",
        memory_width: int | None = None,
        cell: str | nn.Module = "lstm",
        output_size: int | None = None,
        batch_first: bool = False,
        *,
        push_bias: Bias | None = None,
        pop_bias: Bias | None = -1.0,
        gate_noise: float = 0.0,
        controller_noise: float = 0.0,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if memory not in MEMORIES:
            raise ValueError(f"memory must be one of {', '.join(MEMORIES)}; got {memory!r}")
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; got {backend!r}")
        width = hidden_size if memory_width is None else memory_width
        outputs = hidden_size if output_size is None else output_size
        for name, size in (("input", input_size), ("hidden", hidden_size), ("output", outputs)):
            if size < 1:
                raise ValueError(f"{name}_size must be at least 1; got {size}")
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, outputs
        self.batch_first, self.backend = batch_first, backend
        self.gate_noise, self.controller_noise = gate_noise, controller_noise
        self.memory = MEMORIES[memory](width, validate=False)  # gates are sigmoids: always valid
        seen = input_size + self.ends * width
        self.cell = make_cell(cell, seen, hidden_size)
        self.has_c = probe(self.cell, seen)[1]
        self.gates = nn.Linear(hidden_size, 2 * self.ends)  # push at each end, then pop
        self.value = nn.Linear(hidden_size, self.ends * width)
        self.output = nn.Linear(hidden_size, outputs)
        self.h0 = nn.Parameter(torch.empty(hidden_size))
        self.c0 = nn.Parameter(torch.empty(hidden_size)) if self.has_c else None
        self._start(push_bias, pop_bias)

    def _start(self, push_bias: Bias | None, pop_bias: Bias | None) -> None:
        bound = 1 / sqrt(self.hidden_size)
        for module in (self.gates, self.value, self.output):
            for parameter in module.parameters():
                nn.init.uniform_(parameter, -bound, bound)
        for start in (self.h0, self.c0):
            if start is not None:
                nn.init.uniform_(start, -bound, bound)
        with torch.no_grad():
            for bias, first in ((push_bias, 0), (pop_bias, self.ends)):
                if bias is not None:
                    given = torch.as_tensor(bias)
                    if given.numel() not in (1, self.ends):
                        raise ValueError(
                            f"a {self.memory.kind} has {self.ends} push and pop biases; got {bias}"
                        )
                    self.gates.bias[first : first + self.ends] = given

    @property
    def ends(self) -> int:
        """1, or 2 for a deque."""
        return self.memory.ends

    @property
    def gated(self) -> bool:
        """Whether the controller has gates that can be given noise: an LSTM's or a GRU's."""
        return isinstance(self.cell, GATED)

    def forward(
        self,
        x: Tensor | PackedSequence,
        state: RNNState | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Any, RNNState]:
        """x [T, B, I] (or [T, I], or packed) -> output [T, B, O] (or as x is) and the state.

        With `lengths` [B], steps from lengths[b] on are padding of row b: its output there is 0 and
        its state stays as it was. The state of an unbatched call has a batch of 1.
        """
        if isinstance(x, PackedSequence):
            if lengths is not None:
                raise ValueError("lengths were given with a PackedSequence, which has its own")
            return self._forward_packed(x, state)
        unbatched = x.dim() == 2
        self._check(x, state, "T" if unbatched else "B, T" if self.batch_first else "T, B")
        turned = self.batch_first and not unbatched
        time_first = x[:, None] if unbatched else x.transpose(0, 1) if turned else x
        output, state = self._forward(time_first, state, lengths)
        if unbatched:
            return output[:, 0], state
        return output.transpose(0, 1) if turned else output, state

    def step(self, x: Tensor, state: RNNState | None = None) -> tuple[Tensor, RNNState]:
        """One step: x [B, I] -> output [B, O] and the state. Old states stay valid."""
        self._check(x, state, "B")
        with outside_autocast(x):
            x = x.to(self.h0.dtype)
            h, state = self._step(x, self.initial_state(len(x)) if state is None else state)
            return torch.tanh(self.output(h)), state

    def _forward(
        self, x: Tensor, state: RNNState | None, lengths: Tensor | Sequence[int] | None
    ) -> tuple[Tensor, RNNState]:
        with outside_autocast(x):
            x = x.to(self.h0.dtype)
            ragged = None
            if lengths is not None:
                ragged = Ragged(check_lengths(lengths, *x.shape[:2]), x.shape[0], x.device)
                x = x.masked_fill(ragged.padded[..., None], 0)  # not even NaN may reach a gradient
            hidden, state = self._run(x, state, ragged)
            output = torch.tanh(self.output(hidden))
            if ragged is not None:
                output = output.masked_fill(ragged.padded[..., None], 0)
            return output, state

    def _forward_packed(
        self, x: PackedSequence, state: RNNState | None
    ) -> tuple[PackedSequence, RNNState]:
        """In the order of the packed rows, which the output must keep."""
        padded, lengths = pad_packed_sequence(PackedSequence(x.data, x.batch_sizes))
        self._check(padded, state, "T, B")
        if state is not None and x.sorted_indices is not None:
            state = state.rows(x.sorted_indices)
        output, state = self._forward(padded, state, lengths)
        if x.unsorted_indices is not None:
            state = state.rows(x.unsorted_indices)
        data = pack_padded_sequence(output, lengths).data
        return PackedSequence(data, x.batch_sizes, x.sorted_indices, x.unsorted_indices), state

    def initial_state(self, batch: int) -> RNNState:
        """Where every sequence starts: the learned controller state, a read of 0, no cells."""
        h = self.h0.expand(batch, -1)
        ends = (2,) if self.ends == 2 else ()
        read = h.new_zeros(batch, *ends, self.memory.width)
        cells = MemoryState(h.new_zeros(batch, 0, read.shape[-1]), h.new_zeros(batch, 0))
        return RNNState(h if self.c0 is None else (h, self.c0.expand(batch, -1)), read, cells)

    def _run(
        self, x: Tensor, state: RNNState | None, ragged: Ragged | None
    ) -> tuple[Tensor, RNNState]:
        """x [T, B, I] -> the controller's outputs [T, B, H], anything at padded steps."""
        state = self.initial_state(x.shape[1]) if state is None else state
        if ragged is not None:
            x, state = x[:, ragged.order], state.rows(ragged.order)
        sizes = [x.shape[1]] * x.shape[0] if ragged is None else ragged.sizes
        able = fused.can_run(self, x)
        if self.backend == "fused" and not able:
            raise ValueError(
                "backend 'fused' runs the cells lstm, gru and rnn in float32 or float64 on the "
                f"CPU; got {type(self.cell).__name__}, {x.dtype} on {x.device}"
            )
        go = fused.run if able and self.backend != "generic" else _run_generic
        hidden, state = go(self, x, state, sizes, draw_noise(self, x))
        if ragged is not None:
            hidden, state = hidden[:, ragged.back], state.rows(ragged.back)
        return hidden, state

    def controls(self, h: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """What the controller's output o' [B, H] makes the memory do: value, push and pop.

        They are shaped as `self.memory.step` takes them. After a step, o' is `state.parts[0]`.
        """
        logits = self.gates(h) if noise is None else self.gates(h) + noise
        push, pop = torch.sigmoid(logits).chunk(2, dim=-1)
        value = torch.tanh(self.value(h))
        if self.ends == 2:
            return value.reshape(len(value), 2, -1), push, pop
        return value, push.squeeze(-1), pop.squeeze(-1)

    def _step(self, x: Tensor, state: RNNState, noise: Noise = NO_NOISE) -> tuple[Tensor, RNNState]:
        """One step of the controller and of the memory: o' [B, H] and the state."""
        extra = () if noise.controller is None else (noise.controller,)
        seen = torch.cat([x, state.read.flatten(1)], dim=-1)
        controller = self.cell(seen, state.controller, *extra)
        h = controller[0] if self.has_c else controller
        value, push, pop = self.controls(h, noise.memory)
        read, cells = self.memory.step(value, push, pop, state.memory)
        return h, RNNState(controller, read, cells)

    def _check(self, x: Tensor, state: RNNState | None, letters: str) -> None:
        axes = letters.split(", ")
        if x.dim() != len(axes) + 1 or x.shape[-1] != self.input_size:
            raise ValueError(f"x must be [{letters}, {self.input_size}]; got {list(x.shape)}")
        like = self.h0
        mixed = torch.is_autocast_enabled(x.device.type) and x.is_floating_point()
        if (x.dtype != like.dtype and not mixed) or x.device != like.device:
            raise ValueError(
                f"x must be {like.dtype} on {like.device} as the layer is; got "
                f"{x.dtype} on {x.device}"
            )
        if state is not None:
            if not isinstance(state, RNNState):
                raise TypeError(f"state must be an RNNState or None; got {type(state).__name__}")
            state.check(self.initial_state(0), batch=x.shape[axes.index("B")] if "B" in axes else 1)

    def extra_repr(self) -> str:
        """The arguments, as `print(module)` shows them."""
        sizes = f"{self.input_size}, {self.hidden_size}, output_size={self.output_size}"
        return f"{sizes}, memory={self.memory.kind!r}"


def _run_generic(
    layer: MemoryRNN, x: Tensor, state: RNNState, sizes: list[int], noise: Noise
) -> tuple[Tensor, RNNState]:
    """Step by step, by autograd. Rows are sorted by length: step t has the first sizes[t] of them,
    and the state of a row that has ended is set aside.
    """
    ended: list[RNNState] = []
    hidden = []
    for t, (x_t, size) in enumerate(zip(x, sizes, strict=True)):
        if size == 0:
            break
        rows = state.read.shape[0]
        if size < rows:
            ended.append(state.rows(slice(size, rows)))
            state = state.rows(slice(0, size))
        h, state = layer._step(x_t[:size], state, noise.at(t, size))
        hidden.append(nn.functional.pad(h, (0, 0, 0, x.shape[1] - size)))
    padding = x.new_zeros(x.shape[0] - len(hidden), x.shape[1], layer.hidden_size)
    steps = torch.cat([torch.stack(hidden), padding]) if hidden else padding
    return steps, RNNState.join([state, *reversed(ended)])
