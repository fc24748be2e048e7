"""A run as a piece of work: something a worker on any machine with the same folder can do."""

import logging
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pushpop.errors import InputError
from pushpop.experiments.measure import NO_MEASUREMENT, Measurement, measure
from pushpop.experiments.presets import PlannedRun, identity
from pushpop.experiments.records import find_runs, read_run
from pushpop.training import Diverged, RunDirectory, TrainConfig, train
from pushpop.training.run import TRAINING_FILE, RunLocked, is_final
from pushpop.training.view import PlainView

logger = logging.getLogger(__name__)

LOGS = "logs"
LOCK_TIMEOUT = 60.0
"""Seconds to wait for another process to save and leave."""


@dataclass(frozen=True)
class Job:
    """A run, where it belongs, where what it says is written, and what is measured of it."""

    name: str
    directory: Path
    log: Path
    config: TrainConfig
    measurement: Measurement = NO_MEASUREMENT
    finished: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        paths = {"directory": str(self.directory.resolve()), "log": str(self.log.resolve())}
        options = {"config": self.config.to_dict(), "measurement": asdict(self.measurement)}
        return {"name": self.name, **paths, **options}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Job":
        """Undo `to_dict`."""
        config, wanted = TrainConfig.from_saved(data["config"]), data["measurement"]
        measurement = Measurement(tuple(wanted["lengths"]), wanted["sequences"])
        return cls(data["name"], Path(data["directory"]), Path(data["log"]), config, measurement)


@dataclass(frozen=True)
class Outcome:
    """How an attempt at a job ended: `failed` by itself, or `lost` with the worker that did it."""

    name: str
    kind: Literal["done", "failed", "lost", "stopped"]
    error: str = ""


def plan(runs: tuple[PlannedRun, ...], out: Path, exact: bool = False) -> list[Job]:
    """A job for every run; one that `out` holds already, under whatever name, is gone on with.

    A run is not made shorter than it was planned before; `exact`: not shorter than it is by now.
    """
    if (out / TRAINING_FILE).exists():
        raise InputError(f"{out}: is a run, expected a folder for runs")
    known: dict[str, Path] = {}
    taken = set()
    for found in find_runs(out):
        taken.add(found.name)
        known.setdefault(identity(RunDirectory(found).config()), found)
    jobs = []
    for run in runs:
        path, config, name = known.get(identity(run.config)), run.config, run.name
        finished = False
        if path is None:
            number = 2
            while name in taken:
                name, number = f"{run.name}-{number}", number + 1
        else:
            name, before = path.name, RunDirectory(path)
            least = before.batches_done() if exact else before.config().steps
            config = replace(config, steps=max(config.steps, least))
            report = before.report()
            if report is not None and is_final(report, config):
                finished = not run.measurement.missing(read_run(path))
        taken.add(name)
        log = out / LOGS / f"{name}.log"
        jobs.append(Job(name, out / name, log, config, run.measurement, finished))
    return jobs


def perform(job: Job) -> Outcome:
    """Train and measure, in this process. A worker that was given up may still be at it: it is
    waited for."""
    until = time.monotonic() + LOCK_TIMEOUT
    try:
        while True:
            try:
                train(job.config, job.directory, PlainView())
                break
            except RunLocked:
                if time.monotonic() > until:
                    raise
            time.sleep(0.5)
        measure(job.directory, job.measurement)
    except (KeyboardInterrupt, SystemExit):
        return Outcome(job.name, "stopped")
    except (InputError, Diverged) as error:
        logger.error("%s", error)
        return Outcome(job.name, "failed", " ".join(str(error).split()))
    except Exception as error:
        logger.exception("%s", job.name)
        return Outcome(job.name, "failed", " ".join(f"{type(error).__name__}: {error}".split()))
    return Outcome(job.name, "done")
