"""A sweep as a loop: what is done, in what order, and what becomes of failures."""

from collections import deque
from pathlib import Path

import pytest

from pushpop.errors import InputError
from pushpop.experiments import sweep as sweep_module
from pushpop.experiments.jobs import Job, Outcome, plan
from pushpop.experiments.presets import PlannedRun
from pushpop.experiments.sweep import JobStatus, SweepView, last_line, run_sweep, sweep_lock
from pushpop.experiments.sweep_view import LiveSweepView, PlainSweepView, clock
from pushpop.training import train
from tests.training.runs import tiny


class Scripted:
    """Workers whose attempts end as a script says; 'done' unless said otherwise."""

    def __init__(self, count: int = 1, **script: list[Outcome]) -> None:
        self.count, self.script = count, script
        self.busy: deque[Job] = deque()
        self.submitted: list[str] = []
        self.closed = self.stopped = False

    def free(self) -> int:
        return self.count - len(self.busy)

    def submit(self, job: Job) -> None:
        assert self.free()
        self.busy.append(job)
        self.submitted.append(job.name)

    def wait(self, seconds: float) -> list[Outcome]:
        job = self.busy.popleft()
        left = self.script.get(job.name, [])
        outcome = left.pop(0) if left else Outcome(job.name, "done")
        if outcome.error == "saved first":
            folder = job.directory / "checkpoints"
            folder.mkdir(parents=True, exist_ok=True)
            step = len(list(folder.iterdir())) + 1
            (folder / f"step-{step:08}.safetensors").touch()
        return [outcome]

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True


class Recorder(SweepView):
    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, str, str]] = []

    def event(self, row: JobStatus, what: str) -> None:
        self.events.append((row.job.name, what, row.error))


def jobs(folder: Path, *names: str) -> list[Job]:
    return [Job(name, folder / name, folder / "logs" / f"{name}.log", tiny()) for name in names]


def outcomes(name: str, kind: str, *errors: str) -> list[Outcome]:
    return [Outcome(name, kind, error) for error in errors]  # type: ignore[arg-type]


def test_jobs_are_started_in_order_and_not_more_than_workers_can_take(tmp_path: Path) -> None:
    workers = Scripted(count=2)
    rows = run_sweep(jobs(tmp_path, "a", "b", "c", "d"), workers)
    assert workers.submitted == ["a", "b", "c", "d"]
    assert [row.state for row in rows] == ["done"] * 4
    assert workers.closed


def test_a_failed_run_is_tried_once_more_after_the_others(tmp_path: Path) -> None:
    workers, seen = Scripted(a=outcomes("a", "failed", "bad luck")), Recorder()
    rows = run_sweep(jobs(tmp_path, "a", "b", "c"), workers, seen)
    assert workers.submitted == ["a", "b", "c", "a"]
    assert [row.state for row in rows] == ["done"] * 3
    assert ("a", "again", "bad luck") in seen.events


def test_a_run_that_fails_twice_has_failed_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    workers, seen = Scripted(a=outcomes("a", "failed", "bad", "worse", "never")), Recorder()
    rows = run_sweep(jobs(tmp_path, "a", "b"), workers, seen)
    assert workers.submitted == ["a", "b", "a"]
    assert [(row.state, row.error) for row in rows] == [("failed", "worse"), ("done", "")]
    assert seen.events[-1] == ("a", "failed", "worse")


def test_a_run_whose_worker_is_lost_is_taken_up_at_once(tmp_path: Path) -> None:
    workers = Scripted(a=outcomes("a", "lost", "signal 9"))
    rows = run_sweep(jobs(tmp_path, "a", "b"), workers)
    assert workers.submitted == ["a", "a", "b"]
    assert [row.state for row in rows] == ["done"] * 2


def test_a_run_may_lose_workers_as_often_as_it_gets_farther(tmp_path: Path) -> None:
    workers = Scripted(a=outcomes("a", "lost", *["saved first"] * 5))
    assert [row.state for row in run_sweep(jobs(tmp_path, "a"), workers)] == ["done"]
    workers = Scripted(b=outcomes("b", "lost", *["crash"] * 5))
    rows = run_sweep(jobs(tmp_path, "b"), workers)
    assert [row.state for row in rows] == ["failed"]
    assert workers.submitted == ["b", "b"]


