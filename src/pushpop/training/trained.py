"""What a training run or `save_pretrained` left behind, as a model."""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from pushpop.errors import InputError
from pushpop.models import Transducer
from pushpop.tasks import get_task
from pushpop.training.checkpoint import load_latest
from pushpop.training.run import CONFIG, RunDirectory


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, the name of its task, and words that say which it is."""

    model: Transducer
    task: str
    what: str


def load_trained(
    path: str | PathLike[str], task: str | None, warn: Callable[[str], None]
) -> Trained:
    """The final model of a run, the latest checkpoint of an unfinished one, or a saved model.

    `task` goes before the one that the model was trained on; `warn` is told of broken checkpoints.
    """
    path = Path(path)
    run = RunDirectory(path)
    if (path / CONFIG).exists() and run.report() is None:
        config = run.config()
        found = load_latest(run.checkpoints, warn)
        if found is None:
            raise InputError(f"{path}: the run has no checkpoint yet")
        step, checkpoint = found
        model = Transducer(config.model, get_task(config.task).vocabulary)
        tensors = checkpoint.tensors.items()
        model.load_state_dict({k[6:]: t for k, t in tensors if k.startswith("model.")})
        return Trained(model, task or config.task, f"{path} after batch {step}")
    model = Transducer.from_pretrained(path)
    training = model.metadata.get("training")
    known = training.get("task") if isinstance(training, dict) else model.metadata.get("task")
    task = task or known
    if not isinstance(task, str):
        raise InputError(f"{path}: does not say what it was trained on; give --task")
    return Trained(model, task, str(path))
