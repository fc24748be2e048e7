"""Devices by name: read without torch, found or refused, and what a run saves of them.

What needs a GPU is not tested here; where torch finds one, the tests of its absence are skipped.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pushpop import Transducer
from pushpop.cli import main
from pushpop.devices import find_device, read_device, resolve_device
from pushpop.errors import InputError
from pushpop.training import RunDirectory, TrainConfig, train
from tests.training.runs import remains, tiny

no_gpu = pytest.mark.skipif(torch.cuda.device_count() > 0, reason="there is a GPU here")
no_mps = pytest.mark.skipif(torch.backends.mps.is_available(), reason="this is an Apple machine")


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:0", "cuda:12", "mps", "auto"])
def test_names_are_read_as_they_are(name: str) -> None:
    assert read_device("device", name) == name
    assert TrainConfig(device=name).device == name


@pytest.mark.parametrize(
    "given", ["gpu", "meta", "cuda:", "cuda:-1", "cuda:01", "CPU", "", 0, None]
)
def test_other_names_are_refused(given: Any) -> None:
    with pytest.raises(InputError, match="expected cpu, cuda, cuda:N, mps or auto"):
        read_device("device", given)


@no_gpu
def test_auto_without_a_gpu_is_the_cpu() -> None:
    assert resolve_device("auto") == "cpu"
    assert find_device("auto") == torch.device("cpu")


@no_gpu
@pytest.mark.parametrize(
    ("asked", "processes", "message"),
    [
        ("cuda", 1, "device is 'cuda', and torch finds 0 GPUs: expected 1 or more; --device cpu"),
        ("cuda:1", 1, "device is 'cuda:1', and torch finds 0 GPUs: expected 2 or more"),
        ("cuda", 4, "torch finds 0 GPUs: expected 4 or more"),
        ("cuda:1", 2, "with 2 processes: expected --device cpu, or --device cuda for a"),
        ("mps", 2, "with 2 processes: expected --device cpu, or --device cuda for a"),
    ],
)
def test_a_device_that_is_not_there_is_named(asked: str, processes: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve_device(asked, processes)


@no_mps
def test_an_apple_gpu_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="device is 'mps', and torch finds no GPU of Apple's"):
        find_device("mps")


@no_gpu
def test_auto_trains_as_the_cpu_does_and_is_saved_as_such(tmp_path: Path) -> None:
    train(tiny(device="auto", steps=6), tmp_path / "auto")
    train(tiny(steps=6), tmp_path / "cpu")
    assert remains(tmp_path / "auto") == remains(tmp_path / "cpu")
    assert json.loads((tmp_path / "auto" / "training.json").read_text())["device"] == "cpu"
    model = Transducer.from_pretrained(tmp_path / "auto")
    assert model.metadata["training"]["device"] == "cpu"


@no_gpu
def test_a_run_of_a_device_that_is_not_here_goes_on_elsewhere_when_told_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    train(tiny(steps=6), run)
    written = json.loads((run / "training.json").read_text())
    (run / "training.json").write_text(json.dumps({**written, "device": "cuda:0", "steps": 12}))
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--resume", str(run)])
    told = capsys.readouterr()
    assert told.out == ""
    assert "device is 'cuda:0', and torch finds 0 GPUs" in told.err
    assert "--device cpu goes without one" in told.err
    assert RunDirectory(run).config().device == "cuda:0"  # nothing was touched
    main(["train", "--resume", str(run), "--device", "cpu"])
    assert "device was cuda:0, is cpu" in capsys.readouterr().out
    assert RunDirectory(run).config().device == "cpu"
    train(tiny(steps=12), tmp_path / "straight")
    assert remains(run) == remains(tmp_path / "straight")


def test_the_report_of_a_finished_run_needs_no_device(tmp_path: Path) -> None:
    run = tmp_path / "run"
    report = train(tiny(steps=6), run)
    written = json.loads((run / "training.json").read_text())
    (run / "training.json").write_text(json.dumps({**written, "device": "cuda:7"}))
    before = (run / "training.json").read_bytes()
    main(["train", "--resume", str(run)])
    main(["train", "--resume", str(run), "--device", "cpu"])
    assert train(tiny(steps=6), run) == report
    assert (run / "training.json").read_bytes() == before


@no_gpu
@pytest.mark.parametrize(
    "command",
    [
        "train copy --device cuda --run RUN",
        "evaluate copy-queue --device cuda",
        "transduce copy-queue --device cuda",
        "serve copy-queue --port 0 --device cuda",
    ],
)
def test_commands_say_in_a_line_that_there_is_no_gpu(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = command.replace("RUN", str(tmp_path / "run")).split()
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "device is 'cuda', and torch finds 0 GPUs: expected 1 or more" in told.err
    assert not (tmp_path / "run").exists()


@no_gpu
def test_evaluate_runs_on_auto(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--lengths", "4", "--sequences", "3"]
    main(["evaluate", "copy-queue", *options, "--device", "auto"])
    first = capsys.readouterr().out
    main(["evaluate", "copy-queue", *options])
    assert capsys.readouterr().out == first


def test_fit_takes_a_device() -> None:
    pairs = [("a b", "x y"), ("b a", "y x")] * 5
    small: dict[str, Any] = {"epochs": 1, "hidden": 4, "embedding": 4, "memory_width": 4}
    model = Transducer.fit(pairs, device="cpu", **small)
    assert model.metadata["training"]["device"] == "cpu"
    with pytest.raises(InputError, match="device is 'gpu'"):
        Transducer.fit(pairs, device="gpu", **small)
