"""What a task is: a vocabulary, and pairs of sequences drawn at random, reproducibly.

One input table holds everything a model reads; one output table holds everything it predicts:

    input id    SOS = 0    SEP = 1    source symbols from 2    target symbols after them
    output id   EOS = 0               target symbols from 1

Source and target symbols have ids of their own in the input table even where they are the same
string. Nothing ever has to predict padding, SOS or SEP, so the output table has no row for them.

All randomness comes from the generator that is passed in, and only through its `random()`: that
method takes 53 bits of the bit generator's stream a number, on every platform and in compiled
code alike, so that a seed means the same data everywhere.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from itertools import chain, pairwise, takewhile
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from pushpop.errors import InputError, did_you_mean
from pushpop.tasks.registry import LengthRange, check_request

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


NO_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, line breaks among them, and half characters: no line of text has them, and a
terminal or a page may obey them."""


@dataclass(frozen=True)
class Vocabulary:
    """The symbols of either side, in the order of their numbers.

    `unknown`, if given, is a symbol of both sides: all symbols outside the vocabulary are read as
    this one. `blank`, if given, is a source symbol without a meaning: a tagger writes its answer
    where it reads one (see `models/tagger.py`).
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    unknown: str | None = None
    blank: str | None = None

    SOS: ClassVar[int] = 0
    SEP: ClassVar[int] = 1
    EOS: ClassVar[int] = 0
    source_input_start: ClassVar[int] = 2
    target_output_start: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for side, symbols in (("source", self.source), ("target", self.target)):
            seen: set[str] = set()
            for symbol in symbols:
                if not isinstance(symbol, str) or not symbol or NO_TEXT.search(symbol):
                    raise InputError(f"{side} vocabulary: {symbol!r} is no symbol")
                if symbol in seen:
                    raise InputError(f"{side} vocabulary: {symbol!r} occurs twice")
                seen.add(symbol)
            if self.unknown is not None and self.unknown not in symbols:
                raise InputError(f"{side} vocabulary: lacks the unknown symbol {self.unknown!r}")
        if self.blank is not None and self.blank not in self.source:
            raise InputError(f"source vocabulary: lacks the blank {self.blank!r}")

    @property
    def target_input_start(self) -> int:
        """Input id of target symbol number 0; its output id is `target_output_start`."""
        return self.source_input_start + len(self.source)

    @property
    def input_size(self) -> int:
        """Rows of the input table: SOS, SEP, source and target symbols."""
        return self.target_input_start + len(self.target)

    @property
    def output_size(self) -> int:
        """Rows of the output table: EOS and the target symbols."""
        return self.target_output_start + len(self.target)

    def encode_source(self, symbols: Iterable[str]) -> IntArray:
        """The symbols' numbers; add `source_input_start` for input ids."""
        return self._encode("source", symbols)

    def encode_target(self, symbols: Iterable[str]) -> IntArray:
        """The symbols' numbers; add `target_input_start` or `target_output_start` for ids."""
        return self._encode("target", symbols)

    def _encode(self, side: str, symbols: Iterable[str]) -> IntArray:
        numbers = self._numbers[side]
        if self.unknown is not None:
            unknown = numbers[self.unknown]
            return np.array([numbers.get(symbol, unknown) for symbol in symbols], np.int64)
        try:
            return np.array([numbers[symbol] for symbol in symbols], np.int64)
        except KeyError as missing:
            hint = did_you_mean(missing.args[0], numbers)
            what = f"{side} symbol" if self.source else "symbol"  # a language model has one side
            raise InputError(f"unknown {what} {missing.args[0]!r}{hint}") from None

    @cached_property
    def _numbers(self) -> dict[str, dict[str, int]]:
        sides = {"source": self.source, "target": self.target}
        return {side: {symbol: k for k, symbol in enumerate(sides[side])} for side in sides}

    def knows(self, side: str, symbol: str) -> bool:
        """Whether a symbol of the "source" or the "target" has a number of its own."""
        return symbol in self._numbers[side] and symbol != self.unknown

    def decode_source(self, numbers: Iterable[int]) -> list[str]:
        """The symbols with these numbers."""
        return [self.source[number] for number in numbers]

    def decode_target(self, numbers: Iterable[int]) -> list[str]:
        """The symbols with these numbers."""
        return [self.target[number] for number in numbers]

    def decode_output(self, ids: Iterable[int]) -> list[str]:
        """The target symbols that these output ids stand for, up to the first EOS."""
        before_eos = takewhile(lambda output_id: output_id != self.EOS, ids)
        return [self.target[output_id - self.target_output_start] for output_id in before_eos]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        data: dict[str, Any] = {"source": list(self.source), "target": list(self.target)}
        optional = {"unknown": self.unknown, "blank": self.blank}
        return data | {name: symbol for name, symbol in optional.items() if symbol is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Vocabulary":
        """Undo `to_dict`."""
        if set(data) - {"unknown", "blank"} != {"source", "target"}:
            given = ", ".join(sorted(map(str, data))) or "nothing"
            raise InputError(f"vocabulary: expected the keys source and target, found {given}")
        for side in ("source", "target"):
            if not isinstance(data[side], list | tuple):
                raise InputError(f"vocabulary: {side} is {data[side]!r}, expected a list")
        sides = tuple(data["source"]), tuple(data["target"])
        return cls(*sides, data.get("unknown"), data.get("blank"))


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


def select(pairs: Pairs, rows: IntArray) -> Pairs:
    """Some of the pairs, in the order of their numbers in `rows`."""
    parts = []
    for flat, lengths in (
        (pairs.source, pairs.source_lengths),
        (pairs.target, pairs.target_lengths),
    ):
        chosen = lengths[rows]
        starts = (np.cumsum(lengths) - lengths)[rows]
        row, position = places(chosen)
        parts += [flat[starts[row] + position], chosen]
    return Pairs(*parts)


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
