"""`pushpop train` and `pushpop evaluate` as a user meets them."""

import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from pushpop.cli import main
from pushpop.tasks import get_task
from pushpop.training import TrainConfig, train
from pushpop.training.trainer import Diverged
from pushpop.training.view import LiveView, sparkline
from tests.models.examples import small_model
from tests.training.runs import TINY, remains, tiny

Captured = pytest.CaptureFixture[str]


def arguments(**options: Any) -> list[str]:
    """The command line of a tiny run."""
    wanted = {**TINY, **options}
    task = wanted.pop("task")
    return ["train", task, *(f"--{k.replace('_', '-')}={v}" for k, v in wanted.items())]


def refused(args: list[str], capsys: Captured) -> str:
    with pytest.raises(SystemExit) as left:
        main(args)
    printed = capsys.readouterr()
    assert left.value.code == 2
    assert printed.err.count("\n") == 1
    return printed.err


def test_the_command_is_the_function_and_names_those_that_use_the_run(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    main([*arguments(), "--run", str(tmp_path / "command")])
    train(tiny(), tmp_path / "function")
    assert remains(tmp_path / "command") == remains(tmp_path / "function")
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "copy: queue-lstm, hidden 5, memory 3, seed 0, 24 batches"
    assert out[1].startswith("batch 3  perplexity ")
    assert "test 0." in out[2]
    run, *commands = (line.split(":")[-1].split() for line in out[-4:])
    assert run == [str(tmp_path / "command")]
    monkeypatch.chdir(tmp_path)
    for command in commands[:-1]:  # the last one serves until it is interrupted
        main(command[1:])
    assert commands[-1] == ["pushpop", "serve", *run]
    assert (tmp_path / "trace.html").exists()
    main([*arguments(), "--run", str(tmp_path / "command")])
    assert "this run is finished" in capsys.readouterr().out


def test_a_list_of_negative_numbers_is_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "copy", "--memory", "deque", "--pop-bias", "-2,-1.5", "--print-config"])
    assert yaml.safe_load(capsys.readouterr().out)["pop_bias"] == [-2, -1.5]


def test_print_config_shows_every_option_and_is_a_config_file(
    tmp_path: Path, capsys: Captured
) -> None:
    main(["train", "reverse", "--memory", "deque", "--push-bias=1,-3", "--print-config"])
    text = capsys.readouterr().out
    config = TrainConfig("reverse", "deque", push_bias=(1, -3))
    assert yaml.safe_load(text) == config.to_dict()
    path = tmp_path / "config.yaml"
    path.write_text(text)
    main(["train", "--config", str(path), "--print-config"])
    assert capsys.readouterr().out == text


def test_the_command_line_goes_before_the_file(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("task: flip\nhidden: 32\nlearning_rate: 5e-4\nuntil_solved: true\n")
    main(["train", "--config", str(path), "--hidden", "64", "--pop-bias", "-2", "--print-config"])
    shown = yaml.safe_load(capsys.readouterr().out)
    assert (shown["task"], shown["hidden"], shown["learning_rate"]) == ("flip", 64, 5e-4)
    assert (shown["until_solved"], shown["pop_bias"], shown["embedding"]) == (True, -2, 64)


def test_a_switch_needs_no_value(capsys: Captured) -> None:
    main(["train", "copy", "--until-solved", "--print-config"])
    assert "until_solved: true" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "no task given"),
        ("cpoy", "unknown task 'cpoy'; did you mean 'copy'?"),
        ("copy --memry queue", "--memry queue; did you mean '--memory'?"),
        ("copy --hidden many", "hidden is 'many', expected a whole number of 1 or more"),
        ("copy --config gone.yaml", "gone.yaml: cannot be read"),
        ("--resume gone", "gone/training.json: cannot be read"),
        ("copy --resume gone", "leave out TASK"),
        ("--resume gone --hidden 3", "leave out --hidden"),
    ],
)
def test_mistakes_are_one_line(given: str, message: str, capsys: Captured) -> None:
    assert message in refused(["train", *given.split()], capsys)


def test_a_run_whose_files_are_damaged_is_refused_and_left_as_it_is(
    tmp_path: Path, capsys: Captured
) -> None:
    train(tiny(steps=3), tmp_path)
    (tmp_path / "report.json").write_text('{"step": "x"}')
    told = refused(["train", "--resume", str(tmp_path)], capsys)
    assert f"{tmp_path}/report.json: step is 'x', expected a number" in told
    (tmp_path / "report.json").unlink()
    (tmp_path / "training.json").write_text("{}")
    for wanted in (["--resume", str(tmp_path)], ["copy", "--run", str(tmp_path)]):
        told = refused(["train", *wanted], capsys)
        assert f"{tmp_path}/training.json: no 'task', expected all options of a run" in told
    assert (tmp_path / "training.json").read_text() == "{}"


