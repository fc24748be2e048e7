"""Whether the memories' Triton kernels give what the paper's equations give. No GPU is needed.

    python benchmarks/gpu_equality.py        writes results/gpu_equality.json

The kernels run in Triton's interpreter, on CPU tensors, through the same calls as on a GPU. Reads,
a loss of the final state and the gradients of all inputs are compared with backend "reference": the
largest difference, in units of the largest number wanted (or of 1).
"""

import dataclasses
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import product

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import torch
from torch import Tensor
from triton.runtime import interpreter

from machine import write_results
from pushpop.memory import MemoryState
from pushpop.memory.backends import BACKENDS
from pushpop.memory.kinds import KINDS

CONTROLS = ("random", "dyadic", "saturated", "weak")
SIZES = ({"T": 2, "B": 2, "D": 1, "N": 0}, {"T": 7, "B": 3, "D": 5, "N": 4},
         {"T": 19, "B": 2, "D": 3, "N": 2})  # fmt: skip
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
Inputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def inputs(
    kind: str, how: str, dtype: torch.dtype, seed: int, T: int, B: int, D: int, N: int
) -> Inputs:
    """Values, push, pop, and initial values and strengths; row b has b initial cells less."""
    random = torch.Generator().manual_seed(seed)
    E = 2 if kind == "deque" else 1

    def gates(*shape: int) -> Tensor:
        x = torch.rand(shape, generator=random, dtype=torch.float64)
        return {"dyadic": (4 * x).round() / 4, "saturated": x.round(), "weak": x / 8}.get(how, x)

    def vectors(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64)

    strengths = gates(B, N)
    for row in range(B):
        strengths[row, max(0, N - row) :] = 0
    tensors = (vectors(T, B, E, D), gates(T, B, E), gates(T, B, E), vectors(B, N, D), strengths)
    values, push, pop, V, s = (x.to(dtype).requires_grad_() for x in tensors)
    return values, push, pop, V, s


def public(kind: str, backend: str, given: Inputs) -> tuple[Tensor, MemoryState]:
    """The call behind NeuralStack, NeuralQueue and NeuralDeque."""
    return BACKENDS[backend].run(kind, *given[:3], MemoryState(*given[3:]))


def everything(
    run: Callable[[Inputs], tuple[Tensor, MemoryState]], given: Inputs
) -> dict[str, Tensor]:
    """What a call gives, and the gradients of a loss of all of it."""
    reads, state = run(given)
    along = torch.cos(torch.arange(state.width, dtype=reads.dtype))
    s, V = state.strengths, state.values
    final = (s * (torch.sin(V @ along) + torch.sin(s.cumsum(-1)))).sum()
    weights = torch.sin(torch.arange(reads.numel(), dtype=reads.dtype)).view_as(reads)
    gradients = torch.autograd.grad((weights * reads).sum() + final, given)
    names = ("values", "push", "pop", "initial values", "initial strengths")
    named = {f"gradient of {name}": g for name, g in zip(names, gradients, strict=True)}
    return {"reads": reads.detach(), "final state": final.detach(), **named}


def difference(found: Tensor, wanted: Tensor) -> float:
    if not wanted.numel():
        return 0.0
    return float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1))


def compare(kind: str, given: Inputs) -> dict[str, float]:
    found, wanted = (
        everything(partial(public, kind, backend), given) for backend in ("triton", "reference")
    )
    return {name: difference(found[name], wanted[name]) for name in wanted}


def main() -> None:
    torch.set_num_threads(1)
    options = interpreter.interpreter_builder.options  # without checks for overflow it is faster
    interpreter.interpreter_builder.options = dataclasses.replace(options, sanitize_overflow=False)
    start, figures, wrong = time.perf_counter(), [], []
    for kind, dtype, how in product(KINDS, TOLERANCE, CONTROLS):
        worst: dict[str, float] = {}
        for seed, sizes in enumerate(SIZES):
            for name, error in compare(kind, inputs(kind, how, dtype, seed, **sizes)).items():
                worst[name] = max(worst.get(name, 0.0), error)
        case = {"memory": kind, "dtype": str(dtype)[6:], "controls": how}
        figures.append({**case, "worst": max(worst.values()), "differences": worst})
        print(*case.values(), f"{max(worst.values()):.1e}", flush=True)
        if not max(worst.values()) < TOLERANCE[dtype]:
            wrong.append(case)
    setting = {"sizes": SIZES, "tolerance": {str(k)[6:]: v for k, v in TOLERANCE.items()}}
    write_results("gpu_equality", {"setting": setting, "cases": figures})
    print(f"{len(figures)} cases of {len(SIZES)} sizes, {time.perf_counter() - start:.0f} s")
    if wrong:
        raise SystemExit(f"too far from the reference: {wrong}")


if __name__ == "__main__":
    main()
