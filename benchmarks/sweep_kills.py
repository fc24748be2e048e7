"""Kill a sweep with successive halving at random moments; it must promote the same runs.

    python benchmarks/sweep_kills.py        writes results/sweep_kills.json

The same sweep runs once undisturbed. Every log, model and report must be equal to the byte, but
for the seconds. The short version is in tests/experiments/test_local_workers.py.
"""

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from machine import write_results

KILLS, SEED = 10, 0
LONGEST_LIFE = 25.0
"""Seconds after which a sweep is killed at the latest."""
PRESET: dict[str, Any] = {
    "base": {
        "embedding": 8,
        "hidden": 16,
        "memory_width": 8,
        "train_lengths": "2-16",
        "test_lengths": "17-20",
        "evaluate_sequences": 20,
        "evaluate_every": 1000,
        "checkpoint_every": 50,
    },
    "grid": {
        "task": ["copy", "reverse"],
        "model": ["deque"],
        "learning_rate": [0.003, 0.001],
        "seed": [0, 1, 2],
    },
    "halving": {"rungs": [200, 600, 1800], "keep": 0.34},
}


def main() -> None:
    draw = Random(SEED)
    with TemporaryDirectory() as name:
        folder = Path(name)
        preset = folder / "kills.yaml"
        preset.write_text(yaml.safe_dump(PRESET))
        straight, killed = folder / "straight", folder / "killed"
        start(preset, straight).wait()
        lives, kills = [], 0
        while kills < KILLS:
            sweep = start(preset, killed)
            life = draw.uniform(3, LONGEST_LIFE)
            try:
                sweep.wait(life)
                break  # it came to its end first
            except subprocess.TimeoutExpired:
                sweep.kill()
                sweep.wait()
                kills += 1
                lives.append(round(life, 1))
        start(preset, killed).wait()
        before, after = contents(straight), contents(killed)
    batches = sorted(run["batches"] for run in before.values())
    differing = [run for run in before if before[run] != after.get(run)]
    print(f"{kills} kills; {len(before)} runs of {batches} batches; {len(differing)} differ")
    write_results(
        "sweep_kills",
        {
            "kills": kills,
            "seconds_before_each_kill": lives,
            "batches_of_the_runs": batches,
            "runs_that_differ": differing,
        },
    )
    sys.exit(bool(differing) or kills < KILLS)


def start(preset: Path, out: Path) -> "subprocess.Popen[bytes]":
    """Start the sweep in a process of its own."""
    arguments = ["sweep", str(preset), "--out", str(out), "--workers", "2"]
    begun = time.strftime("%H:%M:%S")
    print(f"{begun} {'goes on' if out.exists() else 'begins'}: {out.name}", flush=True)
    return subprocess.Popen(
        [sys.executable, "-m", "pushpop", *arguments], stdout=subprocess.DEVNULL
    )


def contents(out: Path) -> dict[str, dict[str, Any]]:
    """What must not depend on interruptions, for each run."""
    runs = {}
    for report in sorted(out.glob("*/report.json")):
        figures = json.loads(report.read_text())
        del figures["seconds"]
        model = (report.parent / "model.safetensors").read_bytes()
        runs[report.parent.name] = {
            "batches": figures["step"],
            "report": figures,
            "log": (report.parent / "metrics.jsonl").read_text(),
            "model": hashlib.sha256(model).hexdigest(),
        }
    return runs


if __name__ == "__main__":
    main()
