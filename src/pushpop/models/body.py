"""The recurrent part of a transducer, from input embeddings to output embeddings."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pushpop.layers import DeepLSTM, MemoryRNN, RNNState
from pushpop.models.config import TransducerConfig

State = RNNState | tuple[Tensor, Tensor]
"""What a body carries from step to step: a memory's `RNNState`, or (h, c), each [L, B, H]."""


class LSTMBody(nn.Module):
    """A deep LSTM and tanh(Linear(hidden, embedding)) on top: the body without a memory."""

    def __init__(self, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.lstm = DeepLSTM(embedding, hidden, layers)
        self.output = nn.Linear(hidden, embedding)

    def forward(
        self,
        x: Tensor,
        state: tuple[Tensor, Tensor] | None = None,
        lengths: Tensor | Sequence[int] | None = None,
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


def make_body(config: TransducerConfig) -> MemoryRNN | LSTMBody:
    """The body that a config describes, with fresh parameters."""
    if config.memory == "none":
        return LSTMBody(config.embedding, config.hidden, config.layers)
    return MemoryRNN(
        config.embedding,
        config.hidden,
        config.memory,
        config.memory_width,
        config.cell,
        output_size=config.embedding,
        push_bias=config.push_bias,
        pop_bias=config.pop_bias,
    )


def select_rows(state: State, rows: Tensor) -> State:
    """Some rows of the batch, in any order, each as often as it is named: rows [any] int64."""
    if isinstance(state, RNNState):
        return state.rows(rows)
    h, c = state
    return h[:, rows], c[:, rows]
