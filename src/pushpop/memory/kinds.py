"""The memories of the package by name and the paper's three by number, and the biases that they may
start with, as plain numbers: options are read and checked without torch or Numba."""

from collections.abc import Mapping, Sequence
from typing import Any

KINDS = ("stack", "queue", "deque")
STACK, QUEUE, DEQUE = range(len(KINDS))
"""The numbers by which kernels know the paper's memories."""
TOP, BOTTOM = 0, 1
"""The ends of a deque, in the order of its axis."""
MEMORY_NAMES = (*KINDS, "superposition", "tape")
"""The memories that come with the package."""

ENDS = {"stack": 1, "queue": 1, "deque": 2}
"""The memories of the package that push and pop, and how many ends each has."""
BIASES: dict[str, float | None] = {"push_bias": None, "pop_bias": -1.0}
"""Their biases; `None`: drawn as the weights are."""


def bias_rows(
    name: str, bias: Any, memories: int, *, kind: str, ends: int
) -> list[list[float | None]]:
    """Spread a bias over memories and ends: a row of `ends` numbers for each memory."""
    if isinstance(bias, str):
        wanted = "a number or 'drift'" if name == "push_bias" else "a number"
        raise ValueError(f"{name} of a {kind} must be {wanted}; got {bias!r}")
    if bias is None:
        return [[None] * ends for _ in range(memories)]
    bias = bias.tolist() if hasattr(bias, "tolist") else bias  # a tensor or an array
    one_each = ends == 1  # then a list has a number for each memory
    numbers: list[Any] = list(bias) if isinstance(bias, Sequence) else [bias]
    if one_each or any(isinstance(row, Sequence) for row in numbers):
        rows = [list(row) if isinstance(row, Sequence) else [row] for row in numbers]
    else:
        rows = [numbers]
    rows = rows * memories if len(rows) == 1 else rows
    rows = [row * ends if len(row) == 1 else row for row in rows]
    if len(rows) != memories or any(len(row) != ends for row in rows):
        what = "one number" if one_each else "one number or (top, bottom)"
        each = "numbers" if one_each else "pairs (top, bottom)"
        many = "" if memories == 1 else f", or a list of {memories} {each}, one a memory"
        raise ValueError(f"{name} of a {kind} must be {what}{many}; got {bias}")
    return [[float(number) for number in row] for row in rows]


def check_biases(kind: str, memories: int, biases: Mapping[str, Any]) -> None:
    """Raise ValueError unless a memory of the package can start with these biases."""
    if kind not in ENDS:
        for name in biases:
            raise ValueError(
                f"memory {kind!r} has no {name}: its starting biases are none that could be set"
            )
        return
    for name in reversed(BIASES):
        bias = biases.get(name, BIASES[name])
        if name != "push_bias" or bias != "drift":
            bias_rows(name, bias, memories, kind=kind, ends=ENDS[kind])
