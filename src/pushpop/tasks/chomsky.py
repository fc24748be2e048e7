"""The tasks of "Neural Networks and the Chomsky Hierarchy" (Delétang et al., 2023): what they have
in common, those on strings, and those with numbers (expressions modulo 5, and binary numbers of any
size).

They were made for models that read the source and then a blank for every symbol of the answer. A
source holds no blank here: `Vocabulary.blank` is its symbol, and `output_length` says how many to
read. Definitions follow the code of the original, which is google-deepmind's
neural_networks_chomsky_hierarchy on GitHub, in special cases of length 1 and 2 too.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import isqrt
from typing import ClassVar

import numpy as np

from pushpop.tasks.base import IntArray, Pairs, Task, draw_integers, draw_lengths, places, starts_of
from pushpop.tasks.lengths import LengthRange
from pushpop.tasks.registry import CHOMSKY
from pushpop.tasks.vocabulary import Vocabulary

BLANK = "_"
PREFIX = CHOMSKY
"""What the names of the benchmark's tasks begin with."""


def blank_vocabulary(source: Iterable[str], target: Iterable[str]) -> Vocabulary:
    """These symbols, and the blank as the last one of the source."""
    return Vocabulary((*source, BLANK), tuple(target), blank=BLANK)


class ChomskyTask(Task):
    """A task whose answer is as long as its source's length says, padding included.

    Source lengths are uniform over the range. A subclass says how sources are drawn (uniformly from
    all symbols but the blank, if it says nothing) and what the answer to a source is.
    """

    family = "Chomsky hierarchy"
    chance: ClassVar[float]
    """The accuracy that the paper compares with."""
    terminator: ClassVar[str | None] = None
    """The target symbol after which no position counts in the score; None: all count."""

    def sample(self, rng: np.random.Generator, batch_size: int, lengths: LengthRange) -> Pairs:
        """Draw the lengths, then the sources, then find the answers."""
        source_lengths = self.source_lengths(draw_lengths(rng, batch_size, lengths))
        source = self.draw(rng, source_lengths)
        target_lengths = np.array([self.output_length(n) for n in source_lengths.tolist()])
        return Pairs(source, source_lengths, self.answer(source, source_lengths), target_lengths)

    def output_length(self, n: int) -> int:
        """How many symbols the answer to a source of n symbols has."""
        return 1

    def scored(self, pairs: Pairs) -> Pairs:
        """The targets up to and with the terminator, if there is one: nothing after it counts."""
        if self.terminator is None:
            return pairs
        (end,) = self.vocabulary.encode_target([self.terminator])
        _, positions = places(pairs.target_lengths)
        first = np.where(pairs.target == end, positions, len(pairs.target))
        starts = starts_of(pairs.target_lengths)
        kept = np.minimum(np.minimum.reduceat(first, starts) + 1, pairs.target_lengths)
        target = pairs.target[positions < np.repeat(kept, pairs.target_lengths)]
        return Pairs(pairs.source, pairs.source_lengths, target, kept)

    def target_of(self, source: Sequence[str]) -> tuple[str, ...] | None:
        """The answer, where every string of symbols is a source."""
        symbols, n = self.vocabulary.source[:-1], len(source)
        if type(self).draw is not ChomskyTask.draw or not source or not set(source) <= {*symbols}:
            return None
        numbers, lengths = self.vocabulary.encode_source(source), np.array([n])
        answer = self.answer(numbers, lengths)
        pairs = Pairs(numbers, lengths, answer, np.array([self.output_length(n)]))
        return tuple(self.vocabulary.decode_target(self.scored(pairs).target.tolist()))

    def source_lengths(self, lengths: IntArray) -> IntArray:
        """The lengths that sources have when these are asked for: the same in all tasks but one."""
        return lengths

    def draw(self, rng: np.random.Generator, lengths: IntArray) -> IntArray:
        """Sources of these lengths, laid end to end."""
        return draw_integers(rng, len(self.vocabulary.source) - 1, int(lengths.sum()))

    @abstractmethod
    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """The targets of sources as `draw` makes them, laid end to end too."""


class EvenPairs(ChomskyTask):
    """1 if 01s and 10s are odd in number.

    0 1 1 0 ||| 0

    That number is odd exactly if the first and the last symbol differ.
    """

    name = "chomsky/even-pairs"
    chance = 0.5
    vocabulary = blank_vocabulary("01", "01")

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """First symbol against last."""
        first = starts_of(lengths)
        last: IntArray = first + lengths - 1
        return source[first] ^ source[last]


class Parity(ChomskyTask):
    """The number of 1s, modulo 2.

    0 1 1 1 ||| 1
    """

    name = "chomsky/parity"
    chance = 0.5
    vocabulary = blank_vocabulary("01", "01")

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """Sums of the rows, modulo 2."""
        return np.add.reduceat(source, starts_of(lengths)) % 2


class CycleNavigation(ChomskyTask):
    """Where steps on a circle of 5 lead.

    2 2 1 0 2 ||| 2

    Symbols 0, 1, 2 are a step back, none, and one ahead; the places are 0 to 4, and 0 is the start.
    """

    name = "chomsky/cycle-navigation"
    chance = 0.2
    vocabulary = blank_vocabulary("012", "01234")

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """Sums of the steps, modulo 5."""
        return np.add.reduceat(source - 1, starts_of(lengths)) % 5


