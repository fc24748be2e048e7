"""Training in a run directory, from the start or a checkpoint to the end.

A run is a function of its options: every test draws from a stream of its own, and `trainer.py` says
what a batch depends on. One process leads; under torchrun others follow it.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pushpop.devices import resolve_device
from pushpop.errors import InputError, counted
from pushpop.models import Transducer
from pushpop.tasks.pairs_file import rows_of
from pushpop.training.checkpoint import (
    Signals,
    StopRequested,
    load_latest,
    pack,
    save,
    saved_steps,
    unpack,
)
from pushpop.training.config import TrainConfig
from pushpop.training.data import Contents, Data, make_data
from pushpop.training.parallel import Group, process_group, releasing_followers, torch_threads
from pushpop.training.recipes import by_count, by_lines
from pushpop.training.run import (
    REPORT_FILE,
    RunDirectory,
    environment,
    find_checkpoint,
    model_at_checkpoint,
)
from pushpop.training.schedule import Progress, stop_reason
from pushpop.training.trainer import Diverged, Race, Trainer, make_trainer
from pushpop.training.view import PlainView, TensorBoard, View, describe_carried

STOP_ACCURACY = 0.999
"""Coarse accuracy on training and test lengths that counts as solved, if reached `STOP_TESTS` times
in a row."""
STOP_TESTS = 2
FILES = {"task": ".pairs.tsv", "valid": ".valid.tsv"}
"""What a run calls the pairs that `fit` gave it: earlier versions wrote them there."""


def train(
    config: TrainConfig, directory: str | PathLike[str], view: View | None = None
) -> dict[str, Any]:
    """Train a transducer in a run directory and return the final report.

    A directory with an unfinished run of the same options is taken up where its latest checkpoint
    is; with a finished one, its report is returned. Options that only say when to stop may be
    others than before (`config.CHANGEABLE`), so that a finished run can go on. Called in the main
    thread, Ctrl-C and SIGTERM finish the batch, save, and then raise `KeyboardInterrupt` and
    `SystemExit(143)`.

    Under torchrun, all processes must call it; only the first uses the directory and the view.

    Raises:
        InputError: the directory holds something else, or cannot be written.
        Diverged: NaN or infinity in the loss or a gradient.
    """
    return _train(config, directory, view or View(), {})


def fit(
    examples: Iterable[Any],
    valid: Iterable[Any] | None,
    run: str | PathLike[str] | None,
    show: bool,
    options: Mapping[str, Any],
) -> Transducer:
    """Train on pairs or lines in memory: see `Transducer.fit` and `LanguageModel.fit`."""
    parts = {"task": examples} if valid is None else {"task": examples, "valid": valid}
    contents, decided = as_files(parts, options)
    with ExitStack() as stack:
        if run is None:
            run = stack.enter_context(TemporaryDirectory(prefix="pushpop-"))
        files = {name: str(Path(run, FILES[name])) for name in contents}
        config = TrainConfig.from_dict({**decided, **options, **files})
        _train(config, run, PlainView() if show else View(), contents)
        return Transducer.from_pretrained(run)


def as_files(
    parts: Mapping[str, Iterable[Any]], options: Mapping[str, Any]
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """What files of these pairs or lines would hold, and the options that their number decides
    unless they are given: a recipe cannot count the lines of a file that is not there."""
    recipe, lines = options.get("recipe"), options.get("form") == "lm"
    words = {"task": "lines" if lines else "pairs"}
    rows = {name: rows_of(part, words.get(name, name), lines=lines) for name, part in parts.items()}
    if lines:
        decided = by_lines(len(rows["task"])) if recipe in (None, "lm") else {}
    else:
        widths = {len(row) for part in rows.values() for row in part}
        if len(widths) > 1:
            raise InputError("some pairs have features and some have none, expected all or none")
        decided = by_count(len(rows["task"])) if recipe in (None, "pairs", "labels") else {}
        decided["columns"] = "1,2" if widths == {2} else "1,2,3"
    contents = {
        name: "".join("\t".join(row) + "\n" for row in part).encode() for name, part in rows.items()
    }
    return contents, decided


def _train(
    config: TrainConfig, directory: str | PathLike[str], view: View, contents: Contents
) -> dict[str, Any]:
    with process_group() as group, Signals() as signals, torch_threads(config.threads):
        if group.rank > 0:
            return run_follower(group, signals, contents)
        with releasing_followers(group) as final_message:
            session = Session(RunDirectory(directory), view, signals, group)
            report = final_message["report"] = session.lead(config, contents)
        return report


def run_follower(group: Group, signals: Signals, contents: Contents) -> dict[str, Any]:
    """Do the batches that the leader does, until it says otherwise."""
    trainer: Trainer | None = None
    while True:
        signal, message = group.exchange(signals.received or 0)
        if "config" in message:
            config = TrainConfig.from_saved(message["config"])
            trainer = Trainer(config, group, make_data(config, contents))
            trainer.restore(unpack(group.broadcast(b"")))
        elif "validated" in message and trainer is not None:
            vars(trainer.progress).update(message["validated"])
        elif "report" in message:
            report: dict[str, Any] = message["report"]
            return report
        elif "code" in message:
            raise SystemExit(message["code"])
        elif trainer is not None and not signal:
            trainer.step()


class Session:
    """The part of a run from a start to a stop."""

    config: TrainConfig
    data: Data
    board: TensorBoard | None
    trainer: Trainer | Race  # from `resume` on

    def __init__(self, run: RunDirectory, view: View, signals: Signals, group: Group) -> None:
        self.run, self.view, self.signals, self.group = run, view, signals, group
        self.saved_step = -1  # of the last checkpoint with everything of its step in it

    def lead(self, config: TrainConfig, contents: Contents) -> dict[str, Any]:
        """Train as the one process, or the first, unless the run is over; its report."""
        run, view, group = self.run, self.view, self.group
        if config.batch_size < group.size:
            raise InputError(
                f"batch_size is {config.batch_size} with {group.size} processes, expected "
                f"{group.size} or more"
            )
        if run.is_over(config):  # nothing is computed: its device need not be on this machine
            device = run.config().device
        else:
            device = resolve_device(config.device, group.local_size)
        if device != config.device:
            config = config.override({"device": device})
        self.config = config
        self.board = TensorBoard(run.path / "tensorboard") if config.tensorboard else None
        self.data = data = make_data(config, contents)
        run.prepare(config, group.size)
        with run:
            for text in data.messages():
                view.message(text)
            run.check_data(data.vocabulary, data.text, data.fingerprint())
            for change in run.update_config(config):
                view.message(f"{run.path}: {change}")
            if (report := run.report(config)) is not None:
                view.message(f"{run.path}: this run is finished")
                return report
            for lengths in (config.training_range, config.testing_range):
                data.check_lengths(lengths)  # refused now rather than at the first test
            try:
                self.resume()
                return self.train()
            except StopRequested:
                self.save(planned=False)
                view.message(f"stopped after batch {self.progress.step}; saved in {run.path}")
                self.signals.leave()
            finally:
                view.close()
                if self.board is not None:
                    self.board.close()

    @property
    def progress(self) -> Progress:
        return self.trainer.progress

    def resume(self) -> None:
        """Take up the latest checkpoint that is whole, if there is one."""
        self.began = time.monotonic()
        latest = load_latest(self.run.checkpoints, self.view.message, set_aside=True)
        checkpoint = None if latest is None else latest[1]
        try:
            self.trainer = make_trainer(self.config, self.group, self.data, checkpoint)
        except InputError as error:
            raise InputError(f"{self.run.checkpoints}: {error}" if latest else str(error)) from None
        if latest is not None:
            if self.progress.settled == self.progress.step:
                self.saved_step = self.progress.step
            before = self.run.environment()
            now = environment(self.config, self.group.size)
            for name in before.keys() & now.keys():
                if before[name] != now[name]:
                    self.view.message(
                        f"{name} was {before[name]} and is {now[name]}: results may differ"
                    )
        if self.group.size > 1:
            self.group.exchange(0, {"config": self.config.to_dict()})
            self.group.broadcast(pack(self.trainer.checkpoint()))
        self.run.open_log(self.progress.log_size)
        self.view.begin(self.config, self.progress)
        if self.board is not None:
            self.board.begin(self.progress)

    def train(self) -> dict[str, Any]:
        """Go on until something says stop; then test on fresh draws and save the model."""
        while True:
            self.finish_batch()
            reason = stop_reason(self.config, self.figures())
            if reason is not None:
                return self.finish(reason)
            received, _ = self.group.exchange(self.signals.received or 0)
            self.signals.received = received or None
            self.signals.check()
            self.step()

    def step(self) -> None:
        try:
            loss = self.trainer.step()
        except Diverged as error:
            steps = saved_steps(self.run.checkpoints)
            last = (
                f"the checkpoint after batch {steps[0]} is kept" if steps else "no checkpoint yet"
            )
            raise Diverged(f"{error}; no update was made; {last}") from None
        self.group.in_batch = False
        self._count_time()
        self.view.step(self.progress, loss)

    def finish_batch(self) -> None:
        """Report, test and save after a batch, as is due. A stop while testing leaves no trace."""
        config, progress = self.config, self.progress
        step, is_best = progress.step, False
        if progress.settled < step:
            scores: dict[str, Any] = {}
            if isinstance(self.trainer, Trainer) and step % self.data.test_every == 0:
                scores = self.evaluate(self.trainer.model, "evaluate", step)
                is_best = self.note_test(scores)
            carried = self.data.probe(self.trainer.model, step, self.signals.check)
            if carried is not None:
                progress.carried = scores["carried"] = carried
                self.group.exchange(0, {"validated": {"carried": carried}})
                self.view.message(describe_carried(carried))
            if record := {**self.trainer.report(), **scores}:
                record = {"step": step, **record}
                progress.log_size = self.run.log(record)
                self.view.record(record, progress)
                if self.board is not None:
                    self.board.record(record)
            progress.settled = step
            if isinstance(self.trainer, Race) and (decision := self.trainer.decide()) is not None:
                self.trainer, record, text = decision
                self.progress.log_size = self.run.log(record)
                self.view.message(text)
        is_due = is_best or step % config.checkpoint_every == 0
        if step and is_due and self.saved_step != step:
            self.save()

    def note_test(self, scores: dict[str, Any]) -> bool:
        """Note what a test says; return whether it is a validation and the best so far."""
        progress = self.progress
        if "valid" in scores:
            valid = scores["valid"]
            accuracy = valid.get("accuracy", 0.0)  # of lines there is the perplexity alone
            is_best = progress.validated(self.config, accuracy, valid["perplexity"])
            after = {"rate": progress.rate, "valid_perplexity": progress.valid_perplexity}
            self.group.exchange(0, {"validated": after})  # the others have seen no test
            return is_best
        solved = min(scores[part]["coarse"] for part in ("train", "test")) >= STOP_ACCURACY
        progress.solved = progress.solved + 1 if solved else 0
        return False

    def evaluate(self, model: Transducer, stream: str, index: int) -> dict[str, Any]:
        return self.data.test(model, stream, index, self.signals.check)

    def figures(self) -> dict[str, Any]:
        """How far the run is, in the terms of its report."""
        progress = self.progress
        return {
            "stopped_by": "solved" if progress.solved >= STOP_TESTS else "",
            "step": progress.step,
            "seconds": round(progress.seconds, 3),
            "perplexity": progress.perplexity,
            "best_perplexity": progress.best_perplexity,
            "best_step": progress.best_step,
            "without_gain": progress.without_gain,
            "faded": progress.rate / self.trainer.config.learning_rate,
            **({"epochs": progress.epochs, "waited": progress.waited} if progress.epoch else {}),
            **({} if progress.carried is None else {"carried": progress.carried}),
        }

    def finish(self, reason: str) -> dict[str, Any]:
        """Save, test on fresh draws, write the model that is kept and the report."""
        progress = self.progress
        if self.saved_step != progress.step:
            self.save(planned=False)  # a run that goes on must not remember this end
        batches = counted(progress.step, "batch", "batches")
        self.view.message(f"stopped by {reason} after {batches}; final test")
        kept_step, model = self.choose_model(reason)
        report = {
            **({} if self.trainer.start is None else {"start": self.trainer.start}),
            **self.figures(),
            "stopped_by": reason,
            "kept_step": kept_step,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            **self.evaluate(model, "final", 0),
            **self.data.examine(model, self.signals.check),
        }
        if kept_step != progress.step:
            report["last"] = self.evaluate(self.trainer.model, "final", 0)
        model.metadata = {"training": self.config.to_dict(), "report": report}
        model.save_pretrained(self.run.path)
        self.run.write(REPORT_FILE, report)
        self.view.end(report)
        return report

    def choose_model(self, reason: str) -> tuple[int, Transducer]:
        """The model to keep, and after how many batches it was."""
        progress, last = self.progress, (self.progress.step, self.trainer.model)
        if self.config.keep == "last" or reason == "solved" or self.improves():
            return last
        if progress.best_step in (None, progress.step):
            return last
        try:
            which = str(progress.best_step)
            step, best = find_checkpoint(self.run.checkpoints, which, self.view.message)
        except InputError as error:
            self.view.message(f"{error}; the last weights are kept in place of the best")
            return last
        model = model_at_checkpoint(self.config, best, self.data.vocabulary, self.data.text)
        return step, model.to(self.trainer.device)

    def improves(self) -> bool:
        return self.progress.improves() and self.progress.improves(
            self.trainer.current_perplexity()
        )

    def save(self, planned: bool = True) -> None:
        """Write a checkpoint of this moment; only a planned one can be the best."""
        progress = self.progress
        self._count_time()
        if planned and progress.improves():
            progress.mark_best(self.trainer.current_perplexity())
        self.run.sync_log()
        checkpoint = self.trainer.checkpoint()
        save(self.run.checkpoints, progress.step, checkpoint, progress.best_step)
        self.saved_step = progress.step

    def _count_time(self) -> None:
        now = time.monotonic()
        self.progress.seconds += now - self.began
        self.began = now
