"""Kill a process at random times while it saves checkpoints; the latest one must always load.

    python benchmarks/checkpoint_kills.py        writes results/checkpoint_kills.json

The short version is in tests/training/test_resume.py.
"""

import os
import signal
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import torch

from machine import write_results
from pushpop.training.checkpoint import Checkpoint, load_latest, save

KILLS, NUMBERS = 200, 300_000


def save_without_end(folder: Path, step: int, tell: int) -> None:
    """Save checkpoint after checkpoint, and write the number of each once it is there."""
    while True:
        step += 1
        tensors = {"model.w": torch.full((NUMBERS,), float(step))}
        save(folder, step, Checkpoint(tensors, {"step": step}), best=1)
        os.write(tell, step.to_bytes(8, "little"))


def kill_once(folder: Path, known: int, seconds: float) -> int:
    """Start saving after checkpoint `known`, kill it; the last checkpoint that was announced."""
    listen, tell = os.pipe()
    child = os.fork()
    if not child:
        save_without_end(folder, known, tell)
    os.close(tell)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with open(listen, "rb") as pipe:
        said = pipe.read()
    return max(known, int.from_bytes(said[-8:], "little"))


def main() -> None:
    """200 kills, the check after each, and a line of result."""
    torch.set_num_threads(1)
    draw, known, cut_off, lost, broken = Random(0), 0, 0, 0, 0
    warnings: list[str] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(KILLS):
            announced = kill_once(folder, known, draw.uniform(0.001, 0.06))
            cut_off += any(path.name.endswith(".writing") for path in folder.iterdir())
            found = load_latest(folder, warnings.append)
            step = found[0] if found else 0
            lost += step not in (announced, announced + 1)
            broken += found is not None and not bool((found[1].tensors["model.w"] == step).all())
            known = step
    figures = {
        "kills": KILLS,
        "kills_in_the_middle_of_a_write": cut_off,
        "checkpoints_saved": known,
        "checkpoints_lost": lost,
        "checkpoints_broken": broken + len(warnings),
    }
    write_results("checkpoint_kills", figures)
    if lost or broken or warnings:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
