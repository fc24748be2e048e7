"""A language model: reads `SOS line`, writes `line EOS`, one symbol at a time.

Lines are drawn in batches of `TOGETHER`, each with random numbers of its own: the first ten lines
of a thousand are those that are drawn when ten are asked for.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pushpop.errors import InputError, did_you_mean
from pushpop.models.config import TransducerConfig, check_no_source
from pushpop.models.decoding import (
    Hypothesis,
    check_at_least,
    evaluating,
    fed_back,
    hypothesis,
    log_probabilities,
)
from pushpop.models.text import target_symbols, target_text
from pushpop.models.transducer import Transducer
from pushpop.tasks import Batch, Pairs, Vocabulary, batch_rng, make_line_batch
from pushpop.tasks.base import IntArray
from pushpop.tasks.pairs_text import TextForm

TOGETHER = 256
"""Lines that are drawn at once. Which ones a seed gives depends on it."""
KEPT_ROWS = 0.75
"""Rows that have ended leave the batch once no more than this share of it is left."""
TRIES = 100
"""Lines drawn for each different one that is asked for, before `generate` gives up."""


@dataclass(frozen=True)
class Sampling:
    """How symbols are drawn; `LanguageModel.generate` explains the options."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_length: int = 1000

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise InputError(f"temperature is {self.temperature}, expected a number above 0")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p is {self.top_p}, expected a number above 0, 1 at most")
        check_at_least(1, max_length=self.max_length)

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