def test_another_config_in_the_same_directory_is_refused(tmp_path: Path, capsys: Captured) -> None:
    train(tiny(steps=3), tmp_path)
    told = refused([*arguments(steps=4, hidden=6), "--run", str(tmp_path)], capsys)
    assert "holds a run with hidden 5, not 6:" in told


def test_resume_goes_on_with_the_runs_own_options(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "run"
    train(tiny(), path)
    before = remains(path)
    (path / "report.json").unlink()
    (path / "checkpoints" / "step-00000024.safetensors").unlink()
    main(["train", "--resume", str(path)])
    assert "resumed after batch 20" in capsys.readouterr().out
    assert remains(path) == before


def test_divergence_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def diverge(*_: Any) -> None:
        raise Diverged("batch 7: the loss is nan")

    monkeypatch.setattr("pushpop.training.train", diverge)
    with pytest.raises(SystemExit) as left:
        main([*arguments(), "--run", str(tmp_path)])
    assert left.value.code == 1
    assert capsys.readouterr().err == "pushpop: batch 7: the loss is nan\n"


def test_evaluate_shows_a_range_or_a_row_a_length(tmp_path: Path, capsys: Captured) -> None:
    train(tiny(), tmp_path)
    main(["evaluate", str(tmp_path), "--lengths", "4,8,16", "--sequences", "3"])
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{tmp_path} on copy, 3 sequences a row"
    assert [line.split()[0] for line in out[1:]] == ["lengths", "4", "8", "16"]
    main(["evaluate", str(tmp_path), "--lengths", "4-9", "--sequences", "3"])
    assert capsys.readouterr().out.splitlines()[2].split()[:3] == ["4-9", "0.000", "0.000"]


def test_evaluate_takes_an_unfinished_run_and_a_saved_model(
    tmp_path: Path, capsys: Captured
) -> None:
    train(tiny(), tmp_path / "run")
    (tmp_path / "run" / "report.json").unlink()
    main(["evaluate", str(tmp_path / "run"), "--lengths", "5", "--sequences", "3"])
    assert "run after batch 24 on copy" in capsys.readouterr().out
    model = small_model(vocabulary=get_task("copy").vocabulary)
    model.save_pretrained(tmp_path / "model")
    args = ["evaluate", str(tmp_path / "model"), "--lengths", "5", "--sequences", "3"]
    assert "does not say what it was trained on; give --task" in refused(args, capsys)
    main([*args, "--task", "reverse"])
    assert "model on reverse" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [("gone", "gone: no such folder"), ("gone --lengths 3,x", "lengths 'x': expected")],
)
def test_evaluate_says_in_one_line_what_is_wrong(
    given: str, message: str, capsys: Captured
) -> None:
    assert message in refused(["evaluate", *given.split()], capsys)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_saves_and_exits_with_its_code(name: str, code: int, tmp_path: Path) -> None:
    args = arguments(steps=10**6, evaluate_every=10**6, report_every=20, checkpoint_every=10**6)
    command = [sys.executable, "-m", "pushpop.cli", *args, "--run", str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if line.startswith("batch 40"):
                break
        process.send_signal(getattr(signal, name))
        rest = process.stdout.read().splitlines()
        assert process.wait(timeout=60) == code
        assert process.stderr.read() == ""
    assert rest[-1].startswith("stopped after batch ")
    assert len(os.listdir(tmp_path / "checkpoints")) == 1


def test_a_killed_command_goes_on_by_itself(tmp_path: Path) -> None:
    args = arguments(steps=400, report_every=20, evaluate_every=300, checkpoint_every=20)
    command = [sys.executable, "-m", "pushpop.cli", *args, "--run"]
    with subprocess.Popen([*command, str(tmp_path / "killed")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(b"batch 100"):
                break
        time.sleep(0.01)
        process.kill()
    for name in ("killed", "straight"):
        main([*args, "--run", str(tmp_path / name)])
    assert remains(tmp_path / "killed") == remains(tmp_path / "straight")


def test_the_live_view_shows_progress_and_the_end(tmp_path: Path) -> None:
    console = Console(file=StringIO(), force_terminal=True, width=100)
    train(tiny(), tmp_path, LiveView(console))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for text in ("queue-lstm", "24 of 24", "perplexity", "batches/s", "up to", "train 0.", "final"):
        assert text in shown


def test_a_sparkline_is_logarithmic_and_ends_with_the_latest() -> None:
    assert sparkline([]) == ""
    assert sparkline([1.0]) == "▁"
    assert sparkline([129.0, 129**0.5, 1.0]) == "█▅▁"
    assert len(sparkline([2.0] * 100)) == 40
