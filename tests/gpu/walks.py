"""The memories' operators with their GPU kernels emulated, against the paper's equations."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from pushpop.memory import MemoryState, ops, triton_walk, triton_walk_backward
from tests.gpu.launch import Report, emulated
from tests.memory.samples import Sample, look_at_everything, relative_error

BARRIER = "tl.debug_barrier()"
KERNELS = [(triton_walk, "walk_forward"), (triton_walk_backward, "walk_backward")]

walk = torch.library.custom_op(
    "pushpop_tests::walk", ops._walk_on_gpu, mutates_args=(), device_types="cpu"
)
walk_backward = torch.library.custom_op(
    "pushpop_tests::walk_backward", ops._walk_backward_on_gpu, mutates_args=(), device_types="cpu"
)
ops._complete(walk, walk_backward, "triton")


@contextmanager
def emulated_walks(**options: Any) -> Iterator[Report]:
    """Inside, the backend triton runs on the CPU, emulated; options are `EmulatedKernel`'s."""
    before = ops.walk_interpreted
    ops.walk_interpreted = walk
    try:
        with emulated(KERNELS, **options) as report:
            yield report
    finally:
        ops.walk_interpreted = before


def run(kind: str, backend: str, given: Sample) -> dict[str, Tensor]:
    """Everything that a call gives, by name: reads, and the gradient of each input."""
    values, push, pop = given.values, given.push, given.pop
    if kind != "deque":
        values, push, pop = values.unsqueeze(-2), push.unsqueeze(-1), pop.unsqueeze(-1)
    state = MemoryState(given.first_values, given.first_strengths)
    reads, after = ops.run(kind, values, push, pop, state, backend)
    loss = look_at_everything(reads, after)
    gradients = torch.autograd.grad(loss, given.leaves)
    named = {f"d {name}": g for name, g in zip(given.names, gradients, strict=True)}
    return {"reads": reads.detach(), "loss": loss.detach(), **named}


def errors(kind: str, given: Sample, **options: Any) -> tuple[dict[str, float], Report]:
    """How far the emulated kernels are from the equations, by name, and what they did."""
    wanted = run(kind, "reference", given)
    with emulated_walks(**options) as report:
        found = run(kind, "triton", given)
    return {name: relative_error(found[name], wanted[name]) for name in wanted}, report


def barriers(module: ModuleType) -> list[int]:
    """The lines of a module of kernels that are barriers, counted from 1."""
    lines = Path(str(module.__file__)).read_text("utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.strip() == BARRIER]


def without_barrier(module: ModuleType, which: int, folder: Path) -> ModuleType:
    """A copy of a module of kernels that lacks one of its barriers."""
    lines = Path(str(module.__file__)).read_text("utf-8").splitlines()
    place = barriers(module)[which] - 1
    lines[place] = lines[place].replace(BARRIER, "pass")
    path = folder / f"{module.__name__.rpartition('.')[2]}_{which}.py"
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy
