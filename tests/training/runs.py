"""Tiny runs, ways to kill them, and what is left of them."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from pushpop.training import TrainConfig, train
from pushpop.training.checkpoint import checkpoint_path, load, saved_steps
from pushpop.training.loop import Session

TINY: dict[str, Any] = {
    "task": "copy",
    "memory": "queue",
    "embedding": 4,
    "hidden": 5,
    "memory_width": 3,
    "batch_size": 2,
    "steps": 24,
    "train_lengths": "2-6",
    "test_lengths": "7-8",
    "report_every": 3,
    "evaluate_every": 6,
    "evaluate_sequences": 5,
    "checkpoint_every": 4,
    "window": 2,
    "curriculum_start": 2,
    "curriculum_below": 200,  # a model that has learnt nothing is at 129 or so: raised soon
    "decay": 0.99,
    "decay_below": 135,
    "gate_noise": 0.5,
    "controller_noise": 0.25,
    "noise_rise": 3,
}
# The bare loop.
PLAIN: dict[str, Any] = {"curriculum_start": 0, "decay": 1, "gate_noise": 0, "controller_noise": 0}
# For two processes: five rows, and lengths from 2 to 20, so that both have different numbers of
# symbols. A large epsilon, lest RMSProp makes a large step of the rounding in a small gradient. No
# noise: each process has its own.
TOGETHER: dict[str, Any] = {
    "batch_size": 5,
    "train_lengths": "2-20",
    "epsilon": 1e-2,
    "gate_noise": 0.0,
    "controller_noise": 0.0,
}


def tiny(**options: Any) -> TrainConfig:
    """A run of a second whose schedules are all at work."""
    return TrainConfig.from_dict({**TINY, **options})


def train_in_parts(
    config: TrainConfig, run: Path, stop: int, monkeypatch: pytest.MonkeyPatch, saves: bool = False
) -> None:
    """Train, interrupted once before the batch after `stop`, and go on; `saves`: by Ctrl-C, which
    saves that moment, else without another checkpoint."""
    step, stops = Session.step, [stop]

    def interrupted(session: Session) -> None:
        if session.progress.step in stops:
            stops.clear()
            if not saves:
                raise KeyboardInterrupt
            session.signals.received = signal.SIGINT
        step(session)

    monkeypatch.setattr(Session, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(config, run)
    train(config, run)


def remains(run: Path) -> dict[str, Any]:
    """What must not depend on interruptions: the log, and every tensor and number but the time."""
    folder = run / "checkpoints"
    found: dict[str, Any] = {"metrics": (run / "metrics.jsonl").read_bytes()}
    for step in saved_steps(folder)[:1]:
        checkpoint = load(checkpoint_path(folder, step))
        progress = {k: v for k, v in checkpoint.data["progress"].items() if k != "seconds"}
        found |= {"step": step, "progress": progress}
        found |= {name: tensor.numpy().tobytes() for name, tensor in checkpoint.tensors.items()}
    if (run / "model.safetensors").exists():
        found["model"] = load_model(run)
    return found


def load_model(run: Path) -> dict[str, bytes]:
    from pushpop import Transducer

    state = Transducer.from_pretrained(run).state_dict()
    return {name: tensor.to(torch.float32).numpy().tobytes() for name, tensor in state.items()}


class Killed(BaseException):
    """Nothing catches this."""


@contextmanager
def at_call(
    place: Any, name: str, number: int, action: Callable[[], None], after: bool = False
) -> Iterator[None]:
    """Do something before (or after) call number so and so of a function."""
    original, calls = getattr(place, name), [0]

    def counted(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == number and not after:
            action()
        result = original(*args, **options)
        if calls[0] == number and after:
            action()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, name, counted)
        yield
    assert calls[0] >= number, f"{name} was called {calls[0]} times only"


def killed() -> None:
    raise Killed
