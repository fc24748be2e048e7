"""A sweep as a loop: what is done, in what order, and what becomes of failures."""

import json
import re
from concurrent.futures import Future
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pushpop.errors import InputError
from pushpop.experiments import sweep as sweep_module
from pushpop.experiments.presets import Halving, PlannedRun, Preset
from pushpop.experiments.sweep import Job, SweepView, clock, last_line, plan, run_sweep, sweep_lock
from pushpop.training import RunDirectory, train
from tests.training.runs import tiny


class Scripted:
    """Workers whose attempts end as a script says: with an exit code, an exception, or "saved",
    which is a signal after a checkpoint. Without a script a run is trained."""

    def __init__(self, count: int = 1, **script: list[Any]) -> None:
        self.count, self.script = count, script
        self.started: list[str] = []
        self.closed = self.stopped = False

    def start(self, name: str, commands: list[list[str]], log: Path) -> "Future[int]":
        self.started.append(name)
        ending = self.script[name].pop(0) if self.script.get(name) else 0
        future: Future[int] = Future()
        if ending == "saved":
            folder = log.parents[1] / name / "checkpoints"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"step-{len(list(folder.iterdir())) + 1:08}.safetensors").touch()
            ending = -9
        if isinstance(ending, Exception):
            future.set_exception(ending)
            return future
        if isinstance(ending, str):  # what it says before it fails
            log.write_text(f"{ending}\n\n")
            ending = 2
        if ending == 0:
            directory = RunDirectory(log.parents[1] / name)
            options = dict(text.removeprefix("--").split("=") for text in commands[0][5:])
            train(directory.config().override(options), directory.path)
        future.set_result(ending)
        return future

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True


class Recorder(SweepView):
    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, str, str]] = []
        self.messages: list[str] = []

    def event(self, job: Job, what: str) -> None:
        self.events.append((job.name, what, job.error))

    def message(self, text: str) -> None:
        self.messages.append(text)


def preset(*names: str, halving: Halving | None = None) -> Preset:
    """Runs that differ in their seeds, of one row."""
    runs = [PlannedRun(name, tiny(seed=k, steps=6)) for k, name in enumerate(names)]
    return Preset("p", "", tuple(runs), halving=halving)


def sweep(folder: Path, workers: Scripted, *names: str, view: SweepView | None = None) -> list[Job]:
    planned = preset(*names)
    jobs = plan(planned, planned.runs, folder)
    run_sweep(planned, jobs, workers, view or Recorder())  # type: ignore[arg-type]
    return jobs


def states(jobs: list[Job]) -> list[str]:
    return [job.state for job in jobs]


def test_jobs_are_started_in_order(tmp_path: Path) -> None:
    workers = Scripted(count=2)
    assert states(sweep(tmp_path, workers, "a", "b", "c", "d")) == ["done"] * 4
    assert workers.started == ["a", "b", "c", "d"]
    assert workers.closed


def test_a_failed_run_is_tried_once_more_after_the_others(tmp_path: Path) -> None:
    workers, view = Scripted(a=["bad luck"]), Recorder()
    assert states(sweep(tmp_path, workers, "a", "b", "c", view=view)) == ["done"] * 3
    assert workers.started == ["a", "b", "c", "a"]
    assert ("a", "again", "bad luck") in view.events


def test_a_run_that_fails_twice_has_failed_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    workers, view = Scripted(a=["bad", "worse", "never"]), Recorder()
    jobs = sweep(tmp_path, workers, "a", "b", view=view)
    assert workers.started == ["a", "b", "a"]
    assert [(job.state, job.error) for job in jobs] == [("failed", "worse"), ("done", "")]
    assert view.events[-1] == ("a", "failed", "worse")


def test_a_run_whose_process_is_lost_is_taken_up_at_once(tmp_path: Path) -> None:
    for ending in (-9, 143, RuntimeError("the node died")):
        workers = Scripted(a=[ending])
        folder = tmp_path / str(ending)
        assert states(sweep(folder, workers, "a", "b")) == ["done"] * 2
        assert workers.started in (["a", "a", "b"], ["a", "b", "a"])


def test_a_run_may_lose_processes_as_often_as_it_gets_farther(tmp_path: Path) -> None:
    workers = Scripted(a=[*["saved"] * 5, 2, 2])
    assert states(sweep(tmp_path, workers, "a")) == ["failed"]
    assert len(workers.started) == 7
    workers = Scripted(b=[-9] * 5)
    assert states(sweep(tmp_path / "other", workers, "b")) == ["failed"]
    assert workers.started == ["b", "b"]


def test_a_lost_processs_last_line_is_shown(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("batch 3\nMemory exhausted\n\n")
    (job,) = sweep(tmp_path, Scripted(a=[-9, -9]), "a")
    assert job.error == "ended by signal 9; its last line: Memory exhausted"
    assert last_line(tmp_path / "no such file") == ""


def test_a_directory_that_holds_something_else_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "a" / "photos").mkdir(parents=True)
    jobs = sweep(tmp_path, Scripted(), "a", "b")
    assert states(jobs) == ["failed", "done"]
    assert "holds photos but no training.json" in jobs[0].error


def planned(run: PlannedRun, folder: Path, exact: bool = False) -> Job:
    (job,) = plan(Preset("p", "", (run,)), (run,), folder, exact)
    return job


def test_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    run = PlannedRun("copy-queue", tiny())
    job = planned(run, tmp_path)
    assert job.state == "waiting"
    train(job.config, job.directory)
    again, workers = planned(run, tmp_path), Scripted()
    run_sweep(Preset("p", "", (run,)), [again], workers, Recorder())  # type: ignore[arg-type]
    assert (again.state, workers.started) == ("done", [])


