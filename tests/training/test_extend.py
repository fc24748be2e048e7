"""A run goes on under other options of when to stop, and ends as if it had had them at once."""

import json
from math import log
from pathlib import Path
from typing import Any

import pytest

from pushpop.cli import main
from pushpop.errors import InputError
from pushpop.training import RunDirectory, loop, train
from pushpop.training import data as data_module
from pushpop.training.checkpoint import saved_steps
from pushpop.training.run import load_trained
from pushpop.training.schedule import Progress, stop_reason
from tests.training.runs import Killed, at_call, killed, remains, tiny

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("straight")
    train(tiny(), path)
    return remains(path)


@pytest.mark.parametrize("end", [3, 4, 7, 10, 12, 23], ids=lambda end: f"ended-at-{end}")
def test_a_finished_run_goes_on_as_if_it_had_not_ended(
    end: int, straight: dict[str, Any], tmp_path: Path
) -> None:
    assert train(tiny(steps=end), tmp_path)["step"] == end
    report = train(tiny(), tmp_path)
    assert report["step"] == 24
    assert remains(tmp_path) == straight
    assert RunDirectory(tmp_path).config() == tiny()
    assert train(tiny(), tmp_path) == report


def test_an_unfinished_run_goes_on_to_another_end(straight: dict[str, Any], tmp_path: Path) -> None:
    with at_call(data_module, "evaluate", 5, killed), pytest.raises(Killed):
        train(tiny(steps=1000), tmp_path)
    train(tiny(), tmp_path)
    assert remains(tmp_path) == straight


def test_a_run_out_of_time_goes_on_with_more(straight: dict[str, Any], tmp_path: Path) -> None:
    assert train(tiny(minutes=1e-6), tmp_path)["stopped_by"] == "time"
    assert train(tiny(minutes=1e-6), tmp_path)["step"] == 1
    assert train(tiny(), tmp_path)["stopped_by"] == "steps"
    assert remains(tmp_path) == straight


def test_a_solved_run_goes_on_when_told(
    straight: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "STOP_ACCURACY", 0.0)
    report = train(tiny(until_solved=True), tmp_path)
    assert (report["stopped_by"], report["step"]) == ("solved", 12)
    assert train(tiny(until_solved=True), tmp_path) == report
    assert train(tiny(), tmp_path)["stopped_by"] == "steps"
    monkeypatch.undo()
    found = remains(tmp_path)
    assert found["metrics"] == straight["metrics"]
    assert found["model"] == straight["model"]


def test_a_converged_run_goes_on_when_told(straight: dict[str, Any], tmp_path: Path) -> None:
    report = train(tiny(converged_after=2), tmp_path)
    assert (report["stopped_by"], report["without_gain"]) == ("converged", 2)
    assert train(tiny(converged_after=2), tmp_path) == report
    assert train(tiny(), tmp_path)["stopped_by"] == "steps"
    assert remains(tmp_path) == straight


def test_a_run_whose_rate_has_faded_goes_on_when_told(tmp_path: Path) -> None:
    fading: dict[str, Any] = {"decay": 0.9, "decay_below": 1000.0, "steps": 30}
    straight = train(tiny(**fading), tmp_path / "straight")
    report = train(tiny(**fading, until_faded=0.5), tmp_path / "run")
    assert (report["stopped_by"], report["step"] < 30) == ("faded", True)
    assert 0.45 < report["faded"] <= 0.5
    assert train(tiny(**fading, until_faded=0.5), tmp_path / "run") == report
    assert train(tiny(**fading), tmp_path / "run")["stopped_by"] == "steps"
    assert remains(tmp_path / "run") == remains(tmp_path / "straight")
    assert straight["faded"] < 0.5


def test_a_cooldown_belongs_to_its_end(tmp_path: Path) -> None:
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    train(tiny(cooldown=12), straight)
    lines = (straight / "metrics.jsonl").read_text().splitlines()
    rates = [rate for line in lines if (rate := json.loads(line).get("learning_rate")) is not None]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == 0
    with at_call(loop.Session, "step", 18, killed), pytest.raises(Killed):
        train(tiny(cooldown=12), stopped)
    with pytest.raises(InputError, match="holds a run with steps 24, not 30"):
        train(tiny(cooldown=12, steps=30), stopped)
    train(tiny(cooldown=12), stopped)
    assert remains(stopped) == remains(straight)


