"""The tasks of "Neural Networks and the Chomsky Hierarchy" with numbers: expressions modulo 5, and
binary numbers of any size."""

from abc import abstractmethod
from itertools import pairwise
from math import isqrt
from typing import ClassVar

import numpy as np

from pushpop.tasks.base import draw_integers
from pushpop.tasks.chomsky import ChomskyTask, blank_vocabulary
from pushpop.tasks.ragged import IntArray, places, starts_of

EXPRESSION_SYMBOLS = "01234+-*()x="
"""The kernels know these symbols by their places. A task that lacks some has other numbers."""
DIGITS = "01234"


class ExpressionTask(ChomskyTask):
    """An expression modulo 5: digits 0 to 4, + - * as usual, and what else a task has."""

    symbols: ClassVar[str]
    """Those of the source, in the order of `EXPRESSION_SYMBOLS`."""
    chance = 0.2

    def __init__(self) -> None:
        self.vocabulary = blank_vocabulary(self.symbols, DIGITS)
        self._codes = np.array([EXPRESSION_SYMBOLS.index(symbol) for symbol in self.symbols])

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """The values of the expressions."""
        from pushpop.tasks.chomsky_kernels import evaluate

        values: IntArray = evaluate(self._codes[source], lengths)[0]
        return values


class ModularArithmetic(ExpressionTask):
    """An expression's value, modulo 5.

    1 + 2 * 3 ||| 2

    Digits and operators take turns, all uniform, and * comes before + and -. Sources have odd
    lengths: n - 1 where an even n was drawn. That is one less than the shortest length asked for,
    where that is even. The original lists one more source symbol, which its sources never have.
    """

    name = "chomsky/modular-arithmetic"
    symbols = "01234+-*"

    def source_lengths(self, lengths: IntArray) -> IntArray:
        """An even length becomes the odd one before it."""
        return lengths - 1 + lengths % 2

    def draw(self, rng: np.random.Generator, lengths: IntArray) -> IntArray:
        """One number a symbol: one of 5 digits or of 3 operators."""
        _, positions = places(lengths)
        uniforms = rng.random(len(positions))
        operators = 5 + (3 * uniforms).astype(np.int64)
        return np.where(positions % 2 == 0, (5 * uniforms).astype(np.int64), operators)


class ModularArithmeticBrackets(ExpressionTask):
    """A bracketed expression's value.

    ( ( 4 - ( - 2 ) ) * 3 ) ||| 3

    Values are modulo 5. Sources of 1 to 4 symbols are d, - d, ( d ) and ( - d ) with a digit d;
    longer ones are ( left operator right ), where left and right are such expressions and left has
    a length uniform on 1 .. n - 4. Digits and the operators + - * are uniform. The original lists
    one more source symbol, which its sources never have.
    """

    name = "chomsky/modular-arithmetic-brackets"
    symbols = "01234+-*()"

    def draw(self, rng: np.random.Generator, lengths: IntArray) -> IntArray:
        """One number a symbol, of which some are not used."""
        from pushpop.tasks.chomsky_kernels import draw_expressions

        codes = draw_expressions(lengths, rng.random(int(lengths.sum())), 3)
        source: IntArray = np.searchsorted(self._codes, codes)
        return source


class SolveEquation(ExpressionTask):
    """The x that solves an equation.

    ( x - ( - 2 ) ) = 1 ||| 4

    The left side is an expression of n - 2 symbols, drawn as in `ModularArithmeticBrackets` but
    without *, so that there is one solution modulo 5. Of its digits, x replaces the first one at
    or after a uniform place, going round at the end. A source of 1 or 2 symbols is all 0s, and its
    answer is 0.
    """

    name = "chomsky/solve-equation"
    symbols = "01234+-()x="

    def draw(self, rng: np.random.Generator, lengths: IntArray) -> IntArray:
        """The left sides, their values, then which digits become x."""
        from pushpop.tasks.chomsky_kernels import draw_expressions, evaluate

        sides = np.maximum(lengths - 2, 0)
        codes = draw_expressions(sides, rng.random(int(sides.sum())), 2)
        values, _ = evaluate(codes, sides)
        rows, positions = places(lengths)
        on_the_left = positions < sides[rows]
        source = np.zeros(len(rows), np.int64)
        source[on_the_left] = np.searchsorted(self._codes, codes)
        digits = np.flatnonzero(on_the_left & (source < len(DIGITS)))

        equations = lengths > 2
        starts, ends = starts_of(lengths)[equations], (starts_of(lengths) + sides)[equations]
        source[ends] = self.symbols.index("=")
        source[ends + 1] = values[equations]
        wanted = starts + (rng.random(len(lengths)) * sides).astype(np.int64)[equations]
        after = np.append(digits, len(source))[np.searchsorted(digits, wanted)]
        first = digits[np.searchsorted(digits, starts)]
        source[np.where(after < ends, after, first)] = self.symbols.index("x")
        return source

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """Left side less right side is constant + coefficient x, and must be 0. As there is no *,
        the coefficient is 1 or -1, which is its own inverse."""
        from pushpop.tasks.chomsky_kernels import evaluate

        constants, coefficients = evaluate(self._codes[source], lengths)
        answers: IntArray = -constants * coefficients % 5
        return answers


