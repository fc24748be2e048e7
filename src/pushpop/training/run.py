"""A run as a directory, and the model that it left behind.

training.json     the options (config.json is the trained model's)
environment.json  versions, threads, commit
data.json         of a run on a file: its digest, its symbols, how its text is read
metrics.jsonl     a line a report: no times, so that the same run gives the same bytes
checkpoints/      the two latest and the best
report.json       written last: how it ended and the final accuracies
config.json, vocabulary.json, model.safetensors      the trained model
"""

import json
import logging
import os
import platform
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pushpop.devices import gpu_name
from pushpop.errors import InputError, reading, writing
from pushpop.files import parse_json, to_json, write_file
from pushpop.tasks import TASKS, Vocabulary, get_task
from pushpop.tasks.pairs_text import TextForm, stem_of
from pushpop.training.checkpoint import Checkpoint, checkpoint_path, load, load_latest, saved_steps
from pushpop.training.config import TrainConfig, describe_other_run
from pushpop.training.schedule import stop_reason

if TYPE_CHECKING:
    from pushpop.models import Transducer

logger = logging.getLogger(__name__)

TRAINING_FILE, ENVIRONMENT_FILE, DATA_FILE, METRICS_FILE, REPORT_FILE = (
    "training.json",
    "environment.json",
    "data.json",
    "metrics.jsonl",
    "report.json",
)


