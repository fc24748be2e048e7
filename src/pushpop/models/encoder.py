"""The encoder and the attention: what a transducer can do with its source besides storing it.

The source here is SOS, the source symbols and SEP. An encoder reads it whole, in both directions,
before the body does; attention lets each output look back at what was made of it. Attention comes
after the recurrence (as in Luong et al., 2015: "general" scores), so that the body still runs over
a whole sequence at once.
"""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from pushpop.layers import NoiseLevels
from pushpop.layers.inputs import pad
from pushpop.models.body import Body, BodyState, RowLengths, SourceState
from pushpop.models.config import TransducerConfig

SCORES_AT_ONCE = 2**24
"""Attention scores that are computed together where no gradient is wanted: what bounds the
memory."""


class SourceEncoder(nn.Module):
    """An LSTM in both directions, half of `hidden` each, and a projection to what the body reads.

    The body reads the symbol's embedding plus the projection, so that a body that can do without
    the context is not kept from it.
    """

    def __init__(self, embedding: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.lstm = nn.LSTM(embedding, (hidden + 1) // 2, bidirectional=True)
        self.width, self.dropout = 2 * self.lstm.hidden_size, dropout
        self.output = nn.Linear(self.width, embedding)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """x [S, B, E], lengths [B] -> what the body reads [S, B, E], and the states [S, B, K]."""
        packed = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
        states = pad(self.lstm(packed)[0], x.shape[0])
        states = nn.functional.dropout(states, self.dropout, self.training)
        return x + self.output(states), states


class Attention(nn.Module):
    """o -> tanh(W [o, context]), the context a mean of the keys weighted by softmax(o W k)."""

    def __init__(self, embedding: int, keys: int) -> None:
        super().__init__()
        self.query = nn.Linear(embedding, keys, bias=False)
        self.output = nn.Linear(embedding + keys, embedding)

    def forward(self, o: Tensor, keys: Tensor, present: Tensor) -> Tensor:
        """o [T, B, E], keys [S, B, K], present [S, B] -> [T, B, E]."""
        # Without a gradient nothing is kept of the scores, so there need never be many at once.
        at_once = len(o)
        if at_once > 1 and not torch.is_grad_enabled():
            at_once = max(1, SCORES_AT_ONCE // present.numel())
        contexts = [
            torch.einsum("bts,sbk->tbk", self.weights(some, keys, present), keys)
            for some in torch.tensor_split(o, tuple(range(at_once, len(o), at_once)))
        ]
        return torch.tanh(self.output(torch.cat([o, torch.cat(contexts)], dim=-1)))

    def weights(self, o: Tensor, keys: Tensor, present: Tensor) -> Tensor:
        """How much each output attends to each source position: [B, T, S], rows that sum to 1."""
        scores = torch.einsum("tbk,sbk->bts", self.query(o), keys)
        return scores.masked_fill(~present.T[:, None], -torch.inf).softmax(dim=-1)


class SourceReader(nn.Module):
    """The encoder, the attention, or both, around a body."""

    def __init__(self, config: TransducerConfig) -> None:
        super().__init__()
        encodes = config.encoder == "bidirectional"
        sizes = (config.embedding, config.hidden, config.dropout)
        self.encoder = SourceEncoder(*sizes) if encodes else None
        width = self.encoder.width if self.encoder is not None else config.embedding
        self.attention = Attention(config.embedding, width) if config.attention else None

    def run(
        self, body: Body, x: Tensor, at_sep: Tensor, lengths: RowLengths,
        state: SourceState | None, noise: NoiseLevels | None = None, attend: bool = True,
    ) -> tuple[Tensor, SourceState]:  # fmt: skip
        """x [T, B, E] -> o [T, B, E] and the state.

        Without a state, the source begins at the first step and ends where `at_sep` [T, B] says.
        Unless it is to `attend`, o is what the body says by itself.
        """
        if state is None:
            o, state = self._read(body, x, at_sep, lengths, noise)
        else:
            o, after = body(x, state.body, lengths, noise)
            state = state._replace(body=after)
        return self._attended(o, state) if attend else o, state

    def weights(self, body: Body, x: Tensor, at_sep: Tensor) -> Tensor:
        """How much the output of each step attends to each source position: [B, T, S]."""
        assert self.attention is not None
        o, state = self._read(body, x, at_sep, None)
        return self.attention.weights(o, state.keys, state.present)

    def _read(
        self, body: Body, x: Tensor, at_sep: Tensor, lengths: RowLengths,
        noise: NoiseLevels | None = None,
    ) -> tuple[Tensor, SourceState]:  # fmt: skip
        """The body's outputs from the first step on, not yet attended, and the state."""
        if not bool(at_sep.any(dim=0).all()):
            raise ValueError("the model reads the whole source at once; got rows without SEP")
        ends = at_sep.int().argmax(dim=0) + 1  # [B]
        S = int(ends.max())
        steps = torch.arange(x.shape[0], device=x.device)
        present = steps[:S, None] < ends
        keys = x[:S]
        if self.encoder is not None:
            encoded, keys = self.encoder(x[:S], ends)
            x = torch.cat([torch.where(present[..., None], encoded, x[:S]), x[S:]])
        o, after = body(x, None, lengths, noise)
        if self.encoder is None:
            keys = o[:S]
        return o, SourceState(after, keys, present)

    def reading(self, body: Body, x: Tensor) -> Iterator[tuple[Tensor, SourceState]]:
        """o [B, E] and the state at each step of sources x [S, B, E], SOS to SEP, of one length.

        Outputs before the last look only at what is there already if there is no encoder.
        """
        keys = x[:0]
        if self.encoder is not None:
            lengths = torch.full(x.shape[1:2], x.shape[0])
            x, keys = self.encoder(x, lengths)
        after: BodyState | None = None
        for x_t in x:
            o, after = body.step(x_t, after)
            if self.encoder is None:
                keys = torch.cat([keys, o[None]])
            present = torch.ones(keys.shape[:2], dtype=torch.bool, device=x.device)
            state = SourceState(after, keys, present)
            yield self._attended(o[None], state)[0], state

    def step(self, body: Body, x: Tensor, state: SourceState | None) -> tuple[Tensor, SourceState]:
        """x [B, E] -> o [B, E] and the state; the source has been read."""
        if state is None:
            raise ValueError("the model reads the whole source at once: call run first")
        o, after = body.step(x, state.body)
        return self._attended(o[None], state)[0], state._replace(body=after)

    def _attended(self, o: Tensor, state: SourceState) -> Tensor:
        if self.attention is None:
            return o
        return cast(Tensor, self.attention(o, state.keys, state.present))
