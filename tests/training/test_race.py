"""A race of starts, and the guard of what was learnt: in one run, resumed to the bit."""

import json
import os
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pushpop import Transducer
from pushpop.errors import InputError
from pushpop.training import TrainConfig, train
from pushpop.training import trainer as trainer_module
from pushpop.training.checkpoint import checkpoint_path, load, saved_steps
from pushpop.training.data import make_data
from pushpop.training.parallel import Group
from pushpop.training.run import RunDirectory, load_trained
from pushpop.training.schedule import Progress
from pushpop.training.trainer import Race, Trainer
from tests.training.runs import Killed, at_call, killed, remains, tiny

STARTS = "curriculum_start=2 push_bias=1; curriculum_start=4 push_bias=none seed=7"
RACE: dict[str, Any] = {"starts": STARTS, "steps": 36, "guard": 500, "noise_rise": 2}


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_module, "ROUND", 2)


def log_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("straight")
    train(tiny(**RACE), path)
    return remains(path)


def test_the_first_at_full_length_goes_on_alone(tmp_path: Path) -> None:
    report = train(tiny(**RACE), tmp_path)
    log = log_of(tmp_path)
    (end,) = [record for record in log if "winner" in record]
    assert end["arrived"]
    assert report["start"] == end["winner"] == 2  # it has fewer stages to go through
    racing = [record for record in log if "start" in record]
    assert {record["start"] for record in racing} == {1, 2}
    assert all(record["step"] <= end["step"] for record in racing)
    alone = [record for record in log if "start" not in record and "perplexity" in record]
    assert alone
    assert all(record["step"] > end["step"] for record in alone)
    assert (report["stopped_by"], report["step"]) == ("steps", 36)


def test_options_say_what_the_starts_are(tmp_path: Path) -> None:
    train(tiny(**RACE, race_steps=2), tmp_path)
    config = RunDirectory(tmp_path).config()
    assert config.starts == STARTS
    first, second = config.start_configs()
    assert (first.curriculum_start, first.push_bias, first.seed) == (2, 1.0, 0)
    assert (second.curriculum_start, second.push_bias, second.seed) == (4, None, 7)
    assert [each.seed for each in tiny(starts="pop_bias=-1; pop_bias=-2").start_configs()] == [
        0,
        1_000_000,
    ]
    given = tiny(starts=[{"push_bias": [1, -8], "curriculum_start": 3}, {}], memory="deque")
    assert given.starts == "push_bias=1,-8 curriculum_start=3; "
    assert given.start_configs()[0].push_bias == (1.0, -8.0)
    assert TrainConfig.from_saved(given.to_dict()) == given


KILLS = [
    *[(Transducer, "objective", n, False) for n in (1, 3, 7, 12, 13, 14, 15, 16, 17, 25, 36)],
    *[(RunDirectory, "log", n, True) for n in (1, 3, 4, 5, 6)],
    *[(os, "replace", n, late) for n in (3, 4, 6) for late in (False, True)],
]


@pytest.mark.parametrize(("owner", "name", "number", "after"), KILLS)
def test_a_race_killed_in_any_phase_ends_as_if_never_stopped(
    owner: Any, name: str, number: int, after: bool, straight: dict[str, Any], tmp_path: Path
) -> None:
    with at_call(owner, name, number, killed, after), pytest.raises(Killed):
        train(tiny(**RACE), tmp_path)
    train(tiny(**RACE), tmp_path)
    assert remains(tmp_path) == straight


@pytest.mark.parametrize("steps", [3, 8, 12, 20])
def test_a_race_that_was_stopped_by_its_steps_goes_on_with_more(
    steps: int, straight: dict[str, Any], tmp_path: Path
) -> None:
    train(tiny(**{**RACE, "steps": steps}), tmp_path)
    train(tiny(**RACE), tmp_path)
    found = remains(tmp_path)
    assert found["metrics"] == straight["metrics"]
    assert found["model"] == straight["model"]


