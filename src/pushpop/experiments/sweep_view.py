"""How a sweep is watched: a line whenever something happens, and bars below them in a terminal."""

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID

from pushpop.experiments.runs import read_metrics
from pushpop.training.run import METRICS_FILE
from pushpop.training.view import main_scores

if TYPE_CHECKING:
    from pushpop.experiments.presets import Halving
    from pushpop.experiments.sweep import Job


class SweepView:
    """Prints what happens, and shows how far each run under way is."""

    def __init__(self, halving: "Halving | None" = None, console: Console | None = None) -> None:
        self.halving, self.console = halving, console or Console()
        self.jobs: list[Job] = []
        self.bars: dict[str, TaskID] = {}
        self.first_batches, self.began, self.drawn = 0, time.monotonic(), 0.0
        columns = "{task.description}", BarColumn(30), "{task.completed:,.0f} of {task.total:,.0f}"
        show = self.console.is_terminal
        self.progress = Progress(
            *columns, "{task.fields[figures]}", console=self.console, disable=not show
        )

    def begin(self, jobs: "list[Job]") -> None:
        """Say what there is to do."""
        self.jobs, self.first_batches = jobs, batches_done(jobs)
        done = sum(job.state == "done" for job in jobs)
        self.message(f"{len(jobs)} runs, {done} of them finished before")
        self.progress.start()

    def message(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def event(self, job: "Job", what: str) -> None:
        """Tell what happened to a run."""
        if what == "started":
            since = f", after batch {job.start_step}" if job.start_step > 0 else ""
            self.message(f"started  {job.name}{since}")
            self.bars[job.name] = self.progress.add_task(
                job.name, total=job.config.steps, figures=""
            )
            return
        if job.name in self.bars:
            self.progress.remove_task(self.bars.pop(job.name))
        if what == "done":
            step, figures = last_figures(job)
            self.message(f"done     {job.name}  {step} batches  {figures}  ({self.counts()})")
        else:
            self.message(f"{what:8} {job.name}: {job.error} (log: {job.log})")

    def tick(self) -> None:
        """Look at the runs under way, at most once a second."""
        if not self.progress.disable and time.monotonic() > self.drawn + 1:
            self.drawn = time.monotonic()
            for job in self.jobs:
                if job.name in self.bars:
                    step, figures = last_figures(job)
                    self.progress.update(self.bars[job.name], completed=step, figures=figures)

    def close(self) -> None:
        """Leave what is shown as it is."""
        self.progress.stop()

    def counts(self) -> str:
        """As in 3 of 35 done, 2 running, 30 waiting, about 1:20:00 left."""
        number = Counter[str](job.state for job in self.jobs)
        states = ("failed", "dropped", "running", "waiting")
        parts = [f"{number['done']} of {len(self.jobs)} done"]
        parts += [f"{number[state]} {state}" for state in states if number[state]]
        done = batches_done(self.jobs)
        if number["running"] + number["waiting"] and done > self.first_batches:
            speed = (time.monotonic() - self.began) / (done - self.first_batches)
            parts.append(
                f"about {clock(speed * (planned_batches(self.jobs, self.halving) - done))} left"
            )
        return ", ".join(parts)


def planned_batches(jobs: "list[Job]", halving: "Halving | None") -> int:
    """The batches that all runs have when the sweep is done."""
    if halving is None:
        return sum(job.config.steps for job in jobs)
    candidates = Counter(job.row for job in jobs).values()
    return sum(runs * length for n in candidates for runs, length in halving.stages(n))


def batches_done(jobs: "list[Job]") -> int:
    """The batches that runs have had; one that is done has had all that it was planned for."""
    over = ("done", "failed")
    return sum(job.config.steps if job.state in over else last_figures(job)[0] for job in jobs)


def last_figures(job: "Job") -> tuple[int, str]:
    """How far the log of a run goes, and the perplexity and accuracy that it has last."""
    last: dict[str, Any] = {"step": 0}
    for record in read_metrics(job.directory / METRICS_FILE):
        last |= record
    parts = [f"perplexity {last['perplexity']:.3f}"] if "perplexity" in last else []
    if "test" in last:
        parts.append("test {:.3f}/{:.3f}".format(*main_scores(last["test"])))
    elif "valid" in last:
        parts.append(f"accuracy {last['valid']['accuracy']:.3f}")
    return last["step"], "  ".join(parts)


def clock(seconds: float) -> str:
    """As in 1:02:03, or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
