"""Pairs that are given, not drawn: their vocabulary, and batches of them, epoch after epoch.

Batch n is a function of the seed and n: an epoch's order is drawn from (seed, epoch), and what is
replaced by the unknown symbol from (seed, n). So a run can be taken up in the middle of an epoch.
"""

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from pushpop.errors import InputError
from pushpop.tasks.base import FloatArray, IntArray, Pairs, Vocabulary, batch_rng
from pushpop.tasks.batching import BATCH_MAKERS, Batch
from pushpop.tasks.pairs_file import Pair
from pushpop.tasks.pairs_text import UNKNOWN

Item = TypeVar("Item")

POOL = 16
"""Batches whose pairs are sorted by length together: longer rows share a batch with longer ones."""
UNKNOWN_RATE, UNKNOWN_RATE_RARE = 0.005, 0.2
"""How often a symbol is read as unknown in training; and one that occurs in a single pair."""
SCORES = 4
"""Copies of attention's scores: before the mask, after it, the weights, and their gradient."""


def vocabulary_of(pairs: Sequence[Pair]) -> Vocabulary:
    """The symbols of either side in the order of their spelling, after the unknown symbol."""
    sides = ({symbol for pair in pairs for symbol in pair[side]} for side in (0, 1))
    source, target = ((UNKNOWN, *sorted(side - {UNKNOWN})) for side in sides)
    return Vocabulary(source, target, UNKNOWN)


def encode_pairs(pairs: Sequence[Pair], vocabulary: Vocabulary) -> Pairs:
    """Symbols as numbers."""
    encode_source, encode_target = vocabulary.encode_source, vocabulary.encode_target
    return Pairs.of([(encode_source(s).tolist(), encode_target(t).tolist()) for s, t in pairs])


def hold_out(
    rows: Sequence[Item], share: float, seed: int, what: str = "pair"
) -> tuple[list[Item], list[Item]]:
    """Rows to train on and, drawn by the seed, a share of them to validate on, at least one."""
    if len(rows) < 2:
        raise InputError(
            f"1 {what}: expected at least 2, one to train on and one to validate on; or give "
            "--valid FILE"
        )
    count = min(len(rows) - 1, max(1, round(share * len(rows))))
    order = np.argsort(batch_rng(seed, "hold out", 0).random(len(rows)), kind="stable")
    held = set(order[:count].tolist())
    kept = [row for number, row in enumerate(rows) if number not in held]
    return kept, [rows[number] for number in sorted(held)]


class Epochs(ABC):
    """Given rows in batches, epoch after epoch: rows at random, sorted by length within a pool of
    batches, and the batches at random again."""

    def __init__(self, lengths: IntArray, batch_size: int) -> None:
        self.lengths, self.batch_size = lengths, batch_size
        self._order = lru_cache(maxsize=2)(self._draw_order)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def batches_per_epoch(self) -> int:
        """How many batches it takes to see every row once; the last may be smaller."""
        return -(-len(self) // self.batch_size)

    @abstractmethod
    def batch(self, seed: int, index: int) -> Batch:
        """Batch `index` of all epochs."""

    def rows(self, seed: int, index: int) -> IntArray:
        epoch, place = divmod(index, self.batches_per_epoch)
        return self._order(seed, epoch)[place]

    def _draw_order(self, seed: int, epoch: int) -> list[IntArray]:
        rng = batch_rng(seed, "epoch", epoch)
        shuffled = np.argsort(rng.random(len(self.lengths)), kind="stable")
        pool = POOL * self.batch_size
        parts = []
        for first in range(0, len(shuffled), pool):
            rows = shuffled[first : first + pool]
            parts.append(rows[np.argsort(self.lengths[rows], kind="stable")])
        rows = np.concatenate(parts)
        batches = [rows[i : i + self.batch_size] for i in range(0, len(rows), self.batch_size)]
        return [batches[k] for k in np.argsort(rng.random(len(batches)), kind="stable")]


def check_memory(pairs: Pairs, batch_size: int, floats: int, *, attention: bool) -> None:
    """Refuse pairs of which a batch, padded to the longest, is far beyond the machine's memory.

    Training keeps so many `floats` of each step, and with attention `SCORES` of each step and
    source position.
    """
    steps = pairs.source_lengths + pairs.target_lengths + 2
    kept = steps * (floats + (SCORES * (pairs.source_lengths + 2) if attention else 0))
    row, rows = int(kept.argmax()), min(batch_size, len(pairs))
    needed, there = 4 * rows * int(kept[row]), memory_of_machine()
    if needed > there:
        less = " or --attention false" if attention else ""
        raise InputError(
            f"the longest pair has {pairs.source_lengths[row]:,} source and "
            f"{pairs.target_lengths[row]:,} target symbols: a batch of {rows} padded to it takes "
            f"about {needed / 1e9:,.0f} GB, and the machine has {there / 1e9:,.0f}; leave such "
            f"pairs out, or try a smaller --batch-size{less}"
        )


def memory_of_machine() -> int:
    """Bytes of memory, as far as the system says."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        return 16 * 10**9


class PairsData(Epochs):
    """Training pairs in batches, without end."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        vocabulary: Vocabulary,
        batch_size: int,
        form: str = "transducer",
    ) -> None:
        self.vocabulary, self.form = vocabulary, form
        self.pairs = encode_pairs(pairs, vocabulary)
        super().__init__(self.pairs.source_lengths + self.pairs.target_lengths, batch_size)
        self._rows = list(self.pairs)
        self._rates = self._replacement_rates(pairs)  # [source symbols]
        numbers = {symbol: number for number, symbol in enumerate(vocabulary.target)}
        same = [numbers.get(symbol, -1) for symbol in vocabulary.source]
        self._same_target = np.array(same)  # [source symbols], the same symbol as target, or -1

    def batch(self, seed: int, index: int) -> Batch:
        return BATCH_MAKERS[self.form](self.batch_pairs(seed, index), self.vocabulary)

    def batch_pairs(self, seed: int, index: int) -> Pairs:
        """The same as numbers."""
        rng, rows = batch_rng(seed, "unknown", index), self.rows(seed, index)
        return Pairs.of([self._replace_by_unknown(rng, *self._rows[row]) for row in rows])

    def _replacement_rates(self, pairs: Sequence[Pair]) -> FloatArray:
        seen = Counter(symbol for source, _ in pairs for symbol in set(source))
        chances = [
            UNKNOWN_RATE_RARE if seen[s] <= 1 else UNKNOWN_RATE for s in self.vocabulary.source
        ]
        return np.array(chances)

    def _replace_by_unknown(
        self, rng: np.random.Generator, source: IntArray, target: IntArray
    ) -> tuple[list[int], list[int]]:
        """Read some source symbols as unknown, and with them the same target symbols: what the
        model then writes as unknown is copied from the source. Labels stay as they are."""
        chosen = rng.random(len(source)) < self._rates[source]
        if not chosen.any():
            return source.tolist(), target.tolist()
        hidden = source[chosen]
        unknown = self.vocabulary.encode_source([UNKNOWN])[0]
        source = np.where(np.isin(source, hidden), unknown, source)
        if self.form == "tagger":
            return source.tolist(), target.tolist()
        same = self._same_target[hidden]
        unknown = self.vocabulary.encode_target([UNKNOWN])[0]
        target = np.where(np.isin(target, same[same >= 0]), unknown, target)
        return source.tolist(), target.tolist()
