"""The models that a command or a server was asked to show."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pushpop.models import Transducer
from pushpop.models.saving import find_model, shipped_models
from pushpop.training.load import load_trained
from pushpop.training.run import TRAINING_FILE, RunDirectory


@dataclass(frozen=True, eq=False)
class Entry:
    """A model, the name it goes by, and the task it was trained on, if it says so."""

    name: str
    model: Transducer
    task: str | None


def open_model(text: str) -> Entry:
    """A shipped model by name, a saved model or a training run by its path."""
    path = find_model(text)
    found = load_trained(path, "unknown")
    return Entry(path.resolve().name, found.model.eval(), _task_of(path, found.model))


def open_models(texts: Iterable[str]) -> dict[str, Entry]:
    """Models by name, those that come with the package if none is asked for.

    Of several with the same name, the second is called name-2 and so on.
    """
    entries: dict[str, Entry] = {}
    for text in list(texts) or list(shipped_models()):
        entry = open_model(text)
        name, number = entry.name, 2
        while name in entries:
            name, number = f"{entry.name}-{number}", number + 1
        entries[name] = Entry(name, entry.model, entry.task)
    return entries


def _task_of(path: Path, model: Transducer) -> str | None:
    training = model.metadata.get("training")
    task = training.get("task") if isinstance(training, dict) else model.metadata.get("task")
    if task is None and (path / TRAINING_FILE).exists():
        task = RunDirectory(path).config().task
    return task if isinstance(task, str) else None
