"""A run's curves for TensorBoard, beside another way of watching it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pushpop.errors import InputError, writing
from pushpop.training.config import TrainConfig
from pushpop.training.schedule import Progress
from pushpop.training.view import View


class TensorBoardView(View):
    """Writes what goes into the log as TensorBoard's events too."""

    def __init__(self, folder: Path, view: View) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InputError(
                "tensorboard is true, and the package tensorboard is not installed: expected "
                "pip install 'pushpop[tensorboard]' before"
            ) from None
        self.folder, self.view, self.make = folder, view, SummaryWriter
        self.writer: Any = None

    def begin(self, config: TrainConfig, progress: Progress) -> None:
        """Open a file of events, which takes back those that a stop has undone."""
        self.view.begin(config, progress)
        with writing(self.folder):
            self.writer = self.make(str(self.folder), purge_step=progress.settled + 1)

    def step(self, progress: Progress, loss: float) -> None:
        """Nothing of its own."""
        self.view.step(progress, loss)

    def record(self, record: dict[str, Any], progress: Progress) -> None:
        """A point for every number, on the disk before a checkpoint counts on it."""
        self.view.record(record, progress)
        with writing(self.folder):
            for tag, value in points(record):
                self.writer.add_scalar(tag, value, record["step"])
            self.writer.flush()

    def message(self, text: str) -> None:
        """Nothing of its own."""
        self.view.message(text)

    def end(self, report: dict[str, Any]) -> None:
        """Nothing of its own."""
        self.view.end(report)

    def close(self) -> None:
        """Close the file."""
        if self.writer is not None:
            self.writer.close()
        self.view.close()


def points(record: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a line of the log, with names: perplexity, test/coarse and so on."""
    for name, value in record.items():
        if isinstance(value, dict):
            for score in ("accuracy", "coarse", "fine", "perplexity"):
                if score in value:
                    yield f"{name}/{score}", value[score]
        elif name not in ("step", "start", "start_step", "winner", "arrived"):
            sort = f"start {record['start']}/{name}" if "start" in record else name
            yield sort, value
