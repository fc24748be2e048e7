"""A model in training: batch after batch, and what a checkpoint of it holds.

Batch n is a function of the seed, n and the lengths allowed (`data.py`), its noise and its dropout
one of the seed and n, and nothing else is random once the weights are drawn; so weights, optimiser
and `Progress` are all that it takes to go on. Processes that train together have a trainer each,
with the same state after every batch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from math import isfinite
from time import perf_counter
from typing import Any

import torch
from torch import nn

from pushpop.devices import find_device
from pushpop.layers import NoiseLevels
from pushpop.layers.cells import CELLS
from pushpop.models import FORMS
from pushpop.models.decoding import evaluating
from pushpop.tasks import Batch, batch_rng
from pushpop.training.checkpoint import Checkpoint, optimiser_tensors, restore_optimiser
from pushpop.training.config import TrainConfig, check_same_run
from pushpop.training.data import Data, make_data
from pushpop.training.parallel import Group, torch_threads
from pushpop.training.schedule import Progress, perplexity

LOOK_AHEAD = 5  # batches
GUARD_EVERY = 50
"""Batches from one snapshot of steady weights to the next."""


class Diverged(RuntimeError):
    """The loss or a gradient is not finite. The weights are as they were before that batch."""


class Trainer:
    """Model, optimiser, schedules and batches of a run, from its start or a checkpoint on."""

    is_tested = True
    """Whether its model is tested while it is trained; those of a race are not."""

    def __init__(
        self, config: TrainConfig, group: Group, data: Data, start: int | None = None
    ) -> None:
        self.config, self.group, self.data = config, group, data
        if config.curriculum_start:
            data.check_lengths(Progress.start(config).lengths(config))
        self.start = start  # of a race; `None`: there is none
        self.guarded: Checkpoint | None = None  # the snapshot that is restored after divergence
        self.device = find_device(config.device, group.local_rank)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            model = FORMS[config.form](
                config.model,
                data.vocabulary,
                text=data.text,
                input_scale=config.input_scale,
                output_scale=config.output_scale,
            )
        self.model = model.to(self.device)
        self.optimiser = make_optimiser(config, self.model)
        choices = len(self.model.output_table.weight)
        self.progress = Progress.start(config, data.epoch, choices)
        self.batches = self._batches()

    def step(self) -> float:
        """One batch: the gradient of the mean over target symbols, clipped, and an update.

        Returns that mean.
        """
        config, progress = self.config, self.progress
        lengths = progress.lengths(config)
        batch = self.group.shard(next(self.batches))
        for group in self.optimiser.param_groups:
            group["lr"] = progress.next_rate(config)
        self.optimiser.zero_grad()
        if batch is None:
            objective = nll = torch.zeros(())
            symbols = 0
        else:
            with self._own_randomness():
                objective, (nll, symbols) = self.model.objective(
                    batch.to(self.device), config.label_smoothing, self._noise()
                )
        value, symbols = self.group.sum_losses(float(nll.detach()), symbols)
        if not isfinite(value):
            raise Diverged(f"batch {progress.step + 1}: the loss is {value}")
        if batch is not None:
            (objective / symbols).backward()  # type: ignore[no-untyped-call]
        self.group.sum_gradients(self.model)
        culprit = non_finite_gradient(self.model)
        if culprit is not None:
            raise Diverged(f"batch {progress.step + 1}: the gradient of {culprit} is not finite")
        if config.clip:
            nn.utils.clip_grad_value_(self.model.parameters(), config.clip)
        self.optimiser.step()
        progress.after_batch(config, value, symbols)
        if config.guard:
            self._guard()
        if progress.lengths(config) != lengths:
            self.renew_batches()
        return value / symbols

    def report(self) -> dict[str, Any]:
        """The line of the log that is due after this batch, if there is one."""
        progress = self.progress
        if progress.step % self.config.report_every:
            return {}
        perplexity = progress.report()
        rate = progress.next_rate(self.config)
        return {"perplexity": perplexity, "learning_rate": rate, "longest": progress.longest}

    def decide(self) -> None:
        """The trainer to go on with instead: only a race has one."""

    def _guard(self) -> None:
        """Snapshot the weights while training is steady; restore them after divergence.

        RMSProp may throw a model off in one batch, and it seldom finds back at full length.
        """
        progress, config = self.progress, self.config
        if progress.has_fallen(config):
            assert self.guarded is not None
            before = Progress.from_dict(self.guarded.data["progress"])
            self._load(self.guarded.tensors)
            progress.after_fall(before.rate, before.steady)
        elif progress.is_steady(config):
            last = progress.guarded_step
            if last is None or progress.step - last >= GUARD_EVERY:
                progress.guarded_step = progress.step
                tensors = {key: tensor.detach().clone() for key, tensor in self._tensors().items()}
                self.guarded = Checkpoint(tensors, {"progress": progress.to_dict()})

    @torch.no_grad()
    def current_perplexity(self) -> float:
        """Of the weights as they are, on the batches that come next.

        RMSProp may spoil a model in one batch; the average of the batches before does not show it.
        """
        total, symbols = 0.0, 0
        with evaluating(self.model):
            ahead = self.data.batches(self.progress.lengths(self.config), self.progress.step)
            for batch in islice(ahead, LOOK_AHEAD):
                nll, n = self.model.likelihood(batch.to(self.device))
                total, symbols = total + float(nll), symbols + n
        return perplexity(total, symbols)

    def checkpoint(self) -> Checkpoint:
        """Everything that it takes to go on from here."""
        tensors = self._tensors()
        data: dict[str, Any] = {
            "config": self.config.to_dict(),
            "progress": self.progress.to_dict(),
        }
        if self.start is not None:
            data["start"] = self.start
        if self.guarded is not None:
            tensors |= {f"guarded.{key}": t for key, t in self.guarded.tensors.items()}
            data["guarded"] = self.guarded.data
        return Checkpoint(tensors, data)

    def _tensors(self) -> dict[str, torch.Tensor]:
        tensors = {f"model.{name}": t for name, t in self.model.state_dict().items()}
        return tensors | {f"optimiser.{k}": t for k, t in optimiser_tensors(self.optimiser).items()}

    def _load(self, tensors: dict[str, torch.Tensor]) -> None:
        parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "optimiser": {}}
        for key, tensor in tensors.items():
            part, _, name = key.partition(".")
            parts[part][name] = tensor.clone()
        self.model.load_state_dict(parts["model"])
        restore_optimiser(self.optimiser, parts["optimiser"], self.progress.rate)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint of a run with the same options."""
        check_same_run(checkpoint.data["config"], self.config)
        self.progress = Progress.from_dict(checkpoint.data["progress"])
        aside: dict[str, torch.Tensor] = {}
        here: dict[str, torch.Tensor] = {}
        for key, tensor in checkpoint.tensors.items():
            (aside if key.startswith("guarded.") else here)[key.removeprefix("guarded.")] = tensor
        self._load(here)
        if aside:
            self.guarded = Checkpoint(aside, checkpoint.data["guarded"])
        self.renew_batches()

    def _noise(self) -> NoiseLevels | None:
        """The noise on gates, once it is time. A cell without gates has none to put it on."""
        config, share = self.config, self.progress.noise_share(self.config)
        on_cell = config.controller_noise if CELLS[config.cell].has_gates else 0.0
        levels = NoiseLevels(share * config.gate_noise, share * on_cell)
        return levels if any(levels) else None

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Have dropout and noise be functions of seed, batch and process."""
        if self._noise() is None and not self.config.dropout:
            yield
            return
        drawn = batch_rng(self.config.seed, f"noise-{self.group.rank}", self.progress.step)
        gpus = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=gpus):
            torch.manual_seed(int(drawn.integers(2**63)))
            yield

    def renew_batches(self) -> None:
        """Draw the batches from here on: the lengths, or the place in the stream, have changed."""
        self.batches = self._batches()

    def _batches(self) -> Iterator[Batch]:
        """The batches from the next one on, with the lengths that it is time for."""
        return self.data.batches(self.progress.lengths(self.config), self.progress.step)


def make_optimiser(config: TrainConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The optimiser that a config describes."""
    rate, eps = config.learning_rate, config.epsilon
    if config.optimiser == "adam":
        return torch.optim.Adam(model.parameters(), lr=rate, eps=eps)
    return torch.optim.RMSprop(model.parameters(), lr=rate, alpha=config.rmsprop_alpha, eps=eps)


def non_finite_gradient(model: nn.Module) -> str | None:
    """The first parameter whose gradient has NaN or infinity."""
    gradients = [(name, p.grad) for name, p in model.named_parameters() if p.grad is not None]
    if isfinite(float(torch.stack([g.sum() for _, g in gradients]).sum())):
        return None
    wrong = (name for name, gradient in gradients if not bool(gradient.isfinite().all()))
    return next(wrong, None)  # none: finite numbers whose sum overflows


def time_batch(config: TrainConfig, batches: int = 3) -> float:
    """Seconds that a batch of such a run takes on this machine, the mean of a few."""
    with torch_threads(config.threads):
        trainer = Trainer(config, Group(), make_data(config))
        trainer.step()  # kernels are loaded, batches drawn ahead
        began = perf_counter()
        for _ in range(batches):
            trainer.step()
        return (perf_counter() - began) / batches
