"""What the instructions of PTX compute, on NumPy arrays with a number for each lane.

`find_operation` gives the types of an instruction's result and operands, and the function. Rounding
modes that ask for what IEEE arithmetic does anyway, and approximations of it, are not told apart.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]
TYPES: dict[str, DTypeLike] = {
    "pred": np.bool_, "b8": np.uint8, "u8": np.uint8, "s8": np.int8,
    "b16": np.uint16, "u16": np.uint16, "s16": np.int16, "f16": np.float16, "bf16": np.uint16,
    "b32": np.uint32, "u32": np.uint32, "s32": np.int32, "f32": np.float32,
    "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f64": np.float64,
}  # fmt: skip
IGNORED = {"rn", "approx", "full", "ftz", "to", "uni"}
WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}


class Operation(NamedTuple):
    """A function of operands of these types, and the type of its result."""

    result: str
    operands: tuple[str, ...]
    compute: Callable[..., Array]


def find_operation(name: tuple[str, ...]) -> Operation:
    """What ("add", "f32") or ("mad", "wide", "s32") is; `NotImplementedError` if not known."""
    head, *rest = (part for part in name if part not in IGNORED)
    kind = rest[-1] if rest else ""
    modifiers = tuple(rest[:-1])
    if head == "cvt":
        return _conversion(modifiers, kind)
    if head == "setp" and len(modifiers) == 1:
        return Operation("pred", (kind, kind), _comparison(modifiers[0], kind))
    if head == "selp" and not modifiers:
        return Operation(kind, (kind, kind, "pred"), lambda a, b, p: np.where(p, a, b))
    if head in ("mul", "mad") and modifiers == ("wide",):
        wide = WIDER[kind]
        product = lambda a, b: a.astype(TYPES[wide]) * b.astype(TYPES[wide])  # noqa: E731
        if head == "mul":
            return Operation(wide, (kind, kind), product)
        return Operation(wide, (kind, kind, wide), lambda a, b, c: product(a, b) + c)
    if head == "mul" and modifiers == ("hi",):
        return Operation(kind, (kind, kind), _upper_half)
    if head in ("mul", "mad") and modifiers == ("lo",):
        modifiers = ()
    if head in ("mad", "fma") and not modifiers:
        return Operation(kind, (kind,) * 3, _multiply_add)
    if head in ("shl", "shr") and not modifiers:
        return Operation(kind, (kind, "u32"), _shift(head))
    if head == "bfe" and kind == "u32":
        return Operation(kind, (kind, "u32", "u32"), _extract_bits)
    if head in ("min", "max") and modifiers == ("NaN",):
        return Operation(kind, (kind, kind), {"min": np.minimum, "max": np.maximum}[head])
    if head in BINARY and not modifiers:
        return Operation(kind, (kind, kind), BINARY[head])
    if head in UNARY and not modifiers:
        return Operation(kind, (kind,), UNARY[head])
    raise NotImplementedError(f"the emulator does not know {'.'.join(name)}")


def _multiply_add(a: Array, b: Array, c: Array) -> Array:
    """A product and a sum, rounded once if they are of float32 or less."""
    if a.dtype.kind == "f" and a.dtype.itemsize < 8:
        exact: Array = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
        return exact.astype(a.dtype)
    return a * b + c


def _upper_half(a: Array, b: Array) -> Array:
    whole: Array = a.astype(object) * b.astype(object)
    return (whole >> 8 * a.dtype.itemsize).astype(a.dtype)


def _shift(head: str) -> Callable[[Array, Array], Array]:
    """Shifts by the width or more leave nothing, or only the sign."""

    def shift(a: Array, by: Array) -> Array:
        bits = 8 * a.dtype.itemsize
        far = by >= bits
        near = np.where(far, 0, by).astype(a.dtype)
        if head == "shl":
            return np.where(far, 0, a << near).astype(a.dtype)
        left = np.where(a < 0, -1, 0) if a.dtype.kind == "i" else 0
        return np.where(far, left, a >> near).astype(a.dtype)

    return shift


def _extract_bits(a: Array, start: Array, count: Array) -> Array:
    mask = (np.uint64(1) << count.astype(np.uint64)) - np.uint64(1)
    return ((a.astype(np.uint64) >> start.astype(np.uint64)) & mask).astype(a.dtype)


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.divide(a, b)
    quotient: Array = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return (quotient * np.sign(a) * np.sign(b)).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    return (a - _divide(a, b) * b).astype(a.dtype)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _divide, "rem": _remainder,
    "min": np.fmin, "max": np.fmax,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
UNARY: dict[str, Callable[[Array], Array]] = {
    "mov": lambda a: a, "neg": np.negative, "abs": np.abs, "not": np.invert,
    "ex2": np.exp2, "lg2": np.log2, "sqrt": np.sqrt, "tanh": np.tanh,
    "rcp": lambda a: (1 / a).astype(a.dtype), "rsqrt": lambda a: (1 / np.sqrt(a)).astype(a.dtype),
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal,
}  # fmt: skip


def _comparison(how: str, kind: str) -> Callable[[Array, Array], Array]:
    """With NaN, a comparison of floating point is false, or true if its name ends in u."""
    if kind[0] != "f":
        return COMPARISONS[how]

    def compare(a: Array, b: Array) -> Array:
        unknown = np.isnan(a) | np.isnan(b)
        if how in ("num", "nan"):
            return unknown if how == "nan" else ~unknown
        if how[-1] == "u":
            return COMPARISONS[how[:-1]](a, b) | unknown
        return COMPARISONS[how](a, b) & ~unknown

    return compare


ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil,
}  # fmt: skip


def _conversion(modifiers: tuple[str, ...], source: str) -> Operation:
    *how, target = modifiers
    if any(each not in ROUNDINGS for each in how):
        raise NotImplementedError(f"the emulator does not know cvt with {how}")
    if target == "bf16x2" and source == "f32":
        pack = lambda a, b: _to_bfloat16(b) | (_to_bfloat16(a).astype(np.uint32) << 16)  # noqa: E731
        return Operation("b32", ("f32", "f32"), pack)

    def convert(a: Array) -> Array:
        if source == "bf16":
            a = (a.astype(np.uint32) << 16).view(np.float32)
        for each in how:
            a = ROUNDINGS[each](a)
        return _to_bfloat16(a.astype(np.float32)) if target == "bf16" else a.astype(TYPES[target])

    return Operation(target, (source,), convert)


def _to_bfloat16(a: Array) -> Array:
    """The upper half of each number's bits, rounded to the nearest, ties to even."""
    bits = a.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(a), 0x7FFF, rounded).astype(np.uint16)
