"""Accuracy of a sweep's runs at single lengths, once they are finished.

The figures are those of `pushpop evaluate RUN --lengths ... --save`, kept in the same file.
"""

from dataclasses import dataclass
from pathlib import Path

from pushpop.evaluation import SEQUENCES, evaluate
from pushpop.experiments.records import RunRecord, read_run, save_length
from pushpop.tasks import get_task
from pushpop.training.interrupt import Signals, StopRequested
from pushpop.training.parallel import torch_threads
from pushpop.training.trained import load_trained


@dataclass(frozen=True)
class Measurement:
    """The lengths at which a run is measured, and how many sequences are drawn of each."""

    lengths: tuple[int, ...] = ()
    sequences: int = SEQUENCES

    def missing(self, run: RunRecord) -> list[int]:
        """The lengths at which the run's model has not been measured on so many sequences."""
        found = run.measured_lengths
        return [
            length
            for length in self.lengths
            if length not in found or found[length].get("sequences") != self.sequences
        ]


NO_MEASUREMENT = Measurement()


def measure(directory: Path, measurement: Measurement) -> None:
    """Measure a finished run at the lengths that are missing.

    As in training, Ctrl-C and SIGTERM raise `KeyboardInterrupt` and `SystemExit(143)`; the lengths
    that are measured by then are kept.
    """
    run = read_run(directory)
    missing = measurement.missing(run)
    if not missing:
        return
    model, task = load_trained(directory).model, get_task(run.config.task)
    with Signals() as signals, torch_threads(run.config.threads):
        try:
            for length in missing:
                figures = evaluate(
                    model, task, (length, length), measurement.sequences, between=signals.check
                )
                save_length(str(directory), figures)
        except StopRequested:
            signals.leave()
