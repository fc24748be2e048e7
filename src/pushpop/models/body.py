"""The recurrent part of a transducer, from input embeddings to output embeddings."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from pushpop.layers import DeepLSTM, MemoryRNN, RNNState
from pushpop.models.config import TransducerConfig

Lengths = Tensor | Sequence[int] | None
BodyState = RNNState | tuple[RNNState, ...] | tuple[Tensor, Tensor]
"""What a body carries from step to step: a memory's `RNNState`, several, or (h, c) [L, B, H]."""


class SourceState(NamedTuple):
    """A body's state, and what outputs look at beside it."""

    body: BodyState
    keys: Tensor  # [S, B, K], what was made of each source symbol
    present: Tensor  # [S, B] bool, False where a source has ended


State = BodyState | SourceState
HeadCall = Callable[[MemoryRNN, Tensor, RNNState | None], tuple[Tensor, RNNState]]


class LSTMBody(nn.Module):
    """A deep LSTM and tanh(Linear(hidden, embedding)) on top: the body without a memory."""

    def __init__(self, embedding: int, hidden: int, layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.lstm = DeepLSTM(embedding, hidden, layers, dropout=dropout)
        self.output = nn.Linear(hidden, embedding)

    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None, lengths: Lengths = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x [T, B, E] -> [T, B, E] and the state."""
        hidden, state = self.lstm(x, state, lengths)
        return torch.tanh(self.output(hidden)), state

    def step(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x [B, E] -> [B, E] and the state."""
        hidden, state = self.lstm.step(x, state)
        return torch.tanh(self.output(hidden)), state


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

    def forward(
        self, x: Tensor, state: tuple[RNNState, ...] | None = None, lengths: Lengths = None
    ) -> tuple[Tensor, tuple[RNNState, ...]]:
        """x [T, B, E] -> [T, B, E] and the states, layer by layer."""
        return self._run(x, state, lambda head, x, s: head(x, s, lengths))

    def step(
        self, x: Tensor, state: tuple[RNNState, ...] | None = None
    ) -> tuple[Tensor, tuple[RNNState, ...]]:
        """x [B, E] -> [B, E] and the states."""
        return self._run(x, state, lambda head, x, s: head.step(x, s))

    def _run(
        self, x: Tensor, state: tuple[RNNState, ...] | None, call: HeadCall
    ) -> tuple[Tensor, tuple[RNNState, ...]]:
        before = iter(state if state is not None else [None] * self.heads * len(self.layers))
        after: list[RNNState] = []
        out: Tensor | None = None
        for layer in self.layers:
            seen = x if out is None else torch.cat([x, self._dropped(out)], dim=-1)
            heads = cast(list[MemoryRNN], layer)
            found = [call(head, seen, next(before)) for head in heads]
            out = torch.cat([output for output, _ in found], dim=-1)
            after += [head_state for _, head_state in found]
        assert out is not None
        return torch.tanh(self.output(self._dropped(out))), tuple(after)

    def _dropped(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, self.dropout, self.training)


Body = MemoryRNN | LSTMBody | MemoryBody


def make_body(config: TransducerConfig) -> Body:
    """The body that a config describes, with fresh parameters."""
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
        push_bias=config.push_bias,
        pop_bias=config.pop_bias,
    )


def select_rows(state: State, rows: Tensor) -> State:
    """Some rows of the batch, in any order, each as often as it is named: rows [any] int64."""
    if isinstance(state, SourceState):
        body = cast(BodyState, select_rows(state.body, rows))
        return SourceState(body, state.keys[:, rows], state.present[:, rows])
    if isinstance(state, RNNState):
        return state.rows(rows)
    if isinstance(state[0], RNNState):
        return tuple(part.rows(rows) for part in state)
    h, c = state
    return h[:, rows], c[:, rows]