class RunDirectory:
    """The files of a run, locked against a second process while entered."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self._lock: IO[bytes] | None = None
        self._log: IO[bytes] | None = None

    def config(self) -> TrainConfig:
        """The options that the run was started with, or last continued with."""
        path, options = self.path / TRAINING_FILE, self._read(TRAINING_FILE)
        for name in ("task", "memory", "hidden", "seed", "steps"):
            if name not in options:
                raise InputError(f"{path}: no {name!r}, expected all options of a run")
        return TrainConfig.from_saved(options, str(path))

    def report(self, config: TrainConfig | None = None) -> dict[str, Any] | None:
        """The final report; `None` if the run is unfinished, or has to continue after an end, with
        these options or with its own."""
        if not (self.path / REPORT_FILE).exists():
            return None
        report = self._read(REPORT_FILE)
        for name in ("step", "seconds", "without_gain", "faded", "epochs", "waited"):
            if type(report.get(name, 0)) not in (int, float):
                path = self.path / REPORT_FILE
                raise InputError(f"{path}: {name} is {report[name]!r}, expected a number")
        return report if stop_reason(config or self.config(), report) else None

    def is_over(self, config: TrainConfig) -> bool:
        """Whether the run is finished, and stays so with these options."""
        return (self.path / TRAINING_FILE).exists() and self.report(config) is not None

    def environment(self) -> dict[str, Any]:
        return self._read(ENVIRONMENT_FILE) if (self.path / ENVIRONMENT_FILE).exists() else {}

    def prepare(self, config: TrainConfig, processes: int = 1) -> None:
        """Make the directory, or make sure that it holds a run with the same options."""
        if (self.path / TRAINING_FILE).exists():
            if differing := describe_other_run(self.config(), config):
                raise InputError(
                    f"{self.path}: holds a run with {differing}: give another directory (--run), "
                    "or the same options to go on with it"
                )
            return
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            others = sorted(file.name for file in self.path.iterdir() if file.name[0] != ".")
        if others not in ([], [ENVIRONMENT_FILE]):
            raise InputError(
                f"{self.path}: holds {', '.join(others[:3])} but no {TRAINING_FILE}: expected "
                "a run or a new directory"
            )
        self.write(ENVIRONMENT_FILE, environment(config, processes))
        self.write(TRAINING_FILE, config.to_dict())

    def check_data(
        self, vocabulary: Vocabulary, text: TextForm | None, fingerprint: dict[str, Any]
    ) -> None:
        """Note what given pairs were trained on, or make sure that they still are the same."""
        if not fingerprint:
            return
        if not (self.path / DATA_FILE).exists():
            form = None if text is None else text.to_dict()
            symbols = {"vocabulary": vocabulary.to_dict(), "text": form}
            self.write(DATA_FILE, {"sha256": fingerprint, **symbols})
            return
        for name, digest in self._read(DATA_FILE)["sha256"].items():
            if fingerprint.get(name) != digest:
                raise InputError(
                    f"{name}: has changed since the run in {self.path} began; expected the file "
                    f"with SHA-256 {digest}, or another directory (--run)"
                )

    def symbols(self) -> tuple[Vocabulary, TextForm | None]:
        """The vocabulary that the run is trained with, and how text becomes symbols of it."""
        if not (self.path / DATA_FILE).exists():
            return get_task(self.config().task).vocabulary, None
        data = self._read(DATA_FILE)
        text = None if data["text"] is None else TextForm.from_dict(data["text"])
        return Vocabulary.from_dict(data["vocabulary"]), text

    def update_config(self, config: TrainConfig) -> list[str]:
        """Replace the options of the run; returns what has changed.

        If the run now has to continue, its old report no longer counts. It stays in place until
        there is a new one, so that a kill loses nothing at any time.
        """
        with reading(self.path / TRAINING_FILE):
            if (self.path / TRAINING_FILE).read_bytes() == to_json(config.to_dict(), "a config"):
                return []
        changes = self.config().differences(config)
        done = self.batches_done() if "steps" in changes else 0
        if config.steps < done:
            raise InputError(
                f"{self.path}: {done} batches are done, steps is {config.steps}: expected {done} "
                "or more"
            )
        if changes:
            self.write(TRAINING_FILE, config.to_dict())
        return [f"{name} was {before}, is {now}" for name, (before, now) in changes.items()]

    def batches_done(self) -> int:
        """The number of the last batch that has a checkpoint or a line in the log."""
        with suppress(OSError):
            for line in reversed((self.path / METRICS_FILE).read_text("utf-8").splitlines()):
                with suppress(ValueError, KeyError, TypeError):  # cut off by a kill
                    return int(max([json.loads(line)["step"], *saved_steps(self.checkpoints)]))
        return max(saved_steps(self.checkpoints), default=0)

    def write(self, name: str, data: Any) -> None:
        with writing(self.path / name):
            write_file(self.path / name, to_json(data, name))

    def __enter__(self) -> "RunDirectory":
        with writing(self.path):
            self._lock = open(self.path / ".lock", "wb")
        with suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._lock.close()
                raise InputError(f"{self.path}: another process is training there") from None
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._log, self._lock):
            if file is not None:
                with suppress(OSError):  # on a full disk, what could not be written before
                    file.close()

    def open_log(self, size: int) -> None:
        """Cut the log off after so many bytes and go on from there."""
        path = self.path / METRICS_FILE
        with writing(path):
            written = path.stat().st_size if path.exists() else 0
            if written < size:
                raise InputError(f"{path}: {written} bytes, the checkpoint has written {size}")
            self._log = open(path, "ab")  # noqa: SIM115  closed by __exit__
            self._log.truncate(size)

    def log(self, record: dict[str, Any]) -> int:
        """Append a line; returns how long the log is now."""
        assert self._log is not None
        with writing(self.path / METRICS_FILE):
            self._log.write(f"{json.dumps(record, allow_nan=False)}\n".encode())
            self._log.flush()
        return os.fstat(self._log.fileno()).st_size

    def sync_log(self) -> None:
        """Flush the log to the disk, before a checkpoint that refers to it."""
        if self._log is not None:
            with writing(self.path / METRICS_FILE):
                os.fsync(self._log.fileno())

    def _read(self, name: str) -> dict[str, Any]:
        path = self.path / name
        with reading(path):
            return parse_json(path.read_bytes(), path)


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, the name of its task if it is known, and words that say which it is."""

    model: "Transducer"
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
    from pushpop.models import Transducer

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
) -> "Transducer":
    import torch

    from pushpop.models import FORMS

    with torch.random.fork_rng(devices=[]):
        model = FORMS[config.form](config.model, vocabulary, text=text)
    model.load_state_dict(checkpoint.part("model."))
    return model


def task_stem(task: str) -> str:
    """A task's name or file as part of a file's name: chomsky-reverse of chomsky/reverse."""
    return task.replace("/", "-") if task in TASKS else stem_of(task)


def default_directory(config: TrainConfig) -> str:
    body = f"{config.cell}{config.layers}" if config.memory == "none" else config.memory
    return f"runs/{task_stem(config.task)}-{body}-seed{config.seed}"


def environment(config: TrainConfig, processes: int = 1) -> dict[str, Any]:
    """What a result may depend on besides the options."""
    packages = ("pushpop", "torch", "numba", "numpy", "safetensors")
    gpu = gpu_name(config.device)
    return {
        **{name: version(name) for name in packages},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "threads": config.threads,
        "processes": processes,
        "commit": commit(),
        **({} if gpu is None else {"gpu": gpu}),
    }


def commit() -> str | None:
    """The commit of pushpop's source, where that is a git checkout."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        return done.stdout.strip()
    return None
