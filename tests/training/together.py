"""Run by torchrun in two processes: what each finds goes to FOLDER/RANK.json."""

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pushpop import Transducer
from pushpop.errors import InputError
from pushpop.models.transducer import Likelihood
from pushpop.tasks import draw_batch, get_task
from pushpop.training import TrainConfig, loop, train
from pushpop.training import data as data_module
from pushpop.training import trainer as trainer_module
from pushpop.training.data import make_data
from pushpop.training.parallel import TIMEOUT, TorchrunGroup
from pushpop.training.trainer import Trainer
from tests.training.runs import TOGETHER, at_call, tiny
from tests.training.test_pairs import tiny as tiny_pairs
from tests.training.test_pairs import write_pairs

RANK = int(os.environ["RANK"])
FOLDER = Path(sys.argv[1])


def config() -> TrainConfig:
    return tiny(**TOGETHER)


def gradients(rows: int) -> dict[str, float]:
    """How far the sum of both gradients is from one process's; and the mean by rank, from it."""
    task = get_task("copy")
    batch = draw_batch(task, seed=0, stream="t", index=3, batch_size=rows, lengths=(2, 20))
    torch.manual_seed(0)
    model = Transducer(config().model, task.vocabulary)
    model.loss(batch).backward()  # type: ignore[no-untyped-call]
    whole = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    found = []
    for by_rank in (False, True):
        model.zero_grad()
        team, nll, symbols = TorchrunGroup(), torch.zeros(()), 0
        mine = team.shard(batch)
        if mine is not None:
            nll, symbols = model.likelihood(mine)
        _, everybody = team.sum_losses(float(nll.detach()), symbols)
        if mine is not None:
            (nll / (2 * symbols if by_rank else everybody)).backward()  # type: ignore[no-untyped-call]
        team.sum_gradients(model)
        parts = [p.grad for p in model.parameters() if p.grad is not None]
        off = sum(float((a - b).square().sum()) for a, b in zip(parts, whole, strict=True))
        found.append((off / sum(float(g.square().sum()) for g in whole)) ** 0.5)
    return {"by symbols": found[0], "by rank": found[1]}


def weights_after_steps() -> str:
    trainer = Trainer(config(), TorchrunGroup(), make_data(config()))
    for _ in range(6):
        trainer.step()
    return digest(trainer)


def given_pairs() -> dict[str, Any]:
    """The learning rate and the weights after a run that validates, and halves the rate."""
    if RANK == 0:
        write_pairs(FOLDER)
    dist.barrier()
    made: list[Trainer] = []

    class Remembered(Trainer):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    options = {"plateau": 1, "learning_rate": 1.0, "epochs": 6, "dropout": 0.2}
    with pytest.MonkeyPatch.context() as patch:
        for leads_or_follows in (trainer_module, loop):
            patch.setattr(leads_or_follows, "Trainer", Remembered)
        train(tiny_pairs(FOLDER / "pairs.tsv", **options), FOLDER / "pairs")
    (trainer,) = made
    return {"rate": trainer.progress.rate, "weights": digest(trainer)}


def digest(trainer: Trainer) -> str:
    tensors = trainer.model.state_dict().values()
    return sha256(b"".join(tensor.numpy().tobytes() for tensor in tensors)).hexdigest()


def outcome(name: str, options: dict[str, Any] | None = None) -> Any:
    try:
        return train(tiny(**{**TOGETHER, **(options or {})}), FOLDER / name)
    except (SystemExit, KeyboardInterrupt, RuntimeError, InputError) as error:
        return f"{type(error).__name__}: {error}"


def disturbed(name: str, rank: int, place: Any, attribute: str, number: int, act: Any) -> Any:
    """What becomes of a run if one rank does something at call so and so; then it goes on."""
    with ExitStack() as stack:
        if rank == RANK:
            stack.enter_context(at_call(place, attribute, number, act))
        first = outcome(name)
    return [first, outcome(name)]


def send(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def full_disk() -> None:
    raise InputError("checkpoint: cannot be written: No space left on device")


def spoil_weights() -> None:
    """Make the next gradient of this rank infinite, though its loss is finite."""
    original = Transducer.objective

    def once(self: Transducer, *given: Any) -> Any:
        Transducer.objective = original  # type: ignore[method-assign]
        loss, likelihood = original(self, *given)
        return loss + (self.get_parameter("body.h0").sum() * 0).sqrt(), likelihood

    Transducer.objective = once  # type: ignore[method-assign]


def spoil_loss() -> None:
    original = Transducer.objective

    def once(self: Transducer, *given: Any) -> Any:
        Transducer.objective = original  # type: ignore[method-assign]
        loss, (nll, symbols) = original(self, *given)
        return loss, Likelihood(nll * float("nan"), symbols)

    Transducer.objective = once  # type: ignore[method-assign]


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=TIMEOUT)
    (FOLDER / "occupied").mkdir(exist_ok=True)
    (FOLDER / "occupied" / "thesis.tex").write_text("dear reader")
    forward, step = (Transducer, "objective"), (Trainer, "step")
    found = {
        "gradients": gradients(5),
        "gradients of one row": gradients(1),
        "weights": weights_after_steps(),
        "given pairs": given_pairs(),
        "straight": outcome("straight"),
        "again": outcome("straight"),
        "occupied": outcome("occupied"),
        "small batch": outcome("small", {"batch_size": 1}),
        "sigterm on rank 1": disturbed("term", 1, *forward, 7, send(signal.SIGTERM)),
        "sigint on rank 0": disturbed("int", 0, data_module, "evaluate", 3, send(signal.SIGINT)),
        "full disk": disturbed("full", 0, loop, "save", 3, full_disk),
        "nan on rank 1": disturbed("nan", 1, *step, 10, spoil_loss),
        "infinite gradient on rank 0": disturbed("inf", 0, *step, 10, spoil_weights),
    }
    (FOLDER / f"{RANK}.json").write_text(json.dumps(found))
    dist.barrier()  # nobody closes a connection that another still uses
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of gloo that outlive the group may abort an orderly exit


if __name__ == "__main__":
    main()