def test_a_lost_workers_last_line_is_shown(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("batch 3\nMemory exhausted\n\n")
    workers = Scripted(a=outcomes("a", "lost", "signal 9", "signal 9"))
    (row,) = run_sweep(jobs(tmp_path, "a"), workers)
    assert row.error == "signal 9; its last line: Memory exhausted"
    assert last_line(tmp_path / "no such file") == ""


def test_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    run = PlannedRun("copy-queue", tiny())
    (job,) = plan((run,), tmp_path)
    assert not job.finished
    train(job.config, job.directory)
    (again,) = plan((run,), tmp_path)
    assert again.finished
    workers = Scripted()
    (row,) = run_sweep([again], workers)
    assert (row.state, row.finished_before, workers.submitted) == ("done", True, [])


def test_a_run_is_found_by_its_options_whatever_its_name(tmp_path: Path) -> None:
    train(tiny(seed=3), tmp_path / "some-name")
    planned = tuple(PlannedRun("some-name", tiny(seed=seed)) for seed in (2, 3))
    new, old = plan(planned, tmp_path)
    assert (new.name, new.finished) == ("some-name-2", False)
    assert (old.name, old.finished) == ("some-name", True)


def test_more_steps_extend_a_finished_run_and_fewer_leave_it(tmp_path: Path) -> None:
    train(tiny(steps=24), tmp_path / "copy-queue")

    def planned(steps: int, exact: bool = False) -> tuple[int, bool]:
        (job,) = plan((PlannedRun("copy-queue", tiny(steps=steps)),), tmp_path, exact)
        return job.config.steps, job.finished

    assert planned(30) == (30, False)
    assert planned(24) == (24, True)
    assert planned(10) == (24, True)
    assert planned(10, exact=True) == (24, True)


def test_a_stopped_extension_goes_on_unless_told_to_be_shorter(tmp_path: Path) -> None:
    train(tiny(steps=24), tmp_path / "copy-queue")
    from pushpop.training import RunDirectory

    with RunDirectory(tmp_path / "copy-queue") as run:
        run.update_config(tiny(steps=90))
    planned = (PlannedRun("copy-queue", tiny(steps=24)),)
    (job,) = plan(planned, tmp_path)
    assert (job.config.steps, job.finished) == (90, False)
    (job,) = plan(planned, tmp_path, exact=True)
    assert job.config.steps == 24


def test_a_run_is_no_folder_for_runs(tmp_path: Path) -> None:
    train(tiny(steps=1), tmp_path)
    with pytest.raises(InputError, match="is a run, expected a folder for runs"):
        plan((PlannedRun("copy-queue", tiny()),), tmp_path)


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
    for name in ("copy-queue", "copy-stack"):
        train(tiny(memory=name[5:]), tmp_path / name)
    workers = Scripted(**{"copy-stack": outcomes("copy-stack", "failed", "bad luck")})
    run_sweep(jobs(tmp_path, "copy-queue", "copy-stack"), workers, PlainSweepView())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 runs, 0 of them finished before"
    assert lines[1] == "started  copy-queue, after batch 24"
    assert lines[2].startswith("done     copy-queue  24 batches  perplexity ")
    assert "(1 of 2 done, 1 waiting, about 0:00 left)" in lines[2]
    log = tmp_path / "logs" / "copy-stack.log"
    assert lines[4] == f"again    copy-stack: bad luck (log: {log})"
    assert lines[-1].endswith("(2 of 2 done)")


def test_the_live_table_shows_every_state(tmp_path: Path) -> None:
    from io import StringIO

    from rich.console import Console

    shown = StringIO()
    console = Console(file=shown, width=100, force_terminal=True, color_system=None)
    train(tiny(), tmp_path / "b")
    workers = Scripted(a=outcomes("a", "failed", "bad [luck]", "worse"))
    run_sweep(jobs(tmp_path, "a", "b"), workers, LiveSweepView(console))
    text = shown.getvalue()
    for part in ("bad [luck]", "a ", "failed", "24 of 24", "1 of 2 done, 1 failed"):
        assert part in text


def test_time_left_is_hours_minutes_seconds() -> None:
    assert [clock(s) for s in (0, 61, 3600 + 62)] == ["0:00", "1:01", "1:01:02"]
