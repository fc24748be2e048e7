"""Small kernels of Triton for the tests of the emulator, some of them with races.

`count_up` is how a memory keeps its strengths: one thread stores a scalar, and all load it. Without
barriers a warp that is ahead overwrites what another has yet to load, or loads what another has yet
to store. Triton's interpreter runs one thread, and sees nothing of that.
"""

import triton
import triton.language as tl


@triton.jit
def count_up(state, seen, steps, BARRIERS: tl.constexpr, BLOCK: tl.constexpr):
    """Add 1 to state[0] at each step; column c of seen[step] is what its thread found there."""
    columns = tl.arange(0, BLOCK)
    for step in range(steps):
        found = tl.load(state)
        tl.store(seen + step * BLOCK + columns, found + tl.zeros_like(columns))
        if BARRIERS:
            tl.debug_barrier()
        tl.store(state, found + 1)
        if BARRIERS:
            tl.debug_barrier()


@triton.jit
def sum_rows(x, out, D, BLOCK: tl.constexpr):
    """The sum and the running sums of each row, a program a row."""
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    numbers = tl.load(x + row * D + columns, mask=columns < D, other=0.0)
    tl.store(out + row * (D + 1), tl.sum(numbers))
    tl.store(out + row * (D + 1) + 1 + columns, tl.cumsum(numbers), mask=columns < D)


@triton.jit
def share_a_sum(x, out, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    """Every program adds its row to out: atomically, or not."""
    columns = tl.arange(0, BLOCK)
    numbers = tl.load(x + tl.program_id(0) * BLOCK + columns)
    if ATOMIC:
        tl.atomic_add(out + columns, numbers)
    else:
        tl.store(out + columns, tl.load(out + columns) + numbers)


@triton.jit
def mix(x, y, n, floats, integers, narrow, limit, BLOCK: tl.constexpr):
    """Arithmetic of many kinds, elementwise."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < limit, other=1.0), tl.load(y + i, mask=i < limit, other=1.0)
    k = tl.load(n + i, mask=i < limit, other=1)
    small = tl.minimum(a, b) - tl.maximum(a, b) * tl.abs(b)
    smooth = tl.exp(-a * a) + 1 / (1 + tl.exp(-b)) + tl.sqrt(tl.abs(a)) + tl.log(b * b + 1)
    tl.store(floats + i, tl.where(a < b, small, smooth), mask=i < limit)
    whole = (k // 7) * 3 + k % 5 + (k << 2) - (k >> 1) ^ 9 | (a * 8).to(tl.int64)
    tl.store(integers + i, whole, mask=i < limit)
    tl.store(narrow + i, (a * b).to(narrow.dtype.element_ty), mask=i < limit)
