"""Compiled loops: joint sequences of a batch, and random prefixes of well-bracketed strings.

Importing this module imports Numba, so whoever calls a kernel imports it when it first does. In
between training steps, when no cache is warm, a dozen small numpy calls take three times as long as
`join`. The kernels of grammars, which call each other, are in `derivation.py`.
"""

import numpy as np
from numpy.typing import NDArray

from pushpop.compiled import compiled
from pushpop.tasks.ragged import FloatArray, IntArray


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


@compiled()
def align(
    source: IntArray,
    source_lengths: IntArray,
    target: IntArray,
    target_lengths: IntArray,
    blank: int,
    source_start: int,
) -> tuple[IntArray, IntArray, IntArray, NDArray[np.bool_]]:
    """The fields of a `Batch` for a model that writes while it reads. `blank` is the input id of
    the symbol that is read where an answer is wanted, or -1: then an answer is wanted at every
    source symbol. `source_start` is the input id of source symbol number 0."""
    lengths = source_lengths + target_lengths if blank >= 0 else source_lengths.copy()
    shape = (lengths.max(), len(lengths))
    inputs = np.zeros(shape, np.int64)
    outputs = np.zeros(shape, np.int64)
    mask = np.zeros(shape, np.bool_)
    source_at = 0
    target_at = 0
    for row in range(len(lengths)):
        for step in range(source_lengths[row]):
            inputs[step, row] = source[source_at] + source_start
            source_at += 1
        first = source_lengths[row] if blank >= 0 else 0
        for step in range(first, first + target_lengths[row]):
            if blank >= 0:
                inputs[step, row] = blank
            outputs[step, row] = target[target_at]
            mask[step, row] = True
            target_at += 1
    return inputs, outputs, lengths, mask


@compiled()
def draw_brackets(
    openings: FloatArray, lengths: IntArray, uniforms: FloatArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Sources and targets, each laid end to end, and the targets' lengths. `openings` [left, depth]
    is the chance that the next of `left` symbols opens a bracket; a symbol takes one uniform
    number. Source symbols are 2 kind for opening and 2 kind + 1 for closing, target ones kind."""
    source = np.empty(len(uniforms), np.int64)
    target = np.empty(len(uniforms), np.int64)
    target_lengths = np.empty(len(lengths), np.int64)
    still_open = np.empty(lengths.max(), np.int64)
    at = 0
    target_end = 0
    for row in range(len(lengths)):
        depth = 0
        for left in range(lengths[row], 0, -1):
            opening = openings[left, depth]
            if uniforms[at] < opening:
                still_open[depth] = 0 if uniforms[at] < opening / 2 else 1
                source[at] = 2 * still_open[depth]
                depth += 1
            else:
                depth -= 1
                source[at] = 2 * still_open[depth] + 1
            at += 1
        target_lengths[row] = depth
        for i in range(depth - 1, -1, -1):
            target[target_end] = still_open[i]
            target_end += 1
    return source, target[:target_end].copy(), target_lengths