class LanguageModel(Transducer):
    """A transducer without a source: it gives lines probabilities, and generates lines.

    It has the tables and the body of a transducer and a vocabulary without source symbols. Each
    symbol is predicted from SOS and all symbols before it, and EOS from the whole line.
    """

    form = "lm"

    def __init__(
        self,
        config: TransducerConfig,
        vocabulary: Vocabulary,
        metadata: dict[str, Any] | None = None,
        text: TextForm | None = None,
        **scales: float,
    ) -> None:
        check_no_source(config, "a language model has no source")
        if vocabulary.source:
            raise InputError(
                f"vocabulary: {len(vocabulary.source)} source symbols, and a language model has no "
                "source: expected none"
            )
        super().__init__(config, vocabulary, metadata, text, **scales)

    @classmethod
    def fit(  # type: ignore[override]  # lines, not pairs
        cls,
        lines: Iterable[str],
        valid: Iterable[str] | None = None,
        *,
        run: str | PathLike[str] | None = None,
        show: bool = False,
        **options: Any,
    ) -> "LanguageModel":
        """A model trained on lines.

        Args:
            lines: what to train on.
            valid: what to validate on after every epoch; `None`: a tenth of the lines, at most
                10,000.
            run: a directory to train in, which can be resumed; `None`: one that is removed.
            show: whether to print how it goes.
            options: those of `TrainConfig`, as for `Transducer.fit`.
        """
        model = super().fit(lines, valid, run=run, show=show, **options)
        assert isinstance(model, LanguageModel)
        return model

    def make_batch(self, pairs: Pairs) -> Batch:
        """The targets of pairs as lines."""
        return make_line_batch(pairs, self.vocabulary)

    def parse_line(self, line: str, where: str) -> list[int]:
        """The numbers of a line's symbols; an error begins with `where`."""
        try:
            return self.encode_line(target_symbols(self, line))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    def encode_line(self, symbols: Sequence[str]) -> list[int]:
        """The numbers of a line's symbols, all of which must be known."""
        for symbol in symbols:
            if not self.vocabulary.knows("target", symbol):
                hint = did_you_mean(symbol, self.vocabulary.target)
                raise InputError(f"unknown symbol {symbol!r}{hint}")
        return list(map(int, self.vocabulary.encode_target(symbols)))

    @torch.no_grad()
    def log_probability(self, lines: Sequence[str], batch_size: int = 64) -> list[float]:
        """The log probability (natural) of each line, its end included."""
        if isinstance(lines, str):
            raise InputError(f"lines is the string {lines!r}, expected a list of strings")
        check_at_least(1, batch_size=batch_size)
        numbers = [self.parse_line(line, f"input {row}") for row, line in enumerate(lines)]
        order = sorted(range(len(numbers)), key=lambda row: len(numbers[row]))
        totals = [0.0] * len(numbers)
        with evaluating(self):
            for first in range(0, len(order), batch_size):
                rows = order[first : first + batch_size]
                batch = self.make_batch(Pairs.of([((), numbers[row]) for row in rows]))
                batch = batch.to(self.output_table.weight.device)
                scores = log_probabilities(self.scored_logits(batch))
                chosen = scores.gather(1, batch.outputs[batch.mask][:, None])[:, 0]
                by_step = torch.zeros(batch.mask.shape, dtype=chosen.dtype, device=chosen.device)
                by_step[batch.mask] = chosen
                for row, total in zip(rows, by_step.sum(dim=0).tolist(), strict=True):
                    totals[row] = total
        return totals

    def generate(
        self,
        count: int = 1,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        prefix: str = "",
        seed: int | None = None,
        max_length: int = 1000,
        unique: bool = False,
    ) -> list[str]:
        """Draw lines from the model.

        Args:
            count: how many lines.
            temperature: probabilities are raised to the power of 1 / temperature: below 1, likely
                symbols get likelier.
            top_p: at each step only the likeliest symbols are drawn, so many that their
                probabilities add up to this.
            prefix: what each line begins with.
            seed: the same one gives the same lines; `None`: one drawn by torch.
            max_length: the most symbols in a line; one that is longer is cut off there.
            unique: leave out lines that were drawn before; `InputError` if the model hardly gives
                any other.
        """
        sampling = Sampling(temperature, top_p, max_length)
        drawn = self.draw(count, sampling, prefix=prefix, seed=seed, unique=unique)
        return [line.text for line in drawn]

    def draw(
        self,
        count: int,
        sampling: Sampling | None = None,
        *,
        prefix: str = "",
        seed: int | None = None,
        unique: bool = False,
    ) -> Iterator[Hypothesis]:
        """As `generate`, batch by batch as they are drawn, with the log probabilities of what comes
        after the prefix, and whether lines have ended."""
        sampling = sampling or Sampling()
        check_at_least(0, count=count)
        start = self.parse_line(prefix, "prefix")
        if len(start) > sampling.max_length:
            raise InputError(
                f"prefix: {len(start)} symbols with max_length {sampling.max_length}, expected at "
                "most that"
            )
        if seed is None:
            seed = int(torch.randint(2**62, ()))
        lines = self._lines(start, sampling, seed, None if unique else count)
        return _distinct(lines, count) if unique else lines

    @torch.no_grad()
    def _lines(
        self, prefix: list[int], sampling: Sampling, seed: int, count: int | None
    ) -> Iterator[Hypothesis]:
        """So many lines, or lines without end."""
        device = self.output_table.weight.device
        read = [self.vocabulary.SOS, *(self.vocabulary.target_input_start + k for k in prefix)]
        start = [self.vocabulary.target_output_start + k for k in prefix]
        with evaluating(self):
            o, state = self.run(torch.tensor(read, device=device)[:, None])
            logits = self.logits(o[-1])
        for first in range(0, sys.maxsize if count is None else count, TOGETHER):
            size = TOGETHER if count is None else min(TOGETHER, count - first)
            every = torch.zeros(size, dtype=torch.int64, device=device)
            rng = batch_rng(seed, "generate", first // TOGETHER)
            limit = sampling.max_length - len(prefix)
            with evaluating(self):
                drawn = self._draw_batch(logits[every], state.rows(every), limit, sampling, rng)
            for ids, score, finished in drawn:
                line = hypothesis(self.vocabulary, [*start, *ids], score, finished)
                yield replace(line, target=line.symbols, text=target_text(self, line.symbols))

    def _draw_batch(
        self, logits: Tensor, state: Any, limit: int, sampling: Sampling, rng: np.random.Generator
    ) -> Iterator[tuple[list[int], float, bool]]:
        """Output ids without EOS, score, and whether it has ended, line by line."""
        n_lines, device = len(logits), logits.device
        rows = np.arange(n_lines)  # which line a row of the batch belongs to
        alive = np.ones(n_lines, bool)  # [rows]
        scores, finished, lengths = np.zeros(n_lines), np.zeros(n_lines, bool), np.zeros_like(rows)
        columns: list[IntArray] = []  # ids of all lines, step by step; past a line's end, any
        while alive.any():
            log_chances = log_probabilities(logits)
            numbers = torch.from_numpy(rng.random(TOGETHER)[rows]).to(log_chances.dtype)
            chosen = sampling.choose(log_chances, numbers.to(device))
            ids = chosen.cpu().numpy()
            gained = log_chances.gather(1, chosen[:, None])[:, 0].cpu().numpy()
            ended = alive & (ids == self.vocabulary.EOS)
            alive = alive & ~ended & (len(columns) < limit)  # at the limit only an end counts
            finished[rows[ended]] = True
            lengths[rows[alive]] += 1
            scores[rows] += np.where(alive | ended, gained, 0.0)
            columns.append(np.zeros_like(rows, shape=n_lines))
            columns[-1][rows] = ids
            if alive.sum() <= KEPT_ROWS * len(rows):
                index = torch.from_numpy(alive.nonzero()[0]).to(device)
                rows, alive = rows[alive], alive[alive]
                chosen, state = chosen[index], state.rows(index)
            if len(rows):
                logits, state = self.step(fed_back(self.vocabulary, chosen), state)
        written = np.stack(columns, axis=1)
        parts = (row[:length].tolist() for row, length in zip(written, lengths, strict=True))
        return zip(parts, scores.tolist(), finished.tolist(), strict=True)


def _distinct(lines: Iterator[Hypothesis], count: int) -> Iterator[Hypothesis]:
    """Lines that were not there before; `InputError` when they get too rare."""
    seen: set[str] = set()
    tried = 0
    while len(seen) < count:
        line = next(lines)
        tried += 1
        if line.text not in seen:
            seen.add(line.text)
            yield line
        elif tried >= TRIES * count + TOGETHER:
            raise InputError(
                f"{len(seen):,} different lines among {tried:,}, expected {count:,}: ask for "
                "fewer, or for a higher temperature"
            )
