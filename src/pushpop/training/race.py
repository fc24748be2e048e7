"""A race of starts: a few trainings go in turns until one has learnt full length; it goes on alone.

The right curriculum, biases and seed are unknown beforehand but show early. Starts go round-robin,
`ROUND` batches each. The first that is at full length with the perplexity of its window below
`curriculum_below` wins. If all have had `race_steps` batches and none has won, the one that has
come farthest goes on: the longest sources, then the lowest perplexity.

The loop treats a race as it treats a `Trainer`, until `decide` names the winner; nothing else knows
of it. Its checkpoints hold all starts, so a run can be stopped at any batch of it and goes on to
the bit. Batches of all starts count as batches of the run: the winner goes on from their sum.
"""

from math import inf
from typing import Any, NamedTuple

import torch

from pushpop.errors import InputError
from pushpop.models import Transducer
from pushpop.training.checkpoint import Checkpoint
from pushpop.training.config import TrainConfig, check_same_run
from pushpop.training.data import Data
from pushpop.training.parallel import Group
from pushpop.training.schedule import Progress
from pushpop.training.trainer import Trainer

ROUND = 50
"""Batches that a start has before the next one has its turn."""


class Decision(NamedTuple):
    """The trainer that a run goes on with, the line of its log that says so, and that in words."""

    trainer: Trainer
    record: dict[str, Any]
    text: str


class Race:
    """Trainings from several starts, in turns."""

    start = None
    is_tested = False

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

    def decide(self) -> Decision | None:
        """The start that goes on alone, with the batches of all as its own, once there is one."""
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
        return Decision(winner, record, text)

    def _distance(self, trainer: Trainer) -> tuple[int, float]:
        return trainer.progress.longest, -(trainer.progress.recent(trainer.config) or inf)

    @property
    def leader(self) -> Trainer:
        """The start that has come farthest so far."""
        return max(self.trainers, key=self._distance)

    @property
    def model(self) -> Transducer:
        """The leader's."""
        return self.leader.model

    def current_perplexity(self) -> float:
        """The leader's."""
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
        self.progress = Progress.from_dict(checkpoint.data["progress"])
        self.turn = checkpoint.data["turn"]
        for trainer, data in zip(self.trainers, checkpoint.data["starts"], strict=True):
            prefix = f"start{trainer.start}."
            tensors: dict[str, torch.Tensor] = {
                key.removeprefix(prefix): tensor
                for key, tensor in checkpoint.tensors.items()
                if key.startswith(prefix)
            }
            trainer.restore(Checkpoint(tensors, data))


def make_trainer(
    config: TrainConfig, group: Group, data: Data, checkpoint: Checkpoint | None
) -> Trainer | Race:
    """What a run trains: from the start, or as it was at a checkpoint of it."""
    trainer: Trainer | Race
    start = None if checkpoint is None else checkpoint.data.get("start")
    if config.starts and start is None:
        trainer = Race(config, group, data)
    elif start is not None:
        trainer = Trainer(config.start_configs()[start - 1], group, data, start=start)
    else:
        trainer = Trainer(config, group, data)
    if checkpoint is not None:
        trainer.restore(checkpoint)
    return trainer
