"""From input embeddings to output embeddings: the recurrent body, and the encoder and the attention
that may stand around it.

The source here is SOS, the source symbols and SEP. An encoder reads it whole, in both directions,
before the body does; attention lets each output look back at what was made of it. Attention comes
after the recurrence (as in Luong et al., 2015: "general" scores), so that the body still runs over
a whole sequence at once.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from pushpop.layers import DeepLSTM, LayeredState, LSTMState, MemoryRNN, NoiseLevels, RNNState
from pushpop.layers.inputs import pad
from pushpop.models.config import TransducerConfig

SCORES_AT_ONCE = 2**24
"""Attention scores that are computed together where no gradient is wanted: what bounds the
memory."""

RowLengths = Tensor | Sequence[int] | None


class BodyState(Protocol):
    """The state that a body carries from step to step."""

    def rows(self, index: Any) -> Self:
        """Select rows of the batch, in any order, repeated or not."""


class SourceState(NamedTuple):
    """A body's state and the encoded source that outputs attend to."""

    body: BodyState
    keys: Tensor  # [S, B, K], what was made of each source symbol
    present: Tensor  # [S, B] bool, False where a source has ended

    def rows(self, index: Any) -> "SourceState":
        return SourceState(self.body.rows(index), self.keys[:, index], self.present[:, index])


class PlainState(NamedTuple):
    """The state of torch's GRU or Elman network."""

    h: Tensor  # [L, B, H]

    def rows(self, index: Any) -> "PlainState":
        return PlainState(self.h[:, index])


class PlainBody(nn.Module):
    """A network without a memory and tanh(Linear(hidden, embedding)) on top: a deep LSTM, or
    torch's GRU or Elman network to compare with."""

    def __init__(self, config: TransducerConfig) -> None:
        super().__init__()
        sizes, dropout = (config.embedding, config.hidden, config.layers), config.dropout
        self.lstm = self.rnn = None
        if config.cell == "lstm":
            self.lstm = DeepLSTM(*sizes, dropout=dropout)
        else:
            kind = nn.GRU if config.cell == "gru" else nn.RNN
            self.rnn = kind(*sizes, dropout=dropout if config.layers > 1 else 0.0)
        self.output = nn.Linear(config.hidden, config.embedding)

    def first_state(self, batch: int) -> LSTMState | PlainState:
        if self.lstm is not None:
            h0, c0 = (s[:, None].repeat(1, batch, 1) for s in (self.lstm.h0, self.lstm.c0))
            return LSTMState(h0, c0)
        rnn = cast(nn.RNNBase, self.rnn)
        return PlainState(self.output.weight.new_zeros(rnn.num_layers, batch, rnn.hidden_size))

    def forward(
        self, x: Tensor, state: Any = None, lengths: RowLengths = None,
        noise: NoiseLevels | None = None,
    ) -> tuple[Tensor, LSTMState | PlainState]:  # fmt: skip
        """x [T, B, E] -> [T, B, E] and the state. There are no gates to give noise to."""
        if self.lstm is not None:
            hidden, after = self.lstm(x, state, lengths)
            return torch.tanh(self.output(hidden)), after
        rnn, before = cast(nn.RNNBase, self.rnn), None if state is None else state.h
        if lengths is None:
            hidden, h = rnn(x, before)
        else:
            counts = torch.as_tensor(lengths).cpu()
            packed, h = rnn(pack_padded_sequence(x, counts, enforce_sorted=False), before)
            hidden = pad(packed, x.shape[0])
        return torch.tanh(self.output(hidden)), PlainState(h)

    def step(self, x: Tensor, state: Any = None) -> tuple[Tensor, LSTMState | PlainState]:
        """x [B, E] -> [B, E] and the state."""
        if self.lstm is not None:
            hidden, after = self.lstm.step(x, state)
            return torch.tanh(self.output(hidden)), after
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
        return [head for layer in self.layers for head in layer]  # type: ignore[attr-defined]

    def forward(
        self, x: Tensor, state: LayeredState | None = None, lengths: RowLengths = None,
        noise: NoiseLevels | None = None,
    ) -> tuple[Tensor, LayeredState]:  # fmt: skip
        """x [T, B, E] -> [T, B, E] and the states, layer by layer."""
        o, after = self.run(x, state, lambda head, x, before: head(x, before, lengths, noise))
        return o, LayeredState(after)

    def step(self, x: Tensor, state: LayeredState | None = None) -> tuple[Tensor, LayeredState]:
        """x [B, E] -> [B, E] and the states."""
        o, after = self.run(x, state, lambda head, x, before: head.step(x, before))
        return o, LayeredState(after)

    def run(
        self,
        x: Tensor,
        states: Sequence[Any] | None,
        call: Callable[[MemoryRNN, Tensor, Any], tuple[Tensor, Any]],
    ) -> tuple[Tensor, list[Any]]:
        """Call each head with its input and its state; the output, and the states after."""
        heads = self.all_heads()
        before = [None] * len(heads) if states is None else list(states)
        after: list[RNNState] = []
        out = x[..., :0]
        for first in range(0, len(heads), self.heads):
            seen = torch.cat([x, self._dropped(out)], dim=-1) if first else x
            places = range(first, first + self.heads)
            results = [call(heads[place], seen, before[place]) for place in places]
            out = torch.cat([output for output, _ in results], dim=-1)
            after += [head_state for _, head_state in results]
        return torch.tanh(self.output(self._dropped(out))), after

    def _dropped(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, self.dropout, self.training)


