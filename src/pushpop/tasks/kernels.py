"""Compiled loops that draw: prefixes of well-bracketed strings, and for the Chomsky hierarchy's
tasks stacks and arithmetic expressions modulo 5.

Importing this module imports Numba, so whoever calls a kernel imports it when it first does. The
kernels of grammars, which call each other, are in `grammar_sampling.py`. Symbols of expressions are
places in `chomsky.EXPRESSION_SYMBOLS`.
"""

import numpy as np

from pushpop.compiled import compiled
from pushpop.tasks.base import FloatArray, IntArray

PLUS, MINUS, TIMES, OPEN, CLOSE, X = 5, 6, 7, 8, 9, 10
"""After the digits 0 to 4."""


@compiled()
def draw_brackets(
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


@compiled()
def run_stacks(source: IntArray, lengths: IntArray) -> IntArray:
    """The targets: stacks from the top, a 2, and 0s. Symbols 0 and 1 are pushed, 2 pops, 3 and 4
    push 0 and 1."""
    target = np.zeros(len(source) + len(lengths), np.int64)
    stack = np.empty(lengths.max(), np.int64)
    at = 0
    for row in range(len(lengths)):
        out = at + row  # each target before is one longer than its source
        height = 0
        for _ in range(lengths[row]):
            symbol = source[at]
            at += 1
            if symbol == 2:
                height = max(height - 1, 0)
            else:
                stack[height] = symbol if symbol < 2 else symbol - 3
                height += 1
        for i in range(height):
            target[out + i] = stack[height - 1 - i]
        target[out + height] = 2
    return target


@compiled()
def draw_expressions(lengths: IntArray, uniforms: FloatArray, operators: int) -> IntArray:
    """Random expressions with brackets, laid end to end; `operators` of + - * are used. The place
    of each symbol has one uniform number: digits and operators are drawn with theirs, how long a
    left operand is with that of the bracket before it."""
    source = np.empty(len(uniforms), np.int64)
    starts = np.empty(lengths.max() + 1, np.int64)  # of parts that are still to be written
    sizes = np.empty(lengths.max() + 1, np.int64)
    row_start = 0
    for row in range(len(lengths)):
        starts[0], sizes[0] = row_start, lengths[row]
        row_start += lengths[row]
        parts = 1 if lengths[row] > 0 else 0
        while parts > 0:
            parts -= 1
            start, size = starts[parts], sizes[parts]
            if size > 2:
                source[start] = OPEN
                source[start + size - 1] = CLOSE
            if size > 4:
                left = 1 + int(uniforms[start] * (size - 4))
                operator = start + 1 + left
                source[operator] = PLUS + int(uniforms[operator] * operators)
                starts[parts], sizes[parts] = start + 1, left
                starts[parts + 1], sizes[parts + 1] = operator + 1, size - 3 - left
                parts += 2
            else:
                digit = start + size // 2
                if size % 2 == 0:
                    source[digit - 1] = MINUS
                source[digit] = int(uniforms[digit] * 5)
    return source


@compiled()
def evaluate(source: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Expressions as constant + coefficient x, modulo 5: the constants, and the coefficients. An
    equation is taken as its left side less its right side. Nothing with an x is multiplied by
    another x, and an empty expression is 0.

    Inside every pair of brackets there is a sum so far, and a factor of the operand to come: 1 or
    -1 after + or -, the product so far after *.
    """
    constants = np.empty(len(lengths), np.int64)
    coefficients = np.empty(len(lengths), np.int64)
    sums = np.empty((lengths.max() + 1, 2), np.int64)
    factors = np.empty((lengths.max() + 1, 2), np.int64)
    at = 0
    for row in range(len(lengths)):
        depth = 0
        sums[0] = 0
        factors[0, 0], factors[0, 1] = 1, 0
        constant, coefficient = 0, 0
        operand_due = True
        for _ in range(lengths[row]):
            symbol = source[at]
            at += 1
            if symbol < PLUS or symbol == X:
                constant = symbol if symbol < PLUS else 0
                coefficient = 0 if symbol < PLUS else 1
                operand_due = False
            elif symbol == OPEN:
                depth += 1
                sums[depth] = 0
                factors[depth, 0], factors[depth, 1] = 1, 0
                operand_due = True
            elif operand_due:  # a sign, not an operator
                factors[depth] = -factors[depth]
            else:
                a, b = factors[depth, 0], factors[depth, 1]
                constant, coefficient = a * constant % 5, (a * coefficient + b * constant) % 5
                operand_due = symbol != CLOSE
                if symbol == TIMES:
                    factors[depth, 0], factors[depth, 1] = constant, coefficient
                    continue
                sums[depth, 0] += constant
                sums[depth, 1] += coefficient
                if symbol == CLOSE:
                    constant, coefficient = sums[depth, 0], sums[depth, 1]
                    depth -= 1
                else:
                    factors[depth, 0], factors[depth, 1] = 1 if symbol == PLUS else -1, 0
        a, b = factors[0, 0], factors[0, 1]
        constants[row] = (sums[0, 0] + a * constant) % 5
        coefficients[row] = (sums[0, 1] + a * coefficient + b * constant) % 5
    return constants, coefficients
