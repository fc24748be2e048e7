"""A model in training, or several in a race: batch after batch, and what a checkpoint holds.

Batch n is a function of the seed, n and the lengths allowed (`data.py`), its noise and its dropout
one of the seed and n, and nothing else is random once the weights are drawn; so weights, optimiser
and `Progress` are all that it takes to go on. Processes that train together have a trainer each,
with the same state after every batch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from math import inf, isfinite
from time import perf_counter
from typing import Any

import torch
from torch import nn

from pushpop.devices import find_device
from pushpop.errors import InputError
from pushpop.layers import NoiseLevels
from pushpop.layers.cells import CELLS
from pushpop.models import FORMS, Transducer
from pushpop.models.decoding import evaluating
from pushpop.tasks import batch_rng
from pushpop.training.checkpoint import Checkpoint, optimiser_tensors, restore_optimiser
from pushpop.training.config import TrainConfig, check_same_run
from pushpop.training.data import Data, make_data
from pushpop.training.parallel import Group, torch_threads
from pushpop.training.schedule import Progress, perplexity

LOOK_AHEAD = 5  # batches
GUARD_EVERY = 50
"""Batches from one snapshot of steady weights to the next."""
ROUND = 50
"""Batches that a start of a race has before the next one has its turn."""


class Diverged(RuntimeError):
    """The loss or a gradient is not finite. The weights are as they were before that batch."""


class Trainer:
    """Model, optimiser, schedules and batches of a run, from its start or a checkpoint on."""

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
        self.progress.shorter_first = data.shorter_first
        self.renew_batches()

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
                    batch.to(self.device), config.label_smoothing, self._noise(), self._attends()
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

    def _guard(self) -> None:
        """Snapshot the weights while training is steady; restore them after divergence.

        RMSProp may throw a model off in one batch, and it seldom finds back at full length.
        """
        progress, config = self.progress, self.config
        if progress.has_fallen(config):
            assert self.guarded is not None
            before = Progress(**self.guarded.data["progress"])
            self._load(self.guarded)
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

    def _load(self, saved: Checkpoint) -> None:
        self.model.load_state_dict(saved.part("model."))
        restore_optimiser(self.optimiser, saved.part("optimiser."), self.progress.rate)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint of a run with the same options."""
        check_same_run(checkpoint.data["config"], self.config)
        self.progress = Progress(**checkpoint.data["progress"])
        self._load(checkpoint)
        if "guarded" in checkpoint.data:
            self.guarded = Checkpoint(checkpoint.part("guarded."), checkpoint.data["guarded"])
        self.renew_batches()

    def _noise(self) -> NoiseLevels | None:
        """The noise on gates, once it is time. A cell without gates has none to put it on."""
        config, share = self.config, self.progress.noise_share(self.config)
        on_cell = config.controller_noise if CELLS[config.cell].has_gates else 0.0
        levels = NoiseLevels(share * config.gate_noise, share * on_cell)
        return levels if any(levels) else None

    def _attends(self) -> bool:
        """Whether the next batch is trained with attention, where the model has one."""
        share = self.progress.skipped_attention(self.config)
        if not share:
            return True
        drawn = batch_rng(self.config.seed, "attention", self.progress.step)
        return bool(drawn.random() >= share)

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
        self.batches = self.data.batches(self.progress.lengths(self.config), self.progress.step)


