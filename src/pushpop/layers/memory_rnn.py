"""`MemoryRNN`: nn.LSTM's contract around a memory."""

import warnings
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NoReturn, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from pushpop.layers.cells import Cell, GRUCell
from pushpop.layers.inputs import (
    NO_JIT,
    NoiseLevels,
    Ragged,
    check_input,
    check_lengths,
    outside_autocast,
    pad,
    real_steps,
    refuse_jit,
)
from pushpop.layers.memory_layer import MemoryLayer, OutputSize, StartingBias
from pushpop.layers.state import LayeredState, RNNState
from pushpop.memory import Memory

Steps = TypeVar("Steps", Tensor, PackedSequence)
LayerState = RNNState | LayeredState
"""The state of one layer in one direction, or of several."""
InitialState = LayerState | Tensor | tuple[Tensor, ...]
"""What a sequence may start from: a state, or h or (h, c) as nn.GRU and nn.LSTM take them."""


class MemoryRNN(MemoryLayer):
    """A controller and the memory it works, as a recurrent layer with the contract of `nn.LSTM`.

    At each step the controller reads the input and what the memory gave at the step before, and its
    output o' decides everything: gates = sigmoid(W o' + b) (or as the memory squashes them), value
    = tanh(W o' + b) and the layer's output o = tanh(W_o o' + b_o). A deque has push, pop, value and
    read at each end.

    Args:
        input_size: I, the width of the input.
        hidden_size: H, the width of the controller.
        memory: a name, as in "stack", "queue", "deque" (`pushpop.memory.MEMORIES` has all), or a
            `Memory` of one's own.
        memory_width: D, the width of what is written and read; `None`: H, or that of the memory.
        cell: "lstm", "gru" or "rnn" (one bias vector a gate), or a module with the signature of
            nn.LSTMCell or nn.GRUCell over the input and all reads (stack: I + D, deque: I + 2 D).
        output_size: O, the width of the output; `None`: H; "hidden": the output is o' itself.
        batch_first: whether input and output are [B, T, ...].
        num_layers: layers on top of each other; each reads the outputs of the one below.
        num_memories: M, memories side by side under one controller, which sees all their reads.
        bias: whether cell, value and output have biases; the gates always have theirs.
        dropout: the share of each layer's outputs but the last's that is set to 0 in training.
        bidirectional: whether further layers run from the last step to the first; outputs are
            [..., 2 O] then.
        push_bias: what the push gates' biases start at: one number; a deque's (top, bottom); with
            several memories also a list, one a memory. `None`: drawn as the weights are; "drift":
            each drawn from N(pop bias, 1). For memories that push and pop; others refuse it.
        pop_bias: the same for the pop gates. Negative, or pops empty the memory and teach nothing;
            "auto" is -1.
        backend: "fused" (whole sequences on the CPU, hand-written gradients), "triton" (the same on
            a GPU), "parallel" (plain torch around the memory's closed form), "reference" (plain
            torch and the equations) or "auto": kernels where they can run. Where torch wants more
            than kernels can give (hooks, replaced parts, forward-mode or `torch.func` derivatives)
            "auto", "fused" and "triton" run plain torch by themselves.
        device: where the parameters are.
        dtype: the type of the parameters.
        proj_size: refused unless 0; `output_size` is the width of the output.

    Everything else is drawn from the uniform distribution on +-1/sqrt(H), the learned initial state
    of the controller (h0, c0) too. The first read is 0 and the first memory empty. The module
    itself is layer 0 forwards; `further` holds the other layers and directions, in the order of
    `nn.LSTM`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        memory: str | Memory[Any] = "stack",
        memory_width: int | None = None,
        cell: str | nn.Module = "lstm",
        output_size: OutputSize = None,
        batch_first: bool = False,
        *,
        num_layers: int = 1,
        num_memories: int = 1,
        bias: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        push_bias: StartingBias = "auto",
        pop_bias: StartingBias = "auto",
        backend: str = "auto",
        device: Any = None,
        dtype: torch.dtype | None = None,
        proj_size: int = 0,
    ) -> None:
        if isinstance(memory, int):
            raise TypeError(
                "the third argument is memory, a name or a Memory, and what nn.LSTM has there goes "
                f"by name; got {memory}: did you mean num_layers={memory}?"
            )
        if proj_size:
            raise ValueError(
                f"proj_size is nn.LSTM's; got {proj_size}: use output_size={proj_size}, the width "
                "of the output, which leaves h as wide as it is"
            )
        options: dict[str, Any] = {
            "num_memories": num_memories,
            "bias": bias,
            "push_bias": push_bias,
            "pop_bias": pop_bias,
            "backend": backend,
            "device": device,
            "dtype": dtype,
        }
        super().__init__(
            input_size, hidden_size, memory, memory_width, cell, output_size, **options
        )
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1; got {num_layers}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be a probability, 0 to 1; got {dropout}")
        if dropout and num_layers == 1:
            warnings.warn(
                f"dropout is between layers; num_layers is 1, so dropout={dropout} does nothing",
                stacklevel=2,
            )
        self.batch_first, self.num_layers, self.dropout = batch_first, num_layers, dropout
        self.bidirectional = bidirectional
        n_further = num_layers * self.num_directions - 1
        if n_further and isinstance(cell, nn.Module):
            raise ValueError(
                "a given cell serves one layer in one direction; expected the name of a cell for "
                f"num_layers={num_layers}, bidirectional={bidirectional}"
            )
        wide = self.num_directions * self.output_size
        self.further = nn.ModuleList(
            MemoryLayer(
                input_size if place < self.num_directions else wide,
                hidden_size,
                memory if isinstance(memory, str) else deepcopy(memory),
                memory_width,
                cell,
                output_size,
                **options,
            )
            for place in range(1, n_further + 1)
        )

    @classmethod
    def from_lstm(
        cls,
        lstm: nn.LSTM,
        memory: str | Memory[Any] = "stack",
        memory_width: int | None = None,
        **options: Any,
    ) -> Self:
        """A layer that computes what a trained `nn.LSTM` does, and has a memory to learn to use.

        Its outputs are h, and all that it reads is multiplied by 0 at first. `options` are those
        that `nn.LSTM` does not have: num_memories, push_bias, pop_bias, backend.
        """
        return cls._from_torch(lstm, nn.LSTM, memory, memory_width, options)

    @classmethod
    def from_gru(
        cls,
        gru: nn.GRU,
        memory: str | Memory[Any] = "stack",
        memory_width: int | None = None,
        **options: Any,
    ) -> Self:
        """The same of a trained `nn.GRU`. Its cells have one more bias, `cell.bias_hn`."""
        return cls._from_torch(gru, nn.GRU, memory, memory_width, options)

    @classmethod
    def _from_torch(
        cls,
        trained: nn.RNNBase,
        wanted: type[nn.RNNBase],
        memory: str | Memory[Any],
        memory_width: int | None,
        options: dict[str, Any],
    ) -> Self:
        name = wanted.__name__
        if not isinstance(trained, wanted):
            raise TypeError(
                f"from_{name.lower()} takes a torch.nn.{name}; got {type(trained).__name__}"
            )
        if trained.proj_size:
            raise ValueError(f"proj_size must be 0: outputs are h; got {trained.proj_size}")
        names = ("batch_first", "num_layers", "bias", "dropout", "bidirectional")
        shared: dict[str, Any] = {option: getattr(trained, option) for option in names}
        like = trained.all_weights[0][0]
        shared |= {"device": like.device, "dtype": like.dtype}
        wide, hidden = trained.input_size, trained.hidden_size
        rnn = cls(wide, hidden, memory, memory_width, name.lower(), "hidden", **shared, **options)
        _copy_weights(trained, rnn.layers, rnn.num_directions)
        return rnn.train(trained.training)

    @property
    def num_directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def layers(self) -> list[MemoryLayer]:
        """All layers and directions in the order of `nn.LSTM`; this module is the first."""
        return [self, *self.further]

    def initial_state(self, batch: int) -> LayerState:
        """Where every sequence starts: learned controller states, reads of 0, empty memories."""
        return self._joined([layer.first_state(batch) for layer in self.layers])

    def reset_parameters(self) -> None:
        """Draw everything anew: uniform on +-1/sqrt(hidden_size), and the gates' biases."""
        super().reset_parameters()
        for layer in self.layers[1:]:
            layer.reset_parameters()

    def flatten_parameters(self) -> None:
        """Do nothing: there is no copy of the weights to keep in one piece, as `nn.LSTM` has."""

    def __prepare_scriptable__(self) -> NoReturn:
        """Raise: `torch.jit.script` asks for this first."""
        raise RuntimeError(NO_JIT)

    def forward(  # type: ignore[override]  # the layers in `further` are called with other things
        self,
        x: Steps,
        state: InitialState | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        noise: NoiseLevels | None = None,
        *,
        hx: InitialState | None = None,
    ) -> tuple[Steps, LayerState]:
        """x [T, B, I] (or [T, I], or packed) -> output [T, B, O] (or as x is) and the state.

        With `lengths` [B], steps from lengths[b] on are padding of row b: its output there is 0 and
        its state stays as it was. `noise` is added to gates, for training. The state is an
        `RNNState`, of several layers or directions a `LayeredState` of them; without a batch in x,
        it has none either. `hx` is another name of `state`. In place of a state both take h or
        (h, c) as `nn.GRU` and `nn.LSTM` do, and memories are empty then.
        """
        refuse_jit()
        if hx is not None:
            if state is not None:
                raise ValueError("state and hx are two names of one argument; both were given")
            state = hx
        run: Any = self._forward_packed if isinstance(x, PackedSequence) else self._forward_padded
        output, after = run(x, state, lengths, noise)
        return output, after

    def _forward_padded(
        self,
        x: Tensor,
        state: InitialState | None,
        lengths: Tensor | Sequence[int] | None,
        noise: NoiseLevels | None,
    ) -> tuple[Tensor, LayerState]:
        axes = "[B, T, I]" if self.batch_first else "[T, B, I]"
        check_input(x, (2, 3), f"{axes} or [T, I]", ("I", self.input_size), self.h0)
        if x.dim() == 2:
            if lengths is not None:
                raise ValueError("lengths need a batch; got an input [T, I] without one")
            output, after = self._forward(x[:, None], self._states(state, 1, False), None, noise)
            return output[:, 0], self._joined(after, False)
        time_first = x.transpose(0, 1) if self.batch_first else x
        states = self._states(state, time_first.shape[1])
        output, after = self._forward(time_first, states, lengths, noise)
        return output.transpose(0, 1) if self.batch_first else output, self._joined(after)

    def step(self, x: Tensor, state: InitialState | None = None) -> tuple[Tensor, LayerState]:
        """One step: x [B, I] or [I] -> output [B, O] or [O] and the state. Old states stay valid.

        A bidirectional layer has no steps: its outputs depend on what comes after them.
        """
        if self.bidirectional:
            raise ValueError("a bidirectional layer cannot be stepped: it reads from both ends")
        check_input(x, (1, 2), "[B, I] or [I]", ("I", self.input_size), self.h0)
        batched = x.dim() == 2
        x = x if batched else x[None]
        after = []
        with outside_autocast(x):
            out = x.to(self.h0.dtype)
            for place, (layer, before) in enumerate(
                zip(self.layers, self._states(state, len(x), batched), strict=True)
            ):
                layer_input = self._dropped(out) if place else out
                start = layer.first_state(len(x)) if before is None else before
                h, new = layer.step_layer(layer_input, start)
                out = layer.output_of(h)
                after.append(new)
        return out if batched else out[0], self._joined(after, batched)

    def _forward(
        self,
        x: Tensor,
        states: list[RNNState | None],
        lengths: Tensor | Sequence[int] | None,
        noise: NoiseLevels | None,
    ) -> tuple[Tensor, list[RNNState]]:
        with outside_autocast(x):
            x = x.to(self.h0.dtype)
            ragged = None
            if lengths is not None:
                ragged = Ragged(check_lengths(lengths, *x.shape[:2]), x.shape[0], x.device)
                x = x.masked_fill(ragged.padded[..., None], 0)  # not even NaN may reach a gradient
            after: list[RNNState] = []
            for first in range(0, len(self.layers), self.num_directions):
                layer_input = self._dropped(x) if first else x
                outputs = []
                for way in range(self.num_directions):
                    layer, before = self.layers[first + way], states[first + way]
                    seen = _reversed(layer_input, ragged) if way else layer_input
                    run = self.run_layer if layer is self else layer  # a call, so that hooks fire
                    output, state = run(seen, before, ragged, noise)
                    outputs.append(_reversed(output, ragged) if way else output)
                    after.append(state)
                x = torch.cat(outputs, dim=-1) if self.bidirectional else outputs[0]
            return x, after

    def _forward_packed(
        self, x: PackedSequence, state: InitialState | None, lengths: Any, noise: NoiseLevels | None
    ) -> tuple[PackedSequence, LayerState]:
        """In the order of the packed rows, which the output must keep."""
        if lengths is not None:
            raise ValueError("lengths were given with a PackedSequence, which has its own")
        sizes = x.batch_sizes
        padded = pad(PackedSequence(x.data, sizes), len(sizes))
        lengths = real_steps(sizes, padded.shape[1]).sum(0)
        check_input(padded, (3,), "packed steps of [I]", ("I", self.input_size), self.h0)
        order = x.sorted_indices
        states = [
            layer_state if layer_state is None or order is None else layer_state.rows(order)
            for layer_state in self._states(state, padded.shape[1])
        ]
        output, states_after = self._forward(padded, states, lengths, noise)
        after = self._joined(states_after)
        if x.unsorted_indices is not None:
            after = after.rows(x.unsorted_indices)
        data = pack_padded_sequence(output, lengths).data
        return PackedSequence(data, x.batch_sizes, x.sorted_indices, x.unsorted_indices), after

    def _dropped(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, self.dropout, self.training) if self.dropout else x

    def _states(
        self, state: InitialState | None, batch: int, batched: bool = True
    ) -> list[RNNState | None]:
        """The state to start from of each layer and direction, with a batch, checked."""
        layers = self.layers
        if state is None:
            return [None] * len(layers)
        wanted = "an RNNState" if len(layers) == 1 else f"a tuple of {len(layers)} RNNStates"
        parts: Any = state if isinstance(state, (tuple, list)) else (state,)
        if parts and all(isinstance(part, Tensor) for part in parts):
            names = "(h, c)" if self.has_c else "h"
            shape = [len(layers), *([batch] if batched else []), self.hidden_size]
            shapes = [list(part.shape) for part in parts]
            expected = [shape] * (2 if self.has_c else 1)
            if shapes != expected:
                many = f" of {len(parts)}" if len(parts) > 1 else ""
                raise TypeError(
                    f"state must be {wanted} or None; got {type(state).__name__}{many}, which as "
                    f"{names} must be {expected}; got {shapes}"
                )
            state = self._started_from(parts, batch, batched)
        several = type(state) in (LayeredState, tuple, list)
        states: list[Any] = list(state) if several else [state]
        if len(states) != len(layers) or not all(
            isinstance(layer_state, RNNState) for layer_state in states
        ):
            many = f" of {len(states)}" if len(states) > 1 else ""
            raise TypeError(f"state must be {wanted} or None; got {type(state).__name__}{many}")
        checked: list[RNNState | None] = []
        for layer, layer_state in zip(layers, states, strict=True):
            if not batched:
                if layer_state.parts[0].dim() != 1:
                    raise ValueError(
                        f"h of the state must be [{layer.hidden_size}] as the input has no batch; "
                        f"got {list(layer_state.parts[0].shape)}"
                    )
                layer_state = layer_state.with_batch()
            layer_state.check(layer.first_state(0), layer.memory, layer.num_memories, batch)
            checked.append(layer_state)
        return checked

    def _started_from(self, parts: tuple[Tensor, ...], batch: int, batched: bool) -> LayerState:
        """The state with these h or (h, c) of all layers and directions, and empty memories."""
        states: list[RNNState] = []
        for place, layer in enumerate(self.layers):
            h = parts[0][place]
            empty = layer.first_state(batch)
            empty = empty if batched else empty.without_batch()
            states.append(empty._replace(controller=(h, parts[1][place]) if self.has_c else h))
        return states[0] if len(states) == 1 else LayeredState(states)

    def _joined(self, states: list[RNNState], batched: bool = True) -> LayerState:
        states = states if batched else [state.without_batch() for state in states]
        return states[0] if len(states) == 1 else LayeredState(states)

    def extra_repr(self) -> str:
        arguments = f"{self.input_size}, {self.hidden_size}, output_size={self.output_size}"
        usual = {
            "num_layers": 1, "num_memories": 1, "dropout": 0.0, "bidirectional": False,
            "batch_first": False, "backend": "auto",
        }  # fmt: skip
        for name, default in usual.items():
            if getattr(self, name) != default:
                arguments += f", {name}={getattr(self, name)!r}"
        return arguments


