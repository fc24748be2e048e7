"""A run from start to finish: what it writes, when it stops, what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pushpop import Transducer
from pushpop.errors import InputError
from pushpop.evaluation import evaluate
from pushpop.layers import NoiseLevels
from pushpop.models.transducer import Likelihood
from pushpop.tasks import draw_batch, get_task
from pushpop.training import Diverged, RunDirectory, TrainConfig, train
from pushpop.training import data as data_module
from pushpop.training import trainer as trainer_module
from pushpop.training.checkpoint import checkpoint_path, saved_steps
from pushpop.training.data import make_data
from pushpop.training.parallel import Group
from pushpop.training.schedule import Progress
from pushpop.training.trainer import Trainer
from pushpop.training.view import View
from tests.training.runs import PLAIN, remains, tiny


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_run_leaves_its_files(tmp_path: Path) -> None:
    config = tiny()
    report = train(config, tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir() if path.name[0] != ".") == [
        "README.md",
        "checkpoints",
        "config.json",
        "environment.json",
        "metrics.jsonl",
        "model.safetensors",
        "report.json",
        "training.json",
        "vocabulary.json",
    ]
    run = RunDirectory(tmp_path / "run")
    assert run.config() == config
    assert run.report() == report
    assert run.environment()["threads"] == 1
    assert run.environment()["torch"] == torch.__version__
    assert (report["stopped_by"], report["step"]) == ("steps", 24)
    steps = saved_steps(run.checkpoints)
    assert steps[:2] == [24, 20]
    assert set(steps) == {24, 20, report["best_step"]}


def test_the_log_has_perplexity_and_accuracies_when_they_are_due(tmp_path: Path) -> None:
    train(tiny(evaluate_every=4), tmp_path)
    found = lines(tmp_path)
    assert [line["step"] for line in found] == sorted({*range(3, 25, 3), *range(4, 25, 4)})
    for line in found:
        assert ("perplexity" in line) == (line["step"] % 3 == 0)
        assert ("test" in line) == (line["step"] % 4 == 0)
    assert found[1]["test"]["lengths"] == [7, 8]
    assert found[1]["train"]["sequences"] == 5


def test_the_final_model_is_the_one_that_was_trained_and_reported(tmp_path: Path) -> None:
    config = tiny()
    report = train(config, tmp_path)
    model = Transducer.from_pretrained(tmp_path)
    assert model.metadata["training"] == config.to_dict()
    fresh = evaluate(model, get_task("copy"), (7, 8), 5, stream="final-test")
    assert fresh == report["test"]
    assert fresh != lines(tmp_path)[-1]["test"]


def test_training_is_the_papers_protocol_word_by_word(tmp_path: Path) -> None:
    config = tiny(**PLAIN, steps=7, clip=0.01, keep="last")
    train(config, tmp_path)
    task = get_task("copy")
    torch.manual_seed(config.seed)
    model = Transducer(config.model, task.vocabulary)
    optimiser = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.9, eps=1e-8)
    total, count = 0.0, 0
    for index in range(7):
        batch = draw_batch(task, seed=0, stream="train", index=index, batch_size=2, lengths=(2, 6))
        optimiser.zero_grad()
        model.loss(batch).backward()
        nll, symbols = model.likelihood(batch)
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.clamp_(-0.01, 0.01)
        optimiser.step()
        if index < 3:
            total, count = total + float(nll.detach()), count + symbols
    trained = Transducer.from_pretrained(tmp_path)
    for name, tensor in model.state_dict().items():
        assert torch.equal(trained.state_dict()[name], tensor), name
    perplexity = torch.tensor(total / count, dtype=torch.float64).exp().item()
    assert lines(tmp_path)[0]["perplexity"] == pytest.approx(perplexity)


def test_a_run_is_a_function_of_its_options(tmp_path: Path) -> None:
    found = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        torch.rand(3)  # nothing global is looked at
        train(tiny(seed=seed), tmp_path / name)
        found.append(remains(tmp_path / name))
    assert found[0] == found[1]
    assert found[0]["metrics"] != found[2]["metrics"]


def test_training_touches_no_global_state(tmp_path: Path) -> None:
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    train(tiny(threads=2, steps=3), tmp_path)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_the_curriculum_rises_by_half_to_full_length(tmp_path: Path) -> None:
    train(
        tiny(train_lengths="2-30", curriculum_start=4, report_every=1, evaluate_every=100), tmp_path
    )
    longest = [line["longest"] for line in lines(tmp_path)]
    assert list(dict.fromkeys(longest)) == [4, 6, 9, 13, 19, 28, 30]


def test_the_learning_rate_decays_at_full_length_while_steady(tmp_path: Path) -> None:
    train(tiny(report_every=1, evaluate_every=100, decay_below=1000, noise_rise=0), tmp_path)
    found = lines(tmp_path)
    decayed = [line["learning_rate"] for line in found if line["longest"] == 6]
    assert all(line["learning_rate"] == 1e-3 for line in found if line["longest"] < 6)
    assert len(decayed) > 10
    assert decayed[-1] == pytest.approx(1e-3 * 0.99 ** (len(decayed) - 2), rel=1e-9)


def test_noise_rises_while_steady_and_the_decay_waits_for_it() -> None:
    config = tiny(curriculum_start=0, window=1, gate_noise=2, noise_rise=4, decay_below=10)
    progress = Progress.start(config)
    seen = []
    for loss in (5, 1, 1, 5, 1, 1, 1, 1):
        progress.after_batch(config, nll=loss, symbols=1)
        seen.append((config.gate_noise * progress.noise_share(config), progress.rate))
    noise, rates = zip(*seen, strict=True)
    assert noise == (0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 2.0, 2.0)
    assert rates == (*[1e-3] * 6, 1e-3 * 0.99, 1e-3 * 0.99 * 0.99)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_both_noises_are_on_while_a_batch_is_trained_on(
    cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An Elman controller has no gates: only the memory's have noise."""
    config = tiny(cell=cell, gate_noise=2, controller_noise=1, noise_rise=4)
    trainer = Trainer(config, Group(), make_data(config))
    trainer.progress.steady = 2
    seen = []
    objective = trainer.model.objective

    def look(batch: Any, smoothing: float, noise: NoiseLevels | None, attend: bool) -> Any:
        seen.append(noise)
        return objective(batch, smoothing, noise, attend)

    monkeypatch.setattr(trainer.model, "objective", look)
    trainer.step()
    trainer.progress.steady = 0
    trainer.step()
    assert seen == [NoiseLevels(1.0, 0.0 if cell == "rnn" else 0.5), None]


