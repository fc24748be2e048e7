"""Greedy decoding, and what it shares with beam search: read the sources, then write symbol by
symbol until EOS or the limit."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pushpop.devices import widest_float
from pushpop.errors import InputError
from pushpop.models.body import BodyState
from pushpop.tasks import Vocabulary

if TYPE_CHECKING:
    from pushpop.models.transducer import Transducer


NO_NUMBERS = "the model's outputs are not numbers: its weights are damaged or far too large"


@dataclass(frozen=True)
class Hypothesis:
    """A target that a model proposes."""

    ids: tuple[int, ...]  # output ids, without EOS
    symbols: tuple[str, ...]  # of these ids
    score: float  # total log probability of the symbols, and of EOS if finished
    finished: bool  # False: the limit on the length was hit before EOS
    target: tuple[str, ...] = ()  # the symbols, unknown ones replaced by those of the source
    text: str = ""  # the target as text


@dataclass(frozen=True)
class Request:
    """Sources as symbol numbers, and the most target symbols that each may get."""

    sources: list[Sequence[int]]
    limits: list[int]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout, whatever mode the model is in."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def greedy(model: "Transducer", request: Request) -> list[Hypothesis]:
    """The likeliest symbol at every step. Rows that have ended leave the batch."""
    EOS, n_sources = model.vocabulary.EOS, len(request.sources)
    ids: list[list[int]] = [[] for _ in range(n_sources)]
    scores, finished = [0.0] * n_sources, [False] * n_sources
    rows = list(range(n_sources))  # which source a row of the batch belongs to
    logits, state = read_sources(model, request.sources)
    for length in count():
        best_scores, best = log_probabilities(logits).max(dim=-1)
        going = []
        chosen = zip(rows, best.tolist(), best_scores.tolist(), strict=True)
        for row, (source, output_id, score) in enumerate(chosen):
            if output_id == EOS:
                finished[source] = True
                scores[source] += score
            elif length < request.limits[source]:
                ids[source].append(output_id)
                scores[source] += score
                going.append(row)
        if not going:
            break
        if len(going) < len(rows):
            index = torch.tensor(going, device=best.device)
            rows, best, state = [rows[k] for k in going], best[index], state.rows(index)
        logits, state = model.step(fed_back(model.vocabulary, best), state)
    return [hypothesis(model.vocabulary, *each) for each in zip(ids, scores, finished, strict=True)]


def read_sources(model: "Transducer", sources: list[Sequence[int]]) -> tuple[Tensor, BodyState]:
    """Feed SOS source SEP: the logits [B, C] of the first target symbol, and the state."""
    vocabulary, device = model.vocabulary, model.output_table.weight.device
    lengths = torch.tensor([len(source) + 2 for source in sources])
    inputs = torch.full((int(lengths.max()), len(sources)), vocabulary.SOS)
    for row, source in enumerate(sources):
        read = torch.as_tensor(source, dtype=torch.int64) + vocabulary.source_input_start
        inputs[1 : len(source) + 1, row] = read
        inputs[len(source) + 1, row] = vocabulary.SEP
    o, state = model.run(inputs.to(device), lengths.to(device))
    last = (lengths - 1).to(device)
    return model.logits(o[last, torch.arange(len(sources), device=device)]), state


def log_probabilities(logits: Tensor) -> Tensor:
    """In float64, where there is one: scores are sums, and neighbours must not fall together."""
    scores = torch.log_softmax(logits.to(widest_float(logits.device)), dim=-1)
    if not scores.amax(dim=-1).isfinite().all():
        raise InputError(NO_NUMBERS)
    return scores


def fed_back(vocabulary: Vocabulary, output_ids: Tensor) -> Tensor:
    """The input ids of target symbols that were written."""
    return output_ids + (vocabulary.target_input_start - vocabulary.target_output_start)


def hypothesis(
    vocabulary: Vocabulary, ids: Sequence[int], score: float, finished: bool
) -> Hypothesis:
    """Output ids without EOS, and their symbols."""
    return Hypothesis(tuple(ids), tuple(vocabulary.decode_output(ids)), score, finished)
