"""`pushpop sweep`."""

import sys

from pushpop.errors import InputError


def sweep(
    preset: str,
    out: str = "",
    workers: int = 0,
    steps: int = 0,
    only: str = "",
    ray: str = "",
    dry_run: bool = False,
) -> None:
    """Train many runs, several at a time; started again, it goes on where it was stopped.

    Args:
        preset: ours, unseen, ours-lstm, mini, miniseeds, natural, chomsky, table, paper, smoke,
            protocol, pushbias, popbias, lstmseeds, by-task, by-task-seeds, drift, or a file
        out: the folder of the run directories; by default runs/PRESET
        workers: runs at a time, a process and a thread each; 0: as many as there are cores
        steps: batches of every run instead of what the preset says; finished runs are extended
        only: the runs with these options, as in task=copy,model=queue,model=deque
        ray: run on a Ray cluster whose nodes share the folder: its address, auto, or local
        dry_run: list the runs and leave

    Examples:
        pushpop sweep smoke
        pushpop sweep mini --workers 2 --only task=copy --dry-run
    """
    import os
    from pathlib import Path

    from pushpop.experiments.jobs import plan
    from pushpop.experiments.presets import load_preset, select
    from pushpop.experiments.sweep import run_sweep, sweep_lock
    from pushpop.experiments.sweep_view import LiveSweepView, PlainSweepView
    from pushpop.experiments.workers import LocalWorkers, Workers

    for name, value in (("workers", workers), ("steps", steps)):
        if value < 0:
            raise InputError(f"--{name} is {value}, expected 1 or more")
    chosen = load_preset(preset, {"steps": steps} if steps else {})
    runs = select(chosen.runs, only)
    folder = Path(out or f"runs/{chosen.name}")
    exact = steps > 0
    if dry_run:
        for job in plan(runs, folder, exact):
            print("finished" if job.finished else "to do   ", f"{job.config.steps:7,}", job.name)
        return
    view = LiveSweepView() if sys.stdout.isatty() else PlainSweepView()
    with sweep_lock(folder, view) as lock:
        pool: Workers = LocalWorkers(workers or os.cpu_count() or 1, lock)
        if ray:
            from pushpop.experiments.ray_workers import RayWorkers

            pool = RayWorkers(ray, workers or None)
        view.workers = max(1, min(pool.free(), len(runs)))
        rows = run_sweep(plan(runs, folder, exact), pool, view)
    failed = [row for row in rows if row.state == "failed"]
    print(f"{len(rows) - len(failed)} of {len(rows)} runs finished, in {folder}")
    if failed:
        for row in failed:
            print(f"pushpop: {row.job.name}: {row.error} (log: {row.job.log})", file=sys.stderr)
        raise SystemExit(1)
