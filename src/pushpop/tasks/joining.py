"""Joint sequences of a batch, compiled: in between training steps, when no cache is warm, a dozen
small numpy calls take three times as long as this one.

Importing this module imports Numba; `batching.py` does so when it first makes a batch.
"""

import numpy as np
from numpy.typing import NDArray

from pushpop.compiled import compiled
from pushpop.tasks.ragged import IntArray


@compiled()
def join(
    source: IntArray,
    source_lengths: IntArray,
    target: IntArray,
    target_lengths: IntArray,
    specials: tuple[int, int, int],
    starts: tuple[int, int, int],
) -> tuple[IntArray, IntArray, IntArray, NDArray[np.bool_]]:
    """The fields of a `Batch`. `specials` are the ids of SOS, SEP and EOS; `starts` those of
    symbol number 0 of the source as input, and of the target as input and as output."""
    sos, sep, eos = specials
    source_start, target_start, output_start = starts
    lengths = source_lengths + target_lengths + 2
    shape = (lengths.max(), len(lengths))
    inputs = np.zeros(shape, np.int64)
    outputs = np.zeros(shape, np.int64)
    mask = np.zeros(shape, np.bool_)
    source_at = 0
    target_at = 0
    for row in range(len(lengths)):
        inputs[0, row] = sos
        step = 1
        for _ in range(source_lengths[row]):
            inputs[step, row] = source[source_at] + source_start
            source_at += 1
            step += 1
        inputs[step, row] = sep
        for _ in range(target_lengths[row]):
            outputs[step, row] = target[target_at] + output_start
            mask[step, row] = True
            inputs[step + 1, row] = target[target_at] + target_start
            target_at += 1
            step += 1
        outputs[step, row] = eos
        mask[step, row] = True
    return inputs, outputs, lengths, mask