Body = MemoryRNN | PlainBody | MemoryBody


def make_body(config: TransducerConfig) -> Body:
    if config.memory == "none":
        return PlainBody(config)
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
        self, body: Body, x: Tensor, at_sep: Tensor, lengths: RowLengths, state: Any,
        noise: NoiseLevels | None = None, attend: bool = True,
    ) -> tuple[Tensor, SourceState]:  # fmt: skip
        """x [T, B, E] -> o [T, B, E] and the state.

        Without a state, the source begins at the first step and ends where `at_sep` [T, B] says.
        Unless it is to `attend`, o is what the body says by itself.
        """
        if state is None:
            o, state = self._read(body, x, at_sep, lengths, noise)
        else:
            o, after = body(x, _checked(state).body, lengths, noise)
            state = state._replace(body=after)
        return self._attended(o, state) if attend else o, state

    def weights(self, body: Body, x: Tensor, at_sep: Tensor) -> Tensor:
        """How much the output of each step attends to each source position: [B, T, S]."""
        assert self.attention is not None
        o, state = self._read(body, x, at_sep)
        return self.attention.weights(o, state.keys, state.present)

    def _read(
        self, body: Body, x: Tensor, at_sep: Tensor, lengths: RowLengths = None,
        noise: NoiseLevels | None = None,
    ) -> tuple[Tensor, SourceState]:  # fmt: skip
        """The body's outputs from the first step on, not yet attended, and the state."""
        if not bool(at_sep.any(dim=0).all()):
            raise ValueError("the model reads the whole source at once; got rows without SEP")
        ends = at_sep.int().argmax(dim=0) + 1  # [B]
        S = int(ends.max())
        steps = torch.arange(x.shape[0], device=x.device)
        present = steps[:S, None] < ends
        keys = None
        if self.encoder is not None:
            encoded, keys = self.encoder(x[:S], ends)
            x = torch.cat([torch.where(present[..., None], encoded, x[:S]), x[S:]])
        o, after = body(x, None, lengths, noise)
        return o, SourceState(after, o[:S] if keys is None else keys, present)

    def reading(self, body: Body, x: Tensor) -> Iterator[tuple[Tensor, SourceState]]:
        """o [B, E] and the state at each step of sources x [S, B, E], SOS to SEP, of one length.

        Outputs before the last look only at what is there already if there is no encoder.
        """
        keys = x[:0]
        if self.encoder is not None:
            x, keys = self.encoder(x, torch.full(x.shape[1:2], x.shape[0]))
        after: Any = None
        for x_t in x:
            o, after = body.step(x_t, after)
            if self.encoder is None:
                keys = torch.cat([keys, o[None]])
            present = torch.ones(keys.shape[:2], dtype=torch.bool, device=x.device)
            state = SourceState(after, keys, present)
            yield self._attended(o[None], state)[0], state

    def step(self, body: Body, x: Tensor, state: Any) -> tuple[Tensor, SourceState]:
        """x [B, E] -> o [B, E] and the state; the source has been read."""
        if state is None:
            raise ValueError("the model reads the whole source at once: call run first")
        o, after = body.step(x, _checked(state).body)
        return self._attended(o[None], state)[0], state._replace(body=after)

    def _attended(self, o: Tensor, state: SourceState) -> Tensor:
        if self.attention is None:
            return o
        return cast(Tensor, self.attention(o, state.keys, state.present))


def _checked(state: Any) -> Any:
    if not isinstance(state, SourceState):
        raise TypeError(f"state must be a SourceState or None; got {type(state).__name__}")
    return state
