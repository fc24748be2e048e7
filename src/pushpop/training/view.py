"""How a run is watched: not at all, or line by line; `live.py` has a third way."""

import time
from typing import Any

from pushpop.training.config import TrainConfig
from pushpop.training.schedule import Progress


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
        """Say what is trained, and from where."""
        self.speed = Speed(config)
        self._say(f"{describe_run(config)}, {describe_length(config, progress)}")
        if progress.step:
            self._say(f"resumed after batch {progress.step}")

    def step(self, progress: Progress, loss: float) -> None:
        """Count."""
        self.speed.step()

    def record(self, record: dict[str, Any], progress: Progress) -> None:
        """One line with everything that was reported."""
        self._say(f"{describe_record(record)}  {self.speed.text(progress)}")

    def message(self, text: str) -> None:
        """As it is."""
        self._say(text)

    def end(self, report: dict[str, Any]) -> None:
        """The final accuracies."""
        self._say(f"final {describe_end(report)}")

    def _say(self, text: str) -> None:
        print(text, flush=True)


class Speed:
    """Batches per second after the first, which has much to load, and the time left."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.began = self.drawn = time.monotonic()
        self.steps = -1

    def step(self) -> None:
        """Count a batch."""
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
        """As in 12.3 batches/s, 4:05 left."""
        if self.steps < 1:
            return "starting"
        rate = self.steps / max(time.monotonic() - self.began, 1e-9)
        left = (progress.last_step(self.config) - progress.step) / rate
        if self.config.minutes:
            left = min(left, max(0.0, 60 * self.config.minutes - progress.seconds))
        minutes, seconds = divmod(round(left), 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
        return f"{rate:.1f} batches/s, {clock} left"


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
        (f"on {config.device}", config.device != "cpu"),
    ):
        body += f", {what}" if more else ""
    return f"{config.task}: {body}, seed {config.seed}"


def describe_length(config: TrainConfig, progress: Progress) -> str:
    """How long a run takes at most, in words."""
    if not progress.epoch or not config.epochs:
        return f"{config.steps} batches"
    patience = f" or until {config.patience} bring nothing" if config.patience else ""
    return f"{config.epochs} epochs of {progress.epoch} batches{patience}"


def describe_record(record: dict[str, Any]) -> str:
    """A record of the log in words."""
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
