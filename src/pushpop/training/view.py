"""How a run is watched: not at all, line by line, live in a terminal, or by TensorBoard."""

import time
from collections import deque
from collections.abc import Iterator
from math import exp, inf, log
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pushpop.errors import InputError, counted, writing
from pushpop.training.config import TrainConfig
from pushpop.training.schedule import Progress

BARS = "▁▂▃▄▅▆▇█"
HARDLY_USED = 0.8
"""A memory is hardly used if this share of what a model has right is right without its reads."""


class View:
    """Shows nothing: what `train` uses when it is given no other."""

    def begin(self, config: TrainConfig, progress: Progress) -> None:
        """Training starts, or goes on."""

    def step(self, progress: Progress, loss: float) -> None:
        """A batch is done."""

    def record(self, record: dict[str, Any], progress: Progress) -> None:
        """A line went into the log."""

    def message(self, text: str) -> None:
        """Something that the user should know."""

    def end(self, report: dict[str, Any]) -> None:
        """The run is finished."""

    def close(self) -> None:
        """Nothing more will come."""


class PlainView(View):
    """A line a report, for files and pipes."""

    def begin(self, config: TrainConfig, progress: Progress) -> None:
        self.config, self.speed = config, Speed(config)
        self.message(f"{describe_run(config)}, {describe_length(config, progress)}")
        if progress.step:
            self.message(f"resumed after batch {progress.step}")

    def step(self, progress: Progress, loss: float) -> None:
        self.speed.step()

    def record(self, record: dict[str, Any], progress: Progress) -> None:
        self.message(f"{describe_record(record)}  {self.speed.text(progress)}")

    def message(self, text: str) -> None:
        print(text, flush=True)

    def end(self, report: dict[str, Any]) -> None:
        self.close()
        self.message(f"final {describe_end(report)}")
        if "by_length" in report:
            shortest, longest = report["trained_lengths"]
            self.message(f"trained on sources of {shortest} to {longest} symbols; validation:")
            for line in describe_memory_use(report, report["valid"]["accuracy"]):
                self.message(line)
        if "carried" in report:
            self.message(describe_carried(report["carried"]))


class LiveView(PlainView):
    """A panel that stays in place: progress, speed, time left, perplexity, accuracies, a curve."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.live: Live | None = None
        self.accuracies = "not tested yet"
        self.curve: list[float] = []
        self.race: dict[int, str] = {}  # how far each start of a race has come

    def begin(self, config: TrainConfig, progress: Progress) -> None:
        super().begin(config, progress)
        self.recent: deque[float] = deque(maxlen=config.window)
        self.live = Live(self._panel(progress), console=self.console, refresh_per_second=4)
        self.live.start()

    def step(self, progress: Progress, loss: float) -> None:
        """Draw again, at most four times a second."""
        super().step(progress, loss)
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
        """Print above the panel."""
        self.console.print(text, highlight=False, markup=False)

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
            table.add_row("perplexity", f"{exp(min(mean, 50)):.3f}", sparkline(self.curve))
        for start, reached in sorted(self.race.items()):
            table.add_row(f"start {start}", reached)
        if config.curriculum_start:
            table.add_row("lengths", f"up to {progress.longest}")
        table.add_row("test" if config.form == "lm" else "accuracy", Text(self.accuracies))
        return Group(table)


class TensorBoard:
    """What goes into a run's log, as events of TensorBoard."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InputError(
                "tensorboard is true, and the package tensorboard is not installed: expected "
                "pip install 'pushpop[tensorboard]' before"
            ) from None
        self.folder, self.make = folder, SummaryWriter
        self.writer: Any = None

    def begin(self, progress: Progress) -> None:
        """Open a file of events, which takes back those that a stop has undone."""
        with writing(self.folder):
            self.writer = self.make(str(self.folder), purge_step=progress.settled + 1)

    def record(self, record: dict[str, Any]) -> None:
        """Write every number to the disk before a checkpoint counts on it."""
        with writing(self.folder):
            for tag, value in points(record):
                self.writer.add_scalar(tag, value, record["step"])
            self.writer.flush()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


class Speed:
    """Batches per second after the first, which has much to load, and the time left."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.began = self.drawn = time.monotonic()
        self.steps = -1

    def step(self) -> None:
        self.steps += 1
        if self.steps == 0:
            self.began = time.monotonic()

    def due(self, seconds: float) -> bool:
        """Whether so many seconds have passed since it last was."""
        now = time.monotonic()
        if now - self.drawn < seconds:
            return False
        self.drawn = now
        return True

    def text(self, progress: Progress) -> str:
        """As in 12.3 batches/s, 4:05 left; where a run may stop early, 0:40 to 4:05 left."""
        if self.steps < 1:
            return "starting"
        rate = self.steps / max(time.monotonic() - self.began, 1e-9)
        left = (progress.last_step(self.config) - progress.step) / rate
        if self.config.minutes:
            left = min(left, max(0.0, 60 * self.config.minutes - progress.seconds))
        soonest = min(left, batches_to_early_stop(self.config, progress) / rate)
        early = f"{clock(soonest)} to " if round(soonest) < round(left) else ""
        return f"{rate:.1f} batches/s, {early}{clock(left)} left"


def clock(seconds: float) -> str:
    """As in 4:05 or 1:04:05."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def batches_to_early_stop(config: TrainConfig, progress: Progress) -> float:
    """After how many batches the run stops if it gains nothing from now on."""
    soonest = inf
    if config.patience and progress.epoch:
        epochs = config.patience - progress.waited
        soonest = epochs * progress.epoch - progress.step % progress.epoch
    if config.converged_after:
        soonest = min(soonest, config.converged_after - progress.without_gain)
    return max(0, soonest)


