"""Every form in which the Triton kernels are compiled, for checks that need no GPU.

Triton compiles a kernel for the types of its arguments and the values of its constants.
`benchmarks/gpu_compile.py` compiles all forms ahead of time.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pushpop.layers.backends.triton.kernels import (
    cell_backward,
    cell_forward,
    memory_backward,
    memory_forward,
)
from pushpop.layers.backends.triton.loop import CELLS, WIDEST_BLOCK
from pushpop.memory.backends.triton import block_options, stream, walk
from pushpop.memory.kinds import KINDS

WIDTHS = {"float32": (64, 256, 1024), "float64": (256,), "bfloat16": (256,), "float16": (256,)}
PRECISIONS = {"float32": ("fp32", "fp32"), "float64": ("fp64", "fp64"),
              "bfloat16": ("bf16", "fp32"), "float16": ("fp16", "fp32")}  # fmt: skip
"""Triton's names for the types of values and of strengths."""

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),  # A100
    "sm_90": GPUTarget("cuda", 90, 32),  # H100
    "gfx942": GPUTarget("hip", "gfx942", 64),  # MI300
}

VALUES = {"pushed", "initial", "reads", "grad_reads", "table"}
ROW_IDS = {"ids", "final_ids", "log_ids", "counts", "dropped"}
SIZES = {"after", "before", "t", "T", "R", "N", "D", "room", "width", "stride", "memories"}


class Variant(NamedTuple):
    """A kernel with the types of its arguments, the values of its constants and its warps."""

    name: str
    kernel: Any
    types: dict[str, str]  # of the arguments that are no constants, in Triton's words
    constants: dict[str, int]
    num_warps: int
    divisible_by_16: tuple[str, ...]  # the numbers among them that Triton may take for such


def compile_variant(variant: Variant, target: str) -> Any:
    """The kernel compiled for one of `TARGETS`, with its text at every stage in `.asm`."""
    kernel = variant.kernel
    position = {name: (index,) for index, name in enumerate(kernel.arg_names)}
    aligned = [name for name, kind in variant.types.items() if kind.startswith("*")]
    source = ASTSource(
        fn=kernel,
        signature={name: variant.types.get(name, "constexpr") for name in kernel.arg_names},
        constexprs={position[name]: value for name, value in variant.constants.items()},
        attrs={
            position[name]: [["tt.divisibility", 16]]
            for name in (*aligned, *variant.divisible_by_16)
        },
    )
    return triton.compile(source, target=TARGETS[target], options={"num_warps": variant.num_warps})


def argument_types(
    kernel: Any, precision: str, constants: Iterable[str], other: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The types of a kernel's arguments by their names: the same name means the same everywhere.

    `other` are names that only one module uses. What no set here knows is a pointer to strengths.
    """
    value, strength = PRECISIONS[precision]
    types = dict.fromkeys(VALUES, f"*{value}") | dict.fromkeys(ROW_IDS, "*i64")
    types |= {"ends": "*i32"} | dict.fromkeys(SIZES, "i32") | dict(other or {})
    names = [name for name in kernel.arg_names if name not in set(constants)]
    return {name: types.get(name, f"*{strength}") for name in names}


def variant(
    kernel: Any, precision: str, label: str, constants: dict[str, int], num_warps: int,
    other: Mapping[str, str] | None = None,
) -> Variant:  # fmt: skip
    """One form of a kernel; D is taken to be divisible by 16, as it mostly is."""
    types = argument_types(kernel, precision, constants, other)
    name = f"{kernel.__name__}-{label}-{precision}"
    return Variant(name, kernel, types, constants, num_warps, ("D",) if "D" in types else ())


def memory_variants() -> list[Variant]:
    """Those of the memories: each kernel for each kind, precision and some widths."""
    found = []
    of_a_kind = (
        (walk.walk_forward, False),
        (walk.step_rows, False),
        (walk.walk_backward, True),
    )
    of_any = (walk.begin_rows, walk.finish_rows,
              walk.begin_rows_backward, walk.finish_rows_backward)  # fmt: skip
    for precision in PRECISIONS:
        for width, (number, kind) in product(WIDTHS[precision], enumerate(KINDS)):
            for kernel, backward in of_a_kind:
                options = block_options(width, backward)
                warps = options.pop("num_warps")
                constants = {"KIND": number, **options}
                found.append(variant(kernel, precision, f"{kind}-{width}", constants, warps))
        if precision in ("float32", "float64"):  # these do not touch values
            found += [variant(kernel, precision, "any", {"CELLS": 64}, 1) for kernel in of_any]
            found += [
                variant(stream.rewind_rows, precision, kind, {"KIND": number}, 1)
                for number, kind in enumerate(KINDS)
            ]
    return found


LAYER_SIZES = dict.fromkeys("BHMSW", "i32")
DIVISIBLE = ("D", "H", "S", "W")


def layer_variants() -> list[Variant]:
    """Those of the recurrence: each kernel for each cell or kind of memory, in float32 and float64,
    and some widths."""
    found = []
    for precision in ("float32", "float64"):
        for width in (64, WIDEST_BLOCK):
            for number, cell in enumerate(CELLS):
                label, constants = f"{cell}-{width}", {"CELL": number}
                found += [
                    _layer_variant(kernel, precision, label, constants, width)
                    for kernel in (cell_forward, cell_backward)
                ]
        for width in WIDTHS[precision]:
            for number, kind in enumerate(KINDS):
                for flag, word in ((False, ""), (True, "noise-")):
                    constants = {"NOISE": flag, "KIND": number}
                    label = f"{kind}-{word}{width}"
                    found.append(_layer_variant(memory_forward, precision, label, constants, width))
                constants, label = {"KIND": number}, f"{kind}-{width}"
                found.append(_layer_variant(memory_backward, precision, label, constants, width))
    return found


def _layer_variant(
    kernel: Any, precision: str, label: str, constants: dict[str, int], width: int
) -> Variant:
    options = block_options(width, backward=kernel is memory_backward)
    warps = options.pop("num_warps")
    made = variant(kernel, precision, label, {**constants, **options}, warps, LAYER_SIZES)
    return made._replace(divisible_by_16=tuple(name for name in DIVISIBLE if name in made.types))


def variants() -> list[Variant]:
    """All of them."""
    return memory_variants() + layer_variants()