def test_the_curriculum_begins_anew_when_what_was_learnt_is_lost() -> None:
    config = tiny(
        curriculum_start=4, train_lengths="2-6", window=1, noise_rise=4, decay_below=5,
        curriculum_below=50,
    )  # fmt: skip
    progress = Progress.start(config)
    for loss, longest in ((1, 6), (4, 6), (1, 6), (4.5, 6), (4.7, 4), (4, 4), (1, 6)):
        progress.after_batch(config, nll=loss, symbols=1)
        assert progress.longest == longest
    progress.report()
    assert progress.perplexity_longest == 4
    assert progress.noise_share(config) == 0


def test_lengths_of_a_grammar_can_be_trained_on_equally_often() -> None:
    longer = []
    for uniform in (False, True):
        data = make_data(tiny(task="svo-sov", uniform_lengths=uniform, batch_size=200))
        batch = next(iter(data.batches((8, 40), 0)))
        longer.append(float(batch.lengths.double().mean()))
    assert longer[1] > 1.3 * longer[0]
    assert data.task.length_probabilities(9)[8] > 0  # tests draw as the grammar does
    assert not data.task.uniform_lengths


@pytest.mark.parametrize("optimiser", ["rmsprop", "adam"])
@pytest.mark.parametrize("memory", ["stack", "none"])
def test_a_tiny_run_learns(memory: str, optimiser: str, tmp_path: Path) -> None:
    path = tmp_path / "one.itg"
    path.write_text("1/2 A -> a A[1] | x A[1]\n1/2 A -> end | fin\n")
    config = tiny(
        task=str(path),
        memory=memory,
        optimiser=optimiser,
        hidden=16,
        embedding=8,
        steps=300,
        learning_rate=0.01,
        curriculum_start=0,
        evaluate_every=100,
        decay=1,
        until_solved=True,
        test_lengths="5-6",
    )
    report = train(config, tmp_path / "run")
    assert report["train"]["coarse"] > 0.5
    perplexities = [line.get("perplexity", 99) for line in lines(tmp_path / "run")]
    assert min(perplexities[-5:]) < 1.5 < perplexities[0]


def solve(
    monkeypatch: pytest.MonkeyPatch, coarse: list[float], train_coarse: list[float] | None = None
) -> None:
    """Have tests find these accuracies on test lengths (1, or those given, on training lengths),
    one after the other, and then 0.25."""
    coming = {"evaluate-test": coarse, "evaluate-train": train_coarse or [1.0] * len(coarse)}

    def answer(*_: Any, stream: str, **__: Any) -> dict[str, Any]:
        values = next((coming[name] for name in coming if stream.startswith(name)), [])
        value = values.pop(0) if values else 0.25
        return {"coarse": value, "fine": value}

    monkeypatch.setattr(data_module, "evaluate", answer)


def test_solved_means_twice_in_a_row_and_is_tested_afresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve(monkeypatch, [0.999, 0.998, 1.0, 0.999])
    report = train(tiny(until_solved=True, steps=100), tmp_path)
    assert (report["stopped_by"], report["step"]) == ("solved", 24)
    assert report["test"]["coarse"] == 0.25


