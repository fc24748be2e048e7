"""`pushpop sweep`."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pushpop.options import Command, argument, option

if TYPE_CHECKING:
    from pushpop.experiments.presets import Preset
    from pushpop.experiments.sweep import Job


@dataclass(frozen=True)
class Sweep(Command):
    """Train many runs, several at a time; started again, it goes on where it was stopped.

    Examples:
        pushpop sweep smoke
        pushpop sweep mini --workers 2 --only task=copy --dry-run
        pushpop sweep paper --plan
    """

    preset: str = argument(
        "ours, unseen, ours-lstm, mini, miniseeds, natural, drift, chomsky, table, paper, "
        "paper-grid, smoke, or a file",
    )
    out: str = option("", "the folder of the run directories; by default runs/PRESET")
    workers: int = option(
        0, "runs at a time, a process and a thread each; 0: as many as there are cores", least=0
    )
    steps: int = option(
        0,
        "batches of every run instead of what the preset says; finished runs are extended",
        least=0,
    )
    only: str = option("", "the runs with these options, as in task=copy,model=queue,model=deque")
    ray: str = option(
        "", "run on a Ray cluster whose nodes share the folder: its address, auto, or local"
    )
    dry_run: bool = option(False, "list the runs and leave")
    plan: bool = option(
        False, "list what is to be trained, row by row, with an estimate of the time, and leave"
    )

    def execute(self) -> None:
        import os
        from pathlib import Path

        from pushpop.experiments.presets import load_preset, select
        from pushpop.experiments.sweep import (
            LocalWorkers,
            RayWorkers,
            SweepView,
            run_sweep,
            sweep_lock,
        )
        from pushpop.experiments.sweep import plan as plan_jobs

        chosen = load_preset(self.preset, {"steps": self.steps} if self.steps else {})
        runs = select(chosen.runs, self.only)
        folder = Path(self.out or f"runs/{chosen.name}")
        exact = self.steps > 0
        if self.plan or self.dry_run:
            jobs = plan_jobs(chosen, runs, folder, exact)
            if self.plan:
                print_plan(chosen, jobs)
                return
            for job in jobs:
                state = "finished" if job.state == "done" else "to do   "
                print(state, f"{job.config.steps:7,}", job.name)
            return
        view = SweepView(chosen.halving)
        with sweep_lock(folder, view) as lock:
            pool: LocalWorkers | RayWorkers
            pool = (
                RayWorkers(self.ray, self.workers or None)
                if self.ray
                else LocalWorkers(self.workers or os.cpu_count() or 1, lock)
            )
            jobs = plan_jobs(chosen, runs, folder, exact)
            run_sweep(chosen, jobs, pool, view)
        failed = [job for job in jobs if job.state == "failed"]
        print(f"{len(jobs) - len(failed)} of {len(jobs)} runs finished, in {folder}")
        if failed:
            for job in failed:
                print(f"pushpop: {job.name}: {job.error} (log: {job.log})", file=sys.stderr)
            raise SystemExit(1)


def print_plan(preset: "Preset", jobs: "list[Job]") -> None:
    """What each row will be trained for at most, and how long that takes on this machine."""
    from pushpop.experiments.sweep import clock
    from pushpop.training.trainer import time_batch

    total_batches, total_seconds = 0, 0.0
    for row in dict.fromkeys(job.row for job in jobs):
        of_row = [job for job in jobs if job.row == row]
        if preset.halving is None:
            stages = [(1, job.config.steps) for job in of_row]
            text = f"{len(of_row)} runs"
        else:
            stages = preset.halving.stages(len(of_row))
            rungs = zip(stages, preset.halving.rungs, strict=True)
            text = ", ".join(f"{runs} to {rung:,}" for (runs, _), rung in rungs)
        batches = sum(runs * length for runs, length in stages)
        sizes = {job.config.hidden: job.config for job in of_row}
        speed = sum(time_batch(config) for config in sizes.values()) / len(sizes)
        print(f"{' '.join(row):20} {text:50} {batches:9,} batches  {clock(speed * batches)}")
        total_batches, total_seconds = total_batches + batches, total_seconds + speed * batches
    print(
        f"{len(jobs)} runs, {total_batches:,} batches at most, {clock(total_seconds)} on one core: "
        "an estimate from a few batches of each model, timed now; runs that converge end earlier"
    )
