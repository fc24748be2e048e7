"""Beam search: the likeliest targets of each source, several at once.

At each step every live hypothesis is continued by every symbol and by EOS. Of all continuations of
a source, those with EOS that are among the `beam` likeliest are finished; the `beam` likeliest
others live on. A score only falls as a hypothesis grows, so the search of a source ends once as
many as are asked for have finished and none that is alive scores higher.
"""

from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pushpop.devices import widest_float
from pushpop.models.decoding import (
    Hypothesis,
    Request,
    fed_back,
    hypothesis,
    log_probabilities,
    read_sources,
)

if TYPE_CHECKING:
    from pushpop.models.transducer import Transducer


@dataclass
class SearchResults:
    """The hypotheses of a source that are no longer pursued."""

    beam: int
    nbest: int
    normalise: bool
    finished: list[Hypothesis] = field(default_factory=list)
    cut_off: list[Hypothesis] = field(default_factory=list)

    def rank(self, one: Hypothesis) -> float:
        """What hypotheses are sorted by."""
        return one.score / max(1, len(one.ids) + one.finished) if self.normalise else one.score

    def best(self) -> list[Hypothesis]:
        """Finished ones first, each sort from the best down."""
        parts = (self.finished, self.cut_off)
        ranked = [h for part in parts for h in sorted(part, key=self.rank, reverse=True)]
        return ranked[: self.nbest]

    def settled(self, best_alive: float) -> bool:
        """Whether going on with hypotheses of this score at most is of no use."""
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
    found = [SearchResults(beam, nbest, normalise) for _ in request.sources]
    rows = list(range(len(found)))  # [S], which source these are
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
            one = hypothesis(vocabulary, written[s, parent].tolist(), score, finished=True)
            found[rows[s]].finished.append(one)

        top = top.masked_fill(at_end, -inf)
        alive = (top > -inf).int().argsort(dim=1, descending=True, stable=True)[:, :beam]
        top, parents, ids = (x.gather(1, alive) for x in (top, parents, ids))
        K_after = int((top > -inf).sum(dim=1).max())
        going = []
        for s, source in enumerate(rows):
            best_alive = float(top[s, 0])
            if best_alive == -inf or found[source].settled(best_alive):
                continue
            if length < request.limits[source]:
                going.append(s)
                continue
            just_ended = {parent for row, parent, _ in ended if row == s}
            for k, score in enumerate(scores[s].tolist()):
                if score > -inf and k not in just_ended:
                    one = hypothesis(vocabulary, written[s, k].tolist(), score, finished=False)
                    found[source].cut_off.append(one)
        if not going:
            return [each.best() for each in found]

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
