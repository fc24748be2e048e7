"""The training loop: the paper's protocol, stopped and resumed without a trace.

A run is a function of its options. Batch n is a function of the seed, n and the lengths allowed
(`draw_batch`), every test draws from a stream of its own, and nothing else is random once the
weights are drawn; so weights, optimiser and `Progress` are all that a checkpoint needs.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from os import PathLike
from typing import Any

import torch
from torch import nn

from pushpop.errors import InputError
from pushpop.evaluation import evaluate
from pushpop.models import Transducer
from pushpop.tasks import Batch, Lengths, batch_rng, batches, get_task
from pushpop.training.checkpoint import (
    Checkpoint,
    load_latest,
    optimiser_tensors,
    restore_optimiser,
    save,
    steps_in,
)
from pushpop.training.config import CHANGEABLE, TrainConfig
from pushpop.training.interrupt import Signals, StopRequested
from pushpop.training.run import REPORT, RunDirectory, environment
from pushpop.training.schedule import Progress
from pushpop.training.trained import find_checkpoint, model_of
from pushpop.training.view import View

SOLVED = 0.999
"""Test coarse accuracy that counts as solved, if it is reached `IN_A_ROW` times."""
IN_A_ROW = 2


class Diverged(RuntimeError):
    """The loss or a gradient is not finite. The weights are as they were before that batch."""


def train(
    config: TrainConfig, directory: str | PathLike[str], view: View | None = None
) -> dict[str, Any]:
    """Train a transducer in a run directory and return the final report.

    A directory with an unfinished run of the same options is taken up where its latest checkpoint
    is; with a finished one, its report is returned. Options that only say when to stop may be
    others than before (`config.CHANGEABLE`), so that a finished run can go on. Called in the main
    thread, Ctrl-C and SIGTERM finish the batch, save, and then raise `KeyboardInterrupt` and
    `SystemExit(143)`.

    Raises:
        InputError: the directory holds something else, or cannot be written.
        Diverged: NaN or infinity in the loss or a gradient.
    """
    run, view = RunDirectory(directory), view or View()
    run.prepare(config)
    with run, Signals() as signals, _threads(config.threads):
        for change in run.go_on(config):
            view.message(f"{run.path}: {change}")
        report = run.report()
        if report is not None:
            view.message(f"{run.path}: this run is finished")
            return report
        session = Session(config, run, view, signals)
        try:
            session.resume()
            return session.train()
        except StopRequested:
            session.save(planned=False)
            view.message(f"stopped after batch {session.progress.step}; saved in {run.path}")
        finally:
            view.close()
        signals.leave()
    raise AssertionError("unreachable")


class Session:
    """The part of a run from a start to a stop."""

    def __init__(
        self, config: TrainConfig, run: RunDirectory, view: View, signals: Signals
    ) -> None:
        self.config, self.run, self.view, self.signals = config, run, view, signals
        self.task = get_task(config.task)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.model = Transducer(config.model, self.task.vocabulary)
        self.optimiser = make_optimiser(config, self.model)
        self.progress = Progress.start(config)
        start = self.progress.lengths(config)
        for lengths in (config.training_range, config.testing_range, start):
            self.task.sample(batch_rng(config.seed, "check", 0), 1, lengths)  # or refuse now
        self.feed = self._batches(self.progress.lengths(config))
        self.began = time.monotonic()
        self.saved_step = -1  # of the last checkpoint with everything of its step in it

    def resume(self) -> None:
        """Take up the latest checkpoint that is whole, if there is one."""
        found = load_latest(self.run.checkpoints, self.view.message, set_aside=True)
        if found is not None:
            _, checkpoint = found
            self._restore(checkpoint)
            before, now = self.run.environment(), environment(self.config.threads)
            for name in before.keys() & now.keys():
                if before[name] != now[name]:
                    self.view.message(
                        f"{name} was {before[name]} and is {now[name]}: results may differ"
                    )
        self.run.open_log(self.progress.log_size)
        self.feed = self._batches(self.progress.lengths(self.config))
        self.view.begin(self.config, self.progress)

    def train(self) -> dict[str, Any]:
        """Go on until something says stop; then test on fresh draws and save the model."""
        while True:
            self.settle()
            reason = self.stop_reason()
            if reason is not None:
                return self.finish(reason)
            self.signals.check()
            self.step()

    def step(self) -> None:
        """One batch: the gradient of the mean over target symbols, clipped, and an update."""
        config, progress = self.config, self.progress
        lengths = progress.lengths(config)
        batch = next(self.feed)
        self.optimiser.zero_grad()
        nll, symbols = self.model.likelihood(batch)
        loss = nll / symbols
        value = float(nll.detach())
        if not isfinite(value):
            raise Diverged(f"batch {progress.step + 1}: the loss is {value}{self._unharmed()}")
        loss.backward()  # type: ignore[no-untyped-call]
        culprit = not_finite(self.model)
        if culprit is not None:
            raise Diverged(
                f"batch {progress.step + 1}: the gradient of {culprit} is not finite"
                f"{self._unharmed()}"
            )
        if config.clip:
            nn.utils.clip_grad_value_(self.model.parameters(), config.clip)
        self.optimiser.step()
        progress.after_batch(config, value, symbols)
        for group in self.optimiser.param_groups:
            group["lr"] = progress.rate
        if progress.lengths(config) != lengths:
            self.feed = self._batches(progress.lengths(config))
        self._count_time()
        self.view.step(progress, value / symbols)

    def settle(self) -> None:
        """Report, test and save after a batch, as is due. A stop while testing leaves no trace."""
        config, progress = self.config, self.progress
        step = progress.step
        if progress.settled < step:
            record: dict[str, Any] = {}
            if step % config.evaluate_every == 0:
                record = self.evaluate(self.model, "evaluate", step)
                solved = record["test"]["coarse"] >= SOLVED
                progress.solved = progress.solved + 1 if solved else 0
            if step % config.report_every == 0:
                head = {"perplexity": progress.report(), "learning_rate": progress.rate}
                record = {**head, "longest": progress.longest, **record}
            if record:
                record = {"step": step, **record}
                progress.log_size = self.run.log(record)
                self.view.record(record, progress)
            progress.settled = step
        if step and step % config.checkpoint_every == 0 and self.saved_step != step:
            self.save()

    def evaluate(self, model: Transducer, stream: str, index: int) -> dict[str, Any]:
        """Accuracy at the training and at the test lengths, on draws of their own."""
        ranges = {"train": self.config.training_range, "test": self.config.testing_range}
        return {
            name: evaluate(
                model,
                self.task,
                lengths,
                self.config.evaluate_sequences,
                seed=self.config.seed,
                stream=f"{stream}-{name}",
                index=index,
                between=self.signals.check,
            )
            for name, lengths in ranges.items()
        }

    def stop_reason(self) -> str | None:
        """Why training is over, if it is."""
        config, progress = self.config, self.progress
        if config.until_solved and progress.solved >= IN_A_ROW:
            return "solved"
        if progress.step >= config.steps:
            return "steps"
        if config.minutes and progress.seconds >= 60 * config.minutes:
            return "time"
        return None

    def finish(self, reason: str) -> dict[str, Any]:
        """Save, test on fresh draws, write the model that is kept and the report."""
        progress = self.progress
        if self.saved_step != progress.step:
            self.save(planned=False)  # a run that goes on must not remember this end
        self.view.message(f"stopped by {reason} after {progress.step} batches; final test")
        kept_step, model = self.kept(reason)
        report = {
            "stopped_by": reason,
            "step": progress.step,
            "kept_step": kept_step,
            "seconds": round(progress.seconds, 3),
            "perplexity": progress.perplexity,
            "best_perplexity": progress.best_perplexity,
            "best_step": progress.best_step,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            **self.evaluate(model, "final", 0),
        }
        if kept_step != progress.step:
            report["last"] = self.evaluate(self.model, "final", 0)
        model.metadata = {"training": self.config.to_dict(), "report": report}
        model.save_pretrained(self.run.path)
        self.run.write(REPORT, report)
        self.view.end(report)
        return report

    def kept(self, reason: str) -> tuple[int, Transducer]:
        """The model to keep, and after how many batches it was."""
        progress, last = self.progress, (self.progress.step, self.model)
        if self.config.keep == "last" or reason == "solved" or progress.improves():
            return last
        if progress.best_step in (None, progress.step):
            return last
        try:
            which = str(progress.best_step)
            step, best = find_checkpoint(self.run.checkpoints, which, self.view.message)
        except InputError as error:
            self.view.message(f"{error}; the last weights are kept in place of the best")
            return last
        return step, model_of(self.config, best)

    def save(self, planned: bool = True) -> None:
        """Write a checkpoint of this moment; only a planned one can be the best."""
        progress = self.progress
        self._count_time()
        if planned:
            progress.mark_best()
        self.run.sync_log()
        tensors = {f"model.{name}": t for name, t in self.model.state_dict().items()}
        tensors |= {f"optimiser.{k}": t for k, t in optimiser_tensors(self.optimiser).items()}
        data = {"config": self.config.to_dict(), "progress": progress.to_dict()}
        save(self.run.checkpoints, progress.step, Checkpoint(tensors, data), progress.best_step)
        self.saved_step = progress.step

    def _restore(self, checkpoint: Checkpoint) -> None:
        saved = TrainConfig.from_saved(checkpoint.data["config"], str(self.run.checkpoints))
        if not saved.differences(self.config).keys() <= set(CHANGEABLE):
            raise InputError(f"{self.run.checkpoints}: a checkpoint of a run with other options")
        parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "optimiser": {}}
        for key, tensor in checkpoint.tensors.items():
            part, _, name = key.partition(".")
            parts[part][name] = tensor
        self.progress = Progress.from_dict(checkpoint.data["progress"])
        self.model.load_state_dict(parts["model"])
        restore_optimiser(self.optimiser, parts["optimiser"], self.progress.rate)
        if self.progress.settled == self.progress.step:
            self.saved_step = self.progress.step

    def _batches(self, lengths: Lengths) -> Iterator[Batch]:
        """The batches from the next one on."""
        return batches(
            self.task,
            seed=self.config.seed,
            stream="train",
            batch_size=self.config.batch_size,
            lengths=lengths,
            start=self.progress.step,
        )

    def _count_time(self) -> None:
        now = time.monotonic()
        self.progress.seconds += now - self.began
        self.began = now

    def _unharmed(self) -> str:
        steps = steps_in(self.run.checkpoints)
        last = f"the checkpoint after batch {steps[0]} is kept" if steps else "no checkpoint yet"
        return f"; no update was made; {last}"


def make_optimiser(config: TrainConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The optimiser that a config describes."""
    rate, eps = config.learning_rate, config.epsilon
    if config.optimiser == "adam":
        return torch.optim.Adam(model.parameters(), lr=rate, eps=eps)
    return torch.optim.RMSprop(model.parameters(), lr=rate, alpha=config.rmsprop_alpha, eps=eps)


def not_finite(model: nn.Module) -> str | None:
    """The first parameter whose gradient has NaN or infinity."""
    gradients = [(name, p.grad) for name, p in model.named_parameters() if p.grad is not None]
    if isfinite(float(torch.stack([g.sum() for _, g in gradients]).sum())):
        return None
    wrong = (name for name, gradient in gradients if not bool(gradient.isfinite().all()))
    return next(wrong, None)  # none: finite numbers whose sum overflows


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
