"""Writing targets: after the source, symbol by symbol until EOS or the limit.

Greedy decoding takes the likeliest symbol at every step. Beam search pursues several hypotheses of
a source at once: each is continued by every symbol and by EOS. Of all continuations of a source,
those with EOS that are among the `beam` likeliest are finished; the `beam` likeliest others live
on. A score only falls as a hypothesis grows, so the search of a source ends once as many as are
asked for have finished and none that is alive scores higher. Language models draw symbols instead.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from pushpop.devices import widest_float
from pushpop.errors import InputError
from pushpop.models.body import BodyState
from pushpop.tasks import Vocabulary
from pushpop.tasks.base import IntArray

if TYPE_CHECKING:
    from pushpop.models.transducer import Transducer


Numbers = Sequence[Sequence[int]]
"""Sources as symbol numbers."""

Choose = Callable[[Tensor, IntArray], Tensor]
"""Takes log probabilities [B, C] and the numbers of their targets [B]; the ids [B] to write."""
TOGETHER = 256
"""Targets that are drawn at once. Which ones a seed gives depends on it."""
KEPT_ROWS = 0.75
"""Rows that have ended leave the batch once no more than this share of it is left."""
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

    def rank(self, outcome: Hypothesis) -> float:
        """The key that hypotheses are sorted by."""
        if not self.normalise:
            return outcome.score
        return outcome.score / max(1, len(outcome.ids) + outcome.finished)


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


def write_targets(
    model: "Transducer", logits: Tensor, state: BodyState, limits: IntArray, choose: Choose
) -> Iterator[tuple[list[int], float, bool]]:
    """Write a target of at most so many symbols after each row of logits [B, C] and of a state:
    output ids without EOS, score, and whether it has ended, one target after another."""
    n_targets, device = len(logits), logits.device
    rows = np.arange(n_targets)  # which target a row of the batch belongs to
    alive = np.ones(n_targets, bool)  # [rows]
    scores, finished, lengths = np.zeros(n_targets), np.zeros(n_targets, bool), np.zeros_like(rows)
    columns: list[IntArray] = []  # ids of all targets, step by step; past a target's end, any
    while alive.any():
        log_chances = log_probabilities(logits)
        chosen = choose(log_chances, rows)
        ids = chosen.cpu().numpy()
        gained = log_chances.gather(1, chosen[:, None])[:, 0].cpu().numpy()
        ended = alive & (ids == model.vocabulary.EOS)
        alive = alive & ~ended & (len(columns) < limits[rows])  # at the limit only an end counts
        finished[rows[ended]] = True
        lengths[rows[alive]] += 1
        scores[rows] += np.where(alive | ended, gained, 0.0)
        columns.append(np.zeros_like(rows, shape=n_targets))
        columns[-1][rows] = ids
        if alive.sum() <= KEPT_ROWS * len(rows):
            index = torch.from_numpy(alive.nonzero()[0]).to(device)
            rows, alive = rows[alive], alive[alive]
            chosen, state = chosen[index], state.rows(index)
        if len(rows):
            logits, state = model.step(fed_back(model.vocabulary, chosen), state)
    written = np.stack(columns, axis=1)
    parts = (row[:length].tolist() for row, length in zip(written, lengths, strict=True))
    return zip(parts, scores.tolist(), finished.tolist(), strict=True)


def greedy(model: "Transducer", sources: Numbers, search: Search) -> list[Hypothesis]:
    """The likeliest symbol at every step."""
    limits = np.array([search.limit(source) for source in sources])
    logits, state = read_sources(model, sources)
    written = write_targets(model, logits, state, limits, lambda scores, _: scores.argmax(dim=-1))
    return [hypothesis(model.vocabulary, *outcome) for outcome in written]


def read_sources(model: "Transducer", sources: Numbers) -> tuple[Tensor, BodyState]:
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
    return Hypothesis(tuple(ids), tuple(vocabulary.decode_output(ids)), score, finished)


@dataclass
class SearchResults:
    """The hypotheses of a source that are no longer pursued."""

    search: Search
    finished: list[Hypothesis] = field(default_factory=list)
    cut_off: list[Hypothesis] = field(default_factory=list)

    def best(self) -> list[Hypothesis]:
        """Finished ones first, each sort from the best down."""
        parts = (self.finished, self.cut_off)
        ranked = [h for part in parts for h in sorted(part, key=self.search.rank, reverse=True)]
        return ranked[: self.search.nbest]

    def settled(self, best_alive: float) -> bool:
        """Whether hypotheses of at most this score cannot change the result."""
        if self.search.normalise:
            return len(self.finished) >= self.search.beam
        scores = sorted((h.score for h in self.finished), reverse=True)
        nbest = self.search.nbest
        return len(scores) >= nbest and scores[nbest - 1] >= best_alive


def beam_search(model: "Transducer", sources: Numbers, search: Search) -> list[list[Hypothesis]]:
    """The best targets of each source. Sources that are settled leave the batch.

    The batch has a row for each of K live hypotheses of each of S sources; where a source has fewer
    than K, the rest have score -inf.
    """
    beam = search.beam
    vocabulary = model.vocabulary
    results = [SearchResults(search) for _ in sources]
    rows = list(range(len(results)))  # [S], which source these are
    logits, state = read_sources(model, sources)
    scores = logits.new_zeros(len(rows), 1, dtype=widest_float(logits.device))  # [S, K]
    written = torch.empty(len(rows), 1, 0, dtype=torch.int64, device=logits.device)  # [S, K, n]
    for length in count():
        S, K = scores.shape
        totals = scores[..., None] + log_probabilities(logits).view(S, K, -1)
        n_symbols = totals.shape[2]
        top, where = totals.flatten(1).topk(min(2 * beam, K * n_symbols))  # [S, W]
        parents, ids = where // n_symbols, where % n_symbols
        at_end = ids == vocabulary.EOS
        at = (at_end & (top > -inf))[:, :beam].nonzero(as_tuple=True)
        parts = (at[0].tolist(), parents[at].tolist(), top[at].tolist())
        ended = list(zip(*parts, strict=True))  # source, parent and score of each that is finished
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
            if length < search.limit(sources[source]):
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


@dataclass(frozen=True)
class Sampling:
    """How symbols are drawn; `LanguageModel.generate` explains the options."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_length: int = 1000

    def __post_init__(self) -> None:
        if not 0 < self.temperature < inf:
            raise InputError(f"temperature is {self.temperature}, expected a number above 0")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p is {self.top_p}, expected a number above 0, 1 at most")
        check_at_least(1, max_length=self.max_length)

    def draw(self, scores: Tensor, targets: IntArray, rng: np.random.Generator) -> Tensor:
        """Ids [B] of some of `TOGETHER` targets, each drawn by a random number of its own."""
        numbers = torch.from_numpy(rng.random(TOGETHER)[targets])
        return self.choose(scores, numbers.to(scores))

    def choose(self, scores: Tensor, numbers: Tensor) -> Tensor:
        """Ids [B] by log probabilities [B, C] and numbers [B] from 0 to below 1."""
        chances = scores.exp() if self.temperature == 1 else (scores / self.temperature).softmax(-1)
        if self.top_p < 1:
            ordered, order = chances.sort(dim=-1, descending=True, stable=True)
            likelier = ordered.cumsum(dim=-1) - ordered  # of all that go before each
            chances = chances.scatter(-1, order, ordered.masked_fill(likelier >= self.top_p, 0))
        sums = chances.cumsum(dim=-1)
        wanted = (numbers[:, None] * sums[:, -1:]).to(sums.dtype)
        # Rounding may put a number at the very end, past the last id that has a chance.
        last = (sums < sums[:, -1:]).sum(dim=-1)
        return torch.searchsorted(sums, wanted, right=True)[:, 0].minimum(last)
