"""A sweep: the runs of a preset, each trained by `pushpop train` in a directory of its own.

A run directory is all that a sweep knows of a run, so a sweep that was killed, or is started again
with a larger preset, goes on where its runs are. With successive halving, the candidates of a row
(a task and a model) are trained to the first rung and compared by average training perplexity; a
share of them goes on to the next, as if it had never stopped. What a run's log says up to a rung
decides, so it does not matter how far the run is by now.
"""

import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from pathlib import Path
from typing import IO, Literal

from pushpop.errors import InputError, writing
from pushpop.experiments.presets import Halving, Measurement, PlannedRun, Preset, identity
from pushpop.experiments.runs import find_runs, read_metrics, read_run
from pushpop.experiments.sweep_view import SweepView
from pushpop.experiments.workers import Commands, LocalWorkers, RayWorkers
from pushpop.training import RunDirectory, TrainConfig
from pushpop.training.checkpoint import saved_steps
from pushpop.training.run import METRICS_FILE, TRAINING_FILE
from pushpop.training.signals import Signals

LOCK, LOGS = ".sweep-lock", "logs"
LOCK_TIMEOUT = 60.0
"""Seconds to wait for the processes of a sweep that was killed to save and leave."""
POLL = 0.1
"""Seconds from one look at signals and runs to the next."""


@dataclass(eq=False)
class Job:
    """A run of a sweep: what it is to become, and where it is."""

    name: str
    config: TrainConfig
    row: tuple[str, str]
    directory: Path
    log: Path
    measurement: Measurement
    rung: int = 0
    state: Literal["waiting", "running", "done", "failed", "dropped"] = "waiting"
    failures: int = 0
    error: str = ""
    start_step: int = -1  # the checkpoint that the last attempt began with

    def is_finished(self) -> bool:
        """Whether the run has come to its end, and is measured."""
        return RunDirectory(self.directory).is_over(self.config) and not self.missing_lengths()

    def missing_lengths(self) -> list[int]:
        """The lengths at which the run is still to be measured."""
        measured, wanted = read_run(self.directory).measured_lengths, self.measurement
        sequences = {length: row.get("sequences") for length, row in measured.items()}
        return [length for length in wanted.lengths if sequences.get(length) != wanted.sequences]

    def commands(self) -> Commands:
        """What is left to do: train, then measure."""
        run, folder = RunDirectory(self.directory), str(self.directory)
        lengths, commands = list(self.measurement.lengths), []
        if run.is_over(self.config):
            lengths = self.missing_lengths()
        else:
            run.prepare(self.config)
            changes = run.config().differences(self.config).items()
            changed = [f"--{name.replace('_', '-')}={value}" for name, (_, value) in changes]
            file = str(self.directory / TRAINING_FILE)
            commands.append(["train", "--config", file, "--run", folder, *changed])
        if lengths:
            drawn = ["--sequences", str(self.measurement.sequences)]
            at = ["--lengths", ",".join(map(str, lengths))]
            commands.append(["evaluate", folder, *at, *drawn, "--save"])
        return commands

    def perplexity(self) -> float:
        """The lowest average training perplexity up to the rung, at full length."""
        full = self.config.training_range[1]
        reports = [
            record
            for record in read_metrics(self.directory / METRICS_FILE)
            if "perplexity" in record and record["step"] <= self.config.steps
        ]
        at_full_length = (r["perplexity"] for r in reports if r.get("longest", full) >= full)
        return min(at_full_length, default=inf)

    def saved_step(self) -> int:
        """The last batch that is saved, or -1."""
        return max(saved_steps(self.directory / "checkpoints"), default=-1)


def plan(preset: Preset, runs: tuple[PlannedRun, ...], out: Path, exact: bool = False) -> list[Job]:
    """A job for every run; one that `out` holds already, under whatever name, is gone on with.

    A run is not made shorter than it was planned before; `exact`: not shorter than it is by now.
    With rungs, every run is to come to the first.
    """
    if (out / TRAINING_FILE).exists():
        raise InputError(f"{out}: is a run, expected a folder for runs")
    known: dict[str, Path] = {}
    for directory in find_runs(out):
        known.setdefault(identity(RunDirectory(directory).config()), directory)
    taken = {directory.name for directory in find_runs(out)}
    jobs = []
    for run in runs:
        config, before = run.config, known.get(identity(run.config))
        names = (run.name if number == 1 else f"{run.name}-{number}" for number in count(1))
        name = next(name for name in names if name not in taken) if before is None else before.name
        taken.add(name)
        if preset.halving is not None:
            config = replace(config, steps=preset.halving.rungs[0])
        elif before is not None:
            earlier = RunDirectory(before)
            least = earlier.batches_done() if exact else earlier.config().steps
            config = replace(config, steps=max(config.steps, least))
        measurement = preset.measurement if preset.halving is None else Measurement()
        job = Job(name, config, run.row, out / name, out / LOGS / f"{name}.log", measurement)
        if before is not None and job.is_finished():
            job.state = "done"
        jobs.append(job)
    return jobs


