"""What a task is: pairs of sequences, drawn at random, reproducibly, without a model in sight; and
arrays of sequences laid end to end.

All randomness comes from the generator that is passed in, and only through its `random()`: that
method takes 53 bits of the bit generator's stream a number, on every platform and in compiled
code alike, so that a seed means the same data everywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pushpop.errors import InputError
from pushpop.tasks.registry import LengthRange, check_request
from pushpop.tasks.vocabulary import Vocabulary

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Flat = TypeVar("Flat", IntArray, list[int], list[float], str)


def places(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """The row of every symbol, and its position in that row, when rows of these lengths are laid
    end to end: lengths 2, 3 give rows 0 0 1 1 1 and positions 0 1 0 1 2."""
    ends = np.cumsum(lengths)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return rows, np.arange(len(rows)) - (ends - lengths)[rows]


def split(flat: Flat, lengths: IntArray) -> list[Flat]:
    """The rows again; those of an array are views."""
    ends: list[int] = np.cumsum(lengths).tolist()
    return [flat[start:end] for start, end in pairwise([0, *ends])]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Source and target sequences as symbol numbers: indices into the vocabulary's `source` and
    `target`. Each side is one array with its sequences laid end to end."""

    source: IntArray  # [sum of source_lengths]
    source_lengths: IntArray  # [B]
    target: IntArray  # [sum of target_lengths]
    target_lengths: IntArray  # [B]

    @classmethod
    def of(cls, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> "Pairs":
        """From one (source, target) after another."""
        sides = list(zip(*pairs, strict=True)) or [(), ()]
        flat = [np.fromiter(chain.from_iterable(side), np.int64) for side in sides]
        lengths = [np.array([len(row) for row in side], np.int64) for side in sides]
        return cls(flat[0], lengths[0], flat[1], lengths[1])

    def __len__(self) -> int:
        return len(self.source_lengths)

    def __iter__(self) -> Iterator[tuple[IntArray, IntArray]]:
        sources = split(self.source, self.source_lengths)
        return zip(sources, split(self.target, self.target_lengths), strict=True)


PAPER = "the paper's"
"""The family of the tasks of Grefenstette et al."""


class Task(ABC):
    """A name, a vocabulary for each side, and a way to draw pairs."""

    name: str
    vocabulary: Vocabulary
    family: str = "more transductions"
    """Tasks that belong together have the same one; lists of tasks are divided by it."""

    @property
    def summary(self) -> str:
        """What the task is, in a line: the first one of its docstring."""
        return (type(self).__doc__ or "").partition("\n")[0]

    @abstractmethod
    def sample(self, rng: np.random.Generator, batch_size: int, lengths: LengthRange) -> Pairs:
        """Draw `batch_size` pairs whose source lengths lie within `lengths`."""

    def scored(self, pairs: Pairs) -> Pairs:
        """The pairs with what counts in a test: most tasks leave nothing out."""
        return pairs

    def target_of(self, source: Sequence[str]) -> tuple[str, ...] | None:
        """The right target of a source, as far as it counts; None if the task has no such source,
        or if what is right cannot be told."""
        return None

    def with_uniform_lengths(self) -> "Task":
        """The task with every source length as likely as any other; most are so anyway."""
        return self


def batch_rng(seed: int, stream: str, index: int) -> np.random.Generator:
    """The generator of batch `index` in a stream ("train", "test", ...) of a seed.

    Philox is a function of a key and a counter: seed and stream are the key, and each batch has a
    stretch of 2**192 counter values of its own, so that no batch depends on another's making.
    """
    for given, what in ((seed, "seed"), (index, "batch index")):
        if not 0 <= given < 2**64:
            raise InputError(f"{what} {given}: expected a number from 0 to 2**64 - 1")
    key = np.array([seed, _stream_number(stream)], np.uint64)
    counter = np.array([0, 0, 0, index], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


@cache
def _stream_number(stream: str) -> int:
    return int.from_bytes(blake2b(stream.encode(), digest_size=8).digest(), "little")


def draw_integers(rng: np.random.Generator, bound: int, count: int) -> IntArray:
    """Uniform on 0 .. bound - 1 (exactly for powers of two, else to within bound * 2**-53)."""
    return (rng.random(count) * bound).astype(np.int64)


def draw_lengths(
    rng: np.random.Generator, batch_size: int, lengths: LengthRange, multiple: int = 1
) -> IntArray:
    """Uniform over the lengths in the range that are multiples of `multiple`."""
    low, high = check_request(batch_size, lengths)
    first, last = -(-low // multiple), high // multiple
    if first > last:
        raise InputError(f"lengths {low}-{high}: none is a multiple of {multiple}")
    return (first + draw_integers(rng, last - first + 1, batch_size)) * multiple
