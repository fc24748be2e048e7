"""Every form in which the recurrence's kernels are compiled, as in `memory/triton_variants.py`."""

from typing import Any

from pushpop.layers.recurrence_gpu import CELLS, WIDEST_BLOCK
from pushpop.layers.triton_cells import cell_backward, cell_forward
from pushpop.layers.triton_controls import memory_backward, memory_forward
from pushpop.memory.triton_launch import block_options
from pushpop.memory.triton_variants import KINDS, WIDTHS, Variant, variant

SIZES = dict.fromkeys("BHMSW", "i32")
DIVISIBLE = ("D", "H", "S", "W")


def variants() -> list[Variant]:
    """Each kernel for each cell or kind of memory, in float32 and float64, and some widths."""
    found = []
    for precision in ("float32", "float64"):
        for width in (64, WIDEST_BLOCK):
            for number, cell in enumerate(CELLS):
                label, constants = f"{cell}-{width}", {"CELL": number}
                found += [
                    _variant(kernel, precision, label, constants, width)
                    for kernel in (cell_forward, cell_backward)
                ]
        for width in WIDTHS[precision]:
            for number, kind in enumerate(KINDS):
                for flag, word in ((False, ""), (True, "noise-")):
                    constants = {"NOISE": flag, "KIND": number}
                    label = f"{kind}-{word}{width}"
                    found.append(_variant(memory_forward, precision, label, constants, width))
                constants, label = {"KIND": number}, f"{kind}-{width}"
                found.append(_variant(memory_backward, precision, label, constants, width))
    return found


def _variant(
    kernel: Any, precision: str, label: str, constants: dict[str, int], width: int
) -> Variant:
    options = block_options(width, backward=kernel is memory_backward)
    warps = options.pop("num_warps")
    made = variant(kernel, precision, label, {**constants, **options}, warps, SIZES)
    return made._replace(divisible_by_16=tuple(name for name in DIVISIBLE if name in made.types))