def _reversed(x: Tensor, ragged: Ragged | None) -> Tensor:
    """x [T, B, ...] from each row's last step to its first; padding stays where it is."""
    if ragged is None:
        return x.flip(0)
    return x.gather(0, ragged.reversed_steps[..., None].expand_as(x))


@torch.no_grad()
def _copy_weights(trained: nn.RNNBase, layers: Sequence[MemoryLayer], directions: int) -> None:
    """Have each layer and direction compute what that of `trained` does.

    The first state becomes 0, and so do the weights over what memories give: they have no say until
    training moves those weights.
    """
    for place, layer in enumerate(layers):
        cell = layer.cell
        assert isinstance(cell, Cell)
        suffix = f"_l{place // directions}" + ("_reverse" if place % directions else "")
        cell.weight_ih.zero_()
        cell.weight_ih[:, : layer.input_size] = getattr(trained, f"weight_ih{suffix}")
        cell.weight_hh.copy_(getattr(trained, f"weight_hh{suffix}"))
        for start in (layer.h0, layer.c0):
            if start is not None:
                start.zero_()
        if not trained.bias:
            continue
        assert cell.bias is not None
        over_x, over_h = (getattr(trained, f"bias_{side}{suffix}") for side in ("ih", "hh"))
        if isinstance(cell, GRUCell):  # a gate multiplies h's share of the candidate, and its bias
            over_h, over_candidate = over_h.split([2 * layer.hidden_size, layer.hidden_size])
            over_h = torch.cat([over_h, torch.zeros_like(over_candidate)])
            cell.bias_hn = nn.Parameter(over_candidate.clone())
        cell.bias.copy_(over_x + over_h)
