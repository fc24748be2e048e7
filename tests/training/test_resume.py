"""Killed anywhere and started again, a run ends as if it had never been stopped."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from pushpop import Transducer
from pushpop.errors import InputError
from pushpop.training import RunDirectory, train
from pushpop.training import checkpoint as checkpoint_module
from pushpop.training import data as data_module
from pushpop.training.checkpoint import checkpoint_path, load_latest, saved_steps
from tests.training.runs import Killed, at_call, killed, remains, tiny


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("straight")
    train(tiny(), path)
    return remains(path)


# 24 batches; reports every 3, tests (of two ranges) every 6, checkpoints every 4. A save flushes
# the log, the file and the folder: three calls of fsync.
PLACES: dict[str, tuple[Any, str]] = {
    "forward": (torch.optim.RMSprop, "zero_grad"),  # once a batch, before it
    "update": (torch.optim.RMSprop, "step"),
    "test": (data_module, "evaluate"),
    "log": (RunDirectory, "log"),
    "fsync": (checkpoint_module.os, "fsync"),
    "rename": (checkpoint_module.os, "replace"),
    "prune": (checkpoint_module, "saved_steps"),
    "model": (Transducer, "save_pretrained"),
}
POINTS = [
    *[("forward", n, False) for n in (1, 2, 3, 7, 13, 24)],
    *[("update", n, True) for n in (1, 4, 11, 24)],
    *[("test", n, False) for n in (1, 2, 5, 8)],
    *[("test", n, True) for n in (1, 4, 9, 10)],  # 9 and 10 are the final test
    *[("log", n, True) for n in (1, 2, 6, 8)],
    *[("fsync", n, False) for n in (2, 3, 4, 8, 12, 14)],
    *[("rename", n, False) for n in (1, 3, 5, 8)],
    *[("rename", n, True) for n in (1, 3, 4, 6)],
    *[("prune", n, False) for n in (3, 5)],
    ("model", 1, False),
    ("model", 1, True),
]


@pytest.mark.parametrize(
    ("place", "number", "after"),
    POINTS,
    ids=[f"{'after' if after else 'before'}-{place}-{n}" for place, n, after in POINTS],
)
def test_a_killed_run_ends_as_if_never_stopped(
    place: str, number: int, after: bool, straight: dict[str, Any], tmp_path: Path
) -> None:
    with at_call(*PLACES[place], number, killed, after), pytest.raises(Killed):
        train(tiny(), tmp_path)
    train(tiny(), tmp_path)
    assert remains(tmp_path) == straight


def test_a_run_killed_again_and_again_ends_as_if_never_stopped(
    straight: dict[str, Any], tmp_path: Path
) -> None:
    draw = Random(0)
    for _ in range(12):
        kill = at_call(Transducer, "objective", draw.randint(1, 8), killed)
        try:
            with kill:
                train(tiny(), tmp_path)
        except Killed:
            continue
        except AssertionError:  # it came to its end first
            break
    train(tiny(), tmp_path)
    assert remains(tmp_path) == straight


@pytest.mark.parametrize(
    ("place", "number"),
    [("forward", 1), ("forward", 7), ("forward", 24), ("test", 1), ("test", 4), ("test", 7)],
)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_stops_after_the_batch_and_loses_nothing(
    name: str, place: str, number: int, straight: dict[str, Any], tmp_path: Path
) -> None:
    number_of_signal = getattr(signal, name)
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    expected = KeyboardInterrupt if name == "SIGINT" else SystemExit
    send = lambda: os.kill(os.getpid(), number_of_signal)  # noqa: E731
    with at_call(*PLACES[place], number, send), pytest.raises(expected) as left:
        train(tiny(), tmp_path)
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers
    if name == "SIGTERM":
        assert left.value.code == 143  # type: ignore[attr-defined]
    batch = number if place == "forward" else 6 * ((number + 1) // 2)
    assert saved_steps(tmp_path / "checkpoints")[0] == batch
    train(tiny(), tmp_path)
    assert remains(tmp_path) == straight


def test_a_second_ctrl_c_leaves_at_once(straight: dict[str, Any], tmp_path: Path) -> None:
    def twice() -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    with at_call(Transducer, "objective", 7, twice), pytest.raises(KeyboardInterrupt):
        train(tiny(), tmp_path)
    assert saved_steps(tmp_path / "checkpoints") == [4]
    train(tiny(), tmp_path)
    assert remains(tmp_path) == straight


@pytest.mark.parametrize("limit", [0, 600, 8000])
def test_a_full_disk_is_an_input_error_and_loses_nothing(
    limit: int, straight: dict[str, Any], tmp_path: Path
) -> None:
    # Too small for the log, for all of the log, and for a checkpoint.
    with at_call(Transducer, "objective", 2, killed), pytest.raises(Killed):
        train(tiny(), tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(InputError, match="cannot be written: File too large"):
            train(tiny(), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    train(tiny(), tmp_path)
    assert remains(tmp_path) == straight


SAVING = """
import sys
from pathlib import Path
import torch
from pushpop.training.checkpoint import Checkpoint, load_latest, save

folder = Path(sys.argv[1])
found = load_latest(folder, print)
step = found[0] if found else 0
print("ready", step, flush=True)
while True:
    step += 1
    tensors = {"model.w": torch.full((100_000,), float(step))}
    save(folder, step, Checkpoint(tensors, {"step": step}), best=1)
    print("saved", step, flush=True)
"""


@pytest.mark.slow
def test_ten_kills_during_saves_never_lose_the_latest_checkpoint(tmp_path: Path) -> None:
    draw, known = Random(1), 0
    for _ in range(10):
        command = [sys.executable, "-c", SAVING, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == f"ready {known}\n"
            time.sleep(draw.uniform(0.0, 0.05))
            process.kill()
            said = [int(line.split()[1]) for line in process.stdout if line.endswith("\n")]
        known = max([known, *said])
        broken: list[str] = []
        found = load_latest(tmp_path, broken.append)
        assert broken == []
        if found is None:
            assert known == 0
            continue
        step, checkpoint = found
        assert step in (known, known + 1)  # killed before it could say so
        assert checkpoint.data == {"step": step}
        assert bool((checkpoint.tensors["model.w"] == step).all())
        known = step
    assert checkpoint_path(tmp_path, 1).exists()
    assert len(saved_steps(tmp_path)) <= 4
