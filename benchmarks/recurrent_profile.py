"""Where the time of a MemoryRNN's forward and backward pass goes, part by part.

    python benchmarks/recurrent_profile.py        writes results/recurrent_profile.json

The stack with an LSTM and with a GRU, as in peer_speed.py (100 steps, input 64, 256 units, stack 64
wide, batches of 16 and 64) and as in recurrent_speed.py (130 steps, stack 256 wide, batch 10). One
thread, float32, milliseconds of this thread's processor time: of ten passes, the one that took
least. The parts of the loops are timed where they are called, which costs some 0.2 us a call. "rest
of the loops" is what is in no part: copies, buffers and Python; "outside the loops" is autograd,
the output layer and the allocation of results.
"""

import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from machine import write_results
from peer_speed import train
from pushpop import MemoryRNN
from pushpop.layers.backends.fused import loop
from pushpop.layers.backends.products import Product

PASSES = 10
CASES = {
    f"{cell}, batch {batch}, stack {width} wide": (cell, steps, batch, width)
    for steps, batch, width in ((130, 10, 256), (100, 16, 64), (100, 64, 64))
    for cell in ("lstm", "gru")
}
LOOPS = "loops"
PARTS: dict[tuple[Any, str], str] = {
    (Product, "__init__"): "packing weights",
    (Product, "write"): "products of the steps",
    (Product, "add"): "products of the steps",
    (loop, "product"): "products over all steps",
    (loop, "weight_gradients"): "products over all steps",
    (loop, "gates_forward"): "gates and values",
    (loop, "gates_backward"): "gates and values",
    (loop.walk, "step"): "memory",
    (loop.walk, "step_backward"): "memory",
    (loop, "_run_forward"): LOOPS,
    (loop, "_run_backward"): LOOPS,
}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    spent: Counter[str] = Counter()
    for (where, name), part in PARTS.items():
        setattr(where, name, timed(getattr(where, name), part, spent))
    for kernels in (loop.FORWARD, loop.BACKWARD):
        for cell, kernel in kernels.items():
            kernels[cell] = timed(kernel, "cell", spent)
    figures = {}
    for name, (cell, steps, batch, width) in CASES.items():
        layer = MemoryRNN(64, 256, "stack", width, cell, 64)
        figures[name] = measure(layer, torch.randn(steps, batch, 64), spent)
        print(name, figures[name], flush=True)
    write_results("recurrent_profile", {"milliseconds": figures})


def timed(call: Callable[..., Any], part: str, spent: Counter[str]) -> Callable[..., Any]:
    @wraps(call)
    def run(*arguments: Any, **named: Any) -> Any:
        began = time.thread_time()
        result = call(*arguments, **named)
        spent[part] += time.thread_time() - began
        return result

    return run


def measure(layer: MemoryRNN, x: torch.Tensor, spent: Counter[str]) -> dict[str, float]:
    train(layer, x)
    passes = []
    for _ in range(PASSES):
        spent.clear()
        began = time.thread_time()
        train(layer, x)
        total = time.thread_time() - began
        parts = dict(spent)
        loops = parts.pop(LOOPS)
        parts["rest of the loops"] = loops - sum(parts.values())
        passes.append({"all": total, **parts, "outside the loops": total - loops})
    return {name: round(1e3 * s, 1) for name, s in min(passes, key=lambda p: p["all"]).items()}


if __name__ == "__main__":
    main()