def test_if_nobody_wins_the_farthest_goes_on(tmp_path: Path) -> None:
    report = train(tiny(**{**RACE, "race_steps": 4, "curriculum_below": 1.001}), tmp_path)
    (end,) = [record for record in log_of(tmp_path) if "winner" in record]
    assert not end["arrived"]
    assert (end["step"], end["winner"]) == (8, 2)  # it began with the longer sources
    assert report["step"] == 36


def test_an_unfinished_race_can_be_evaluated(tmp_path: Path) -> None:
    with at_call(Transducer, "objective", 7, killed), pytest.raises(Killed):
        train(tiny(**RACE), tmp_path)
    found = load_trained(tmp_path)
    assert "after batch 4" in found.what
    data = load(checkpoint_path(tmp_path / "checkpoints", saved_steps(tmp_path / "checkpoints")[0]))
    assert {key.split(".")[0] for key in data.tensors} == {"model", "start1", "start2"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starts": "curriculum_start=2"}, "one start, expected two or more"),
        ({"starts": "hidden=4; hidden=5"}, "'hidden=4', expected option=value, with one of curr"),
        ({"starts": "push_bais=4; pop_bias=1"}, "did you mean 'push_bias'"),
        ({"starts": "curriculum_start; pop_bias=1"}, "'curriculum_start', expected option=value"),
        ({"starts": "pop_bias=1; curriculum_start=99"}, "starts: start 2: curriculum_start is 99"),
        ({"starts": "pop_bias=x; pop_bias=1"}, "starts: start 1: pop_bias is 'x'"),
        ({"guard": 100}, "guard is 100.0 \\(recipe paper\\) with decay_below 135.0, expected more"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tiny(**options)


def test_files_and_several_processes_have_no_race(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\n")
    with pytest.raises(InputError, match="a race is for tasks, whose lengths can be chosen"):
        TrainConfig(str(pairs), starts=STARTS)
    with pytest.raises(InputError, match="with the file"):
        Transducer.fit([("a", "b")], starts=STARTS)
    config = tiny(**RACE)
    group: Any = SimpleNamespace(size=2)
    with pytest.raises(InputError, match="with 2 processes: a race runs in one process"):
        Race(config, group, make_data(config))


def test_a_fall_takes_back_the_last_steady_weights_with_half_the_rate() -> None:
    config = tiny(curriculum_start=0, gate_noise=0, decay=1, guard=200, noise_rise=4)
    trainer = Trainer(config, Group(), make_data(config))
    trainer.step()
    trainer.step()
    assert trainer.progress.guarded_step == 2
    steady = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    rate = trainer.progress.rate
    with torch.no_grad():
        trainer.model.output_table.weight *= 100
    while not trainer.progress.falls:
        trainer.step()
        assert trainer.progress.step < 10
    for name, tensor in trainer.model.state_dict().items():
        assert torch.equal(tensor, steady[name]), name
    assert trainer.progress.rate == rate / 2
    assert trainer.progress.noise_rise(config) == 8
    assert trainer.progress.longest == 6


def test_what_is_set_aside_is_in_the_checkpoint() -> None:
    config = tiny(curriculum_start=0, guard=200)
    trainer = Trainer(config, Group(), make_data(config))
    for _ in range(3):
        trainer.step()
    twin = Trainer(config, Group(), make_data(config))
    twin.restore(trainer.checkpoint())
    for one in (trainer, twin):
        with torch.no_grad():
            one.model.output_table.weight *= 100
        for _ in range(4):
            one.step()
    assert trainer.progress.falls == twin.progress.falls == 1
    for a, b in zip(trainer.model.parameters(), twin.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_chance_is_not_taken_for_learnt_where_there_are_two_symbols() -> None:
    config = TrainConfig("chomsky/parity", recipe="pushpop", window=1)
    progress = Progress.start(config, choices=2)
    progress.longest, progress.guarded_step = 64, 0
    progress.after_batch(config, nll=log(1.9) * 10, symbols=10)
    assert not progress.has_arrived(config)
    assert progress.has_fallen(config)
    progress.after_batch(config, nll=log(1.3) * 10, symbols=10)
    assert progress.has_arrived(config)
    assert not progress.has_fallen(config)
    many = Progress.start(config, choices=129)
    assert (many.learnt_below(config), many.lost_above(config.guard)) == (2.0, 4.0)
