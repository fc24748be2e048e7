"""What a step costs as the sequence grows, what a sequence takes in memory, and that stepping does
not grow the process.

    python benchmarks/memory_scaling.py      writes results/memory_scaling.json

One thread, B=1, D=64, float32, the CPU kernels. "shallow" pushes and pops 0.9, "deep" pushes 1 and
pops 0.5 (the memory grows by half a cell a step), "worst" pushes 0.001 and never pops (a window of
1,000 cells). Peak memory is measured in a process of its own.
"""

import subprocess
import sys
import time
from functools import partial
from itertools import product
from pathlib import Path

import psutil
import torch
from torch import Tensor

from machine import interleave, write_results
from pushpop import NeuralDeque, NeuralQueue, NeuralStack

B, D = 1, 64
LENGTHS = (1_000, 10_000, 100_000)
ROUNDS = {1_000: 60, 10_000: 12, 100_000: 6}
REGIMES = {"shallow": (0.9, 0.9), "deep": (1.0, 0.5), "worst": (0.001, 0.0)}
MEMORIES = {"stack": NeuralStack, "queue": NeuralQueue, "deque": NeuralDeque}
STEPS = 1_000_000


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--peak"]:
        kind, backend, T = sys.argv[2:]
        print(_peak_bytes(kind, backend, int(T)))
        return
    figures = {
        "setting": {"B": B, "D": D, "dtype": "float32", "threads": 1, "regimes": REGIMES},
        "microseconds_per_step": _cost_per_step(),
        "peak_bytes_per_step": _peaks(),
        "stepping": {kind: _stepping(kind) for kind in MEMORIES},
    }
    write_results("memory_scaling", figures)


def _inputs(kind: str, regime: str, T: int) -> list[Tensor]:
    push, pop = REGIMES[regime]
    ends = (2,) if kind == "deque" else ()
    gates = [torch.full((T, B, *ends), gate) for gate in (push, pop)]
    return [torch.randn(T, B, *ends, D), *gates]


def _train(kind: str, inputs: list[Tensor], grad: Tensor, backend: str = "auto") -> None:
    leaves = [x.requires_grad_() for x in inputs]
    reads, _ = MEMORIES[kind](D, backend)(*leaves)
    torch.autograd.grad(reads, leaves, grad)


def _cost_per_step() -> dict[str, dict[str, dict[str, float]]]:
    """Forward+backward microseconds a step; the lengths take turns."""
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for kind, regime in product(MEMORIES, REGIMES):
        lengths = LENGTHS[:2] if regime == "worst" else LENGTHS
        inputs = {T: _inputs(kind, regime, T) for T in lengths}
        seconds = interleave(
            {
                str(T): partial(_train, kind, inputs[T], torch.randn_like(inputs[T][0]))
                for T in lengths
            },
            {str(T): ROUNDS[T] for T in lengths},
        )
        costs = {T: round(1e6 * s / int(T), 3) for T, s in seconds.items()}
        last, first = costs[str(lengths[-1])], costs[str(lengths[0])]
        costs["longest_over_shortest"] = round(last / first, 2)
        figures.setdefault(kind, {})[regime] = costs
        print(f"{kind} {regime}: microseconds a step {costs}")
    return figures


def _peaks() -> dict[str, dict[str, dict[str, float]]]:
    """Bytes of peak memory a training step takes, shallow regime, beyond what the inputs take."""
    figures: dict[str, dict[str, dict[str, float]]] = {}
    lengths = {"fused": LENGTHS, "parallel": LENGTHS, "reference": (1_000, 2_000)}
    for kind, backend in product(MEMORIES, lengths):
        for T in lengths[backend]:
            command = [sys.executable, __file__, "--peak", kind, backend, str(T)]
            peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            figures.setdefault(kind, {}).setdefault(backend, {})[str(T)] = round(peak / T)
        print(f"{kind} {backend}: peak bytes a step {figures[kind][backend]}")
    return figures


def _peak_bytes(kind: str, backend: str, T: int) -> int:
    for length in (10, T):  # the first call loads the kernels
        inputs = _inputs(kind, "shallow", length)
        grad = torch.randn_like(inputs[0])
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far (Linux)
        before = psutil.Process().memory_info().rss
        _train(kind, inputs, grad, backend)
    status = Path("/proc/self/status").read_text()
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak) * 1024 - before


@torch.no_grad()
def _stepping(kind: str) -> dict[str, float]:
    """Microseconds a step and growth of the process over a million steps without gradients."""
    memory = MEMORIES[kind](D)
    value, push, pop = (x[0] for x in _inputs(kind, "shallow", 1))
    state, sizes = None, []
    start = time.perf_counter()
    for _ in range(10):
        for _ in range(STEPS // 10):
            _, state = memory.step(value, push, pop, state)
        sizes.append(psutil.Process().memory_info().rss)
    seconds = time.perf_counter() - start
    growth = sizes[-1] - sizes[0]
    print(f"{kind}: {STEPS} steps, {1e6 * seconds / STEPS:.1f} us each, grew by {growth} bytes")
    return {
        "steps": STEPS,
        "microseconds_per_step": round(1e6 * seconds / STEPS, 1),
        "growth_bytes_after_first_tenth": growth,
    }


if __name__ == "__main__":
    main()
