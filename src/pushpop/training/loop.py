"""Training in a run directory: one process leads, and under torchrun others follow it."""

from os import PathLike
from typing import Any

from pushpop.devices import resolve_device
from pushpop.errors import InputError
from pushpop.training.board import TensorBoardView
from pushpop.training.checkpoint import unpack
from pushpop.training.config import TrainConfig
from pushpop.training.data import make_data
from pushpop.training.interrupt import Signals, StopRequested
from pushpop.training.parallel import Group, process_group, releasing_followers, torch_threads
from pushpop.training.run import RunDirectory
from pushpop.training.session import Session
from pushpop.training.trainer import Trainer
from pushpop.training.view import View


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
    with process_group() as group, Signals() as signals, torch_threads(config.threads):
        if group.rank > 0:
            return run_follower(group, signals)
        return run_leader(config, RunDirectory(directory), view or View(), signals, group)


def run_leader(
    config: TrainConfig, run: RunDirectory, view: View, signals: Signals, group: Group
) -> dict[str, Any]:
    """Run the loop, and see to it that those who follow leave when this process does."""
    with releasing_followers(group) as final_message:
        if config.batch_size < group.size:
            raise InputError(
                f"batch_size is {config.batch_size} with {group.size} processes, expected "
                f"{group.size} or more"
            )
        if run.is_over(config):  # nothing is computed: its device need not be on this machine
            device = run.config().device
        else:
            device = resolve_device(config.device, group.local_size)
        config = config.override({"device": device})
        if config.tensorboard:
            view = TensorBoardView(run.path / "tensorboard", view)
        data = make_data(config)
        run.prepare(config, group.size)
        with run:
            for text in data.messages():
                view.message(text)
            run.check_data(data.vocabulary, data.text, data.fingerprint())
            for change in run.update_config(config):
                view.message(f"{run.path}: {change}")
            report = run.report()
            if report is not None:
                view.message(f"{run.path}: this run is finished")
            else:
                session = Session(config, run, view, signals, group, data)
                try:
                    session.resume()
                    report = session.train()
                except StopRequested:
                    session.save(planned=False)
                    step = session.progress.step
                    view.message(f"stopped after batch {step}; saved in {run.path}")
                    signals.leave()
                finally:
                    view.close()
            final_message["report"] = report
    return report


def run_follower(group: Group, signals: Signals) -> dict[str, Any]:
    """Do the batches that the leader does, until it says otherwise."""
    trainer: Trainer | None = None
    while True:
        signal, message = group.exchange(signals.received or 0)
        if "config" in message:
            config = TrainConfig.from_saved(message["config"])
            trainer = Trainer(config, group, make_data(config))
            trainer.restore(unpack(group.broadcast(b"")))
        elif "rate" in message and trainer is not None:
            trainer.progress.rate = message["rate"]
        elif "report" in message:
            report: dict[str, Any] = message["report"]
            return report
        elif "code" in message:
            raise SystemExit(message["code"])
        elif trainer is not None and not signal:
            trainer.step()
