"""How much a step of MemoryRNN launches on a GPU, and how often the host waits. No GPU is needed.

    python benchmarks/gpu_launches.py        writes results/gpu_launches.json

The layer runs on meta tensors, which have shapes and no numbers. Every operator of torch that would
run something on the device counts as a launch, views and empty tensors do not; the operators with
Triton kernels are gone through as on a GPU, and every kernel is counted instead of launched. The
host would wait for each number it looks at, which a meta tensor does not have and refuses, and for
each copy between host and device unless told not to. Per step: the difference between two lengths.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import triton
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from triton.runtime.jit import KernelInterface

from machine import write_results
from pushpop import MemoryRNN, NeuralStack
from pushpop.layers import NoiseLevels
from pushpop.layers.backends import recurrence_triton
from pushpop.memory.backends import walk_triton

LENGTHS = (8, 16)
B, IN, H, D = 4, 16, 32, 32
NO_LAUNCH = ("aten::empty", "aten::new_empty", "aten::lift_fresh", "aten::detach", "aten::alias")
BODIES: dict[Any, Callable[..., Any]] = {
    torch.ops.pushpop.recurrence_triton.default: recurrence_triton.run_fields,
    torch.ops.pushpop.recurrence_triton_backward.default: recurrence_triton.backward.run_fields,
    torch.ops.pushpop.walk_triton.default: walk_triton.run_fields,
    torch.ops.pushpop.walk_triton_backward.default: walk_triton.backward.run_fields,
}
"""What the operators with kernels do on a GPU."""


class Launches(TorchDispatchMode):
    """Counts what would be launched, by name, and the host's waits."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in BODIES:
            with self:
                return BODIES[func](*args, **kwargs)
        name = func._schema.name
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        if name == "aten::_local_scalar_dense" and tensors[0].is_meta:
            self.waits[name] += 1
        found = func(*args, **kwargs)
        made = [each for each in tree_leaves(found) if isinstance(each, Tensor)]
        devices = {each.device.type for each in (*tensors, *made)}
        if "meta" not in devices or func.is_view or name.startswith(NO_LAUNCH):
            return found
        copies = name in ("aten::_to_copy", "aten::copy_") and len(devices) > 1
        if copies and not (kwargs.get("non_blocking") or args[2:3] == (True,)):
            self.waits[name] += 1
        self.names[name] += 1
        return found

    @property
    def count(self) -> int:
        return sum(self.names.values())


@contextmanager
def counting() -> Iterator[Launches]:
    """Count all that is launched inside."""
    launches = Launches()

    def take(kernel: Any, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: launches.names.update([kernel.__name__])

    with mock.patch.object(KernelInterface, "__getitem__", take), launches:
        yield launches


def whole(rnn: MemoryRNN, T: int, **options: Any) -> dict[str, Launches]:
    """A whole sequence of T steps and its backward pass."""
    x = torch.empty(T, B, IN, device="meta", requires_grad=True)
    lengths = options.pop("lengths", None)
    with counting() as forward:
        output, _ = rnn(x, lengths=None if lengths is None else lengths(T), **options)
    with counting() as backward:
        output.backward(torch.empty_like(output))
    return {"forward": forward, "backward": backward}


@torch.no_grad()
def steps(rnn: MemoryRNN, T: int) -> dict[str, Launches]:
    """T steps of decoding."""
    state = rnn.initial_state(B)
    with counting() as launches:
        for _ in range(T):
            _, state = rnn.step(torch.empty(B, IN, device="meta"), state)
    return {"step": launches}


def per_step(run: Callable[[int], dict[str, Launches]]) -> dict[str, Any]:
    """What each further step launches, by direction; what the longer call launches; the waits."""
    short, long = (run(T) for T in LENGTHS)
    figures = {}
    for way, launches in long.items():
        a_step = (launches.count - short[way].count) / (LENGTHS[1] - LENGTHS[0])
        figures[way] = {
            "launches_a_step": a_step,
            "launches": launches.count,
            "waits": sum(launches.waits.values()),
        }
    return figures


def layer(memory: Any = "stack", cell: Any = "lstm", **options: Any) -> MemoryRNN:
    return MemoryRNN(IN, H, memory, D, cell, device="meta", **{"backend": "triton", **options})


def torch_cell() -> nn.Module:
    return nn.LSTMCell(IN + D, H, device="meta")


def ragged(T: int) -> list[int]:
    """Rows that end early: the same number of steps at any T."""
    return [T, T, T - 1, T - 3]


def figures() -> dict[str, Any]:
    """All figures by name."""
    kernels = {
        f"{cell}, {memory}": per_step(lambda T, c=cell, m=memory: whole(layer(m, c), T))
        for cell in ("lstm", "gru", "rnn")
        for memory in ("stack", "queue", "deque")
    }
    noise = NoiseLevels(memory=1.0, controller=1.0)
    kernels["lstm, deque, ragged lengths"] = per_step(
        lambda T: whole(layer("deque"), T, lengths=ragged)
    )
    kernels["gru, queue, noise"] = per_step(lambda T: whole(layer("queue", "gru"), T, noise=noise))
    kernels["lstm, 3 stacks"] = per_step(lambda T: whole(layer(num_memories=3), T))
    kernels["lstm, stack, 2 layers, both ways (4 recurrences)"] = per_step(
        lambda T: whole(layer(num_layers=2, bidirectional=True), T)
    )
    other = {
        f"lstm, stack, {backend}": per_step(
            lambda T, backend=backend: whole(layer(backend=backend), T, lengths=ragged)
        )
        for backend in ("parallel", "reference")
    }
    other["a cell of torch, a stack by triton"] = per_step(
        lambda T: whole(layer(NeuralStack(D, "triton"), torch_cell(), backend="auto"), T)
    )
    for memory in ("superposition", "tape"):
        other[memory] = per_step(
            lambda T, m=memory: whole(layer(m, backend="auto"), T, lengths=ragged)
        )
    decoding = {m: per_step(lambda T, m=m: steps(layer(m), T)) for m in ("stack", "queue", "deque")}
    return {"kernels": kernels, "step_by_step": other, "decoding": decoding}


def main() -> None:
    found = figures()
    for part, rows in found.items():
        for name, ways in rows.items():
            for way, numbers in ways.items():
                print(f"{part:13} {name:50} {way:9}", *(f"{k} {v:g}" for k, v in numbers.items()))
    write_results(
        "gpu_launches", {"triton": triton.__version__, "lengths": LENGTHS, "batch": B, **found}
    )


if __name__ == "__main__":
    main()