def test_solved_means_the_training_lengths_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve(monkeypatch, [1.0] * 4, [1.0, 0.998, 1.0, 0.999])
    report = train(tiny(until_solved=True, steps=100), tmp_path)
    assert (report["stopped_by"], report["step"]) == ("solved", 24)


def test_a_solved_run_goes_on_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solve(monkeypatch, [1.0] * 100)
    assert train(tiny(), tmp_path)["stopped_by"] == "steps"


def test_the_time_limit_stops_a_run(tmp_path: Path) -> None:
    report = train(tiny(minutes=1e-4), tmp_path)
    assert report["stopped_by"] == "time"
    assert report["step"] < 24


def test_a_finished_run_gives_its_report_again(tmp_path: Path) -> None:
    report = train(tiny(), tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != ".lock"}
    assert train(tiny(), tmp_path) == report
    for path, changed in before.items():
        assert path.stat().st_mtime_ns == changed


def test_a_directory_of_another_run_is_refused(tmp_path: Path) -> None:
    train(tiny(steps=3), tmp_path)
    with pytest.raises(InputError, match=r"holds a run with hidden 5, not 6; seed 0, not 2"):
        train(tiny(hidden=6, seed=2), tmp_path)


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("dear reader")
    with pytest.raises(InputError, match=r"holds thesis.tex but no training.json"):
        train(tiny(), tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        train(tiny(), tmp_path / "thesis.tex" / "run")


def test_two_processes_cannot_train_in_one_directory(tmp_path: Path) -> None:
    with RunDirectory(tmp_path), pytest.raises(InputError, match="another process is training"):
        train(tiny(), tmp_path)


def test_lengths_that_a_task_does_not_have_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none is a multiple of 2"):
        train(tiny(task="flip", test_lengths="7", curriculum_start=0), tmp_path)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_before_the_update(
    bad: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = Transducer.objective, []

    def objective(self: Transducer, *given: Any) -> Any:
        calls.append(1)
        value, (nll, symbols) = original(self, *given)
        return value, Likelihood(nll * bad if len(calls) == 11 else nll, symbols)

    monkeypatch.setattr(Transducer, "objective", objective)
    told = rf"batch 11: the loss is {bad}; no update was made; the checkpoint after batch 8 is kept"
    with pytest.raises(Diverged, match=told):
        train(tiny(), tmp_path)
    monkeypatch.undo()
    train(tiny(), tmp_path)
    train(tiny(), tmp_path.parent / "straight")
    assert remains(tmp_path) == remains(tmp_path.parent / "straight")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_named(
    bad: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = trainer_module.non_finite_gradient

    def spoil(model: Transducer) -> str | None:
        gradient = model.get_parameter("body.h0").grad
        assert gradient is not None
        gradient[..., 1] = bad
        return original(model)

    monkeypatch.setattr(trainer_module, "non_finite_gradient", spoil)
    with pytest.raises(Diverged, match=r"batch 1: the gradient of body.h0 is not finite.*no check"):
        train(tiny(), tmp_path)
    assert saved_steps(tmp_path / "checkpoints") == []


def test_large_gradients_are_not_taken_for_infinite_ones() -> None:
    layer = torch.nn.Linear(4, 1)
    for parameter in layer.parameters():
        parameter.grad = torch.full_like(parameter, 3e38)
    assert trainer_module.non_finite_gradient(layer) is None


def test_a_broken_checkpoint_is_named_and_the_one_before_is_used(tmp_path: Path) -> None:
    class Told(View):
        lines: list[str] = []  # noqa: RUF012

        def message(self, text: str) -> None:
            self.lines.append(text)

    train(tiny(), tmp_path / "straight")
    train(tiny(), tmp_path / "run")
    (tmp_path / "run" / "report.json").unlink()
    path = checkpoint_path(tmp_path / "run" / "checkpoints", 24)
    path.write_bytes(path.read_bytes()[:-1])
    train(tiny(), tmp_path / "run", Told())
    assert "step-00000024.safetensors" in Told.lines[0]
    assert remains(tmp_path / "run") == remains(tmp_path / "straight")


def test_a_log_that_is_too_short_is_refused(tmp_path: Path) -> None:
    train(tiny(), tmp_path)
    (tmp_path / "report.json").unlink()
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(InputError, match="0 bytes, the checkpoint has written"):
        train(tiny(), tmp_path)


def test_defaults_make_a_session_of_the_papers_size(tmp_path: Path) -> None:
    model = Transducer(TrainConfig("copy", "queue").model, get_task("copy").vocabulary)
    assert sum(p.numel() for p in model.body.parameters()) == 673_602 + 2 * 256
