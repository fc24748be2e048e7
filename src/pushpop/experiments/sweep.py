"""A sweep: the runs of a preset, each trained by `pushpop train` in a directory of its own.

A run directory is all that a sweep knows of a run, so a sweep that was killed, or is started again
with a larger preset, goes on where its runs are. With successive halving, the candidates of a row
(a task and a model) are trained to the first rung and compared by average training perplexity; a
share of them goes on to the next, as if it had never stopped. What a run's log says up to a rung
decides, so it does not matter how far the run is by now.

Runs are in processes on this machine (`LocalWorkers`), or in tasks of a Ray cluster (`RayWorkers`).
A job is a few commands of pushpop, one after the other, whose output goes to the job's log. Each is
a process of its own, and stops by itself when it loses its parent (`training.signals`).
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID

from pushpop.errors import InputError, writing
from pushpop.experiments.presets import (
    Halving,
    Measurement,
    PlannedRun,
    Preset,
    free_name,
    identity,
)
from pushpop.experiments.runs import perplexities, read_metrics, read_run
from pushpop.training import RunDirectory, TrainConfig
from pushpop.training.checkpoint import PARENT, Signals, saved_steps
from pushpop.training.run import METRICS_FILE, TRAINING_FILE
from pushpop.training.view import clock, main_scores

LOCK, LOGS = ".sweep-lock", "logs"
LOCK_TIMEOUT = 60.0
"""Seconds to wait for the processes of a sweep that was killed to save and leave."""
POLL = 0.1
"""Seconds from one look at signals, runs and processes to the next."""
Commands = list[list[str]]
"""The arguments of `pushpop`, for each command."""


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
        reported = perplexities(self.config, read_metrics(self.directory / METRICS_FILE))
        until = (figure for step, figure in reported.items() if step <= self.config.steps)
        return min(until, default=inf)

    def saved_step(self) -> int:
        """The last batch that is saved, or -1."""
        return max(saved_steps(self.directory / "checkpoints"), default=-1)


def run_commands(
    commands: Commands,
    log: Path,
    processes: "list[subprocess.Popen[bytes]]",
    keep_open: Sequence[int] = (),
) -> int:
    """Run commands until one fails; returns its exit code, or 0. The last of `processes` is the one
    under way.

    The terminal's Ctrl-C does not reach them. -P: nothing is imported from the current folder.
    """
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for arguments in commands:
        with open(log, "ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pushpop", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **threads, PARENT: str(os.getpid())},
                start_new_session=True,
                pass_fds=keep_open,
            )
        processes.append(process)
        while process.poll() is None:
            time.sleep(POLL)  # Ray cannot interrupt a wait
        if process.returncode:
            return process.returncode
    return 0


class LocalWorkers:
    """At most `count` jobs at a time. Their processes keep the file `lock` open, and with it a lock
    on it."""

    def __init__(self, count: int, lock: int | None = None) -> None:
        self.count = count
        self.keep_open = () if lock is None else (lock,)
        self.pool = ThreadPoolExecutor(count)  # a thread waits for the processes of a job
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, commands: Commands, log: Path) -> "Future[int]":
        """Start a job; the result is the exit code of the command that failed, or 0."""
        return self.pool.submit(run_commands, commands, log, self.processes, self.keep_open)

    def stop(self) -> None:
        """Have every run finish its batch and save."""
        for process in self.processes:
            process.terminate()

    def close(self) -> None:
        """End at once what is left; a run has its last checkpoint."""
        for process in self.processes:
            process.kill()
        self.pool.shutdown()


class RayWorkers:
    """As many jobs at a time as the cluster has processors, or at most `most`.

    Ray itself retries nothing: the sweep starts a job again that was lost with its node.
    """

    def __init__(self, address: str, most: int | None = None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ModuleNotFoundError:
            raise InputError("--ray needs Ray: pip install 'pushpop[ray]'") from None
        self.ray: Any = ray
        self.most = most
        self.tasks: list[Any] = []
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address == "local":
            options["include_dashboard"] = False
        try:
            ray.init(address=address, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(f"--ray {address}: no cluster there: {error}") from None

    @property
    def count(self) -> int:
        """How many jobs there may be at a time: nodes come and go."""
        processors = int(self.ray.cluster_resources().get("CPU", 0))
        return min(processors, self.most or processors)

    def start(self, name: str, commands: Commands, log: Path) -> "Future[int]":
        """Start a job as a task."""
        task = self.ray.remote(run_on_node).options(name=name, num_cpus=1, max_retries=0)
        self.tasks.append(task.remote(commands, str(log.resolve()), os.getcwd()))
        future: Future[int] = self.tasks[-1].future()
        return future

    def stop(self) -> None:
        """Interrupt every task, which stops its run."""
        for task in self.tasks:
            self.ray.cancel(task, force=False)

    def close(self) -> None:
        """Leave the cluster; tasks under way are ended with it."""
        for task in self.tasks:
            self.ray.cancel(task, force=True)
        self.ray.shutdown()


def run_on_node(commands: Commands, log: str, folder: str) -> int:
    """Run the commands of a job on whatever node this is; relative paths are from `folder`."""
    from socket import gethostname

    from ray import get_runtime_context

    if os.path.isdir(folder):
        os.chdir(folder)
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"on {gethostname()}, Ray node {get_runtime_context().get_node_id()}\n")
    processes: list[subprocess.Popen[bytes]] = []
    try:
        return run_commands(commands, Path(log), processes)
    except BaseException:  # the task is cancelled
        processes[-1].terminate()
        processes[-1].wait()
        raise


class SweepView:
    """Prints what happens, and shows how far each run under way is."""

    def __init__(self, halving: Halving | None = None, console: Console | None = None) -> None:
        self.halving, self.console = halving, console or Console()
        self.jobs: list[Job] = []
        self.bars: dict[str, TaskID] = {}
        self.first_batches, self.began, self.drawn = 0, time.monotonic(), 0.0
        columns = "{task.description}", BarColumn(30), "{task.completed:,.0f} of {task.total:,.0f}"
        show = self.console.is_terminal
        self.progress = Progress(
            *columns, "{task.fields[figures]}", console=self.console, disable=not show
        )

    def begin(self, jobs: list[Job]) -> None:
        self.jobs, self.first_batches = jobs, batches_done(jobs)
        done = sum(job.state == "done" for job in jobs)
        self.message(f"{len(jobs)} runs, {done} of them finished before")
        self.progress.start()

    def message(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def event(self, job: Job, what: str) -> None:
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
            left = speed * (planned_batches(self.jobs, self.halving) - done)
            parts.append(f"about {clock(left)} left")
        return ", ".join(parts)


def planned_batches(jobs: list[Job], halving: Halving | None) -> int:
    """The batches that all runs have when the sweep is done."""
    if halving is None:
        return sum(job.config.steps for job in jobs)
    candidates = Counter(job.row for job in jobs).values()
    return sum(runs * length for n in candidates for runs, length in halving.stages(n))


def batches_done(jobs: list[Job]) -> int:
    """The batches that runs have had; one that is done has had all that it was planned for."""
    over = ("done", "failed")
    return sum(job.config.steps if job.state in over else last_figures(job)[0] for job in jobs)


def last_figures(job: Job) -> tuple[int, str]:
    """How far the log of a run goes, and the perplexity and accuracy that it has last."""
    last: dict[str, Any] = {"step": 0}
    for record in read_metrics(job.directory / METRICS_FILE):
        last |= record
    parts = [f"perplexity {last['perplexity']:.3f}"] if "perplexity" in last else []
    if "test" in last:
        parts.append("test {:.3f}/{:.3f}".format(*main_scores(last["test"])))
    elif "valid" in last:
        figure = "accuracy" if "accuracy" in last["valid"] else "perplexity"
        parts.append(f"{figure} {last['valid'][figure]:.3f}")
    return last["step"], "  ".join(parts)


def plan(preset: Preset, runs: tuple[PlannedRun, ...], out: Path, exact: bool = False) -> list[Job]:
    """A job for every run; one that `out` holds already, under whatever name, is gone on with.

    A run is not made shorter than it was planned before; `exact`: not shorter than it is by now.
    With rungs, every run is to come to the first.
    """
    if (out / TRAINING_FILE).exists():
        raise InputError(f"{out}: is a run, expected a folder for runs")
    found = sorted(path.parent for path in out.glob(f"*/{TRAINING_FILE}"))
    known = {identity(RunDirectory(path).config()): path for path in reversed(found)}
    taken = {path.name for path in found}
    jobs = []
    for run in runs:
        config, before = run.config, known.get(identity(run.config))
        name = free_name(run.name, taken) if before is None else before.name
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
    lines = log.read_text("utf-8", errors="replace").split("\n") if log.exists() else []
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
            import fcntl

            began = time.monotonic()
            for attempt in count():
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > began + LOCK_TIMEOUT:
                        raise InputError(f"{out}: another sweep is at work there") from None
                if attempt == 0:
                    view.message(f"{out}: another sweep is at work there; waiting for its end")
                time.sleep(0.2)
        yield lock.fileno()
