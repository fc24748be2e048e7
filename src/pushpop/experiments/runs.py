"""Runs as their files tell them, without their models: run directories, finished or going on, and
packed runs, a file a sweep that is small enough to be committed.

A packed file (`runs.jsonl.gz`) is compressed JSON lines. The first has the options that all its
runs share and the environments that they were trained in; every other is a run: its name, its
further options, the number of its environment, its report, its log, accuracies at single lengths.
Options are not left out because a recipe has the same values: a recipe may change, a run does not.
"""

import gzip
import json
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pushpop.errors import InputError, reading, writing
from pushpop.experiments.presets import identity, model_name
from pushpop.files import write_file
from pushpop.tasks import LengthRange
from pushpop.training import RunDirectory, TrainConfig
from pushpop.training.run import METRICS_FILE, TRAINING_FILE

PACKED_FILE = "runs.jsonl.gz"
LENGTHS_FILE = "lengths.json"
LINES = 400
"""Lines of a log that are packed; lines with accuracies are all kept."""
SOLVED_ACCURACY = 0.99
"""Coarse accuracy on training and on test lengths at which a report calls a task solved; in the
Chomsky-hierarchy benchmark accuracy per symbol, on test lengths."""


@dataclass(frozen=True)
class RunRecord:
    """A run as its files tell it."""

    name: str
    path: Path  # its directory, or the packed file that it is in
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
    def folder(self) -> str:
        """The folder that it is in, below that of the report."""
        return self.name.rpartition("/")[0]

    @property
    def size(self) -> str:
        """Its controller's width, and its memory's."""
        width = f"/{self.config.memory_width}" if self.config.memory != "none" else ""
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
        reported = perplexities(self.config, self.metrics)
        if self.report is not None:
            until = [step for step in reported if step <= self.kept_step]
            return reported[max(until)] if until else None
        return min(reported.values(), default=None)

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


def perplexities(config: TrainConfig, metrics: list[dict[str, Any]]) -> dict[int, float]:
    """Average training perplexity at full length, by the batch after which it was reported."""
    full = config.training_range[1]
    return {
        int(record["step"]): float(record["perplexity"])
        for record in metrics
        if "perplexity" in record
        and "start" not in record  # of a race: others may have been better
        and record.get("longest", full) >= full
    }


def is_solved(accuracies: dict[str, Any]) -> bool:
    """Whether coarse accuracy is at `SOLVED_ACCURACY` or above on both lengths."""
    return bool(min(accuracies[part]["coarse"] for part in ("train", "test")) >= SOLVED_ACCURACY)


def read_results(folder: Path) -> list[RunRecord]:
    """Read every run in a folder and the folders in it, packed or not, by name. Of a run that is
    there both ways the directory counts."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder, expected one with run directories in it")
    runs: dict[Path, RunRecord] = {}
    for path in sorted(folder.rglob(PACKED_FILE)):
        for run in read_packed(path):
            place = path.parent.relative_to(folder) / run.name
            runs[place] = replace(run, name=place.as_posix())
    for path in sorted(file.parent for file in folder.rglob(TRAINING_FILE)):
        place = path.relative_to(folder) if path != folder else Path(path.name)
        run = read_run(path, place.as_posix())
        if place in runs:
            _check_same_run(runs[place], run)
        runs[place] = run
    if not runs:
        raise InputError(
            f"{folder}: no run in it: expected directories with a {TRAINING_FILE}, or {PACKED_FILE}"
        )
    return [runs[place] for place in sorted(runs)]


def read_run(path: Path, name: str = "") -> RunRecord:
    """Read a run's small files; a line that is just being written does not count."""
    run = RunDirectory(path)
    config = run.config()
    return RunRecord(
        name or path.name,
        path,
        config,
        run.report(config),
        read_metrics(path / METRICS_FILE),
        read_lengths(path / LENGTHS_FILE),
        run.environment(),
    )


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


def collect(source: Path, target: Path) -> int:
    """Pack every run in a folder into a file of another one; returns how many.

    Runs that are packed there already stay, and one that is collected again is renewed.
    """
    runs, path = read_results(source), target / PACKED_FILE
    packed = {run.name: run for run in read_packed(path)} if path.exists() else {}
    for run in runs:
        if (target / run.name / TRAINING_FILE).exists():
            raise InputError(
                f"{target / run.name}: is a run directory, expected a folder for packed runs"
            )
        if run.name in packed:
            _check_same_run(packed[run.name], run)
        packed[run.name] = run
    with writing(path):
        target.mkdir(parents=True, exist_ok=True)
        write_file(path, pack([packed[name] for name in sorted(packed)]))
    return len(runs)


def _check_same_run(packed: RunRecord, run: RunRecord) -> None:
    if identity(packed.config) != identity(run.config):
        raise InputError(
            f"{packed.path}: {run.name}: holds another run than {run.path}: give another folder"
        )


def pack(runs: list[RunRecord]) -> bytes:
    """The contents of a packed file: the same runs give the same bytes."""
    options = [run.config.to_dict() for run in runs]
    shared = {
        name: value
        for name, value in options[0].items()
        if all(other[name] == value for other in options)
    }
    environments: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = [{"options": shared, "environments": environments}]
    for run, its_options in zip(runs, options, strict=True):
        if run.environment not in environments:
            environments.append(run.environment)
        lines.append({
            "run": run.name,
            "options": {name: its_options[name] for name in its_options if name not in shared},
            "environment": environments.index(run.environment),
            "report": run.report,
            "lengths": run.lengths,
            "metrics": thinned(run),
        })  # fmt: skip
    return gzip.compress("".join(f"{json.dumps(line)}\n" for line in lines).encode(), mtime=0)


def thinned(run: RunRecord) -> list[dict[str, Any]]:
    """A run's log without some lines where it is long: a report about it stays the same. That of a
    packed run is thinned already."""
    records = run.metrics
    if len(records) <= LINES or run.path.is_file():
        return records
    every = -(-len(records) // LINES)
    return [
        record
        for number, record in enumerate(records)
        if number % every == 0
        or "test" in record
        or record.get("perplexity") == run.perplexity
        or record is records[-1]
    ]


def read_packed(path: Path) -> list[RunRecord]:
    """Read the runs of a packed file."""
    with reading(path):
        try:
            lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        except (EOFError, zlib.error, ValueError) as error:
            raise InputError(f"{path}: not a file of packed runs: {error}") from None
    runs = []
    for number, line in enumerate(lines, 1):
        try:
            data = json.loads(line)
            if number == 1:
                shared, environments = dict(data["options"]), list(data["environments"])
                continue
            config = TrainConfig.from_saved({**shared, **data["options"]})
            about = data["report"], list(data["metrics"]), dict(data["lengths"])
            environment = environments[data["environment"]]
            runs.append(RunRecord(str(data["run"]), path, config, *about, environment))
        except InputError as error:
            raise InputError(f"{path}:{number}: {error}") from None
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise InputError(f"{path}:{number}: not a packed run: {error!r}") from None
    return runs


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
