"""What a run directory says about its run, finished or going on, without its model."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pushpop.errors import InputError
from pushpop.experiments.paper import model_of
from pushpop.training import RunDirectory, TrainConfig
from pushpop.training.run import CONFIG, METRICS

LENGTHS = "lengths.json"


@dataclass(frozen=True)
class RunRecord:
    """A run as its files tell it."""

    path: Path
    config: TrainConfig
    report: dict[str, Any] | None = None  # once it is finished
    metrics: list[dict[str, Any]] = field(default_factory=list)
    lengths: list[dict[str, Any]] = field(default_factory=list)  # accuracy at single lengths

    @property
    def name(self) -> str:
        """Its directory's."""
        return self.path.name

    @property
    def model(self) -> str:
        """What is in its memory's place: stack, lstm2..."""
        return model_of(self.config)

    @property
    def step(self) -> int:
        """The batch that it has reached, as far as reported."""
        if self.report is not None:
            return int(self.report["step"])
        return int(self.metrics[-1]["step"]) if self.metrics else 0


def read_run(path: Path) -> RunRecord:
    """Read a run's small files; a line that is just being written does not count."""
    run = RunDirectory(path)
    return RunRecord(
        path, run.config(), run.report(), read_metrics(path / METRICS), read_lengths(path)
    )


def find_runs(folder: Path) -> list[Path]:
    """The run directories in a folder (or the folder itself), by name."""
    if (folder / CONFIG).exists():
        return [folder]
    try:
        return sorted(path for path in folder.iterdir() if (path / CONFIG).exists())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror or error}") from None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's log."""
    try:
        lines = path.read_text("utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
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


def read_lengths(path: Path) -> list[dict[str, Any]]:
    """Accuracies at single lengths, where they were measured."""
    file = path / LENGTHS
    if not file.exists():
        return []
    try:
        rows = json.loads(file.read_text("utf-8"))["rows"]
        for row in rows:
            int(row["length"]), float(row["coarse"]), float(row["fine"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{file}: expected rows of length, coarse and fine: {error!r}") from None
    return list(rows)
