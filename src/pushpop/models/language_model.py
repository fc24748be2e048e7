"""A language model: reads `SOS line`, writes `line EOS`, one symbol at a time.

Lines are drawn in batches of `TOGETHER`, each with random numbers of its own: the first ten lines
of a thousand are those that are drawn when ten are asked for.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Self

import numpy as np
import torch

from pushpop.errors import InputError, naming
from pushpop.models import decoding
from pushpop.models.config import TransducerConfig, check_no_source
from pushpop.models.decoding import TOGETHER, Hypothesis, Sampling, check_at_least, evaluating
from pushpop.models.text import target_symbols, target_text
from pushpop.models.transducer import Transducer
from pushpop.tasks import Batch, Pairs, Vocabulary, batch_rng, make_line_batch

TRIES = 100
"""Lines drawn for each different one that is asked for, before `generate` gives up."""


class LanguageModel(Transducer):
    """A transducer without a source: it gives lines probabilities, and generates lines.

    It has the tables and the body of a transducer and a vocabulary without source symbols. Each
    symbol is predicted from SOS and all symbols before it, and EOS from the whole line.
    """

    form = "lm"

    @classmethod
    def _check(cls, config: TransducerConfig, vocabulary: Vocabulary) -> None:
        check_no_source(config, "a language model has no source")
        if vocabulary.source:
            raise InputError(
                f"vocabulary: {len(vocabulary.source)} source symbols, and a language model has no "
                "source: expected none"
            )

    @classmethod
    def fit(  # type: ignore[override]  # lines, not pairs
        cls,
        lines: Iterable[str],
        valid: Iterable[str] | None = None,
        *,
        run: str | PathLike[str] | None = None,
        show: bool = False,
        **options: Any,
    ) -> Self:
        """A model trained on lines; as `Transducer.fit`, but at most 10,000 are held out."""
        return super().fit(lines, valid, run=run, show=show, **options)

    def make_batch(self, pairs: Pairs) -> Batch:
        return make_line_batch(pairs, self.vocabulary)

    def parse_line(self, line: str, where: str) -> list[int]:
        """The numbers of a line's symbols; an error begins with `where`."""
        with naming(where):
            return self.encode_line(target_symbols(self, line))

    def encode_line(self, symbols: Sequence[str]) -> list[int]:
        """The numbers of a line's symbols, all of which must be known."""
        numbers: list[int] = self.vocabulary.encode_target(symbols).tolist()
        return numbers

    @torch.no_grad()
    def log_probability(self, lines: Sequence[str], batch_size: int = 64) -> list[float]:
        """The log probability (natural) of each line, its end included."""
        if isinstance(lines, str):
            raise InputError(f"lines is the string {lines!r}, expected a list of strings")
        check_at_least(1, batch_size=batch_size)
        numbers = [self.parse_line(line, f"input {row}") for row, line in enumerate(lines)]
        order = sorted(range(len(numbers)), key=lambda row: len(numbers[row]))
        totals: dict[int, float] = {}
        with evaluating(self):
            for first in range(0, len(order), batch_size):
                rows = order[first : first + batch_size]
                batch = self.make_batch(Pairs.of([((), numbers[row]) for row in rows]))
                batch = batch.to(self.output_table.weight.device)
                scores = decoding.log_probabilities(self.scored_logits(batch))
                chosen = scores.gather(1, batch.outputs[batch.mask][:, None])[:, 0]
                by_step = torch.zeros(batch.mask.shape, dtype=chosen.dtype, device=chosen.device)
                by_step[batch.mask] = chosen
                totals.update(zip(rows, by_step.sum(dim=0).tolist(), strict=True))
        return [totals[row] for row in range(len(numbers))]

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
        lines = self._lines(start, sampling, seed, sys.maxsize if unique else count)
        return _distinct(lines, count) if unique else lines

    @torch.no_grad()
    def _lines(
        self, prefix: list[int], sampling: Sampling, seed: int, count: int
    ) -> Iterator[Hypothesis]:
        device = self.output_table.weight.device
        read = [self.vocabulary.SOS, *(self.vocabulary.target_input_start + k for k in prefix)]
        start = [self.vocabulary.target_output_start + k for k in prefix]
        with evaluating(self):
            o, state = self.run(torch.tensor(read, device=device)[:, None])
            logits = self.logits(o[-1])
        for first in range(0, count, TOGETHER):
            draw = partial(sampling.draw, rng=batch_rng(seed, "generate", first // TOGETHER))
            every = torch.zeros(min(TOGETHER, count - first), dtype=torch.int64, device=device)
            limits = np.full(len(every), sampling.max_length - len(prefix))
            with evaluating(self):
                drawn = decoding.write_targets(self, logits[every], state.rows(every), limits, draw)
            for ids, score, finished in drawn:
                line = decoding.hypothesis(self.vocabulary, [*start, *ids], score, finished)
                yield replace(line, target=line.symbols, text=target_text(self, line.symbols))


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
