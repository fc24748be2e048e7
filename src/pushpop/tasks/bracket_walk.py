"""Random prefixes of well-bracketed strings, compiled.

Importing this module imports Numba; `brackets.py` does so when it first draws.
"""

import numpy as np

from pushpop.compiled import compiled
from pushpop.tasks.ragged import FloatArray, IntArray


@compiled()
def walk(
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
