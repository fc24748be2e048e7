"""Local workers: killed, stopped and resumed, a sweep ends as if nothing had happened."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pushpop.cli import main
from pushpop.experiments.jobs import Job, plan
from pushpop.experiments.presets import load_preset
from pushpop.experiments.sweep import SweepView, run_sweep
from pushpop.experiments.workers import LocalWorkers
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
    """The results of a sweep that nobody disturbs, without workers."""
    folder = tmp_path_factory.mktemp("straight")
    for run in load_preset(write_preset(folder, base=LONG_ENOUGH_TO_BE_KILLED)).runs:
        train(run.config, folder / run.name)
    return results(folder)


class Killer(SweepView):
    """Kills a worker once its run has been saved."""

    def __init__(self, out: Path, workers: LocalWorkers) -> None:
        super().__init__()
        self.out, self.workers = out, workers
        self.killed = 0

    def tick(self) -> None:
        if not self.killed and self.workers.busy:
            worker = next(iter(self.workers.busy.values()))
            wait_until(lambda: checkpoints(self.out) or worker.process.poll() is not None)
            worker.process.kill()
            self.killed += 1


def test_a_killed_worker_is_replaced_and_its_run_goes_on(
    straight: dict[str, Any], tmp_path: Path
) -> None:
    preset = load_preset(write_preset(tmp_path, base=LONG_ENOUGH_TO_BE_KILLED))
    out = tmp_path / "out"
    workers = LocalWorkers(1)
    view = Killer(out, workers)
    rows = run_sweep(plan(preset.runs, out), workers, view)
    assert view.killed == 1
    assert [row.state for row in rows] == ["done", "done"]
    assert "resumed after batch" in (out / "logs" / "copy-queue.log").read_text()
    assert results(out) == straight


def test_a_killed_sweep_goes_on_and_ends_the_same(straight: dict[str, Any], tmp_path: Path) -> None:
    preset, out = write_preset(tmp_path, base=LONG_ENOUGH_TO_BE_KILLED), tmp_path / "out"
    options = (preset, "--out", str(out), "--workers", "1")
    first = start(*options)
    wait_until(lambda: checkpoints(out))
    first.kill()
    first.communicate()
    main(["sweep", *options])  # waits for the orphans, which save and leave
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
    workers = children(stopped.pid)
    os.kill(stopped.pid, signal.SIGINT)
    shown, errors = stopped.communicate(timeout=240)
    assert (stopped.returncode, errors) == (130, "")
    assert "stopping: every run finishes its batch and saves" in shown
    assert workers
    assert not any(os.path.exists(f"/proc/{pid}") for pid in workers)
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
    assert shown.out.count("again    copy-queue: ") == 1
    reason = "holds checkpoints but no training.json: expected a run or a new directory"
    log = out / "logs" / "copy-queue.log"
    expected = f"pushpop: copy-queue: {broken.parent.resolve()}: {reason} (log: {log})\n"
    assert shown.err == expected
    assert log.read_text().count(reason) == 2
    assert list(results(out)) == ["reverse-queue"]


def test_a_dry_run_lists_the_runs_and_touches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset, out = write_preset(tmp_path), tmp_path / "out"
    main(["sweep", preset, "--out", str(out), "--dry-run", "--only", "task=copy"])
    assert capsys.readouterr().out == "to do         24 copy-queue\n"
    assert not out.exists()


def test_a_job_goes_through_json_unchanged(tmp_path: Path) -> None:
    (job, _) = plan(load_preset(write_preset(tmp_path)).runs, tmp_path)
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
