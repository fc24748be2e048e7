"""Under torchrun: two processes train as one would, stop together and go on to the bit."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from pushpop import Transducer
from pushpop.errors import InputError
from pushpop.training import train
from pushpop.training.checkpoint import saved_steps
from pushpop.training.parallel import Group, exit_code
from tests.training.runs import TINY, TOGETHER, remains, tiny

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
Found = tuple[Path, list[dict[str, Any]]]


def launch(*args: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    return subprocess.Popen([*LAUNCH, *args], stdout=pipe, stderr=pipe, text=True, env=env)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What both processes of `together.py` found, and the runs that they left."""
    folder = tmp_path_factory.mktemp("together")
    with launch("-m", "tests.training.together", str(folder)) as process:
        _, told = process.communicate(timeout=280)
    assert process.returncode == 0, told
    return folder, [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("what", ["gradients", "gradients of one row"])
def test_gradients_are_one_processs_and_weighted_by_symbols(what: str, found: Found) -> None:
    for rank in found[1]:
        assert rank[what]["by symbols"] < 1e-6
        assert what != "gradients" or rank[what]["by rank"] > 1e-2


def test_both_processes_have_the_same_weights(found: Found) -> None:
    zero, one = found[1]
    assert zero["weights"] == one["weights"]


def test_a_rate_that_validation_lowers_is_lowered_for_all(found: Found) -> None:
    zero, one = (rank["given pairs"] for rank in found[1])
    assert zero == one
    assert zero["rate"] < 1.0


def test_two_processes_train_as_one_does(found: Found, tmp_path: Path) -> None:
    folder, (zero, one) = found
    report = train(tiny(**TOGETHER), tmp_path)
    assert zero["straight"] == one["straight"] == zero["again"]
    assert zero["straight"]["kept_step"] == report["kept_step"]
    alone, together = (Transducer.from_pretrained(p) for p in (tmp_path, folder / "straight"))
    for name, tensor in alone.state_dict().items():
        torch.testing.assert_close(together.state_dict()[name], tensor, rtol=1e-4, atol=1e-5)
    logs = [(p / "metrics.jsonl").read_text().splitlines() for p in (tmp_path, folder / "straight")]
    for here, there in zip(*(map(json.loads, log) for log in logs), strict=True):
        assert there.get("perplexity") == pytest.approx(here.get("perplexity"), rel=1e-5)
        assert there.get("longest") == here.get("longest")


DISTURBED = {
    "sigterm on rank 1": ("term", "SystemExit: 143", "SystemExit: 143"),
    "sigint on rank 0": ("int", "KeyboardInterrupt: ", "SystemExit: 130"),
    "full disk": ("full", "InputError: checkpoint: cannot be written", "SystemExit: 2"),
    "nan on rank 1": ("nan", "Diverged: batch 10: the loss is nan; ", "Diverged: batch 10: the"),
    "infinite gradient on rank 0": ("inf", "Diverged: batch 10: the gradient of", "Diverged: bat"),
}


@pytest.mark.parametrize("what", DISTURBED)
def test_all_leave_together_and_go_on_to_the_bit(what: str, found: Found) -> None:
    folder, ranks = found
    name, *expected = DISTURBED[what]
    for rank, start in zip(ranks, expected, strict=True):
        first, report = rank[what]
        assert first.startswith(start)
        assert report["step"] == 24
    assert remains(folder / name) == remains(folder / "straight")


def test_a_mistake_that_the_leader_finds_ends_all(found: Found) -> None:
    zero, one = found[1]
    assert "holds thesis.tex but no training.json" in zero["occupied"]
    told = "InputError: batch_size is 1 with 2 processes, expected 2 or more"
    assert zero["small batch"] == told
    assert one["occupied"] == one["small batch"] == "SystemExit: 2"


def workers(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    children = psutil.Process(process.pid).children()
    return sorted(children, key=lambda child: child.environ().get("RANK", ""))


def until(process: "subprocess.Popen[str]", batch: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(f"batch {batch} "):
            return
    raise AssertionError(process.communicate()[1])


def test_the_command_killed_and_stopped_under_torchrun_goes_on_to_the_bit(
    found: Found, tmp_path: Path
) -> None:
    wanted = {**TINY, **TOGETHER, "steps": 10**6}
    task = wanted.pop("task")
    options = [f"--{k.replace('_', '-')}={v}" for k, v in wanted.items()]
    command = ["-m", "pushpop.cli", "--", "train", task, *options, f"--run={tmp_path}"]
    with launch(*command) as process:
        until(process, 9)
        workers(process)[0].kill()
        process.communicate(timeout=200)
        assert process.returncode != 0
    with launch(*command) as process:
        until(process, 30)
        process.send_signal(signal.SIGTERM)  # torchrun passes it on
        out, _ = process.communicate(timeout=200)
        assert process.returncode != 0
    stopped = saved_steps(tmp_path / "checkpoints")[0]
    assert f"stopped after batch {stopped}; saved in" in out
    lines = (tmp_path / "metrics.jsonl").read_bytes().splitlines()
    straight = (found[0] / "straight" / "metrics.jsonl").read_bytes().splitlines()
    assert lines[: len(straight)] == straight


def test_a_process_alone_has_everything_and_hears_itself() -> None:
    group = Group()
    assert (group.rank, group.size) == (0, 1)
    assert group.sum_losses(1.5, 3) == (1.5, 3)
    assert group.exchange(2) == (2, {})
    assert group.exchange(0, {"code": 1}) == (0, {"code": 1})
    assert group.broadcast(b"x") == b"x"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SystemExit(143), 143),
        (SystemExit("text"), 1),
        (KeyboardInterrupt(), 130),
        (InputError("x"), 2),
        (ValueError(), 1),
    ],
    ids=repr,
)
def test_those_who_follow_exit_as_the_leader(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


def test_a_gpu_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(InputError, match="device is 'cuda', and torch finds 0 GPUs: expected 1"):
        train(tiny(device="cuda"), tmp_path)
