"""A sweep: jobs handed to workers until none is left, and what becomes of them."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from pushpop.errors import InputError, writing
from pushpop.experiments.jobs import LOCK_TIMEOUT, LOGS, Job, Outcome
from pushpop.experiments.workers import Workers
from pushpop.training.checkpoint import saved_steps
from pushpop.training.interrupt import Signals

LOCK = ".sweep-lock"
POLL = 0.1
"""Seconds from one look at signals and files to the next."""


@dataclass(eq=False)
class JobStatus:
    """Where a job is."""

    job: Job
    state: Literal["waiting", "running", "done", "failed"] = "waiting"
    finished_before: bool = False  # it was finished when the sweep began
    failures: int = 0
    error: str = ""
    started: float = 0.0
    start_step: int = -1  # the checkpoint that the last attempt began with


@dataclass(eq=False)
class SweepView:
    """Shows nothing; `sweep_view.py` has two that do."""

    rows: list[JobStatus] = field(default_factory=list)

    def begin(self, rows: list[JobStatus]) -> None:
        """The sweep starts."""
        self.rows = rows

    def event(self, row: JobStatus, what: str) -> None:
        """A run was started, is done, failed..."""

    def message(self, text: str) -> None:
        """Something that the user should know."""

    def tick(self) -> None:
        """Time has passed."""

    def close(self) -> None:
        """Nothing more will come."""


def run_sweep(jobs: list[Job], workers: Workers, view: SweepView | None = None) -> list[JobStatus]:
    """Do every job that is not finished, and tell what became of each.

    A run that fails is tried once more, after the others; a run whose worker was lost is tried
    again as long as it gets farther. Called in the main thread, Ctrl-C and SIGTERM let every run
    finish its batch and save, and then raise `KeyboardInterrupt` and `SystemExit(143)`.
    """
    view = view or SweepView()
    rows = [
        JobStatus(job, "done", finished_before=True) if job.finished else JobStatus(job)
        for job in jobs
    ]
    by_name = {row.job.name: row for row in rows}
    waiting = deque(row for row in rows if row.state == "waiting")
    running = 0
    try:
        with Signals() as signals:
            view.begin(rows)
            while waiting or running:
                if signals.received is not None:
                    view.message("stopping: every run finishes its batch and saves")
                    workers.stop()
                    while running:
                        running -= len(workers.wait(POLL))
                    signals.leave()
                while waiting and workers.free() > 0:
                    _start(waiting.popleft(), workers, view)
                    running += 1
                for outcome in workers.wait(POLL):
                    running -= 1
                    row = by_name[outcome.name]
                    _end(row, outcome, view)
                    if row.state == "waiting":
                        waiting.append(row) if outcome.kind == "failed" else waiting.appendleft(row)
                view.tick()
    finally:
        workers.close()
        view.close()
    return rows


def _start(row: JobStatus, workers: Workers, view: SweepView) -> None:
    row.job.log.parent.mkdir(parents=True, exist_ok=True)
    row.state, row.started = "running", time.monotonic()
    row.start_step = _latest(row.job)
    workers.submit(row.job)
    view.event(row, "started")


def _end(row: JobStatus, outcome: Outcome, view: SweepView) -> None:
    """Enter how an attempt ended; a row that is to be tried again is waiting."""
    if outcome.kind == "done":
        row.state, row.error = "done", ""
        view.event(row, "done")
        return
    row.error = outcome.error
    if outcome.kind != "failed" and (last := last_line(row.job.log)):
        row.error = f"{row.error or 'stopped'}; its last line: {last}"
    if outcome.kind == "failed" or _latest(row.job) <= row.start_step:
        row.failures += 1
    row.state = "waiting" if row.failures < 2 else "failed"
    view.event(row, "failed" if row.state == "failed" else "again")


def _latest(job: Job) -> int:
    """The last batch that is saved, or -1."""
    return max(saved_steps(job.directory / "checkpoints"), default=-1)


def last_line(log: Path) -> str:
    """What a run said last."""
    try:
        lines = log.read_text("utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


@contextmanager
def sweep_lock(out: Path, view: SweepView) -> Iterator[int]:
    """Keep a second sweep out of a folder; yields the file that holds the lock.

    Workers inherit the file and with it the lock: those of a killed sweep are waited for.
    """
    with writing(out):
        (out / LOGS).mkdir(parents=True, exist_ok=True)
        lock = open(out / LOCK, "wb")  # noqa: SIM115  closed below
    with lock:
        _wait_for(lock, out, view)
        yield lock.fileno()


def _wait_for(lock: IO[bytes], out: Path, view: SweepView) -> None:
    with suppress(ImportError):
        import fcntl

        until, told = time.monotonic() + LOCK_TIMEOUT, False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > until:
                    raise InputError(f"{out}: another sweep is at work there") from None
            if not told:
                view.message(f"{out}: another sweep is at work there; waiting for its end")
                told = True
            time.sleep(0.2)
