"""The tasks of "Neural Networks and the Chomsky Hierarchy" (Delétang et al., 2023), in a table.

They were made for models that read the source and then a blank for every symbol of the answer. A
source holds no blank here: `Vocabulary.blank` is its symbol, and `output_length` says how many to
read. Definitions follow the code of the original, which is google-deepmind's
neural_networks_chomsky_hierarchy on GitHub, in special cases of length 1 and 2 too; docs/tasks.md
describes them. Sources and answers are strings with a letter for each symbol.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from pushpop.tasks.base import (
    IntArray,
    Pairs,
    Task,
    Vocabulary,
    draw_integers,
    draw_lengths,
    places,
    split,
)
from pushpop.tasks.registry import CHOMSKY, LengthRange

BLANK = "_"
PREFIX = CHOMSKY
"""What the names of the benchmark's tasks begin with."""

WORDS = {"p": "pop", "a": "push0", "b": "push1"}
"""The symbols that are not spelt as their letter is."""
DIGITS = "01234"
TERMINATOR = "2"

Draw = Callable[[np.random.Generator, IntArray], list[str]]
"""Draws a source for each of the lengths."""


def run_stack(source: str) -> str:
    """The stack that a stack and the actions after it leave, its top first."""
    stack: list[str] = []
    for letter in source.replace("a", "0").replace("b", "1"):
        if letter == "p":
            del stack[-1:]
        else:
            stack.append(letter)
    return "".join(reversed(stack)) + TERMINATOR


def draw_stacks(rng: np.random.Generator, lengths: IntArray) -> list[str]:
    """A stack of a length uniform on 1 .. n - 1, its bottom first, then uniform actions."""
    heights = 1 + (rng.random(len(lengths)) * np.maximum(lengths - 1, 1)).astype(np.int64)
    rows, positions = places(lengths)
    uniforms = rng.random(len(rows))
    actions = 2 + (3 * uniforms).astype(np.int64)
    numbers = np.where(positions < heights[rows], (2 * uniforms).astype(np.int64), actions)
    return split(_spell("01pab", numbers), lengths)


def find_missing(source: str) -> str:
    """What stands half a source before or after the 2."""
    if source == "1":
        return "1"
    half = len(source) // 2
    return source[(source.index("2") + half) % (2 * half)]


