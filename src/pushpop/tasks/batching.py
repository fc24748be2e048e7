"""From pairs to tensors: joint sequences SOS source SEP target EOS, padded, time first.

At every step a model reads one symbol of the joint sequence and predicts the one after it; what
is scored is the prediction of the target and of EOS, so the first scored step is the one at SEP:

    step      0     1    2    3     4    5
    inputs    SOS   a    b    SEP   x    y
    outputs   .     .    .    x     y    EOS
    mask      no    no   no   yes   yes  yes

`inputs` are ids of the input table, `outputs` ids of the output table (see `vocabulary.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from pushpop.errors import InputError
from pushpop.tasks.base import LengthRange, Pairs, Task, batch_rng
from pushpop.tasks.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Batch:
    """Joint sequences. Where nothing is scored, `outputs` is 0; after a sequence's end, `inputs`
    is 0 too. Both are ids that exist, so no table needs a row for padding: `mask` and `lengths`
    tell what counts."""

    inputs: Tensor  # [T, B] int64
    outputs: Tensor  # [T, B] int64
    lengths: Tensor  # [B] int64, the steps of each sequence: source + target + 2
    mask: Tensor  # [T, B] bool, True where the output is scored

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on a device."""
        fields = (self.inputs, self.outputs, self.lengths, self.mask)
        return Batch(*(field.to(device) for field in fields))


def make_batch(pairs: Pairs, vocabulary: Vocabulary) -> Batch:
    """Join the pairs' sides and pad them to the longest."""
    from pushpop.tasks.kernels import join

    if not len(pairs):
        raise InputError("no pairs to make a batch of")
    specials = (vocabulary.SOS, vocabulary.SEP, vocabulary.EOS)
    starts = (
        vocabulary.source_input_start,
        vocabulary.target_input_start,
        vocabulary.target_output_start,
    )
    arrays = join(
        pairs.source, pairs.source_lengths, pairs.target, pairs.target_lengths, specials, starts
    )
    return Batch(*map(torch.from_numpy, arrays))


def draw_batch(
    task: Task, *, seed: int, stream: str, index: int, batch_size: int, lengths: LengthRange
) -> Batch:
    """Batch `index` of a stream: a function of its arguments and of nothing else."""
    pairs = task.sample(batch_rng(seed, stream, index), batch_size, lengths)
    return make_batch(pairs, task.vocabulary)


def batches(
    task: Task,
    *,
    seed: int,
    stream: str,
    batch_size: int,
    lengths: LengthRange,
    start: int = 0,
    ahead: int = 16,
) -> Iterator[Batch]:
    """Batch `start` of a stream and all that follow, without end.

    They are the ones that `draw_batch` gives, but made `ahead` at a time: right after a training
    step, when the caches are cold, one batch takes as long as several in a row.
    """
    for first in count(start, ahead):
        yield from [
            draw_batch(
                task, seed=seed, stream=stream, index=k, batch_size=batch_size, lengths=lengths
            )
            for k in range(first, first + ahead)
        ]