class BinaryTask(ChomskyTask):
    """Binary numbers, which Python's integers hold exactly however long they are."""

    chance = 0.5

    @abstractmethod
    def compute(self, source: str) -> str:
        """The target of a source, both as strings of digits; without the padding at its end."""

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """Row after row."""
        text = (source + ord("0")).astype(np.uint8).tobytes().decode("ascii")
        ends = np.cumsum(lengths).tolist()
        answers = [
            self.compute(text[start:end]).ljust(self.output_length(end - start), "0")
            for start, end in pairwise([0, *ends])
        ]
        digits = np.frombuffer("".join(answers).encode("ascii"), np.uint8)
        return digits.astype(np.int64) - ord("0")


def draw_positive(rng: np.random.Generator, lengths: IntArray) -> IntArray:
    """The digits of numbers that are uniform on 1 .. 2**length - 1, laid end to end.

    Where all digits of a number are 0, they are drawn again. A length of 0 makes no number.
    """
    rows, _ = places(lengths)
    digits = draw_integers(rng, 2, len(rows))
    zero = np.bincount(rows[digits == 1], minlength=len(lengths)) == 0
    while (again := zero[rows]).any():
        digits[again] = draw_integers(rng, 2, int(again.sum()))
        zero = np.bincount(rows[digits == 1], minlength=len(lengths)) == 0
    return digits


class TwoNumbersTask(BinaryTask):
    """Two numbers with a 2 in between. In all numbers the lowest digit comes first.

    The target is the result without leading 0s, then the terminator 2, then 0s.

    The first number has a length uniform on 1 .. n - 2, and the second one the rest; either is
    uniform on 1 .. 2**length - 1. A source of n <= 2 symbols is one number of n digits, uniform on
    0 .. 2**n - 2.
    """

    terminator = "2"
    vocabulary = blank_vocabulary("012", "012")

    def draw(self, rng: np.random.Generator, lengths: IntArray) -> IntArray:
        """The lengths of the first numbers, then the digits of all numbers."""
        two = lengths > 2
        firsts = 1 + (rng.random(len(lengths)) * np.maximum(lengths - 2, 1)).astype(np.int64)
        firsts = np.where(two, firsts, lengths)
        seconds = np.where(two, lengths - 1 - firsts, 0)
        digits = draw_positive(rng, np.stack([firsts, seconds], axis=1).ravel())
        rows, positions = places(lengths)
        source = np.full(len(rows), 2)
        source[positions != firsts[rows]] = digits
        # Any digits but all 0s are drawn; with 0 and 1 exchanged, any but all 1s: 0 .. 2**n - 2.
        return np.where(two[rows], source, 1 - source)


class BinaryAddition(TwoNumbersTask):
    """The sum of two binary numbers.

    0 0 1 2 0 1 1 0 1 ||| 0 1 0 1 1 2 0 0 0 0

    This is 4 + 22 = 26, lowest digits first; 2 is the plus sign, and what ends the sum. Sources are
    as `TwoNumbersTask` says, and the answer has n + 1 symbols. A single number is its own sum.
    """

    name = "chomsky/binary-addition"

    def output_length(self, n: int) -> int:
        """A sum of at most n digits, and the terminator."""
        return n + 1

    def compute(self, source: str) -> str:
        """Add; where there is no second number, it is 0."""
        first, _, second = source.partition("2")
        total = int(first[::-1], 2) + int(second[::-1] or "0", 2)
        return f"2{total:b}"[::-1]


class BinaryMultiplication(TwoNumbersTask):
    """The product of two binary numbers.

    0 0 1 2 0 1 1 0 1 ||| 0 0 0 1 1 0 1 2 0

    This is 4 * 22 = 88, lowest digits first; 2 is the times sign, and what ends the product.
    Sources are as `TwoNumbersTask` says, and the answer has n symbols. To a source of one symbol it
    is 2, and to one of two symbols 0 2, whatever they are.
    """

    name = "chomsky/binary-multiplication"

    def output_length(self, n: int) -> int:
        """A product of at most n - 1 digits, and the terminator."""
        return n

    def compute(self, source: str) -> str:
        """Multiply."""
        first, _, second = source.partition("2")
        if not second:
            return "0" * (len(source) - 1) + "2"
        return f"2{int(first[::-1], 2) * int(second[::-1], 2):b}"[::-1]


class SquareRoot(BinaryTask):
    """The square root of a binary number.

    1 0 0 1 0 1 ||| 1 1 0

    This is 37 and 6: the root is rounded down, and the highest digit comes first. The number is
    uniform on 1 .. 2**n - 1, and the root has half as many digits, rounded up, leading 0s included.
    """

    name = "chomsky/square-root"
    vocabulary = blank_vocabulary("01", "01")

    def output_length(self, n: int) -> int:
        """A root below 2**(n / 2)."""
        return (n + 1) // 2

    def draw(self, rng: np.random.Generator, lengths: IntArray) -> IntArray:
        """Digits, again where all are 0."""
        return draw_positive(rng, lengths)

    def compute(self, source: str) -> str:
        """Exactly, in integers."""
        return f"{isqrt(int(source, 2)):0{self.output_length(len(source))}b}"
