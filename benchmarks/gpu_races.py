"""Whether the compiled GPU kernels are right and free of races. No GPU is needed.

    python benchmarks/gpu_races.py        writes results/gpu_races.json, about ten minutes

Every kernel is compiled to PTX for sm_80 (A100) and sm_90 (H100), with the warps that a launch asks
for, with one and with four, and emulated with its warps interleaved at random: tests/gpu says how,
and what a race is. The results are compared with the paper's equations in float64. Then every
barrier is taken out, one at a time: a check that finds nothing then would find nothing ever.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.gpu import harness
from tests.gpu.launch import Report

from machine import write_results
from pushpop.layers import triton_controls
from pushpop.memory import triton_linked, triton_stream, triton_walk, triton_walk_backward
from pushpop.verification.agreement import LIMITS, Sizes

KINDS = ("stack", "queue", "deque")
WIDTHS = {None: 100, 1: 40, 4: 128}
"""By the warps asked for: blocks that are not full, or that are."""
ARCHITECTURES = (80, 90)
Run = Callable[..., tuple[dict[str, float], Report]]


def memory_runs(warps: int | None) -> Iterator[tuple[str, Run]]:
    """Every form of every memory, by name."""
    sizes = Sizes(9, 2, WIDTHS[warps], 3)
    for kind in KINDS:
        for form in ("walk", "steps") if kind == "deque" else ("walk", "steps", "auto"):
            for case in ("random", "ties"):
                run = partial(harness.memory_errors, kind, form, case, sizes, num_warps=warps)
                yield f"{kind} {'split' if form == 'auto' else form} {case}", run


def layer_runs(warps: int | None) -> Iterator[tuple[str, Run]]:
    """Every controller with every memory, by name."""
    sizes = Sizes(5, 3, WIDTHS[warps])
    for cell in ("lstm", "gru", "rnn"):
        for kind in KINDS:
            hidden = WIDTHS[warps] + 8
            run = partial(harness.layer_errors, cell, kind, sizes, hidden, num_warps=warps)
            yield f"MemoryRNN {cell} {kind}", run


def all_runs() -> Iterator[tuple[dict[str, Any], Run]]:
    """What is run, described, and how."""
    for warps in WIDTHS:
        for arch in ARCHITECTURES:
            for name, run in (*memory_runs(warps), *layer_runs(warps)):
                if arch == ARCHITECTURES[0] and warps is None:
                    continue  # the same as with one warp
                for dtype in (torch.float32, torch.float64, torch.bfloat16):
                    is_layer = name.startswith("MemoryRNN")
                    if dtype != torch.float32 and (arch, warps) != (90, 4):
                        continue
                    if dtype == torch.bfloat16 and is_layer:
                        continue
                    described = {"what": name, "warps": warps or "as launched", "arch": arch}
                    yield (
                        {**described, "dtype": str(dtype).removeprefix("torch.")},
                        partial(run, arch=arch, dtype=dtype, seed=len(name)),
                    )


def main() -> None:
    rows, worst = [], Counter[str]()
    kernels: dict[str, Counter[str]] = {}
    wrong = 0
    for described, run in all_runs():
        errors, report = run()
        races, error = sum(report.races.values()), max(errors.values())
        limit = LIMITS[getattr(torch, described["dtype"])]
        worst[described["dtype"]] = max(worst[described["dtype"]], error)
        rows.append({**described, "races": races, "largest_error": error})
        for name, counts in report.by_kernel().items():
            kernels.setdefault(name, Counter()).update(counts)
        if races or error > limit:
            wrong += 1
            print("WRONG", rows[-1], dict(report.races.most_common(3)))
        else:
            print(rows[-1], flush=True)
    print(f"{len(rows)} runs, {wrong} wrong; largest errors {dict(worst)}")
    found = list(barrier_rows())
    idle = [f"{row['module']}:{row['line']}" for row in found if row["found"] == "nothing"]
    print(f"{len(found)} barriers; nothing found without: {idle or 'none of them'}")
    write_results(
        "gpu_races",
        {
            "runs": len(rows),
            "wrong": wrong,
            "largest_errors": worst,
            "kernels": dict(sorted(kernels.items())),
            "barriers": found,
            "rows": rows,
        },
    )
    if wrong:
        raise SystemExit(1)


def barrier_rows() -> Iterator[dict[str, Any]]:
    """For every barrier, what is found when it is missing, with four warps."""
    sizes = Sizes(9, 2, 128, 3)
    walks = [partial(harness.memory_errors, kind, "walk", "ties", sizes) for kind in KINDS]
    split = [partial(harness.memory_errors, kind, "auto", "ties", sizes) for kind in KINDS[:2]]
    steps = [partial(harness.memory_errors, kind, "steps", "ties", sizes) for kind in KINDS]
    layers = [partial(harness.layer_errors, "lstm", kind, Sizes(5, 3, 128)) for kind in KINDS]
    for module, runs in (
        (triton_walk, walks),
        (triton_walk_backward, walks),
        (triton_linked, split),
        (triton_stream, steps),
        (triton_controls, layers),
    ):
        for number, line in enumerate(harness.barriers(module)):
            row = {"module": module.__name__.rpartition(".")[2], "line": line}
            row |= missing_barrier(module, number, runs)
            print(row, flush=True)
            yield row


def missing_barrier(module: ModuleType, number: int, runs: list[Run]) -> dict[str, Any]:
    """Races, or that the emulated kernel failed, or nothing; and the largest error of a read."""
    races, failures, off = 0, 0, 0.0
    names = [name for each, name in harness.KERNELS if each is module]
    before = {name: getattr(module, name) for name in names}
    with TemporaryDirectory() as folder:
        copy = harness.without_barrier(module, number, Path(folder))
        try:
            for name in names:
                setattr(module, name, getattr(copy, name))
            for run in runs:
                try:
                    errors, report = run(num_warps=4)
                except (RuntimeError, IndexError, ValueError):  # what a race made it do
                    failures += 1
                else:
                    races += sum(report.races.values())
                    off = max(off, errors.get("reads", errors.get("output", 0.0)))
        finally:
            for name, kernel in before.items():
                setattr(module, name, kernel)
    found = "races" if races else "failures" if failures else "nothing"
    return {"found": found, "races": races, "failures": failures, "largest_read_error": off}


if __name__ == "__main__":
    main()
