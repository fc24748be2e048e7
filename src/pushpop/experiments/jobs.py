"""A run as a piece of work: something a worker on any machine with the same folder can do."""

import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pushpop.errors import InputError
from pushpop.experiments.presets import PlannedRun, identity
from pushpop.experiments.records import find_runs
from pushpop.training import Diverged, RunDirectory, TrainConfig, train
from pushpop.training.run import TRAINING_FILE, RunLocked, is_final
from pushpop.training.view import PlainView

logger = logging.getLogger(__name__)

LOGS = "logs"
LOCK_TIMEOUT = 60.0
"""Seconds to wait for another process to save and leave."""


@dataclass(frozen=True)
class Job:
    """A run, where it belongs, and where what it says is written."""

    name: str
    directory: Path
    log: Path
    config: TrainConfig
    finished: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        paths = {"directory": str(self.directory.resolve()), "log": str(self.log.resolve())}
        return {"name": self.name, **paths, "config": self.config.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Job":
        """Undo `to_dict`."""
        config = TrainConfig.from_saved(data["config"])
        return cls(data["name"], Path(data["directory"]), Path(data["log"]), config)


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
            finished = report is not None and is_final(report, config)
        taken.add(name)
        jobs.append(Job(name, out / name, out / LOGS / f"{name}.log", config, finished))
    return jobs


def perform(job: Job) -> Outcome:
    """Train, in this process. A worker that was given up may still be at it: it is waited for."""
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
    except (KeyboardInterrupt, SystemExit):
        return Outcome(job.name, "stopped")
    except (InputError, Diverged) as error:
        logger.error("%s", error)
        return Outcome(job.name, "failed", " ".join(str(error).split()))
    except Exception as error:
        logger.exception("%s", job.name)
        return Outcome(job.name, "failed", " ".join(f"{type(error).__name__}: {error}".split()))
    return Outcome(job.name, "done")
