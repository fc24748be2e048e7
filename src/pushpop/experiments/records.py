"""What a run directory says about its run, finished or going on, without its model; and accuracies
at single lengths, kept with the run that they were measured on."""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pushpop.errors import InputError, reading, writing
from pushpop.experiments.paper import model_name
from pushpop.files import write_file
from pushpop.tasks import LengthRange
from pushpop.training import RunDirectory, TrainConfig
from pushpop.training.run import METRICS_FILE, TRAINING_FILE

LENGTHS_FILE = "lengths.json"
SOLVED_ACCURACY = 0.99
"""Coarse accuracy on training and on test lengths at which a report calls a task solved; in the
Chomsky-hierarchy benchmark accuracy per symbol, on test lengths."""


@dataclass(frozen=True)
class RunRecord:
    """A run as its files tell it."""

    name: str
    path: Path
    config: TrainConfig
    report: dict[str, Any] | None = None  # once it is finished
    metrics: list[dict[str, Any]] = field(default_factory=list)
    lengths: dict[str, Any] = field(default_factory=dict)  # see `read_lengths`
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> str:
        """What is in its memory's place: stack, lstm2..."""
        return model_name(self.config)

    @property
    def size(self) -> str:
        """Its controller's width, and its memory's."""
        width = "" if self.config.memory == "none" else f"/{self.config.memory_width}"
        return f"{self.config.hidden}{width}"

    @property
    def step(self) -> int:
        """The batch that it has reached, as far as reported."""
        if self.report is not None:
            return int(self.report["step"])
        return int(self.metrics[-1]["step"]) if self.metrics else 0

    @property
    def kept_step(self) -> int:
        """After how many batches its model was as it is kept."""
        return int((self.report or {}).get("kept_step", self.step))

    @property
    def tests(self) -> list[dict[str, Any]]:
        """The lines of its log with accuracies."""
        return [record for record in self.metrics if "test" in record]

    @property
    def accuracies(self) -> dict[str, Any] | None:
        """Of the model that was kept, or the latest of a run that goes on."""
        return self.report or (self.tests[-1] if self.tests else None)

    @property
    def perplexity(self) -> float | None:
        """Average training perplexity at full length: the kept model's, or the best so far."""
        full = self.config.training_range[1]
        found = {
            int(record["step"]): float(record["perplexity"])
            for record in self.metrics
            if "perplexity" in record
            and "start" not in record  # of a race: others may have been better
            and record.get("longest", full) >= full
        }
        if self.report is not None:
            until = [step for step in found if step <= self.kept_step]
            return found[max(until)] if until else None
        return min(found.values(), default=None)

    @property
    def measured_lengths(self) -> dict[int, dict[str, Any]]:
        """Accuracies by length, of the model that the run has now."""
        if self.lengths.get("step") != self.kept_step:
            return {}
        return {row["length"]: row for row in self.lengths["rows"]}

    @property
    def solved(self) -> bool:
        """Whether it is finished and the model that it kept solves the task, on fresh draws."""
        return self.report is not None and is_solved(self.report)

    @property
    def solved_at(self) -> int | None:
        """The first test that found coarse accuracy at `SOLVED_ACCURACY` or above, on the training
        lengths and on the test lengths."""
        steps = (record["step"] for record in self.tests if is_solved(record))
        return next(steps, None)


def is_solved(accuracies: dict[str, Any]) -> bool:
    """Whether coarse accuracy is at `SOLVED_ACCURACY` or above on both lengths."""
    return bool(min(accuracies[part]["coarse"] for part in ("train", "test")) >= SOLVED_ACCURACY)


def read_run(path: Path, name: str = "") -> RunRecord:
    """Read a run's small files; a line that is just being written does not count."""
    run = RunDirectory(path)
    return RunRecord(
        name or path.name,
        path,
        run.config(),
        run.report(),
        read_metrics(path / METRICS_FILE),
        read_lengths(path / LENGTHS_FILE),
        run.environment(),
    )


def find_runs(folder: Path) -> list[Path]:
    """The run directories in a folder (or the folder itself), by name."""
    if (folder / TRAINING_FILE).exists():
        return [folder]
    with reading(folder), suppress(FileNotFoundError):
        return sorted(path for path in folder.iterdir() if (path / TRAINING_FILE).exists())
    return []


def read_results(folder: Path) -> list[RunRecord]:
    """Every run in a folder and the folders in it, by name."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder, expected one with run directories in it")
    paths = sorted(path.parent for path in folder.rglob(TRAINING_FILE))
    if not paths:
        raise InputError(f"{folder}: no run in it: expected directories with a {TRAINING_FILE}")
    return [
        read_run(path, path.relative_to(folder).as_posix() if path != folder else path.name)
        for path in paths
    ]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's log."""
    with reading(path):
        try:
            lines = path.read_text("utf-8").splitlines(keepends=True)
        except FileNotFoundError:
            return []
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            int(record["step"])
        except (ValueError, TypeError, KeyError):
            raise InputError(
                f"{path}:{number}: {line.strip()[:60]!r}, expected a JSON object with a step"
            ) from None
        records.append(record)
    return records


def read_lengths(path: Path) -> dict[str, Any]:
    """Accuracies at single lengths, where `pushpop evaluate --save` has measured them.

    `rows` of length, coarse, fine; `step`, after which the model was as measured; `sequences`.
    """
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_text("utf-8"))
        int(data["step"])
        for row in data["rows"]:
            int(row["length"]), float(row["coarse"]), float(row["fine"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path}: expected a step and rows of length, coarse and fine: {error!r}"
        ) from None
    return dict(data)


def check_saveable(model: str, ranges: list[LengthRange], other: str) -> None:
    """Refuse to keep figures that are not those of a finished run's own model and task."""
    if not (Path(model) / TRAINING_FILE).exists() or read_run(Path(model)).report is None:
        raise InputError(f"{model}: not a finished run: --save keeps figures in finished runs")
    if other:
        raise InputError(f"--save keeps figures of the run's own model and task: leave out {other}")
    for low, high in ranges:
        if low != high:
            raise InputError(f"--save keeps figures of lengths one by one, not of {low}-{high}")


def save_length(model: str, figures: dict[str, Any]) -> None:
    """Add what `evaluate` has found at a length, or renew it; other models' figures are dropped."""
    path = Path(model) / LENGTHS_FILE
    step = read_run(Path(model)).kept_step
    before = read_lengths(path)
    rows = {row["length"]: row for row in before.get("rows", []) if before["step"] == step}
    row = {"length": figures["lengths"][0]}
    names = ("sequences", "accuracy", "coarse", "fine", "perplexity")
    row |= {name: figures[name] for name in names if name in figures}
    rows[row["length"]] = row
    data = {"step": step, "rows": [rows[length] for length in sorted(rows)]}
    with writing(path):
        write_file(path, f"{json.dumps(data, indent=1)}\n".encode())