def test_a_gain_is_one_per_cent_at_the_same_lengths_or_longer_sources() -> None:
    progress = Progress(longest=8, rate=1.0, interval_longest=8)
    told = []
    for perplexity, longest in [(10.0, 8), (9.95, 8), (9.8, 8), (12.0, 16), (3.0, 8), (11.95, 16)]:
        progress.step += 100
        progress.interval = [100 * log(perplexity), 100]
        progress.interval_longest = longest
        progress.report()
        told.append(progress.without_gain)
    assert told == [0, 100, 0, 0, 100, 200]


PLACES = [
    (data_module, "evaluate", 1),
    (loop.Session, "step", 1),
    (loop.Session, "step", 9),
    (RunDirectory, "write", 1),  # training.json
    (RunDirectory, "write", 2),  # report.json
]


@pytest.mark.parametrize(("place", "name", "number"), PLACES)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_while_going_on_loses_nothing(
    place: Any, name: str, number: int, after: bool, straight: dict[str, Any], tmp_path: Path
) -> None:
    first = train(tiny(steps=10), tmp_path)
    with at_call(place, name, number, killed, after), pytest.raises(Killed):
        train(tiny(), tmp_path)
    run = RunDirectory(tmp_path)
    if name == "write":
        ended_at = {(1, False): 10, (2, True): 24}.get((number, after))
        assert (run.report() or {}).get("step") == ended_at
    else:
        assert run.report() is None
        assert run.config().steps == 24
        assert json.loads((tmp_path / "report.json").read_text()) == first
        assert "after batch" in load_trained(tmp_path, None, print).what
    train(tiny(), tmp_path)
    assert remains(tmp_path) == straight


def test_fewer_steps_than_are_done_are_refused(tmp_path: Path) -> None:
    report = train(tiny(steps=10), tmp_path)
    with pytest.raises(InputError, match="10 batches are done, steps is 9: expected 10 or more"):
        train(tiny(steps=9), tmp_path)
    assert train(tiny(steps=10), tmp_path) == report


def test_batches_of_the_log_count_as_done(tmp_path: Path) -> None:
    with at_call(loop.Session, "step", 11, killed), pytest.raises(Killed):
        train(tiny(), tmp_path)
    assert saved_steps(tmp_path / "checkpoints")[0] == 8
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 12, "perpl')
    with pytest.raises(InputError, match="9 batches are done, steps is 8"):
        train(tiny(steps=8), tmp_path)
    assert train(tiny(steps=9), tmp_path)["step"] == 9


def test_other_threads_are_no_other_run(tmp_path: Path) -> None:
    report = train(tiny(steps=3), tmp_path)
    assert train(tiny(steps=3, threads=2), tmp_path) == report
    assert RunDirectory(tmp_path).config().threads == 2


@pytest.mark.parametrize(
    ("report", "options", "ended"),
    [
        ({"step": 24, "seconds": 9, "stopped_by": "steps"}, {}, True),
        ({"step": 23, "seconds": 9, "stopped_by": "steps"}, {}, False),
        ({"step": 9, "seconds": 6.0, "stopped_by": "time"}, {"minutes": 0.1}, True),
        ({"step": 9, "seconds": 5.9, "stopped_by": "time"}, {"minutes": 0.1}, False),
        ({"step": 9, "seconds": 5.9, "stopped_by": "time"}, {}, False),
        ({"step": 9, "seconds": 5.9, "stopped_by": "solved"}, {"until_solved": True}, True),
        ({"step": 9, "seconds": 5.9, "stopped_by": "solved"}, {}, False),
        ({"step": 9, "without_gain": 5}, {"converged_after": 5}, True),
        ({"step": 9, "without_gain": 5}, {"converged_after": 6}, False),
        ({}, {"until_solved": True}, False),
    ],
)
def test_an_end_is_where_the_options_say_stop(
    report: dict[str, Any], options: dict[str, Any], ended: bool
) -> None:
    assert (stop_reason(tiny(**options), report) is not None) is ended


def test_resume_takes_options_of_when_to_stop(
    straight: dict[str, Any], tmp_path: Path, capsys: Captured
) -> None:
    train(tiny(steps=7), tmp_path)
    main(["train", "--resume", str(tmp_path), "--steps", "24"])
    out = capsys.readouterr().out
    assert f"{tmp_path}: steps was 7, is 24\n" in out
    assert "resumed after batch 7\n" in out
    assert remains(tmp_path) == straight