def describe_run(config: TrainConfig) -> str:
    """What is trained on what, in a few words."""
    if config.memory == "none":
        body = f"{config.layers}-layer {config.cell}, hidden {config.hidden}"
    else:
        body = (
            f"{config.memory}-{config.cell}, hidden {config.hidden}, memory {config.memory_width}"
        )
    for what, more in (
        (f"{config.layers} layers", config.memory != "none" and config.layers > 1),
        (f"{config.heads} heads", config.heads > 1),
        (f"{config.encoder} encoder", config.encoder != "none"),
        ("attention", config.attention),
        ("tagger", config.form == "tagger"),
        ("language model", config.form == "lm"),
        (f"on {config.device}", config.device != "cpu"),
    ):
        body += f", {what}" if more else ""
    return f"{config.task}: {body}, seed {config.seed}"


def describe_length(config: TrainConfig, progress: Progress) -> str:
    """How long a run takes at most, in words."""
    if not progress.epoch or not config.epochs:
        return counted(config.steps, "batch", "batches")
    brings = "brings" if config.patience == 1 else "bring"
    patience = f" or until {config.patience:,} {brings} nothing" if config.patience else ""
    batches = counted(progress.epoch, "batch", "batches")
    return f"{counted(config.epochs, 'epoch')} of {batches}{patience}"


def describe_record(record: dict[str, Any]) -> str:
    parts = [f"batch {record['step']}"]
    if "start" in record:
        parts.append(f"start {record['start']}, its batch {record['start_step']}")
        parts.append(f"lengths up to {record['longest']}")
    if "perplexity" in record:
        parts.append(f"perplexity {record['perplexity']:.3f}")
    if "test" in record or "valid" in record:
        parts.append(accuracies(record))
    return "  ".join(parts)


def accuracies(record: dict[str, Any]) -> str:
    """Coarse and fine accuracy (a tagger's: of symbols, and coarse) at training and at test
    lengths, or accuracy in validation."""
    if "valid" in record:
        valid = record["valid"]
        if "bits" in valid:
            return f"valid perplexity {valid['perplexity']:.3f}, {valid['bits']:.3f} bits a symbol"
        labels = f", labels {valid['symbols']:.3f}" if "symbols" in valid else ""
        figures = f"accuracy {valid['accuracy']:.3f}{labels}"
        return f"valid {figures}, perplexity {valid['perplexity']:.3f}"
    shown = {name: main_scores(record[name]) for name in ("train", "test")}
    return "  ".join(f"{name} {first:.3f}/{second:.3f}" for name, (first, second) in shown.items())


def main_scores(tested: dict[str, Any]) -> tuple[float, float]:
    """The two figures of a test that are shown: coarse and fine accuracy, of a tagger the share of
    right symbols and coarse."""
    first, second = ("accuracy", "coarse") if "accuracy" in tested else ("coarse", "fine")
    return tested[first], tested[second]


def describe_end(report: dict[str, Any]) -> str:
    """The final accuracies, and which batch's weights they are of unless the last."""
    kept = "" if report["kept_step"] == report["step"] else f"  kept: batch {report['kept_step']}"
    return f"{accuracies(report)}{kept}  {report['seconds']:.0f} s"


def describe_carried(carried: dict[str, Any]) -> str:
    """What the longer pairs told while they were not trained on yet."""
    low, high = carried["lengths"]
    return (
        f"after {carried['batches']} batches on sources of up to {carried['trained_to']} symbols: "
        f"{carried['shorter']:.0%} right on such sources, {carried['longer']:.0%} on longer ones "
        f"({low}-{high}, {carried['pairs']:,} pairs not trained on until then)"
    )


def describe_memory_use(figures: dict[str, Any], accuracy: float) -> Iterator[str]:
    """Accuracy by source length and without the memory's reads, a line each."""
    for row in figures["by_length"]:
        low, high = row["lengths"]
        name = f"length {low}-{high}" if low < high else f"length {low}"
        yield f"{name:<19}{row['accuracy']:7.2%}   of {counted(row['pairs'], 'pair')}"
    if "longer" in figures:
        low, high = figures["longer"]["lengths"]
        share, pairs = figures["longer"]["accuracy"], figures["longer"]["pairs"]
        yield f"longer, {f'{low}-{high}':<11}{share:7.2%}   of {counted(pairs, 'pair')}"
    if "without_memory" in figures:
        alone = figures["without_memory"]
        verdict = ": the memory is hardly used" if alone >= HARDLY_USED * accuracy > 0 else ""
        yield f"without memory     {alone:7.2%}   with all reads set to 0{verdict}"


def sparkline(values: list[float], width: int = 40) -> str:
    """The last values as a line of bars, on a scale from 1 to the largest of them, by logarithm."""
    shown = [log(max(value, 1.0)) for value in values[-width:]]
    highest = max(shown, default=0.0) or 1.0
    return "".join(BARS[min(7, int(8 * value / highest))] for value in shown)


def points(record: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a line of the log, with names: perplexity, test/coarse and so on."""
    for name, value in record.items():
        if isinstance(value, dict):
            for score in ("accuracy", "coarse", "fine", "perplexity", "bits"):
                if score in value:
                    yield f"{name}/{score}", value[score]
        elif name not in ("step", "start", "start_step", "winner", "arrived"):
            sort = f"start {record['start']}/{name}" if "start" in record else name
            yield sort, value
