"""Whether the compiled GPU kernels are right and free of races. No GPU is needed.

    python benchmarks/gpu_races.py        writes results/gpu_races.json, about ten minutes

Every kernel is compiled to PTX for sm_80 (A100) and sm_90 (H100), with one warp, with four and with
what a launch asks for, and emulated with its warps interleaved at random: tools/ptx_emulator says
how, and what a race is. The results are compared with the paper's equations in float64. Then every
barrier is taken out, one at a time: a check that finds nothing then would find nothing ever.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.ptx_emulator import harness
from tools.ptx_emulator.launch import Report

from machine import write_results
from pushpop.layers.backends.triton import kernels
from pushpop.memory.backends.triton import stream, walk
from pushpop.verification.agreement import LIMITS, Sizes

KINDS = ("stack", "queue", "deque")
FORMS = ("walk", "steps")
CELLS = ("lstm", "gru", "rnn")
WIDTHS = {1: 40, 4: 128}
"""By the number of warps: a block that is not full, and one that is."""
WIDE = 600
"""So wide that a launch asks for two warps by itself."""
Run = Callable[..., tuple[dict[str, float], Report]]


def memory_run(kind: str, form: str, case: str, sizes: Sizes) -> Run:
    """A memory in one of its forms."""
    return partial(harness.memory_errors, kind, form, case, sizes)


def all_runs() -> Iterator[tuple[dict[str, Any], Run]]:
    """What is run, described, and how; ties on one architecture, random strengths on the other."""
    for warps, width in WIDTHS.items():
        for arch, case in ((80, "ties"), (90, "random")):
            for form, kind in product(FORMS, KINDS):
                run = memory_run(kind, form, case, Sizes(8, 2, width, 3))
                yield _described(f"{kind} {form} {case}", run, arch, warps)
        for cell in CELLS:
            for kind in KINDS:
                sizes, arch = Sizes(5, 3, width), {1: 80, 4: 90}[warps]
                run = partial(harness.layer_errors, cell, kind, sizes, width + 8)
                yield _described(f"MemoryRNN {cell} {kind}", run, arch, warps)
    for form, kind in product(FORMS, KINDS):
        run = memory_run(kind, form, "ties", Sizes(5, 2, WIDE, 3))
        yield _described(f"{kind} {form} ties", run, 90, None)
        for dtype in (torch.float64, torch.bfloat16):
            run = memory_run(kind, form, "ties", Sizes(6, 2, 128, 3))
            yield _described(f"{kind} {form} ties", run, 90, 4, dtype)
    for cell, kind in zip(CELLS, KINDS, strict=True):
        run = partial(harness.layer_errors, cell, kind, Sizes(4, 2, 128), 136)
        yield _described(f"MemoryRNN {cell} {kind}", run, 90, 4, torch.float64)
        noisy = partial(run, noise=1.0)
        yield _described(f"MemoryRNN {cell} {kind}, noise", noisy, 80, 4)


def _described(
    what: str, run: Run, arch: int, warps: int | None, dtype: torch.dtype = torch.float32
) -> tuple[dict[str, Any], Run]:
    name = str(dtype).removeprefix("torch.")
    described = {"what": what, "warps": warps or "as launched", "arch": arch, "dtype": name}
    return described, partial(run, num_warps=warps, arch=arch, dtype=dtype, seed=len(what))


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
    sizes = Sizes(8, 2, 128, 3)
    walks, steps = ([memory_run(kind, form, "ties", sizes) for kind in KINDS] for form in FORMS)
    layers = [
        partial(harness.layer_errors, "lstm", kind, Sizes(4, 2, 128), 136, noise=1.0)
        for kind in KINDS
    ]
    for module, runs in ((walk, walks), (stream, steps), (kernels, layers)):
        for number, line in enumerate(harness.barriers(module)):
            row = {"module": module.__name__.rpartition(".")[2], "line": line}
            row |= missing_barrier(module, number, runs)
            print(row, flush=True)
            yield row


def missing_barrier(module: ModuleType, number: int, runs: list[Run]) -> dict[str, Any]:
    """Races, or that the emulated kernel failed, or nothing; memories until one shows a race."""
    races, failures, off = 0, 0, 0.0
    names = [name for each, name in harness.KERNELS if each is module]
    before = {name: getattr(module, name) for name in names}
    with TemporaryDirectory() as folder:
        copy = harness.without_barrier(module, number, Path(folder))
        try:
            for name in names:
                setattr(module, name, getattr(copy, name))
            for run in runs:
                if races:
                    break
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
