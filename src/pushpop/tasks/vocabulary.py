"""Symbols and their ids: which symbol has which row in the input and the output table.

One input table holds everything a model reads; one output table holds everything it predicts:

    input id    SOS = 0    SEP = 1    source symbols from 2    target symbols after them
    output id   EOS = 0               target symbols from 1

Source and target symbols have ids of their own in the input table even where they are the same
string. Nothing ever has to predict padding, SOS or SEP, so the output table has no row for them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pushpop.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from pushpop.tasks.base import IntArray


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

    def encode_source(self, symbols: Iterable[str]) -> "IntArray":
        """The symbols' numbers; add `source_input_start` for input ids."""
        return _encode(symbols, self._source_numbers, "source", self.unknown)

    def encode_target(self, symbols: Iterable[str]) -> "IntArray":
        """The symbols' numbers; add `target_input_start` or `target_output_start` for ids."""
        return _encode(symbols, self._target_numbers, "target", self.unknown)

    def knows(self, side: str, symbol: str) -> bool:
        """Whether a symbol of the "source" or the "target" has a number of its own."""
        known = self._source_numbers if side == "source" else self._target_numbers
        return symbol in known and symbol != self.unknown

    def decode_source(self, numbers: Iterable[int]) -> list[str]:
        """The symbols with these numbers."""
        return [self.source[number] for number in numbers]

    def decode_target(self, numbers: Iterable[int]) -> list[str]:
        """The symbols with these numbers."""
        return [self.target[number] for number in numbers]

    def decode_output(self, ids: Iterable[int]) -> list[str]:
        """The target symbols that these output ids stand for, up to the first EOS."""
        symbols = []
        for output_id in ids:
            if output_id == self.EOS:
                break
            symbols.append(self.target[output_id - self.target_output_start])
        return symbols

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

    @cached_property
    def _source_numbers(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.source)}

    @cached_property
    def _target_numbers(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.target)}


def _encode(
    symbols: Iterable[str], numbers: Mapping[str, int], side: str, unknown: str | None
) -> "IntArray":
    if unknown is not None:
        other = numbers[unknown]
        return np.array([numbers.get(symbol, other) for symbol in symbols], np.int64)
    try:
        return np.array([numbers[symbol] for symbol in symbols], np.int64)
    except KeyError as missing:
        symbol = missing.args[0]
        hint = did_you_mean(symbol, numbers)
        raise InputError(f"unknown {side} symbol {symbol!r}{hint}") from None
