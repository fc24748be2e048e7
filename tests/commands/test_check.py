"""`pushpop check` on the CPU; no GPU was there to run the rest of it on."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pushpop import verification
from pushpop.cli import main
from pushpop.memory.backends import parallel
from pushpop.verification import agreement


@pytest.fixture
def stacks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "MEMORY_NAMES", ("stack",))
    monkeypatch.setattr(verification, "KINDS", ("stack",))


def test_everything_agrees_here_and_is_written_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "check.json"
    main(["check", "--quick", "--device", "cpu", "--json", str(path)])
    shown = capsys.readouterr().out
    figures = json.loads(path.read_text())
    count = len(figures["comparisons"])
    assert f"all {count} comparisons with the equations agree" in shown
    assert "WRONG" not in shown
    assert figures["machine"]["torch"] == torch.__version__
    assert figures["machine"]["device"] == "cpu"
    assert all(each["agrees"] for each in figures["comparisons"])
    whats = {each["what"] for each in figures["comparisons"]}
    assert {"stack", "queue", "deque", "superposition", "tape", "DeepLSTM"} <= whats
    assert {f"MemoryRNN {cell} deque" for cell in ("lstm", "gru", "rnn")} <= whats
    times = figures["milliseconds"]["cpu"]
    assert set(times["memories"]["queue"]) == {"fused", "parallel", "reference"}
    assert {"nn.LSTM", "stack fused", "stack step by step"} <= set(times["layers"])


@pytest.mark.usefixtures("stacks_only")
def test_a_wrong_backend_is_named_and_the_exit_code_is_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = parallel.run

    def slightly_off(*given: Any) -> Any:
        reads, *cells = right(*given)
        return reads * 1.01, *cells

    monkeypatch.setattr(parallel, "run", slightly_off)
    with pytest.raises(SystemExit, match="1"):
        main(["check", "--quick", "--device", "cpu"])
    shown = capsys.readouterr().out
    assert "WRONG: stack, parallel, float64 on cpu, ties: reads differs by 1.0e-02" in shown
    assert "comparisons with the equations are wrong" in shown
    assert "milliseconds" in shown


@pytest.mark.usefixtures("stacks_only")
def test_a_backend_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*given: Any) -> Any:
        raise RuntimeError("out of shared memory")

    monkeypatch.setattr(parallel, "run", fail)
    with pytest.raises(SystemExit, match="1"):
        main(["check", "--quick", "--device", "cpu"])
    shown = capsys.readouterr().out
    assert "stack, parallel, float32 on cpu, ties: RuntimeError: out of shared memory" in shown
    assert "MemoryRNN stack" in shown
    assert "milliseconds" not in shown  # nothing is timed where something fails


@pytest.mark.skipif(torch.cuda.device_count() > 0, reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["check", "--device", "cuda"])
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "torch finds 0 GPUs" in told.err
