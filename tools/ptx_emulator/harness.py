"""The backend triton on a machine without a GPU: its kernels are compiled and emulated."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from tools.ptx_emulator.launch import Report, emulated
from torch import Tensor

from pushpop.layers import MemoryRNN, NoiseLevels
from pushpop.layers.backends.triton import loop
from pushpop.memory import MEMORIES, MemoryState
from pushpop.memory.backends import BACKENDS
from pushpop.memory.backends.triton import stream, walk
from pushpop.verification.agreement import (
    Sizes,
    difference,
    look_at_cells,
    memory_inputs,
    run_layer,
    run_memory,
    set_backend,
)

BARRIER = "tl.debug_barrier()"
ROWS = ("begin_rows", "step_rows", "finish_rows")
ROWS_BACKWARD = ("begin_rows_backward", "finish_rows_backward")
KERNELS = [
    (walk, "walk_forward"),
    (walk, "walk_backward"),
    *((walk, name) for name in (*ROWS, *ROWS_BACKWARD)),
    *((stream, name) for name in (*ROWS, "rewind_rows")),
    *((loop, name) for name in ("begin_rows", "finish_rows", *ROWS_BACKWARD)),
    *((loop, name) for name in ("cell_forward", "cell_backward")),
    *((loop, name) for name in ("memory_forward", "memory_backward")),
]
"""Where launches find the kernels that they launch."""


@contextmanager
def emulated_gpu(**options: Any) -> Iterator[Report]:
    """Inside, the backend triton runs on the CPU, emulated; options are `EmulatedKernel`'s."""
    triton = BACKENDS["triton"]
    before = triton.interpreted
    triton.interpreted = True
    try:
        with emulated(KERNELS, **options) as report:
            yield report
    finally:
        triton.interpreted = before


def memory_errors(
    kind: str,
    form: str,
    case: str,
    sizes: Sizes,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> tuple[dict[str, float], Report]:
    """How far a memory is from the equations, by name, and what its kernels did.

    The form is "walk" (all steps by one kernel) or "steps" (a launch a step, without gradients).
    """
    given = memory_inputs(kind, case, sizes, dtype)
    wanted = run_memory(kind, "reference", [x.double() for x in given])
    with emulated_gpu(**options) as report:
        found = _run_steps(kind, given) if form == "steps" else run_memory(kind, "triton", given)
    return {name: difference(x, wanted[name]) for name, x in found.items()}, report


@torch.no_grad()
def _run_steps(kind: str, given: list[Tensor]) -> dict[str, Tensor]:
    """A step at a time, and a look at a state of the past on the way."""
    memory = MEMORIES[kind](given[0].shape[-1], "triton")
    state, states, reads = MemoryState(*given[2:]), [], []
    for values, gates in zip(*given[:2], strict=True):
        read, state = memory.run_step(values, gates, state)
        reads.append(read)
        states.append(state)
    middle = len(states) // 2
    past = look_at_cells(states[middle])
    again = memory.run(given[0][: middle + 1], given[1][: middle + 1], MemoryState(*given[2:]))[1]
    assert difference(past, look_at_cells(again)) < 1e-5
    return {"reads": torch.stack(reads), "cells": look_at_cells(state)}


def layer_errors(
    cell: str,
    kind: str,
    sizes: Sizes,
    hidden: int = 72,
    noise: float = 0.0,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> tuple[dict[str, float], Report]:
    """The same for a layer on rows of several lengths, with two memories a row; with noise of some
    standard deviation on the gates of the memories."""
    torch.manual_seed(3)
    rnn = MemoryRNN(5, hidden, kind, sizes.width, cell, num_memories=2).to(dtype)
    lengths = [sizes.steps - row for row in range(sizes.rows)]
    x = torch.randn(sizes.steps, sizes.rows, 5, dtype=dtype)
    set_backend(rnn.double(), "reference")
    levels = NoiseLevels(memory=noise) if noise else None
    torch.manual_seed(4)
    wanted = run_layer(rnn, x.double(), lengths, noise=levels)
    set_backend(rnn.to(dtype), "triton")
    torch.manual_seed(4)
    with emulated_gpu(**options) as report:
        found = run_layer(rnn, x, lengths, noise=levels)
    return {name: difference(x, wanted[name]) for name, x in found.items()}, report


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
