"""Whether every Triton kernel compiles for GPUs, and what it needs there. No GPU is needed.

    python benchmarks/gpu_compile.py [NAME ...]        writes results/gpu_compile.json

Each form of each kernel is compiled ahead of time for sm_80 (A100), sm_90 (H100) and gfx942
(MI300): registers and spilled registers a thread, shared memory a block. With parts of names given,
only such kernels are compiled and nothing is written.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import triton
import triton.backends.nvidia
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from machine import write_results
from pushpop.memory import triton_variants
from pushpop.memory.triton_variants import Variant

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}


def all_variants() -> Iterator[Variant]:
    """The forms of all kernels; a new module of kernels adds a line here."""
    yield from triton_variants.variants()


def compile_variant(variant: Variant, target: str) -> Any:
    """The compiled kernel, with its text at every stage in `.asm`."""
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


def usage(compiled: Any, target: str) -> dict[str, int]:
    """Registers a thread, spilled ones among them in bytes, shared memory a block in bytes."""
    shared = compiled.metadata.shared
    if target.startswith("sm"):
        registers, stack, local = _resources(compiled.asm["cubin"])
        return {"registers": registers, "spilled": stack + local, "shared": shared}
    text = compiled.asm["amdgcn"]
    found = {key: int(number) for key, number in re.findall(r"\.(\w+_count):\s+(\d+)", text)}
    spilled = 4 * (found["vgpr_spill_count"] + found["sgpr_spill_count"])
    return {"registers": found["vgpr_count"], "spilled": spilled, "shared": shared}


@cache
def _cuobjdump() -> str:
    return str(Path(triton.backends.nvidia.__file__).parent / "bin" / "cuobjdump")


def _resources(cubin: bytes) -> tuple[int, int, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [_cuobjdump(), "--dump-resource-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", text)
    if found is None:
        raise ValueError(f"cuobjdump says nothing about resources: {text!r}")
    registers, stack, local = map(int, found.groups())
    return registers, stack, local


def main() -> None:
    wanted = sys.argv[1:]
    kernels: dict[str, dict[str, dict[str, int]]] = {}
    for variant in all_variants():
        if wanted and not any(part in variant.name for part in wanted):
            continue
        kernels[variant.name] = {
            target: usage(compile_variant(variant, target), target) for target in TARGETS
        }
        print(variant.name, variant.num_warps, kernels[variant.name], flush=True)
    spilling = sorted(
        name
        for name, targets in kernels.items()
        if any(figures["spilled"] for figures in targets.values())
    )
    print(f"{len(kernels)} kernels for {', '.join(TARGETS)}; spilling: {spilling or 'none'}")
    if not wanted:
        setting = {"triton": triton.__version__, "targets": list(TARGETS)}
        write_results("gpu_compile", {"setting": setting, "spilling": spilling, "kernels": kernels})


if __name__ == "__main__":
    main()
