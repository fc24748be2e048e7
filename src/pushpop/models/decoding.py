"""From source to target: read the source, then write symbols until EOS or the limit."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pushpop.errors import InputError
from pushpop.models.body import BodyState
from pushpop.tasks import Vocabulary

if TYPE_CHECKING:
    from pushpop.models.transducer import Transducer


@dataclass(frozen=True)
class Hypothesis:
    """A target that a model proposes."""

    ids: tuple[int, ...]  # output ids, without EOS
    symbols: tuple[str, ...]
    score: float  # total log probability of the symbols, and of EOS if finished
    finished: bool  # False: the limit on the length was hit before EOS


@dataclass(frozen=True)
class Request:
    """Sources as symbol numbers, and the most target symbols that each may get."""

    sources: list[Sequence[int]]
    limits: list[int]


@torch.no_grad()
def decode(
    model: "Transducer",
    sources: Sequence[str | Sequence[int]],
    *,
    beam: int = 1,
    nbest: int = 1,
    max_length: int | None = None,
    normalise: bool = False,
    batch_size: int = 64,
) -> list[list[Hypothesis]]:
    """The best targets of each source, best first, finished ones before others.

    Args:
        model: a transducer.
        sources: each a string as the model reads text (symbols separated by spaces, unless it was
            trained on text of another form), or the symbols' numbers.
        beam: how many hypotheses of a source are pursued at once. 1 is greedy decoding.
        nbest: how many are returned of each source, at most `beam`; fewer if no more were found.
        max_length: the most symbols in a target, EOS not counted. `None`: twice the symbols of its
            source and 50 more.
        normalise: rank by log probability per symbol (EOS counted) instead of the total. The
            search of a source then ends with the first `beam` finished hypotheses.
        batch_size: how many sources are decoded together. It bounds the memory that is used and
            changes no result beyond rounding.
    """
    from pushpop.models.beam import beam_search

    for name, given, least in (
        ("beam", beam, 1),
        ("nbest", nbest, 1),
        ("batch_size", batch_size, 1),
    ):
        if given < least:
            raise InputError(f"{name} is {given}, expected at least {least}")
    if nbest > beam:
        raise InputError(f"nbest is {nbest} with a beam of {beam}, expected at most the beam")
    if max_length is not None and max_length < 0:
        raise InputError(f"max_length is {max_length}, expected at least 0")
    found: list[list[Hypothesis]] = []
    with evaluating(model):
        for request in _requests(model, sources, max_length, batch_size):
            if beam == 1:
                found += [[best] for best in greedy(model, request)]
            else:
                found += beam_search(model, request, beam, nbest, normalise)
    return found


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
    """In float64: scores are sums, and neighbours must not fall together."""
    return torch.log_softmax(logits.double(), dim=-1)


def fed_back(vocabulary: Vocabulary, output_ids: Tensor) -> Tensor:
    """The input ids of target symbols that were written."""
    return output_ids + (vocabulary.target_input_start - vocabulary.target_output_start)


def hypothesis(
    vocabulary: Vocabulary, ids: Sequence[int], score: float, finished: bool
) -> Hypothesis:
    """Output ids without EOS, spelt out."""
    return Hypothesis(tuple(ids), tuple(vocabulary.decode_output(ids)), score, finished)


def _requests(
    model: "Transducer",
    sources: Sequence[str | Sequence[int]],
    max_length: int | None,
    batch_size: int,
) -> Iterator[Request]:
    """The sources as numbers, a batch at a time; all are checked before the first."""
    if isinstance(sources, str):
        raise InputError(f"sources is the string {sources!r}, expected a list of strings")
    numbers = [_numbers(model, source, index) for index, source in enumerate(sources)]
    for first in range(0, len(numbers), batch_size):
        part = numbers[first : first + batch_size]
        limits = [2 * len(source) + 50 if max_length is None else max_length for source in part]
        yield Request(part, limits)


def _numbers(model: "Transducer", source: str | Sequence[int], index: int) -> Sequence[int]:
    from pushpop.models.spelling import source_symbols

    vocabulary = model.vocabulary
    if isinstance(source, str):
        try:
            return list(map(int, vocabulary.encode_source(source_symbols(model, source))))
        except InputError as error:
            raise InputError(f"input {index}: {error}") from None
    for number in source:
        if not 0 <= number < len(vocabulary.source):
            raise InputError(
                f"input {index}: {number} is no source symbol's number, expected 0 to "
                f"{len(vocabulary.source) - 1}"
            )
    return [int(number) for number in source]
