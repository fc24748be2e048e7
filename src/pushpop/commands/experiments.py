"""`pushpop sweep` and `pushpop report`: many runs, and what they show."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pushpop.errors import counted
from pushpop.files import tell
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
        "ours, unseen, ours-lstm, mini, natural, drift, chomsky, table, paper, paper-grid, smoke, "
        "or a file",
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
            count = self.workers or os.cpu_count() or 1
            pool: LocalWorkers | RayWorkers = LocalWorkers(count, lock)
            if self.ray:
                pool = RayWorkers(self.ray, self.workers or None)
            jobs = plan_jobs(chosen, runs, folder, exact)
            run_sweep(chosen, jobs, pool, view)
        failed = [job for job in jobs if job.state == "failed"]
        print(f"{len(jobs) - len(failed)} of {len(jobs)} runs finished, in {folder}")
        if failed:
            for job in failed:
                tell(f"{job.name}: {job.error} (log: {job.log})")
            raise SystemExit(1)


def print_plan(preset: "Preset", jobs: "list[Job]") -> None:
    """What each row will be trained for at most, and how long that takes on this machine."""
    from pushpop.training.trainer import time_batch
    from pushpop.training.view import clock

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


@dataclass(frozen=True)
class Report(Command):
    """Write the paper's table beside ours, figures and a page; of runs on files, learning curves.

    Examples:
        pushpop report runs/mini
        pushpop report runs/mini --out report
        pushpop report runs/mini --grammars runs/natural --out report
    """

    results: str = argument("a folder of runs; unfinished ones are shown as far as they are")
    out: str = option("", "where the files go; by default into the folder itself")
    grammars: str = option(
        "",
        "another folder, whose runs stand in the rows of the paper's grammars, which are then "
        "judged on the grammars' own lengths",
    )
    page: str = option(
        "",
        "a Markdown file in which the tables are replaced that stand between marks, as in "
        "<!-- mini/table.md --> and <!-- /mini/table.md --> for a folder named mini",
    )
    collect: str = option(
        "",
        "pack the runs, without their models, into runs.jsonl.gz in this folder, to keep them, and "
        "leave",
    )

    def execute(self) -> None:
        from pushpop.experiments.report import make_report, put_into_page, write_report
        from pushpop.experiments.runs import collect as pack_runs

        folder = Path(self.results)
        if self.collect:
            copied = counted(pack_runs(folder, Path(self.collect)), "run")
            print(f"{copied} copied into {self.collect}")
            return
        made = make_report(folder, Path(self.grammars) if self.grammars else None)
        write_report(made, Path(self.out) if self.out else folder)
        for note in made.notes:
            tell(note)
        if self.page:
            put_into_page(made, folder, Path(self.page))
        if sys.stdout.isatty():
            from rich.console import Console
            from rich.markdown import Markdown

            Console().print(Markdown(made.files["table.md"]))
        else:
            print(made.files["table.md"], end="")
        print(
            f"{len(made.files)} files in {self.out or self.results}: {', '.join(made.files)}",
            file=sys.stderr,
        )
