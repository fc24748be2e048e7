"""Copies of runs that are small enough to be committed: no checkpoints, no models."""

import json
from pathlib import Path

from pushpop.errors import InputError, writing
from pushpop.experiments.presets import identity
from pushpop.experiments.records import LENGTHS_FILE, RunRecord, read_results
from pushpop.files import write_file
from pushpop.training import RunDirectory
from pushpop.training.run import ENVIRONMENT_FILE, METRICS_FILE, REPORT_FILE, TRAINING_FILE

LINES = 400
"""Lines of a log that are kept; lines with accuracies are all kept."""


def collect(source: Path, target: Path) -> list[Path]:
    """Copy the small files of every run in a folder; a run that was copied before is renewed."""
    copies = []
    for run in read_results(source):
        origin, copy = run.path, target / run.name
        if (copy / TRAINING_FILE).exists() and identity(RunDirectory(copy).config()) != identity(
            run.config
        ):
            raise InputError(f"{copy}: holds another run than {origin}: give another folder")
        with writing(copy):
            copy.mkdir(parents=True, exist_ok=True)
            for name in (ENVIRONMENT_FILE, TRAINING_FILE, LENGTHS_FILE):
                if (origin / name).exists():
                    write_file(copy / name, (origin / name).read_bytes())
            write_file(copy / METRICS_FILE, compact(run).encode())
            if run.report is not None:
                write_file(copy / REPORT_FILE, (origin / REPORT_FILE).read_bytes())
            else:
                (copy / REPORT_FILE).unlink(missing_ok=True)
        copies.append(copy)
    return copies


def compact(run: RunRecord) -> str:
    """A run's log, thinned out where it is long: a report about it stays the same."""
    records = run.metrics
    if len(records) > LINES:
        every = -(-len(records) // LINES)
        records = [
            record
            for number, record in enumerate(records)
            if number % every == 0
            or "test" in record
            or record.get("perplexity") == run.perplexity
            or record is records[-1]
        ]
    return "".join(f"{json.dumps(record)}\n" for record in records)