def run_sweep(
    preset: Preset, jobs: list[Job], workers: LocalWorkers | RayWorkers, view: SweepView
) -> None:
    """Do every job that is not finished; its state tells what became of it.

    A run that fails is tried once more, after the others; a run whose process was lost is tried
    again as long as it gets farther. Called in the main thread, Ctrl-C and SIGTERM let every run
    finish its batch and save, and then raise `KeyboardInterrupt` and `SystemExit(143)`.
    """
    running: dict[Future[int], Job] = {}
    try:
        with Signals() as signals:
            view.begin(jobs)
            while True:
                while preset.halving is not None and promote(jobs, preset, preset.halving, view):
                    pass  # a row that ran before may have come through several rungs
                waiting = [job for job in jobs if job.state == "waiting"]
                if not waiting and not running:
                    return
                if signals.received is not None:
                    view.message("stopping: every run finishes its batch and saves")
                    workers.stop()
                    wait(running)
                    signals.leave()
                waiting.sort(key=lambda job: job.failures)
                for job in waiting[: max(0, workers.count - len(running))]:
                    try:
                        commands = job.commands()
                    except InputError as error:  # the directory is no run's
                        job.state, job.error = "failed", str(error)
                        view.event(job, "failed")
                        continue
                    job.log.parent.mkdir(parents=True, exist_ok=True)
                    job.state, job.start_step = "running", job.saved_step()
                    running[workers.start(job.name, commands, job.log)] = job
                    view.event(job, "started")
                if not running:
                    time.sleep(POLL)  # until there is a node
                for future in wait(running, POLL, FIRST_COMPLETED).done:
                    _end(running.pop(future), future, view)
                view.tick()
    finally:
        workers.close()
        view.close()


def promote(jobs: list[Job], preset: Preset, halving: Halving, view: SweepView) -> bool:
    """Let the best candidates of a row go on, as soon as all of them have come to their rung;
    returns whether any did."""
    promoted = False
    for row in dict.fromkeys(job.row for job in jobs):
        rung = max(job.rung for job in jobs if job.row == row)
        here = [job for job in jobs if job.row == row and job.rung == rung]
        ended = sorted(
            (job for job in here if job.state == "done"),
            key=lambda job: (job.perplexity(), job.name),
        )
        unfinished = any(job.state in ("waiting", "running") for job in here)
        if unfinished or not ended or rung + 1 == len(halving.rungs):
            continue
        chosen = ended[: halving.kept(len(here))]
        for job in ended:
            job.state = "dropped"
        for job in chosen:
            job.rung, job.config = rung + 1, replace(job.config, steps=halving.rungs[rung + 1])
            if job.rung + 1 == len(halving.rungs):
                job.measurement = preset.measurement
            job.state = "done" if job.is_finished() else "waiting"
        names = ", ".join(job.name for job in chosen)
        view.message(f"after {halving.rungs[rung]:,} batches {len(chosen)} of {len(here)}: {names}")
        promoted = True
    return promoted


def _end(job: Job, future: "Future[int]", view: SweepView) -> None:
    """Enter how an attempt ended; a job that is to be tried again is waiting."""
    try:
        code, reason = future.result(), ""
    except Exception as error:  # Ray's: the task or its node was lost
        code, reason = -1, f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}; "
    if code == 0:
        job.state, job.error = "done", ""
        view.event(job, "done")
        return
    lost = code < 0 or code in (130, 143)
    if lost and not reason:
        reason = f"ended by signal {-code if code < 0 else code - 128}; "
    job.error = f"{reason}{'its last line: ' if reason else ''}{last_line(job.log)}"
    if not lost or job.saved_step() <= job.start_step:
        job.failures += 1
    job.state = "waiting" if job.failures < 2 else "failed"
    view.event(job, "failed" if job.state == "failed" else "again")


def last_line(log: Path) -> str:
    """What a run said last."""
    lines: list[str] = []
    with suppress(OSError):
        lines = log.read_text("utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


@contextmanager
def sweep_lock(out: Path, view: SweepView) -> Iterator[int]:
    """Keep a second sweep out of a folder; yields the file that holds the lock.

    Runs inherit the file and with it the lock: those of a killed sweep are waited for.
    """
    with writing(out):
        (out / LOGS).mkdir(parents=True, exist_ok=True)
        lock = open(out / LOCK, "wb")  # noqa: SIM115  closed below
    with lock:
        with suppress(ImportError):  # there are no such locks on Windows
            _take_lock(lock, out, view)
        yield lock.fileno()


def _take_lock(lock: IO[bytes], out: Path, view: SweepView) -> None:
    import fcntl

    began = time.monotonic()
    for attempt in count():
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if time.monotonic() > began + LOCK_TIMEOUT:
                raise InputError(f"{out}: another sweep is at work there") from None
        if attempt == 0:
            view.message(f"{out}: another sweep is at work there; waiting for its end")
        time.sleep(0.2)
