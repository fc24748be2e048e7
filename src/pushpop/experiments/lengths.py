"""Accuracy at single lengths, kept with the run that it was measured on."""

import json
from pathlib import Path
from typing import Any

from pushpop.errors import InputError
from pushpop.experiments.records import LENGTHS, read_lengths, read_run
from pushpop.files import write_file, writing
from pushpop.tasks import Lengths
from pushpop.training.run import CONFIG


def check_saveable(model: str, ranges: list[Lengths], other: str) -> None:
    """Refuse to keep figures that are not those of a finished run's own model and task."""
    if not (Path(model) / CONFIG).exists() or read_run(Path(model)).report is None:
        raise InputError(f"{model}: not a finished run: --save keeps figures in finished runs")
    if other:
        raise InputError(f"--save keeps figures of the run's own model and task: leave out {other}")
    for low, high in ranges:
        if low != high:
            raise InputError(f"--save keeps figures of lengths one by one, not of {low}-{high}")


def save_length(model: str, figures: dict[str, Any]) -> None:
    """Add what `evaluate` has found at a length, or renew it; other models' figures are dropped."""
    path = Path(model) / LENGTHS
    step = read_run(Path(model)).kept_step
    before = read_lengths(path)
    rows = {row["length"]: row for row in before.get("rows", []) if before["step"] == step}
    row = {"length": figures["lengths"][0]}
    row |= {name: figures[name] for name in ("sequences", "coarse", "fine", "perplexity")}
    rows[row["length"]] = row
    data = {"step": step, "rows": [rows[length] for length in sorted(rows)]}
    with writing(path):
        write_file(path, f"{json.dumps(data, indent=1)}\n".encode())