class StackManipulation(ChomskyTask):
    """A stack after pushes and pops.

    0 1 1 0 push1 pop pop ||| 1 1 0 2 0 0 0 0

    The source is a stack of 0s and 1s, its bottom first, and then actions. The target is the stack
    that they leave, its top first, then the terminator 2, then 0s up to n + 1 symbols. A pop of an
    empty stack does nothing. The stack in the source has a length uniform on 1 .. n - 1, and
    actions are uniform too; a source of one symbol is a stack alone.
    """

    name = "chomsky/stack-manipulation"
    chance = 0.5
    terminator = "2"
    vocabulary = blank_vocabulary(("0", "1", "pop", "push0", "push1"), "012")

    def output_length(self, n: int) -> int:
        """A stack of at most n symbols, and the terminator."""
        return n + 1

    def draw(self, rng: np.random.Generator, lengths: IntArray) -> IntArray:
        """The length of each stack, then one number a symbol."""
        rows, positions = places(lengths)
        heights = 1 + (rng.random(len(lengths)) * np.maximum(lengths - 1, 1)).astype(np.int64)
        uniforms = rng.random(len(rows))
        actions = 2 + (3 * uniforms).astype(np.int64)
        return np.where(positions < heights[rows], (2 * uniforms).astype(np.int64), actions)

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """Do what the actions say."""
        from pushpop.tasks.kernels import run_stacks

        target: IntArray = run_stacks(source, lengths)
        return target


class Reverse(ChomskyTask):
    """The source read from its end.

    0 1 1 0 1 0 ||| 0 1 0 1 1 0
    """

    name = "chomsky/reverse"
    chance = 0.5
    vocabulary = blank_vocabulary("01", "01")

    def output_length(self, n: int) -> int:
        """Every symbol once."""
        return n

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """Position p takes the symbol at n - 1 - p."""
        rows, positions = places(lengths)
        taken: IntArray = (starts_of(lengths) + lengths)[rows] - 1 - positions
        return source[taken]


class Duplicate(ChomskyTask):
    """The source, twice.

    1 0 1 ||| 1 0 1 1 0 1
    """

    name = "chomsky/duplicate"
    chance = 0.5
    vocabulary = blank_vocabulary("01", "01")

    def output_length(self, n: int) -> int:
        """Every symbol twice."""
        return 2 * n

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """Positions past the end of the source start it again."""
        rows, positions = places(2 * lengths)
        return source[starts_of(lengths)[rows] + positions % lengths[rows]]


class MissingDuplicate(ChomskyTask):
    """The missing symbol of a duplicate.

    0 1 1 0 0 2 1 0 ||| 1

    The source is a string twice, with one symbol of the 2 (n // 2), any of them, replaced by 2. A
    source of odd length has a 3 at its end; that of one symbol is 1, and so is its answer.
    """

    name = "chomsky/missing-duplicate"
    chance = 0.5
    vocabulary = blank_vocabulary("0123", "01")

    def draw(self, rng: np.random.Generator, lengths: IntArray) -> IntArray:
        """A number a symbol, of which those of the second half are not used; then the gaps."""
        rows, positions = places(lengths)
        starts, halves = starts_of(lengths), lengths // 2
        source = draw_integers(rng, 2, len(rows))
        second = np.flatnonzero((positions >= halves[rows]) & (positions < 2 * halves[rows]))
        source[second] = source[second - halves[rows[second]]]
        gaps = starts + (rng.random(len(lengths)) * 2 * halves).astype(np.int64)
        source[gaps] = 2
        source[(starts + lengths - 1)[lengths % 2 == 1]] = 3
        source[starts[lengths == 1]] = 1
        return source

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """What stands half a source before or after the 2."""
        target = np.ones(len(lengths), np.int64)
        doubled = lengths > 1
        halves = lengths[doubled] // 2
        middles = starts_of(lengths)[doubled] + halves
        gaps = np.flatnonzero(source == 2)
        target[doubled] = source[np.where(gaps < middles, gaps + halves, gaps - halves)]
        return target


class OddsFirst(ChomskyTask):
    """Even places first, then odd ones.

    0 0 1 1 0 1 0 1 ||| 0 1 1 1 0 1 0 0

    Places are counted from 1. The text of the original says that odd places come first, and so does
    the name; its code puts even places first, and that is followed here. The task `odds-first` is
    the other way round.
    """

    name = "chomsky/odds-first"
    chance = 0.5
    vocabulary = blank_vocabulary("01", "01")

    def output_length(self, n: int) -> int:
        """Every symbol once."""
        return n

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """A row of length n has n // 2 even places, counted from 1."""
        rows, positions = places(lengths)
        evens = (lengths // 2)[rows]
        taken = np.where(positions < evens, 2 * positions + 1, 2 * (positions - evens))
        return source[starts_of(lengths)[rows] + taken]


class BucketSort(ChomskyTask):
    """The source, sorted.

    4 2 1 0 4 ||| 0 1 2 4 4
    """

    name = "chomsky/bucket-sort"
    chance = 0.2
    vocabulary = blank_vocabulary("01234", "01234")

    def output_length(self, n: int) -> int:
        """Every symbol once."""
        return n

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """All rows sorted at once: by row first, then by symbol."""
        rows, _ = places(lengths)
        return np.sort(5 * rows + source) % 5


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
        from pushpop.tasks.kernels import evaluate

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
        from pushpop.tasks.kernels import draw_expressions

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
        from pushpop.tasks.kernels import draw_expressions, evaluate

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
        from pushpop.tasks.kernels import evaluate

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
