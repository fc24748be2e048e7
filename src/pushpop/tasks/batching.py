"""From pairs to tensors: joint sequences SOS source SEP target EOS, padded, time first.

At every step a model reads one symbol of the joint sequence and predicts the one after it; what
is scored is the prediction of the target and of EOS, so the first scored step is the one at SEP:

    step      0     1    2    3     4    5
    inputs    SOS   a    b    SEP   x    y
    outputs   .     .    .    x     y    EOS
    mask      no    no   no   yes   yes  yes

`inputs` are ids of the input table, `outputs` ids of the output table (see `vocabulary.py`).

A tagger writes while it reads, and there are no other symbols than the source's. What is scored is
a label for every symbol or, where the vocabulary has a blank, the target at as many blanks:

    step      0    1    2           step      0    1    2    3
    inputs    a    b    c           inputs    a    b    _    _
    outputs   x    y    z           outputs   .    .    x    y
    mask      yes  yes  yes         mask      no   no   yes  yes

A language model has no source, and each of its symbols is scored:

    step      0    1    2
    inputs    SOS  x    y
    outputs   x    y    EOS
    mask      yes  yes  yes
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pushpop.errors import InputError
from pushpop.tasks.base import IntArray, Pairs, Task, batch_rng, places
from pushpop.tasks.registry import LengthRange
from pushpop.tasks.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Batch:
    """Joint sequences. Where nothing is scored, `outputs` is 0; after a sequence's end, `inputs`
    is 0 too. Both are ids that exist, so no table needs a row for padding: `mask` and `lengths`
    tell what counts."""

    inputs: Tensor  # [T, B] int64
    outputs: Tensor  # [T, B] int64
    lengths: Tensor  # [B] int64, the steps of each sequence; joint ones: source + target + 2
    mask: Tensor  # [T, B] bool, True where the output is scored

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on a device."""
        fields = (self.inputs, self.outputs, self.lengths, self.mask)
        return Batch(*(field.to(device) for field in fields))


def make_batch(pairs: Pairs, vocabulary: Vocabulary) -> Batch:
    """Join the pairs' sides and pad them to the longest."""
    inputs, outputs, mask, lengths = _blank_batch(
        pairs, pairs.source_lengths + pairs.target_lengths + 2
    )
    every = np.arange(len(pairs))
    rows, steps = places(pairs.source_lengths)
    inputs[0] = vocabulary.SOS
    inputs[steps + 1, rows] = pairs.source + vocabulary.source_input_start
    separators = pairs.source_lengths + 1
    inputs[separators, every] = vocabulary.SEP
    rows, steps = places(pairs.target_lengths)
    steps += separators[rows]
    inputs[steps + 1, rows] = pairs.target + vocabulary.target_input_start
    outputs[steps, rows] = pairs.target + vocabulary.target_output_start
    outputs[lengths - 1, every] = vocabulary.EOS
    mask[steps, rows] = mask[lengths - 1, every] = True
    return Batch(*map(torch.from_numpy, (inputs, outputs, lengths, mask)))


def make_tag_batch(pairs: Pairs, vocabulary: Vocabulary) -> Batch:
    """Align the pairs' sides for a tagger, and pad them to the longest. A tagger never has to say
    that it has finished, so its output ids are the numbers of target symbols, without EOS."""
    has_blank = vocabulary.blank is not None
    differ = pairs.source_lengths != pairs.target_lengths
    if not has_blank and differ.any():
        row = int(differ.argmax())
        raise InputError(
            f"pair {row}: {pairs.source_lengths[row]} source symbols and "
            f"{pairs.target_lengths[row]} labels, expected a label for every symbol"
        )
    steps_in_all = pairs.source_lengths + (pairs.target_lengths if has_blank else 0)
    inputs, outputs, mask, lengths = _blank_batch(pairs, steps_in_all)
    rows, steps = places(pairs.source_lengths)
    inputs[steps, rows] = pairs.source + vocabulary.source_input_start
    rows, steps = places(pairs.target_lengths)
    if vocabulary.blank is not None:
        (blank,) = vocabulary.encode_source([vocabulary.blank])
        steps += pairs.source_lengths[rows]
        inputs[steps, rows] = blank + vocabulary.source_input_start
    outputs[steps, rows] = pairs.target
    mask[steps, rows] = True
    return Batch(*map(torch.from_numpy, (inputs, outputs, lengths, mask)))


def _blank_batch(
    pairs: Pairs, lengths: IntArray
) -> tuple[IntArray, IntArray, NDArray[np.bool_], IntArray]:
    """Inputs, outputs and mask of zeros for sequences of these lengths, and the lengths."""
    if not len(pairs):
        raise InputError("no pairs to make a batch of")
    shape = int(lengths.max()), len(lengths)
    return np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.bool_), lengths


def make_line_batch(pairs: Pairs, vocabulary: Vocabulary) -> Batch:
    """Pad the targets of pairs to the longest, as lines of a language model."""
    if not len(pairs):
        raise InputError("no lines to make a batch of")
    lengths = pairs.target_lengths + 1
    mask = np.arange(lengths.max())[:, None] < lengths  # [T, B]
    inputs = np.full(mask.shape, vocabulary.SOS)
    outputs = np.full(mask.shape, vocabulary.EOS)
    # Symbols lie end to end, line after line: they go where the mask of lines is set, turned.
    inputs[1:].T[mask[1:].T] = pairs.target + vocabulary.target_input_start
    outputs[:-1].T[mask[1:].T] = pairs.target + vocabulary.target_output_start
    return Batch(*map(torch.from_numpy, (inputs, outputs, lengths, mask)))


BatchMaker = Callable[[Pairs, Vocabulary], Batch]
BATCH_MAKERS: dict[str, BatchMaker] = {
    "transducer": make_batch,
    "tagger": make_tag_batch,
    "lm": make_line_batch,
}
"""How pairs become a batch, by the form of the model."""


def draw_batch(
    task: Task,
    *,
    seed: int,
    stream: str,
    index: int,
    batch_size: int,
    lengths: LengthRange,
    make: BatchMaker = make_batch,
) -> Batch:
    """Batch `index` of a stream: a function of its arguments and of nothing else."""
    pairs = task.sample(batch_rng(seed, stream, index), batch_size, lengths)
    return make(pairs, task.vocabulary)


def batches(
    task: Task,
    *,
    seed: int,
    stream: str,
    batch_size: int,
    lengths: LengthRange,
    start: int = 0,
    ahead: int = 16,
    make: BatchMaker = make_batch,
) -> Iterator[Batch]:
    """Batch `start` of a stream and all that follow, without end.

    They are the ones that `draw_batch` gives, but made `ahead` at a time: right after a training
    step, when the caches are cold, one batch takes as long as several in a row.
    """
    for first in count(start, ahead):
        yield from [
            draw_batch(
                task,
                seed=seed,
                stream=stream,
                index=k,
                batch_size=batch_size,
                lengths=lengths,
                make=make,
            )
            for k in range(first, first + ahead)
        ]
