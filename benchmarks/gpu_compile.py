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
from pathlib import Path
from typing import Any

import triton
import triton.backends.nvidia

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.triton_variants import TARGETS, compile_variant, variants

from machine import write_results


def usage(compiled: Any, target: str) -> dict[str, int]:
    """Registers a thread, bytes of them spilled to memory, bytes of shared memory a block.

    AMD's scalar registers are shared by a warp; spilled ones among them are counted too.
    """
    shared = compiled.metadata.shared
    if target.startswith("sm"):
        return {**_ptxas(compiled.asm["ptx"]), "shared": shared}
    text = compiled.asm["amdgcn"]
    found = {key: int(number) for key, number in re.findall(r"\.(\w+_count):\s+(\d+)", text)}
    spilled = 4 * (found["vgpr_spill_count"] + found["sgpr_spill_count"])
    return {"registers": found["vgpr_count"], "spilled": spilled, "shared": shared}


def _ptxas(ptx: str) -> dict[str, int]:
    program = Path(triton.backends.nvidia.__file__).parent / "bin" / "ptxas"
    target = _number(r"\.target (\w+)", ptx)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [program, "-v", f"--gpu-name={target}", file.name, "-o", "/dev/null"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return {
        "registers": int(_number(r"Used (\d+) registers", said)),
        "spilled": int(_number(r"(\d+) bytes spill stores", said)),
    }


def _number(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"no {pattern!r} in {text!r}")
    return found.group(1)


def main() -> None:
    wanted = sys.argv[1:]
    kernels: dict[str, dict[str, dict[str, int]]] = {}
    for variant in variants():
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
