"""Sequences of different lengths, laid end to end in one array."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def starts_of(lengths: IntArray) -> IntArray:
    """Where each row begins when rows of these lengths are laid end to end."""
    starts: IntArray = np.cumsum(lengths) - lengths
    return starts


def places(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """The row of every symbol, and its position in that row, when rows of these lengths are laid
    end to end: lengths 2, 3 give rows 0 0 1 1 1 and positions 0 1 0 1 2."""
    ends = np.cumsum(lengths)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return rows, np.arange(len(rows)) - (ends - lengths)[rows]


def split(flat: IntArray, lengths: IntArray) -> list[IntArray]:
    """The rows again, as views."""
    ends = np.cumsum(lengths).tolist()
    return [flat[start:end] for start, end in pairwise([0, *ends])]
