"""The paper's benchmark: LSTM layers on top of each other, each of which also sees the input."""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from pushpop.layers.backends import RecurrenceInput, recurrence
from pushpop.layers.inputs import (
    Ragged,
    check_input,
    check_lengths,
    check_like_parameter,
    outside_autocast,
    pad,
    real_steps,
)
from pushpop.layers.state import LSTMState
from pushpop.memory import BACKENDS as BACKEND_NAMES
from pushpop.memory.backends import BACKENDS
from pushpop.memory.operators import first_order_only, runs_eagerly, under_transform

Steps = TypeVar("Steps", Tensor, PackedSequence)
LSTMPair = tuple[Tensor, Tensor]
"""(h, c): an `LSTMState`, or a plain pair as `nn.LSTM` takes it."""


class DeepLSTM(nn.Module):
    """`num_layers` LSTMs: the first gets x_t, layer k gets [x_t, h_t of layer k - 1].

    The contract is that of `nn.LSTM`, with learned initial states `h0` and `c0` [L, H] and one bias
    vector a gate. Gates are stacked in torch's order: input, forget, cell, output.

    Args:
        input_size: I, the width of x_t.
        hidden_size: H, the width of every layer's h and c.
        num_layers: L.
        batch_first: input and output are [B, T, ...] not [T, B, ...]; states stay [L, B, H].
        dropout: the probability with which an element of h is dropped on its way to the next layer.
        backend: "fused" (the kernels of torch, and ours for rows of several lengths on the CPU),
            "reference" (plain torch, step by step) or "auto": fused, but where torch wants more
            than kernels can give (forward-mode or `torch.func` derivatives, no storage).
        device: where the parameters are.
        dtype: the type of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        batch_first: bool = False,
        dropout: float = 0.0,
        backend: str = "auto",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1; got {size}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be a probability, 0 to 1; got {dropout}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        if backend not in BACKEND_NAMES or backend in ("parallel", "triton"):
            raise ValueError(
                f"backend must be auto, fused or reference, a recurrence has no parallel form and "
                f"runs by torch's own kernels on a GPU; got {backend!r}"
            )
        self.batch_first, self.dropout, self.backend = batch_first, dropout, backend
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        for k in range(num_layers):
            width = input_size if k == 0 else input_size + hidden_size
            for name, shape in (
                ("weight_ih", (4 * hidden_size, width)),
                ("weight_hh", (4 * hidden_size, hidden_size)),
                ("bias", (4 * hidden_size,)),
            ):
                self.register_parameter(f"{name}_l{k}", nn.Parameter(torch.empty(shape, **factory)))
        self.h0 = nn.Parameter(torch.empty(num_layers, hidden_size, **factory))
        self.c0 = nn.Parameter(torch.empty(num_layers, hidden_size, **factory))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw everything, initial states included, uniformly from +-1/sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(
        self,
        x: Steps,
        state: LSTMPair | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Steps, LSTMState]:
        """x [T, B, I] or [T, I] -> the last layer's h [T, B, H], and (h, c) [L, B, H] at the end.

        With `lengths` [B], steps after a row's length are padding: they change nothing, their
        output is 0, and the state is the one after each row's last real step. A `PackedSequence`
        says the same and is answered with one.
        """
        run: Any = self._forward
        if torch.compiler.is_compiling():
            # A graph would hold every step of the loop, or a kernel that torch cannot trace
            # backwards; as `nn.LSTM`, this layer stays outside of it.
            run = torch.compiler.disable(run)  # type: ignore[no-untyped-call]
        output, after = run(x, state, lengths)
        return output, after

    def _forward(
        self,
        x: Tensor | PackedSequence,
        state: LSTMPair | None,
        lengths: Tensor | Sequence[int] | None,
    ) -> tuple[Tensor | PackedSequence, LSTMState]:
        if isinstance(x, PackedSequence):
            if lengths is not None:
                raise ValueError("lengths were given with a PackedSequence, which has its own")
            return self._forward_packed(x, state)
        axes = "[B, T, I]" if self.batch_first else "[T, B, I]"
        check_input(x, (2, 3), f"{axes} or [T, I]", ("I", self.input_size), self.h0)
        batched = x.dim() == 3
        if not batched:
            if lengths is not None:
                raise ValueError("lengths need a batch; got an input [T, I] without one")
            output, after = self._run(x.unsqueeze(1), None, self._first(None, state))
            return output.squeeze(1), LSTMState(after.h.squeeze(1), after.c.squeeze(1))
        if self.batch_first:
            x = x.transpose(0, 1)
        T, B = x.shape[:2]
        first = self._first(B, state)
        numbers = [] if lengths is None else check_lengths(lengths, T, B)
        if numbers:
            ragged = Ragged(numbers, T, x.device)
            x = x.masked_fill(ragged.padded[..., None], 0).index_select(1, ragged.order)
            output, after = self._run(x, ragged.sizes, first.rows(ragged.order))
            output, after = output.index_select(1, ragged.back), after.rows(ragged.back)
        else:
            output, after = self._run(x, None, first)
        return (output.transpose(0, 1) if self.batch_first else output), after

    def _forward_packed(
        self, x: PackedSequence, state: LSTMPair | None
    ) -> tuple[PackedSequence, LSTMState]:
        data, batch_sizes, order, back = x
        check_input(data, (2,), "packed steps of [I]", ("I", self.input_size), self.h0)
        first = self._first(int(batch_sizes[0]), state)
        if order is not None:
            first = first.rows(order)
        padded = pad(PackedSequence(data, batch_sizes), len(batch_sizes))
        output, after = self._run(padded, batch_sizes.tolist(), first)
        rows = output[real_steps(batch_sizes, padded.shape[1]).to(output.device)]
        after = after if back is None else after.rows(back)
        return PackedSequence(rows, batch_sizes, order, back), after

    def step(self, x: Tensor, state: LSTMPair | None = None) -> tuple[Tensor, LSTMState]:
        """One step: x [B, I] or [I] -> the last layer's h [B, H], and (h, c) [L, B, H]."""
        check_input(x, (1, 2), "[B, I] or [I]", ("I", self.input_size), self.h0)
        batched = x.dim() == 2
        h, c = self._first(len(x) if batched else None, state)
        x = (x if batched else x.unsqueeze(0)).to(self.h0.dtype)
        below, hs, cs = x, [], []
        with outside_autocast(x):
            for k in range(self.num_layers):
                layer_input = x if k == 0 else torch.cat([x, self._drop(below)], dim=-1)
                if self._runs_plainly(x):
                    _, below, cell = self._run_plain(k, layer_input[None], None, h[k], c[k])
                else:
                    below, cell = torch.lstm_cell(layer_input, (h[k], c[k]), *self._weights(k))
                hs.append(below)
                cs.append(cell)
        after = LSTMState(torch.stack(hs), torch.stack(cs))
        if batched:
            return below, after
        return below.squeeze(0), LSTMState(after.h.squeeze(1), after.c.squeeze(1))

    def _run(
        self, x: Tensor, sizes: list[int] | None, first: LSTMState
    ) -> tuple[Tensor, LSTMState]:
        """All layers over x [T, B, I], of which the first sizes[t] rows have a step t, or all; the
        output at other steps is 0."""
        if x.shape[0] == 0:  # torch's kernel refuses to do nothing
            return x.new_zeros(0, x.shape[1], self.hidden_size), first
        x = x.to(self.h0.dtype)
        below, hs, cs = x, [], []
        with outside_autocast(x):
            for k in range(self.num_layers):
                layer_input = x if k == 0 else torch.cat([x, self._drop(below, sizes)], dim=-1)
                below, h, c = self._run_layer(k, layer_input, sizes, first.h[k], first.c[k])
                hs.append(h)
                cs.append(c)
        return below, LSTMState(torch.stack(hs), torch.stack(cs))

    def _run_layer(
        self, k: int, x: Tensor, sizes: list[int] | None, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Layer k over x [T, B, ...]: its h at every step, and the final h and c."""
        if self._runs_plainly(x):
            return self._run_plain(k, x, sizes, h, c)
        weights = self._weights(k)
        if sizes is not None and BACKENDS["fused"].supports(x.device, x.dtype):
            inputs = without_memory(x, sizes, h, c, *weights[:3])
            out = recurrence.run(inputs) if runs_eagerly(x) else recurrence(inputs)
            return out.hidden, out.carry, out.c
        start = (h[None].contiguous(), c[None].contiguous())
        options = (weights, True, 1, 0.0, self.training, False)
        if sizes is None:
            below, h, c = first_order_only(*torch.lstm(x, start, *options, False))
            return below, h[0], c[0]
        counts = torch.tensor([n for n in sizes if n])
        rows = torch.cat([x_t[:n] for x_t, n in zip(x, sizes, strict=True)])
        below, h, c = first_order_only(*torch.lstm(rows, counts, start, *options))
        return pad(PackedSequence(below, counts), len(x)), h[0], c[0]

    def _runs_plainly(self, x: Tensor) -> bool:
        """Whether kernels, torch's and ours, support less than is asked for."""
        return self.backend == "reference" or x.is_meta or under_transform()

    def _run_plain(
        self, k: int, x: Tensor, sizes: list[int] | None, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`_run_layer` by the equations."""
        weight_ih, weight_hh, bias, _ = self._weights(k)
        blocks, hidden = nn.functional.linear(x, weight_ih, bias), []
        T, B, _ = x.shape
        for blocks_t, n in zip(blocks, sizes or [B] * T, strict=True):
            i, f, g, o = (blocks_t[:n] + h[:n] @ weight_hh.T).chunk(4, dim=-1)
            c_n = torch.sigmoid(f) * c[:n] + torch.sigmoid(i) * torch.tanh(g)
            h_n = torch.sigmoid(o) * torch.tanh(c_n)
            hidden.append(nn.functional.pad(h_n, (0, 0, 0, B - n)))
            h, c = (h_n, c_n) if n == B else (torch.cat([h_n, h[n:]]), torch.cat([c_n, c[n:]]))
        return torch.stack(hidden), h, c

    def _weights(self, k: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        weight_ih, weight_hh, bias = (
            getattr(self, f"{name}_l{k}") for name in ("weight_ih", "weight_hh", "bias")
        )
        # Torch's kernels add two bias vectors; two that are trained would be one too many.
        return weight_ih, weight_hh, bias, torch.zeros_like(bias)

    def _drop(self, h: Tensor, sizes: list[int] | None = None) -> Tensor:
        if not (self.dropout and self.training):
            return h
        if sizes is None:
            return nn.functional.dropout(h, self.dropout)
        # Nothing is drawn for other steps.
        real = real_steps(torch.tensor(sizes), h.shape[1]).to(h.device)
        return h.new_zeros(h.shape).index_put((real,), nn.functional.dropout(h[real], self.dropout))

    def _first(self, batch: int | None, state: LSTMPair | None) -> LSTMState:
        """The state to start from, [L, B, H] each: the learned one, or the one given, [L, H] if the
        input has no batch."""
        if state is None:
            rows = 1 if batch is None else batch
            h, c = (p[:, None].expand(-1, rows, -1) for p in (self.h0, self.c0))
            return LSTMState(h, c)
        if not (
            isinstance(state, (tuple, list))
            and len(state) == 2
            and all(isinstance(x, Tensor) for x in state)
        ):
            raise TypeError(f"state must be a pair of tensors (h, c); got {type(state).__name__}")
        axes, shape = "[L, B, H]", [self.num_layers, batch, self.hidden_size]
        if batch is None:
            axes, shape = "[L, H]", [self.num_layers, self.hidden_size]
        for name, x in zip(("h", "c"), state, strict=True):
            if list(x.shape) != shape:
                why = " as the input has no batch" if batch is None else ""
                raise ValueError(
                    f"state's {name} must be {axes} = {shape}{why}; got {list(x.shape)}"
                )
            check_like_parameter(f"state's {name}", x, self.h0)
        first = LSTMState(*state).to(self.h0.dtype)
        return first if batch is not None else LSTMState(*(x.unsqueeze(1) for x in first))

    def extra_repr(self) -> str:
        arguments = f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"
        arguments += ", batch_first=True" if self.batch_first else ""
        arguments += f", backend={self.backend!r}" if self.backend != "auto" else ""
        return arguments + (f", dropout={self.dropout}" if self.dropout else "")


def without_memory(
    x: Tensor, sizes: list[int], h: Tensor, c: Tensor, weight_ih: Tensor, weight_hh: Tensor,
    bias: Tensor,
) -> RecurrenceInput:  # fmt: skip
    """An LSTM over x [T, B, I] as the kernels of recurrences with memories take it."""
    B, H = h.shape
    none, no_weight, no_read = x.new_zeros(0), x.new_zeros(0, H), x.new_zeros(B, 0)
    return RecurrenceInput(
        memory=[], memories=1, keep=True, cell="lstm", sizes=sizes,
        x=x, weight_ih=weight_ih, weight_hh=weight_hh, bias=bias,
        value_weight=no_weight, value_bias=none, gate_weight=no_weight, gate_bias=none,
        h=h, c=c, read=no_read, initial=x.new_zeros(B, 0, 1), strengths=no_read,
        gate_noise=None, cell_noise=None,
    )  # fmt: skip
