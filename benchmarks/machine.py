"""What every benchmark shares: a word on the machine, interleaved timing, the result file."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results"


def describe_machine() -> dict[str, Any]:
    """The processor and the versions that a figure depends on."""
    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    packages = {name: version(name) for name in ("torch", "numba", "numpy")}
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        **packages,
    }


def interleave(
    calls: dict[str, Callable[[], Any]], rounds: dict[str, int], warmup: int = 1
) -> dict[str, float]:
    """The median seconds of each call. The calls take turns, so that a slow moment of the machine
    falls on all of them; a call with more rounds than another is made several times a turn.
    """
    for call in calls.values():
        for _ in range(warmup):
            call()
    turns = min(rounds.values())
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            for _ in range(rounds[name] // turns):
                start = time.perf_counter()
                call()
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def write_results(name: str, figures: dict[str, Any]) -> None:
    """Write results/NAME.json, whole or not at all."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"machine": describe_machine(), **figures}, indent=1) + "\n")
    partial.replace(path)
    print(f"wrote results/{path.name}")
