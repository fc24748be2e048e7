"""TensorBoard shows what the log has: every point once, whatever stopped the run."""

import json
import sys
from pathlib import Path

import pytest

from pushpop import Transducer
from pushpop.cli import main
from pushpop.errors import InputError
from pushpop.training import RunDirectory, train
from pushpop.training.view import points
from tests.training.runs import Killed, at_call, killed, remains, tiny

Points = dict[str, list[tuple[int, float]]]


def shown(run: Path) -> Points:
    """The points that TensorBoard shows of a run."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    board.Reload()
    return {tag: [(p.step, p.value) for p in board.Scalars(tag)] for tag in board.Tags()["scalars"]}


def logged(run: Path) -> Points:
    found: Points = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        for tag, value in points(record):
            found.setdefault(tag, []).append((record["step"], pytest.approx(value)))
    return found


def test_every_number_of_the_log_is_a_point(tmp_path: Path) -> None:
    train(tiny(tensorboard=True), tmp_path)
    found = shown(tmp_path)
    assert found == logged(tmp_path)
    assert {"perplexity", "learning_rate", "longest", "test/coarse", "train/fine"} <= set(found)


@pytest.mark.parametrize("number", [2, 8, 15, 24])
def test_a_run_that_was_killed_shows_no_point_twice(number: int, tmp_path: Path) -> None:
    with at_call(Transducer, "objective", number, killed), pytest.raises(Killed):
        train(tiny(tensorboard=True), tmp_path)
    train(tiny(tensorboard=True), tmp_path)
    assert shown(tmp_path) == logged(tmp_path)


def test_the_board_changes_nothing_and_can_be_left_out_later(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "without")
    train(tiny(tensorboard=True, steps=10), tmp_path / "with")
    train(tiny(tensorboard=False), tmp_path / "with")
    assert not (tmp_path / "without" / "tensorboard").exists()
    assert remains(tmp_path / "with") == remains(tmp_path / "without")
    assert max(step for step, _ in shown(tmp_path / "with")["perplexity"]) == 9


def test_without_the_package_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(SystemExit) as left:
        main(["train", "copy", "--tensorboard", "--run", str(tmp_path / "run")])
    assert left.value.code == 2
    assert "pip install 'pushpop[tensorboard]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    occupy = at_call(RunDirectory, "open_log", 1, (tmp_path / "tensorboard").touch)
    with occupy, pytest.raises(InputError, match="tensorboard: cannot be written"):
        train(tiny(tensorboard=True), tmp_path)
