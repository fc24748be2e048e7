"""Whether MemoryRNN by Triton kernels gives what the equations give step by step. No GPU is needed.

    python benchmarks/gpu_recurrence.py        writes results/gpu_recurrence.json

The kernels run in Triton's interpreter, on CPU tensors, through the same calls as on a GPU. Output,
final state and the gradients of the input, of all parameters and of the initial state are compared
with backend "reference": the largest difference, in units of the largest number wanted (or of 1).
"""

import dataclasses
import os
import time
from itertools import product
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import torch
from torch import Tensor
from triton.runtime import interpreter

from machine import write_results
from pushpop import MemoryRNN, MemoryState, RNNState
from pushpop.layers import NoiseLevels

T, B, IN, H, D = 6, 3, 5, 6, 4
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
SETTINGS: dict[str, dict[str, Any]] = {
    "whole": {},
    "ragged": {"lengths": [4, 6, 1]},
    "state": {"state": True},
    "ragged, state, noise": {"lengths": [4, 6, 1], "state": True, "noise": True},
    "3 memories, ragged, state": {"lengths": [4, 6, 1], "state": True, "num_memories": 3},
}


def state_of(rnn: MemoryRNN) -> RNNState:
    """A state in mid-sequence, rows of different depths, of leaves that require gradients."""
    with torch.no_grad():
        _, state = rnn(torch.randn(4, B, IN, dtype=rnn.h0.dtype), lengths=[4, 1, 3])
    assert isinstance(state, RNNState)
    parts = [part.clone().requires_grad_() for part in state.parts]
    cells = (state.memory.values.clone(), state.memory.strengths.clone())  # type: ignore[attr-defined]
    return RNNState(
        (parts[0], parts[1]) if len(parts) == 2 else parts[0],
        state.read.clone().requires_grad_(),
        MemoryState(*(x.requires_grad_() for x in cells)),
    )


def everything(
    rnn: MemoryRNN, backend: str, x: Tensor, state: RNNState | None, **options: Any
) -> dict[str, Tensor]:
    """What a call gives, and the gradients of a loss of all of it."""
    rnn.backend = rnn.memory.backend = backend
    torch.manual_seed(1)  # of the noise
    output, after = rnn(x, state, **options)
    assert isinstance(after, RNNState)
    memory: Any = after.memory
    s, V = memory.strengths, memory.values
    cells = (s * (torch.sin(V.sum(-1)) + torch.sin(s.cumsum(-1)))).sum()
    weights = torch.sin(torch.arange(output.numel(), dtype=output.dtype)).view_as(output)
    parts = sum((part**2).sum() for part in after.parts)
    loss = (weights * output).sum() + parts + (after.read**3).sum() + cells
    leaves = {"x": x, **dict(rnn.named_parameters())}
    if state is not None:
        given: Any = state.memory
        leaves |= {"read": state.read, "values": given.values, "strengths": given.strengths}
        leaves |= {f"state {k}": part for k, part in enumerate(state.parts)}
    gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
    return {
        "output": output.detach(),
        "final state": loss.detach(),
        **{f"gradient of {name}": g for name, g in zip(leaves, gradients, strict=True)},
    }


def compare(
    memory: str, cell: str, dtype: torch.dtype, lengths: list[int] | None = None,
    state: bool = False, noise: bool = False, num_memories: int = 1,
) -> dict[str, float]:  # fmt: skip
    torch.manual_seed(0)
    rnn = MemoryRNN(IN, H, memory, D, cell, num_memories=num_memories, dtype=dtype)
    x = torch.randn(T, B, IN, dtype=dtype, requires_grad=True)
    given = state_of(rnn) if state else None
    levels = NoiseLevels(1.0, 0.0 if cell == "rnn" else 1.0) if noise else None
    found, wanted = (
        everything(rnn, backend, x, given, lengths=lengths, noise=levels)
        for backend in ("triton", "reference")
    )
    return {
        name: float(
            (found[name] - wanted[name]).abs().max() / wanted[name].abs().max().clamp(min=1)
        )
        for name in wanted
    }


def main() -> None:
    torch.set_num_threads(1)
    options = interpreter.interpreter_builder.options  # without checks for overflow it is faster
    interpreter.interpreter_builder.options = dataclasses.replace(options, sanitize_overflow=False)
    start, figures, wrong = time.perf_counter(), [], []
    memories, cells = ("stack", "queue", "deque"), ("lstm", "gru", "rnn")
    for cell, memory, dtype, setting in product(cells, memories, TOLERANCE, SETTINGS):
        differences = compare(memory, cell, dtype, **SETTINGS[setting])
        case = {"cell": cell, "memory": memory, "dtype": str(dtype)[6:], "setting": setting}
        worst = max(differences.values())
        figures.append({**case, "worst": worst, "differences": differences})
        print(*case.values(), f"{worst:.1e}", flush=True)
        if not worst < TOLERANCE[dtype]:
            wrong.append(case)
    setting = {
        "T": T, "B": B, "input": IN, "hidden": H, "width": D,
        "tolerance": {str(k)[6:]: v for k, v in TOLERANCE.items()},
    }  # fmt: skip
    write_results("gpu_recurrence", {"setting": setting, "cases": figures})
    print(f"{len(figures)} cases, {time.perf_counter() - start:.0f} s")
    if wrong:
        raise SystemExit(f"too far from the reference: {wrong}")


if __name__ == "__main__":
    main()
