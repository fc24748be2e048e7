"""Coarse and fine accuracy at any lengths, by one teacher-forced pass.

Both look at a target only up to the first error. Until then a model that is fed the right symbols
reads what it would have read had it been fed its own, so one pass over the joint sequences gives
exactly what free-running greedy decoding gives. A tagger is fed nothing of its own anyway.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import exp, isfinite
from typing import Any

import numpy as np
import torch
from torch import nn

from pushpop.errors import InputError
from pushpop.layers.memory_layer import MemoryLayer
from pushpop.models import Tagger, Transducer
from pushpop.models.decoding import NO_NUMBERS, evaluating
from pushpop.tasks import LengthRange, Pairs, Task, batch_rng
from pushpop.tasks.base import IntArray, select

BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

SEQUENCES = 1000
"""How many sequences a round of testing draws, as in the paper."""

STEPS_AT_ONCE = 16_384
"""Padded steps in one pass, all rows together: what bounds the memory."""


@dataclass(frozen=True, eq=False)
class Scores:
    """How far a model got with each of some targets; a transducer's EOS counts as a symbol."""

    correct: IntArray  # [B], symbols before the first error
    right: IntArray  # [B], right symbols anywhere
    symbols: IntArray  # [B], symbols in all
    nll: float  # negative log likelihood of all symbols together

    @property
    def coarse(self) -> float:
        """The share of targets without an error, EOS included."""
        return float(np.mean(self.correct == self.symbols))

    @property
    def fine(self) -> float:
        """The mean over targets of the share of symbols before the first error."""
        return float(np.mean(self.correct / self.symbols))

    @property
    def accuracy(self) -> float:
        """The mean over targets of the share of right symbols: of a tagger, which reads nothing of
        what it has written. A transducer's would be after the right symbols, not its own."""
        return float(np.mean(self.right / self.symbols))

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log likelihood of a symbol, held to what JSON can say."""
        mean = self.nll / int(self.symbols.sum())
        return exp(mean) if mean < 700 else exp(700)


def evaluate(
    model: Transducer,
    task: Task,
    lengths: LengthRange = (65, 128),
    sequences: int = SEQUENCES,
    *,
    seed: int = 0,
    stream: str = "evaluate",
    index: int = 0,
    between: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Draw pairs whose source lengths lie within `lengths`, and say how a model does on them.

    The pairs are number `index` of a stream of the seed (see `batch_rng`); training draws from
    another. `between` is called after every pass. Returns lengths, sequences, coarse, fine and
    perplexity, and a tagger's accuracy, as plain values, ready for JSON.
    """
    if task.vocabulary != model.vocabulary:
        raise InputError(f"the model has other symbols than the task {task.name!r}")
    pairs = task.sample(batch_rng(seed, stream, index), sequences, lengths)
    scores = score(model, task.scored(pairs), between=between)
    return {
        "lengths": list(lengths),
        "sequences": sequences,
        **({"accuracy": scores.accuracy} if isinstance(model, Tagger) else {}),
        "coarse": scores.coarse,
        "fine": scores.fine,
        "perplexity": scores.perplexity,
    }


def evaluate_lengths(
    model: Transducer,
    task: Task,
    lengths: Sequence[int],
    sequences: int = SEQUENCES,
    *,
    seed: int = 0,
    stream: str = "evaluate",
) -> list[dict[str, Any]]:
    """What `evaluate` says at each of these lengths exactly: a curve, a dictionary a point."""
    return [
        evaluate(model, task, (length, length), sequences, seed=seed, stream=stream)
        for length in lengths
    ]


def accuracy_by_length(lengths: IntArray, right: BoolArray, parts: int = 4) -> list[dict[str, Any]]:
    """The share of right targets by source length, in parts of about as many pairs each."""
    known, counts = np.unique(lengths, return_counts=True)
    part_of_length = np.ceil(np.cumsum(counts) * parts / len(lengths))
    rows = []
    for part in np.unique(part_of_length):
        inside = np.isin(lengths, known[part_of_length == part])
        ends = [int(lengths[inside].min()), int(lengths[inside].max())]
        accuracy = float(np.mean(right[inside]))
        rows.append({"lengths": ends, "pairs": int(inside.sum()), "accuracy": accuracy})
    return rows


@torch.no_grad()
def without_reads(model: Transducer) -> Transducer | None:
    """A copy of a model whose controllers see zeros in the place of every read; `None` if it has no
    memory."""
    blind = deepcopy(model)
    layers = [module for module in blind.modules() if isinstance(module, MemoryLayer)]
    for layer in layers:  # a controller sees its input, and after it the reads
        weight = layer.cell.weight_ih
        assert isinstance(weight, nn.Parameter)
        weight[:, layer.input_size :] = 0
    return blind if layers else None


def examine(
    model: Transducer,
    pairs: Pairs,
    right: BoolArray,
    spellable: BoolArray,
    between: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Accuracy by source length, and without what the memory reads, in one teacher-forced pass.

    `right`: which targets the model has right; `spellable`: those of which it knows all symbols.
    """
    figures: dict[str, Any] = {"by_length": accuracy_by_length(pairs.source_lengths, right)}
    blind = without_reads(model)
    if blind is not None and model.vocabulary.blank is None:
        alone = score(blind, pairs, between=between)
        figures["without_memory"] = float(np.mean((alone.correct == alone.symbols) & spellable))
    return figures


@torch.no_grad()
def score(
    model: Transducer,
    pairs: Pairs,
    *,
    steps_at_once: int = STEPS_AT_ONCE,
    between: Callable[[], None] | None = None,
    attend: bool = True,
) -> Scores:
    """Compare the likeliest symbols with the targets, in passes of at most so many padded steps.

    A pair that is longer than that has a pass to itself. Pairs of like length share a pass; how
    they are shared out changes nothing beyond rounding. A model that is not to `attend` does
    without its attention.
    """
    counts = np.zeros((3, len(pairs)), np.int64)
    nll = 0.0
    with evaluating(model):
        for rows in _passes(pairs.source_lengths + pairs.target_lengths + 2, steps_at_once):
            batch = model.make_batch(select(pairs, rows)).to(model.output_table.weight.device)
            logits = model.scored_logits(batch, attend=attend)
            wanted = batch.outputs[batch.mask]
            nll += float(nn.functional.cross_entropy(logits, wanted, reduction="sum"))
            if not isfinite(nll):
                raise InputError(NO_NUMBERS)
            wrong = torch.zeros_like(batch.mask)  # [T, B]
            wrong[batch.mask] = logits.argmax(dim=1) != wanted
            before_error = batch.mask & (wrong.cumsum(dim=0) == 0)
            parts = torch.stack([before_error, batch.mask & ~wrong, batch.mask])
            counts[:, rows] = parts.sum(dim=1).cpu().numpy()
            if between is not None:
                between()
    correct, right, symbols = counts
    return Scores(correct, right, symbols, nll)


def _passes(steps: IntArray, at_once: int) -> Iterator[IntArray]:
    """Row numbers from the shortest sequence to the longest, cut where a pass would be too big."""
    order = np.argsort(steps, kind="stable")
    first = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end + 1 - first) * steps[order[end]] > at_once:
            yield order[first:end]
            first = end
