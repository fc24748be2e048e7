"""The model that a run keeps: its best checkpoint, unless it was solved or told otherwise."""

import json
from math import exp
from pathlib import Path
from typing import Any

import pytest

from pushpop import Transducer
from pushpop.cli import main
from pushpop.evaluation import evaluate
from pushpop.tasks import draw_batch, get_task
from pushpop.training import data as data_module
from pushpop.training import loop, train
from pushpop.training.checkpoint import checkpoint_path, load
from pushpop.training.data import make_data
from pushpop.training.parallel import Group
from pushpop.training.run import load_trained
from pushpop.training.schedule import Progress
from pushpop.training.trainer import Trainer
from pushpop.training.view import describe_end
from tests.training.runs import PLAIN, Killed, at_call, killed, load_model, remains, tiny

Captured = pytest.CaptureFixture[str]
CONFIG = {"curriculum_start": 0, "decay": 1}


@pytest.fixture(autouse=True)
def _relapse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the reports find perplexities that are best at batch 12 of 24, and weights that are no
    worse."""
    original = Progress.report

    def report(self: Progress) -> float:
        original(self)
        self.perplexity = 2.0 + abs(self.step - 12)
        return self.perplexity

    monkeypatch.setattr(Progress, "report", report)
    monkeypatch.setattr(Trainer, "current_perplexity", lambda self: 1.0)


def weights_at(run: Path, step: int) -> dict[str, bytes]:
    tensors = load(checkpoint_path(run / "checkpoints", step)).tensors.items()
    return {k[6:]: t.numpy().tobytes() for k, t in tensors if k.startswith("model.")}


def test_the_best_checkpoint_is_kept_and_tested(tmp_path: Path) -> None:
    report = train(tiny(**CONFIG), tmp_path)
    assert (report["step"], report["kept_step"], report["best_step"]) == (24, 12, 12)
    assert load_model(tmp_path) == weights_at(tmp_path, 12)
    model = Transducer.from_pretrained(tmp_path)
    assert model.metadata["report"] == report
    for name, lengths in (("train", (2, 6)), ("test", (7, 8))):
        fresh = evaluate(model, get_task("copy"), lengths, 5, stream=f"final-{name}")
        assert fresh == report[name]
        last = load_trained(tmp_path, None, print, "latest").model
        again = evaluate(last, get_task("copy"), lengths, 5, stream=f"final-{name}")
        assert again == report["last"][name] != report[name]
    assert "kept: batch 12" in describe_end(report)


def test_weights_that_the_last_batch_spoilt_are_not_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def current_perplexity(self: Trainer) -> float:
        return 100.0 if self.progress.step in (12, 20, 24) else 1.0

    monkeypatch.setattr(Trainer, "current_perplexity", current_perplexity)
    report = train(tiny(**CONFIG), tmp_path)
    assert (report["kept_step"], report["best_step"]) == (16, 16)
    assert report["best_perplexity"] == 2.0 + 3  # of the report at batch 15


def test_the_weights_are_tried_on_batches_that_come_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    config = tiny(**PLAIN, dropout=0.5)
    trainer = Trainer(config, Group(), make_data(config))
    trainer.step()
    model, total, symbols = trainer.model.eval(), 0.0, 0
    for index in range(1, 6):
        batch = draw_batch(
            get_task("copy"), seed=0, stream="train", index=index, batch_size=2, lengths=(2, 6)
        )
        nll, n = model.likelihood(batch)
        total, symbols = total + float(nll.detach()), symbols + n
    assert trainer.current_perplexity() == pytest.approx(exp(total / symbols), rel=1e-6)


def test_the_last_weights_are_kept_when_told(tmp_path: Path) -> None:
    report = train(tiny(keep="last", **CONFIG), tmp_path)
    assert (report["kept_step"], report["best_step"]) == (24, 12)
    assert "last" not in report
    assert "kept" not in describe_end(report)
    assert load_model(tmp_path) == weights_at(tmp_path, 24)


def test_a_solved_run_keeps_what_solved_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "STOP_ACCURACY", 0.0)
    report = train(tiny(until_solved=True, evaluate_every=9, **CONFIG), tmp_path)
    assert (report["stopped_by"], report["kept_step"], report["best_step"]) == ("solved", 18, 12)
    assert load_model(tmp_path) == weights_at(tmp_path, 18)


def test_last_weights_that_are_best_are_kept_though_no_checkpoint_was_due(tmp_path: Path) -> None:
    report = train(tiny(steps=9, checkpoint_every=7, **CONFIG), tmp_path)
    assert (report["kept_step"], report["best_step"]) == (9, 7)
    report = train(tiny(steps=10, checkpoint_every=7, **CONFIG), tmp_path)
    assert (report["kept_step"], report["best_step"]) == (10, 7)  # batch 9 was the last report
    report = train(tiny(checkpoint_every=7, **CONFIG), tmp_path)
    assert (report["kept_step"], report["best_step"]) == (14, 14)


def test_a_run_without_any_report_keeps_the_last_weights(tmp_path: Path) -> None:
    report = train(tiny(steps=2, **CONFIG), tmp_path)
    assert (report["kept_step"], report["best_step"], report["perplexity"]) == (2, None, None)


def test_a_broken_best_checkpoint_is_named_and_the_last_weights_are_kept(
    tmp_path: Path, capsys: Captured
) -> None:
    with at_call(loop.Session, "choose_model", 1, killed), pytest.raises(Killed):
        train(tiny(**CONFIG), tmp_path)
    checkpoint_path(tmp_path / "checkpoints", 12).write_bytes(b"nothing")
    main(["train", "--resume", str(tmp_path)])
    told = capsys.readouterr().out
    assert "step-00000012.safetensors: 7 bytes: the file is cut off; the last weights" in told
    assert load_model(tmp_path) == weights_at(tmp_path, 24)


@pytest.mark.parametrize("number", [9, 10, 11, 12])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_during_the_final_test_changes_nothing(
    number: int, after: bool, tmp_path: Path
) -> None:
    straight = train(tiny(**CONFIG), tmp_path / "straight")
    with at_call(data_module, "evaluate", number, killed, after), pytest.raises(Killed):
        train(tiny(**CONFIG), tmp_path / "run")
    report = train(tiny(**CONFIG), tmp_path / "run")
    assert {**report, "seconds": 0} == {**straight, "seconds": 0}
    assert remains(tmp_path / "run") == remains(tmp_path / "straight")


def test_longer_sources_go_before_lower_perplexity() -> None:
    progress = Progress(longest=10, rate=1.0)
    for step, longest, perplexity, best in [
        (1, 10, 1.4, 1),
        (2, 10, 1.2, 2),
        (3, 15, 9.0, 3),
        (4, 15, 9.5, 3),
        (5, 15, 8.0, 5),
    ]:
        progress.step, progress.perplexity_longest, progress.perplexity = step, longest, perplexity
        progress.mark_best()
        assert progress.best_step == best


def test_a_report_counts_for_the_shortest_sources_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    config = tiny(train_lengths="2-9", curriculum_start=4, window=1)
    progress = Progress.start(config)
    progress.after_batch(config, 1.0, 10)
    assert progress.longest == 6
    progress.report()
    assert progress.perplexity_longest == 4
    progress.after_batch(config, 9e9, 10)
    progress.report()
    assert progress.perplexity_longest == 6


@pytest.mark.parametrize(("which", "step"), [("best", 12), ("latest", 24), ("20", 20)])
def test_evaluate_takes_the_checkpoint_that_is_asked_for(
    which: str, step: int, tmp_path: Path, capsys: Captured
) -> None:
    train(tiny(**CONFIG), tmp_path)
    args = ["evaluate", str(tmp_path), "--lengths", "5", "--sequences", "3", "--checkpoint", which]
    main(args)
    assert f"{tmp_path} after batch {step} on copy" in capsys.readouterr().out
    (tmp_path / "report.json").unlink()
    main(args)
    assert f"{tmp_path} after batch {step} on copy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "which", "message"),
    [
        ({}, "worst", "checkpoint is 'worst', expected best, latest or a number of batches"),
        ({}, "3", "no checkpoint after batch 3: there are 12, 20, 24"),
        ({"steps": 2}, "best", "no checkpoint is the best yet"),
        (None, "best", "no training.json: expected a run"),
    ],
)
def test_evaluate_says_which_checkpoints_there_are(
    options: dict[str, Any] | None, which: str, message: str, tmp_path: Path, capsys: Captured
) -> None:
    if options is not None:
        train(tiny(**options, **CONFIG), tmp_path)
    with pytest.raises(SystemExit) as left:
        main(["evaluate", str(tmp_path), "--checkpoint", which])
    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_the_report_is_what_the_file_says(tmp_path: Path) -> None:
    report = train(tiny(**CONFIG), tmp_path)
    assert json.loads((tmp_path / "report.json").read_text()) == report
