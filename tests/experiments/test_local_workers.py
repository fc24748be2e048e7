"""Local workers: killed, stopped and resumed, a sweep ends as if nothing had happened."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pushpop.cli import main
from pushpop.experiments.presets import load_preset
from pushpop.experiments.sweep import LocalWorkers, SweepView, plan, run_sweep
from pushpop.training import train
from tests.experiments.sweeps import (
    LONG_ENOUGH_TO_BE_KILLED,
    checkpoints,
    children,
    results,
    start,
    wait_until,
    write_preset,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of runs that nobody disturbs, without a sweep."""
    folder = tmp_path_factory.mktemp("straight")
    for run in load_preset(write_preset(folder, base=LONG_ENOUGH_TO_BE_KILLED)).runs:
        train(run.config, folder / run.name)
    return results(folder)


class Killer(SweepView):
    """Kills the process of a run once it has saved."""

    def __init__(self, out: Path, workers: LocalWorkers) -> None:
        super().__init__()
        self.out, self.pool = out, workers
        self.killed = 0

    def tick(self) -> None:
        if not self.killed and self.pool.processes:
            process = self.pool.processes[0]
            wait_until(lambda: checkpoints(self.out) or process.poll() is not None)
            process.kill()
            self.killed += 1


def test_a_killed_run_goes_on(straight: dict[str, Any], tmp_path: Path) -> None:
    preset = load_preset(write_preset(tmp_path, base=LONG_ENOUGH_TO_BE_KILLED))
    out = tmp_path / "out"
    workers = LocalWorkers(1)
    view = Killer(out, workers)
    jobs = plan(preset, preset.runs, out)
    run_sweep(preset, jobs, workers, view)
    assert view.killed == 1
    assert [job.state for job in jobs] == ["done", "done"]
    assert "resumed after batch" in (out / "logs" / "copy-queue.log").read_text()
    assert results(out) == straight


def test_a_killed_sweep_goes_on_and_ends_the_same(straight: dict[str, Any], tmp_path: Path) -> None:
    preset, out = write_preset(tmp_path, base=LONG_ENOUGH_TO_BE_KILLED), tmp_path / "out"
    options = (preset, "--out", str(out), "--workers", "1")
    first = start(*options)
    wait_until(lambda: checkpoints(out))
    first.kill()
    first.communicate()
    main(["sweep", *options])  # waits for the runs of the first, which save and leave
    assert results(out) == straight
    main(["sweep", *options])
    assert results(out) == straight
    main(["report", str(out)])
    rows = json.loads((out / "table.json").read_text())
    assert [row["run"] for row in rows if row["run"]] == ["copy-queue", "reverse-queue"]
    assert (out / "report.html").exists()


def test_ctrl_c_saves_every_run_and_leaves_with_130(
    straight: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset, out = write_preset(tmp_path, base=LONG_ENOUGH_TO_BE_KILLED), tmp_path / "out"
    options = (preset, "--out", str(out), "--workers", "1")
    stopped = start(*options)
    wait_until(lambda: checkpoints(out))
    runs = children(stopped.pid)
    os.kill(stopped.pid, signal.SIGINT)
    shown, errors = stopped.communicate(timeout=240)
    assert (stopped.returncode, errors) == (130, "")
    assert "stopping: every run finishes its batch and saves" in shown
    assert runs
    assert not any(os.path.exists(f"/proc/{pid}") for pid in runs)
    assert "stopped after batch" in (out / "logs" / "copy-queue.log").read_text()
    main(["sweep", *options])
    assert "started  copy-queue, after batch " in capsys.readouterr().out
    assert results(out) == straight


def test_a_run_that_fails_is_reported_and_the_others_are_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset, out = write_preset(tmp_path), tmp_path / "out"
    broken = out / "copy-queue" / "checkpoints"
    broken.mkdir(parents=True)
    with pytest.raises(SystemExit) as left:
        main(["sweep", preset, "--out", str(out), "--workers", "1"])
    assert left.value.code == 1
    shown = capsys.readouterr()
    assert "1 of 2 runs finished" in shown.out
    assert shown.out.count("failed   copy-queue: ") == 1
    reason = "holds checkpoints but no training.json: expected a run or a new directory"
    log = out / "logs" / "copy-queue.log"
    assert shown.err == f"pushpop: copy-queue: {broken.parent}: {reason} (log: {log})\n"
    assert list(results(out)) == ["reverse-queue"]


def test_a_dry_run_lists_the_runs_and_touches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset, out = write_preset(tmp_path), tmp_path / "out"
    main(["sweep", preset, "--out", str(out), "--dry-run", "--only", "task=copy"])
    assert capsys.readouterr().out == "to do         24 copy-queue\n"
    assert not out.exists()


HALVED: dict[str, Any] = {
    "base": {
        "curriculum_start": 0,
        "checkpoint_every": 5,
        "report_every": 10,
        "evaluate_every": 100,
    },
    "grid": {"task": ["copy", "reverse"], "model": ["queue"], "seed": [0, 1, 2]},
    "halving": {"rungs": [20, 60], "keep": 0.5},
}


def test_a_sweep_with_rungs_that_is_killed_promotes_the_same_runs(tmp_path: Path) -> None:
    preset, out = write_preset(tmp_path, **HALVED), tmp_path / "straight"
    main(["sweep", preset, "--out", str(out), "--workers", "2"])
    straight = results(out)
    assert sorted(report["step"] for report, _ in straight.values()) == [20, 20, 60, 60, 60, 60]
    out = tmp_path / "killed"
    options = (preset, "--out", str(out), "--workers", "2")
    for saved in (1, 4):  # while the first rung is trained, and later
        kill_after(saved, start(*options), out)
    main(["sweep", *options])
    assert results(out) == straight


def kill_after(saved: int, sweep: "subprocess.Popen[str]", out: Path) -> None:
    """Kill a sweep once there are more checkpoints than `saved`."""
    wait_until(lambda: sweep.poll() is not None or len(checkpoints(out)) > saved)
    sweep.kill()
    sweep.communicate()


def test_a_plan_says_what_each_row_may_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset, out = write_preset(tmp_path, **HALVED), tmp_path / "out"
    main(["sweep", preset, "--out", str(out), "--plan"])
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[0].split()).startswith("copy queue 3 to 20, 2 to 60 140 batches 0:")
    assert lines[2].startswith("6 runs, 280 batches at most, 0:")
    assert not out.exists()
