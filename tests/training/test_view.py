"""What a training prints: time left, and words in the singular."""

from typing import Any

import pytest

from pushpop.training import TrainConfig
from pushpop.training.schedule import Progress
from pushpop.training.view import (
    Speed,
    batches_to_early_stop,
    clock,
    describe_length,
    describe_memory_use,
)


def at(config: TrainConfig, epoch: int = 0, **where: Any) -> Progress:
    progress = Progress.start(config, epoch)
    vars(progress).update(where)
    return progress


def left(config: TrainConfig, progress: Progress, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is printed of a run that makes ten batches a second."""
    now = [0.0]
    monkeypatch.setattr("pushpop.training.view.time.monotonic", lambda: now[0])
    speed = Speed(config)
    for _ in range(11):
        speed.step()
    now[0] = 1.0
    return speed.text(progress)


def test_the_time_left_knows_of_early_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainConfig("pairs.tsv", epochs=10, patience=3)
    progress = at(config, 100, step=250, waited=1)
    assert left(config, progress, monkeypatch) == "10.0 batches/s, 0:15 to 1:15 left"
    near_the_end = at(config, 100, step=950, waited=0)
    assert left(config, near_the_end, monkeypatch) == "10.0 batches/s, 0:05 left"
    waited_enough = at(config, 100, step=300, waited=3)
    assert left(config, waited_enough, monkeypatch) == "10.0 batches/s, 0:00 to 1:10 left"


def test_a_run_that_stops_when_it_converges_says_when_that_may_be() -> None:
    config = TrainConfig("copy", steps=5000, converged_after=1000)
    assert batches_to_early_stop(config, at(config, step=1500, gained_step=1200)) == 700
    assert batches_to_early_stop(TrainConfig("copy"), at(TrainConfig("copy"))) == float("inf")


def test_times_are_written_as_on_a_clock() -> None:
    assert [clock(seconds) for seconds in (0, 61.4, 3600)] == ["0:00", "1:01", "1:00:00"]


@pytest.mark.parametrize(
    ("options", "epoch", "told"),
    [
        ({"epochs": 1, "patience": 1}, 1, "1 epoch of 1 batch or until 1 brings nothing"),
        ({"epochs": 7, "patience": 3}, 12, "7 epochs of 12 batches or until 3 bring nothing"),
        ({"epochs": 0, "steps": 1}, 1, "1 batch"),
    ],
)
def test_one_is_written_in_the_singular(options: dict[str, Any], epoch: int, told: str) -> None:
    config = TrainConfig("pairs.tsv", **options)
    assert describe_length(config, at(config, epoch)) == told


def test_one_pair_of_a_length_is_one_pair() -> None:
    rows = [{"lengths": [4, 4], "pairs": pairs, "accuracy": 1.0} for pairs in (1, 2)]
    told = [line.split("of ")[1] for line in describe_memory_use({"by_length": rows}, 1.0)]
    assert told == ["1 pair", "2 pairs"]
