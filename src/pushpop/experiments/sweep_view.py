"""How a sweep is watched: line by line, or as a live table."""

import time
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pushpop.experiments.paper import model_name
from pushpop.experiments.records import read_metrics
from pushpop.experiments.sweep import JobStatus, SweepView
from pushpop.training import RunDirectory
from pushpop.training.run import METRICS_FILE
from pushpop.training.view import main_scores


@dataclass
class RunMetrics:
    """What the files of a run say about it now."""

    step: int = 0
    perplexity: float | None = None
    accuracy: tuple[float, float] | None = None  # coarse and fine, as last tested
    first_step: int = 0  # when it was started by this sweep
    seconds_a_batch: float | None = None


@dataclass(eq=False)
class TrackingSweepView(SweepView):
    """Keeps up with the runs' files, and estimates the time left."""

    workers: int = 1
    run_metrics: dict[str, RunMetrics] = field(default_factory=dict)

    def begin(self, rows: list[JobStatus]) -> None:
        """Look at every run once."""
        self.rows = rows
        for row in rows:
            self.run_metrics[row.job.name] = RunMetrics()
            self.refresh(row)

    def refresh(self, row: JobStatus) -> RunMetrics:
        """Read a run's files again."""
        found = self.run_metrics[row.job.name]
        for record in read_metrics(row.job.directory / METRICS_FILE):
            found.step = record["step"]
            found.perplexity = record.get("perplexity", found.perplexity)
            found.accuracy = accuracy_of(record) or found.accuracy
        if row.state == "done" and (report := RunDirectory(row.job.directory).report()):
            found.step, found.accuracy = report["step"], accuracy_of(report)
            found.perplexity = report["perplexity"]
            found.seconds_a_batch = report["seconds"] / max(1, report["step"])
        elif row.state == "running" and found.step > found.first_step:
            elapsed = time.monotonic() - row.started
            found.seconds_a_batch = elapsed / (found.step - found.first_step)
        return found

    def event(self, row: JobStatus, what: str) -> None:
        """Note where a run starts from."""
        found = self.refresh(row)
        if what == "started":
            found.first_step = max(found.step, row.start_step)

    def left(self) -> str:
        """The time that the open runs will take, by the speed of those of the same model."""
        speeds: dict[str, list[float]] = {}
        for row in self.rows:
            speed = self.run_metrics[row.job.name].seconds_a_batch
            if speed is not None:
                speeds.setdefault(model_name(row.job.config), []).append(speed)
        means = {model: sum(found) / len(found) for model, found in speeds.items()}
        if not means:
            return "time left unknown"
        anyone = sum(means.values()) / len(means)
        seconds = sum(
            max(0, row.job.config.steps - self.run_metrics[row.job.name].step)
            * means.get(model_name(row.job.config), anyone)
            for row in self.rows
            if row.state in ("waiting", "running")
        )
        return f"about {clock(seconds / self.workers)} left"

    def counts(self) -> str:
        """As in 3 of 35 done, 2 running, 30 waiting, about 1:20:00 left."""
        number = {
            state: sum(row.state == state for row in self.rows)
            for state in ("done", "failed", "running", "waiting")
        }
        parts = [f"{number['done']} of {len(self.rows)} done"]
        parts += [f"{number[s]} {s}" for s in ("failed", "running", "waiting") if number[s]]
        if number["running"] or number["waiting"]:
            parts.append(self.left())
        return ", ".join(parts)


class PlainSweepView(TrackingSweepView):
    """A line whenever something happens, for files and pipes."""

    def begin(self, rows: list[JobStatus]) -> None:
        """Say what there is to do."""
        super().begin(rows)
        done = sum(row.finished_before for row in rows)
        self.message(f"{len(rows)} runs, {done} of them finished before")

    def event(self, row: JobStatus, what: str) -> None:
        """One line."""
        super().event(row, what)
        found = self.run_metrics[row.job.name]
        if what == "started":
            since = f", after batch {row.start_step}" if row.start_step > 0 else ""
            self.message(f"started  {row.job.name}{since}")
        elif what == "done":
            self.message(f"done     {row.job.name}  {figures(found)}  ({self.counts()})")
        else:
            self.message(failure(row))

    def message(self, text: str) -> None:
        """As it is."""
        print(text, flush=True)


class LiveSweepView(TrackingSweepView):
    """A table that stays in place."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        self.console = console or Console()
        self.live: Live | None = None
        self.drawn = 0.0

    def begin(self, rows: list[JobStatus]) -> None:
        """Draw it for the first time."""
        super().begin(rows)
        self.live = Live(self.table(), console=self.console, refresh_per_second=2)
        self.live.start()

    def event(self, row: JobStatus, what: str) -> None:
        """Failures stay above the table; the rest is in it."""
        super().event(row, what)
        if what in ("failed", "again"):
            self.message(failure(row))
        self._draw()

    def message(self, text: str) -> None:
        """Above the table."""
        self.console.print(text, highlight=False, markup=False)

    def tick(self) -> None:
        """Draw again, at most once a second."""
        if time.monotonic() - self.drawn > 1:
            for row in self.rows:
                if row.state == "running":
                    self.refresh(row)
            self._draw()

    def close(self) -> None:
        """Leave the table as it is."""
        if self.live is not None:
            self.live.update(self.table())
            self.live.stop()
            self.live = None

    def table(self) -> Group:
        """Running runs first, then failed ones, the latest done, and what waits."""
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in ("run", "", "batches", "perplexity", "accuracy"):
            table.add_column(name, justify="left" if name in ("run", "") else "right")
        order = {"running": 0, "failed": 1, "done": 2, "waiting": 3}
        styles = {"running": "bold", "failed": "red", "done": "green", "waiting": "dim"}
        rows = sorted(self.rows, key=lambda row: order[row.state])
        shown = max(4, self.console.height - 4)
        for row in rows[:shown]:
            found = self.run_metrics[row.job.name]
            table.add_row(
                Text(row.job.name),
                row.state,
                f"{found.step:,} of {row.job.config.steps:,}",
                "" if found.perplexity is None else f"{found.perplexity:.3f}",
                "" if found.accuracy is None else f"{found.accuracy[0]:.3f}",
                style=styles[row.state],
            )
        more = f" ({len(rows) - shown} not shown)" if len(rows) > shown else ""
        return Group(table, Text(f"{self.counts()}{more}"))

    def _draw(self) -> None:
        self.drawn = time.monotonic()
        if self.live is not None:
            self.live.update(self.table())


def failure(row: JobStatus) -> str:
    """A line about an attempt that failed."""
    what = "failed  " if row.state == "failed" else "again   "
    return f"{what} {row.job.name}: {row.error} (log: {row.job.log})"


def figures(found: RunMetrics) -> str:
    """Batches, perplexity and accuracy in a few words."""
    parts = [f"{found.step} batches"]
    if found.perplexity is not None:
        parts.append(f"perplexity {found.perplexity:.3f}")
    if found.accuracy is not None:
        parts.append(f"test {found.accuracy[0]:.3f}/{found.accuracy[1]:.3f}")
    return "  ".join(parts)


def accuracy_of(record: dict[str, Any]) -> tuple[float, float] | None:
    """What a run shows of a test at test lengths, or accuracy on the validation pairs of a file."""
    if "test" in record:
        return main_scores(record["test"])
    if "valid" in record:
        return record["valid"]["accuracy"], record["valid"]["fine"]
    return None


def clock(seconds: float) -> str:
    """As in 1:02:03, or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
