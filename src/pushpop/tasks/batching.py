"""From pairs to tensors: joint sequences SOS source SEP target EOS, padded, time first.

At every step a model reads one symbol of the joint sequence and predicts the one after it; what
is scored is the prediction of the target and of EOS, so the first scored step is the one at SEP:

    step      0     1    2    3     4    5
    inputs    SOS   a    b    SEP   x    y
    outputs   .     .    .    x     y    EOS
    mask      no    no   no   yes   yes  yes

`inputs` are ids of the input table, `outputs` ids of the output table (see `vocabulary.py`).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pushpop.errors import InputError
from pushpop.tasks.base import Lengths, Pairs, Task, batch_rng
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
    if not len(pairs):
        raise InputError("no pairs to make a batch of")
    separators = pairs.source_lengths[:, None] + 1
    ends = separators + pairs.target_lengths[:, None] + 1
    step = np.arange(ends.max())
    scored = (step >= separators) & (step < ends)  # [B, T], like all arrays until the last line
    in_source = step < separators
    in_source[:, 0] = False
    in_target = (step > separators) & (step < ends)

    inputs = np.zeros(scored.shape, np.int64)
    inputs[:, 0] = vocabulary.SOS
    inputs[in_source] = pairs.source + vocabulary.source_input_start
    inputs[step == separators] = vocabulary.SEP
    inputs[in_target] = pairs.target + vocabulary.target_input_start
    outputs = np.full(scored.shape, vocabulary.EOS, np.int64)
    outputs[:, :-1][in_target[:, 1:]] = pairs.target + vocabulary.target_output_start
    arrays = (inputs.T.copy(), outputs.T.copy(), ends[:, 0].copy(), scored.T.copy())
    return Batch(*map(torch.from_numpy, arrays))


def draw_batch(
    task: Task, *, seed: int, stream: str, index: int, batch_size: int, lengths: Lengths
) -> Batch:
    """Batch `index` of a stream: a function of its arguments and of nothing else."""
    pairs = task.sample(batch_rng(seed, stream, index), batch_size, lengths)
    return make_batch(pairs, task.vocabulary)
