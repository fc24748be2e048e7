"""What a training run or `save_pretrained` left behind, as a model."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch

from pushpop.errors import InputError
from pushpop.models import FORMS, Transducer
from pushpop.tasks import Vocabulary
from pushpop.tasks.pairs_text import TextForm
from pushpop.training.checkpoint import Checkpoint, checkpoint_path, load, load_latest, saved_steps
from pushpop.training.config import TrainConfig
from pushpop.training.run import TRAINING_FILE, RunDirectory

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, the name of its task if it is known, and words that say which it is."""

    model: Transducer
    task: str | None
    what: str

    def known_task(self) -> str:
        """The task; `InputError` if the model does not say."""
        if self.task is None:
            raise InputError(f"{self.what}: does not say what it was trained on; give --task")
        return self.task


def load_trained(
    path: str | PathLike[str],
    task: str | None = None,
    warn: Callable[[str], None] = logger.warning,
    checkpoint: str = "",
) -> Trained:
    """The final model of a run, the latest checkpoint of an unfinished one, or a saved model.

    `task` goes before the one that the model was trained on; `warn` is told of broken checkpoints.
    `checkpoint` asks for one of a run's: "best", "latest", or after how many batches.
    """
    path = Path(path)
    run = RunDirectory(path)
    is_run = (path / TRAINING_FILE).exists()
    if checkpoint and not is_run:
        raise InputError(
            f"{path}: no {TRAINING_FILE}: expected a run, to take checkpoint {checkpoint!r}"
        )
    if is_run and (checkpoint or run.report() is None):
        config = run.config()
        step, saved = find_checkpoint(run.checkpoints, checkpoint or "latest", warn)
        model = model_at_checkpoint(config, saved, *run.symbols())
        return Trained(model, task or config.task, f"{path} after batch {step}")
    model = Transducer.from_pretrained(path)
    training = model.metadata.get("training")
    known = training.get("task") if isinstance(training, dict) else model.metadata.get("task")
    task = task or (known if isinstance(known, str) else None)
    return Trained(model, task, str(path))


def find_checkpoint(
    folder: Path, which: str, warn: Callable[[str], None]
) -> tuple[int, Checkpoint]:
    """The checkpoint after so many batches, the latest that is whole, or the best, and its step."""
    steps = saved_steps(folder)
    if which.isdecimal():
        if int(which) not in steps:
            there = ", ".join(map(str, reversed(steps))) or "none"
            raise InputError(f"{folder}: no checkpoint after batch {which}: there are {there}")
        return int(which), load(checkpoint_path(folder, int(which)))
    if which not in ("best", "latest"):
        raise InputError(f"checkpoint is {which!r}, expected best, latest or a number of batches")
    latest = load_latest(folder, warn)
    if latest is None:
        raise InputError(f"{folder}: the run has no checkpoint yet")
    best = latest[1].data["progress"]["best_step"]
    if which == "latest" or best == latest[0]:
        return latest
    if best is None:
        raise InputError(f"{folder}: no checkpoint is the best yet: no perplexity was reported")
    return best, load(checkpoint_path(folder, best))


def model_at_checkpoint(
    config: TrainConfig,
    checkpoint: Checkpoint,
    vocabulary: Vocabulary,
    text: TextForm | None = None,
) -> Transducer:
    """The model as it was at a checkpoint."""
    with torch.random.fork_rng(devices=[]):
        model = FORMS[config.form](config.model, vocabulary, text=text)
    tensors = checkpoint.tensors.items()
    model.load_state_dict({k[6:]: t for k, t in tensors if k.startswith("model.")})
    return model