class Race:
    """A race of starts: a few trainings go in turns until one has learnt full length.

    The right curriculum, biases and seed are unknown beforehand but show early. Starts go
    round-robin, `ROUND` batches each. The first that is at full length with the perplexity of its
    window below `curriculum_below` wins. If all have had `race_steps` batches and none has won, the
    one that has come farthest goes on: the longest sources, then the lowest perplexity.

    The loop treats a race as it treats a `Trainer`, until `decide` names the winner; nothing else
    knows of it. Its checkpoints hold all starts, so a run can be stopped at any batch of it and
    goes on to the bit. Batches of all starts count as batches of the run: the winner goes on from
    their sum.
    """

    start = None

    def __init__(self, config: TrainConfig, group: Group, data: Data) -> None:
        if group.size > 1:
            raise InputError(
                f"starts is {config.starts!r} (recipe {config.recipe}) with {group.size} "
                "processes: a race runs in one process; expected --starts none under torchrun"
            )
        self.config, self.group, self.data = config, group, data
        self.trainers = [
            Trainer(start, group, data, start=number)
            for number, start in enumerate(config.start_configs(), 1)
        ]
        self.progress = Progress.start(config, data.epoch)
        self.turn = 0  # whose batch is next
        self.device = self.trainers[0].device

    def step(self) -> float:
        """A batch of the start whose turn it is; the mean loss of its symbols."""
        trainer = self.trainers[self.turn]
        loss = trainer.step()
        self.progress.step += 1
        self.progress.longest = max(each.progress.longest for each in self.trainers)
        self.progress.gained_step = self.progress.step  # a race does not converge
        if trainer.progress.step % ROUND == 0:
            self.turn = (self.turn + 1) % len(self.trainers)
        self.last = trainer
        return loss

    def report(self) -> dict[str, Any]:
        """A line of the log for the start that was last at work, if it is time for one."""
        trainer = self.last
        progress, every = trainer.progress, self.config.report_every
        if progress.step % every:
            return {}
        return {
            "start": trainer.start,
            "start_step": progress.step,
            "perplexity": progress.report(),
            "learning_rate": progress.rate,
            "longest": progress.longest,
        }

    def decide(self) -> tuple[Trainer, dict[str, Any], str] | None:
        """The start that goes on alone, once there is one, with the batches of all as its own; the
        line of the log that says so, and that in words."""
        arrived = [
            trainer for trainer in self.trainers if trainer.progress.has_arrived(trainer.config)
        ]
        if not arrived and any(
            trainer.progress.step < self.config.race_steps for trainer in self.trainers
        ):
            return None
        winner = arrived[0] if arrived else self.leader
        own, run = winner.progress, self.progress
        text = (
            f"start {winner.start} {'wins' if arrived else 'has come farthest'} after {own.step} "
            f"batches of its own, {run.step} of all; it goes on alone"
        )
        own.gained_step += run.step - own.step
        own.step, own.settled, own.log_size = run.step, run.settled, run.log_size
        own.seconds = run.seconds
        winner.renew_batches()
        record = {"step": run.step, "winner": winner.start, "arrived": bool(arrived)}
        return winner, record, text

    @property
    def leader(self) -> Trainer:
        """The start that has come farthest so far."""

        def distance(trainer: Trainer) -> tuple[int, float]:
            return trainer.progress.longest, -(trainer.progress.recent(trainer.config) or inf)

        return max(self.trainers, key=distance)

    @property
    def model(self) -> Transducer:
        return self.leader.model

    def current_perplexity(self) -> float:
        return self.leader.current_perplexity()

    def checkpoint(self) -> Checkpoint:
        """Everything of all starts, and beside it the leader's model, for whoever looks at it."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        starts: list[dict[str, Any]] = []
        for trainer in self.trainers:
            part = trainer.checkpoint()
            tensors |= {f"start{trainer.start}.{key}": x.clone() for key, x in part.tensors.items()}
            starts.append(part.data)
        data = {"config": self.config.to_dict(), "progress": self.progress.to_dict()}
        return Checkpoint(tensors, {**data, "turn": self.turn, "starts": starts})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint of a race with the same options."""
        check_same_run(checkpoint.data["config"], self.config)
        self.progress = Progress(**checkpoint.data["progress"])
        self.turn = checkpoint.data["turn"]
        for trainer, data in zip(self.trainers, checkpoint.data["starts"], strict=True):
            trainer.restore(Checkpoint(checkpoint.part(f"start{trainer.start}."), data))


def make_trainer(
    config: TrainConfig, group: Group, data: Data, checkpoint: Checkpoint | None
) -> Trainer | Race:
    """What a run trains: from the start, or as it was at a checkpoint of it."""
    start = None if checkpoint is None else checkpoint.data.get("start")
    trainer: Trainer | Race
    if start is not None:
        trainer = Trainer(config.start_configs()[start - 1], group, data, start=start)
    else:
        trainer = Race(config, group, data) if config.starts else Trainer(config, group, data)
    if checkpoint is not None:
        trainer.restore(checkpoint)
    return trainer


def make_optimiser(config: TrainConfig, model: nn.Module) -> torch.optim.Optimizer:
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