def test_a_run_is_found_by_its_options_whatever_its_name(tmp_path: Path) -> None:
    train(tiny(seed=3), tmp_path / "some-name")
    runs = tuple(PlannedRun("some-name", tiny(seed=seed)) for seed in (2, 3))
    new, old = plan(Preset("p", "", runs), runs, tmp_path)
    assert (new.name, new.state) == ("some-name-2", "waiting")
    assert (old.name, old.state) == ("some-name", "done")


def test_more_steps_extend_a_finished_run_and_fewer_leave_it(tmp_path: Path) -> None:
    train(tiny(steps=24), tmp_path / "copy-queue")

    def steps(steps: int, exact: bool = False) -> tuple[int, str]:
        job = planned(PlannedRun("copy-queue", tiny(steps=steps)), tmp_path, exact)
        return job.config.steps, job.state

    assert steps(30) == (30, "waiting")
    assert steps(24) == (24, "done")
    assert steps(10) == (24, "done")
    assert steps(10, exact=True) == (24, "done")


def test_a_stopped_extension_goes_on_unless_told_to_be_shorter(tmp_path: Path) -> None:
    train(tiny(steps=24), tmp_path / "copy-queue")
    with RunDirectory(tmp_path / "copy-queue") as run:
        run.update_config(tiny(steps=90))
    job = planned(PlannedRun("copy-queue", tiny(steps=24)), tmp_path)
    assert (job.config.steps, job.state) == (90, "waiting")
    job = planned(PlannedRun("copy-queue", tiny(steps=24)), tmp_path, exact=True)
    assert job.config.steps == 24


def test_a_run_is_no_folder_for_runs(tmp_path: Path) -> None:
    train(tiny(steps=1), tmp_path)
    with pytest.raises(InputError, match="is a run, expected a folder for runs"):
        planned(PlannedRun("copy-queue", tiny()), tmp_path)


HALVING = Halving((3, 6, 12), 0.5)


def test_the_best_by_training_perplexity_go_on_bit_for_bit(tmp_path: Path) -> None:
    names = ("a", "b", "c", "d", "e")
    halved, workers = preset(*names, halving=HALVING), Scripted(count=2)
    jobs = plan(halved, halved.runs, tmp_path / "out")
    run_sweep(halved, jobs, workers, view := Recorder())  # type: ignore[arg-type]
    assert sorted(job.config.steps for job in jobs) == [3, 3, 6, 12, 12]
    straight = {}
    for run in halved.runs:
        train(tiny(seed=run.config.seed, steps=12), tmp_path / run.name)
        straight[run.name] = (tmp_path / run.name / "metrics.jsonl").read_bytes()
    for steps, kept in ((3, 3), (6, 2)):
        candidates = [job for job in jobs if job.config.steps >= steps]
        best = sorted(candidates, key=lambda job: perplexity_until(tmp_path / job.name, steps))
        assert {job.name for job in best[:kept]} == {j.name for j in jobs if j.config.steps > steps}
    for job in jobs:
        log = (job.directory / "metrics.jsonl").read_bytes()
        assert straight[job.name].startswith(log)
    assert [text for text in view.messages if text.startswith("after 3 batches 3 of 5: ")]
    again = plan(halved, halved.runs, tmp_path / "out")
    run_sweep(halved, again, workers := Scripted(), Recorder())  # type: ignore[arg-type]
    assert workers.started == []
    assert [job.config.steps for job in again] == [job.config.steps for job in jobs]


def perplexity_until(run: Path, steps: int) -> tuple[float, str]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    full = [r for r in lines if r["step"] <= steps and r.get("longest", 6) >= 6]
    return min((r["perplexity"] for r in full if "perplexity" in r), default=inf), run.name


def test_a_candidate_that_fails_does_not_go_on(tmp_path: Path) -> None:
    halved = preset("a", "b", "c", halving=Halving((3, 6), 0.3))
    jobs = plan(halved, halved.runs, tmp_path)
    run_sweep(halved, jobs, Scripted(a=[2, 2], b=[2, 2]), Recorder())  # type: ignore[arg-type]
    assert states(jobs) == ["failed", "failed", "done"]
    assert jobs[2].config.steps == 6


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "LOCK_TIMEOUT", 0.3)
    view = Recorder()
    with (
        sweep_lock(tmp_path / "out", view),
        pytest.raises(InputError, match="another sweep is at work there"),
        sweep_lock(tmp_path / "out", view),
    ):
        pass
    with sweep_lock(tmp_path / "out", view):
        pass


def test_lines_tell_what_happens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workers = Scripted(b=["bad luck"])
    sweep(tmp_path, workers, "a", "b", view=SweepView())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 runs, 0 of them finished before"
    assert lines[1] == "started  a"
    assert lines[2].startswith("done     a  6 batches  perplexity ")
    assert re.search(r"\(1 of 2 done, 1 waiting, about 0:0\d left\)$", lines[2])
    log = tmp_path / "logs" / "b.log"
    assert f"again    b: bad luck (log: {log})" in lines
    assert lines[-1].endswith("(2 of 2 done)")


def test_a_terminal_shows_what_runs(tmp_path: Path) -> None:
    shown = StringIO()
    console = Console(file=shown, width=100, force_terminal=True, color_system=None)
    view = SweepView(console=console)
    sweep(tmp_path, Scripted(a=["bad [luck]", "worse"]), "a", "b", view=view)
    text = shown.getvalue()
    for part in ("bad [luck]", "failed", " of 6", "1 of 2 done, 1 waiting"):
        assert part in text


def test_time_left_is_hours_minutes_seconds() -> None:
    assert [clock(s) for s in (0, 61, 3600 + 62)] == ["0:00", "1:01", "1:01:02"]
