"""Decoding: read the sources, then write symbol by symbol until EOS or the limit.

Greedy decoding takes the likeliest symbol at every step. Beam search pursues several hypotheses of
a source at once: each is continued by every symbol and by EOS. Of all continuations of a source,
those with EOS that are among the `beam` likeliest are finished; the `beam` likeliest others live
on. A score only falls as a hypothesis grows, so the search of a source ends once as many as are
asked for have finished and none that is alive scores higher.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from math import inf
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
class Search:
    """How to search for targets; `Transducer.decode` explains the options."""

    beam: int = 1
    nbest: int = 1
    max_length: int | None = None
    normalise: bool = False

    def __post_init__(self) -> None:
        check_at_least(1, beam=self.beam, nbest=self.nbest)
        if self.nbest > self.beam:
            raise InputError(
                f"nbest is {self.nbest} with a beam of {self.beam}, expected at most the beam"
            )
        if self.max_length is not None:
            check_at_least(0, max_length=self.max_length)

    def limit(self, source: Sequence[int]) -> int:
        """The most symbols that a target of this source may get."""
        return 2 * len(source) + 50 if self.max_length is None else self.max_length


@dataclass(frozen=True)
class Request:
    """Sources as symbol numbers, and the most target symbols that each may get."""

    sources: list[Sequence[int]]
    limits: list[int]


def check_at_least(least: int, **options: int) -> None:
    """Refuse numbers that are too small, by name."""
    for name, number in options.items():
        if number < least:
            raise InputError(f"{name} is {number}, expected at least {least}")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off, whatever mode the model is in."""
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
    return [
        hypothesis(model.vocabulary, *outcome)
        for outcome in zip(ids, scores, finished, strict=True)
    ]


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
    """Make a hypothesis of output ids without EOS."""
    return Hypothesis(tuple(ids), tuple(vocabulary.decode_output(ids)), score, finished)


@dataclass
class SearchResults:
    """The hypotheses of a source that are no longer pursued."""

    beam: int
    nbest: int
    normalise: bool
    finished: list[Hypothesis] = field(default_factory=list)
    cut_off: list[Hypothesis] = field(default_factory=list)

    def rank(self, outcome: Hypothesis) -> float:
        """The key that hypotheses are sorted by."""
        if not self.normalise:
            return outcome.score
        return outcome.score / max(1, len(outcome.ids) + outcome.finished)

    def best(self) -> list[Hypothesis]:
        """Finished ones first, each sort from the best down."""
        parts = (self.finished, self.cut_off)
        ranked = [h for part in parts for h in sorted(part, key=self.rank, reverse=True)]
        return ranked[: self.nbest]

    def settled(self, best_alive: float) -> bool:
        """Whether hypotheses of at most this score cannot change the result."""
        if self.normalise:
            return len(self.finished) >= self.beam
        scores = sorted((h.score for h in self.finished), reverse=True)
        return len(scores) >= self.nbest and scores[self.nbest - 1] >= best_alive


def beam_search(
    model: "Transducer", request: Request, beam: int, nbest: int, normalise: bool
) -> list[list[Hypothesis]]:
    """The `nbest` best targets of each source. Sources that are settled leave the batch.

    The batch has a row for each of K live hypotheses of each of S sources; where a source has fewer
    than K, the rest have score -inf.
    """
    vocabulary = model.vocabulary
    results = [SearchResults(beam, nbest, normalise) for _ in request.sources]
    rows = list(range(len(results)))  # [S], which source these are
    logits, state = read_sources(model, request.sources)
    scores = logits.new_zeros(len(rows), 1, dtype=widest_float(logits.device))  # [S, K]
    written = torch.empty(len(rows), 1, 0, dtype=torch.int64, device=logits.device)  # [S, K, n]
    for length in count():
        S, K = scores.shape
        totals = scores[..., None] + log_probabilities(logits).view(S, K, -1)
        n_symbols = totals.shape[2]
        top, where = totals.flatten(1).topk(min(2 * beam, K * n_symbols))  # [S, W]
        parents, ids = where // n_symbols, where % n_symbols
        at_end = ids == vocabulary.EOS
        ended = _ended(at_end, top, parents, beam)
        for s, parent, score in ended:
            outcome = hypothesis(vocabulary, written[s, parent].tolist(), score, finished=True)
            results[rows[s]].finished.append(outcome)

        top = top.masked_fill(at_end, -inf)
        alive = (top > -inf).int().argsort(dim=1, descending=True, stable=True)[:, :beam]
        top, parents, ids = (x.gather(1, alive) for x in (top, parents, ids))
        K_after = int((top > -inf).sum(dim=1).max())
        going = []
        for s, source in enumerate(rows):
            best_alive = float(top[s, 0])
            if best_alive == -inf or results[source].settled(best_alive):
                continue
            if length < request.limits[source]:
                going.append(s)
                continue
            just_ended = {parent for row, parent, _ in ended if row == s}
            for k, score in enumerate(scores[s].tolist()):
                if score > -inf and k not in just_ended:
                    outcome = hypothesis(vocabulary, written[s, k].tolist(), score, finished=False)
                    results[source].cut_off.append(outcome)
        if not going:
            return [result.best() for result in results]

        index = torch.tensor(going, device=top.device)
        rows = [rows[s] for s in going]
        scores, parents, ids = (x[index, :K_after] for x in (top, parents, ids))
        from_rows = (index[:, None] * K + parents).flatten()
        if len(from_rows) != S * K or from_rows.tolist() != list(range(S * K)):
            state = state.rows(from_rows)
        written = torch.cat([written[index[:, None], parents], ids[..., None]], dim=2)
        logits, state = model.step(fed_back(vocabulary, ids.flatten()), state)
    raise AssertionError("unreachable")


def _ended(at_end: Tensor, top: Tensor, parents: Tensor, beam: int) -> list[tuple[int, int, float]]:
    """Source, parent and score of each continuation with EOS among the `beam` likeliest."""
    s, w = (at_end & (top > -inf))[:, :beam].nonzero(as_tuple=True)
    return list(zip(s.tolist(), parents[s, w].tolist(), top[s, w].tolist(), strict=True))
