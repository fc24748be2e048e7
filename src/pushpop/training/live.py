"""A run watched live in a terminal."""

from collections import deque
from math import log
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pushpop.training.config import TrainConfig
from pushpop.training.schedule import Progress
from pushpop.training.view import Speed, View, accuracies, describe_end, describe_run

BARS = "▁▂▃▄▅▆▇█"


class LiveView(View):
    """A panel that stays in place: progress, speed, time left, perplexity, accuracies, a curve."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.live: Live | None = None
        self.accuracies = "not tested yet"
        self.curve: list[float] = []
        self.race: dict[int, str] = {}  # how far each start of a race has come

    def begin(self, config: TrainConfig, progress: Progress) -> None:
        """Draw the panel for the first time."""
        self.config, self.speed = config, Speed(config)
        self.recent: deque[float] = deque(maxlen=config.window)
        self.console.print(f"[bold]{describe_run(config)}[/]")
        if progress.step:
            self.console.print(f"resumed after batch {progress.step}")
        self.live = Live(self._panel(progress), console=self.console, refresh_per_second=4)
        self.live.start()

    def step(self, progress: Progress, loss: float) -> None:
        """Draw again, at most four times a second."""
        self.speed.step()
        self.recent.append(loss)
        if self.live is not None and self.speed.due(0.25):
            self.live.update(self._panel(progress))

    def record(self, record: dict[str, Any], progress: Progress) -> None:
        """Extend the curve; renew the accuracies."""
        if "start" in record:
            reached = f"lengths up to {record['longest']}, perplexity {record['perplexity']:.1f}"
            self.race[record["start"]] = reached
        elif "perplexity" in record:
            self.curve.append(record["perplexity"])
        if "test" in record or "valid" in record:
            self.accuracies = f"{accuracies(record)} (batch {record['step']})"
        if self.live is not None:
            self.live.update(self._panel(progress))

    def message(self, text: str) -> None:
        """Above the panel."""
        self.console.print(text, highlight=False)

    def end(self, report: dict[str, Any]) -> None:
        """The final accuracies, in place of the panel."""
        self.close()
        self.console.print(f"[bold]final[/] {describe_end(report)}")

    def close(self) -> None:
        """Leave the panel as it is."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _panel(self, progress: Progress) -> Group:
        config = self.config
        table = Table.grid(padding=(0, 2))
        last = progress.last_step(config)
        bar = ProgressBar(total=last, completed=progress.step, width=40)
        table.add_row("batches", bar, f"{progress.step:,} of {last:,}")
        if progress.epoch:
            table.add_row("epochs", f"{progress.epochs:.1f}, {progress.waited} without a gain")
        table.add_row("speed", self.speed.text(progress))
        if self.recent:
            mean = sum(self.recent) / len(self.recent)
            table.add_row(
                "perplexity", f"{2.718281828459045 ** min(mean, 50):.3f}", sparkline(self.curve)
            )
        for start, reached in sorted(self.race.items()):
            table.add_row(f"start {start}", reached)
        if config.curriculum_start:
            table.add_row("lengths", f"up to {progress.longest}")
        table.add_row("accuracy", Text(self.accuracies))
        return Group(table)


def sparkline(values: list[float], width: int = 40) -> str:
    """The last values as a line of bars, on a scale from 1 to the largest of them, by logarithm."""
    shown = [log(max(value, 1.0)) for value in values[-width:]]
    highest = max(shown, default=0.0) or 1.0
    return "".join(BARS[min(7, int(8 * value / highest))] for value in shown)