def draw_missing(rng: np.random.Generator, lengths: IntArray) -> list[str]:
    """Strings twice with a gap, a 2, anywhere; a 3 makes the length odd. The digits drawn for the
    second half are not used."""
    digits = split(_spell("01", draw_integers(rng, 2, int(lengths.sum()))), lengths)
    gaps = (rng.random(len(lengths)) * 2 * (lengths // 2)).astype(np.int64)
    sources = []
    for row, gap in zip(digits, gaps.tolist(), strict=True):
        twice = 2 * row[: len(row) // 2]
        odd = "3" if len(row) % 2 else ""
        sources.append(f"{twice[:gap]}2{twice[gap + 1 :]}{odd}" if twice else "1")
    return sources


def evaluate(expression: str, x: int = 0) -> int:
    """The value of an expression modulo 5, where * comes before + and -."""
    around = []  # of each open bracket
    total, factor = 0, 1  # the sum so far, and what the operand to come is multiplied by
    operand: int | None = None
    for letter in expression:
        if letter in DIGITS:
            operand = int(letter)
        elif letter == "x":
            operand = x
        elif letter == "(":
            around.append((total, factor))
            total, factor, operand = 0, 1, None
        elif operand is None:  # a sign, not an operator
            factor = -factor
        elif letter == "*":
            factor, operand = factor * operand % 5, None
        elif letter == ")":
            operand = (total + factor * operand) % 5
            total, factor = around.pop()
        else:
            total, factor = total + factor * operand, 1 if letter == "+" else -1
            operand = None
    return (total + factor * (operand or 0)) % 5


def solve(equation: str) -> int:
    """The x that solves an equation modulo 5. Nothing is multiplied, so the coefficient of x is 1
    or -1, which is its own inverse."""
    left, _, right = equation.partition("=")
    constant = evaluate(left)
    return (evaluate(right) - constant) * (evaluate(left, 1) - constant) % 5


def draw_arithmetic(rng: np.random.Generator, lengths: IntArray) -> list[str]:
    """Digits and operators in turns. An even length becomes the odd one before it."""
    odd = lengths - 1 + lengths % 2
    _, positions = places(odd)
    uniforms = rng.random(len(positions))
    operators = 5 + (3 * uniforms).astype(np.int64)
    numbers = np.where(positions % 2 == 0, (5 * uniforms).astype(np.int64), operators)
    return split(_spell("01234+-*", numbers), odd)


def make_expression(uniforms: Sequence[float], operators: str) -> str:
    """An expression with brackets of as many symbols as there are uniform numbers.

    The place of each symbol has one: digits and operators are drawn with theirs, how long a left
    operand is with that of the bracket before it. One of 1 to 4 symbols is d, - d, ( d ) or
    ( - d ) with a digit d, a longer one ( left operator right ).
    """
    letters = [""] * len(uniforms)
    parts = [(0, len(uniforms))]  # those that are still to be written
    while parts:
        start, size = parts.pop()
        if size > 2:
            letters[start], letters[start + size - 1] = "()"
        if size > 4:
            left = 1 + int(uniforms[start] * (size - 4))
            operator = start + 1 + left
            letters[operator] = operators[int(uniforms[operator] * len(operators))]
            parts += [(start + 1, left), (operator + 1, size - 3 - left)]
        else:
            digit = start + size // 2
            if size % 2 == 0:
                letters[digit - 1] = "-"
            letters[digit] = DIGITS[int(uniforms[digit] * 5)]
    return "".join(letters)


def draw_expressions(rng: np.random.Generator, lengths: IntArray) -> list[str]:
    """Expressions with brackets."""
    uniforms = split(rng.random(int(lengths.sum())).tolist(), lengths)
    return [make_expression(row, "+-*") for row in uniforms]


def draw_equations(rng: np.random.Generator, lengths: IntArray) -> list[str]:
    """Expressions without *, and their values; x replaces the first digit at or after a uniform
    place, going round at the end. Of 1 or 2 symbols all are 0."""
    sizes = np.maximum(lengths - 2, 0)
    uniforms = split(rng.random(int(sizes.sum())).tolist(), sizes)
    wanted = (rng.random(len(lengths)) * sizes).astype(np.int64).tolist()
    equations = []
    for length, row, place in zip(lengths.tolist(), uniforms, wanted, strict=True):
        if not row:
            equations.append("0" * length)
            continue
        left = make_expression(row, "+-")
        digits = [k for k, letter in enumerate(left) if letter in DIGITS]
        hidden = next((k for k in digits if k >= place), digits[0])
        equations.append(f"{left[:hidden]}x{left[hidden + 1 :]}={evaluate(left)}")
    return equations


def add(source: str) -> str:
    """The sum, its lowest digit first; where there is no second number, it is 0."""
    first, _, second = source.partition("2")
    total = int(first[::-1], 2) + int(second[::-1] or "0", 2)
    return f"{TERMINATOR}{total:b}"[::-1]


def multiply(source: str) -> str:
    """The product, its lowest digit first; of a single number as many 0s as fit."""
    first, _, second = source.partition("2")
    if not second:
        return "0" * (len(source) - 1) + TERMINATOR
    return f"{TERMINATOR}{int(first[::-1], 2) * int(second[::-1], 2):b}"[::-1]


def draw_positive(rng: np.random.Generator, lengths: IntArray) -> list[str]:
    """The digits of numbers that are uniform on 1 .. 2**length - 1: drawn again where all are 0. A
    length of 0 makes no number."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    digits = draw_integers(rng, 2, len(rows))
    while (again := (np.bincount(rows[digits == 1], minlength=len(lengths)) == 0)[rows]).any():
        digits[again] = draw_integers(rng, 2, int(again.sum()))
    return split(_spell("01", digits), lengths)


def draw_two_numbers(rng: np.random.Generator, lengths: IntArray) -> list[str]:
    """Two numbers, lowest digit first, with a 2 in between: the first of a length uniform on
    1 .. n - 2, either uniform on 1 .. 2**length - 1.

    A source of 1 or 2 symbols is one number, uniform on 0 .. 2**n - 2: any digits but all 0s are
    drawn, and 0 and 1 exchanged.
    """
    two = lengths > 2
    firsts = 1 + (rng.random(len(lengths)) * np.maximum(lengths - 2, 1)).astype(np.int64)
    firsts = np.where(two, firsts, lengths)
    seconds = np.where(two, lengths - 1 - firsts, 0)
    numbers = draw_positive(rng, np.stack([firsts, seconds], axis=1).ravel())
    exchanged = str.maketrans("01", "10")
    return [
        f"{first}2{second}" if second else first.translate(exchanged)
        for first, second in zip(numbers[::2], numbers[1::2], strict=True)
    ]


def find_root(number: str) -> str:
    """The root rounded down, with half as many digits, rounded up; the highest digit first."""
    return f"{isqrt(int(number, 2)):0{(len(number) + 1) // 2}b}"


@dataclass(frozen=True)
class Definition:
    """A task of the benchmark."""

    summary: str
    source: str  # letters of its symbols
    target: str
    answer: Callable[[str], object]  # what stands before the padding
    output_length: Callable[[int], int] = lambda n: 1
    draw: Draw | None = None  # None: all letters are uniform


DEFINITIONS = {
    "even-pairs": Definition(  # odd exactly if the first and the last symbol differ
        "1 if 01s and 10s are odd in number.", "01", "01", lambda row: int(row[0] != row[-1])
    ),
    "parity": Definition("The number of 1s, modulo 2.", "01", "01", lambda row: row.count("1") % 2),
    "cycle-navigation": Definition(
        "Where steps on a circle of 5 lead.",
        "012",
        DIGITS,
        lambda row: (row.count("2") - row.count("0")) % 5,
    ),
    "modular-arithmetic": Definition(
        "An expression's value, modulo 5.", "01234+-*", DIGITS, evaluate, draw=draw_arithmetic
    ),
    "stack-manipulation": Definition(
        "A stack after pushes and pops.", "01pab", "012", run_stack, lambda n: n + 1, draw_stacks
    ),
    "reverse": Definition(
        "The source read from its end.", "01", "01", lambda row: row[::-1], lambda n: n
    ),
    "modular-arithmetic-brackets": Definition(
        "A bracketed expression's value.", "01234+-*()", DIGITS, evaluate, draw=draw_expressions
    ),
    "solve-equation": Definition(
        "The x that solves an equation.", "01234+-()x=", DIGITS, solve, draw=draw_equations
    ),
    "duplicate": Definition("The source, twice.", "01", "01", lambda row: 2 * row, lambda n: 2 * n),
    "missing-duplicate": Definition(
        "The missing symbol of a duplicate.", "0123", "01", find_missing, draw=draw_missing
    ),
    "odds-first": Definition(  # the text of the original, and the name, have it the other way round
        "Even places first, then odd ones.",
        "01",
        "01",
        lambda row: row[1::2] + row[::2],
        lambda n: n,
    ),
    "binary-addition": Definition(
        "The sum of two binary numbers.", "012", "012", add, lambda n: n + 1, draw_two_numbers
    ),
    "binary-multiplication": Definition(
        "The product of two binary numbers.", "012", "012", multiply, lambda n: n, draw_two_numbers
    ),
    "square-root": Definition(
        "The square root of a binary number.",
        "01",
        "01",
        find_root,
        lambda n: (n + 1) // 2,
        draw_positive,
    ),
    "bucket-sort": Definition(
        "The source, sorted.", DIGITS, DIGITS, lambda row: "".join(sorted(row)), lambda n: n
    ),
}


class ChomskyTask(Task):
    """A task whose answer is as long as its source's length says, padding included.

    Source lengths are uniform over the range.
    """

    family = "Chomsky hierarchy"

    def __init__(self, name: str) -> None:
        self.name, self._definition = PREFIX + name, DEFINITIONS[name]
        source = (WORDS.get(letter, letter) for letter in self._definition.source)
        self.vocabulary = Vocabulary((*source, BLANK), tuple(self._definition.target), blank=BLANK)
        self.chance = 0.2 if self._definition.target == DIGITS else 0.5
        """The accuracy that the paper compares with."""
        self.terminator = TERMINATOR if self._definition.target.endswith(TERMINATOR) else None
        """The target symbol after which no position counts in the score; None: all count."""

    @property
    def summary(self) -> str:
        return self._definition.summary

    def output_length(self, n: int) -> int:
        """How many symbols the answer to a source of n symbols has."""
        return self._definition.output_length(n)

    def sample(self, rng: np.random.Generator, batch_size: int, lengths: LengthRange) -> Pairs:
        sizes, letters = draw_lengths(rng, batch_size, lengths), self._definition.source
        if self._definition.draw is None:
            source = draw_integers(rng, len(letters), int(sizes.sum()))
        else:
            rows = self._definition.draw(rng, sizes)
            source, sizes = _read(letters, "".join(rows)), np.array([len(row) for row in rows])
        target_lengths = np.array([self.output_length(n) for n in sizes.tolist()])
        return Pairs(source, sizes, self.answer(source, sizes), target_lengths)

    def answer(self, source: IntArray, lengths: IntArray) -> IntArray:
        """The targets of sources, both laid end to end."""
        answers = (
            str(self._definition.answer(row)).ljust(self.output_length(len(row)), "0")
            for row in split(_spell(self._definition.source, source), lengths)
        )
        return _read(self._definition.target, "".join(answers))

    def scored(self, pairs: Pairs) -> Pairs:
        """The targets up to and with the terminator, if there is one: nothing after it counts."""
        if self.terminator is None:
            return pairs
        (end,) = self.vocabulary.encode_target([self.terminator])
        targets = [row[: int((row == end).argmax()) + 1] for _, row in pairs]
        lengths = np.array([len(row) for row in targets])
        return Pairs(pairs.source, pairs.source_lengths, np.concatenate(targets), lengths)

    def target_of(self, source: Sequence[str]) -> tuple[str, ...] | None:
        """The answer, where every string of symbols is a source."""
        symbols = self.vocabulary.source[:-1]
        if self._definition.draw is not None or not source or not {*source} <= {*symbols}:
            return None
        answer = self.answer(self.vocabulary.encode_source(source), np.array([len(source)]))
        return tuple(self.vocabulary.decode_target(answer.tolist()))


def _spell(letters: str, numbers: IntArray) -> str:
    """The letters with these numbers."""
    return np.frombuffer(letters.encode("ascii"), np.uint8)[numbers].tobytes().decode("ascii")


def _read(letters: str, text: str) -> IntArray:
    """Undo `_spell`."""
    numbers = np.zeros(128, np.int64)
    numbers[[ord(letter) for letter in letters]] = range(len(letters))
    return numbers[np.frombuffer(text.encode("ascii"), np.uint8)]


def make(name: str) -> ChomskyTask:
    return ChomskyTask(name.removeprefix(PREFIX))
