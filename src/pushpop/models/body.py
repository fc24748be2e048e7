"""The recurrent part of a transducer, from input embeddings to output embeddings."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from pushpop.layers import (
    DeepLSTM,
    LayeredState,
    LSTMState,
    MemoryRNN,
    NoiseLevels,
    RNNState,
)
from pushpop.layers.inputs import pad
from pushpop.models.config import TransducerConfig

RowLengths = Tensor | Sequence[int] | None


class BodyState(Protocol):
    """The state that a body carries from step to step."""

    def rows(self, index: Any) -> Self:
        """Select rows of the batch, in any order, repeated or not."""


class Body(Protocol):
    """A recurrent network from input embeddings to output embeddings."""

    def __call__(
        self, x: Tensor, state: Any = None, lengths: RowLengths = None,
        noise: NoiseLevels | None = None,
    ) -> tuple[Tensor, BodyState]:  # fmt: skip
        """x [T, B, E] -> [T, B, E] and the state."""

    def step(self, x: Tensor, state: Any = None) -> tuple[Tensor, BodyState]:
        """x [B, E] -> [B, E] and the state."""


class SourceState(NamedTuple):
    """A body's state and the encoded source that outputs attend to."""

    body: BodyState
    keys: Tensor  # [S, B, K], what was made of each source symbol
    present: Tensor  # [S, B] bool, False where a source has ended

    def rows(self, index: Any) -> "SourceState":
        """Select rows of the batch, in any order."""
        return SourceState(self.body.rows(index), self.keys[:, index], self.present[:, index])


HeadCall = Callable[[MemoryRNN, Tensor, RNNState | None], tuple[Tensor, Any]]


class LSTMBody(nn.Module):
    """A deep LSTM and tanh(Linear(hidden, embedding)) on top: the body without a memory."""

    def __init__(self, embedding: int, hidden: int, layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.lstm = DeepLSTM(embedding, hidden, layers, dropout=dropout)
        self.output = nn.Linear(hidden, embedding)

    def forward(
        self, x: Tensor, state: LSTMState | None = None, lengths: RowLengths = None,
        noise: NoiseLevels | None = None,
    ) -> tuple[Tensor, LSTMState]:  # fmt: skip
        """x [T, B, E] -> [T, B, E] and the state. There are no gates to give noise to."""
        hidden, after = self.lstm(x, state, lengths)
        return torch.tanh(self.output(hidden)), after

    def step(self, x: Tensor, state: LSTMState | None = None) -> tuple[Tensor, LSTMState]:
        """x [B, E] -> [B, E] and the state."""
        hidden, after = self.lstm.step(x, state)
        return torch.tanh(self.output(hidden)), after


class PlainState(NamedTuple):
    """The state of a `PlainBody`."""

    h: Tensor  # [L, B, H]

    def rows(self, index: Any) -> "PlainState":
        """Select rows of the batch, in any order."""
        return PlainState(self.h[:, index])


class PlainBody(nn.Module):
    """torch's GRU or Elman network and tanh(Linear(hidden, embedding)) on top, without a memory: to
    compare with."""

    def __init__(
        self, embedding: int, hidden: int, layers: int, cell: str, dropout: float = 0.0
    ) -> None:
        super().__init__()
        kind = nn.GRU if cell == "gru" else nn.RNN
        self.rnn = kind(embedding, hidden, layers, dropout=dropout if layers > 1 else 0.0)
        self.output = nn.Linear(hidden, embedding)

    def forward(
        self, x: Tensor, state: PlainState | None = None, lengths: RowLengths = None,
        noise: NoiseLevels | None = None,
    ) -> tuple[Tensor, PlainState]:  # fmt: skip
        """x [T, B, E] -> [T, B, E] and the state. There are no gates to give noise to."""
        before = None if state is None else state.h
        if lengths is None:
            hidden, after = self.rnn(x, before)
        else:
            counts = torch.as_tensor(lengths).cpu()
            packed = nn.utils.rnn.pack_padded_sequence(x, counts, enforce_sorted=False)
            packed_hidden, after = self.rnn(packed, before)
            hidden = pad(packed_hidden, x.shape[0])
        return torch.tanh(self.output(hidden)), PlainState(after)

    def step(self, x: Tensor, state: PlainState | None = None) -> tuple[Tensor, PlainState]:
        """x [B, E] -> [B, E] and the state."""
        o, after = self(x[None], state)
        return o[0], after


class MemoryBody(nn.Module):
    """Layers of heads, each a controller with a memory, and tanh(Linear(...)) on top.

    The heads of a layer read the same and know nothing of each other. A layer above the first reads
    the input beside the outputs of all heads below it.
    """

    def __init__(self, config: TransducerConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        together = config.heads * config.hidden
        self.layers = nn.ModuleList(
            nn.ModuleList(
                _memory_rnn(config, config.embedding + (together if layer else 0), config.hidden)
                for _ in range(config.heads)
            )
            for layer in range(config.layers)
        )
        self.output = nn.Linear(together, config.embedding)

    def all_heads(self) -> list[MemoryRNN]:
        """The heads, layer by layer."""
        return [head for layer in self.layers for head in layer]  # type: ignore[attr-defined]

    def forward(
        self, x: Tensor, state: LayeredState | None = None, lengths: RowLengths = None,
        noise: NoiseLevels | None = None,
    ) -> tuple[Tensor, LayeredState]:  # fmt: skip
        """x [T, B, E] -> [T, B, E] and the states, layer by layer."""
        return self._run(x, state, lambda head, x, before: head(x, before, lengths, noise))

    def step(self, x: Tensor, state: LayeredState | None = None) -> tuple[Tensor, LayeredState]:
        """x [B, E] -> [B, E] and the states."""
        return self._run(x, state, lambda head, x, before: head.step(x, before))

    def _run(
        self, x: Tensor, state: LayeredState | None, call: HeadCall
    ) -> tuple[Tensor, LayeredState]:
        heads = self.all_heads()
        before = [None] * len(heads) if state is None else list(state)
        after: list[RNNState] = []
        out = x[..., :0]
        for first in range(0, len(heads), self.heads):
            seen = torch.cat([x, self._dropped(out)], dim=-1) if first else x
            places = range(first, first + self.heads)
            results = [call(heads[place], seen, before[place]) for place in places]
            out = torch.cat([output for output, _ in results], dim=-1)
            after += [head_state for _, head_state in results]
        return torch.tanh(self.output(self._dropped(out))), LayeredState(after)

    def _dropped(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, self.dropout, self.training)


def make_body(config: TransducerConfig) -> MemoryRNN | LSTMBody | PlainBody | MemoryBody:
    """The body that a config describes, with fresh parameters."""
    if config.memory == "none" and config.cell != "lstm":
        sizes = (config.embedding, config.hidden, config.layers)
        return PlainBody(*sizes, config.cell, config.dropout)
    if config.memory == "none":
        return LSTMBody(config.embedding, config.hidden, config.layers, config.dropout)
    if config.layers > 1 or config.heads > 1:
        return MemoryBody(config)
    return _memory_rnn(config, config.embedding, config.embedding)


def _memory_rnn(config: TransducerConfig, input_size: int, output_size: int) -> MemoryRNN:
    return MemoryRNN(
        input_size,
        config.hidden,
        config.memory,
        config.memory_width,
        config.cell,
        output_size=output_size,
        num_memories=config.memories,
        **config.starting_biases(),
    )
