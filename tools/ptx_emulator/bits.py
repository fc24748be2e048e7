"""Numbers as bits: registers of PTX have a size and no type."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .memory import WARP
from .operations import Array

SHARED_START = 256
"""Where shared memory begins, by the name global_smem."""


def bits_as(numbers: Array, dtype: "np.dtype[Any]") -> Array:
    """The same bits in a type, or as many of them as it has."""
    if numbers.dtype == dtype:
        return numbers
    if numbers.dtype.itemsize == dtype.itemsize and numbers.dtype.kind != "b":
        return numbers.view(dtype)
    plain = numbers if numbers.dtype.kind == "b" else numbers.view(f"u{numbers.dtype.itemsize}")
    return plain.astype(f"u{dtype.itemsize}").view(dtype)


def read_constant(text: str, dtype: "np.dtype[Any]") -> Array:
    """A number as it is written: 0f and 0d begin the bits of floating point."""
    if text == "global_smem":
        return np.array(SHARED_START, dtype)
    if text[:2].lower() in ("0f", "0d"):
        return np.array(int(text[2:], 16), f"u{len(text[2:]) // 2}").view(dtype)
    if dtype.kind == "b":
        return np.array(int(text, 0) != 0)
    return np.array(int(text, 0) % 2 ** (8 * dtype.itemsize), f"u{dtype.itemsize}").view(dtype)


def parameter_bits(given: float, dtype: DTypeLike) -> Array:
    """An argument of a kernel, in all lanes."""
    if isinstance(given, float):
        return np.full(WARP, given, f"f{np.dtype(dtype).itemsize}").view(dtype)
    return np.full(WARP, given, np.int64).astype(dtype)
