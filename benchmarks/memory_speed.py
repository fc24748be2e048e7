"""How fast the memories are: the kernels and the parallel form against the paper's equations.

    python benchmarks/memory_speed.py        writes results/memory_speed.json

One thread, T=130, B=10, D=256, float32, random controls, seed 0. The three implementations take
turns in one run. Nothing is reported unless they agree on these very inputs.
"""

import subprocess
import sys
import time
from functools import partial

import torch
from torch import Tensor

from machine import interleave, write_results
from pushpop import NeuralDeque, NeuralQueue, NeuralStack

T, B, D = 130, 10, 256
BACKENDS = ("fused", "parallel", "reference")
ROUNDS = {"fused": 120, "parallel": 24, "reference": 12}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    figures = {}
    for memory in (NeuralStack, NeuralQueue, NeuralDeque):
        ends = (2,) if memory is NeuralDeque else ()
        inputs = [torch.randn(T, B, *ends, D), torch.rand(T, B, *ends), torch.rand(T, B, *ends)]
        grad = torch.randn(T, B, *ends, D)
        modules = {name: memory(D, backend=name) for name in BACKENDS}
        _check_agreement(modules, inputs, grad)
        forward = interleave(
            {name: partial(_forward, module, inputs) for name, module in modules.items()}, ROUNDS
        )
        both = interleave(
            {name: partial(_gradients, module, inputs, grad) for name, module in modules.items()},
            ROUNDS,
        )
        figures[memory.kind] = {
            "forward_ms": {name: round(1e3 * s, 3) for name, s in forward.items()},
            "forward_backward_ms": {name: round(1e3 * s, 3) for name, s in both.items()},
            "times_faster_than_reference": {
                "forward": _ratios(forward),
                "forward_backward": _ratios(both),
            },
        }
        ratios = figures[memory.kind]["times_faster_than_reference"]["forward_backward"]
        print(f"{memory.kind}: forward+backward, times faster than the reference: {ratios}")
    imports = _import_seconds()
    print(f"import: {imports}")
    setting = {"T": T, "B": B, "D": D, "dtype": "float32", "threads": 1, "seed": 0}
    write_results("memory_speed", {"setting": setting, "memories": figures, "import": imports})


def _forward(module: torch.nn.Module, inputs: list[Tensor]) -> Tensor:
    with torch.no_grad():
        return module(*inputs)[0]


def _gradients(module: torch.nn.Module, inputs: list[Tensor], grad: Tensor) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    reads, _ = module(*leaves)
    return [reads.detach(), *torch.autograd.grad(reads, leaves, grad)]


def _check_agreement(
    modules: dict[str, torch.nn.Module], inputs: list[Tensor], grad: Tensor
) -> None:
    wanted = _gradients(modules["reference"], inputs, grad)
    for name, module in modules.items():
        for found, want in zip(_gradients(module, inputs, grad), wanted, strict=True):
            error = float((found - want).abs().max() / want.abs().max())
            if error > 1e-4:
                raise SystemExit(f"{name} differs from the reference by {error}; nothing measured")


def _import_seconds() -> dict[str, float]:
    """Seconds a new process takes to import torch, and to import pushpop on top; best of nine."""
    code = {"torch": "import torch", "both": "import torch, pushpop"}
    best = dict.fromkeys(code, float("inf"))
    for _ in range(9):
        for name, line in code.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", line], check=True)
            best[name] = min(best[name], time.perf_counter() - start)
    return {
        "torch_seconds": round(best["torch"], 3),
        "pushpop_adds_seconds": round(best["both"] - best["torch"], 3),
    }


def _ratios(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(seconds["reference"] / seconds[name], 1) for name in ("fused", "parallel")}


if __name__ == "__main__":
    main()
