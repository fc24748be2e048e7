"""From pairs to tensors: joint sequences SOS source SEP target EOS, padded, time first.

At every step a model reads one symbol of the joint sequence and predicts the one after it; what
is scored is the prediction of the target and of EOS, so the first scored step is the one at SEP:

    step      0     1    2    3     4    5
    inputs    SOS   a    b    SEP   x    y
    outputs   .     .    .    x     y    EOS
    mask      no    no   no   yes   yes  yes

`inputs` are ids of the input table, `outputs` ids of the output table (see `base.py`).

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
from functools import partial
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pushpop.errors import InputError
from pushpop.tasks.base import IntArray, Pairs, Task, Vocabulary, batch_rng, places
from pushpop.tasks.registry import LengthRange


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
        return Batch(*(field.to(device) for field in vars(self).values()))


def make_batch(pairs: Pairs, vocabulary: Vocabulary) -> Batch:
    """Join the pairs' sides and pad them to the longest."""
    separators = pairs.source_lengths + 1
    inputs, *rest = _write_targets(pairs, vocabulary, separators)
    inputs[separators, np.arange(len(pairs))] = vocabulary.SEP
    rows, steps = places(pairs.source_lengths)
    inputs[steps + 1, rows] = pairs.source + vocabulary.source_input_start
    return Batch(*map(torch.from_numpy, (inputs, *rest)))


def make_line_batch(pairs: Pairs, vocabulary: Vocabulary) -> Batch:
    """Pad the targets of pairs to the longest, as lines of a language model."""
    starts = np.zeros(len(pairs), np.int64)
    return Batch(*map(torch.from_numpy, _write_targets(pairs, vocabulary, starts, "lines")))


def make_tag_batch(pairs: Pairs, vocabulary: Vocabulary) -> Batch:
    """Align the pairs' sides for a tagger, and pad them to the longest. A tagger never has to say
    that it has finished, so its output ids are the numbers of target symbols, without EOS."""
    starts = np.zeros(len(pairs), np.int64)
    if vocabulary.blank is not None:
        starts = pairs.source_lengths
    elif (differ := pairs.source_lengths != pairs.target_lengths).any():
        row = int(differ.argmax())
        raise InputError(
            f"pair {row}: {pairs.source_lengths[row]} source symbols and "
            f"{pairs.target_lengths[row]} labels, expected a label for every symbol"
        )
    inputs, outputs, lengths, mask = _empty_batch(starts, starts + pairs.target_lengths)
    rows, steps = places(pairs.target_lengths)
    steps += starts[rows]
    outputs[steps, rows] = pairs.target
    if vocabulary.blank is not None:
        (blank,) = vocabulary.encode_source([vocabulary.blank])
        inputs[steps, rows] = blank + vocabulary.source_input_start
    rows, steps = places(pairs.source_lengths)
    inputs[steps, rows] = pairs.source + vocabulary.source_input_start
    return Batch(*map(torch.from_numpy, (inputs, outputs, lengths, mask)))


Arrays = tuple[IntArray, IntArray, IntArray, NDArray[np.bool_]]
"""The fields of a batch."""


def _empty_batch(starts: IntArray, lengths: IntArray, what: str = "pairs") -> Arrays:
    """Arrays of zeros, and a mask of what is scored: the steps from each start [B] to the end."""
    if not len(lengths):
        raise InputError(f"no {what} to make a batch of")
    steps = np.arange(lengths.max())[:, None]
    mask = (starts <= steps) & (steps < lengths)
    return np.zeros(mask.shape, np.int64), np.zeros(mask.shape, np.int64), lengths, mask


def _write_targets(
    pairs: Pairs, vocabulary: Vocabulary, starts: IntArray, what: str = "pairs"
) -> Arrays:
    """SOS at the first step; targets are predicted from each start on, and read a step later. EOS,
    the last prediction, is 0 as what is not scored."""
    inputs, outputs, lengths, mask = _empty_batch(starts, starts + pairs.target_lengths + 1, what)
    inputs[0] = vocabulary.SOS
    rows, steps = places(pairs.target_lengths)
    steps += starts[rows]
    inputs[steps + 1, rows] = pairs.target + vocabulary.target_input_start
    outputs[steps, rows] = pairs.target + vocabulary.target_output_start
    return inputs, outputs, lengths, mask


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
    draw = partial(
        draw_batch,
        task,
        seed=seed,
        stream=stream,
        batch_size=batch_size,
        lengths=lengths,
        make=make,
    )
    for first in count(start, ahead):
        yield from [draw(index=index) for index in range(first, first + ahead)]
